"""Exponentials in number systems without one: each value is kept twice, as a value and as an exponent.

In GF(p) an exponential is g^x with a generator g of the p - 1 units, so that exp(a + b) = exp(a) exp(b) holds for
exponents modulo p - 1. Inputs are integers: as values they count modulo p, as exponents modulo p - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from derivations.language.errors import NoMeaning
from numerics.algebras.arrays import ArrayAlgebra
from numerics.algebras.contract import Algebra, Value
from numerics.algebras.finite_field import PRIME, matmul_by_pieces, reduced

GENERATOR = 7
"""The smallest number whose powers are all units modulo 2^31 - 1."""
HALF = 16
UNITS = PRIME - 1


DEEP = 40
"""How many values may wait for one another before they are computed: each waits on Python's stack."""


class Both:
    """A value, and the same as an exponent. Each is computed when it is asked for: scores are needed as exponents only.

    `depth` counts the values that this one waits for, one within the other.
    """

    __slots__ = ("_exponent", "_exponent_found", "_value", "_value_found", "depth")

    def __init__(self, value: Callable[[], Value], exponent: Callable[[], Value], depth: int = 0) -> None:
        self._value, self._exponent, self.depth = value, exponent, depth
        self._value_found: Value = None
        self._exponent_found: Value = None
        if depth > DEEP:
            self.value  # noqa: B018  (computed now)

    @property
    def value(self) -> Value:
        """The value."""
        if self._value_found is None:
            self._value_found, self.depth = self._value(), 0
        return self._value_found

    @property
    def exponent(self) -> Value:
        """The exponent; NoMeaning where the value isn't a polynomial in the inputs."""
        if self._exponent_found is None:
            self._exponent_found = self._exponent()
        return self._exponent_found

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __getitem__(self, index: Any) -> Both:
        return Both(lambda: self.value[index], lambda: self.exponent[index], self.depth + 1)


def plain(value: Any) -> Any:
    """The value alone."""
    return value.value if isinstance(value, Both) else value


def _exponents(argument: Any) -> Any:
    if isinstance(argument, Both):
        return argument.exponent
    return [_exponents(a) for a in argument] if isinstance(argument, list | tuple) else argument


def _values(argument: Any) -> Any:
    return [_values(a) for a in argument] if isinstance(argument, list | tuple) else plain(argument)


def _depth(argument: Any) -> int:
    if isinstance(argument, list | tuple):
        return max(map(_depth, argument), default=0)
    return argument.depth if isinstance(argument, Both) else 0


def _lifted(name: str) -> Callable[..., Both]:
    """An operation on both."""

    def operation(self: WithExponents, *arguments: Any) -> Both:
        value = lambda: getattr(self.values, name)(*map(_values, arguments))
        exponent = lambda: getattr(self.exponents, name)(*map(_exponents, arguments))
        return Both(value, exponent, 1 + _depth(arguments))

    return operation


def _lifted_value(name: str) -> Callable[..., Both]:
    """An operation that exponents don't have."""

    def operation(self: WithExponents, *arguments: Any) -> Both:
        value = lambda: getattr(self.values, name)(*map(_values, arguments))
        return Both(value, _no_exponent(name), 1 + _depth(arguments))

    return operation


def _no_exponent(name: str) -> Callable[[], Value]:
    def refuse() -> Value:
        raise NoMeaning(f"an exponent is made of inputs by sums and products; here it contains a {name}")

    return refuse


class WithExponents(Algebra):
    """Two number systems as one.

    Args:
        values: the number system of values.
        exponents: the number system of exponents.
        power: the exponential of an exponent, as a value.
    """

    def __init__(self, values: Algebra, exponents: Algebra, power: Callable[[Value], Value]) -> None:
        self.values, self.exponents, self.power_of = values, exponents, power
        self.name, self.tokens_at_once = values.name, values.tokens_at_once

    def lift(self, value: Value, exponent: Value) -> Both:
        """An input."""
        return Both(lambda: value, lambda: exponent)

    def exponential(self, a: Both) -> Both:
        return Both(lambda: self.power_of(a.exponent), _no_exponent("exponential"), 1 + a.depth)

    # signatures and meanings are those of the contract
    number = _lifted("number")
    zeros = _lifted("zeros")
    ones = _lifted("ones")
    lower = _lifted("lower")
    identity = _lifted("identity")
    add = _lifted("add")
    negate = _lifted("negate")
    subtract = _lifted("subtract")
    multiply = _lifted("multiply")
    matmul = _lifted("matmul")
    transpose = _lifted("transpose")
    diagonal = _lifted("diagonal")
    trace = _lifted("trace")
    token = _lifted("token")
    block = _lifted("block")
    stack = _lifted("stack")
    along = _lifted("along")
    concatenate = _lifted("concatenate")
    total = _lifted("total")
    sum_of_products = _lifted("sum_of_products")
    decay = _lifted("decay")
    shifted_decay = _lifted("shifted_decay")
    cumulative_product = _lifted("cumulative_product")
    remaining_product = _lifted("remaining_product")
    reciprocal = _lifted_value("reciprocal")
    solve = _lifted_value("solve")
    sqrt = _lifted_value("sqrt")


class Exponents(ArrayAlgebra):
    """Matrices of residues modulo p - 1, in int64 arrays."""

    name = "exponents modulo p - 1"
    xp = np

    def number(self, value: Any) -> Value:
        if value.q != 1:
            raise NoMeaning(f"the coefficient {value} in an exponent isn't an integer: write a symbol for it")
        return np.array([[int(value.p) % UNITS]], dtype=np.int64)

    def zeros(self, rows: int, columns: int) -> Value:
        return np.zeros((rows, columns), dtype=np.int64)

    def ones(self, rows: int, columns: int) -> Value:
        return np.ones((rows, columns), dtype=np.int64)

    def add(self, a: Value, b: Value) -> Value:
        return (a + b) % UNITS

    def negate(self, a: Value) -> Value:
        return -a % UNITS

    def multiply(self, a: Value, b: Value) -> Value:
        return a * b % UNITS

    def matmul(self, a: Value, b: Value) -> Value:
        return matmul_by_pieces(a, b, lambda value: value % UNITS)

    def total(self, a: Value) -> Value:
        return a.sum(axis=0) % UNITS

    def reciprocal(self, a: Value) -> Value:
        raise NoMeaning("an exponent can't be divided by something")

    solve_general = sqrt = reciprocal  # type: ignore[assignment]


def _powers(base: int, count: int) -> np.ndarray:
    """base^0 .. base^(count - 1) modulo p, by doubling."""
    powers = np.ones(1, dtype=np.int64)
    while len(powers) < count:
        powers = np.concat([powers, reduced(powers * pow(base, len(powers), PRIME))])
    return powers[:count]


class PowersOfAGenerator:
    """x -> g^x, by a table for each half of x's bits."""

    def __init__(self) -> None:
        self.low = _powers(GENERATOR, 1 << HALF)
        self.high = _powers(pow(GENERATOR, 1 << HALF, PRIME), 1 << (31 - HALF))

    def __call__(self, exponent: Value) -> Value:
        return reduced(self.low[exponent & ((1 << HALF) - 1)] * self.high[exponent >> HALF])
