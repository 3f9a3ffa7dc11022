"""GF(p) with p = 2^31 - 1: exact arithmetic at production sizes, as fast as float64 matrix products.

In a matrix product one operand is split into pieces of a few bits, such that sums of a residue times a piece stay below
2^53 and BLAS computes them exactly. Reduction modulo a Mersenne prime is a shift and an addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import flint
import numpy as np
from sympy import Rational

from derivations.language.errors import UndefinedValue
from numerics.algebras.arrays import ArrayAlgebra
from numerics.algebras.contract import Value

PRIME = 2**31 - 1
ELIMINATION_BLOCK = 4  # up to this size elimination goes by rows, above it by halves and matrix products
SHORT_SUM, LONG_SUM = 2**6, 2**11
"""Sums of 2^6 products leave 16 bits for a piece, sums of 2^11 leave 11: 53 bits less 31 for the whole residue."""


def reduced(a: np.ndarray) -> np.ndarray:
    """A nonnegative int64 array below p^2, modulo p."""
    folded = np.bitwise_and(a, PRIME)
    folded += a >> 31  # at most 2 p - 2
    return _once(folded)


def _once(a: np.ndarray) -> np.ndarray:
    """a - p where that isn't negative, else a: as unsigned numbers the smaller of both."""
    unsigned = a.view(np.uint64)
    lower = unsigned - np.uint64(PRIME)
    return np.minimum(unsigned, lower, out=lower).view(np.int64)


def _pieces(a: np.ndarray, bits: int) -> Iterator[np.ndarray]:
    """Residues in pieces of so many bits, as floats, the lowest bits first."""
    return (np.bitwise_and(a >> shift, (1 << bits) - 1).astype(float) for shift in range(0, 31, bits))


def matmul_by_pieces(a: np.ndarray, b: np.ndarray, reduce: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The matrix product of residues below 2^31, by float64 products of pieces; `reduce` takes residues below 2^62."""
    inner = a.shape[-1]
    if inner == 1:
        return reduce(a * b)
    if inner > LONG_SUM:
        half = inner // 2
        first = matmul_by_pieces(a[..., :half], b[..., :half, :], reduce)
        return reduce(first + matmul_by_pieces(a[..., half:], b[..., half:, :], reduce))
    bits = 16 if inner <= SHORT_SUM else 11
    if a.size < b.size:
        whole = b.astype(float)
        products = [np.matmul(piece, whole) for piece in _pieces(a, bits)]
    else:
        whole = a.astype(float)
        products = [np.matmul(whole, piece) for piece in _pieces(b, bits)]
    value = products[0].astype(np.int64)
    for position, product in enumerate(products[1:], start=1):
        value += reduce(product.astype(np.int64)) << bits * position
    return reduce(value)


class FiniteField(ArrayAlgebra):
    """Matrices of residues in int64 arrays."""

    name = "finite field"
    xp = np
    prime = PRIME
    tokens_at_once = 64

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
        return matmul_by_pieces(a, b, reduced)

    def total(self, a: Value) -> Value:
        return reduced(a.sum(axis=0))

    def reciprocal(self, a: Value) -> Value:
        if (a == 0).any():
            raise UndefinedValue("division by zero")
        return self._inverses(a.reshape(-1)).reshape(a.shape)

    def _inverses(self, a: Value) -> Value:
        """All at once: 1 / x and 1 / y are y and x times 1 / (x y), and half as many products are left to invert."""
        if len(a) == 1:
            return np.array([pow(int(a[0]), -1, PRIME)], dtype=np.int64)
        half = len(a) // 2
        x, y, odd = a[:half], a[half : 2 * half], a[2 * half :]
        inverse = self._inverses(np.concat([self.multiply(x, y), odd]))
        return np.concat([self.multiply(inverse[:half], y), self.multiply(inverse[:half], x), inverse[half:]])

    def solve_general(self, a: Value, b: Value) -> Value:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
        try:
            return self._solve_by_halves(a, b)
        except UndefinedValue:  # a leading block is singular, which doesn't make the matrix so
            return self._solve_each(a, b)

    def _solve_by_halves(self, a: Value, b: Value) -> Value:
        """Elimination by blocks, without a choice of pivots: a whole batch takes the same few matrix products."""
        size = a.shape[-1]
        if size <= ELIMINATION_BLOCK:
            return self._eliminate(a, b)
        half = size // 2
        right = np.concat([a[..., :half, half:], b[..., :half, :]], axis=-1)
        head = self._solve_by_halves(a[..., :half, :half], right)
        beside, top = head[..., : size - half], head[..., size - half :]
        below = a[..., half:, :half]
        complement = self.subtract(a[..., half:, half:], self.matmul(below, beside))
        bottom = self._solve_by_halves(complement, self.subtract(b[..., half:, :], self.matmul(below, top)))
        return np.concat([self.subtract(top, self.matmul(beside, bottom)), bottom], axis=-2)

    def _eliminate(self, a: Value, b: Value) -> Value:
        """Gauss and Jordan's elimination, multiplying across instead of dividing: one reciprocal for all pivots."""
        size = a.shape[-1]
        rows = np.concat([a, b], axis=-1)
        for k in range(size):
            pivot, factors = rows[..., k : k + 1, :], rows[..., :, k : k + 1]
            others = np.arange(size)[:, None] != k
            crossed = self.subtract(self.multiply(rows, pivot[..., k : k + 1]), self.multiply(factors, pivot))
            rows = np.where(others, crossed, rows)
        pivots = np.stack([rows[..., k, k : k + 1] for k in range(size)], axis=-2)
        return self.multiply(rows[..., size:], self.reciprocal(pivots))

    def _solve_each(self, a: Value, b: Value) -> Value:
        solved = np.empty(b.shape, dtype=np.int64)
        for index in np.ndindex(*b.shape[:-2]):
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
