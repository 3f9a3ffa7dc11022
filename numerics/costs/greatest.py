"""The greatest of many counts, as the greatest of few polynomials: the peak of what is alive at once.

While one dimension (n, or the number of blocks) is held, a walk makes the same operations at all other sizes, and what
is alive after each of them is a polynomial in the other dimensions. Those that another one exceeds everywhere are left
out. How the rest changes with the dimension that was held is fitted afterwards, and the result is checked at further
sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product

from flint import fmpq
from sympy import Add, Expr, Mul, Poly, Rational, Symbol, expand

from derivations.language.errors import NoMeaning
from numerics.costs.polynomials import ZERO, Point, monomial, through, vandermonde_inverse

ManyCounts = Callable[[Point], Sequence[int]]
"""The numbers that the greatest is taken of, at each choice of sizes."""
DEGREE = 2
"""The highest total degree in the dimensions that aren't held: a matrix has two of them."""
LEAST = 2
"""The smallest size that is looked at: a product with a dimension of one may be a product with a known number."""

Coefficients = tuple[fmpq, ...]
"""Of a polynomial in x - 2, y - 2, ...: for sizes of two and more it exceeds another one if each of them does."""


def greatest(
    counts: ManyCounts, held: tuple[Symbol, range], others: Sequence[Symbol], further: Iterable[Point]
) -> list[Expr]:
    """Polynomials of which the greatest one is the greatest count.

    Args:
        counts: the numbers at each choice of sizes: the held dimension first, then the others in order.
        held: a dimension that changes which operations there are, and three or more sizes for it.
        others: the other dimensions.
        further: sizes at which the result is checked.

    Raises:
        NoMeaning: no such polynomials were found.
    """
    symbol, values = held
    at_each = [sorted(_maximal(_fitted(counts, value, len(others)))) for value in values]
    if len({len(found) for found in at_each}) > 1:
        raise NoMeaning(f"the greatest count is that of more and more operations as {symbol} grows")
    found = [_along(symbol, values, family, others) for family in zip(*at_each, strict=True)]
    found = _without_exceeded(found, (symbol, *others))
    for point in further:
        sizes = dict(zip((symbol, *others), map(Rational, point), strict=True))
        stated, number = max((p.xreplace(sizes) for p in found), default=0), max(counts(point), default=0)
        if stated != number:
            names = ", ".join(map(str, sizes))
            raise NoMeaning(f"{number} at {names} = {point}: the count isn't the greatest of some polynomials in these")
    return found


def _exponents(variables: int) -> tuple[Point, ...]:
    """The monomials up to the highest degree."""
    return tuple(powers for powers in product(range(DEGREE + 1), repeat=variables) if sum(powers) <= DEGREE)


def _fitted(counts: ManyCounts, held: int, others: int) -> set[Coefficients]:
    """The different polynomials that the counts are, at one size of the held dimension."""
    exponents = _exponents(others)
    once_more = tuple(range(3, 3 + others))
    columns = [counts((held, *(x + LEAST for x in point))) for point in (*exponents, once_more)]
    if len(set(map(len, columns))) > 1:
        raise NoMeaning("which operations there are changes with the sizes of matrices")
    inverse, there = vandermonde_inverse(exponents, exponents), [monomial(once_more, powers) for powers in exponents]
    found = set()
    for *values, last in set(zip(*columns, strict=True)):
        coefficients = tuple(_dot(row, values) for row in inverse)
        if _dot(coefficients, there) != last:
            raise NoMeaning(f"what is alive at once isn't a polynomial of degree {DEGREE} in the sizes of matrices")
        found.add(coefficients)
    return found


def _dot(a: Iterable[fmpq], b: Iterable[int]) -> fmpq:
    return sum((x * y for x, y in zip(a, b, strict=True)), ZERO)


def _maximal(polynomials: set[Coefficients]) -> list[Coefficients]:
    def exceeds(a: Coefficients, b: Coefficients) -> bool:
        return a != b and all(x >= y for x, y in zip(a, b, strict=True))

    return [p for p in polynomials if not any(exceeds(other, p) for other in polynomials)]


def _along(symbol: Symbol, values: range, family: Sequence[Coefficients], others: Sequence[Symbol]) -> Expr:
    """One polynomial in all dimensions, from its coefficients at each size of the held one."""
    terms = []
    for place, powers in enumerate(_exponents(len(others))):
        each = zip(values, (of[place] for of in family), strict=True)
        at_each: dict[Point, Fraction] = {(value,): Fraction(int(factor.p), int(factor.q)) for value, factor in each}
        factors = ((x - LEAST) ** power for x, power in zip(others, powers, strict=True))
        terms.append(Mul(through(at_each.__getitem__, {symbol: values}), *factors))
    return expand(Add(*terms))


def _without_exceeded(polynomials: Sequence[Expr], symbols: Sequence[Symbol]) -> list[Expr]:
    """Those that no other one exceeds for all sizes of two and more."""

    def exceeds(a: Expr, b: Expr) -> bool:
        shifted = Poly((a - b).xreplace({x: x + LEAST for x in symbols}), *symbols)
        return all(factor >= 0 for factor in shifted.coeffs())

    kept: list[Expr] = []
    for p in dict.fromkeys(polynomials):
        if not any(exceeds(other, p) for other in kept):
            kept = [other for other in kept if not exceeds(p, other)] + [p]
    return kept
