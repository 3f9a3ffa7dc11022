"""The rationals: exact numbers that a person can check by hand. Counterexamples are evaluated here."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from sympy import Rational

from derivations.language.errors import NoMeaning, UndefinedValue
from numerics.algebras.contract import Value
from numerics.algebras.objects import ObjectAlgebra

LARGEST_EXPONENT = 64


class Rationals(ObjectAlgebra):
    """Matrices of `fractions.Fraction`."""

    name = "rationals"

    def entry(self, value: Rational) -> Fraction:
        return Fraction(int(value.p), int(value.q))

    def entry_reciprocal(self, entry: Any) -> Fraction:
        if entry == 0:
            raise UndefinedValue("division by zero")
        return 1 / entry

    def sqrt(self, a: Value) -> Value:
        return np.frompyfunc(_root, 1, 1)(a)

    def exponential(self, a: Value) -> Value:
        """2^x for x: exp in units of ln 2, where integers have rational values.

        A formula that follows from exp(a + b) = exp(a) exp(b) holds to every base.
        """
        return np.frompyfunc(_power_of_two, 1, 1)(a)


def _power_of_two(exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or abs(exponent) > LARGEST_EXPONENT:
        raise NoMeaning(f"2^({exponent}) isn't rational, or too long to be read")
    return Fraction(2) ** exponent.numerator


def _root(value: Fraction) -> Fraction:
    if value < 0:
        raise UndefinedValue(f"sqrt({value}) isn't real")
    root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    if root * root != value:
        raise NoMeaning(f"sqrt({value}) isn't rational")
    return root
