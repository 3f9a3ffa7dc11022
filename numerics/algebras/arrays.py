"""Number systems whose values are arrays: everything that is slicing and stacking, and substitution in triangular
systems.

An array has an array-API namespace `xp`. Object arrays of polynomials or fractions, residues and floats differ only
in their arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from derivations.language.structure import Structure
from numerics.algebras.contract import Algebra, Positions, Value

SUBSTITUTION_BLOCK = (
    24  # below this size a triangular system is solved row by row, above it by halves and matrix products
)


class ArrayAlgebra(Algebra):
    """Shared by all array number systems; they add `number`, `zeros`, `ones` and the arithmetic."""

    xp: Any

    def lower(self, size: int, offset: int) -> Value:
        return self.xp.tril(self.ones(size, size), k=offset)

    def identity(self, size: int) -> Value:
        return self.subtract(self.lower(size, 0), self.lower(size, -1))

    def transpose(self, a: Value) -> Value:
        return self.xp.matrix_transpose(a)

    def diagonal(self, column: Value) -> Value:
        return self.multiply(column, self.identity(column.shape[-2]))

    def trace(self, a: Value) -> Value:
        entries = [a[..., k : k + 1, k : k + 1] for k in range(a.shape[-1])]
        return self.total(self.xp.stack(entries, axis=0))

    def token(self, sequence: Value, position: Positions) -> Value:
        if isinstance(position, int):
            return sequence[..., position, :][..., None]
        rows = sequence[..., position.start : position.stop, :]
        return self.xp.moveaxis(rows, -2, 0)[..., None]

    def block(self, sequence: Value, start: int, stop: int) -> Value:
        return sequence[..., start:stop, :]

    def stack(self, columns: Sequence[Value]) -> Value:
        shape = max((c.shape for c in columns), key=len)
        rows = [self.xp.broadcast_to(c, shape)[..., 0] for c in columns]
        return self.xp.stack(rows, axis=-2)

    def along(self, values: Sequence[Value], batch: tuple[int, ...]) -> Value:
        return self.xp.stack([self.xp.broadcast_to(v, (*batch, *v.shape[-2:])) for v in values], axis=0)

    def concatenate(self, blocks: Sequence[Value]) -> Value:
        batch = max((b.shape[:-2] for b in blocks), key=len)
        whole = [b if b.shape[:-2] == batch else self.xp.broadcast_to(b, (*batch, *b.shape[-2:])) for b in blocks]
        return self.xp.concat(whole, axis=-2)

    def sum_of_products(self, a: Value, b: Value) -> Value:
        return self.matmul(self._side_by_side(a), self.transpose(self._side_by_side(self.transpose(b))))

    def _side_by_side(self, a: Value) -> Value:
        """The blocks of the leading dimension next to one another: (m, ..., r, c) to (..., r, m c)."""
        moved = self.xp.moveaxis(a, 0, -2)
        return self.xp.reshape(moved, (*moved.shape[:-2], moved.shape[-2] * moved.shape[-1]))

    def decay(self, gates: Value) -> Value:
        size = gates.shape[-2]
        eye = self.identity(size)
        row = eye[:1, :]
        rows = [row]
        for k in range(1, size):
            row = self.add(self.multiply(row, gates[..., k : k + 1, :]), eye[k : k + 1, :])
            rows.append(row)
        return self.concatenate(self._broadcast(rows))

    def shifted_decay(self, gates: Value) -> Value:
        size = gates.shape[-2]
        decay = self.decay(gates)
        first = self.multiply(decay[..., :1, :], self.zeros(1, 1))
        return self.concatenate([first, decay[..., : size - 1, :]])

    def cumulative_product(self, gates: Value) -> Value:
        # by doubling: after each round an entry is the product of twice as many gates that end with its own
        products, reach, size = gates, 1, gates.shape[-2]
        while reach < size:
            longer = self.multiply(products[..., reach:, :], products[..., : size - reach, :])
            products = self.concatenate([products[..., :reach, :], longer])
            reach *= 2
        return products

    def remaining_product(self, gates: Value) -> Value:
        one = self.xp.broadcast_to(self.ones(1, 1), gates[..., :1, :].shape)
        products, reach, size = self.concatenate([gates[..., 1:, :], one]), 1, gates.shape[-2]
        while reach < size:
            longer = self.multiply(products[..., : size - reach, :], products[..., reach:, :])
            products = self.concatenate([longer, products[..., size - reach :, :]])
            reach *= 2
        return products

    def _broadcast(self, values: Sequence[Value]) -> list[Value]:
        shape = max((v.shape for v in values), key=len)
        return [self.xp.broadcast_to(v, shape) for v in values]

    def solve(self, a: Value, b: Value, structure: Structure) -> Value:
        if structure.lower and structure.upper:
            entries = self.xp.stack([a[..., k, k : k + 1] for k in range(a.shape[-1])], axis=-2)
            return b if structure.unit else self.multiply(self.reciprocal(entries), b)
        if structure.lower:
            return self._forward(*(a, b) if structure.unit else self._with_unit_diagonal(a, b))
        if structure.upper:
            flip = lambda x, axes: self.xp.flip(x, axis=axes)
            return flip(self.solve(flip(a, (-2, -1)), flip(b, -2), structure.transposed), -2)
        return self.solve_general(a, b)

    def solve_general(self, a: Value, b: Value) -> Value:
        """Gaussian elimination without a choice of pivots beyond the first that isn't zero."""
        raise NotImplementedError

    def _with_unit_diagonal(self, a: Value, b: Value) -> tuple[Value, Value]:
        entries = self.xp.stack([a[..., k, k : k + 1] for k in range(a.shape[-1])], axis=-2)
        inverse = self.reciprocal(entries)
        return self.multiply(inverse, a), self.multiply(inverse, b)

    def _forward(self, a: Value, b: Value) -> Value:
        """Forward substitution with a unit lower triangular matrix, by halves."""
        size = a.shape[-1]
        if size <= SUBSTITUTION_BLOCK:
            return self._forward_rows(a, b)
        half = size // 2
        top = self._forward(a[..., :half, :half], b[..., :half, :])
        rest = self.subtract(b[..., half:, :], self.matmul(a[..., half:, :half], top))
        bottom = self._forward(a[..., half:, half:], rest)
        return self.concatenate([top, bottom])

    def _forward_rows(self, a: Value, b: Value) -> Value:
        solved = b[..., :1, :]
        for k in range(1, a.shape[-1]):
            row = self.subtract(b[..., k : k + 1, :], self.matmul(a[..., k : k + 1, :k], solved))
            solved = self.concatenate([solved, row])
        return solved
