"""Degrees: for every value, a bound on the degree of its entries as rational functions of the inputs.

The Schwartz-Zippel bound needs it: a nonzero polynomial of degree D vanishes at a random point of GF(p) with
probability at most D / p. A denominator is kept as a product of the things that were divided by, so that a sum over
the same denominator doesn't
square it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

from sympy import Rational

from derivations.language.structure import Structure
from numerics.algebras.contract import Algebra, Positions

Divisor = tuple[int, int]
"""Something that was divided by: a serial number and its degree."""


class Denominator(dict[Divisor, int]):
    """A product of divisors: each with its exponent. Not changed once it is made."""

    @cached_property
    def degree(self) -> int:
        """The degree of the product."""
        return sum(divisor[1] * exponent for divisor, exponent in self.items())


def _least_common(a: Denominator, b: Denominator) -> Denominator:
    few, many = (a, b) if len(a) < len(b) else (b, a)
    larger = {d: e for d, e in few.items() if e > many.get(d, 0)}
    more = sum(d[1] * (e - many.get(d, 0)) for d, e in larger.items())
    return _of_degree({**many, **larger}, many.degree + more) if larger else many


def _multiplied(a: Denominator, b: Denominator) -> Denominator:
    few, many = (a, b) if len(a) < len(b) else (b, a)
    product = {**many, **{d: e + many.get(d, 0) for d, e in few.items()}}
    return _of_degree(product, a.degree + b.degree) if few else many


def _of_degree(divisors: dict[Divisor, int], degree: int) -> Denominator:
    """A product whose degree is known, so that it isn't added up again."""
    made = Denominator(divisors)
    made.degree = degree
    return made


def _power(a: Denominator, exponent: int) -> Denominator:
    return Denominator({d: e * exponent for d, e in a.items()} if exponent else {})


NO_DENOMINATOR = Denominator()


@dataclass(frozen=True)
class Degree:
    """The largest degree of a numerator, and the denominator that all entries share.

    `by_row` keeps the rows of a sequence apart, whose denominators differ. `slope` is for lower triangular n x n
    matrices made of decays: entry (i, j) has at most the degree numerator + slope (i - j). `terms` counts the
    positions that a sum runs over. In a `chain` each row divides the next. A `whole` value is a token, whose entries
    are always used together.
    """

    numerator: int
    denominator: Denominator
    rows: int
    columns: int
    by_row: tuple[Degree, ...] = field(default=())
    slope: int = 0
    terms: int = 1
    chain: bool = False
    whole: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns

    def flat(self) -> Degree:
        """The same bound without a slope."""
        if not self.slope:
            return self
        steepest = self.slope * (self.rows - 1)
        rows = tuple(replace(row, numerator=row.numerator + steepest) for row in self.by_row)
        return replace(self, numerator=self.numerator + steepest, by_row=rows, slope=0)

    def over(self, denominator: Denominator) -> Degree:
        """The same value written over a multiple of its denominator."""
        if denominator is self.denominator:
            return self
        extra = denominator.degree - self.denominator.degree
        return replace(self, numerator=self.numerator + extra, denominator=denominator, by_row=())

    def gap(self, other: Degree) -> int:
        """The degree of the numerator of a difference, row by row where both sides have rows."""
        if self.slope or other.slope:
            return self.flat().gap(other.flat())
        if self.by_row and other.by_row:
            return max(mine.gap(theirs) for mine, theirs in zip(self.by_row, other.by_row, strict=True))
        common = _least_common(self.denominator, other.denominator)
        return max(self.over(common).numerator, other.over(common).numerator)

    @property
    def is_plain(self) -> bool:
        """A polynomial, not in a sum over positions: the case that has to be fast."""
        return not self.denominator and self.terms == 1

    @property
    def size(self) -> int:
        """Numerator and denominator together."""
        return self.numerator + self.denominator.degree


def _broadcast(a: Degree, b: Degree) -> tuple[int, int]:
    return max(a.rows, b.rows), max(a.columns, b.columns)


def _added(a: Degree, b: Degree) -> Degree:
    """A sum over the common denominator."""
    common = _least_common(a.denominator, b.denominator)
    numerators = (x.numerator + common.degree - x.denominator.degree for x in (a, b))
    slope, terms, whole = max(a.slope, b.slope), max(a.terms, b.terms), a.whole or b.whole
    return Degree(max(numerators), common, *_broadcast(a, b), slope=slope, terms=terms, whole=whole)


def _times(a: Degree, b: Degree) -> Degree:
    """An entrywise product."""
    denominator = _multiplied(a.denominator, b.denominator)
    numerator, slope, terms = a.numerator + b.numerator, a.slope + b.slope, max(a.terms, b.terms)
    return Degree(numerator, denominator, *_broadcast(a, b), slope=slope, terms=terms, whole=a.whole or b.whole)


def _raised(a: Degree, b: Degree) -> Degree:
    """Rows times a polynomial: the denominators stay as they are."""
    rows = tuple(replace(row, numerator=row.numerator + b.numerator) for row in a.by_row)
    slope = a.slope + b.slope
    return replace(
        a, numerator=a.numerator + b.numerator, by_row=rows, slope=slope, chain=False, whole=a.whole or b.whole
    )


def _joined(rows: Sequence[Degree]) -> tuple[int, Denominator]:
    """Numerator and denominator of rows that are written over one denominator."""
    first = rows[0].denominator
    if all(row.denominator is first or not (row.denominator or first) for row in rows):
        return max(row.numerator for row in rows), first
    common = Denominator()
    for row in rows:
        for divisor, exponent in row.denominator.items():
            common[divisor] = max(common.get(divisor, 0), exponent)
    whole = common.degree
    return max(row.numerator + whole - row.denominator.degree for row in rows), common


class Degrees(Algebra):
    """Bounds on degrees; the inputs have degree one."""

    name = "degrees"

    def __init__(self) -> None:
        self._serial = count()

    def _divisor(self, degree: int) -> Denominator:
        return Denominator({(next(self._serial), degree): 1})

    def value(self, rows: int, columns: int, degree: int = 1) -> Degree:
        """An input whose entries are polynomials of this degree in what is drawn."""
        return Degree(degree, NO_DENOMINATOR, rows, columns)

    def _from_rows(self, rows: Sequence[Degree], columns: int) -> Degree:
        numerator, denominator = _joined(rows)
        terms = max(row.terms for row in rows)
        return Degree(numerator, denominator, len(rows), columns, tuple(rows) if denominator else (), terms=terms)

    def number(self, value: Rational) -> Degree:
        del value
        return Degree(0, NO_DENOMINATOR, 1, 1)

    def zeros(self, rows: int, columns: int) -> Degree:
        return Degree(0, NO_DENOMINATOR, rows, columns)

    ones = zeros

    def lower(self, size: int, offset: int) -> Degree:
        del offset
        return Degree(0, NO_DENOMINATOR, size, size)

    def identity(self, size: int) -> Degree:
        return Degree(0, NO_DENOMINATOR, size, size)

    def _row_by_row(self, a: Degree, b: Degree, combine: Callable[[Degree, Degree], Degree]) -> Degree:
        together = combine(a, b)
        if together.rows == 1 or not (a.by_row or b.by_row):
            return together
        rows = [
            x.by_row if len(x.by_row) == together.rows else (replace(x, rows=1, by_row=(), slope=0),) * together.rows
            for x in (a, b)
        ]
        joined = self._from_rows([combine(x, y) for x, y in zip(*rows, strict=True)], together.columns)
        return replace(joined, slope=together.slope, terms=together.terms)

    def add(self, a: Degree, b: Degree) -> Degree:
        if a.is_plain and b.is_plain:
            numerator, slope, whole = max(a.numerator, b.numerator), max(a.slope, b.slope), a.whole or b.whole
            return Degree(numerator, NO_DENOMINATOR, *_broadcast(a, b), slope=slope, whole=whole)
        return self._row_by_row(a, b, _added)

    def negate(self, a: Degree) -> Degree:
        return a

    def multiply(self, a: Degree, b: Degree) -> Degree:
        if a.is_plain and b.is_plain:
            numerator, slope, whole = a.numerator + b.numerator, a.slope + b.slope, a.whole or b.whole
            return Degree(numerator, NO_DENOMINATOR, *_broadcast(a, b), slope=slope, whole=whole)
        if a.by_row and b.is_plain and b.shape in ((1, 1), a.shape):
            return _raised(a, b)
        return self._row_by_row(a, b, _times)

    def matmul(self, a: Degree, b: Degree) -> Degree:
        a, b = a.flat(), b.flat()
        if a.is_plain and b.is_plain:
            return Degree(a.numerator + b.numerator, NO_DENOMINATOR, a.rows, b.columns)
        whole = Degree(b.numerator, b.denominator, a.rows, b.columns, terms=b.terms)
        if not a.by_row:
            return _times(Degree(a.numerator, a.denominator, a.rows, b.columns, terms=a.terms), whole)
        return replace(self.multiply(replace(a, columns=b.columns), whole), columns=b.columns)

    def transpose(self, a: Degree) -> Degree:
        if a.is_plain and not (a.slope or a.by_row):
            return Degree(a.numerator, NO_DENOMINATOR, a.columns, a.rows, whole=a.whole)
        a = a.flat()
        return replace(a, rows=a.columns, columns=a.rows, by_row=(), chain=False)

    def reciprocal(self, a: Degree) -> Degree:
        if a.chain:  # each row divides the last one, and is written over it
            over_last = self.reciprocal(replace(a, rows=1, by_row=(), chain=False))
            return replace(over_last, numerator=a.columns * a.numerator, rows=a.rows)
        if a.rows > 1 and not a.whole:
            rows = a.by_row or (replace(a, rows=1),) * a.rows
            return self._from_rows([self.reciprocal(row) for row in rows], a.columns)
        a = a.flat()
        # the entries of a row are divided by different things, and written over the product of these
        entries = a.rows * a.columns
        others = (entries - 1) * a.numerator
        inverted = replace(a, numerator=a.denominator.degree + others, denominator=NO_DENOMINATOR)
        return self._divided(inverted, entries * a.numerator)

    def _divided(self, value: Degree, degree: int) -> Degree:
        """`value` divided by something new of this degree; by as many different things as a sum over positions has
        terms.
        """
        if not degree:
            return value
        extra = (value.terms - 1) * degree
        divisor = self._divisor(value.terms * degree)
        return replace(value, numerator=value.numerator + extra, denominator=_multiplied(value.denominator, divisor))

    def sqrt(self, a: Degree) -> Degree:
        return a

    def solve(self, a: Degree, b: Degree, structure: Structure) -> Degree:
        size, b = a.rows, replace(b.flat(), by_row=(), terms=max(a.terms, b.terms), chain=False)
        own = a.denominator.degree
        if structure.unit and (structure.lower or structure.upper):
            # along a path i > j > ... > l of substitutions the slopes add up to (i - l) slope
            steps = 0 if structure.lower and structure.upper else size - 1
            numerator = b.numerator + steps * (max(a.numerator, own) + a.slope)
            return replace(b, numerator=numerator, denominator=_multiplied(b.denominator, _power(a.denominator, steps)))
        # Cramer's rule for (numerators of a) x = (denominator of a) b
        a = a.flat()
        return self._divided(replace(b, numerator=b.numerator + (size - 1) * a.numerator + own), size * a.numerator)

    def diagonal(self, column: Degree) -> Degree:
        return replace(column.flat(), columns=column.rows, chain=False)

    def trace(self, a: Degree) -> Degree:
        return replace(a.flat(), rows=1, columns=1, by_row=())

    def token(self, sequence: Degree, position: Positions) -> Degree:
        sequence = sequence.flat()
        rows = sequence.by_row
        if isinstance(position, int):
            chosen = rows[position] if rows else sequence
            return Degree(chosen.numerator, chosen.denominator, sequence.columns, 1, whole=True)
        numerator, denominator = _joined(rows[position.start : position.stop] if rows else (sequence,))
        return Degree(numerator, denominator, sequence.columns, 1, terms=len(position), whole=True)

    def block(self, sequence: Degree, start: int, stop: int) -> Degree:
        sequence = sequence.flat()
        if sequence.by_row:
            return self._from_rows(sequence.by_row[start:stop], sequence.columns)
        return replace(sequence, rows=stop - start)

    def stack(self, columns: Sequence[Degree]) -> Degree:
        flat = map(Degree.flat, columns)
        rows = [Degree(c.numerator, c.denominator, 1, c.rows, terms=c.terms) for c in flat]
        return self._from_rows(rows, columns[0].rows)

    def along(self, values: Sequence[Degree], batch: tuple[int, ...]) -> Degree:
        del batch
        numerator, denominator = _joined([value.flat() for value in values])
        return Degree(numerator, denominator, *values[0].shape, terms=len(values))

    def concatenate(self, blocks: Sequence[Degree]) -> Degree:
        rows = [row for b in map(Degree.flat, blocks) for row in (b.by_row or (replace(b, rows=1),) * b.rows)]
        return self._from_rows(rows, blocks[0].columns)

    def total(self, a: Degree) -> Degree:
        # the terms of a sum over positions are written over one denominator, see `token` and `_divided`
        return replace(a, terms=1)

    def sum_of_products(self, a: Degree, b: Degree) -> Degree:
        return self.total(self.matmul(a, b))

    def decay(self, gates: Degree) -> Degree:
        # entry (i, j) is a product of i - j gates; with denominators it is written over the n-th power of the common
        # one
        if gates.denominator:
            return replace(self.cumulative_product(gates), columns=gates.rows, chain=False)
        return Degree(0, NO_DENOMINATOR, gates.rows, gates.rows, slope=gates.numerator)

    shifted_decay = decay

    def cumulative_product(self, gates: Degree) -> Degree:
        numerator = gates.rows * max(gates.numerator, gates.denominator.degree)
        chain = not gates.denominator
        return Degree(numerator, _power(gates.denominator, gates.rows), gates.rows, gates.columns, chain=chain)

    def remaining_product(self, gates: Degree) -> Degree:
        return replace(self.cumulative_product(gates), chain=False)

    def power(self, a: Degree, exponent: int) -> Degree:
        base = self.reciprocal(a) if exponent < 0 else a
        value = self.number(Rational(1))
        for _ in range(abs(exponent)):
            value = self.multiply(value, base)
        return value
