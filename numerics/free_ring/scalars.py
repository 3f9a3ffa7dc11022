"""Scalars of the free ring: polynomials with rational coefficients in atoms that commute.

An atom is a gate, a product of letters that is 1 x 1 such as k^T S q, or the reciprocal of another scalar. Exponents
may be fractions, for square roots; a negative exponent of a gate is a division by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

Monomial = tuple[tuple["Atom", Fraction], ...]


class Atom(str):
    """A commuting symbol, identified by its text.

    `word` holds the letters of a product that is 1 x 1, `denominator` what a reciprocal is one over.
    """

    __slots__ = ("denominator", "word")
    word: tuple[Any, ...]
    denominator: Scalar | None

    def __new__(cls, text: str, word: tuple[Any, ...] = (), denominator: Scalar | None = None) -> Atom:
        atom = super().__new__(cls, text)
        atom.word, atom.denominator = word, denominator
        return atom


class Scalar:
    """A sum of monomials; equal as a dictionary is equal as a polynomial, reciprocals being symbols of their own."""

    __slots__ = ("_text", "terms")

    def __init__(self, terms: Mapping[Monomial, Fraction]) -> None:
        self.terms = {monomial: value for monomial, value in terms.items() if value}
        self._text = ""

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __add__(self, other: Scalar) -> Scalar:
        terms = dict(self.terms)
        for monomial, value in other.terms.items():
            terms[monomial] = terms.get(monomial, Fraction(0)) + value
        return Scalar(terms)

    def __neg__(self) -> Scalar:
        return Scalar({monomial: -value for monomial, value in self.terms.items()})

    def __mul__(self, other: Scalar) -> Scalar:
        if other is ONE or self is ONE:
            return self if other is ONE else other
        terms: dict[Monomial, Fraction] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                monomial = merged(left, right)
                terms[monomial] = terms.get(monomial, Fraction(0)) + a * b
        return Scalar(terms)

    def power(self, exponent: Fraction) -> Scalar:
        """A power: of a sum for whole exponents, negative ones as a reciprocal; of a monomial for all.

        Raises:
            ZeroDivisionError: zero has no reciprocal.
            ValueError: a root of a sum, or of a number that isn't a square.
        """
        if len(self.terms) == 1:
            [(monomial, value)] = self.terms.items()
            return Scalar({scaled(monomial, exponent): _number_to_the(value, exponent)})
        if exponent.denominator != 1:
            raise ValueError("a sum has no root here")
        if exponent < 0:
            return self._reciprocal().power(-exponent)
        return reduce(Scalar.__mul__, [self] * int(exponent), ONE)

    def _reciprocal(self) -> Scalar:
        """One over a sum, with its leading coefficient and what all its terms share taken out."""
        if not self.terms:
            raise ZeroDivisionError("zero has no reciprocal")
        shared = _shared(self.terms)
        lead = self.terms[min(self.terms, key=str)]
        outside = Scalar({scaled(shared, Fraction(-1)): 1 / lead})
        inside = self * outside
        return outside * of_atom(Atom(f"1/({inside})", denominator=inside))

    def __str__(self) -> str:
        if not self._text:
            pieces = [_term_text(monomial, value) for monomial, value in sorted(self.terms.items(), key=str)]
            self._text = " + ".join(pieces).replace("+ -", "- ") or "0"
        return self._text

    def atoms(self) -> set[Atom]:
        """The atoms of all terms."""
        return {atom for monomial in self.terms for atom, _ in monomial}


def _shared(terms: Iterable[Monomial]) -> Monomial:
    """The greatest monomial that divides all terms."""
    first, *rest = (dict(monomial) for monomial in terms)
    common = {
        atom: min(exponent, *(other.get(atom, Fraction(0)) for other in rest)) for atom, exponent in first.items()
    }
    for other in rest:
        for atom, exponent in other.items():
            if atom not in common and exponent < 0:
                common[atom] = min(exponent, *(o.get(atom, Fraction(0)) for o in (first, *rest)))
    return tuple(sorted((atom, exponent) for atom, exponent in common.items() if exponent))


def _number_to_the(value: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator == 1:
        return value ** int(exponent)
    root = Fraction(round(value.numerator**0.5), round(value.denominator**0.5)) if value > 0 else Fraction(0)
    if exponent.denominator != 2 or root**2 != value:
        raise ValueError(f"{value} has no rational power {exponent}")
    return root**exponent.numerator


def merged(left: Monomial, right: Monomial) -> Monomial:
    """The product of two monomials."""
    if not left or not right:
        return left or right
    exponents = dict(left)
    for atom, exponent in right:
        exponents[atom] = exponents.get(atom, Fraction(0)) + exponent
    return tuple(sorted((atom, exponent) for atom, exponent in exponents.items() if exponent))


def scaled(monomial: Monomial, exponent: Fraction) -> Monomial:
    """A power of a monomial."""
    return tuple((atom, own * exponent) for atom, own in monomial)


def of_atom(atom: Atom) -> Scalar:
    """An atom as a scalar."""
    return Scalar({((atom, Fraction(1)),): Fraction(1)})


def number(value: Fraction | int) -> Scalar:
    """A rational number as a scalar."""
    return Scalar({(): Fraction(value)})


ZERO, ONE = Scalar({}), number(1)


def cleared(scalars: list[Scalar]) -> list[Scalar]:
    """The scalars times one common denominator, so that reciprocals of sums are gone.

    Zero before is zero after: the denominators aren't zero where the statement has a value.
    """
    while True:
        reciprocals = sorted({atom for scalar in scalars for atom in scalar.atoms() if atom.denominator})
        if not reciprocals:
            return scalars
        scalars = _times_denominator(scalars, reciprocals[-1])


def _times_denominator(scalars: list[Scalar], atom: Atom) -> list[Scalar]:
    assert atom.denominator is not None
    powers = {dict(monomial).get(atom, Fraction(0)) for scalar in scalars for monomial in scalar.terms}
    highest = max(powers | {Fraction(0)})
    out = []
    for scalar in scalars:
        total = ZERO
        for monomial, value in scalar.terms.items():
            left = highest - dict(monomial).get(atom, Fraction(0))
            without = tuple((x, exponent) for x, exponent in monomial if x != atom)
            total = total + Scalar({without: value}) * atom.denominator.power(left)
        out.append(total)
    return out


def _term_text(monomial: Monomial, value: Fraction) -> str:
    factors = [atom if exponent == 1 else f"{atom}^{exponent}" for atom, exponent in monomial]
    if not factors:
        return str(value)
    sign = "" if value == 1 else "-" if value == -1 else f"{value} "
    return f"{sign}{' '.join(factors)}"
