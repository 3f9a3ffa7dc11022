"""The polynomial through counts at small sizes, exactly, and the check that it is the count at further ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise, product

from flint import fmpq, fmpq_mat, fmpz_mat
from sympy import Add, Expr, Mul, Rational, Symbol

from derivations.language.errors import NoMeaning

ZERO = fmpq(0)
Point = tuple[int, ...]
Count = Callable[[Point], int | Fraction]
Axes = Mapping[Symbol, range]
"""For each dimension the sizes that it is given, one more than its highest degree."""


def fitted(count: Count, axes: Axes, further: Iterable[Point]) -> Expr:
    """The polynomial that a count is.

    Args:
        count: what is counted at each choice of sizes, in the order of the axes.
        axes: the dimensions, and where the count is taken.
        further: sizes, other than those, at which the polynomial has to be the count as well.

    Raises:
        NoMeaning: it isn't, at one of the further sizes.
    """
    found = through(count, axes)
    misfit = misfit_of(count, found, tuple(axes), further)
    if misfit:
        raise NoMeaning(misfit)
    return found


def misfit_of(count: Count, polynomial: Expr, symbols: Sequence[Symbol], further: Iterable[Point]) -> str:
    """Where the polynomial isn't the count; empty where it always is."""
    for point in further:
        number, sizes = count(point), dict(zip(symbols, point, strict=True))
        if number != polynomial.xreplace({x: Rational(size) for x, size in sizes.items()}):
            names = ", ".join(map(str, symbols))
            return f"{number} at {names} = {point}: the count isn't a polynomial in these"
    return ""


def through(count: Count, axes: Axes) -> Expr:
    """The polynomial through the counts on a grid.

    Its degree in each dimension is read off a line through the grid's last point: an axis has as many points as that
    takes.
    """
    corner = tuple(values[-1] for values in axes.values())
    lines = ([count((*corner[:k], x, *corner[k + 1 :])) for x in values] for k, values in enumerate(axes.values()))
    grid = [values[-1 - _degree(line) :] for values, line in zip(axes.values(), lines, strict=True)]
    coefficients = {point: fmpq(*Fraction(count(point)).as_integer_ratio()) for point in product(*grid)}
    for k, values in enumerate(grid):
        coefficients = _along_axis(coefficients, k, values)
    return polynomial(coefficients, tuple(axes))


def _degree(values: Sequence[int | Fraction]) -> int:
    """How often differences have to be taken until they are zero."""
    degree = 0
    while len(values) > 1:
        values = [b - a for a, b in pairwise(values)]
        if not any(values):
            break
        degree += 1
    return degree


def _along_axis(values: Mapping[Point, fmpq], axis: int, xs: range) -> dict[Point, fmpq]:
    """Values at the points of one axis become coefficients of its powers."""
    found: dict[Point, fmpq] = {}
    rows = vandermonde_inverse(tuple((x,) for x in xs), tuple((power,) for power in range(len(xs))))
    for point, value in values.items():
        for power, row in enumerate(rows):
            key = (*point[:axis], power, *point[axis + 1 :])
            found[key] = found.get(key, ZERO) + row[xs.index(point[axis])] * value
    return found


@cache
def vandermonde_inverse(points: tuple[Point, ...], exponents: tuple[Point, ...]) -> list[list[fmpq]]:
    """What turns the values of a polynomial at points into its coefficients, as many as there are points."""
    size = range(len(points))
    inverse = fmpq_mat(fmpz_mat([[monomial(point, powers) for powers in exponents] for point in points])).inv()
    return [[inverse[row, k] for k in size] for row in size]


def monomial(point: Point, powers: Point) -> int:
    """x^a y^b ... at a point."""
    value = 1
    for x, power in zip(point, powers, strict=True):
        value *= x**power
    return value


def polynomial(coefficients: Mapping[Point, fmpq], variables: Sequence[Expr]) -> Expr:
    """The polynomial with these coefficients, by the powers of its variables."""
    terms = (
        Mul(Rational(int(factor.p), int(factor.q)), *(x**k for x, k in zip(variables, powers, strict=True)))
        for powers, factor in coefficients.items()
        if factor
    )
    return Add(*terms)
