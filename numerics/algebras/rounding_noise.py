"""Float64 with relative noise u after each operation: how far an implementation of unit roundoff u may honestly be off.

A rounding changes a result by a relative error of at most u. Here it does so at random, independently; a sum of m
products gets the error of m such roundings, which grows like sqrt(m). Several draws give the size of the error that the
formula, evaluated in this order, must be expected to have. It says nothing about a wrong formula: that error doesn't
shrink with u.

Many kernels take products of narrow numbers and keep sums in a wider precision. Then u is what the operands of a
product are rounded with, and sums, quotients, roots and exponentials have the wider precision's noise.
"""

from __future__ import annotations

import array_api_compat.numpy as xp
import numpy as np

from numerics.algebras.contract import Value
from numerics.algebras.floats import Floats

SMALL = 2**14
"""Entries of an argument whose exponential is kept: those of one token are, and those of all tokens come but once."""


class RoundingNoise(Floats):
    """NumPy float64, perturbed by the unit roundoff of another precision.

    Args:
        unit_roundoff: u of the precision that is imitated (2^-24 for float32).
        rng: where the noise comes from.
        of_sums: the unit roundoff of sums, where they are kept in a wider precision than products' operands.
    """

    def __init__(self, unit_roundoff: float, rng: np.random.Generator, of_sums: float | None = None) -> None:
        super().__init__(xp, np.float64)
        self.name = f"rounding noise {unit_roundoff:.2g}"
        self.noise_level, self.rng = unit_roundoff, rng
        self.of_sums = unit_roundoff if of_sums is None else of_sums
        self._exponentials: dict[tuple[tuple[int, ...], bytes], Value] = {}

    def _noisy(self, value: Value, scale: Value | None = None, level: float | None = None) -> Value:
        """`value` off by `level` (that of sums where None) times a random share of `scale` (of itself where None)."""
        noise = self.rng.uniform(-1, 1, value.shape)
        error = (self.of_sums if level is None else level) * noise * (value if scale is None else scale)
        return np.where(np.isinf(value), value, value + error)  # log 0 = -oo isn't rounded

    def perturbed(self, value: Value, size: Value | float) -> Value:
        """`value` with a relative error of `size` roundings in each entry."""
        return self._noisy(value, abs(value) * size)

    def from_cumulated_logarithms(self, gates: Value) -> Value:
        """Gates, `... n k`, as kernels compute products of them: as exponentials of differences of cumulated
        logarithms, each of which is rounded. What lies between tokens j and i is off by the roundings of two sums: a
        scan by halves adds log2 n times, and a kernel whose exponentials are powers of two multiplies once more.
        """
        sums = np.cumsum(np.log(np.maximum(gates, 1e-300)), axis=-2)
        times = (1 + np.log2(max(sums.shape[-2], 1))) ** 0.5
        off = self.of_sums * abs(sums) * times * self.rng.uniform(-1, 1, sums.shape)
        return gates * np.exp(np.diff(off, axis=-2, prepend=0.0))

    def _operand(self, value: Value) -> Value:
        """What goes into a product: rounded once more where it comes from a wider precision."""
        return value if self.of_sums == self.noise_level else self._noisy(value, level=self.noise_level)

    def add(self, a: Value, b: Value) -> Value:
        return self._noisy(a + b)

    def multiply(self, a: Value, b: Value) -> Value:
        return self._noisy(a * b, level=self.noise_level)

    def matmul(self, a: Value, b: Value) -> Value:
        a, b = self._operand(a), self._operand(b)
        return self._noisy(np.matmul(a, b), np.matmul(abs(a), abs(b)), self.of_sums * a.shape[-1] ** 0.5)

    def total(self, a: Value) -> Value:
        return self._noisy(a.sum(axis=0), abs(a).sum(axis=0), self.of_sums * len(a) ** 0.5)

    def reciprocal(self, a: Value) -> Value:
        return self._noisy(1 / a)

    def sqrt(self, a: Value) -> Value:
        return self._noisy(np.sqrt(a))

    def exponential(self, a: Value) -> Value:
        """Equal arguments have equal errors: a rate that is fixed is rounded the same way at every token, so that
        errors of its powers add up.
        """
        if a.size > SMALL:
            return self._noisy(np.exp(a))
        key = (a.shape, a.tobytes())
        if key not in self._exponentials:
            self._exponentials[key] = self._noisy(np.exp(a))
        return self._exponentials[key]

    def logarithm(self, a: Value) -> Value:
        return self._noisy(np.log(a))

    def solve_general(self, a: Value, b: Value) -> Value:
        """Elimination with partial pivoting, each operation rounded: what it fills in may be far larger than `a`."""
        size = a.shape[-1]
        rows = np.concatenate(_alike_in_batch(self._operand(a), self._operand(b)), axis=-1)
        for j in range(size):
            _pivot(rows, j)
            factors = self._noisy(rows[..., j + 1 :, j, None] / rows[..., j, None, j, None])
            rows[..., j + 1 :, j + 1 :] = self._less(rows[..., j + 1 :, j + 1 :], factors, rows[..., j, None, j + 1 :])
        solution = rows[..., size:]
        for j in reversed(range(size)):
            solution[..., j, :] = self._noisy(solution[..., j, :] / rows[..., j, j, None])
            solution[..., :j, :] = self._less(solution[..., :j, :], rows[..., :j, j, None], solution[..., j, None, :])
        return solution

    def _less(self, rows: Value, factors: Value, row: Value) -> Value:
        """rows - factors row, the step of an elimination."""
        return self._noisy(rows - self._noisy(factors * row))


def _alike_in_batch(a: Value, b: Value) -> tuple[Value, Value]:
    """Both with the same leading dimensions."""
    leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.broadcast_to(a, leading + a.shape[-2:]), np.broadcast_to(b, leading + b.shape[-2:])


def _pivot(rows: Value, j: int) -> None:
    """Exchanges row j with the one below that has the largest entry in column j, in each matrix of a batch."""
    chosen = j + abs(rows[..., j:, j]).argmax(axis=-1)[..., None, None]
    upper, lower = rows[..., j, None, :].copy(), np.take_along_axis(rows, chosen, axis=-2)
    if not lower[..., j].all():
        raise np.linalg.LinAlgError("Singular matrix")
    np.put_along_axis(rows, chosen, upper, axis=-2)
    rows[..., j, None, :] = lower
