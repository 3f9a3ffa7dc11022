"""Random statements of the language, built shape by shape, for properties that hold of all of them."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st
from sympy import Expr, Integer, Rational, Symbol

from derivations.language import (
    CumulativeProduct,
    Decay,
    Gamma,
    Gamma_shifted,
    Gamma_strict,
    GateProduct,
    I,
    K,
    M,
    M_strict,
    Ones,
    Q,
    RemainingProduct,
    RowProducts,
    S,
    Sequence,
    ShiftedDecay,
    Statement,
    Toeplitz,
    TokenSum,
    TotalProduct,
    V,
    beta,
    block,
    d_k,
    d_v,
    diag,
    gamma,
    j,
    n,
    reciprocal,
    scalar,
    t,
    tau,
    trace,
)

X = Sequence("X", n, n)
c = Symbol("c", real=True)
ONE = Integer(1)

ATOMS: dict[tuple[Any, Any], list[Any]] = {
    (n, d_k): [Q, K, CumulativeProduct(K)],
    (n, d_v): [V, RemainingProduct(V)],
    (n, n): [
        *(X, I, M, M_strict, Gamma, Gamma_strict, Gamma_shifted, Decay(beta), ShiftedDecay(beta), diag(gamma)),
        *(Toeplitz(gamma), RowProducts(Q, V) @ RowProducts(K, V).T),
    ],
    (n, 1): [gamma, beta, CumulativeProduct(gamma), RemainingProduct(beta), X[t]],
    (d_k, 1): [K[t], Q[t]],
    (d_v, 1): [V[t]],
    (d_v, d_k): [S],
}
CONSTANTS = [Ones(n, n)]
"""Of one size only: it is written without."""
DIVISORS: dict[tuple[Any, Any], list[Any]] = {
    (n, d_k): [K, Q, CumulativeProduct(Q)],
    (n, d_v): [V],
    (n, n): [X, X @ X],
    (n, 1): [gamma, gamma + beta],
    (d_k, 1): [K[t]],
    (d_v, 1): [V[t]],
}
"""What a matrix is divided by, entry by entry."""
RUNNING = {(d_k, 1): K[j], (d_v, 1): V[j], (n, 1): X[j]}
"""Tokens at the position of a sum."""
SCALARS: list[Expr] = [Integer(2), Integer(-1), Rational(-1, 2), Rational(2, 3), gamma[t], beta[t], c]
SHAPES = [(n, n), (n, d_k), (d_k, n), (n, d_v), (d_v, 1), (1, d_k), (d_v, d_k), (d_k, d_k), (ONE, ONE)]


@cache
def matrices(shape: tuple[Any, Any], depth: int, in_sum: bool = False) -> st.SearchStrategy[Statement]:
    """Matrix expressions of a shape, nested at most so deep."""
    atoms: list[Any] = list(ATOMS.get(shape, ()))
    atoms += CONSTANTS if shape == (n, n) else []
    atoms += [a.T for a in ATOMS.get(shape[::-1], ()) if shape[0] != shape[1]]
    if in_sum:
        atoms += [RUNNING[shape]] if shape in RUNNING else []
        atoms += [RUNNING[shape[::-1]].T] if shape[::-1] in RUNNING else []
    simple = [st.sampled_from(atoms)] if atoms else []
    if depth == 0 and simple:
        return simple[0]
    inner = lambda *wanted: matrices(wanted, max(depth - 1, 0), in_sum)
    product = st.sampled_from([n, d_k, d_v] if depth else [n]).flatmap(
        lambda m: st.builds(lambda a, b: a @ b, inner(shape[0], m), inner(m, shape[1]))
    )
    if depth == 0:
        return product
    same = inner(*shape)
    built = [
        product,
        product,
        st.builds(lambda a, b: a + b, same, same),
        st.builds(lambda a, b: a - b, same, same),
        st.builds(lambda a, b: a.hadamard(b), same, same),
        st.builds(lambda a: -a, same),
        st.builds(lambda factor, a: factor * a, scalars(depth - 1, in_sum), same),
        st.builds(lambda a: a.T, inner(*shape[::-1])),
    ]
    if shape[0] == shape[1]:
        built.append(st.builds(lambda a: a.I, same))
    if shape in DIVISORS:
        divisors = st.sampled_from(DIVISORS[shape])
        built.append(st.builds(lambda a, b: a.hadamard(reciprocal(b)), same, divisors))
    blocks = st.sampled_from([n, d_k]).map(lambda m: [(shape[0], m), (shape[0], d_v), (m, shape[1]), (d_v, shape[1])])
    built.append(
        blocks.flatmap(lambda shapes: st.tuples(*(inner(*own) for own in shapes))).map(
            lambda parts: block([parts[:2]]) @ block([[part] for part in parts[2:]])
        )
    )
    if shape[1] == 1 and shape[0] != 1:
        built.append(st.builds(lambda a, m: diag(a) @ m, same, same))
    if not in_sum:
        built.append(st.builds(lambda a: TokenSum(a, j, 1, t), matrices(shape, depth - 1, in_sum=True)))
    return st.one_of(*simple, *built)


@cache
def scalars(depth: int, in_sum: bool = False) -> st.SearchStrategy[Expr]:
    """Scalar expressions."""
    atoms = st.sampled_from([*SCALARS, *([gamma[j]] if in_sum else [])])
    if depth <= 0:
        return atoms
    inner = scalars(depth - 1, in_sum)
    return st.one_of(
        atoms,
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a: 1 - a, inner),
        st.builds(lambda a: a**2, inner),
        st.builds(lambda a: 1 / (1 + a**2), inner),
        st.builds(lambda a: 1 / a, st.sampled_from([gamma[t], c, scalar(K[t].T @ K[t])])),
        st.builds(scalar, matrices((ONE, ONE), depth - 1, in_sum)),
        st.builds(trace, matrices((n, n), depth - 1, in_sum)),
        st.sampled_from([TotalProduct(gamma), TotalProduct(beta), GateProduct(1 - gamma[tau], tau, 1, t)]),
        st.just(GateProduct(2 * beta[tau], tau, 2, t)),
    )


def statements(depth: int, shapes: list[tuple[Any, Any]] | None = None) -> st.SearchStrategy[Statement]:
    """Matrix expressions of any of the shapes."""
    return st.sampled_from(shapes or SHAPES).flatmap(lambda shape: matrices(shape, depth))
