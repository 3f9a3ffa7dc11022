"""Counts of operations are those of an evaluation in plain Python whose numbers count what is done with them.

A mask's zeros and ones are Fractions: to multiply by one is free, and they are added like any other number. Everything
else is a `Number`, also where its value happens to be zero. The instrumented evaluation gives the form's value as well,
so that it is the form that is counted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from plain_python import Matrix, plus, product, table, transpose, unit
from sympy import Rational, expand

from derivations.language import (
    ChannelGate,
    Chunkwise,
    Closed,
    Counts,
    CumulativeProduct,
    Fact,
    Form,
    Gamma,
    I,
    K,
    M,
    M_strict,
    NoMeaning,
    Q,
    Recurrence,
    RemainingProduct,
    RowProducts,
    S,
    Sequence,
    Symbol,
    Toeplitz,
    TokenRows,
    TokenSum,
    TotalProduct,
    V,
    beta,
    block,
    d_k,
    d_v,
    diag,
    exp,
    gamma,
    j,
    k,
    log,
    n,
    normalised,
    q,
    reciprocal,
    scalar,
    softmax,
    t,
    total,
    trace,
    v,
)
from numerics.algebras.objects import matrix_of
from numerics.algebras.rationals import Rationals
from numerics.evaluate import CHUNK
from numerics.inputs import shape_of
from numerics.proofs import facts
from numerics.run import run

A = Sequence("A", n, n)
alpha = ChannelGate("alpha", n, d_k)
c = Symbol("c", real=True)
Value = Any


class Number:
    """A fraction that counts the operations on it; a sum may start at Python's 0."""

    def __init__(self, value: Any, tally: Counter[str]) -> None:
        self.value, self.tally = Fraction(value), tally

    def _with(self, other: Any, operation: str, value: Callable[[Fraction, Fraction], Fraction], free: bool) -> Number:
        self.tally[operation] += not free
        return Number(value(self.value, getattr(other, "value", other)), self.tally)

    def __add__(self, other: Any) -> Number:
        return self._with(other, "additions", lambda a, b: a + b, free=type(other) is int)

    def __sub__(self, other: Any) -> Number:
        return self._with(other, "additions", lambda a, b: a - b, free=False)

    def __mul__(self, other: Any) -> Number:
        return self._with(other, "multiplications", lambda a, b: a * b, free=other in (Fraction(0), Fraction(1)))

    __radd__, __rmul__ = __add__, __mul__

    def inverse(self) -> Number:
        return self._with(self, "divisions", lambda a, b: 1 / a, free=False)

    def exp(self) -> Number:
        return self._with(self, "exponentials", lambda a, b: Fraction(2) ** int(a), free=False)

    def known(self, value: int) -> Number:
        """A number that isn't known to be one or zero, though it is."""
        return Number(value, self.tally)


class Point:
    """Sizes and small integers: `x.K` is the matrix of K."""

    def __init__(self, form: Form, sizes: tuple[int, int, int], chunk: int, entries: dict[str, Matrix]) -> None:
        self.n, self.d_k, self.d_v = sizes
        self.form, self.C, self.entries = form, chunk, entries

    def __getattr__(self, name: str) -> Matrix:
        return self.entries[name]

    def blocks(self) -> list[Point]:
        cut = lambda first: {x: m[first : first + self.C] for x, m in self.entries.items() if len(m) == self.n}
        sizes = (self.C, self.d_k, self.d_v)
        return [Point(self.form, sizes, self.C, self.entries | cut(first)) for first in range(0, self.n, self.C)]


def mask(size: int, strict: bool = False) -> Matrix:
    return table(size, size, lambda a, b: Fraction(int(a > b if strict else a >= b)))


def entrywise(a: Matrix, b: Matrix) -> Matrix:
    return [[x * y for x, y in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]


def scaled_rows(column: Matrix, a: Matrix) -> Matrix:
    return [[g * e for e in row] for (g,), row in zip(column, a, strict=True)]


def minus(a: Matrix, b: Matrix) -> Matrix:
    return [[x - y for x, y in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]


def attend(x: Point, weights: Matrix) -> Matrix:
    """((Q K^T) . weights) V."""
    return product(entrywise(product(x.Q, transpose(x.K)), weights), x.V)


def decay(column: Matrix) -> Matrix:
    """Row i is row i - 1 times gate i, for what lies before the gate itself."""
    one, size = column[0][0].known, len(column)
    rows = [[one(1)]]
    for a in range(1, size):
        gate = column[a][0]
        rows.append([*(e * gate for e in rows[-1][:-1]), gate, one(1)])
    return [[*row, *(one(0) for _ in range(size - len(row)))] for row in rows]


def running(rows: Matrix, start: list[Any]) -> Matrix:
    """start . row_1, start . row_1 . row_2, ..."""
    out = []
    for row in rows:
        start = [e * g for e, g in zip(start, row, strict=True)]
        out.append(start)
    return out


def cumulative(gates: Matrix) -> Matrix:
    return [gates[0], *running(gates[1:], gates[0])]


def remaining(gates: Matrix) -> Matrix:
    """From one, backwards."""
    ones = [e.known(1) for e in gates[0]]
    return [*running(gates[:0:-1], ones)[::-1], ones]


def substituted(a: Matrix, b: Matrix, is_unit: bool) -> Matrix:
    """a^-1 b for a lower triangular a."""
    solved: Matrix = []
    for m, row in enumerate(b):
        for r in range(m):
            row = [e - a[m][r] * known for e, known in zip(row, solved[r], strict=True)]
        solved.append(row if is_unit else scaled(a[m][m].inverse(), row))
    return solved


def scaled(factor: Any, row: list[Any]) -> list[Any]:
    return [factor * e for e in row]


def eliminated(a: Matrix, b: Matrix) -> Matrix:
    """a^-1 b: a = L U with ones on L's diagonal, then two substitutions."""
    upper, lower, size = [list(row) for row in a], unit(len(a)), len(a)
    inverses = []
    for m in range(size):
        inverses.append(upper[m][m].inverse())
        for r in range(m + 1, size):
            lower[r][m] = upper[r][m] * inverses[m]
            for s in range(m + 1, size):
                upper[r][s] = upper[r][s] - lower[r][m] * upper[m][s]
    solved = substituted(lower, b, is_unit=True)
    for m in reversed(range(size)):
        for r in range(m + 1, size):
            solved[m] = [e - upper[m][r] * known for e, known in zip(solved[m], solved[r], strict=True)]
        solved[m] = scaled(inverses[m], solved[m])
    return solved


def token_by_token(x: Point, update: Callable[[int, Matrix], Matrix]) -> Matrix:
    state, rows = x.S, []
    for a in range(x.n):
        state = update(a, state)
        rows.append([e for (e,) in product(state, transpose([x.Q[a]]))])
    return rows


def written(x: Point, a: int) -> Matrix:
    return product(transpose([x.V[a]]), [x.K[a]])


def corrected(x: Point, a: int, state: Matrix) -> Matrix:
    """beta (v - S k) k^T."""
    error = minus(transpose([x.V[a]]), product(state, transpose([x.K[a]])))
    return product([scaled(x.beta[a][0], row) for row in error], [x.K[a]])


def component_sum(x: Point) -> Matrix:
    rows = []
    for a in range(x.n):
        weights = [sum(e * f for e, f in zip(x.K[m], x.Q[a], strict=True)) for m in range(a + 1)]
        rows.append([sum(w * x.V[m][b] for m, w in enumerate(weights)) for b in range(x.d_v)])
    return rows


def scaled_by_scalars(x: Point) -> Matrix:
    """(k^T q) tr(k q^T) / 3 v."""
    rows = []
    for a in range(x.n):
        outer = product(transpose([x.K[a]]), [x.Q[a]])
        inner = sum(e * f for e, f in zip(x.K[a], x.Q[a], strict=True))
        rows.append(scaled(Fraction(1, 3) * inner * sum(outer[m][m] for m in range(x.d_k)), x.V[a]))
    return rows


def chunkwise(x: Point) -> Matrix:
    state, rows = x.S, []
    for y in x.blocks():
        rows += plus(product(y.Q, transpose(state)), attend(y, mask(y.n)))
        state = plus(state, product(transpose(y.V), y.K))
    return rows


def faded_chunks(x: Point) -> Matrix:
    """S <- gamma_1..gamma_C S + V^T D_end K, and a read that is faded up to each token."""
    state, rows = x.S, []
    for y in x.blocks():
        carried = scaled_rows(cumulative(y.gamma), product(y.Q, transpose(state)))
        rows += plus(carried, attend(y, decay(y.gamma)))
        new = product(transpose(y.V), scaled_rows(remaining(y.gamma), y.K))
        whole = cumulative(y.gamma)[-1][0]
        state = plus([scaled(whole, row) for row in state], new)
    return rows


def delta_system(x: Point) -> Matrix:
    """I + D_beta ((K K^T) . M^-)."""
    inner = entrywise(product(x.K, transpose(x.K)), mask(x.n, strict=True))
    return [
        [e + i for e, i in zip(r, s, strict=True)] for r, s in zip(scaled_rows(x.beta, inner), unit(x.n), strict=True)
    ]


def softmaxed(x: Point, weights: Matrix | None = None) -> Matrix:
    """The weights are applied to V, and the result is divided by their sums."""
    own = [[e.exp() for e in row] for row in product(x.Q, transpose(x.K))]
    own = own if weights is None else entrywise(own, weights)
    means = product(own, x.V)
    return [scaled(sum(row).inverse(), mean) for row, mean in zip(own, means, strict=True)]


@dataclass(frozen=True)
class Item:
    """A form and its evaluation; `chunk` where it goes by blocks."""

    form: Form
    evaluation: Callable[[Point], Matrix]
    chunk: int = 1


linear = Recurrence(S, update=S + v @ k.T, readout=S @ q)
delta = Recurrence(S, update=S + beta[t] * (v - S @ k) @ k.T, readout=S @ q)
matrix = Closed((Q @ K.T).hadamard(M) @ V)
chunks = Chunkwise(S, update=S + V.T @ K, readout=Q @ S.T + (Q @ K.T).hadamard(M) @ V)
decayed = Closed((Q @ K.T).hadamard(Gamma) @ V)
lower = I + diag(beta) @ (K @ K.T).hadamard(M_strict)
weighted = Closed(normalised(A) @ V).where(A, exp(Q @ K.T))

TABLE = {
    "recurrence": Item(linear, lambda x: token_by_token(x, lambda a, state: plus(state, written(x, a)))),
    "faded recurrence": Item(
        Recurrence(S, update=gamma[t] * S + v @ k.T, readout=S @ q),
        lambda x: token_by_token(x, lambda a, state: plus([scaled(x.gamma[a][0], r) for r in state], written(x, a))),
    ),
    "delta rule": Item(delta, lambda x: token_by_token(x, lambda a, state: plus(state, corrected(x, a, state)))),
    "matrix": Item(matrix, lambda x: attend(x, mask(x.n))),
    "no mask, states first": Item(Closed(Q @ (K.T @ V)), lambda x: product(x.Q, product(transpose(x.K), x.V))),
    "blocks": Item(chunks, chunkwise, chunk=3),
    "decay": Item(decayed, lambda x: attend(x, decay(x.gamma))),
    "blocks with a decay": Item(
        Chunkwise(
            S,
            update=TotalProduct(gamma) * S + V.T @ diag(RemainingProduct(gamma)) @ K,
            readout=diag(CumulativeProduct(gamma)) @ Q @ S.T + (Q @ K.T).hadamard(Gamma) @ V,
        ),
        faded_chunks,
        chunk=2,
    ),
    "unit triangular system": Item(
        Closed(lower.I @ diag(beta) @ V),
        lambda x: substituted(delta_system(x), scaled_rows(x.beta, x.V), is_unit=True),
    ),
    "triangular system": Item(
        Closed((Q @ K.T).hadamard(M).I @ V),
        lambda x: substituted(entrywise(product(x.Q, transpose(x.K)), mask(x.n)), x.V, is_unit=False),
    ),
    "triangular system, transposed": Item(
        Closed((Q @ K.T).hadamard(M).T.I @ V),
        lambda x: substituted(  # from the last row on
            [row[::-1] for row in transpose(entrywise(product(x.Q, transpose(x.K)), mask(x.n)))[::-1]],
            x.V[::-1],
            is_unit=False,
        )[::-1],
    ),
    "diagonal system": Item(
        Closed(diag(beta).I @ V), lambda x: [scaled(g.inverse(), row) for (g,), row in zip(x.beta, x.V, strict=True)]
    ),
    "general system": Item(
        Closed((I + Q @ K.T).I @ V),
        lambda x: eliminated(
            [
                [e + i for e, i in zip(r, s, strict=True)]
                for r, s in zip(product(x.Q, transpose(x.K)), unit(x.n), strict=True)
            ],
            x.V,
        ),
    ),
    "gates of channels": Item(
        Closed(
            (Q.hadamard(CumulativeProduct(alpha)) @ K.hadamard(reciprocal(CumulativeProduct(alpha))).T).hadamard(M) @ V
        ),
        lambda x: product(
            entrywise(
                product(
                    entrywise(x.Q, cumulative(x.alpha)),
                    transpose(entrywise(x.K, [[e.inverse() for e in row] for row in cumulative(x.alpha)])),
                ),
                mask(x.n),
            ),
            x.V,
        ),
    ),
    "total of channels": Item(
        Closed(Q @ diag(total(alpha)) @ K.T),
        lambda x: product(x.Q, scaled_rows(transpose([cumulative(x.alpha)[-1]]), transpose(x.K))),
    ),
    "weights, then normalised": Item(weighted, softmaxed),
    "causal softmax": Item(
        Closed(normalised(A) @ V).where(A, exp(Q @ K.T + log(M))), lambda x: softmaxed(x, mask(x.n))
    ),
    "softmax": Item(Closed(softmax(Q @ K.T) @ V), softmaxed),
    "component sum": Item(TokenRows(TokenSum(V[j] @ (K[j].T @ q), j, 1, t)), component_sum),
    "blocks in a token sum": Item(
        TokenRows(TokenSum(block([[K[j]], [q]]), j, 1, t)),
        lambda x: [[sum(column) for column in transpose([x.K[m] + x.Q[a] for m in range(a + 1)])] for a in range(x.n)],
    ),
    "convolution": Item(
        Closed(Toeplitz(gamma) @ V),
        lambda x: product(table(x.n, x.n, lambda a, b: x.gamma[a - b][0] if a >= b else x.gamma[0][0].known(0)), x.V),
    ),
    "row products": Item(
        Closed(RowProducts(Q, V) @ RowProducts(K, V).T),
        lambda x: product(
            [[e * f for e in r for f in s] for r, s in zip(x.Q, x.V, strict=True)],
            transpose([[e * f for e in r for f in s] for r, s in zip(x.K, x.V, strict=True)]),
        ),
    ),
    "scalars": Item(TokenRows(trace(k @ q.T) * scalar(k.T @ q) * v / 3), scaled_by_scalars),
}
QUANTITIES = ("multiplications", "additions", "exponentials", "divisions")
every_item = pytest.mark.parametrize("item", TABLE.values(), ids=TABLE.keys())


def point(item: Item, sizes: tuple[int, int, int], tally: Counter[str]) -> Point:
    rng = random.Random(4)
    env: dict[Any, Any] = dict(zip((n, d_k, d_v), sizes, strict=True))
    entries = {}
    for symbol in sorted(item.form.symbols() | set(item.form.states), key=str):
        rows, columns = shape_of(symbol, env)
        entries[str(symbol)] = [[Number(rng.randint(1, 3), tally) for _ in range(columns)] for _ in range(rows)]
    return Point(item.form, sizes, item.chunk, entries)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 1, 2), (2, 3, 2), (4, 2, 3), (6, 2, 1)], ids=str)
@every_item
def test_operations(item: Item, sizes: tuple[int, int, int]) -> None:
    sizes = (sizes[0] * item.chunk, *sizes[1:])
    tally: Counter[str] = Counter()
    x = point(item, sizes, tally)
    found = item.evaluation(x)
    counted = {name: facts.counted_at(Counts(item.form, name, 0, item.chunk), sizes) for name in QUANTITIES}
    assert counted == {name: tally[name] for name in QUANTITIES}
    env: dict[Any, Any] = {n: x.n, d_k: x.d_k, d_v: x.d_v, CHUNK: x.C}
    for symbol in item.form.symbols() | set(item.form.states):
        env[symbol] = matrix_of([[e.value for e in row] for row in x.entries[str(symbol)]])
    assert run(item.form, env, Rationals()).output.tolist() == [[e.value for e in row] for row in found]


# polynomials


@pytest.mark.parametrize("quantity", QUANTITIES)
@every_item
def test_polynomials_are_the_counts_at_further_sizes(item: Item, quantity: Any) -> None:
    counts = Counts(item.form, quantity, 0, item.chunk)
    polynomial = facts.fitted(counts)
    for length, *widths in ((10, 6, 7), (17, 9, 3)):
        sizes = (length * item.chunk, *widths)
        assert polynomial.subs(dict(zip((n, d_k, d_v), sizes, strict=True))) == facts.counted_at(counts, sizes)


BY_HAND = {
    "recurrence": (linear, "multiplications", 2 * n * d_k * d_v, None),
    "matrix": (matrix, "multiplications", n**2 * (d_k + d_v), None),
    "matrix, additions": (matrix, "additions", n**2 * (d_k - 1) + n * (n - 1) * d_v, None),
    "blocks of four": (chunks, "multiplications", 4 * n * (d_k + d_v) + 2 * n * d_k * d_v, 4),
    "triangular system": (Closed(lower.I @ V), "multiplications", n**2 * d_k + n**2 + n * (n - 1) / 2 * d_v, None),
    "inverse": (Closed(A.I), "divisions", n, None),
    "elimination": (Closed(A.I @ gamma), "multiplications", (n**3 - n) / 3 + n**2, None),
    "exponentials": (weighted, "exponentials", n**2, None),
    "softmax": (Closed(softmax(Q @ K.T) @ V), "exponentials", n**2, None),
    "largest, recurrence": (linear, "largest value", d_k * d_v, None),
    "largest, matrix": (matrix, "largest value", n**2, None),
    "largest, masks aside": (Closed(M.hadamard(M_strict) @ gamma), "largest value", n, None),
    "largest, states first": (Closed(Q @ (K.T @ V)), "largest value", n * d_v, None),
    "largest, row products": (Closed(RowProducts(Q, K)), "largest value", n * d_k**2, None),
}


@pytest.mark.parametrize(("form", "quantity", "polynomial", "chunk"), BY_HAND.values(), ids=BY_HAND.keys())
def test_counts_by_hand(form: Form, quantity: Any, polynomial: Any, chunk: int | None) -> None:
    found = facts.check(Fact("x", Counts(form, quantity, polynomial, chunk)))
    assert found.verdict == "holds", found.details["shown"]
    wrong = facts.check(Fact("x", Counts(form, quantity, polynomial + n, chunk)))
    assert wrong.verdict == "refuted"
    assert str(expand(polynomial)) in wrong.message


NO_POLYNOMIAL = {
    "repeated squaring": (Closed(c**n * V), "multiplications", 1),
    "largest of two": (chunks, "largest value", 2),
    "n to the fourth": (Closed(RowProducts(A, A) @ RowProducts(A, A).T), "multiplications", 1),
}


@pytest.mark.parametrize(("form", "quantity", "chunk"), NO_POLYNOMIAL.values(), ids=NO_POLYNOMIAL.keys())
def test_what_is_no_polynomial_is_unknown(form: Form, quantity: Any, chunk: int) -> None:
    counts = Counts(form, quantity, n, chunk)
    found = facts.check(Fact("x", counts))
    assert found.verdict == "unknown"
    assert "isn't a polynomial" in found.message
    with pytest.raises(NoMeaning, match="isn't a polynomial"):
        facts.counted(form, quantity, chunk)


# what reverse-mode differentiation keeps, each number once


SAVED = {
    "recurrence: keys, values, queries, and the state after each token": (
        linear,
        n * (2 * d_k + d_v) + n * d_k * d_v,
        None,
    ),
    "matrix: queries, keys, values, masked scores": (matrix, n * (2 * d_k + d_v) + n**2, None),
    "decay: scores and gates as well": (decayed, n * (2 * d_k + d_v) + 3 * n**2 + n, None),
    "blocks: queries, keys, values, masked scores, and the state before each block": (
        chunks,
        n * (2 * d_k + d_v) + 3 * n + n * d_k * d_v / 3,
        3,
    ),
    "a gate that is read twice": (TokenRows(gamma[t] * v + gamma[t] * V[t].hadamard(v)), n + 2 * n * d_v, None),
    "nothing, where all is linear in the inputs": (Closed(M @ V - V + 2 * V), 0, None),
    "an exponential": (Closed(exp(2 * Q)), n * d_k, None),
    "a reciprocal": (Closed(reciprocal(Q)), n * d_k, None),
    "a square": (Closed(Q.hadamard(Q)), n * d_k, None),
    "a diagonal system: the diagonal and the solution": (Closed(diag(beta).I @ V), n + n * d_v, None),
    "a triangular system: the matrix and the solution": (Closed((A.hadamard(M)).I @ V), n**2 + n * d_v, None),
    "weights, then normalised: the weights, their sums, the output": (
        weighted,
        n * (2 * d_k + d_v) + n**2 + n + n * d_v,
        None,
    ),
}


@pytest.mark.parametrize(("form", "polynomial", "chunk"), SAVED.values(), ids=SAVED.keys())
def test_saved_for_backward(form: Form, polynomial: Any, chunk: int | None) -> None:
    found = facts.check(Fact("x", Counts(form, "saved for backward", polynomial, chunk)))
    assert found.verdict == "holds", found.details["shown"]


def test_a_dimension_may_be_given() -> None:
    r = Symbol("r", integer=True, positive=True)
    form = Closed(Sequence("X", n, r) @ Sequence("X", n, r).T)
    counts = Counts(form, "multiplications", 5 * n**2, at={r: 5})
    assert facts.check(Fact("x", counts)).verdict == "holds"


def test_constants_are_no_numbers_to_differentiate() -> None:
    """2 V and V / 2 are multiplications of which nothing is kept."""
    form = Closed(2 * V + V * Rational(1, 2))
    assert facts.counted(form, "multiplications") == 2 * n * d_v
    assert facts.counted(form, "saved for backward") == 0
