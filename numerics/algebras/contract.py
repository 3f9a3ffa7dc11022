"""The contract of a number system: what the walk over a statement asks of it.

A value is a matrix in the number system, of shape (..., rows, columns): leading dimensions are a batch (heads,
trials, positions of a sum) and broadcast. A scalar is a value of shape (..., 1, 1). Sequences are (..., n, d), a
token is its row as a
column (..., d, 1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from sympy import Rational

from derivations.language.errors import NoMeaning
from derivations.language.structure import Structure

Value = Any
Positions = int | range


class Algebra(ABC):
    """One number system. Every method takes and returns values in the sense above."""

    name: str
    tokens_at_once: int = 1
    """How many tokens are read in one evaluation, along a leading dimension, where reading them doesn't change a
    state.
    """

    has_logarithm: bool = False
    """Whether log is evaluated as written; elsewhere exp(X + log Y) is exp(X) . Y."""

    @abstractmethod
    def number(self, value: Rational) -> Value:
        """A rational number as a scalar."""

    @abstractmethod
    def zeros(self, rows: int, columns: int) -> Value:
        """The zero matrix."""

    @abstractmethod
    def ones(self, rows: int, columns: int) -> Value:
        """The matrix of ones."""

    @abstractmethod
    def lower(self, size: int, offset: int) -> Value:
        """Ones where row + offset >= column: 0 gives M, -1 gives M^-."""

    @abstractmethod
    def identity(self, size: int) -> Value:
        """The identity matrix."""

    @abstractmethod
    def add(self, a: Value, b: Value) -> Value:
        """a + b."""

    @abstractmethod
    def negate(self, a: Value) -> Value:
        """-a."""

    @abstractmethod
    def multiply(self, a: Value, b: Value) -> Value:
        """The entrywise product; a scalar scales."""

    @abstractmethod
    def matmul(self, a: Value, b: Value) -> Value:
        """The matrix product."""

    @abstractmethod
    def transpose(self, a: Value) -> Value:
        """The transpose of the last two dimensions."""

    @abstractmethod
    def reciprocal(self, a: Value) -> Value:
        """1 / a entrywise; UndefinedValue where an entry is zero."""

    @abstractmethod
    def solve(self, a: Value, b: Value, structure: Structure) -> Value:
        """x with a x = b; UndefinedValue where a is singular."""

    @abstractmethod
    def diagonal(self, column: Value) -> Value:
        """Diag(column)."""

    @abstractmethod
    def trace(self, a: Value) -> Value:
        """The trace, as a scalar."""

    @abstractmethod
    def token(self, sequence: Value, position: Positions) -> Value:
        """The row at a position (from 0) as a column; for a range, one more leading dimension runs over it."""

    @abstractmethod
    def block(self, sequence: Value, start: int, stop: int) -> Value:
        """The rows start .. stop - 1."""

    @abstractmethod
    def stack(self, columns: Sequence[Value]) -> Value:
        """The matrix whose rows are these columns, transposed."""

    @abstractmethod
    def along(self, values: Sequence[Value], batch: tuple[int, ...]) -> Value:
        """The values along a new leading dimension, in front of the dimensions of the batch."""

    @abstractmethod
    def concatenate(self, blocks: Sequence[Value]) -> Value:
        """The blocks below one another."""

    @abstractmethod
    def total(self, a: Value) -> Value:
        """The sum over the leading dimension."""

    @abstractmethod
    def sum_of_products(self, a: Value, b: Value) -> Value:
        """The sum of a_j b_j over the leading dimension of both."""

    @abstractmethod
    def decay(self, gates: Value) -> Value:
        """Gamma of a column of gates."""

    @abstractmethod
    def shifted_decay(self, gates: Value) -> Value:
        """Gamma^sh of a column of gates."""

    def strict_decay(self, gates: Value, size: int) -> Value:
        """Gamma^- of a column of gates, `size` of them."""
        return self.subtract(self.decay(gates), self.identity(size))

    @abstractmethod
    def cumulative_product(self, gates: Value) -> Value:
        """The column of gamma_1 ... gamma_i."""

    @abstractmethod
    def remaining_product(self, gates: Value) -> Value:
        """The column of gamma_{i+1} ... gamma_n."""

    def preceding_product(self, gates: Value) -> Value:
        """The rows gamma_1 ... gamma_{i-1}, one for the first token."""
        rows, columns = gates.shape[-2:]
        return self.concatenate([self.ones(1, columns), self.block(self.cumulative_product(gates), 0, rows - 1)])

    def total_product(self, gates: Value) -> Value:
        """gamma_1 ... gamma_n as a scalar; of a matrix of gates, one product for each channel as a column."""
        products = self.cumulative_product(gates)
        return self.token(products, products.shape[-2] - 1)

    def count(self, positions: range) -> Value:
        """The number of tokens at some positions, as a scalar."""
        return self.number(Rational(len(positions)))

    def sqrt(self, a: Value) -> Value:
        """The square root; number systems without one refuse."""
        raise NoMeaning(f"{self.name} has no square roots: assume the argument to be >= 0, and it is drawn as a square")

    def exponential(self, a: Value) -> Value:
        """The exponential of each entry; number systems without one refuse."""
        raise NoMeaning(f"{self.name} has no exponential")

    def logarithm(self, a: Value) -> Value:
        """The logarithm of each entry; number systems without one refuse."""
        raise NoMeaning(f"{self.name} has no logarithm: log has a meaning as a term of an exponent, exp(X + log Y)")

    def subtract(self, a: Value, b: Value) -> Value:
        """a - b."""
        return self.add(a, self.negate(b))

    def power(self, a: Value, exponent: int) -> Value:
        """An entrywise power, by repeated squaring."""
        if exponent < 0:
            return self.reciprocal(self.power(a, -exponent))
        result = self.number(Rational(1))
        while exponent:
            if exponent & 1:
                result = self.multiply(result, a)
            exponent >>= 1
            a = self.multiply(a, a) if exponent else a
        return result

    def positions(self, length: int) -> Iterable[int]:
        """The positions of a sequence, in order."""
        return range(length)
