"""Arithmetic modulo 2^31 - 1 on arrays is arithmetic modulo 2^31 - 1 on Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Rational, isprime

from derivations.language import UndefinedValue
from numerics.algebras.finite_field import PRIME, FiniteField, reduced

P = 2147483647
FIELD = FiniteField()
residues = st.one_of(st.sampled_from([0, 1, 2, 2**15, 2**16 - 1, 2**16, P // 2, P - 2, P - 1]), st.integers(0, P - 1))


def rows_of(width: int, least: int = 1, most: int = 4) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(residues, min_size=width, max_size=width), min_size=least, max_size=most)


matrices = st.integers(1, 4).flatmap(rows_of)
below_p_squared = st.one_of(
    st.integers(0, P * P - 1),
    st.integers(0, P - 1).map(lambda m: m * P),
    st.integers(0, 61).map(lambda e: 2**e - 1),
)


def array(rows: list[list[int]]) -> np.ndarray:
    return np.array(rows, dtype=np.int64)


def test_the_prime() -> None:
    assert PRIME == P
    assert isprime(P)


@given(below_p_squared)
def test_reduction_below_p_squared(number: int) -> None:
    """Everything that the product of two residues may be, and more."""
    for near in {max(number - 1, 0), number, min(number + 1, P * P - 1), P * P - 1}:
        assert reduced(np.array([near])).tolist() == [near % P]


BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = {
    "add": (FIELD.add, lambda a, b: (a + b) % P),
    "subtract": (FIELD.subtract, lambda a, b: (a - b) % P),
    "multiply": (FIELD.multiply, lambda a, b: a * b % P),
}


@pytest.mark.parametrize(("operation", "meaning"), BINARY.values(), ids=BINARY.keys())
@given(a=st.lists(residues, min_size=6, max_size=6), b=st.lists(residues, min_size=6, max_size=6))
def test_entry_by_entry(operation: Any, meaning: Callable[[int, int], int], a: list[int], b: list[int]) -> None:
    found = operation(array([a]), array([b]))
    assert found.dtype == np.int64
    assert found.tolist() == [[meaning(x, y) for x, y in zip(a, b, strict=True)]]
    scaled = operation(array([a]), array([[b[0]]]))
    assert scaled.tolist() == [[meaning(x, b[0]) for x in a]]


@given(residues)
def test_negation(a: int) -> None:
    assert FIELD.negate(array([[a]])).tolist() == [[-a % P]]


@given(a=matrices, columns=st.integers(1, 3), data=st.data())
def test_matrix_products(a: list[list[int]], columns: int, data: st.DataObject) -> None:
    b = data.draw(rows_of(columns, len(a[0]), len(a[0])))
    entry = lambda row, column: sum(x * y for x, y in zip(row, column, strict=True)) % P
    expected = [[entry(row, column) for column in zip(*b, strict=True)] for row in a]
    assert FIELD.matmul(array(a), array(b)).tolist() == expected


WORST = [P - 1, 2**16 - 1, 2**31 - 2**16, 2**30 + 2**16 - 1]
"""The largest residue, the largest low half, the largest high half, and both halves large."""


@pytest.mark.parametrize("inner", [1, 2, 64, 65, 2048, 2049, 4096, 2**18 + 1])
@pytest.mark.parametrize("left", WORST)
@pytest.mark.parametrize("right", WORST)
def test_long_sums_of_the_largest_products(inner: int, left: int, right: int) -> None:
    for rows, columns in ((1, 1), (1, 2), (2, 1)):  # either operand may be the one that is split
        found = FIELD.matmul(np.full((rows, inner), left), np.full((inner, columns), right))
        assert found.tolist() == [[inner * left * right % P] * columns] * rows


@pytest.mark.parametrize("inner", [63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 4095, 4097])
def test_sums_that_need_every_bit(inner: int) -> None:
    """Odd numbers near p: a sum that left the 53 bits of a float would lose its last ones."""
    rng = np.random.default_rng(inner)
    a, b = (P - 2 * rng.integers(1, 2**10, (2, inner)) for _ in range(2))
    assert (a % 2 == 1).all()
    for rows in (1, 2):
        exact = a[:rows].astype(object) @ b.T.astype(object) % P
        assert FIELD.matmul(a[:rows], b.T).tolist() == exact.tolist()
        assert FIELD.matmul(b, a.T[:, :rows]).tolist() == exact.T.tolist()


def test_large_random_products() -> None:
    """Against Python's integers, an inner dimension of 4096."""
    rng = np.random.default_rng(0)
    a, b = FIELD.random(rng, (3, 4096)), FIELD.random(rng, (4096, 2))
    exact = a.astype(object) @ b.astype(object) % P
    assert FIELD.matmul(a, b).tolist() == exact.tolist()


def test_batches() -> None:
    rng = np.random.default_rng(1)
    a, b = FIELD.random(rng, (3, 2, 4, 5)), FIELD.random(rng, (2, 5, 6))
    found = FIELD.matmul(a, b)
    assert found.shape == (3, 2, 4, 6)
    for first in range(3):
        for second in range(2):
            exact = a[first, second].astype(object) @ b[second].astype(object) % P
            assert found[first, second].tolist() == exact.tolist()


@pytest.mark.parametrize("residue", [0, 1, P - 1])
@pytest.mark.parametrize("length", [1, 4096])
def test_totals_and_traces(residue: int, length: int) -> None:
    assert FIELD.total(np.full((length, 1, 1), residue)).tolist() == [[length * residue % P]]
    assert FIELD.trace(np.full((5, 5), residue)).tolist() == [[5 * residue % P]]


@given(st.lists(st.lists(residues, min_size=3, max_size=3), min_size=1, max_size=4))
def test_sums_of_products(rows: list[list[int]]) -> None:
    """sum_j a_j b_j of columns a_j and rows b_j."""
    columns = np.array(rows)[:, :, None]
    found = FIELD.sum_of_products(columns, np.array(rows)[:, None, :])
    assert found.tolist() == [[sum(row[a] * row[b] for row in rows) % P for b in range(3)] for a in range(3)]


@given(a=residues.filter(bool), exponent=st.integers(-40, 40))
def test_powers_and_reciprocals(a: int, exponent: int) -> None:
    assert FIELD.power(array([[a]]), exponent).tolist() == [[pow(a, exponent, P)]]
    assert FIELD.reciprocal(array([[a]])).tolist() == [[pow(a, -1, P)]]


def test_zero_has_no_reciprocal_anywhere_in_a_batch() -> None:
    for a in (array([[0]]), array([[3, 0]]), np.array([[[1]], [[0]]])):
        with pytest.raises(UndefinedValue, match="division by zero"):
            FIELD.reciprocal(a)
    with pytest.raises(UndefinedValue):
        FIELD.power(array([[0]]), -1)
    assert FIELD.power(array([[0]]), 0).tolist() == [[1]]


@given(st.fractions(max_denominator=10**12))
def test_rational_numbers(x: Any) -> None:
    found = int(FIELD.number(Rational(x.numerator, x.denominator))[0, 0])
    assert 0 <= found < P
    assert found * x.denominator % P == x.numerator % P


def test_a_denominator_that_is_the_prime_is_refused() -> None:
    with pytest.raises(UndefinedValue, match="has no residue"):
        FIELD.number(Rational(1, P))


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_general_systems(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = FIELD.random(rng, (2, size, size)), FIELD.random(rng, (2, size, 3))
    for leading_a, leading_b in ((a, b), (a, b[0]), (a[0], b)):
        x = FIELD.solve_general(leading_a, leading_b)
        back = FIELD.matmul(leading_a, x)
        assert (back == np.broadcast_to(leading_b, back.shape)).all()


@given(st.integers(0, 2**32 - 1))
def test_draws_are_residues_and_reproducible(seed: int) -> None:
    draw = lambda: FIELD.random(np.random.default_rng(seed), (4, 5))
    assert (draw() == draw()).all()
    assert draw().min() >= 0
    assert draw().max() < P


def test_structured_matrices() -> None:
    assert FIELD.identity(3).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert FIELD.lower(3, 0).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert FIELD.lower(3, -1).tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    g = array([[5], [P - 1], [7]])
    assert FIELD.decay(g).tolist() == [[1, 0, 0], [P - 1, 1, 0], [P - 7, 7, 1]]
    assert FIELD.shifted_decay(g).tolist() == [[0, 0, 0], [1, 0, 0], [P - 1, 1, 0]]
    assert FIELD.cumulative_product(g).tolist() == [[5], [P - 5], [P - 35]]
    assert FIELD.remaining_product(g).tolist() == [[P - 7], [7], [1]]
