"""Arrays of residues that array-API code runs on unchanged: exact arithmetic in GF(p), p = 2^31 - 1.

A `FieldArray` holds residues modulo p. An `ExponentArray` holds exponents modulo p - 1: exp takes e to 7^e, 7 being a
generator of the p - 1 units, so that exp(a + b) = exp(a) exp(b) holds exactly; minus infinity is an exponent whose
power is 0. Log gates are exponents, and so is what stands in the inner products of exp(q^T k).

    xp = array_namespace(q);  xp.exp(g) * (q @ xp.matrix_transpose(k))    # the same line as on NumPy and CuPy

What has no exact meaning (an order, a maximum, a root, exp of a residue) is refused with an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NoReturn, Self

import numpy as np

PRIME = 2**31 - 1
GENERATOR = 7
MINUS_INFINITY = -1
HALF_BITS = 16
"""Matrix products are taken of halves in float64: sums of 2^20 products of 16 bits each stay below 2^53."""

Number = int | float | Fraction
Axes = int | tuple[int, ...] | None


class NoExactMeaning(TypeError):
    """An operation that exact numbers don't have."""


class ExactArray:
    """What residues and exponents share: shapes, indexing, sums.

    Args:
        values: integers of any size that int64 has; they are reduced.
    """

    modulus: int
    __array_ufunc__ = None  # a NumPy array on the left leaves the operation to this class
    device = "cpu"
    dtype = "exact"

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, dtype=np.int64) % self.modulus

    @classmethod
    def of(cls, reduced: np.ndarray) -> Self:
        """An array of values that are reduced already; minus infinity among exponents is `MINUS_INFINITY`."""
        made = cls.__new__(cls)
        made.values = reduced
        return made

    @classmethod
    def number(cls, value: Number) -> int:
        """A Python number as a value; floats count as the fractions that they are."""
        fraction = Fraction(value)
        return fraction.numerator * pow(fraction.denominator, -1, cls.modulus) % cls.modulus

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return self.values.shape

    def __array_namespace__(self, api_version: str | None = None) -> Namespace:
        del api_version
        return NAMESPACE

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.values!r})"

    def __getitem__(self, index: Any) -> Self:
        return self.of(self.values[index])

    def _operand(self, other: Any, operation: str) -> Any:
        """The values of the other operand of a sum or a product."""
        if isinstance(other, type(self)):
            return other.finite(operation)
        if isinstance(other, int | float | Fraction):
            return self.number(other)
        raise NoExactMeaning(f"{operation} of {type(self).__name__} and {type(other).__name__} has no exact meaning")

    def finite(self, operation: str) -> np.ndarray:
        """The values, none of which is minus infinity."""
        if (self.values == MINUS_INFINITY).any():
            raise NoExactMeaning(f"{operation} of minus infinity has no exact meaning: take exp of it first")
        return self.values

    def __add__(self, other: Any) -> Self:
        return self.of((self.finite("a sum") + self._operand(other, "a sum")) % self.modulus)

    def __sub__(self, other: Any) -> Self:
        return self.of((self.finite("a difference") - self._operand(other, "a difference")) % self.modulus)

    def __neg__(self) -> Self:
        return self.of(-self.finite("a negative") % self.modulus)

    def __mul__(self, other: Any) -> Self:
        return self.of(self.finite("a product") * self._operand(other, "a product") % self.modulus)

    def __matmul__(self, other: Any) -> Self:
        left, right = self.finite("a matrix product"), self._operand(other, "a matrix product")
        (left_high, left_low), (right_high, right_low) = _halves(left), _halves(right)
        high, low = self._exact(left_high, right_high), self._exact(left_low, right_low)
        middle = self._exact(left_high, right_low) + self._exact(left_low, right_high)
        shifted = ((high << HALF_BITS) + middle) % self.modulus
        return self.of(((shifted << HALF_BITS) + low) % self.modulus)

    def _exact(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.matmul(left, right).astype(np.int64) % self.modulus

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Self:
        return -self + other

    def _unordered(self, other: Any) -> NoReturn:
        raise NoExactMeaning("exact values have no order, and are compared by `same`")

    __lt__ = __le__ = __gt__ = __ge__ = _unordered

    def __bool__(self) -> NoReturn:
        raise NoExactMeaning("exact values are neither true nor false")

    def same(self, other: Self) -> bool:
        """Whether all values are equal."""
        return type(self) is type(other) and np.array_equal(self.values, other.values)


class FieldArray(ExactArray):
    """Residues modulo p."""

    modulus = PRIME

    def __truediv__(self, other: Any) -> FieldArray:
        return self * self.of(_inverse(np.asarray(self._operand(other, "a quotient"))))

    def __rtruediv__(self, other: Any) -> FieldArray:
        return self.of(_inverse(self.values)) * other


class ExponentArray(ExactArray):
    """Exponents modulo p - 1, minus infinity among them."""

    modulus = PRIME - 1

    @classmethod
    def number(cls, value: Number) -> int:
        if value == -np.inf:
            return MINUS_INFINITY
        if Fraction(value).denominator != 1:
            raise NoExactMeaning(f"an exponent is an integer modulo p - 1, and {value} is none")
        return int(value) % cls.modulus


def _halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    high = values >> HALF_BITS
    return high.astype(np.float64), (values - (high << HALF_BITS)).astype(np.float64)


def _power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """base^exponent modulo p, by repeated squaring."""
    power = np.ones(np.broadcast_shapes(base.shape, exponent.shape), dtype=np.int64)
    for bit in range(31):
        power = np.where(exponent >> bit & 1, power * base % PRIME, power)
        base = base * base % PRIME
    return power


def _inverse(residues: np.ndarray) -> np.ndarray:
    """1 / x as x^(p - 2)."""
    if (residues == 0).any():
        raise ZeroDivisionError("a residue is divided by zero")
    return _power(residues, np.asarray(PRIME - 2))


def _solved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with a x = b for (..., d, d) and (..., d, m), by elimination with the pivots where they stand."""
    rows = np.concatenate([a, b], axis=-1)
    for k in range(a.shape[-1]):
        pivot = rows[..., k : k + 1, :] * _inverse(rows[..., k : k + 1, k : k + 1]) % PRIME
        rows = (rows - rows[..., :, k : k + 1] * pivot % PRIME) % PRIME
        rows[..., k : k + 1, :] = pivot
    return rows[..., a.shape[-1] :]


class Linalg:
    """The extension of the same name."""

    def solve(self, a: FieldArray, b: FieldArray) -> FieldArray:
        """x with a x = b; ZeroDivisionError where elimination meets a zero pivot."""
        return FieldArray.of(_solved(a.values, b.values))


def _moved(name: str) -> Callable[..., Any]:
    """A function that moves values and looks at none."""

    def function(self: Namespace, x: Any, *arguments: Any, **options: Any) -> Any:
        del self
        moved = getattr(np, name)
        if isinstance(x, ExactArray):
            return x.of(moved(x.values, *arguments, **options))
        return x[0].of(moved([part.values for part in x], *arguments, **options))

    return function


class Namespace:
    """The array-API functions that exact arrays have; they are those of NumPy unless said otherwise."""

    inf = np.inf
    linalg = Linalg()

    # signatures and meanings are those of the standard
    reshape = _moved("reshape")
    permute_dims = _moved("transpose")
    matrix_transpose = _moved("matrix_transpose")
    expand_dims = _moved("expand_dims")
    broadcast_to = _moved("broadcast_to")
    flip = _moved("flip")
    concat = _moved("concatenate")
    stack = _moved("stack")

    def __init__(self) -> None:
        self.__name__ = __name__  # as a namespace that is a module has it

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoExactMeaning(f"{name} has no exact meaning in a finite field, or isn't among the functions here")

    def arange(self, *bounds: int, device: str | None = None) -> np.ndarray:
        """Plain integers: masks are made of positions."""
        del device
        return np.arange(*bounds)

    def full(self, shape: Sequence[int], number: Number, *, dtype: str, device: str | None = None) -> FieldArray:
        """Residues; exponents are made by `full_like`."""
        del dtype, device
        return FieldArray.of(np.full(tuple(shape), FieldArray.number(number), dtype=np.int64))

    def eye(self, size: int, *, dtype: str, device: str | None = None) -> FieldArray:
        """The identity, in residues."""
        del dtype, device
        return FieldArray.of(np.eye(size, dtype=np.int64))

    def full_like(self, x: ExactArray, number: Number) -> ExactArray:
        """Residues or exponents, as x."""
        return x.of(np.full(x.shape, x.number(number), dtype=np.int64))

    def zeros_like(self, x: ExactArray) -> ExactArray:
        return self.full_like(x, 0)

    def ones_like(self, x: ExactArray) -> ExactArray:
        return self.full_like(x, 1)

    def where(self, condition: np.ndarray, x: ExactArray, otherwise: ExactArray) -> ExactArray:
        """Of a plain condition and two arrays of one kind."""
        if type(x) is not type(otherwise):
            raise NoExactMeaning(
                f"where takes arrays of one kind, not {type(x).__name__} and {type(otherwise).__name__}"
            )
        return x.of(np.where(condition, x.values, otherwise.values))

    def sum(self, x: ExactArray, *, axis: Axes = None, keepdims: bool = False) -> ExactArray:
        return x.of(x.finite("a sum").sum(axis=axis, keepdims=keepdims) % x.modulus)

    def cumulative_sum(self, x: ExactArray, *, axis: int) -> ExactArray:
        return x.of(x.finite("a sum").cumsum(axis=axis) % x.modulus)

    def exp(self, x: ExactArray) -> FieldArray:
        """7^e of exponents, 0 of minus infinity."""
        if not isinstance(x, ExponentArray):
            raise NoExactMeaning(
                "exp of a residue has no exact meaning: what stands in an exponent is an ExponentArray"
            )
        powers = _power(np.asarray(GENERATOR), np.maximum(x.values, 0))
        return FieldArray.of(np.where(x.values == MINUS_INFINITY, 0, powers))


NAMESPACE = Namespace()
