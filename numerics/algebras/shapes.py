"""Shapes: a form is walked with nothing but the sizes of its matrices, each dimension a different number.

The language checks symbolic shapes where a statement is written. This walk repeats the check on the whole form,
blocks and ragged tail included, and finds an operation that the walk has no rule for before any number is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import Integer, Rational

from derivations.language.errors import ShapeError
from derivations.language.expressions import product_shape, square_shape
from derivations.language.structure import Structure
from numerics.algebras.contract import Algebra, Positions


@dataclass(frozen=True)
class Shape:
    """Rows and columns, and the leading dimensions of sums."""

    rows: int
    columns: int
    leading: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.leading, self.rows, self.columns)


def _symbolic(a: Shape) -> tuple[Any, Any]:
    return Integer(a.rows), Integer(a.columns)


class Shapes(Algebra):
    """Sizes alone."""

    name = "shapes"

    def number(self, value: Rational) -> Shape:
        del value
        return Shape(1, 1)

    def zeros(self, rows: int, columns: int) -> Shape:
        return Shape(rows, columns)

    ones = zeros

    def lower(self, size: int, offset: int) -> Shape:
        del offset
        return Shape(size, size)

    def identity(self, size: int) -> Shape:
        return Shape(size, size)

    def multiply(self, a: Shape, b: Shape) -> Shape:
        try:
            *leading, rows, columns = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            raise ShapeError(
                f"can't combine {a.rows} x {a.columns} and {b.rows} x {b.columns} entry by entry"
            ) from None
        return Shape(rows, columns, tuple(leading))

    add = multiply

    def negate(self, a: Shape) -> Shape:
        return a

    def reciprocal(self, a: Shape) -> Shape:
        return a

    def sqrt(self, a: Shape) -> Shape:
        return a

    def exponential(self, a: Shape) -> Shape:
        return a

    def _leading(self, a: Shape, b: Shape) -> tuple[int, ...]:
        return np.broadcast_shapes(a.leading, b.leading)

    def matmul(self, a: Shape, b: Shape) -> Shape:
        product_shape(_symbolic(a), _symbolic(b))
        return Shape(a.rows, b.columns, self._leading(a, b))

    def transpose(self, a: Shape) -> Shape:
        return Shape(a.columns, a.rows, a.leading)

    def solve(self, a: Shape, b: Shape, structure: Structure) -> Shape:
        del structure
        square_shape("solve with", _symbolic(a))
        return self.matmul(a, b)

    def diagonal(self, column: Shape) -> Shape:
        return Shape(column.rows, column.rows, column.leading)

    def trace(self, a: Shape) -> Shape:
        square_shape("take the trace of", _symbolic(a))
        return Shape(1, 1, a.leading)

    def token(self, sequence: Shape, position: Positions) -> Shape:
        leading = () if isinstance(position, int) else (len(position),)
        return Shape(sequence.columns, 1, leading)

    def block(self, sequence: Shape, start: int, stop: int) -> Shape:
        return Shape(stop - start, sequence.columns)

    def stack(self, columns: Sequence[Shape]) -> Shape:
        return Shape(len(columns), columns[0].rows)

    def along(self, values: Sequence[Shape], batch: tuple[int, ...]) -> Shape:
        del batch
        return Shape(values[0].rows, values[0].columns, (len(values), *values[0].leading))

    def concatenate(self, blocks: Sequence[Shape]) -> Shape:
        return Shape(sum(b.rows for b in blocks), blocks[0].columns)

    def total(self, a: Shape) -> Shape:
        return Shape(a.rows, a.columns, a.leading[1:])

    def sum_of_products(self, a: Shape, b: Shape) -> Shape:
        return self.total(self.matmul(a, b))

    def decay(self, gates: Shape) -> Shape:
        return Shape(gates.rows, gates.rows)

    shifted_decay = decay

    def cumulative_product(self, gates: Shape) -> Shape:
        return gates

    remaining_product = cumulative_product
