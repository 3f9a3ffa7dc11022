"""Counting: a form is walked with sizes alone, and each operation is recorded with the work that it takes.

A mask's entries are zeros and ones that are known beforehand: multiplying by one is a selection, not a multiplication,
and a matrix product with one is a sum. Reverse-mode differentiation keeps the operands of every product of two values
that aren't constants, and the values of exponentials and reciprocals.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from sympy import Rational

from derivations.language.structure import Structure
from numerics.algebras.contract import Algebra, Positions
from numerics.algebras.trace import Kind, Operation, Work

KNOWN = -1
"""The place in the trace of what is known before the walk: a number, a mask."""


@dataclass(eq=False)
class Sized:
    """Rows, columns and the terms of a sum; `constant` for numbers, `mask` for zeros and ones, and `diagonal` for one
    number a row. A transpose, a token or a block has the `origin` of what it is a view of. `made_by` is the place in
    the trace of the operation that made it.
    """

    rows: int
    columns: int
    constant: bool = False
    mask: bool = False
    terms: int = 1
    diagonal: bool = False
    origin: Hashable = field(default_factory=count().__next__)
    made_by: int = KNOWN

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
    """Records every operation, the largest value, and what is saved for a backward pass."""

    name = "counting"

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._largest = 0
        self._saved: dict[Hashable, Sized] = {}
        self._assembled: list[Sized] = []

    def quantity(self, name: str, output: Sized | None = None) -> int:
        """What was counted under this name. An output that is put together row by row isn't a value on the way.

        "matrix multiplications" and "matrix additions" are those in products of two matrices of which none is a row
        or a column; they are among the others.
        """
        if name == "saved for backward":
            return sum(value.size for value in self._saved.values())
        if name == "largest value":
            assembled = (value.size for value in self._assembled if value is not output)
            return max(self._largest, *assembled, 0)
        kind = name.removeprefix("matrix ")
        return sum(getattr(done.work, kind) for done in self.operations if done.matrix or kind == name)

    def given(self, rows: int, columns: int) -> Sized:
        """An input."""
        return self._recorded(Sized(rows, columns), Operation("given", rows, size=rows * columns))

    def _viewed(
        self, value: Sized, operands: Sequence[Sized], kind: Kind = "view", taken: Positions = 0, by_row: bool = False
    ) -> Sized:
        """A value whose numbers are those of its operands."""
        rows = _same_rows(value, operands) if by_row else ()
        return self._recorded(value, Operation(kind, value.rows, _places(operands), by_row=rows, taken=taken))

    def _made(
        self,
        value: Sized,
        operands: Sequence[Sized],
        work: Work,
        by_row: Sequence[Sized] = (),
        last_row: Work | None = None,
        steps: int = 1,
        matrix: bool = False,
    ) -> Sized:
        """A value with numbers of its own. Where operands are read `by_row`, each row takes as much of the work."""
        size, rows = 0 if value.constant else value.size, _same_rows(value, by_row)
        last_row = work.split(value.rows) if rows else last_row
        if not value.mask:
            self._largest = max(self._largest, value.size)
        done = Operation("computed", value.rows, _places(operands), size, work, steps, matrix, last_row, rows)
        return self._recorded(value, done)

    def _recorded(self, value: Sized, done: Operation) -> Sized:
        """A value that was made just now, and by which operation."""
        self.operations.append(done)
        value.made_by = len(self.operations) - 1
        return value

    def _save(self, *values: Sized) -> None:
        for value in values:
            if not value.constant:
                self._saved[value.origin] = value

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

    def add(self, a: Sized, b: Sized) -> Sized:
        made = replace(_entrywise(a, b), mask=False)
        return self._made(made, (a, b), Work(additions=made.size), by_row=(a, b))

    def negate(self, a: Sized) -> Sized:
        return a

    def multiply(self, a: Sized, b: Sized) -> Sized:
        made = _entrywise(a, b)
        if a.mask or b.mask:
            self._largest = max(self._largest, 0 if made.mask else made.size)
            return self._viewed(made, (a, b), by_row=True)
        self._save_operands(a, b)
        return self._made(made, (a, b), Work(multiplications=made.size), by_row=(a, b))

    def _save_operands(self, a: Sized, b: Sized) -> None:
        """The derivative with respect to one factor is the other one."""
        if not (a.constant or b.constant):
            self._save(a, b)

    def matmul(self, a: Sized, b: Sized) -> Sized:
        return self._product(a, b, sums=max(a.terms, b.terms))

    def _product(self, a: Sized, b: Sized, sums: int) -> Sized:
        """A matrix product for each term; these are added up to so many sums."""
        terms = max(a.terms, b.terms)
        products = a.rows * a.columns * b.columns * terms
        selected = a.mask or b.mask
        if not selected:
            self._save_operands(a, b)
        made = Sized(a.rows, b.columns, a.constant and b.constant, False, sums)
        work = Work(0 if selected else products, products - made.size)
        self._largest = max(self._largest, a.rows * b.columns * terms)
        return self._made(made, (a, b), work, by_row=(a,), matrix=min(a.rows, a.columns, b.columns) > 1)

    def transpose(self, a: Sized) -> Sized:
        return self._viewed(replace(a, rows=a.columns, columns=a.rows), (a,))

    def reciprocal(self, a: Sized) -> Sized:
        return self._of_each(a, Work(divisions=a.size))

    def exponential(self, a: Sized) -> Sized:
        return self._of_each(a, Work(exponentials=a.size))

    def _of_each(self, a: Sized, work: Work) -> Sized:
        made = self._made(_another(a), (a,), work, by_row=(a,))
        self._save(made)
        return made

    def sqrt(self, a: Sized) -> Sized:
        return a

    def solve(self, a: Sized, b: Sized, structure: Structure) -> Sized:
        """Substitution in a triangular system, row after row; division by a diagonal one; elimination in any other,
        one step for each pivot before the two substitutions.
        """
        size, columns = a.rows, b.columns
        diagonal = structure.lower and structure.upper
        if diagonal:
            work, steps = Work() if structure.unit else Work(size * columns, 0, 0, size), 1
        elif structure.lower or structure.upper:
            work, steps = _substitution(size, columns, structure.unit), size
        else:
            work, steps = _elimination(size, columns), 3 * size
        made = Sized(size, columns, a.constant and b.constant)
        made = self._made(made, (a, b), work, by_row=(a, b) if diagonal else (), steps=steps)
        self._save(a, made)
        return made

    def diagonal(self, column: Sized) -> Sized:
        return self._viewed(replace(column, columns=column.rows, diagonal=True), (column,), by_row=True)

    def trace(self, a: Sized) -> Sized:
        return self._made(Sized(1, 1, a.constant), (a,), Work(additions=a.rows - 1))

    def token(self, sequence: Sized, position: Positions) -> Sized:
        terms = 1 if isinstance(position, int) else len(position)
        origin = (sequence.origin, position)
        row = Sized(sequence.columns, 1, sequence.constant, terms=terms, origin=origin)
        return self._viewed(row, (sequence,), "rows", position)

    def block(self, sequence: Sized, start: int, stop: int) -> Sized:
        rows = replace(sequence, rows=stop - start, origin=(sequence.origin, start, stop))
        return self._viewed(rows, (sequence,), "rows", range(start, stop))

    def stack(self, columns: Sequence[Sized]) -> Sized:
        constant = all(column.constant for column in columns)
        return self._assemble(Sized(len(columns), columns[0].rows, constant), columns)

    def along(self, values: Sequence[Sized], batch: tuple[int, ...]) -> Sized:
        del batch
        return self._viewed(replace(_another(values[0]), terms=len(values)), values)

    def concatenate(self, blocks: Sequence[Sized]) -> Sized:
        constant, mask = (all(getattr(b, kind) for b in blocks) for kind in ("constant", "mask"))
        rows, terms = sum(b.rows for b in blocks), max(b.terms for b in blocks)
        return self._assemble(Sized(rows, blocks[0].columns, constant, mask, terms), blocks)

    def _assemble(self, value: Sized, parts: Sequence[Sized]) -> Sized:
        made = self._viewed(value, parts, "assembled")
        if not value.mask:
            self._assembled.append(made)
        return made

    def total(self, a: Sized) -> Sized:
        made = replace(_another(a), terms=1)
        return self._made(made, (a,), Work(additions=a.rows * a.columns * (a.terms - 1)), by_row=(a,))

    def sum_of_products(self, a: Sized, b: Sized) -> Sized:
        return self._product(a, b, sums=1)

    def _products(self, gates: Sized, made: Sized, work: Work, last_row: Work | None = None) -> Sized:
        """Products of more and more gates: each waits for the one before."""
        made = self._made(made, (gates,), work, last_row=last_row, steps=gates.rows - 1)
        self._save(gates, made)
        return made

    def decay(self, gates: Sized) -> Sized:
        size = gates.rows
        work, last_row = Work((size - 1) * (size - 2) // 2), Work(max(size - 2, 0))
        return self._products(gates, Sized(size, size, gates.constant), work, last_row)

    shifted_decay = decay

    def cumulative_product(self, gates: Sized) -> Sized:
        return self._products(gates, _another(gates), Work((gates.rows - 1) * gates.columns))

    remaining_product = cumulative_product


def _entrywise(a: Sized, b: Sized) -> Sized:
    rows, columns, terms = max(a.rows, b.rows), max(a.columns, b.columns), max(a.terms, b.terms)
    return Sized(rows, columns, a.constant and b.constant, a.mask and b.mask, terms)


def _places(values: Sequence[Sized]) -> tuple[int, ...]:
    return tuple(value.made_by for value in values)


def _same_rows(value: Sized, operands: Sequence[Sized]) -> tuple[int, ...]:
    return tuple(place for place, operand in enumerate(operands) if operand.rows == value.rows)


def _substitution(size: int, columns: int, unit: bool) -> Work:
    terms = size * (size - 1) // 2 * columns
    return Work(terms, terms) if unit else Work(terms + size * columns, terms, 0, size)


def _elimination(size: int, columns: int) -> Work:
    """The factors of the rows and the rows less their multiples, then a substitution with each of the two factors."""
    factors, eliminated = size * (size - 1) // 2, (size - 1) * size * (2 * size - 1) // 6
    unit, other = (_substitution(size, columns, is_unit) for is_unit in (True, False))
    multiplications = factors + eliminated + unit.multiplications + other.multiplications
    return Work(multiplications, eliminated + unit.additions + other.additions, 0, other.divisions)
