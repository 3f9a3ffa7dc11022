"""Exponentials in number systems without one: each value is kept twice, as a value and as an exponent.

In GF(p) an exponential is g^x with a generator g of the p - 1 units, so that exp(a + b) = exp(a) exp(b) holds for
exponents modulo p - 1. Inputs are integers: as values they count modulo p, as exponents modulo p - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import getitem
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


class Later:
    """Something that is computed when it is asked for, and what it waits for before it.

    Without recursion: a state waits for all earlier ones.
    """

    __slots__ = ("arguments", "done", "found", "function")

    def __init__(self, function: Callable[..., Value], arguments: tuple[Any, ...] = ()) -> None:
        self.function, self.arguments, self.done = function, arguments, False
        self.found: Value = None

    def get(self) -> Value:
        """The value."""
        waiting = [self]
        while waiting:
            first = waiting[-1]
            before = [] if first.done else [a for a in _all_later(first.arguments) if not a.done]
            if before:
                waiting += before
                continue
            if not first.done:
                first.found = first.function(*map(_gotten, first.arguments))
                first.arguments, first.done = (), True
            waiting.pop()
        return self.found


def _all_later(arguments: Any) -> Iterator[Later]:
    for argument in arguments:
        if isinstance(argument, Later):
            yield argument
        elif isinstance(argument, list | tuple):
            yield from _all_later(argument)


def _gotten(argument: Any) -> Any:
    if isinstance(argument, Later):
        return argument.found
    return [_gotten(a) for a in argument] if isinstance(argument, list | tuple) else argument


class Both:
    """A value, and the same as an exponent, each computed when it is asked for: scores are needed as exponents only."""

    __slots__ = ("later_exponent", "later_value")

    def __init__(self, value: Later, exponent: Later) -> None:
        self.later_value, self.later_exponent = value, exponent

    @property
    def value(self) -> Value:
        """The value."""
        return self.later_value.get()

    @property
    def exponent(self) -> Value:
        """The exponent; NoMeaning where the value isn't a polynomial in the inputs."""
        return self.later_exponent.get()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __getitem__(self, index: Any) -> Both:
        return Both(*(Later(getitem, (part, index)) for part in (self.later_value, self.later_exponent)))


def plain(value: Any) -> Any:
    """The value alone."""
    return value.value if isinstance(value, Both) else value


def _values(argument: Any) -> Any:
    if isinstance(argument, Both):
        return argument.later_value
    return [_values(a) for a in argument] if isinstance(argument, list | tuple) else argument


def _exponents(argument: Any) -> Any:
    if isinstance(argument, Both):
        return argument.later_exponent
    return [_exponents(a) for a in argument] if isinstance(argument, list | tuple) else argument


def _lifted(name: str) -> Callable[..., Both]:
    """An operation on both."""

    def operation(self: WithExponents, *arguments: Any) -> Both:
        value = Later(getattr(self.values, name), tuple(map(_values, arguments)))
        return Both(value, Later(getattr(self.exponents, name), tuple(map(_exponents, arguments))))

    return operation


def _lifted_value(name: str) -> Callable[..., Both]:
    """An operation that exponents don't have."""

    def operation(self: WithExponents, *arguments: Any) -> Both:
        value = Later(getattr(self.values, name), tuple(map(_values, arguments)))
        return Both(value, Later(_no_exponent(name)))

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

    def __init__(self, values: Any, exponents: Any, power: Callable[[Value], Value]) -> None:
        self.values, self.exponents, self.power_of = values, exponents, power
        self.name, self.tokens_at_once = values.name, values.tokens_at_once

    def lift(self, value: Value, exponent: Value) -> Both:
        """An input."""
        return Both(Later(lambda: value), Later(lambda: exponent))

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Both:
        """Integers at random: their residues modulo p and modulo p - 1 are independent, since these have no common
        factor.
        """
        drawn = (system.random(rng, shape) for system in (self.values, self.exponents))
        return self.lift(*drawn)

    def exponential(self, a: Both) -> Both:
        return Both(Later(self.power_of, (a.later_exponent,)), Later(_no_exponent("exponential")))

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
    solve = _lifted("solve")  # a unit triangular system is solved by sums and products
    reciprocal = _lifted_value("reciprocal")
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

    def solve_general(self, a: Value, b: Value) -> Value:
        raise NoMeaning(
            "an exponent is made of inputs by sums and products; here it contains a system that isn't unit triangular"
        )

    sqrt = reciprocal

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Value:
        """Uniform exponents."""
        return rng.integers(0, UNITS, shape, dtype=np.int64)


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
