"""Counting: a form is walked with sizes alone, and each operation adds to a tally.

A mask's entries are zeros and ones that are known beforehand: multiplying by one is a selection, not a multiplication,
and a matrix product with one is a sum. Reverse-mode differentiation keeps the operands of every product of two values
that aren't constants, and the values of exponentials and reciprocals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from sympy import Rational

from derivations.language.structure import Structure
from numerics.algebras.contract import Algebra, Positions


@dataclass(frozen=True, eq=False)
class Sized:
    """Rows, columns and the terms of a sum; `constant` for numbers, `mask` for zeros and ones, and `diagonal` for one
    number a row. A transpose, a token or a block has the `origin` of what it is a view of.
    """

    rows: int
    columns: int
    constant: bool = False
    mask: bool = False
    terms: int = 1
    diagonal: bool = False
    origin: Hashable = field(default_factory=count().__next__)

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def size(self) -> int:
        """How many numbers it is made of."""
        return self.rows * (1 if self.diagonal else self.columns) * self.terms


def _another(value: Sized) -> Sized:
    """Other numbers in the same places."""
    return replace(value, mask=False, origin=Sized(1, 1).origin)


class Counting(Algebra):
    """Tallies of multiplications, additions, exponentials, divisions, the largest value, and what is saved."""

    name = "counting"

    def __init__(self) -> None:
        self.tally: Counter[str] = Counter()
        self._saved: dict[Hashable, Sized] = {}
        self._assembled: list[Sized] = []

    def quantity(self, name: str, output: Sized | None = None) -> int:
        """What was counted under this name. An output that is put together row by row isn't a value on the way."""
        if name == "saved for backward":
            return sum(value.size for value in self._saved.values())
        if name == "largest value":
            assembled = (value.size for value in self._assembled if value is not output)
            return max(self.tally[name], *assembled, 0)
        return self.tally[name]

    def _save(self, *values: Sized) -> None:
        for value in values:
            if not value.constant:
                self._saved[value.origin] = value

    def _made(self, value: Sized) -> Sized:
        if not value.mask:
            self.tally["largest value"] = max(self.tally["largest value"], value.size)
        return value

    def number(self, value: Rational) -> Sized:
        return Sized(1, 1, constant=True, mask=value in (0, 1))

    def zeros(self, rows: int, columns: int) -> Sized:
        return Sized(rows, columns, constant=True, mask=True)

    ones = zeros

    def lower(self, size: int, offset: int) -> Sized:
        del offset
        return Sized(size, size, constant=True, mask=True)

    def identity(self, size: int) -> Sized:
        return Sized(size, size, constant=True, mask=True)

    def _entrywise(self, a: Sized, b: Sized) -> Sized:
        rows, columns, terms = max(a.rows, b.rows), max(a.columns, b.columns), max(a.terms, b.terms)
        return Sized(rows, columns, a.constant and b.constant, a.mask and b.mask, terms)

    def add(self, a: Sized, b: Sized) -> Sized:
        made = replace(self._entrywise(a, b), mask=False)
        self.tally["additions"] += made.size
        return self._made(made)

    def negate(self, a: Sized) -> Sized:
        return a

    def multiply(self, a: Sized, b: Sized) -> Sized:
        made = self._entrywise(a, b)
        if not (a.mask or b.mask):
            self.tally["multiplications"] += made.size
            self._save_operands(a, b)
        return self._made(made)

    def _save_operands(self, a: Sized, b: Sized) -> None:
        """The derivative with respect to one factor is the other one."""
        if not (a.constant or b.constant):
            self._save(a, b)

    def matmul(self, a: Sized, b: Sized) -> Sized:
        terms = max(a.terms, b.terms)
        products = a.rows * a.columns * b.columns * terms
        if not (a.mask or b.mask):
            self.tally["multiplications"] += products
            self._save_operands(a, b)
        self.tally["additions"] += products - a.rows * b.columns * terms
        return self._made(Sized(a.rows, b.columns, a.constant and b.constant, False, terms))

    def transpose(self, a: Sized) -> Sized:
        return replace(a, rows=a.columns, columns=a.rows)

    def reciprocal(self, a: Sized) -> Sized:
        self.tally["divisions"] += a.size
        made = self._made(_another(a))
        self._save(made)
        return made

    def exponential(self, a: Sized) -> Sized:
        self.tally["exponentials"] += a.size
        made = self._made(_another(a))
        self._save(made)
        return made

    def sqrt(self, a: Sized) -> Sized:
        return a

    def solve(self, a: Sized, b: Sized, structure: Structure) -> Sized:
        """Substitution in a triangular system, division by a diagonal one, elimination in any other."""
        size, columns = a.rows, b.columns
        made = self._made(Sized(size, columns, a.constant and b.constant))
        self._save(a, made)
        if structure.lower and structure.upper:
            self.tally["divisions"] += 0 if structure.unit else size
            self.tally["multiplications"] += 0 if structure.unit else size * columns
        elif structure.lower or structure.upper:
            self._substitute(size, columns, structure.unit)
        else:
            eliminated = sum(k * k for k in range(size))
            self.tally["multiplications"] += eliminated + size * (size - 1) // 2  # the factors of the rows as well
            self.tally["additions"] += eliminated
            self._substitute(size, columns, unit=True)
            self._substitute(size, columns, unit=False)
        return made

    def _substitute(self, size: int, columns: int, unit: bool) -> None:
        steps = size * (size - 1) // 2 * columns
        self.tally["multiplications"] += steps if unit else steps + size * columns
        self.tally["additions"] += steps
        self.tally["divisions"] += 0 if unit else size

    def diagonal(self, column: Sized) -> Sized:
        return replace(column, columns=column.rows, diagonal=True)

    def trace(self, a: Sized) -> Sized:
        self.tally["additions"] += a.rows - 1
        return Sized(1, 1, a.constant)

    def token(self, sequence: Sized, position: Positions) -> Sized:
        terms = 1 if isinstance(position, int) else len(position)
        return Sized(sequence.columns, 1, sequence.constant, terms=terms, origin=(sequence.origin, position))

    def block(self, sequence: Sized, start: int, stop: int) -> Sized:
        return replace(sequence, rows=stop - start, origin=(sequence.origin, start, stop))

    def stack(self, columns: Sequence[Sized]) -> Sized:
        constant = all(column.constant for column in columns)
        return self._assemble(Sized(len(columns), columns[0].rows, constant))

    def along(self, values: Sequence[Sized], batch: tuple[int, ...]) -> Sized:
        del batch
        return replace(_another(values[0]), terms=len(values))

    def concatenate(self, blocks: Sequence[Sized]) -> Sized:
        constant, mask = (all(getattr(b, kind) for b in blocks) for kind in ("constant", "mask"))
        rows, terms = sum(b.rows for b in blocks), max(b.terms for b in blocks)
        return self._assemble(Sized(rows, blocks[0].columns, constant, mask, terms))

    def _assemble(self, value: Sized) -> Sized:
        if not value.mask:
            self._assembled.append(value)
        return value

    def total(self, a: Sized) -> Sized:
        self.tally["additions"] += a.rows * a.columns * (a.terms - 1)
        return replace(_another(a), terms=1)

    def sum_of_products(self, a: Sized, b: Sized) -> Sized:
        return self.total(self.matmul(a, b))

    def _products(self, gates: Sized, made: Sized, multiplications: int) -> Sized:
        self.tally["multiplications"] += multiplications
        self._save(gates, made)
        return self._made(made)

    def decay(self, gates: Sized) -> Sized:
        size = gates.rows
        return self._products(gates, Sized(size, size, gates.constant), (size - 1) * (size - 2) // 2)

    shifted_decay = decay

    def cumulative_product(self, gates: Sized) -> Sized:
        return self._products(gates, _another(gates), (gates.rows - 1) * gates.columns)

    remaining_product = cumulative_product
