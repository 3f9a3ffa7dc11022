"""Polynomials and rational functions with every input symbolic: equality here is a proof for one size.

The entries are python-flint's multivariate polynomials over the rationals; a division makes rational functions of
them, kept as numerator over denominator in lowest terms. Relations such as |w|^2 = 2 are taken into account by
reducing modulo them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flint
import numpy as np
from sympy import Rational

from derivations.language.errors import NoMeaning, UndefinedValue
from numerics.algebras.contract import Value
from numerics.algebras.objects import ObjectAlgebra, matrix_of


class RationalFunction:
    """numerator / denominator.

    Common factors are cancelled where two different denominators meet, which keeps recurrences of fractions small, and
    nowhere else: a product with a polynomial and a sum over one denominator need no greatest common divisor.
    """

    __slots__ = ("denominator", "numerator")

    def __init__(self, numerator: Any, denominator: Any) -> None:
        self.numerator, self.denominator = numerator, denominator

    def cancelled(self) -> RationalFunction:
        """In lowest terms, the denominator's leading coefficient being one."""
        common = self.numerator.gcd(self.denominator)
        numerator, denominator = self.numerator / common, self.denominator / common
        leading = denominator.leading_coefficient()
        return RationalFunction(numerator / leading, denominator / leading)

    def __add__(self, other: Any) -> RationalFunction:
        if not isinstance(other, RationalFunction):
            return RationalFunction(self.numerator + other * self.denominator, self.denominator)
        if other.denominator == self.denominator:
            return RationalFunction(self.numerator + other.numerator, self.denominator)
        common = other.denominator.gcd(self.denominator)
        mine, theirs = self.denominator / common, other.denominator / common
        return RationalFunction(self.numerator * theirs + other.numerator * mine, self.denominator * theirs).cancelled()

    __radd__ = __add__

    def __neg__(self) -> RationalFunction:
        return RationalFunction(-self.numerator, self.denominator)

    def __sub__(self, other: Any) -> RationalFunction:
        return self + (-other)

    def __rsub__(self, other: Any) -> RationalFunction:
        return (-self) + other

    def __mul__(self, other: Any) -> RationalFunction:
        if not isinstance(other, RationalFunction):
            return RationalFunction(self.numerator * other, self.denominator)
        across, back = other.numerator.gcd(self.denominator), self.numerator.gcd(other.denominator)
        numerator = (self.numerator / back) * (other.numerator / across)
        return RationalFunction(numerator, (self.denominator / across) * (other.denominator / back))

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return bool((self - other).numerator == 0)

    __hash__ = None  # type: ignore[assignment]  # as python-flint's polynomials, which can't be hashed

    def __repr__(self) -> str:
        return f"({self.numerator})/({self.denominator})"


Monomial = tuple[int, ...]
"""The powers of the inputs' generators."""


class NewExponents(Exception):
    """An exponential needs generators for monomials that the ring wasn't made with."""

    def __init__(self, monomials: Sequence[Monomial]) -> None:
        super().__init__(f"{len(monomials)} monomials in exponents")
        self.monomials = tuple(monomials)


class Polynomials(ObjectAlgebra):
    """The ring (or, once something is divided, the field of fractions) over named generators.

    An exponential exp(sum of c_m m) over monomials m is the product of E_m^c_m, with a generator E_m for each. As
    functions the exponentials of different monomials are algebraically independent over the rational functions (Ax),
    so that equality is still a proof.
    """

    name = "polynomials"

    def __init__(self, generators: Sequence[str], exponents: Sequence[Monomial] = ()) -> None:
        """The first generators lead in the ordering; `modulo` relies on it. `exponents` are the monomials that stand
        in exponents.
        """
        inputs = tuple(generators) or ("_",)
        self.generators = (*inputs, *(_exponential_name(inputs, monomial) for monomial in exponents))
        self.context = flint.fmpq_mpoly_ctx.get(self.generators, "lex")
        self._by_name = dict(zip(self.generators, self.context.gens(), strict=True))
        self._of_inputs = len(inputs)
        self._exponentials = dict(zip(exponents, self.context.gens()[len(inputs) :], strict=True))
        self.relations: list[Any] = []

    def generator(self, name: str) -> Any:
        """The generator with this name."""
        return self._by_name[name]

    def inputs_of(self, generator: str) -> list[str]:
        """The generators of inputs that a generator depends on: itself, or those in the exponent of an exponential."""
        position = self.generators.index(generator) - self._of_inputs
        if position < 0:
            return [generator]
        monomial = list(self._exponentials)[position]
        return [name for name, power in zip(self.generators, monomial, strict=False) if power]

    def entry(self, value: Rational) -> Any:
        return self.context.constant(flint.fmpq(int(value.p), int(value.q)))

    def entry_reciprocal(self, entry: Any) -> Any:
        if self.is_zero(entry):
            raise UndefinedValue("division by zero")
        if isinstance(entry, RationalFunction):
            return self._simplest(RationalFunction(entry.denominator, entry.numerator))
        return self._simplest(RationalFunction(self.entry(Rational(1)), entry))

    def _simplest(self, entry: RationalFunction) -> Any:
        constant = entry.denominator.is_constant()
        return entry.numerator / entry.denominator.leading_coefficient() if constant else entry

    def matmul(self, a: Value, b: Value) -> Value:
        """The product in normal form: relations are used at each step, since they keep what follows small."""
        product = super().matmul(a, b)
        return np.frompyfunc(self._reduced, 1, 1)(product) if self.relations else product

    def solve_general(self, a: Value, b: Value) -> Value:
        """Polynomial systems without fractions on the way (Bareiss), so that all entries share the determinant."""
        entries = [*a.flat, *b.flat]
        if a.ndim > 2 or b.ndim > 2 or any(isinstance(entry, RationalFunction) for entry in entries):
            return super().solve_general(a, b)
        rows, size, previous = np.concat([a, b], axis=1), len(a), self.entry(Rational(1))
        for k in range(size):
            self._bring_pivot(rows, k)
            for r in range(size):
                if r != k:
                    crossed = rows[k, k : k + 1] * rows[r] - rows[r, k : k + 1] * rows[k]
                    rows[r] = np.frompyfunc(lambda entry, divisor=previous: entry / divisor, 1, 1)(crossed)
            previous = rows[k, k]
        divided = np.frompyfunc(lambda entry: self._simplest(RationalFunction(entry, previous)), 1, 1)
        return divided(rows[:, size:])

    def is_zero(self, entry: Any) -> bool:
        numerator = entry.numerator if isinstance(entry, RationalFunction) else entry
        return bool(self.modulo_relations(numerator) == 0)

    def exponential(self, a: Value) -> Value:
        """The exponentials of polynomials with integer coefficients.

        Raises:
            NewExponents: a monomial has no generator yet.
            NoMeaning: an exponent isn't such a polynomial.
        """
        exponents = [self._exponent(entry) for entry in a.flat]
        new = dict.fromkeys(m for terms in exponents for m in terms if m not in self._exponentials)
        if new:
            raise NewExponents(tuple(new))
        out = np.empty(a.shape, dtype=object)
        for place, terms in zip(np.ndindex(*a.shape), exponents, strict=True):
            out[place] = self._product_of_exponentials(terms)
        return out

    def _exponent(self, entry: Any) -> dict[Monomial, int]:
        """Monomials with their coefficients."""
        if isinstance(entry, RationalFunction):
            raise NoMeaning("an exponent is a fraction")
        terms: dict[Monomial, int] = {}
        for powers, coefficient in self.modulo_relations(entry).to_dict().items():
            if any(powers[self._of_inputs :]):
                raise NoMeaning("an exponential stands in an exponent")
            if coefficient.q != 1:
                raise NoMeaning(f"the coefficient {coefficient} in an exponent isn't an integer: write a symbol for it")
            terms[tuple(map(int, powers[: self._of_inputs]))] = int(coefficient.p)
        return terms

    def _product_of_exponentials(self, terms: dict[Monomial, int]) -> Any:
        halves = []
        for sign in (1, -1):
            half = self.entry(Rational(1))
            for monomial, power in terms.items():
                if power * sign > 0:
                    half *= self._exponentials[monomial] ** abs(power)
            halves.append(half)
        return self._simplest(RationalFunction(*halves))

    def derivative(self, entry: Any, generator: Any) -> Any:
        """The partial derivative of an entry by a generator of an input: E_m = exp(m) has the derivative E_m dm/dx.

        Raises:
            NoMeaning: relations between the generators leave no independent directions.
        """
        if self.relations:
            raise NoMeaning("a derivative by one generator alone breaks a relation between generators")
        if isinstance(entry, RationalFunction):
            top, bottom = entry.numerator, entry.denominator
            change = self.derivative(top, generator) * bottom - top * self.derivative(bottom, generator)
            return self._simplest(RationalFunction(change, bottom * bottom))
        names = self.context.gens()
        change = entry.derivative(names.index(generator))
        for monomial, power in self._exponentials.items():
            exponent = self.context.from_dict({(*monomial, *(0,) * len(self._exponentials)): 1})
            inner = exponent.derivative(names.index(generator))
            if inner != 0:
                change += power * inner * entry.derivative(names.index(power))
        return change

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


def _exponential_name(inputs: Sequence[str], monomial: Monomial) -> str:
    """exp(k_1*q_2), as SymPy would write it."""
    powers = ((name, power) for name, power in zip(inputs, monomial, strict=True) if power)
    return f"exp({'*'.join(name if power == 1 else f'{name}**{power}' for name, power in powers) or '1'})"
