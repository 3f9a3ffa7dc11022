"""Floating point on any array-API namespace: NumPy, Torch, CuPy. The reference that kernels are compared with, and
gradients through Torch.
"""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy
import numpy as np
from sympy import Rational

from derivations.language.errors import UndefinedValue
from numerics.algebras.arrays import ArrayAlgebra
from numerics.algebras.contract import Value


class Floats(ArrayAlgebra):
    """Matrices of floats of one dtype, on one device.

    Args:
        xp: an array-API namespace (`array_api_compat.numpy`, `.torch`, `.cupy`).
        dtype: a floating dtype of that namespace.
        device: where constants are made; the namespace's default where None.
    """

    tokens_at_once = 64
    has_logarithm = True

    def __init__(self, xp: Any, dtype: Any, device: Any = None) -> None:
        self.xp, self.dtype, self.device = xp, dtype, device
        self.name = (
            f"{xp.__name__.rsplit('.', 1)[-1]} {str(dtype).rsplit('.', 1)[-1].strip('<>').split()[-1].strip(chr(39))}"
        )

    @property
    def unit_roundoff(self) -> float:
        """Half the distance from 1 to the next number."""
        return float(self.xp.finfo(self.dtype).eps) / 2

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number that has full precision."""
        return float(self.xp.finfo(self.dtype).smallest_normal)

    def asarray(self, value: Any) -> Value:
        """An array of this dtype on this device."""
        return self.xp.asarray(value, dtype=self.dtype, device=self.device)

    def number(self, value: Rational) -> Value:
        return self.asarray([[float(value)]])

    def zeros(self, rows: int, columns: int) -> Value:
        return self.xp.zeros((rows, columns), dtype=self.dtype, device=self.device)

    def ones(self, rows: int, columns: int) -> Value:
        return self.xp.ones((rows, columns), dtype=self.dtype, device=self.device)

    def add(self, a: Value, b: Value) -> Value:
        return a + b

    def negate(self, a: Value) -> Value:
        return -a

    def multiply(self, a: Value, b: Value) -> Value:
        return a * b

    def matmul(self, a: Value, b: Value) -> Value:
        return self.xp.matmul(a, b)

    def total(self, a: Value) -> Value:
        return self.xp.sum(a, axis=0)

    def reciprocal(self, a: Value) -> Value:
        return 1 / a

    def sqrt(self, a: Value) -> Value:
        return self.xp.sqrt(a)

    def exponential(self, a: Value) -> Value:
        return self.xp.exp(a)

    def logarithm(self, a: Value) -> Value:
        return self.xp.log(a)

    def solve_general(self, a: Value, b: Value) -> Value:
        try:
            return self.xp.linalg.solve(a, b)
        except (ValueError, RuntimeError) as error:  # NumPy's LinAlgError is the former, Torch's the latter
            raise UndefinedValue(f"a matrix that is inverted is singular: {error}") from None


def numpy_float64() -> Floats:
    """The floats that are always there."""
    return Floats(array_api_compat.numpy, np.float64)
