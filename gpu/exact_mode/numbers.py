"""What exact mode computes with: numbers modulo p, and where it is known the same numbers modulo p - 1, as exponents.

An integer x stands for two residues: x mod p is what sums and products see, and x mod p - 1 is what exp(x) = w^x sees.
The two are independent, since p and p - 1 have no common factor, and sums and products of integers keep both. So a
log gate is an exponent under exp and a number everywhere else: in its own gradient, or where it scales something.
A number without the second residue (an input that isn't a log gate, a quotient, an exponential) has no exponential.
-inf is an exponent only: exp(-inf) = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from derivations.language.errors import NoMeaning, UndefinedValue
from gpu.exact_mode.modular import PRIME, UNITS, Integers, reduced

MINUS_INFINITY = -1
"""The exponent that -inf is kept as."""
INTEGERS_ARE_EXACT = 2**53
Operation = Callable[..., Any]


@dataclass(frozen=True)
class Numbers:
    """Integers or field elements.

    Attributes:
        residues: modulo p; a Python integer for a single number.
        exponents: modulo p - 1, with -1 for -inf; None where they aren't known.
        infinite: whether an exponent may be -inf.
    """

    residues: Integers
    exponents: Integers | None = None
    infinite: bool = False

    def finite(self) -> Numbers:
        """The same, where no entry is -inf.

        Raises:
            NoMeaning: an entry is -inf.
        """
        if self.infinite and bool((self._marked() == 1).any()):
            raise NoMeaning("-inf is an exponent and not a number: it can be added to a log gate, or put in its place")
        return Numbers(self.residues, self.exponents)

    def _marked(self) -> Tensor:
        """1 where the exponent is -inf, else 0."""
        return (torch.as_tensor(self.exponents) == MINUS_INFINITY).long()

    def indicator(self) -> Integers:
        """1 where the exponent is -inf, else 0; zeros of the same shape where none is."""
        if self.infinite:
            return self._marked().to(self.residues.device) if isinstance(self.residues, Tensor) else 1
        return torch.zeros_like(self.residues) if isinstance(self.residues, Tensor) else 0


def moved(operation: Operation, *values: Numbers) -> Any:
    """An operation that puts entries elsewhere, carried out on both residues. It may return several tensors."""
    if any(x.exponents is None for x in values):
        result = operation(*(x.finite().residues for x in values))
        return Numbers(result) if isinstance(result, Tensor) else [Numbers(x) for x in result]
    infinite = any(x.infinite for x in values)
    residues, exponents = (operation(*(getattr(x, name) for x in values)) for name in ("residues", "exponents"))
    if isinstance(residues, Tensor):
        return Numbers(residues, exponents, infinite)
    return [Numbers(r, e, infinite) for r, e in zip(residues, exponents, strict=True)]


def added(operation: Operation, *values: Numbers) -> Numbers:
    """An operation that adds entries up, carried out on both residues. A sum with -inf in it is -inf."""
    if any(x.exponents is None for x in values):
        return Numbers(reduced(operation(*(x.finite().residues for x in values))))
    residues = reduced(operation(*(x.residues for x in values)))
    if not any(x.infinite for x in values):
        return Numbers(residues, operation(*(x.exponents for x in values)) % UNITS)
    reached = operation(*(x.indicator() for x in values)) > 0
    sums = operation(*((x.exponents + x.indicator()) for x in values if x.exponents is not None)) % UNITS
    return Numbers(residues, torch.where(reached, MINUS_INFINITY, sums), infinite=True)


def multiplied(operation: Operation, *values: Numbers) -> Numbers:
    """A polynomial in its arguments; `operation` takes the residues and a modulus."""
    finite = [x.finite() for x in values]
    residues = operation(*(x.residues for x in finite), PRIME)
    if any(x.exponents is None for x in finite):
        return Numbers(residues)
    return Numbers(residues, operation(*(x.exponents for x in finite), UNITS))


def of_number(number: complex) -> Numbers:
    """A Python number: an integer, or what a float stands for (see `of_float`); -inf is an exponent."""
    if isinstance(number, complex):
        raise NoMeaning("complex numbers aren't residues")
    if isinstance(number, int):
        return Numbers(number % PRIME, number % UNITS)
    if number == float("-inf"):
        return Numbers(0, MINUS_INFINITY, infinite=True)
    return of_float(number)


def of_tensor(values: Tensor) -> Numbers:
    """A plain tensor, its floats read as `of_float` reads them."""
    if not values.is_floating_point():
        if values.is_complex():
            raise NoMeaning("complex numbers aren't residues")
        return Numbers(values.long() % PRIME, values.long() % UNITS)
    values = values.detach()
    infinite = values == float("-inf")
    has_infinite = bool(infinite.any())
    finite = values.masked_fill(infinite, 0) if has_infinite else values
    if bool((finite == finite.round()).all()) and bool((finite.abs() < INTEGERS_ARE_EXACT).all()):
        integers = finite.long()
        exponents = (integers % UNITS).masked_fill(infinite, MINUS_INFINITY)
        return Numbers(integers % PRIME, exponents, has_infinite)
    if has_infinite:
        raise NoMeaning("a tensor with -inf and with fractions is neither a log gate nor numbers")
    return Numbers(_residues_of(finite))


def _residues_of(values: Tensor) -> Tensor:
    """Residues of floats, each different value read once."""
    different, places = torch.unique(values, return_inverse=True)
    unit_roundoff = torch.finfo(values.dtype).eps / 2
    residues = [of_float(x, unit_roundoff).residues for x in different.tolist()]
    return torch.tensor(residues, dtype=torch.int64, device=values.device)[places]


def of_float(number: float, unit_roundoff: float = 2.0**-53) -> Numbers:
    """The number that a float stands for: a short fraction, or the square root of one, that it is within a rounding or
    two of; else its own binary value.

    So 0.1, 1 / 3 and 96 / 100 are 1/10, 1/3 and 24/25, and d**-0.5, 1 / sqrt(d) and (1 / d)**0.5 are one number, the
    inverse of sqrt(d). Short is what hardly a float of this precision means by accident.

    Raises:
        NoMeaning: the number is inf or NaN.
    """
    if not isfinite(number):
        raise NoMeaning(f"{number} isn't a number of a finite field")
    value = Fraction(number)
    short = _near(value, unit_roundoff, unit_roundoff ** (-2 / 5))
    if short is not None:
        return _of_fraction(short)
    square = _near(value**2, 2 * unit_roundoff, unit_roundoff ** (-1 / 3))
    if square is None:
        return _of_fraction(value)
    root = _root(square)
    return Numbers(root if number > 0 else PRIME - root)


def _near(value: Fraction, unit_roundoff: float, longest: float) -> Fraction | None:
    """The fraction with no longer denominator that is within two roundings, if there is one."""
    short = value.limit_denominator(max(int(longest), 1))
    return short if abs(short - value) <= 2 * Fraction(unit_roundoff) * abs(value) else None


def _root(square: Fraction) -> int:
    """A root, chosen such that the root of a product is the product of the roots.

    Half of all numbers have none (3 is one of them); theirs is the root of minus the number, so that this still holds.
    """
    residue = _of_fraction(square).residues
    assert isinstance(residue, int)
    return pow(residue, (PRIME + 1) // 4, PRIME)


def _of_fraction(number: Fraction) -> Numbers:
    if number.denominator % PRIME == 0:
        raise UndefinedValue(f"{number} has no residue modulo {PRIME}")
    residue = number.numerator * pow(number.denominator, -1, PRIME) % PRIME
    return Numbers(residue, number.numerator % UNITS if number.denominator == 1 else None)
