"""GF(p) with p = 2^31 - 1: exact arithmetic at production sizes, as fast as float64 matrix products.

A residue is split as high 2^16 + low. The three float64 products of Karatsuba's scheme stay below 2^53 for inner
dimensions up to 2^18, so that BLAS computes them exactly. Reduction modulo a Mersenne prime is a shift and an
addition.
"""

from __future__ import annotations

import flint
import numpy as np
from sympy import Rational

from derivations.language.errors import UndefinedValue
from numerics.algebras.arrays import ArrayAlgebra
from numerics.algebras.contract import Value

PRIME = 2**31 - 1


def reduced(a: np.ndarray) -> np.ndarray:
    """A nonnegative int64 array below 2^62 modulo the prime."""
    high = a >> 31
    folded = np.bitwise_and(a, PRIME)
    folded += high  # below 3 p
    return _once(_once(folded))


def _once(a: np.ndarray) -> np.ndarray:
    """a - p where that isn't negative, else a: as unsigned numbers the smaller of both."""
    unsigned = a.view(np.uint64)
    return np.minimum(unsigned, unsigned - np.uint64(PRIME)).view(np.int64)


class FiniteField(ArrayAlgebra):
    """Matrices of residues in int64 arrays."""

    name = "finite field"
    xp = np
    prime = PRIME

    def number(self, value: Rational) -> Value:
        if int(value.q) % PRIME == 0:
            raise UndefinedValue(f"{value} has no residue modulo {PRIME}")
        return np.array([[int(value.p) * pow(int(value.q), -1, PRIME) % PRIME]], dtype=np.int64)

    def zeros(self, rows: int, columns: int) -> Value:
        return np.zeros((rows, columns), dtype=np.int64)

    def ones(self, rows: int, columns: int) -> Value:
        return np.ones((rows, columns), dtype=np.int64)

    def identity(self, size: int) -> Value:
        return np.eye(size, dtype=np.int64)

    def add(self, a: Value, b: Value) -> Value:
        return _once(a + b)

    def negate(self, a: Value) -> Value:
        return np.where(a == 0, 0, PRIME - a)

    def subtract(self, a: Value, b: Value) -> Value:
        return _once(a - b + PRIME)

    def multiply(self, a: Value, b: Value) -> Value:
        return reduced(a * b)

    def matmul(self, a: Value, b: Value) -> Value:
        high_a, low_a = (a >> 16).astype(float), (a & 0xFFFF).astype(float)
        high_b, low_b = (b >> 16).astype(float), (b & 0xFFFF).astype(float)
        high = np.matmul(high_a, high_b)
        low = np.matmul(low_a, low_b)
        mixed = np.matmul(high_a + low_a, high_b + low_b) - high - low
        upper, middle = reduced(high.astype(np.int64)), reduced(mixed.astype(np.int64))
        # 2^32 = 2 modulo p, and middle 2^16 < 2^47
        return reduced((upper << 1) + (middle << 16) + low.astype(np.int64))

    def total(self, a: Value) -> Value:
        return reduced(a.sum(axis=0))

    def reciprocal(self, a: Value) -> Value:
        if (a == 0).any():
            raise UndefinedValue("division by zero")
        return self.power(a, PRIME - 2)

    def solve_general(self, a: Value, b: Value) -> Value:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
        solved = np.empty(b.shape, dtype=np.int64)
        for index in np.ndindex(*batch):
            solved[index] = self._solve_one(a[index], b[index])
        return solved

    @staticmethod
    def _solve_one(a: Value, b: Value) -> Value:
        left, right = (flint.nmod_mat(x.shape[0], x.shape[1], x.ravel().tolist(), PRIME) for x in (a, b))
        try:
            solution = left.solve(right)
        except ZeroDivisionError:
            raise UndefinedValue("a matrix that is inverted is singular") from None
        return np.array([[int(entry) for entry in row] for row in solution.tolist()], dtype=np.int64)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Value:
        """Uniform residues."""
        return rng.integers(0, PRIME, shape, dtype=np.int64)
