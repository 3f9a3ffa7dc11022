"""Block matrices over the free ring: each side is a list of sizes, each entry a polynomial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from derivations.language.errors import NoMeaning
from numerics.free_ring.letters import ONE_SIZE, ones
from numerics.free_ring.polynomials import Polynomial, hadamard
from numerics.free_ring.scalars import Scalar

Sizes = tuple[str, ...]
Entries = tuple[tuple[Polynomial, ...], ...]


@dataclass(frozen=True)
class Block:
    """A block matrix.

    `per_token` says that it is one value for each token of the past, side by side: a "column" is d x n, a "row" n x d,
    a "scalar" n x 1. "summed" is a product in which these tokens have been added up already.
    """

    rows: Sizes
    columns: Sizes
    entries: Entries
    per_token: str = ""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of blocks."""
        return len(self.rows), len(self.columns)

    @property
    def sides(self) -> tuple[Sizes, Sizes]:
        return self.rows, self.columns

    @property
    def single(self) -> Polynomial:
        """The entry of a matrix of one block."""
        if self.shape != (1, 1):
            raise NoMeaning(f"a matrix of {self.shape[0]} x {self.shape[1]} blocks isn't one block")
        return self.entries[0][0]

    @property
    def is_scalar(self) -> bool:
        return self.rows == self.columns == (ONE_SIZE,)

    @property
    def scalar(self) -> Scalar:
        """The value of a 1 x 1 matrix."""
        return self.single.value

    @property
    def T(self) -> Block:
        """The transpose."""
        entries = tuple(tuple(entry.T for entry in column) for column in zip(*self.entries, strict=True))
        if not self.entries:
            entries = tuple(() for _ in self.columns)
        turned = {"column": "row", "row": "column"}.get(self.per_token, self.per_token)
        return Block(self.columns, self.rows, entries, turned)

    def tagged(self, per_token: str) -> Block:
        """The same entries, read as values for each token."""
        return Block(self.rows, self.columns, self.entries, per_token)

    def mapped(self, change: Callable[[Polynomial], Polynomial]) -> Block:
        """Each entry changed."""
        return Block(self.rows, self.columns, tuple(tuple(map(change, row)) for row in self.entries), self.per_token)

    def zipped(self, other: Block, combine: Callable[[Polynomial, Polynomial], Polynomial]) -> Block:
        """Entry with entry.

        Raises:
            NoMeaning: the sides differ.
        """
        if self.sides != other.sides:
            raise NoMeaning(f"blocks of sides {self.sides} and {other.sides} don't fit together")
        rows = zip(self.entries, other.entries, strict=True)
        entries = tuple(tuple(map(combine, left, right)) for left, right in rows)
        return Block(self.rows, self.columns, entries, self.per_token)

    def __add__(self, other: Block) -> Block:
        return self.zipped(other, Polynomial.__add__)

    def __neg__(self) -> Block:
        return self.mapped(Polynomial.__neg__)

    def __sub__(self, other: Block) -> Block:
        return self + -other

    def __matmul__(self, other: Block) -> Block:
        if self.columns != other.rows:
            raise NoMeaning(f"blocks of sides {self.sides} and {other.sides} can't be multiplied")
        columns = list(zip(*other.entries, strict=True)) if other.entries else [()] * len(other.columns)
        entries = tuple(
            tuple(_inner(size, width, row, column) for width, column in zip(other.columns, columns, strict=True))
            for size, row in zip(self.rows, self.entries, strict=True)
        )
        return Block(self.rows, other.columns, entries)

    def hadamard(self, other: Block) -> Block:
        """The entrywise product."""
        return self.zipped(other, hadamard)

    def times(self, scalar: Scalar) -> Block:
        """Scaled."""
        return self.mapped(lambda entry: entry.times(scalar))

    def row_blocks(self, start: int, stop: int) -> Block:
        """Some of the rows."""
        return Block(self.rows[start:stop], self.columns, self.entries[start:stop])

    @property
    def is_zero(self) -> bool:
        return all(entry.is_zero for row in self.entries for entry in row)

    def __str__(self) -> str:
        rows = ["  ".join(map(str, row)) for row in self.entries]
        return rows[0] if len(rows) == 1 else "[" + " ; ".join(rows) + "]"


def _inner(rows: str, columns: str, row: Sequence[Polynomial], column: Sequence[Polynomial]) -> Polynomial:
    total = Polynomial(rows, columns)
    for left, right in zip(row, column, strict=True):
        if left and right:
            total = total + left @ right
    return total


def built(rows: Sizes, columns: Sizes, entry: Callable[[int, int], Polynomial]) -> Block:
    """A block matrix from a function of the place."""
    return Block(rows, columns, tuple(tuple(entry(i, j) for j in range(len(columns))) for i in range(len(rows))))


def zeros(rows: Sizes, columns: Sizes) -> Block:
    """The zero matrix."""
    return built(rows, columns, lambda i, j: Polynomial(rows[i], columns[j]))


def all_ones(rows: Sizes, columns: Sizes) -> Block:
    """The matrix of ones."""
    return built(rows, columns, lambda i, j: ones_of(rows[i], columns[j]))


def ones_of(rows: str, columns: str) -> Polynomial:
    """One block of ones: a column of ones times a row of them."""
    word = ones(rows) + tuple(letter.T for letter in ones(columns))
    return Polynomial.of(*word) if word else Polynomial.identity(ONE_SIZE)


def of_polynomial(polynomial: Polynomial) -> Block:
    """A matrix of one block."""
    return Block((polynomial.rows,), (polynomial.columns,), ((polynomial,),))


def differences(left: Block, right: Block) -> list[tuple[int, int, Polynomial]]:
    """Where two matrices differ: row, column, left - right."""
    gap = left - right
    places = product(range(len(gap.rows)), range(len(gap.columns)))
    return [(i, j, gap.entries[i][j]) for i, j in places if not gap.entries[i][j].is_zero]
