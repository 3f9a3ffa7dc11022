"""Weights of exponents: how many independent exponentials an exponential is a product of.

Entry (i, j) of exp(Q K^T) counts as one independent unit, a cumulative sum of n log gates as a product of n; the weight
is the degree of the exponential in these units. Inner products of two sequences of width d >= n are independent; of
other products, such as a step times a rate, this is a model. By forward substitution a row of the solution of a unit
triangular system is a row of its right side less one inner product, and counts as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sympy import Rational

from derivations.language.errors import NoMeaning
from numerics.algebras.contract import Algebra, Positions, Structure
from numerics.algebras.degrees import NO_DENOMINATOR, Degree


@dataclass(frozen=True)
class Weight:
    """The sum of the absolute values of the coefficients of any entry; a constant has no unit in it."""

    size: int
    rows: int
    columns: int
    constant: bool = False
    terms: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns


def _refuse(what: str) -> Any:
    def refuse(self: Algebra, *arguments: Any) -> Any:
        del self, arguments
        raise NoMeaning(f"an exponent is made of inputs by sums and products; here it contains {what}")

    return refuse


class Weights(Algebra):
    """Weights of exponents; every input has weight one."""

    name = "weights of exponents"

    def number(self, value: Rational) -> Weight:
        return Weight(-(-abs(int(value.p)) // int(value.q)), 1, 1, constant=True)

    def zeros(self, rows: int, columns: int) -> Weight:
        return Weight(0, rows, columns, constant=True)

    def ones(self, rows: int, columns: int) -> Weight:
        return Weight(1, rows, columns, constant=True)

    def lower(self, size: int, offset: int) -> Weight:
        del offset
        return self.ones(size, size)

    def identity(self, size: int) -> Weight:
        return self.ones(size, size)

    def _together(self, size: int, a: Weight, b: Weight) -> Weight:
        rows, columns = max(a.rows, b.rows), max(a.columns, b.columns)
        return Weight(size, rows, columns, a.constant and b.constant, max(a.terms, b.terms))

    def add(self, a: Weight, b: Weight) -> Weight:
        return self._together(a.size + b.size, a, b)

    def negate(self, a: Weight) -> Weight:
        return a

    def multiply(self, a: Weight, b: Weight) -> Weight:
        return self._together(a.size * b.size, a, b)

    def matmul(self, a: Weight, b: Weight) -> Weight:
        summed = a.columns if a.constant or b.constant else 1
        product = self._together(a.size * b.size * summed, a, b)
        return replace(product, rows=a.rows, columns=b.columns)

    def transpose(self, a: Weight) -> Weight:
        return replace(a, rows=a.columns, columns=a.rows)

    def diagonal(self, column: Weight) -> Weight:
        return replace(column, columns=column.rows)

    def trace(self, a: Weight) -> Weight:
        return Weight(a.size * a.rows, 1, 1, a.constant)

    def token(self, sequence: Weight, position: Positions) -> Weight:
        terms = 1 if isinstance(position, int) else len(position)
        return Weight(sequence.size, sequence.columns, 1, sequence.constant, terms)

    def block(self, sequence: Weight, start: int, stop: int) -> Weight:
        return replace(sequence, rows=stop - start)

    def _largest(self, values: Sequence[Weight]) -> Weight:
        size, terms = (max(getattr(v, kind) for v in values) for kind in ("size", "terms"))
        return replace(values[0], size=size, constant=all(v.constant for v in values), terms=terms)

    def stack(self, columns: Sequence[Weight]) -> Weight:
        return replace(self._largest(columns), rows=len(columns), columns=columns[0].rows)

    def along(self, values: Sequence[Weight], batch: tuple[int, ...]) -> Weight:
        del batch
        return replace(self._largest(values), terms=len(values))

    def concatenate(self, blocks: Sequence[Weight]) -> Weight:
        return replace(self._largest(blocks), rows=sum(b.rows for b in blocks))

    def total(self, a: Weight) -> Weight:
        return replace(a, size=a.size * a.terms, terms=1)

    def sum_of_products(self, a: Weight, b: Weight) -> Weight:
        return self.total(self.matmul(a, b))

    def solve(self, a: Weight, b: Weight, structure: Structure) -> Weight:
        if structure.unit and (structure.lower or structure.upper):
            return self.add(b, self.multiply(a, b))
        raise NoMeaning("an exponent is made of inputs by sums and products; here it contains the solution of a system")

    reciprocal = _refuse("a reciprocal")
    decay = shifted_decay = cumulative_product = remaining_product = _refuse("a product of gates")


def degree_of_exponential(weight: Weight) -> Degree:
    """A product of so many units, some of them inverted: E + 1/E - c has two zeros, as many as a polynomial of twice
    the degree.
    """
    return Degree(2 * weight.size, NO_DENOMINATOR, weight.rows, weight.columns)
