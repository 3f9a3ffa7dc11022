"""Which number a float stands for in exact mode, and what a plain tensor does."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from derivations.language.errors import NoMeaning  # noqa: E402
from gpu.exact_mode.numbers import of_float, of_number, of_tensor  # noqa: E402

PRIME, UNITS = 2**31 - 1, 2**31 - 2
DIMENSIONS = [2, 8, 16, 32, 48, 64, 80, 96, 100, 128, 192, 256]


def residue(x: Fraction) -> int:
    return x.numerator * pow(x.denominator, -1, PRIME) % PRIME


@given(st.integers(-(10**6), 10**6), st.integers(1, 1000))
def test_a_short_fraction_is_itself(numerator: int, denominator: int) -> None:
    assert of_float(numerator / denominator).residues == residue(Fraction(numerator, denominator))
    single = float(np.float32(numerator % 100) / np.float32(denominator % 100 + 1))
    assert of_float(single, 2.0**-24).residues == residue(Fraction(numerator % 100, denominator % 100 + 1))


@given(st.integers(-(2**52), 2**52), st.integers(0, 200))
def test_a_binary_number_is_itself(mantissa: int, shift: int) -> None:
    """However small: below the reach of short fractions it is taken as it is."""
    value = Fraction(mantissa, 2**shift)
    near = value.limit_denominator(3 * 10**6)
    assume(near == value or abs(near - value) > abs(value) * Fraction(1, 2**40))
    square = (value**2).limit_denominator(10**6)
    assume(abs(square - value**2) > value**2 * Fraction(1, 2**40) or value.denominator == 1)
    assert of_float(float(value)).residues == residue(value)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_one_root_in_every_spelling(d: int) -> None:
    """As kernels scale by it; its square is 1 / d where the field has a root of d, and -1 / d where it has none."""
    spelled = [d**-0.5, 1 / d**0.5, 1 / sqrt(d), (1 / d) ** 0.5, float(torch.tensor(d, dtype=torch.float64).rsqrt())]
    found = {of_float(x).residues for x in spelled}
    assert len(found) == 1
    (root,) = found
    assert isinstance(root, int)
    assert root * root * d % PRIME == (1 if pow(d, (PRIME - 1) // 2, PRIME) == 1 else PRIME - 1)
    assert root * int(of_float(d**0.5).residues) % PRIME == 1
    assert of_float(-(d**-0.5)).residues == PRIME - root


def test_roots_multiply() -> None:
    two, three, six, twelve = (int(of_float(x**0.5).residues) for x in (2, 3, 6, 12))
    assert two * three % PRIME == six
    assert 2 * three % PRIME == twelve
    assert two * two == 2**32


def test_decimals_and_thirds() -> None:
    values = {
        0.1: Fraction(1, 10),
        1 / 3: Fraction(1, 3),
        1e-6: Fraction(1, 10**6),
        -0.75: Fraction(-3, 4),
        2e9: 2 * 10**9,
    }
    for value, meant in values.items():
        assert of_float(value).residues == residue(Fraction(meant))
    assert of_tensor(torch.tensor([0.1, 1 / 3])).residues.tolist() == [
        residue(Fraction(1, 10)),
        residue(Fraction(1, 3)),
    ]


@pytest.mark.parametrize("value", [inf, nan])
def test_no_number(value: float) -> None:
    with pytest.raises(NoMeaning, match=r"isn't a number of a finite field"):
        of_float(value)
    with pytest.raises(NoMeaning, match=r"isn't a number of a finite field"):
        of_tensor(torch.tensor([1.0, value]))


def test_integers_are_exponents_too() -> None:
    assert (of_number(-1).residues, of_number(-1).exponents) == (PRIME - 1, UNITS - 1)
    assert of_number(3.0).exponents == 3
    assert of_number(0.5).exponents is None
    assert of_number(-inf).exponents == -1
    whole = of_tensor(torch.tensor([-1.0, 2.0**40]))
    assert whole.exponents.tolist() == [UNITS - 1, 2**40 % UNITS]
    assert of_tensor(torch.tensor([0.5, 1.0])).exponents is None
    assert of_tensor(torch.tensor([True, False])).exponents.tolist() == [1, 0]
    masked = of_tensor(torch.tensor([0.0, -inf]))
    assert (masked.exponents.tolist(), masked.infinite) == ([0, -1], True)
    with pytest.raises(NoMeaning, match="with -inf and with fractions"):
        of_tensor(torch.tensor([0.5, -inf]))


@pytest.mark.parametrize("value", [torch.tensor(1j), 1j], ids=["tensor", "number"])
def test_complex_numbers(value: object) -> None:
    with pytest.raises(NoMeaning, match="complex"):
        of_tensor(value) if isinstance(value, torch.Tensor) else of_number(value)  # type: ignore[arg-type]
