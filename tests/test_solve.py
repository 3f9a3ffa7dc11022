"""An inverse in a statement is the solution of a linear system, found by substitution where the system is triangular.

Solutions are multiplied back, in every number system and around the size at which substitution goes over to halves.
What `structure` says about a statement is compared with the entries that it has.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import array_api_compat.numpy
import array_api_compat.torch
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from plain_python import Matrix, product, table, transpose

from derivations.language import (
    CausalMask,
    CumulativeProduct,
    Decay,
    Gamma,
    Gamma_shifted,
    Gamma_strict,
    I,
    M,
    M_strict,
    Ones,
    Rational,
    Sequence,
    Statement,
    UndefinedValue,
    V,
    Zeros,
    beta,
    d_k,
    d_v,
    diag,
    eye,
    gamma,
    n,
    t,
)
from derivations.language.structure import Structure, structure
from numerics.algebras.arrays import SUBSTITUTION_BLOCK, ArrayAlgebra
from numerics.algebras.contract import Algebra
from numerics.algebras.finite_field import FiniteField
from numerics.algebras.floats import Floats
from numerics.algebras.polynomials import Polynomials
from numerics.algebras.rationals import Rationals
from numerics.evaluate import evaluate

PRIME = 2**31 - 1
X, Y = Sequence("X", n, n), Sequence("Y", n, d_k)
SIZES = (1, 2, SUBSTITUTION_BLOCK - 1, SUBSTITUTION_BLOCK, SUBSTITUTION_BLOCK + 1, SUBSTITUTION_BLOCK + 2, 60)


@dataclass(frozen=True)
class System:
    """A matrix as a statement, and its entries as a function of those of X and beta."""

    matrix: Statement
    entry: Callable[[Matrix, Matrix, int, int], Any]


SYSTEMS = {
    "unit lower": System(I + X.hadamard(M_strict), lambda x, g, a, b: x[a][b] if a > b else int(a == b)),
    "lower": System(
        diag(beta) + X.hadamard(M_strict), lambda x, g, a, b: x[a][b] if a > b else g[a][0] if a == b else 0
    ),
    "unit upper": System((I + X.hadamard(M_strict)).T, lambda x, g, a, b: x[b][a] if a < b else int(a == b)),
    "upper": System(
        I.hadamard(diag(beta)) + X.hadamard(M_strict.T),
        lambda x, g, a, b: x[a][b] if a < b else g[a][0] if a == b else 0,
    ),
    "diagonal": System(diag(beta), lambda x, g, a, b: g[a][0] if a == b else 0),
}
GENERAL = System(X + 10 * diag(beta), lambda x, g, a, b: x[a][b] + (10 * g[a][0] if a == b else 0))


def numbers(size: int, seed: int) -> dict[Any, Matrix]:
    """Small integers; what divides is a unit of the integers or a half."""
    rng = random.Random(seed)
    draw = lambda rows, columns, pool: [[Fraction(rng.choice(pool)) for _ in range(columns)] for _ in range(rows)]
    return {
        X: draw(size, size, (-1, 0, 0, 0, 1)),
        V: draw(size, 2, (-2, -1, 0, 1, 2)),
        beta: draw(size, 1, (-1, 1, 1, Fraction(1, 2), 2)),
    }


def objects(rows: Matrix) -> np.ndarray:
    out = np.empty((len(rows), len(rows[0])), dtype=object)
    for a, row in enumerate(rows):
        for b, entry in enumerate(row):
            out[a, b] = entry
    return out


@dataclass(frozen=True)
class Way:
    """A number system: how fractions enter it, and how its numbers come back as something that can be compared."""

    algebra: Algebra
    enter: Callable[[Matrix], Any]
    leave: Callable[[Any], Matrix]
    same: Callable[[Any, Any], bool]


def residues(rows: Matrix) -> np.ndarray:
    return np.array([[x.numerator * pow(x.denominator, -1, PRIME) % PRIME for x in row] for row in rows])


def polynomial_way() -> Way:
    """Every entry of V times one unknown, and one entry of X the other."""
    algebra = Polynomials(("x", "y"))
    x = algebra.generator("x")

    def enter(rows: Matrix) -> np.ndarray:
        return objects([[_as_polynomial(algebra, entry) * x for entry in row] for row in rows])

    return Way(algebra, enter, lambda value: value.tolist(), lambda a, b: a == b)


def _as_polynomial(algebra: Polynomials, entry: Fraction) -> Any:
    return algebra.entry(Rational(entry.numerator, entry.denominator))


def near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-9 * (1 + abs(b))


def float_way(algebra: Floats) -> Way:
    enter = lambda rows: algebra.asarray(np.array(rows, dtype=np.float64))
    return Way(algebra, enter, lambda value: np.asarray(value).tolist(), near)


WAYS = {
    "rationals": Way(Rationals(), objects, lambda value: value.tolist(), lambda a, b: a == b),
    "polynomials": polynomial_way(),
    "finite field": Way(FiniteField(), residues, lambda value: value.tolist(), lambda a, b: (a - b) % PRIME == 0),
    "numpy": float_way(Floats(array_api_compat.numpy, np.float64)),
    "torch": float_way(Floats(array_api_compat.torch, torch.float64)),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
every_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS.keys())


def environment(way: Way, drawn: dict[Any, Matrix]) -> dict[Any, Any]:
    size = len(drawn[beta])
    env: dict[Any, Any] = {n: size, d_v: 2, d_k: 2}
    if isinstance(way.algebra, Polynomials):  # a matrix with unknowns everywhere would have solutions of degree n
        constant = lambda rows: objects([[_as_polynomial(way.algebra, entry) for entry in row] for row in rows])
        x = constant(drawn[X])
        if size > 1:
            x[size - 1, 0] = x[0, size - 1] = way.algebra.generator("y")
        return env | {X: x, beta: constant(drawn[beta]), V: way.enter(drawn[V])}
    return env | {x: way.enter(rows) for x, rows in drawn.items()}


def entries(way: Way, system: System, env: dict[Any, Any]) -> Matrix:
    x, g = way.leave(env[X]), way.leave(env[beta])
    return table(len(g), len(g), lambda a, b: system.entry(x, g, a, b))


def multiplied_back(way: Way, system: System, env: dict[Any, Any]) -> None:
    """A (A^-1 V) = V and (V^T A^-1) A = V^T."""
    a, b = entries(way, system, env), way.leave(env[V])
    before = way.leave(evaluate(system.matrix.I @ V, env, way.algebra))
    behind = way.leave(evaluate(V.T @ system.matrix.I, env, way.algebra))
    for found, expected in ((product(a, before), b), (product(behind, a), transpose(b))):
        for found_row, row in zip(found, expected, strict=True):
            assert all(way.same(p, r) for p, r in zip(found_row, row, strict=True))


@every_way
@every_system
@pytest.mark.parametrize("size", SIZES)
def test_triangular_systems(system: System, way: Way, size: int) -> None:
    multiplied_back(way, system, environment(way, numbers(size, seed=size)))


@every_way
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_general_systems(way: Way, size: int) -> None:
    multiplied_back(way, GENERAL, environment(way, numbers(size, seed=size)))


@pytest.mark.parametrize("name", ["finite field", "numpy", "torch"])
@pytest.mark.parametrize("system", [*SYSTEMS.values(), GENERAL], ids=[*SYSTEMS, "general"])
@pytest.mark.parametrize("size", [1, 3])
def test_batches(name: str, system: System, size: int) -> None:
    """A batch as long as the matrices are wide, against one matrix at a time; also where only one operand has it."""
    way = WAYS[name]
    singles = [environment(way, numbers(size, seed)) for seed in range(3)]
    stack = way.algebra.xp.stack
    for batched in ({X, beta, V}, {X, beta}, {V}):
        env = {**singles[0], **{x: stack([single[x] for single in singles]) for x in batched}}
        whole = np.asarray(evaluate(system.matrix.I @ V, env, way.algebra))
        for number, single in enumerate(singles):
            own = {**singles[0], **{x: single[x] for x in batched}}
            one = np.asarray(evaluate(system.matrix.I @ V, own, way.algebra))
            np.testing.assert_allclose(np.broadcast_to(whole, (3, *one.shape))[number], one, rtol=1e-12, atol=1e-12)


def test_a_square_right_side_is_no_batch_of_columns() -> None:
    """Torch takes b of shape (3, 3) beside a of shape (3, 3, 3) for three vectors, unless it is told otherwise."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 3, 3)), rng.normal(size=(3, 3))
    algebra = WAYS["torch"].algebra
    found = algebra.solve(algebra.asarray(a), algebra.asarray(b), Structure())
    np.testing.assert_allclose(a @ np.asarray(found), np.broadcast_to(b, (3, 3, 3)), atol=1e-12)


@pytest.mark.parametrize("name", ["rationals", "polynomials", "finite field"])
@pytest.mark.parametrize(
    "matrix",
    [
        M_strict,
        diag(beta) - diag(beta),
        X - X,
        Ones(n, n),
        X.hadamard(M_strict.T),
        diag(beta) @ (Ones(n, n) - I).hadamard(I),
        X @ Ones(n, n),
    ],
    ids=str,
)
def test_singular_matrices_have_no_inverse(name: str, matrix: Statement) -> None:
    way = WAYS[name]
    env = environment(way, numbers(3, seed=0))
    for statement in (matrix.I @ V, V.T @ matrix.I, matrix.I):
        with pytest.raises(UndefinedValue):
            evaluate(statement, env, way.algebra)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_singular_floats(name: str) -> None:
    way = WAYS[name]
    with pytest.raises(UndefinedValue):
        evaluate((X - X).I @ V, environment(way, numbers(3, seed=0)), way.algebra)


def test_pivots_are_sought() -> None:
    """A zero in the corner doesn't make a matrix singular; nor does a corner that is zero modulo the relations."""
    swap = objects([[Fraction(0), Fraction(1)], [Fraction(1), Fraction(0)]])
    env = {n: 2, d_v: 1, X: swap, V: objects([[Fraction(5)], [Fraction(7)]])}
    assert evaluate(X.I @ V, env, Rationals()).tolist() == [[7], [5]]
    algebra = Polynomials(("w", "x"))
    w, x = algebra.generator("w"), algebra.generator("x")
    algebra.add_relation(w * w - 2)
    zero, one = w * w - 2, algebra.entry(Rational(1))
    found = algebra.solve(objects([[zero, one], [one, x]]), objects([[w], [x]]), Structure())
    left = objects([[zero, one], [one, x]]) @ found
    assert [algebra.is_zero(e) for e in (left - objects([[w], [x]])).ravel()] == [True, True]


def test_polynomials_are_not_taken_apart() -> None:
    """NumPy looks into python-flint's polynomials as if they were lists, if a lone one is multiplied with an array."""
    algebra = Polynomials(("a", "b", "c", "d", "e"))
    a, b, c, d, e = (algebra.generator(name) for name in algebra.generators)
    matrix = objects([[a + b + 1, c], [d + e * a, b - c]])
    found = algebra.solve(matrix, objects([[a], [b]]), Structure())
    assert (matrix @ found).tolist() == [[a], [b]]


def test_polynomials_beside_rational_functions() -> None:
    algebra = Polynomials(("a", "b", "c", "d", "e"))
    a, b, c, d, e = (algebra.generator(name) for name in algebra.generators)
    quotient = algebra.entry_reciprocal(a + b)
    matrix = objects([[a + b + 1, c, quotient], [d + e * a, b - c, a], [quotient, a * b + c * d, e]])
    found = algebra.solve(matrix, objects([[a], [b], [quotient]]), Structure())
    assert (matrix @ found).tolist() == [[a], [b], [quotient]]
    inverse_of_an_inverse = algebra.solve(algebra.solve(matrix, algebra.identity(3), Structure()), matrix, Structure())
    assert inverse_of_an_inverse.tolist() == (matrix @ matrix).tolist()


@every_way
@every_system
def test_triangular_systems_are_never_eliminated(system: System, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """Substitution with the right sides that were written: no general solver, and no inverse on the way."""
    right_sides = []

    def forbidden(self: Any, a: Any, b: Any) -> None:
        raise AssertionError("a triangular system was sent to the general solver")

    for kind in type(way.algebra).__mro__:
        if "solve_general" in vars(kind):
            monkeypatch.setattr(kind, "solve_general", forbidden)
    original = ArrayAlgebra.solve

    def recorded(self: Any, a: Any, b: Any, how: Structure) -> Any:
        right_sides.append(way.leave(b))
        return original(self, a, b, how)

    monkeypatch.setattr(ArrayAlgebra, "solve", recorded)
    env = environment(way, numbers(5, seed=1))
    evaluate(system.matrix.I @ V, env, way.algebra)
    evaluate(V.T @ system.matrix.I, env, way.algebra)
    evaluate((X @ system.matrix.I).T @ (system.matrix.T.I @ V), env, way.algebra)
    assert len(right_sides) >= 4
    assert way.leave(way.algebra.identity(5)) not in right_sides


# what a statement says about its own zeros


SQUARE = [X, I, M, M_strict, Gamma, Gamma_strict, Gamma_shifted, Decay(beta), Zeros(n, n), Ones(n, n), diag(beta)]


def square_matrices() -> st.SearchStrategy[Statement]:
    """n x n statements of masks, diagonals and one matrix without any zeros."""

    def grown(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Statement]:
        return st.one_of(
            st.builds(lambda a, b: a @ b, inner, inner),
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, b: a - b, inner, inner),
            st.builds(lambda a, b: a.hadamard(b), inner, inner),
            st.builds(lambda factor, a: factor * a, st.sampled_from([2, -1, beta[t]]), inner),
            st.builds(lambda a: a.T, inner),
            st.builds(lambda a: a.I, inner),
            st.builds(lambda a: diag(CumulativeProduct(gamma)) @ a, inner),
            st.builds(lambda a: Y @ Y.T + a @ Zeros(n, d_k) @ Zeros(d_k, n) @ a, inner),
        )

    return st.recursive(st.sampled_from(SQUARE), grown, max_leaves=6)


@settings(max_examples=5 * settings.default.max_examples)
@given(statement=square_matrices(), seed=st.integers(0, 5))
def test_what_is_claimed_of_the_zeros_is_true(statement: Statement, seed: int) -> None:
    rng = random.Random(seed)
    whole = lambda rows, columns: objects(
        [[Fraction(rng.choice((-3, -2, 2, 3))) for _ in range(columns)] for _ in range(rows)]
    )
    env = {n: 4, d_k: 2, t: 1, X: whole(4, 4), Y: whole(4, 2), beta: whole(4, 1), gamma: whole(4, 1)}
    try:
        value = evaluate(statement, env, Rationals())
    except UndefinedValue:
        assume(False)
    claimed = structure(statement)
    for a in range(4):
        for b in range(4):
            if (claimed.lower and a < b) or (claimed.upper and a > b) or (claimed.strict and a == b):
                assert value[a, b] == 0
            if claimed.unit and a == b:
                assert value[a, b] == 1


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (I + diag(beta) @ X.hadamard(M_strict), Structure(lower=True, unit=True)),
        (I + X.hadamard(Gamma_shifted), Structure(lower=True, unit=True)),
        (I - X.hadamard(Gamma_strict), Structure(lower=True, unit=True)),
        ((I + X.hadamard(M_strict)).T, Structure(upper=True, unit=True)),
        ((I + X.hadamard(M_strict)).I, Structure(lower=True, unit=True)),
        (I + I, Structure(lower=True, upper=True)),
        (2 * CausalMask(n), Structure(lower=True)),
        (diag(beta).I + X.hadamard(M_strict), Structure(lower=True)),
        (M @ Gamma, Structure(lower=True, unit=True)),
        (M_strict @ M, Structure(lower=True, strict=True)),
        (M + M.T, Structure()),
        (X @ M_strict, Structure()),
        (M_strict @ M.T, Structure()),
        (M_strict.T @ Gamma_strict.T, Structure(upper=True, strict=True)),
        (eye(d_k) + Y.T @ Y, Structure()),
    ],
    ids=str,
)
def test_structures_that_statements_of_the_catalogue_have(statement: Statement, expected: Structure) -> None:
    assert structure(statement) == expected
