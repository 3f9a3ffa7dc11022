"""One statement has one value: the same in the rationals, as a polynomial, modulo p and in floats.

Each item of the table is a statement next to what it means in plain Python loops (plain_python.py). The items use every
rule of the walk and every kind of form; `test_the_table_is_complete` sees to that. Exponentials have a value of their
own in each number system, see test_exponentials.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import array_api_compat.numpy
import array_api_compat.torch
import numpy as np
import pytest
import torch
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st
from plain_python import (
    Matrix,
    apply,
    decay,
    dot,
    entrywise,
    inverse,
    minus,
    outer,
    plus,
    product,
    product_of,
    shifted_decay,
    table,
    times,
    transpose,
    unit,
)
from sympy import Basic, preorder_traversal

from derivations.language import (
    Algorithm,
    ChannelGate,
    Chunkwise,
    Closed,
    CumulativeProduct,
    FinalState,
    Form,
    Gamma,
    Gamma_shifted,
    Gamma_strict,
    GateProduct,
    I,
    K,
    M,
    M_strict,
    Ones,
    Parameter,
    PrecedingProduct,
    Q,
    Rational,
    Recurrence,
    RemainingProduct,
    RowProducts,
    S,
    Sequence,
    State,
    Statement,
    Symbol,
    Toeplitz,
    TokenRows,
    TokenSum,
    TotalProduct,
    Transport,
    UndefinedValue,
    V,
    Zeros,
    beta,
    block,
    d_k,
    d_v,
    diag,
    eye,
    gamma,
    i,
    j,
    k,
    n,
    norm_squared,
    q,
    reciprocal,
    s,
    scalar,
    sqrt,
    t,
    tau,
    total,
    trace,
    v,
)
from derivations.language.expressions import Exponential, Logarithm, ScalarExponential
from derivations.language.forms import Substituted, SumOfSquares
from derivations.language.symbols import Named
from numerics.algebras.contract import Algebra
from numerics.algebras.finite_field import FiniteField
from numerics.algebras.floats import Floats
from numerics.algebras.polynomials import Polynomials, RationalFunction
from numerics.algebras.rationals import Rationals
from numerics.evaluate import CHUNK, RULES, RootOf, evaluate
from numerics.run import run, run_on

PRIME = 2**31 - 1
POOL = [Fraction(p, q) for p in (-3, -2, -1, 0, 1, 2, 3) for q in (1, 1, 2)]
W, U = Sequence("W", n, d_k), Sequence("U", n, d_v)
w = W[t]
c = Symbol("c", real=True)
S_0 = Parameter("S_0", d_v, d_k)
alpha = ChannelGate("alpha", n, d_k)
G, H = State("G", d_v, d_k), State("H", d_k, d_k)


@dataclass(frozen=True)
class Point:
    """Sizes and fractions: what a statement is evaluated at. `x.K` is the matrix of K, as a list of rows."""

    n: int
    d_k: int
    d_v: int
    C: int
    entries: dict[str, Matrix]

    def __getattr__(self, name: str) -> Matrix:
        return self.entries[name]

    def gates(self, name: str) -> list[Any]:
        return [row[0] for row in self.entries[name]]

    def blocks(self) -> Iterator[Point]:
        """The point cut into blocks of C tokens."""
        for first in range(0, self.n, self.C):
            last = min(first + self.C, self.n)
            cut = {name: rows[first:last] for name, rows in self.entries.items() if len(rows) == self.n}
            yield Point(last - first, self.d_k, self.d_v, self.C, self.entries | cut)


Meaning = Callable[[Point], tuple[Matrix, ...] | Matrix]


@dataclass(frozen=True)
class Item:
    """A form and its meaning: the output, and the final states where there are any."""

    form: Form
    meaning: Meaning
    squares: tuple[Basic, ...] = ()

    def expected(self, x: Point) -> tuple[Matrix, ...]:
        found = self.meaning(x)
        return found if isinstance(found, tuple) else (found,)


def masked(entry: Callable[[Point, int, int], Any]) -> Meaning:
    """o_i = sum_j entry(i, j) v_j."""

    def meaning(x: Point) -> Matrix:
        return table(x.n, x.d_v, lambda a, b: sum(entry(x, a, m) * x.V[m][b] for m in range(x.n)))

    return meaning


def scores(x: Point, a: int, b: int) -> Any:
    return dot(x.Q[a], x.K[b])


def lower_system(x: Point) -> Matrix:
    """I + D_beta ((K K^T) . M^-)."""
    below = lambda a, b: x.beta[a][0] * dot(x.K[a], x.K[b]) if a > b else Fraction(0)
    return table(x.n, x.n, lambda a, b: Fraction(int(a == b)) + below(a, b))


def general_system(x: Point) -> Matrix:
    return plus(unit(x.n), product(x.Q, transpose(x.K)))


def scalars(x: Point, factor: Callable[[Point, int], Any]) -> Matrix:
    """Each row of V times a number."""
    return [[factor(x, a) * entry for entry in x.V[a]] for a in range(x.n)]


def recurrent(
    update: Callable[[Point, int, Matrix], Matrix], read: str = "after", start: str | None = None
) -> Callable[[Point], tuple[Matrix, Matrix]]:
    """One state S, d_v x d_k, read with q."""

    def meaning(x: Point) -> tuple[Matrix, Matrix]:
        state = x.entries[start] if start else table(x.d_v, x.d_k, lambda a, b: Fraction(0))
        rows = []
        for a in range(x.n):
            before, state = state, update(x, a, state)
            rows.append(apply(state if read == "after" else before, x.Q[a]))
        return rows, state

    return meaning


def write(x: Point, a: int) -> Matrix:
    return outer(x.V[a], x.K[a])


def delta(x: Point, a: int, state: Matrix) -> Matrix:
    """gamma S + beta (v - gamma S k) k^T."""
    faded = times(x.gamma[a][0], state)
    error = [value - guess for value, guess in zip(x.V[a], apply(faded, x.K[a]), strict=True)]
    return plus(faded, times(x.beta[a][0], outer(error, x.K[a])))


def two_states(x: Point) -> tuple[Matrix, ...]:
    """G and H both read the states before the token; so does the output."""
    g = table(x.d_v, x.d_k, lambda a, b: Fraction(0))
    h = unit(x.d_k)
    rows = []
    for a in range(x.n):
        rows.append(apply(product(g, h), x.Q[a]))
        g, h = plus(product(g, h), write(x, a)), plus(times(x.gamma[a][0], h), product(transpose(g), g))
    return rows, g, h


def chunked(x: Point) -> tuple[Matrix, Matrix]:
    """S <- 2 gamma_1..gamma_C S + V^T D_end K; a block reads the state before it, faded up to each token."""
    state, rows = table(x.d_v, x.d_k, lambda a, b: Fraction(0)), []
    for piece in x.blocks():
        gates = piece.gates("gamma")
        for a in range(piece.n):
            carried = times(product_of(gates[: a + 1]), [apply(state, piece.Q[a])])[0]
            own = [
                sum(decay(gates, a, m) * scores(piece, a, m) * piece.V[m][b] for m in range(piece.n))
                for b in range(x.d_v)
            ]
            rows.append([p + r for p, r in zip(carried, own, strict=True)])
        written = plus(*(times(product_of(gates[m + 1 :]), write(piece, m)) for m in range(piece.n)))
        state = plus(times(2 * product_of(gates), state), written)
    return rows, state


def chunked_after(x: Point) -> tuple[Matrix, Matrix]:
    """A block that reads the state after it, and that knows its own length: S <- c^n S + n V^T K."""
    state, rows = x.S_0, []
    for piece in x.blocks():
        written = plus(*(write(piece, m) for m in range(piece.n)))
        state = plus(times(x.c[0][0] ** piece.n, state), times(piece.n, written))
        rows += [apply(state, query) for query in piece.Q]
    return rows, state


def transported(ascending: bool) -> Meaning:
    """q_i^T F_i ... F_{j+1} k_j with F = gamma I - w w^T, or the factors the other way round."""

    def entry(x: Point, a: int, b: int) -> Any:
        if a < b:
            return Fraction(0)
        factors = [
            minus(times(x.gamma[m][0], unit(x.d_k)), outer(x.W[m], x.K[m]))
            for m in (range(b + 1, a + 1) if ascending else range(a, b, -1))
        ]
        return dot(x.Q[a], apply(product(unit(x.d_k), *factors), x.K[b]))

    return lambda x: table(x.n, x.n, lambda a, b: entry(x, a, b))


def forward_defined(x: Point) -> Matrix:
    """u_t = v_t - sum_{j<t} u_j (k_j^T k_t), then o_t = sum_{j<=t} u_j (k_j^T q_t)."""
    u: Matrix = []
    for a in range(x.n):
        known = [sum(u[m][b] * dot(x.K[m], x.K[a]) for m in range(a)) for b in range(x.d_v)]
        u.append([value - part for value, part in zip(x.V[a], known, strict=True)])
    return table(x.n, x.d_v, lambda a, b: sum(u[m][b] * scores(x, a, m) for m in range(a + 1)))


def gates_of(x: Point, first: int, last: int) -> list[Any]:
    """alpha_first . ... . alpha_last, channel by channel; positions are counted from 0."""
    return [product_of([row[b] for row in x.alpha[first : last + 1]]) for b in range(x.d_k)]


def faded_by_channel(x: Point) -> tuple[Matrix, Matrix]:
    """A block reads the state before it, faded up to each token, and fades what it writes up to its end."""
    state, rows = table(x.d_v, x.d_k, lambda a, b: Fraction(0)), []
    for piece in x.blocks():
        last = piece.n - 1
        for a in range(piece.n):
            rows.append(apply(state, [e * g for e, g in zip(piece.Q[a], gates_of(piece, 0, a), strict=True)]))
        kept = [[e * g for e, g in zip(row, gates_of(piece, 0, last), strict=True)] for row in state]
        keys = [[e * g for e, g in zip(piece.K[a], gates_of(piece, a + 1, last), strict=True)] for a in range(piece.n)]
        state = plus(kept, *(outer(piece.V[a], keys[a]) for a in range(piece.n)))
    return rows, state


def convolution(x: Point, kernel: list[Any]) -> Matrix:
    """Entry (i, j) is c_{i-j+1}, positions counted from 1."""
    return table(x.n, x.n, lambda a, b: kernel[a - b] if a >= b else Fraction(0))


def halves(algebra: Any, K: Any, V: Any) -> Any:
    """K (K^T V), by the operations of the algebra."""
    return algebra.matmul(K, algebra.matmul(algebra.transpose(K), V))


def at(x: Point, **changed: Matrix) -> Point:
    return Point(x.n, x.d_k, x.d_v, x.C, x.entries | changed)


linear = Recurrence(S, update=S + v @ k.T, readout=S @ q)
factor = gamma[s] * eye(d_k) - W[s] @ K[s].T
plain_lower = I + diag(beta) @ (K @ K.T).hadamard(M_strict)

TABLE: dict[str, Item] = {
    # masks and constants
    "constants": Item(
        Closed(I @ V + Ones(n, n) @ V - Zeros(n, d_v)), masked(lambda x, a, b: Fraction(int(a == b)) + 1)
    ),
    "causal mask": Item(
        Closed((Q @ K.T).hadamard(M) @ V), masked(lambda x, a, b: scores(x, a, b) if a >= b else Fraction(0))
    ),
    "strict mask": Item(
        Closed((Q @ K.T).hadamard(M_strict) @ V), masked(lambda x, a, b: scores(x, a, b) if a > b else Fraction(0))
    ),
    "decay": Item(
        Closed((Q @ K.T).hadamard(Gamma) @ V), masked(lambda x, a, b: scores(x, a, b) * decay(x.gates("gamma"), a, b))
    ),
    "strict decay": Item(
        Closed(Gamma_strict @ V), masked(lambda x, a, b: decay(x.gates("gamma"), a, b) if a > b else Fraction(0))
    ),
    "shifted decay": Item(Closed(Gamma_shifted @ V), masked(lambda x, a, b: shifted_decay(x.gates("gamma"), a, b))),
    "transposed masks": Item(
        Closed((M_strict.T + Gamma.T) @ V), masked(lambda x, a, b: int(a < b) + decay(x.gates("gamma"), b, a))
    ),
    "cumulative product": Item(
        Closed(diag(CumulativeProduct(gamma)) @ V),
        lambda x: scalars(x, lambda x, a: product_of(x.gates("gamma")[: a + 1])),
    ),
    "preceding product": Item(
        Closed(diag(PrecedingProduct(gamma)) @ V),
        lambda x: scalars(x, lambda x, a: product_of(x.gates("gamma")[:a])),
    ),
    "preceding product of channel gates": Item(
        Closed(Q.hadamard(PrecedingProduct(alpha))),
        lambda x: table(x.n, x.d_k, lambda a, b: x.Q[a][b] * gates_of(x, 0, a - 1)[b]),
    ),
    "remaining product": Item(
        Closed(diag(RemainingProduct(gamma)) @ V),
        lambda x: scalars(x, lambda x, a: product_of(x.gates("gamma")[a + 1 :])),
    ),
    "total product": Item(
        Closed(TotalProduct(gamma) * V), lambda x: scalars(x, lambda x, a: product_of(x.gates("gamma")))
    ),
    "decay of an expression": Item(
        Closed((Q @ K.T).hadamard(Gamma).hadamard(Gamma_strict) @ diag(beta) @ V),
        masked(lambda x, a, b: scores(x, a, b) * decay(x.gates("gamma"), a, b) ** 2 * x.beta[b][0] if a > b else 0),
    ),
    # a gate for each channel
    "products of channel gates": Item(
        Closed(Q.hadamard(CumulativeProduct(alpha)) - K.hadamard(RemainingProduct(alpha))),
        lambda x: table(
            x.n, x.d_k, lambda a, b: x.Q[a][b] * gates_of(x, 0, a)[b] - x.K[a][b] * gates_of(x, a + 1, x.n)[b]
        ),
    ),
    "total of channel gates": Item(
        Closed(Q @ diag(total(alpha))),
        lambda x: [[e * g for e, g in zip(row, gates_of(x, 0, x.n), strict=True)] for row in x.Q],
    ),
    "recurrence with a gate for each channel": Item(
        Recurrence(S, update=S @ diag(alpha[t]) + v @ k.T, readout=S @ q),
        recurrent(
            lambda x, a, state: plus(
                [[e * g for e, g in zip(row, x.alpha[a], strict=True)] for row in state], write(x, a)
            )
        ),
    ),
    "blocks with a gate for each channel": Item(
        Chunkwise(
            S,
            update=S @ diag(total(alpha)) + V.T @ K.hadamard(RemainingProduct(alpha)),
            readout=Q.hadamard(CumulativeProduct(alpha)) @ S.T,
        ),
        faded_by_channel,
    ),
    # one over each entry; a zero has none
    "reciprocal": Item(Closed(reciprocal(K)), lambda x: table(x.n, x.d_k, lambda a, b: 1 / x.K[a][b])),
    "quotient": Item(
        Closed(Q.hadamard(reciprocal(K + W)).hadamard(Q)),
        lambda x: table(x.n, x.d_k, lambda a, b: x.Q[a][b] ** 2 / (x.K[a][b] + x.W[a][b])),
    ),
    "divided by products of channel gates": Item(
        Closed(M @ K.hadamard(reciprocal(CumulativeProduct(alpha)))),
        lambda x: table(x.n, x.d_k, lambda a, b: sum(Fraction(x.K[m][b]) / gates_of(x, 0, m)[b] for m in range(a + 1))),
    ),
    # blocks, row products, convolutions
    "blocks of a matrix": Item(
        Closed(block([[Q, V], [K, -V]])),
        lambda x: [
            *(a + b for a, b in zip(x.Q, x.V, strict=True)),
            *(a + times(-1, [b])[0] for a, b in zip(x.K, x.V, strict=True)),
        ],
    ),
    "product of blocks": Item(
        Closed(block([[Q, V, V]]) @ block([[K.T], [V.T], [V.T]]) @ V),
        masked(lambda x, a, b: scores(x, a, b) + 2 * dot(x.V[a], x.V[b])),
    ),
    "system of blocks": Item(
        Closed(block([[eye(d_k), Zeros(d_k, d_v)], [S_0, eye(d_v)]]).I @ block([[K.T], [V.T]])),
        lambda x: [*transpose(x.K), *minus(transpose(x.V), product(x.S_0, transpose(x.K)))],
    ),
    "blocks in a token sum": Item(
        TokenRows(TokenSum(gamma[j] * block([[K[j]], [q]]), j, 1, t)),
        lambda x: table(
            x.n,
            2 * x.d_k,
            lambda a, b: sum(x.gamma[m][0] * (x.K[m] + x.Q[a])[b] for m in range(a + 1)),
        ),
    ),
    "row products": Item(
        Closed(RowProducts(Q, V)), lambda x: [[e * f for e in x.Q[a] for f in x.V[a]] for a in range(x.n)]
    ),
    "inner products of row products": Item(
        Closed((RowProducts(Q, V) @ RowProducts(K, W @ S_0.T).T).hadamard(M) @ V),
        masked(lambda x, a, b: scores(x, a, b) * dot(x.V[a], apply(x.S_0, x.W[b])) if b <= a else Fraction(0)),
    ),
    "row products in a token sum": Item(
        TokenRows(TokenSum(RowProducts(K[j].T, V[j].T).T, j, 1, t)),
        lambda x: [
            [sum(x.K[m][b] * x.V[m][c] for m in range(a + 1)) for b in range(x.d_k) for c in range(x.d_v)]
            for a in range(x.n)
        ],
    ),
    "convolution": Item(
        Closed(Toeplitz(gamma) @ V), masked(lambda x, a, b: x.gates("gamma")[a - b] if b <= a else Fraction(0))
    ),
    "convolution with an expression": Item(
        Closed(V.T @ Toeplitz(Q @ K.T @ beta - gamma)),
        lambda x: product(
            transpose(x.V),
            convolution(x, [row[0] for row in minus(product(x.Q, transpose(x.K), x.beta), x.gamma)]),
        ),
    ),
    "convolution inverted": Item(
        Closed(Toeplitz(gamma).I @ V), lambda x: product(inverse(convolution(x, x.gates("gamma"))), x.V)
    ),
    "convolution inverted on the right": Item(
        Closed(V.T @ Toeplitz(gamma).I.T), lambda x: transpose(product(inverse(convolution(x, x.gates("gamma"))), x.V))
    ),
    # inverses: alone, before, behind, between; of every structure
    "inverse alone": Item(Closed((I + Q @ K.T).I), lambda x: inverse(general_system(x))),
    "general system": Item(Closed((I + Q @ K.T).I @ V), lambda x: product(inverse(general_system(x)), x.V)),
    "general system from the right": Item(
        Closed(V.T @ (I + Q @ K.T).I), lambda x: product(transpose(x.V), inverse(general_system(x)))
    ),
    "two systems from the right": Item(
        Closed(V.T @ plain_lower.I @ (I + Q @ K.T).I),
        lambda x: product(transpose(x.V), inverse(lower_system(x)), inverse(general_system(x))),
    ),
    "inverse of a product": Item(
        Closed((plain_lower @ (I + Q @ K.T)).I @ V),
        lambda x: product(inverse(product(lower_system(x), general_system(x))), x.V),
    ),
    "unit lower system": Item(
        Closed(plain_lower.I @ diag(beta) @ V),
        lambda x: product(inverse(lower_system(x)), scalars(x, lambda x, a: x.beta[a][0])),
    ),
    "lower system": Item(
        Closed((Q @ K.T).hadamard(M).I @ V),
        lambda x: product(inverse(table(x.n, x.n, lambda a, b: scores(x, a, b) if a >= b else Fraction(0))), x.V),
    ),
    "upper system": Item(
        Closed((Q @ K.T).hadamard(Gamma).T.I @ V),
        lambda x: product(inverse(table(x.n, x.n, lambda a, b: scores(x, b, a) * decay(x.gates("gamma"), b, a))), x.V),
    ),
    "upper system from the right": Item(
        Closed(V.T @ plain_lower.T.I), lambda x: product(transpose(x.V), transpose(inverse(lower_system(x))))
    ),
    "diagonal system": Item(Closed(diag(beta).I @ V), lambda x: scalars(x, lambda x, a: 1 / x.beta[a][0])),
    # scalars
    "trace": Item(
        Closed(trace(Q @ K.T) * V), lambda x: scalars(x, lambda x, a: sum(scores(x, b, b) for b in range(x.n)))
    ),
    "polynomial of scalars": Item(
        TokenRows((1 + beta[t] * gamma[t] ** 3 - Rational(1, 3) * c) * v),
        lambda x: scalars(x, lambda x, a: 1 + x.beta[a][0] * x.gamma[a][0] ** 3 - x.c[0][0] / 3),
    ),
    "division": Item(
        TokenRows(v / (norm_squared(k) * gamma[t] ** 2) - scalar(k.T @ q) / 5 * v),
        lambda x: scalars(x, lambda x, a: 1 / (dot(x.K[a], x.K[a]) * x.gamma[a][0] ** 2) - scores(x, a, a) / 5),
    ),
    "power of the length": Item(Closed(c**n * V), lambda x: scalars(x, lambda x, a: x.c[0][0] ** x.n)),
    "length as a scalar": Item(
        Closed(n * V - V / (n + 1)), lambda x: scalars(x, lambda x, a: x.n - Fraction(1, x.n + 1))
    ),
    "position as a scalar": Item(
        TokenRows(t * v + c / t * v - (n - t) * v),
        lambda x: scalars(x, lambda x, a: a + 1 + x.c[0][0] / (a + 1) - (x.n - a - 1)),
    ),
    "running position as a scalar": Item(
        TokenRows(TokenSum((t - j) * (V[j] @ (K[j].T @ q)) + j * V[j], j, 1, t)),
        masked(lambda x, a, b: (a - b) * scores(x, a, b) + b + 1 if b <= a else Fraction(0)),
    ),
    "negative power of a position": Item(
        TokenRows(c ** (1 - t) * v), lambda x: scalars(x, lambda x, a: 1 / x.c[0][0] ** a)
    ),
    "square roots": Item(
        TokenRows(sqrt(beta[t]) / sqrt(gamma[t]) * v + gamma[t] ** Rational(3, 2) * v),
        lambda x: scalars(
            x, lambda x, a: root(x.beta[a][0]) / root(x.gamma[a][0]) + x.gamma[a][0] * root(x.gamma[a][0])
        ),
        squares=(beta, gamma),
    ),
    "gate product": Item(
        TokenRows(GateProduct(1 - gamma[tau], tau, 2, t) * v),
        lambda x: scalars(x, lambda x, a: product_of([1 - gate for gate in x.gates("gamma")[1 : a + 1]])),
    ),
    "signs": Item(
        Closed(-(Q @ K.T) @ V - 2 * V + (-Q) @ (K.T @ V)),
        lambda x: minus(times(-2, product(x.Q, transpose(x.K), x.V)), times(2, x.V)),
    ),
    # sums over tokens
    "token sum": Item(
        TokenRows(TokenSum(V[j] @ (K[j].T @ q), j, 1, t)), masked(lambda x, a, b: scores(x, a, b) if b <= a else 0)
    ),
    "empty token sum": Item(
        TokenRows(TokenSum(V[j] @ (K[j].T @ q), j, 1, t - 1)), masked(lambda x, a, b: scores(x, a, b) if b < a else 0)
    ),
    "sum without a product": Item(
        TokenRows(TokenSum(gamma[j] * (V[j] + v), j, 1, n)),
        lambda x: table(x.n, x.d_v, lambda a, b: sum(x.gamma[m][0] * (x.V[m][b] + x.V[a][b]) for m in range(x.n))),
    ),
    "sum of the same": Item(TokenRows(TokenSum(v, j, 2, t)), lambda x: scalars(x, lambda x, a: a)),
    "decayed sum": Item(
        TokenRows(TokenSum(GateProduct(gamma[tau], tau, j + 1, t) * (V[j] @ (K[j].T @ q)), j, 1, t)),
        masked(lambda x, a, b: scores(x, a, b) * decay(x.gates("gamma"), a, b)),
    ),
    "sum with products up to its index": Item(
        TokenRows(TokenSum(GateProduct(gamma[tau], tau, 1, j) * V[j], j, 1, t)),
        masked(lambda x, a, b: product_of(x.gates("gamma")[: b + 1]) if b <= a else Fraction(0)),
    ),
    "sum with powers": Item(
        TokenRows(TokenSum(c ** (t - j) * V[j] @ (K[j].T @ q), j, 1, t)),
        masked(lambda x, a, b: scores(x, a, b) * x.c[0][0] ** (a - b) if b <= a else Fraction(0)),
    ),
    "sum with growing powers": Item(
        TokenRows(TokenSum(c**j * V[j], j, 1, t)), masked(lambda x, a, b: x.c[0][0] ** (b + 1) if b <= a else 0)
    ),
    "shifted sum": Item(
        TokenRows(TokenSum(V[j + 1] @ (K[j].T @ q), j, 1, t - 1)),
        masked(lambda x, a, b: scores(x, a, b - 1) if 1 <= b <= a else Fraction(0)),
    ),
    "double sum": Item(
        TokenRows(TokenSum(TokenSum(V[i] @ (K[j].T @ Q[i]), j, 1, i), i, 1, t)),
        masked(lambda x, a, b: sum(scores(x, b, m) for m in range(b + 1)) if b <= a else Fraction(0)),
    ),
    "sum of solutions": Item(
        TokenRows(TokenSum((eye(d_k) + K[j] @ K[j].T).I @ q, j, 1, t)),
        lambda x: [
            apply(plus(*(inverse(plus(unit(x.d_k), outer(x.K[m], x.K[m]))) for m in range(a + 1))), x.Q[a])
            for a in range(x.n)
        ],
    ),
    "sum of diagonals and traces": Item(
        TokenRows(TokenSum(trace(K[j] @ q.T) * diag(K[j]) @ q, j, 1, n)),
        lambda x: table(x.n, x.d_k, lambda a, b: sum(scores(x, a, m) * x.K[m][b] * x.Q[a][b] for m in range(x.n))),
    ),
    "sum of squares": Item(
        SumOfSquares((beta[j], K[j], j, n), (c, V[j] - V[j], j, n)),
        lambda x: [[sum(x.beta[m][0] * dot(x.K[m], x.K[m]) for m in range(x.n))]],
    ),
    # recurrences
    "read after the write": Item(linear, recurrent(lambda x, a, state: plus(state, write(x, a)))),
    "read before the write": Item(
        linear.reading("before"), recurrent(lambda x, a, state: plus(state, write(x, a)), read="before")
    ),
    "initial state": Item(
        Recurrence(S, update=gamma[t] * S + v @ k.T, readout=S @ q, initial=S_0),
        recurrent(lambda x, a, state: plus(times(x.gamma[a][0], state), write(x, a)), start="S_0"),
    ),
    "delta rule": Item(
        Recurrence(S, update=gamma[t] * S + beta[t] * (v - gamma[t] * S @ k) @ k.T, readout=S @ q), recurrent(delta)
    ),
    "two states": Item(
        Recurrence(
            (G, H),
            update=(G @ H + v @ k.T, gamma[t] * H + G.T @ G),
            readout=G @ H @ q,
            read="before",
            initial=(Zeros(d_v, d_k), eye(d_k)),
        ),
        two_states,
    ),
    "constants in the place of gates": Item(
        Recurrence(S, update=gamma[t] * S + v @ k.T, readout=beta[t] * S @ q).substitute(
            {gamma[t]: Rational(2), beta: Rational(1, 2) * Ones(n, 1)}
        ),
        lambda x: (lambda found: (times(Fraction(1, 2), found[0]), found[1]))(
            recurrent(lambda x, a, state: plus(times(2, state), write(x, a)))(x)
        ),
    ),
    "constants in the place of gates, row by row": Item(
        TokenRows(gamma[t] * v).substitute({gamma[t]: Rational(2)}), lambda x: times(2, x.V)
    ),
    "reading nothing": Item(
        Recurrence(S, update=S + v @ k.T, readout=Ones(d_v, 1)),
        lambda x: (table(x.n, x.d_v, lambda a, b: 1), plus(*(write(x, m) for m in range(x.n)))),
    ),
    "blocks": Item(
        Chunkwise(
            S,
            update=2 * TotalProduct(gamma) * S + V.T @ diag(RemainingProduct(gamma)) @ K,
            readout=diag(CumulativeProduct(gamma)) @ Q @ S.T + (Q @ K.T).hadamard(Gamma) @ V,
        ),
        chunked,
    ),
    "blocks read afterwards": Item(
        Chunkwise(
            S,
            update=c**n * S + V.T @ (Ones(n, 1) @ Ones(1, n)).hadamard(I) @ K @ (trace(I) * eye(d_k)),
            readout=Q @ S.T,
            read="after",
            initial=S_0,
        ),
        chunked_after,
    ),
    "last state": Item(linear.final(), lambda x: plus(*(write(x, m) for m in range(x.n)))),
    "read off the last state": Item(
        FinalState(linear, S.T @ S),
        lambda x: product(*(lambda z: (transpose(z), z))(plus(*(write(x, m) for m in range(x.n))))),
    ),
    # entry by entry
    "transport": Item(Transport(Q[i], factor, K[j]), transported(ascending=False)),
    "transport in ascending order": Item(Transport(Q[i], factor, K[j], order="ascending"), transported(ascending=True)),
    # forms made of forms
    "substituted": Item(
        Closed(c * (Q @ K.T).hadamard(M) @ V).substitute({Q: K, K: Q, v: gamma[t] * v + v, c: 2 * c}),
        masked(lambda x, a, b: 2 * x.c[0][0] * dot(x.K[a], x.Q[b]) * (x.gamma[b][0] + 1) if a >= b else Fraction(0)),
    ),
    "substituted gates": Item(
        Closed(Gamma @ V).substitute({gamma[t]: gamma[t] * beta[t], V: linear}),
        lambda x: product(
            table(
                x.n,
                x.n,
                lambda a, b: decay([g * m for g, m in zip(x.gates("gamma"), x.gates("beta"), strict=True)], a, b),
            ),
            recurrent(lambda x, a, state: plus(state, write(x, a)))(x)[0],
        ),
    ),
    "defined token by token": Item(
        TokenRows(TokenSum(U[j] @ (K[j].T @ q), j, 1, t)).where(U[t], v - TokenSum(U[j] @ (K[j].T @ k), j, 1, t - 1)),
        forward_defined,
    ),
    "defined by a form": Item(
        Chunkwise(S, update=S + U.T @ K, readout=Q @ S.T).where(U, linear),
        lambda x: chunk_reads(at(x, U=recurrent(lambda x, a, state: plus(state, write(x, a)))(x)[0])),
    ),
    "defined at once": Item(
        Closed(U + U).where(U, (Q @ K.T).hadamard(Gamma) @ V),
        masked(lambda x, a, b: 2 * scores(x, a, b) * decay(x.gates("gamma"), a, b)),
    ),
    "algorithm": Item(Algorithm(halves, inputs=(K, V), shape=(n, d_v)), lambda x: product(x.K, transpose(x.K), x.V)),
    "entrywise product of three": Item(
        Closed(V.hadamard(V).hadamard(Q @ K.T @ V)),
        lambda x: entrywise(entrywise(x.V, x.V), product(x.Q, transpose(x.K), x.V)),
    ),
}


def chunk_reads(x: Point) -> tuple[Matrix, Matrix]:
    state, rows = table(x.d_v, x.d_k, lambda a, b: Fraction(0)), []
    for piece in x.blocks():
        rows += [apply(state, query) for query in piece.Q]
        state = plus(state, *(outer(piece.U[m], piece.K[m]) for m in range(piece.n)))
    return rows, state


def root(square: Fraction) -> Fraction:
    """The root of a square of fractions from POOL."""
    return next(abs(p) for p in POOL if p * p == square)


# a point, and the values of its entries in each number system


def concrete(side: Any, sizes: tuple[int, int, int]) -> int:
    return int(side.xreplace(dict(zip((n, d_k, d_v), sizes, strict=True)))) if isinstance(side, Basic) else side


def inputs_of(form: Form) -> list[Any]:
    return sorted(form.symbols(), key=str)


def shape_at(symbol: Any, sizes: tuple[int, int, int]) -> tuple[int, int]:
    if not isinstance(symbol, Named):
        return 1, 1
    rows, columns = (concrete(side, sizes) for side in symbol.shape)
    return rows, columns


def point(item: Item, sizes: tuple[int, int, int], chunk: int, seed: int) -> Point:
    rng = random.Random(seed)
    entries = {}
    for symbol in inputs_of(item.form):
        rows, columns = shape_at(symbol, sizes)
        drawn = [[rng.choice(POOL) for _ in range(columns)] for _ in range(rows)]
        entries[str(symbol)] = [[x * x for x in row] for row in drawn] if symbol in item.squares else drawn
    return Point(*sizes, chunk, entries)


def dimensions(x: Point) -> dict[Any, int]:
    return {n: x.n, d_k: x.d_k, d_v: x.d_v, CHUNK: x.C}


def objects(rows: Matrix) -> np.ndarray:
    out = np.empty((len(rows), len(rows[0])), dtype=object)
    for a, row in enumerate(rows):
        for b, entry in enumerate(row):
            out[a, b] = entry
    return out


def residue(x: Fraction) -> int:
    return x.numerator * pow(x.denominator, PRIME - 2, PRIME) % PRIME


def values(item: Item, env: dict[Any, Any], algebra: Algebra) -> list[Any]:
    outcome = run(item.form, env, algebra)
    return [outcome.output, *outcome.states]


points = st.tuples(
    st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3)), st.integers(1, 3), st.integers(0, 2**32 - 1)
)
small_points = st.tuples(
    st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2)), st.integers(1, 2), st.integers(0, 2**32 - 1)
)
every_item = pytest.mark.parametrize("item", TABLE.values(), ids=TABLE.keys())


def expected_or_none(item: Item, x: Point) -> tuple[Matrix, ...] | None:
    note(f"at {x}")
    try:
        return item.expected(x)
    except (ZeroDivisionError, StopIteration):
        return None


@every_item
@given(drawn=points)
def test_rationals(item: Item, drawn: Any) -> None:
    x = point(item, *drawn)
    env = dimensions(x) | {symbol: objects(x.entries[str(symbol)]) for symbol in inputs_of(item.form)}
    expected = expected_or_none(item, x)
    if expected is None:
        with pytest.raises(UndefinedValue):
            values(item, env, Rationals())
        return
    found = values(item, env, Rationals())
    assert [value.tolist() for value in found] == [list(map(list, rows)) for rows in expected]


class TwoTokensAtOnce(FiniteField):
    """The residues, reading few enough tokens in one evaluation for a short sequence to need several."""

    tokens_at_once = 2


@every_item
@given(
    drawn=points,
    batch=st.integers(1, 3),
    like_a_dimension=st.booleans(),
    algebra=st.sampled_from([FiniteField(), TwoTokensAtOnce()]),
)
def test_residues(item: Item, drawn: Any, batch: int, like_a_dimension: bool, algebra: FiniteField) -> None:
    """With a leading dimension of independent points; as long as the sequence, so that a mix-up of the two shows."""
    (length, *_), *_ = sizes, chunk, seed = drawn
    trials = length if like_a_dimension else batch
    all_points = [point(item, sizes, chunk, seed + trial) for trial in range(trials)]
    expected = [expected_or_none(item, x) for x in all_points]
    assume(all(e is not None and not has_pole(e) for e in expected))
    env: dict[Any, Any] = dimensions(all_points[0])
    for symbol in inputs_of(item.form):
        stacked = np.array([[[residue(e) for e in row] for row in x.entries[str(symbol)]] for x in all_points])
        env[symbol] = stacked
        if symbol in item.squares:
            roots = [[[residue(root(e)) for e in row] for row in x.entries[str(symbol)]] for x in all_points]
            env[RootOf(symbol)] = np.array(roots)
    for number, found in enumerate(values(item, env, algebra)):
        whole = np.broadcast_to(found, (trials, *found.shape[-2:]))
        assert whole.tolist() == [[[residue(Fraction(e)) for e in row] for row in e[number]] for e in expected]


def has_pole(expected: tuple[Matrix, ...]) -> bool:
    return any(Fraction(entry).denominator % PRIME == 0 for rows in expected for row in rows for entry in row)


@cache
def symbolic(name: str, sizes: tuple[int, int, int], chunk: int) -> tuple[list[Any], list[tuple[str, int, int]]]:
    """The values of an item as polynomials (or rational functions), and where each generator sits."""
    item = TABLE[name]
    places = []
    for symbol in inputs_of(item.form):
        rows, columns = shape_at(symbol, sizes)
        places += [(str(symbol), a, b) for a in range(rows) for b in range(columns)]
    algebra = Polynomials([f"{symbol}_{a}_{b}" for symbol, a, b in places])
    env: dict[Any, Any] = {n: sizes[0], d_k: sizes[1], d_v: sizes[2], CHUNK: chunk}
    for symbol in inputs_of(item.form):
        rows, columns = shape_at(symbol, sizes)
        own = objects([[algebra.generator(f"{symbol}_{a}_{b}") for b in range(columns)] for a in range(rows)])
        env[symbol] = own * own if symbol in item.squares else own
        if symbol in item.squares:
            env[RootOf(symbol)] = own
    return values(item, env, algebra), places


@pytest.mark.parametrize("name", TABLE)
@given(drawn=small_points)
def test_polynomials_specialise(name: str, drawn: Any) -> None:
    """One value with all inputs symbolic gives the value at every point."""
    item, (sizes, chunk, seed) = TABLE[name], drawn
    x = point(item, sizes, chunk, seed)
    expected = expected_or_none(item, x)
    assume(expected is not None)
    found, places = symbolic(name, sizes, chunk)
    squares = {str(symbol) for symbol in item.squares}
    at_point = [
        root(x.entries[symbol][a][b]) if symbol in squares else x.entries[symbol][a][b] for symbol, a, b in places
    ]
    for value, rows in zip(found, expected, strict=True):
        assert [[specialised(entry, at_point) for entry in row] for row in value] == [
            [pytest.approx(entry, abs=0) for entry in row] for row in rows
        ]


def specialised(entry: Any, at_point: list[Fraction]) -> Fraction:
    """The value of a polynomial, term by term."""
    if isinstance(entry, RationalFunction):
        below = specialised(entry.denominator, at_point)
        assume(below != 0)
        return specialised(entry.numerator, at_point) / below
    total = Fraction(0)
    for exponents, coefficient in entry.to_dict().items():
        powers = [base ** int(e) for base, e in zip(at_point, exponents, strict=False)]
        total += Fraction(int(coefficient.p), int(coefficient.q)) * product_of(powers)
    return total


FLOATS = {
    "numpy": Floats(array_api_compat.numpy, np.float64),
    "torch": Floats(array_api_compat.torch, torch.float64),
}


FEW = max(2, settings.default.max_examples // 4)
"""Floats run the lines that residues run; what is left to see is their own arithmetic."""


@pytest.mark.parametrize("algebra", FLOATS.values(), ids=FLOATS.keys())
@every_item
@settings(max_examples=FEW)
@given(drawn=points, leading=st.sampled_from([(), (1,), (2,), (2, 2), "n"]))
def test_floats(item: Item, algebra: Floats, drawn: Any, leading: Any) -> None:
    sizes, chunk, seed = drawn
    batch = (sizes[0],) if leading == "n" else leading
    all_points = [point(item, sizes, chunk, seed + number) for number in range(int(np.prod(batch, initial=1)))]
    expected = [expected_or_none(item, x) for x in all_points]
    assume(None not in expected)
    env: dict[Any, Any] = dimensions(all_points[0])
    for symbol in inputs_of(item.form):
        stacked = np.array([x.entries[str(symbol)] for x in all_points], dtype=np.float64)
        env[symbol] = algebra.asarray(stacked.reshape(*batch, *stacked.shape[1:]))
    for number, found in enumerate(values(item, env, algebra)):
        exact = np.array([e[number] for e in expected], dtype=np.float64)
        exact = exact.reshape(*batch, *exact.shape[1:])
        found = np.broadcast_to(np.asarray(found), exact.shape)
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9 * (1 + abs(exact).max()))


ATTENTION = {name: item.form for name, item in TABLE.items() if item.form.shape == (n, n)} | {
    "sum of scaled terms": Closed(scalar(gamma.T @ beta) * Gamma - 2 * (Q @ K.T).hadamard(M) @ plain_lower.I),
    "transport of other inputs": Transport(Q[i], factor, K[j]).substitute({K: Q, gamma[t]: 1 - gamma[t]}),
    "defined": Closed(U @ U.T).where(U, linear),
}


@pytest.mark.parametrize("form", ATTENTION.values(), ids=ATTENTION.keys())
@given(drawn=points)
def test_attention_matrices_times_a_column(form: Form, drawn: Any) -> None:
    """A x without A is A times x."""
    column = Parameter("x", n)
    x = point(Item(form, lambda x: []), *drawn)
    env = dimensions(x) | {symbol: objects(x.entries[str(symbol)]) for symbol in inputs_of(form)}
    env[column] = objects([[Fraction(1 + 2 * a)] for a in range(x.n)])
    try:
        whole = run(form, env, Rationals()).output.tolist()
    except UndefinedValue:
        assume(False)
    assert run_on(form, column, env, Rationals()).tolist() == product(whole, env[column].tolist())


WITH_EXPONENTIALS = {Exponential, ScalarExponential, Logarithm}
"""exp(1) is e in floats, 2 in the rationals, 7 modulo p and a generator among polynomials: see test_exponentials.py."""


def test_the_table_is_complete() -> None:
    """Every rule of the walk and every kind of form occurs."""
    forms: set[type] = set()
    nodes: set[type] = set()
    for item in TABLE.values():
        for form in parts(item.form):
            forms.add(type(form))
            for e in form.expressions().values():
                nodes |= {type(a) for a in preorder_traversal(e)}
    unused = {rule for rule in RULES if not any(issubclass(node, rule) for node in nodes)}
    assert {rule.__name__ for rule in unused - WITH_EXPONENTIALS} == set()
    assert set(kinds(Form)) - forms == set()


def parts(form: Form) -> Iterator[Form]:
    yield form
    inner = [getattr(form, name, None) for name in ("form", "recurrence", "definition")]
    inner += form.mapping.values() if isinstance(form, Substituted) else []
    for part in inner:
        if isinstance(part, Form):
            yield from parts(part)


def kinds(base: type) -> Iterator[type]:
    for kind in base.__subclasses__():
        if kind.__module__ == Form.__module__:
            yield kind
            yield from kinds(kind)


class BySubstitution(Rationals):
    """The rationals without elimination."""

    def solve_general(self, a: Any, b: Any) -> Any:
        raise AssertionError("a triangular system is solved by elimination")


KERNELS = Toeplitz(gamma), Toeplitz(gamma).T, Toeplitz(gamma) @ Toeplitz(gamma), I + Toeplitz(gamma)


@pytest.mark.parametrize("system", [f for a in KERNELS for f in (a.I, a.I @ gamma, gamma.T @ a.I)], ids=str)
def test_convolutions_are_inverted_by_substitution(system: Statement) -> None:
    env = {n: 4, gamma: objects([[Fraction(e)] for e in (2, -1, 0, 3)])}
    assert evaluate(system, env, BySubstitution()).tolist() == evaluate(system, env, Eliminating()).tolist()


class Eliminating(Rationals):
    """The rationals without substitution."""

    def solve(self, a: Any, b: Any, structure: Any) -> Any:
        return self.solve_general(a, b)


def test_there_is_no_token_before_the_first() -> None:
    """k_{t-1} at t = 1 isn't the last token."""
    x = point(TABLE["token sum"], (3, 2, 2), 1, 0)
    env = dimensions(x) | {symbol: objects(x.entries[str(symbol)]) for symbol in (Q, K, V)}
    with pytest.raises(Exception, match="no token at position t - 1 = 0"):
        evaluate(K[t - 1], {**env, t: 0}, Rationals())
    assert evaluate(K[t - 1], {**env, t: 2}, Rationals()).tolist() == [[e] for e in x.K[1]]


def test_constant_gates_and_batched_inputs() -> None:
    """A sequence without a batch beside sequences with one, in a sum over tokens as long as the batch."""
    form = TokenRows(TokenSum(gamma[j] * V[j], j, 1, t)).substitute({gamma[t]: Rational(2)})
    batched = np.arange(3 * 3 * 2).reshape(3, 3, 2) % PRIME
    found = run(form, {n: 3, d_v: 2, d_k: 2, V: batched, gamma: np.ones((3, 3, 1), dtype=np.int64)}, FiniteField())
    assert found.output.tolist() == [
        [[2 * sum(column[: a + 1]) for column in zip(*m, strict=True)] for a in range(3)] for m in batched.tolist()
    ]


def test_a_root_is_that_of_the_value_that_is_put_in() -> None:
    """eta is drawn as r^2; after eta <- 4 eta the root of eta isn't r any more."""
    form = TokenRows(sqrt(beta[t]) * v).substitute({beta[t]: 4 * beta[t]})
    env = {
        n: 1,
        d_k: 1,
        d_v: 1,
        V: objects([[Fraction(1)]]),
        beta: objects([[Fraction(9)]]),
        RootOf(beta): objects([[Fraction(3)]]),
    }
    assert run(form, env, Rationals()).output.tolist() == [[6]]
