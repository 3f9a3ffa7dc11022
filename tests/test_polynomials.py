"""Polynomials and rational functions: the arithmetic against SymPy and against values, and relations between inputs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sympy import Rational, Symbol, cancel, fraction, symbols, together
from sympy.polys import Poly

from derivations.language import NoMeaning, UndefinedValue
from numerics.algebras.polynomials import Polynomials, RationalFunction

NAMES = ("x", "y", "z")
ALGEBRA = Polynomials(NAMES)
x, y, z = (ALGEBRA.generator(name) for name in NAMES)
ONE = ALGEBRA.entry(Rational(1))
SYMBOLS: tuple[Symbol, ...] = symbols(NAMES)
NUMBERS = [Fraction(p, q) for p in (-3, -2, -1, 1, 2, 5) for q in (1, 2, 3)]
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: ALGEBRA.multiply(one_entry(a), ALGEBRA.reciprocal(one_entry(b)))[0, 0],
}


def one_entry(value: Any) -> np.ndarray:
    out = np.empty((1, 1), dtype=object)
    out[0, 0] = value
    return out


Tree = Any
trees: st.SearchStrategy[Tree] = st.recursive(
    st.one_of(st.sampled_from(NAMES), st.integers(-3, 3), st.sampled_from(NUMBERS)),
    lambda inner: st.tuples(st.sampled_from(tuple(OPERATIONS)), inner, inner),
    max_leaves=8,
)


def as_entry(tree: Tree) -> Any:
    """A tree in the algebra; a plain integer stays one, since NumPy and `sum` bring those in."""
    if isinstance(tree, tuple):
        left, right = (as_entry(part) for part in tree[1:])
        if isinstance(left, int) and (isinstance(right, int) or tree[0] == "/"):
            left = ONE * left
        if isinstance(right, int) and tree[0] == "/":
            right = ONE * right
        return OPERATIONS[tree[0]](left, right)
    if isinstance(tree, str):
        return ALGEBRA.generator(tree)
    return tree if isinstance(tree, int) else ALGEBRA.entry(Rational(tree.numerator, tree.denominator))


def as_number(tree: Tree, point: dict[str, Fraction]) -> Fraction:
    if isinstance(tree, tuple):
        left, right = (as_number(part, point) for part in tree[1:])
        return left / right if tree[0] == "/" else Fraction(OPERATIONS[tree[0]](left, right))
    return point[tree] if isinstance(tree, str) else Fraction(tree)


def as_sympy(tree: Tree) -> Any:
    if isinstance(tree, tuple):
        left, right = (as_sympy(part) for part in tree[1:])
        return left / right if tree[0] == "/" else OPERATIONS[tree[0]](left, right)
    if isinstance(tree, str):
        return SYMBOLS[NAMES.index(tree)]
    return Rational(tree.numerator, tree.denominator)


def value_at(entry: Any, point: dict[str, Fraction]) -> Fraction:
    if isinstance(entry, RationalFunction):
        below = value_at(entry.denominator, point)
        assume(below != 0)
        return value_at(entry.numerator, point) / below
    if isinstance(entry, int):
        return Fraction(entry)
    total = Fraction(0)
    for exponents, coefficient in entry.to_dict().items():
        term = Fraction(int(coefficient.p), int(coefficient.q))
        for name, exponent in zip(NAMES, exponents, strict=True):
            term *= point[name] ** int(exponent)
        total += term
    return total


def entry_or_nothing(tree: Tree) -> Any:
    try:
        return as_entry(tree)
    except UndefinedValue:
        assume(False)


points = st.fixed_dictionaries({name: st.sampled_from(NUMBERS) for name in NAMES})


@given(tree=trees, point=points)
def test_values(tree: Tree, point: dict[str, Fraction]) -> None:
    entry = entry_or_nothing(tree)
    try:
        expected = as_number(tree, point)
    except ZeroDivisionError:
        assume(False)
    assert value_at(entry, point) == expected


@given(tree=st.tuples(st.just("/"), trees, trees))
def test_lowest_terms(tree: Tree) -> None:
    """Once cancelled, numerator and denominator share no factor, and the denominator's leading coefficient is one."""
    written = entry_or_nothing(tree)
    assume(isinstance(written, RationalFunction))
    entry = written.cancelled()
    assert entry == written
    assert entry.numerator.gcd(entry.denominator).is_constant()
    assert entry.denominator.leading_coefficient() == 1
    if entry.numerator == 0:
        assert entry.denominator.is_one()


@given(tree=trees)
def test_against_sympy(tree: Tree) -> None:
    entry = entry_or_nothing(tree)
    assume(not isinstance(entry, int))
    above, below = fraction(cancel(together(as_sympy(tree))))
    lowest = entry.cancelled() if isinstance(entry, RationalFunction) else RationalFunction(entry, ONE)
    top, bottom = lowest.numerator, lowest.denominator
    left = polynomial(above) * polynomial_of(bottom)
    assert left == polynomial(below) * polynomial_of(top)
    assert polynomial(below).total_degree() == polynomial_of(bottom).total_degree()


def polynomial(e: Any) -> Poly:
    return Poly(e, *SYMBOLS, domain="QQ")


def polynomial_of(entry: Any) -> Poly:
    terms = {tuple(map(int, powers)): Rational(int(c.p), int(c.q)) for powers, c in entry.to_dict().items()}
    return Poly.from_dict(terms or {(0, 0, 0): 0}, *SYMBOLS, domain="QQ")


@given(tree=trees, other=trees, point=points)
def test_equality_is_equality_of_functions(tree: Tree, other: Tree, point: dict[str, Fraction]) -> None:
    a, b = entry_or_nothing(tree), entry_or_nothing(other)
    assume(not (isinstance(a, int) and isinstance(b, int)))
    if a == b:
        assert b == a
        assert value_at(a, point) == value_at(b, point)
        assert (a - b) == 0
    else:
        assert (a - b) != 0
    assert (a + b) == (b + a)
    assert (a * b) == (b * a)
    assert ((a + b) - b) == a


def test_equality_with_polynomials_and_integers() -> None:
    whole = RationalFunction(x * y, y)
    assert whole == x
    assert x == whole
    assert whole != y
    quotient = RationalFunction(x, y)
    assert quotient * y == x
    assert y * quotient == x
    assert quotient - quotient == 0
    assert quotient * 0 == 0
    assert 0 * quotient == 0
    assert quotient * (x - x) == 0
    assert sum([quotient, -quotient]) == 0
    assert quotient != 0
    assert RationalFunction(2 * x, 2 * y) == quotient
    assert RationalFunction(-x, -y) == quotient
    assert RationalFunction(x * x - y * y, x * y + y * y) == quotient - 1


def test_entries_cannot_be_hashed() -> None:
    """python-flint's polynomials can't; a rational function that is equal to one must not be either."""
    for entry in (x, RationalFunction(x, y), RationalFunction(x, ONE)):
        with pytest.raises(TypeError):
            hash(entry)


def test_divisions_by_zero() -> None:
    for zero in (x - x, RationalFunction(x, y) - RationalFunction(x, y)):
        with pytest.raises(UndefinedValue, match="division by zero"):
            ALGEBRA.reciprocal(one_entry(zero))


def test_there_are_no_roots_of_generators() -> None:
    with pytest.raises(NoMeaning, match="no square roots"):
        ALGEBRA.sqrt(one_entry(x))


# relations: |w|^2 = c for two tokens w


def related(norm: int) -> tuple[Polynomials, list[list[Any]]]:
    algebra = Polynomials(("w_1_1", "w_2_1", "w_1_2", "w_2_2", "x"))
    tokens = [[algebra.generator(f"w_{token}_{entry}") for entry in (1, 2)] for token in (1, 2)]
    for first, second in tokens:
        algebra.add_relation(first * first + second * second - norm)
    return algebra, tokens


@given(exponents=st.lists(st.integers(0, 5), min_size=5, max_size=5), norm=st.integers(1, 3))
def test_normal_forms(exponents: list[int], norm: int) -> None:
    """A monomial reduces to the polynomial with the same values on the circles, and w_1^2 is gone from it."""
    algebra, _ = related(norm)
    monomial = algebra.entry(Rational(1))
    for name, exponent in zip(algebra.generators, exponents, strict=True):
        monomial = monomial * algebra.generator(name) ** exponent
    normal = algebra.modulo_relations(monomial)
    degrees = dict(zip(algebra.generators, normal.degrees(), strict=True))
    assert degrees["w_1_1"] <= 1
    assert degrees["w_2_1"] <= 1
    assert algebra.modulo_relations(normal) == normal
    assert algebra.is_zero(monomial - normal)
    if norm != 3:  # 3 isn't a sum of two rational squares
        turn = lambda m: (Fraction(1 - m * m, 1 + m * m), Fraction(2 * m, 1 + m * m))
        scale = (lambda p: p) if norm == 1 else (lambda p: (p[0] - p[1], p[0] + p[1]))
        one, other = scale(turn(Fraction(1, 2))), scale(turn(Fraction(3, 4)))
        at = dict(zip(algebra.generators, (one[0], other[0], one[1], other[1], Fraction(5)), strict=True))
        assert at_point(monomial, algebra, at) == at_point(normal, algebra, at)


def at_point(entry: Any, algebra: Polynomials, point: dict[str, Fraction]) -> Fraction:
    total = Fraction(0)
    for exponents, coefficient in entry.to_dict().items():
        term = Fraction(int(coefficient.p), int(coefficient.q))
        for name, exponent in zip(algebra.generators, exponents, strict=True):
            term *= point[name] ** int(exponent)
        total += term
    return total


def test_relations_decide_equality() -> None:
    algebra, ((a, b), (c, d)) = related(2)
    reflect = lambda first, second: np.array(
        [[1 - first * first, -first * second], [-first * second, 1 - second * second]], dtype=object
    )
    twice = np.matmul(reflect(a, b), reflect(a, b))
    assert not [entry for entry in algebra.difference(twice, algebra.identity(2)).ravel() if entry != 0]
    assert algebra.is_zero(a * a * c * c - (2 - b * b) * (2 - d * d))
    assert not algebra.is_zero(a * a - 1)
    assert algebra.is_zero(RationalFunction(a * a + b * b - 2, c))
    quotient = algebra.difference(one_entry(RationalFunction(a * a, c)), one_entry(RationalFunction(2 - b * b, c)))
    assert quotient[0, 0] == 0


def test_what_is_zero_modulo_the_relations_is_not_divided_by() -> None:
    algebra, ((a, b), _) = related(1)
    with pytest.raises(UndefinedValue):
        algebra.entry_reciprocal(a * a + b * b - 1)
    assert algebra.entry_reciprocal(a * a + b * b) is not None
