"""Exact arrays against Python's own integers and fractions, and what they refuse."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace, device
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpu.field_array import GENERATOR, NAMESPACE, PRIME, ExponentArray, FieldArray, NoExactMeaning

UNITS = PRIME - 1
residues = arrays(np.int64, (3, 4), elements=st.integers(0, PRIME - 1))
exponents = arrays(np.int64, (3, 4), elements=st.integers(0, UNITS - 1))
KINDS: list[Any] = [FieldArray, ExponentArray]


def integers(x: Any) -> list[Any]:
    """Values as Python integers, which don't overflow."""
    return x.astype(object)


@given(residues, residues, st.sampled_from(KINDS))
def test_sums_and_products(a: np.ndarray, b: np.ndarray, kind: Any) -> None:
    x, y, p = kind(a), kind(b), kind.modulus
    assert np.array_equal((x + y).values, (integers(a) + integers(b)) % p)
    assert np.array_equal((x - y).values, (integers(a) - integers(b)) % p)
    assert np.array_equal((-x).values, -integers(a) % p)
    assert np.array_equal((x * y).values, integers(a) * integers(b) % p)
    assert np.array_equal((x @ NAMESPACE.matrix_transpose(y)).values, integers(a) @ integers(b).T % p)


@given(residues, residues)
def test_quotients(a: np.ndarray, b: np.ndarray) -> None:
    b = np.maximum(b, 1)
    quotient = FieldArray(a) / FieldArray(b)
    assert np.array_equal((quotient * FieldArray(b)).values, a)
    assert np.array_equal((1 / FieldArray(b)).values, [[pow(int(x), -1, PRIME) for x in row] for row in b])


@given(residues, st.sampled_from(KINDS))
def test_numbers_count_as_what_they_are(a: np.ndarray, kind: Any) -> None:
    x = kind(a)
    assert np.array_equal((x + 5).values, (5 + x).values)
    assert np.array_equal((2 - x).values, (2 - integers(a)) % kind.modulus)
    assert np.array_equal((3 * x).values, 3 * integers(a) % kind.modulus)


def test_floats_count_as_fractions() -> None:
    half = (FieldArray([1]) * 0.5).values[0]
    assert half * 2 % PRIME == 1
    assert FieldArray.number(Fraction(1, 3)) * 3 % PRIME == 1


def test_long_sums_of_the_largest_residues_are_exact() -> None:
    """Where float64 rounds in a matrix product by halves, or int64 overflows in a sum, it's here."""
    long = np.full((1, 5000), PRIME - 1)
    x = FieldArray(long)
    assert (x @ NAMESPACE.matrix_transpose(x)).values[0, 0] == 5000 % PRIME
    assert NAMESPACE.sum(x, axis=1).values[0] == -5000 % PRIME
    assert NAMESPACE.cumulative_sum(x, axis=1).values[0, -1] == -5000 % PRIME


@given(exponents, exponents)
def test_the_power_of_a_sum_is_a_product(a: np.ndarray, b: np.ndarray) -> None:
    x, y = ExponentArray(a), ExponentArray(b)
    product = NAMESPACE.exp(x) * NAMESPACE.exp(y)
    assert NAMESPACE.exp(x + y).same(product)
    assert product.values[0, 0] == pow(GENERATOR, int(a[0, 0]) + int(b[0, 0]), PRIME)


def test_seven_generates_all_units() -> None:
    """7^((p - 1) / f) isn't 1 for any prime factor f of p - 1 = 2 . 3^2 . 7 . 11 . 31 . 151 . 331."""
    assert UNITS == 2 * 9 * 7 * 11 * 31 * 151 * 331
    assert all(pow(GENERATOR, UNITS // factor, PRIME) != 1 for factor in (2, 3, 7, 11, 31, 151, 331))


def test_minus_infinity_is_the_exponent_of_zero() -> None:
    x = ExponentArray([1, 2])
    masked = NAMESPACE.where(np.array([True, False]), x, NAMESPACE.full_like(x, -np.inf))
    assert np.array_equal(NAMESPACE.exp(masked).values, [7, 0])
    with pytest.raises(NoExactMeaning, match="a sum of minus infinity"):
        masked + 1


@given(arrays(np.int64, (2, 3, 3), elements=st.integers(0, PRIME - 1)), arrays(np.int64, (2, 3, 1)))
def test_solutions_solve(a: np.ndarray, b: np.ndarray) -> None:
    left, right = FieldArray(a) + 2 * FieldArray(np.eye(3, dtype=int)), FieldArray(b)
    try:
        solution = NAMESPACE.linalg.solve(left, right)
    except ZeroDivisionError:  # a pivot is zero
        return
    assert (left @ solution).same(right)


def test_a_zero_pivot_is_refused() -> None:
    with pytest.raises(ZeroDivisionError, match="divided by zero"):
        NAMESPACE.linalg.solve(FieldArray([[0, 1], [1, 0]]), FieldArray([[1], [1]]))


@given(residues)
def test_values_are_moved_as_numpy_moves_them(a: np.ndarray) -> None:
    xp, x = array_namespace(FieldArray(a)), FieldArray(a)
    assert device(x) == "cpu"
    assert np.array_equal(xp.permute_dims(x, (1, 0)).values, a.T)
    assert np.array_equal(xp.concat([x, x], axis=-1).values, np.concatenate([a, a], axis=-1))
    assert np.array_equal(xp.stack([x, x], axis=1).values, np.stack([a, a], axis=1))
    assert np.array_equal(xp.flip(x, axis=0).values, a[::-1])
    assert np.array_equal(xp.reshape(x, (2, 6))[..., None, 1:].values, a.reshape(2, 6)[:, None, 1:])


REFUSED: dict[str, tuple[Any, str]] = {
    "an order": (lambda x: x < x, "have no order"),
    "a truth": (bool, "neither true nor false"),
    "a maximum": (lambda x: NAMESPACE.max(x), "max has no exact meaning"),
    "a root": (lambda x: NAMESPACE.sqrt(x), "sqrt has no exact meaning"),
    "the power of a residue": (NAMESPACE.exp, "exp of a residue has no exact meaning"),
    "a sum of two kinds": (lambda x: x + ExponentArray([1]), "a sum of FieldArray and ExponentArray"),
    "a choice of two kinds": (lambda x: NAMESPACE.where(True, x, ExponentArray([1])), "arrays of one kind"),
    "half an exponent": (lambda x: ExponentArray([1]) * 0.5, "an exponent is an integer modulo p - 1, and 0.5 is none"),
    "a NumPy array": (lambda x: np.ones(1) * x, "a product of FieldArray and ndarray"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_has_no_exact_meaning_is_refused(reason: str) -> None:
    operation, message = REFUSED[reason]
    with pytest.raises(NoExactMeaning, match=message):
        operation(FieldArray([1]))


def test_a_quotient_by_zero_is_refused() -> None:
    with pytest.raises(ZeroDivisionError, match="divided by zero"):
        FieldArray([1]) / FieldArray([0])
