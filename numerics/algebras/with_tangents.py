r"""Dual numbers over another number system: a value and its derivative along a direction of the inputs.

(a + a' e)(b + b' e) = a b + (a' b + a b') e with e^2 = 0, and so on for every operation: forward mode. Where a value
doesn't depend on the inputs there is no tangent, and nothing is computed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sympy import Rational

from derivations.language.errors import NoMeaning
from derivations.language.structure import Structure
from numerics.algebras.contract import Algebra, Value


@dataclass(frozen=True)
class Dual:
    """A value, and its tangent where it has one."""

    value: Value
    tangent: Value | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __getitem__(self, index: Any) -> Dual:
        return self.each(lambda part: part[index])

    def each(self, linear: Callable[[Value], Value]) -> Dual:
        """A linear operation on both parts."""
        return Dual(linear(self.value), None if self.tangent is None else linear(self.tangent))


def _constant(name: str) -> Callable[..., Dual]:
    """What doesn't depend on the inputs."""
    return lambda self, *arguments: Dual(getattr(self.values, name)(*arguments))


def _linear(name: str) -> Callable[..., Dual]:
    """An operation that is linear in its first argument."""
    return lambda self, a, *rest: a.each(lambda part: getattr(self.values, name)(part, *rest))


def _bilinear(name: str) -> Callable[..., Dual]:
    """An operation that is linear in each of two arguments."""

    def operation(self: WithTangents, a: Dual, b: Dual) -> Dual:
        of = getattr(self.values, name)
        left = None if a.tangent is None else of(a.tangent, b.value)
        right = None if b.tangent is None else of(a.value, b.tangent)
        return Dual(of(a.value, b.value), self._sum(left, right))

    return operation


def _refused(name: str) -> Callable[..., Dual]:
    def refuse(self: WithTangents, gates: Dual) -> Dual:
        if gates.tangent is None:
            return Dual(getattr(self.values, name)(gates.value))
        raise NoMeaning(f"dual numbers have no rule for {name.replace('_', ' ')}")

    return refuse


class WithTangents(Algebra):
    """Dual numbers over the number system `values`."""

    def __init__(self, values: Algebra) -> None:
        self.values = values
        self.name, self.tokens_at_once = f"{values.name} with tangents", values.tokens_at_once

    def constant(self, value: Value) -> Dual:
        """Something that stays as it is."""
        return Dual(value)

    def lift(self, value: Value, tangent: Value) -> Dual:
        """An input, and its change."""
        return Dual(value, tangent)

    def tangent(self, a: Dual) -> Value:
        """The derivative; zero where nothing that changes was read."""
        return self._tangents([a])[0]

    def _sum(self, a: Value | None, b: Value | None) -> Value | None:
        if a is None or b is None:
            return b if a is None else a
        return self.values.add(a, b)

    def _tangents(self, parts: Sequence[Dual]) -> list[Value]:
        """The tangents of parts that are put together, zeros among them."""
        zero = self.values.number(Rational(0))
        return [self.values.multiply(zero, p.value) if p.tangent is None else p.tangent for p in parts]

    number = _constant("number")
    zeros = _constant("zeros")
    ones = _constant("ones")
    lower = _constant("lower")
    identity = _constant("identity")
    negate = _linear("negate")
    transpose = _linear("transpose")
    diagonal = _linear("diagonal")
    trace = _linear("trace")
    token = _linear("token")
    block = _linear("block")
    total = _linear("total")
    multiply = _bilinear("multiply")
    matmul = _bilinear("matmul")
    sum_of_products = _bilinear("sum_of_products")
    decay = _refused("decay")
    shifted_decay = _refused("shifted_decay")
    cumulative_product = _refused("cumulative_product")
    remaining_product = _refused("remaining_product")

    def add(self, a: Dual, b: Dual) -> Dual:
        return Dual(self.values.add(a.value, b.value), self._sum(a.tangent, b.tangent))

    def reciprocal(self, a: Dual) -> Dual:
        inverse = self.values.reciprocal(a.value)
        if a.tangent is None:
            return Dual(inverse)
        change = self.values.multiply(self.values.multiply(inverse, inverse), a.tangent)
        return Dual(inverse, self.values.negate(change))

    def solve(self, a: Dual, b: Dual, structure: Structure) -> Dual:
        """x = A^-1 b changes by A^-1 (b' - A' x)."""
        x = self.values.solve(a.value, b.value, structure)
        pushed = None if a.tangent is None else self.values.negate(self.values.matmul(a.tangent, x))
        change = self._sum(b.tangent, pushed)
        return Dual(x, None if change is None else self.values.solve(a.value, change, structure))

    def sqrt(self, a: Dual) -> Dual:
        root = self.values.sqrt(a.value)
        if a.tangent is None:
            return Dual(root)
        half = self.values.multiply(self.values.number(Rational(1, 2)), a.tangent)
        return Dual(root, self.values.multiply(half, self.values.reciprocal(root)))

    def exponential(self, a: Dual) -> Dual:
        power = self.values.exponential(a.value)
        return Dual(power, None if a.tangent is None else self.values.multiply(power, a.tangent))

    def _together(self, parts: Sequence[Dual], join: Callable[[Sequence[Value]], Value]) -> Dual:
        value = join([p.value for p in parts])
        return Dual(value, None if all(p.tangent is None for p in parts) else join(self._tangents(parts)))

    def stack(self, columns: Sequence[Dual]) -> Dual:
        return self._together(columns, self.values.stack)

    def concatenate(self, blocks: Sequence[Dual]) -> Dual:
        return self._together(blocks, self.values.concatenate)

    def along(self, values: Sequence[Dual], batch: tuple[int, ...]) -> Dual:
        return self._together(values, lambda parts: self.values.along(parts, batch))
