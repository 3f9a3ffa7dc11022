"""Object arrays: matrices whose entries are Python objects with exact arithmetic (polynomials, rational functions,
fractions).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sympy import Rational

from derivations.language.errors import UndefinedValue
from numerics.algebras.arrays import ArrayAlgebra
from numerics.algebras.contract import Value


def matrix_of(rows: list[list[Any]]) -> np.ndarray:
    """A matrix of objects; NumPy would otherwise look into objects that can be iterated over."""
    out = np.empty((len(rows), len(rows[0])), dtype=object)
    for r, row in enumerate(rows):
        for c, entry in enumerate(row):
            out[r, c] = entry
    return out


class ObjectAlgebra(ArrayAlgebra):
    """Entries are objects; a subclass says how a rational number becomes one, and how an entry is inverted."""

    xp = np

    @abstractmethod
    def entry(self, value: Rational) -> Any:
        """A rational number as an entry."""

    @abstractmethod
    def entry_reciprocal(self, entry: Any) -> Any:
        """1 / entry; UndefinedValue for zero."""

    def number(self, value: Rational) -> Value:
        return matrix_of([[self.entry(value)]])

    def _filled(self, rows: int, columns: int, value: int) -> Value:
        return matrix_of([[self.entry(Rational(value))] * columns for _ in range(rows)])

    def zeros(self, rows: int, columns: int) -> Value:
        return self._filled(rows, columns, 0)

    def ones(self, rows: int, columns: int) -> Value:
        return self._filled(rows, columns, 1)

    def lower(self, size: int, offset: int) -> Value:
        return matrix_of([[self.entry(Rational(int(r + offset >= c))) for c in range(size)] for r in range(size)])

    def add(self, a: Value, b: Value) -> Value:
        return a + b

    def negate(self, a: Value) -> Value:
        return -a

    def multiply(self, a: Value, b: Value) -> Value:
        return a * b

    def matmul(self, a: Value, b: Value) -> Value:
        return np.matmul(a, b)

    def total(self, a: Value) -> Value:
        return np.add.reduce(a, axis=0)

    def reciprocal(self, a: Value) -> Value:
        return np.frompyfunc(self.entry_reciprocal, 1, 1)(a)

    def is_zero(self, entry: Any) -> bool:
        """Whether an entry is zero."""
        return bool(entry == 0)

    def solve_general(self, a: Value, b: Value) -> Value:
        if a.ndim > 2 or b.ndim > 2:
            return self._solve_batch(a, b)
        rows = np.concat([a, b], axis=1)
        size = len(a)
        for k in range(size):
            self._bring_pivot(rows, k)
            rows[k] = rows[k] * self.reciprocal(rows[k, k : k + 1])  # NumPy would take a lone polynomial apart
            for r in range(size):
                if r != k and not self.is_zero(rows[r, k]):
                    rows[r] = rows[r] - rows[r, k : k + 1] * rows[k]
        return rows[:, size:]

    def _bring_pivot(self, rows: Value, k: int) -> None:
        """Swaps a row whose entry k isn't zero into place k."""
        pivot = next((r for r in range(k, len(rows)) if not self.is_zero(rows[r, k])), None)
        if pivot is None:
            raise UndefinedValue("a matrix that is inverted is singular")
        rows[[k, pivot]] = rows[[pivot, k]]

    def _solve_batch(self, a: Value, b: Value) -> Value:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))
        out = np.empty(b.shape, dtype=object)
        for index in np.ndindex(*batch):
            out[index] = self.solve_general(a[index], b[index])
        return out
