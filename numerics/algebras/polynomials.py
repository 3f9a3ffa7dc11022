"""Polynomials and rational functions with every input symbolic: equality here is a proof for one size.

The entries are python-flint's multivariate polynomials over the rationals; a division makes rational functions of
them, kept as numerator over denominator in lowest terms. Relations such as |w|^2 = 2 are taken into account by
reducing modulo them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flint
from sympy import Rational

from derivations.language.errors import UndefinedValue
from numerics.algebras.contract import Value
from numerics.algebras.objects import ObjectAlgebra, matrix_of


class RationalFunction:
    """numerator / denominator in lowest terms, the denominator's leading coefficient being one."""

    __slots__ = ("denominator", "numerator")

    def __init__(self, numerator: Any, denominator: Any, lowest: bool = False) -> None:
        if not lowest:
            common = numerator.gcd(denominator)
            if not common.is_constant():
                numerator, denominator = numerator / common, denominator / common
        leading = denominator.leading_coefficient()
        if leading != 1:
            numerator, denominator = numerator / leading, denominator / leading
        self.numerator, self.denominator = numerator, denominator

    def _parts(self, other: Any) -> tuple[Any, Any]:
        if isinstance(other, RationalFunction):
            return other.numerator, other.denominator
        return other, None

    def __add__(self, other: Any) -> RationalFunction:
        numerator, denominator = self._parts(other)
        if denominator is None:
            return RationalFunction(self.numerator + numerator * self.denominator, self.denominator, lowest=True)
        if denominator == self.denominator:
            return RationalFunction(self.numerator + numerator, denominator)
        common = denominator.gcd(self.denominator)
        mine, theirs = self.denominator / common, denominator / common
        return RationalFunction(self.numerator * theirs + numerator * mine, self.denominator * theirs)

    __radd__ = __add__

    def __neg__(self) -> RationalFunction:
        return RationalFunction(-self.numerator, self.denominator, lowest=True)

    def __sub__(self, other: Any) -> RationalFunction:
        return self + (-other)

    def __rsub__(self, other: Any) -> RationalFunction:
        return (-self) + other

    def __mul__(self, other: Any) -> RationalFunction:
        numerator, denominator = self._parts(other)
        across = numerator.gcd(self.denominator) if not isinstance(numerator, int) else None
        if across is not None and not across.is_constant():
            numerator, own = numerator / across, self.denominator / across
        else:
            own = self.denominator
        if denominator is None:
            return RationalFunction(self.numerator * numerator, own, lowest=True)
        common = self.numerator.gcd(denominator)
        return RationalFunction((self.numerator / common) * numerator, own * (denominator / common), lowest=True)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RationalFunction):
            return bool(self.numerator == other.numerator and self.denominator == other.denominator)
        return bool(self.denominator.is_one() and self.numerator == other)

    def __hash__(self) -> int:
        return hash((self.numerator, self.denominator))

    def __repr__(self) -> str:
        return f"({self.numerator})/({self.denominator})"


class Polynomials(ObjectAlgebra):
    """The ring (or, once something is divided, the field of fractions) over named generators."""

    name = "polynomials"

    def __init__(self, generators: Sequence[str]) -> None:
        """The first generators lead in the ordering; `modulo` relies on it."""
        self.generators = tuple(generators) or ("_",)
        self.context = flint.fmpq_mpoly_ctx.get(self.generators, "lex")
        self._by_name = dict(zip(self.generators, self.context.gens(), strict=True))
        self.relations: list[Any] = []

    def generator(self, name: str) -> Any:
        """The generator with this name."""
        return self._by_name[name]

    def entry(self, value: Rational) -> Any:
        return self.context.constant(flint.fmpq(int(value.p), int(value.q)))

    def entry_reciprocal(self, entry: Any) -> Any:
        if self.is_zero(entry):
            raise UndefinedValue("division by zero")
        if isinstance(entry, RationalFunction):
            return self._simplest(RationalFunction(entry.denominator, entry.numerator, lowest=True))
        return self._simplest(RationalFunction(self.entry(Rational(1)), entry, lowest=True))

    def _simplest(self, entry: RationalFunction) -> Any:
        return entry.numerator if entry.denominator.is_one() else entry

    def is_zero(self, entry: Any) -> bool:
        numerator = entry.numerator if isinstance(entry, RationalFunction) else entry
        return bool(self.modulo_relations(numerator) == 0)

    def add_relation(self, relation: Any) -> None:
        """A polynomial that is zero. The leading terms of all relations must have no generator in common."""
        self.relations.append(relation)

    def modulo_relations(self, polynomial: Any) -> Any:
        """The normal form of a polynomial modulo the relations."""
        for relation in self.relations:
            polynomial = polynomial % relation
        return polynomial

    def difference(self, a: Value, b: Value) -> Value:
        """a - b, reduced modulo the relations; a rational function's numerator is reduced."""
        rows = [[self._reduced(x - y) for x, y in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]
        return matrix_of(rows)

    def _reduced(self, entry: Any) -> Any:
        if not self.relations:
            return entry
        if isinstance(entry, RationalFunction):
            return RationalFunction(self.modulo_relations(entry.numerator), entry.denominator)
        return self.modulo_relations(entry)
