r"""Growing history: matrices of any length and width, as blocks [past; new token] over a free ring.

At length n + 1 a sequence is K = [K ; k^T] and a mask its 2 x 2 blocks, Gamma = [Gamma 0 ; gamma r^T 1] with the last
row r of Gamma. What stays inside the past is one letter: a masked product, the inverse of a triangular matrix. Equal
polynomials in these letters are equal matrices for every n, d_k and d_v.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

from sympy import Rational

from derivations.language.errors import NoMeaning
from derivations.language.structure import Structure
from numerics.algebras.contract import Algebra, Positions
from numerics.free_ring import scalars
from numerics.free_ring.blocks import Block, Sizes, all_ones, built, of_polynomial, zeros
from numerics.free_ring.decays import Decays
from numerics.free_ring.functions import (
    entrywise_power,
    exponential,
    inverse,
    trace,
)
from numerics.free_ring.letters import ONE_SIZE, PAST, Letter, ones
from numerics.free_ring.per_token import (
    added,
    as_rows,
    diagonal_matrix,
    matrix_product,
    multiplied,
    refuse_per_token,
    summed,
)
from numerics.free_ring.polynomials import Polynomial, hadamard
from numerics.free_ring.scalars import Scalar

LARGEST_NUMBER = 64
"""The longest side that is given as a number; its rows are blocks of one each."""


class Length(int):
    """The number of segments, as the value of the dimension n: the past, if there is one, and single tokens."""


class Width(int):
    """The value of a dimension whose size stays open."""

    name: str

    def __new__(cls, name: str, number: int) -> Width:
        width = super().__new__(cls, number)
        width.name = name
        return width


@dataclass(frozen=True)
class Stack:
    """Values along positions: of the past as a whole, and of single tokens."""

    values: tuple[Block, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.values), *self.values[0].shape)

    def __getitem__(self, index: int) -> Block:
        return self.values[index]


Value = Any  # Block | Stack


class GrowingHistory(Algebra):
    """Block matrices whose rows are segments of a sequence.

    Args:
        segments: the sizes of the segments, PAST first if it is there: (PAST, "1") for the past and a new token.
        invertible: names of gates that aren't zero, so that decays are quotients of cumulative products.
    """

    name = "growing history"

    def __init__(self, segments: Sizes, invertible: frozenset[str] = frozenset()) -> None:
        self.segments, self.decays = segments, Decays(invertible)

    @property
    def tokens_at_once(self) -> int:  # type: ignore[override]
        return 1

    def sizes(self, side: int) -> Sizes:
        """The sizes of the blocks of a side."""
        if isinstance(side, Length):
            return self.segments
        if isinstance(side, Width):
            return (side.name,)
        if side > LARGEST_NUMBER:
            raise NoMeaning("growing history: a side that is made of open dimensions")
        return (ONE_SIZE,) * side

    def number(self, value: Rational) -> Block:
        return of_polynomial(Polynomial.scalar(scalars.number(Fraction(int(value.p), int(value.q)))))

    def zeros(self, rows: int, columns: int) -> Block:
        return zeros(self.sizes(rows), self.sizes(columns))

    def ones(self, rows: int, columns: int) -> Block:
        return all_ones(self.sizes(rows), self.sizes(columns))

    def lower(self, size: int, offset: int) -> Block:
        sides = self._sequence_sides(size)
        name = "M" if offset == 0 else "M⁻"
        return built(
            sides,
            sides,
            lambda i, j: self._mask_entry(i, j, sides, name, offset == 0, lambda: all_ones(*_at(sides, i, j)).single),
        )

    def _sequence_sides(self, size: int) -> Sizes:
        if not isinstance(size, Length):
            raise NoMeaning("growing history: a mask has the length of a sequence")
        return self.segments

    def _mask_entry(
        self, i: int, j: int, sides: Sizes, name: str, causal: bool, below: Callable[[], Polynomial]
    ) -> Polynomial:
        if i != j:
            return below() if i > j else Polynomial(sides[i], sides[j])
        if sides[i] == PAST:
            return Polynomial.of(Letter(name, PAST, PAST))
        return Polynomial.identity(ONE_SIZE) if causal else Polynomial(ONE_SIZE, ONE_SIZE)

    def identity(self, size: int) -> Block:
        return self._identity(self.sizes(size))

    def _identity(self, sides: Sizes) -> Block:
        return built(
            sides, sides, lambda i, j: Polynomial.identity(sides[i]) if i == j else Polynomial(sides[i], sides[j])
        )

    def add(self, a: Value, b: Value) -> Value:
        return _lifted(added, a, b)

    def negate(self, a: Value) -> Value:
        return _lifted(Block.__neg__, a)

    def multiply(self, a: Value, b: Value) -> Value:
        return _lifted(multiplied, a, b)

    def matmul(self, a: Value, b: Value) -> Value:
        return _lifted(matrix_product, a, b)

    def transpose(self, a: Value) -> Value:
        return _lifted(lambda x: x.T, a)

    def reciprocal(self, a: Value) -> Value:
        return _lifted(lambda x: x.mapped(lambda entry: entrywise_power(entry, Fraction(-1))), a)

    def sqrt(self, a: Value) -> Value:
        return _lifted(lambda x: x.mapped(lambda entry: entrywise_power(entry, Fraction(1, 2))), a)

    def exponential(self, a: Value) -> Value:
        return _lifted(lambda x: x.mapped(exponential), a)

    def solve(self, a: Block, b: Block, structure: Structure) -> Block:
        refuse_per_token("a system", a, b)
        count = len(a.rows)
        if structure.lower:
            return self._substituted(a, b, range(count))
        if structure.upper:
            return self._substituted(a, b, range(count - 1, -1, -1))
        if count > 1:
            raise NoMeaning("growing history: a system over the tokens has to be triangular")
        return of_polynomial(inverse(a.single)) @ b

    def _substituted(self, a: Block, b: Block, order: range) -> Block:
        """Forward or backward substitution, block by block."""
        known: dict[int, Block] = {}
        for i in order:
            right = b.row_blocks(i, i + 1)
            for j, own in known.items():
                right = right - of_polynomial(a.entries[i][j]) @ own
            known[i] = of_polynomial(inverse(a.entries[i][i])) @ right
        return Block(b.rows, b.columns, tuple(known[i].entries[0] for i in range(len(b.rows))))

    def diagonal(self, column: Value) -> Value:
        return _lifted(diagonal_matrix, column)

    def trace(self, a: Block) -> Block:
        refuse_per_token("a trace", a)
        parts = (trace(a.entries[i][i]) for i in range(len(a.rows)))
        return of_polynomial(Polynomial.scalar(reduce(Scalar.__add__, parts, scalars.ZERO)))

    def token(self, sequence: Block, position: Positions) -> Value:
        if isinstance(position, range):
            return Stack(tuple(self._token(sequence, k) for k in position))
        return self._token(sequence, position)

    def _token(self, sequence: Block, position: int) -> Block:
        row = sequence.row_blocks(position, position + 1)
        if row.rows[0] != PAST:
            return row.T
        return row.tagged("scalar") if row.columns == (ONE_SIZE,) else row.T.tagged("column")

    def block(self, sequence: Block, start: int, stop: int) -> Block:
        refuse_per_token("a block", sequence)
        if set(sequence.rows) - {ONE_SIZE, PAST}:
            raise NoMeaning("growing history: some rows of a matrix whose number of rows stays open")
        return sequence.row_blocks(start, stop)

    def stack(self, columns: Sequence[Block]) -> Block:
        return self.concatenate([as_rows(column) for column in columns])

    def along(self, values: Sequence[Block], batch: tuple[int, ...]) -> Stack:
        raise NoMeaning("growing history: a scalar that is another one at each past token, in a way that has no rule")

    def concatenate(self, blocks: Sequence[Block]) -> Block:
        refuse_per_token("blocks", *blocks)
        entries = tuple(row for block in blocks for row in block.entries)
        return Block(tuple(size for block in blocks for size in block.rows), blocks[0].columns, entries)

    def total(self, a: Value) -> Block:
        values = a.values if isinstance(a, Stack) else (a,)
        return reduce(Block.__add__, (summed(value) for value in values))

    def sum_of_products(self, a: Value, b: Value) -> Block:
        return self.total(self.matmul(a, b))

    def count(self, positions: range) -> Block:
        if PAST in self.segments[positions.start : positions.stop]:
            return of_polynomial(Polynomial.of(*(letter.T for letter in ones(PAST)), *ones(PAST)))
        return self.number(Rational(len(positions)))

    # decays: gates of the past are a column D_gamma 1, or a matrix with a gate for each channel

    def decay(self, gates: Block) -> Block:
        return self._decay(gates, "Γ", strict=False, shift=0)

    def strict_decay(self, gates: Block, size: int) -> Block:
        del size
        return self._decay(gates, "Γ⁻", strict=True, shift=0)

    def shifted_decay(self, gates: Block) -> Block:
        return self._decay(gates, "Γˢʰ", strict=True, shift=1)

    def _decay(self, gates: Block, name: str, strict: bool, shift: int) -> Block:
        sides = gates.rows

        def entry(i: int, j: int) -> Polynomial:
            if i < j or (i == j and sides[i] != PAST):
                return Polynomial(sides[i], sides[j]) if i < j or strict else Polynomial.identity(ONE_SIZE)
            if i == j:
                return self.decays.past_decay(gates.entries[i][0], name, strict, shift)
            between = _product_of_gates(gates, j + 1, i + 1 - shift)
            if sides[j] != PAST:
                return Polynomial.scalar(between)
            return (self.decays.remaining(gates.entries[j][0]).T).times(between)

        return built(sides, sides, entry)

    def cumulative_product(self, gates: Block) -> Block:
        rows: list[Polynomial] = []
        last: Polynomial | None = None
        for size, (own,) in zip(gates.rows, gates.entries, strict=True):
            if size == PAST:
                rows.append(self.decays.cumulative(own))
                last = self.decays.total(own)
            else:
                last = own if last is None else hadamard(last, own)
                rows.append(last)
        return Block(gates.rows, gates.columns, tuple((row,) for row in rows))

    def preceding_product(self, gates: Block) -> Block:
        rows: list[Polynomial] = []
        before = all_ones((ONE_SIZE,), gates.columns).single
        for size, (own,) in zip(gates.rows, gates.entries, strict=True):
            rows.append(self.decays.preceding(own) if size == PAST else before)
            before = self.decays.total(own) if size == PAST else hadamard(before, own)
        return Block(gates.rows, gates.columns, tuple((row,) for row in rows))

    def remaining_product(self, gates: Block) -> Block:
        rows: list[Polynomial] = []
        after = all_ones((ONE_SIZE,), gates.columns).single
        for size, (own,) in zip(reversed(gates.rows), reversed(gates.entries), strict=True):
            if size == PAST:
                rows.append(hadamard(self.decays.remaining(own), Polynomial.of(*ones(PAST)) @ after))
            else:
                rows.append(after)
                after = hadamard(after, own)
        return Block(gates.rows, gates.columns, tuple((row,) for row in reversed(rows)))

    def total_product(self, gates: Block) -> Block:
        product = all_ones((ONE_SIZE,), gates.columns).single
        for size, (own,) in zip(gates.rows, gates.entries, strict=True):
            product = hadamard(product, self.decays.total(own) if size == PAST else own)
        return of_polynomial(product.T)


def _at(sides: Sizes, i: int, j: int) -> tuple[Sizes, Sizes]:
    return (sides[i],), (sides[j],)


def _product_of_gates(gates: Block, start: int, stop: int) -> Scalar:
    return reduce(Scalar.__mul__, (gates.entries[k][0].value for k in range(start, stop)), scalars.ONE)


def _lifted(operation: Callable[..., Block], *arguments: Value) -> Value:
    """An operation on blocks, at each position where an argument is a stack."""
    lengths = {len(x.values) for x in arguments if isinstance(x, Stack)}
    if not lengths:
        return operation(*arguments)
    [length] = lengths
    each = ([x.values[k] if isinstance(x, Stack) else x for x in arguments] for k in range(length))
    return Stack(tuple(operation(*own) for own in each))
