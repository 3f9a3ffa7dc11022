"""Inputs for an identity in each number system, drawn from its assumptions.

eta >= 0 whose square root is taken is drawn as a square r^2, so that the root is r, exactly; |w|^2 = c is a relation
between symbols, a reflected point of the sphere in a field, and a rescaled vector in floats; any other condition is
checked and drawn
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np
from sympy import Basic, Eq, Integer, Pow, Rational, Symbol
from sympy.core.relational import Ge, Gt, Le, Lt, Ne, Relational

from derivations.language.assumptions import Assumption
from derivations.language.errors import NoMeaning, UndefinedValue
from derivations.language.expressions import Diagonal, Inverted, ScalarOf, Statement, TraceOf
from derivations.language.forms import sequence_of
from derivations.language.statements import Identity
from derivations.language.structure import structure
from derivations.language.symbols import GateToken, Named, State, Token, d_k, d_v, n, t
from numerics.algebras.contract import Algebra, Value
from numerics.algebras.degrees import Degrees
from numerics.algebras.finite_field import FiniteField
from numerics.algebras.objects import matrix_of
from numerics.algebras.polynomials import Monomial, Polynomials
from numerics.algebras.rationals import Rationals
from numerics.algebras.with_exponents import WithExponents
from numerics.evaluate import CHUNK, RootOf, evaluate

DRAWS = 200
"""How often a condition that isn't built into the draw is tried before the assumptions count as vacuous."""


class CannotDraw(Exception):
    """No input was found that fulfils the assumptions."""


@dataclass(frozen=True)
class Sizes:
    """Concrete dimensions. A dimension of the user's own takes the size of d_k."""

    n: int
    d_k: int
    d_v: int
    chunk: int = 2

    def environment(self, identity: Identity) -> dict[Any, int]:
        """The dimensions of an identity with their sizes."""
        known = {n: self.n, d_k: self.d_k, d_v: self.d_v, CHUNK: self.chunk}
        found = {x for e in _all_expressions(identity) for x in e.atoms(Symbol) if x.is_integer and x.is_positive}
        own = sorted(found - known.keys(), key=str)
        return known | dict.fromkeys(own, self.d_k)

    def as_json(self) -> dict[str, int]:
        """The sizes by name."""
        return {"n": self.n, "d_k": self.d_k, "d_v": self.d_v, "chunk": self.chunk}


def _all_expressions(identity: Identity) -> list[Basic]:
    sides = [*identity.left.expressions().values(), *identity.right.expressions().values()]
    matching = list((identity.matching or {}).values())
    return [*sides, *matching, *identity.inputs(), *(a.condition for a in identity.assumptions)]


@dataclass(frozen=True)
class Plan:
    """How the assumptions of an identity enter a draw. `equations` are those that only rejection can fulfil."""

    squares: frozenset[Basic]
    spheres: Mapping[Basic, Rational]
    circles: Mapping[Basic, Basic]
    values: Mapping[Basic, Basic]
    signs: Mapping[Basic, str]
    equations: tuple[Assumption, ...]

    @property
    def sines(self) -> frozenset[Basic]:
        """The inputs that are drawn together with their cosines."""
        return frozenset(self.circles.values())

    def refuse_equations(self, algebra: Algebra) -> None:
        """NoMeaning where inputs can't be drawn by rejection: an equation that is ignored would refute what is true."""
        for equation in self.equations:
            raise NoMeaning(f"no way is known to draw inputs in {algebra.name} that fulfil {equation}")


def plan(identity: Identity) -> Plan:
    """Sorts the assumptions into those that are built into a draw and those that are checked afterwards."""
    rooted = _subjects_under_roots(identity)
    spheres: dict[Basic, Rational] = {}
    circles: dict[Basic, Basic] = {}
    values: dict[Basic, Basic] = {}
    signs: dict[Basic, str] = {}
    equations: list[Assumption] = []
    for assumption in identity.assumptions:
        norm, sign = assumption.norm_of, assumption.sign_of
        if norm is not None and norm[1].is_Rational:
            spheres[norm[0].sequence] = Rational(norm[1])
        elif assumption.circle_of is not None:
            cosine, sine = assumption.circle_of
            circles[cosine] = sine
        elif sign is not None:
            signs[sequence_of(sign[0])] = sign[1]
        elif isinstance(assumption.condition, Eq) and isinstance(assumption.condition.lhs, GateToken | Symbol):
            values[assumption.condition.lhs] = assumption.condition.rhs
        elif isinstance(assumption.condition, Eq):
            equations.append(assumption)
    return Plan(frozenset(rooted & signs.keys()), spheres, circles, values, signs, tuple(equations))


def _subjects_under_roots(identity: Identity) -> set[Basic]:
    roots = {p for e in _all_expressions(identity) for p in e.atoms(Pow) if p.exp.is_Rational and p.exp.q == 2}
    return {sequence_of(p.base) for p in roots}


def divides(e: Basic) -> bool:
    """Whether an expression divides by something made of matrices (a gate alone stays a short denominator)."""
    quotients = any(p.exp.is_negative and p.atoms(ScalarOf, TraceOf) for p in e.atoms(Pow))
    return quotients or any(not structure(x.args[0]).unit for x in e.atoms(Inverted))


def shape_of(symbol: Basic, env: Mapping[Any, int]) -> tuple[int, int]:
    """The concrete shape of an input; a scalar is 1 x 1."""
    if not isinstance(symbol, Named):
        return 1, 1
    dimensions = {k: Integer(v) for k, v in env.items() if isinstance(k, Symbol) and isinstance(v, int)}
    rows, columns = (int(side.xreplace(dimensions)) for side in symbol.shape)
    return rows, columns


def label(symbol: Basic, row: int, column: int, shape: tuple[int, int]) -> str:
    """The name of an entry: k_2 (the second token, d = 1), k_{2,1}, gamma_2, S_{1,2}."""
    name = str(symbol)
    if not isinstance(symbol, Named):
        return name
    if isinstance(symbol, State):
        return f"{name}0" if shape == (1, 1) else f"{name}0_{row + 1}_{column + 1}"
    name = name.lower() if symbol.shape[1] != 1 else name
    index = f"{name}_{row + 1}"
    return index if shape[1] == 1 else f"{index}_{column + 1}"


@dataclass(frozen=True)
class SymbolicInputs:
    """Polynomial generators for every entry of every input."""

    algebra: Polynomials
    env: dict[Any, Any]
    entries: dict[str, tuple[Basic, int, int]]


def symbolic_inputs(identity: Identity, sizes: Sizes, exponents: Sequence[Monomial] = ()) -> SymbolicInputs:
    """Every entry of every input as a generator of its own; roots, spheres and circles by squares and relations.

    `exponents` are the monomials that stand in exponents, see `Polynomials`.
    """
    dimensions = sizes.environment(identity)
    how = plan(identity)
    drawn = [x for x in identity.inputs() if x not in {sequence_of(k) for k in how.values}]
    # the first coordinates on spheres lead, so that w_1^2 is the leading term of w_1^2 + w_2^2 + ... - c; so do cosines
    drawn.sort(key=lambda x: x not in how.spheres and x not in how.circles)
    entries: dict[str, tuple[Basic, int, int]] = {}
    others = {str(x) for x in drawn}
    for x in drawn:
        shape = shape_of(x, dimensions)
        for row, column in _column_by_column(shape) if x in how.spheres else product(range(shape[0]), range(shape[1])):
            name = label(x, row, column, shape)
            if str(x).lower() in others - {str(x)}:  # a gate w beside a sequence W, whose tokens are w as well
                name = str(x) + name[len(str(x)) :]
            entries[name] = (x, row, column)
    algebra = Polynomials(tuple(entries), exponents)
    how.refuse_equations(algebra)
    env: dict[Any, Any] = dict(dimensions)
    names = {place: name for name, place in entries.items()}
    for x in drawn:
        rows, columns = shape_of(x, dimensions)
        value = matrix_of([[algebra.generator(names[x, r, c]) for c in range(columns)] for r in range(rows)])
        if x in how.squares:
            env[RootOf(x)] = value
            value = value * value
        if x in how.spheres:
            for row in value:
                algebra.add_relation(sum(w * w for w in row[1:]) + row[0] * row[0] - algebra.entry(how.spheres[x]))
        env[x] = value
    for cosine, sine in how.circles.items():
        for c, s in zip(env[cosine].flat, env[sine].flat, strict=True):
            algebra.add_relation(c * c + s * s - algebra.entry(Rational(1)))
    add_values(how, env, algebra)
    return SymbolicInputs(algebra, env, entries)


def _column_by_column(shape: tuple[int, int]) -> Iterator[tuple[int, int]]:
    return ((row, column) for column in range(shape[1]) for row in range(shape[0]))


def add_values(how: Plan, env: dict[Any, Any], algebra: Algebra) -> None:
    """Inputs that an assumption gives a value: gamma_t = 1, in every draw of the batch."""
    batched = [value for x, value in env.items() if isinstance(x, Basic) and not isinstance(value, int)]
    widest = max(batched, key=lambda value: len(value.shape), default=None)
    for key, value in how.values.items():
        if isinstance(key, GateToken):
            own = algebra.stack([evaluate(value, {**env, t: p}, algebra) for p in algebra.positions(env[n])])
        else:
            own = evaluate(value, env, algebra)
        env[sequence_of(key)] = own if widest is None else algebra.add(own, _zero_of(widest, algebra))


def _zero_of(value: Value, algebra: Algebra) -> Value:
    """A zero scalar with the batch of a value."""
    corner = algebra.block(algebra.transpose(algebra.block(value, 0, 1)), 0, 1)
    return algebra.multiply(algebra.number(Rational(0)), corner)


def field_inputs(
    identity: Identity, sizes: Sizes, algebra: FiniteField | WithExponents, rng: np.random.Generator, trials: int
) -> dict[Any, Any]:
    """Uniform residues, with a leading dimension of trials; a square or a point of a sphere where an assumption asks
    for it. An input gets the same residues in every identity that is drawn from the same state of `rng`.
    """
    seed = int(rng.integers(2**32))

    def draw(x: Basic, shape: tuple[int, int], how: Plan) -> dict[Any, Value]:
        name = f"{type(x).__name__} {x}"  # a scalar gamma and a gate gamma are two inputs
        value = algebra.random(np.random.default_rng((seed, crc32(name.encode()))), (trials, *shape))
        if x in how.squares:
            return {RootOf(x): value, x: algebra.multiply(value, value)}
        if x in how.spheres:
            return {x: _reflected(how.spheres[x], value, algebra)}
        if x in how.circles:
            return _angles(x, how.circles[x], value, algebra)
        return {x: value}

    plan(identity).refuse_equations(algebra)
    return _drawn(identity, sizes, algebra, draw)


def _drawn(
    identity: Identity, sizes: Sizes, algebra: Algebra, draw: Callable[[Basic, tuple[int, int], Plan], dict[Any, Value]]
) -> dict[Any, Any]:
    how = plan(identity)
    env: dict[Any, Any] = dict(sizes.environment(identity))
    given = {sequence_of(key) for key in how.values} | how.sines
    for x in identity.inputs():
        if x not in given:
            env |= draw(x, shape_of(x, env), how)
    add_values(how, env, algebra)
    return env


def degree_inputs(identity: Identity, sizes: Sizes, algebra: Degrees) -> dict[Any, Any]:
    """The degrees of what `field_inputs` draws, in the residues that are drawn uniformly."""

    def draw(x: Basic, shape: tuple[int, int], how: Plan) -> dict[Any, Value]:
        if x in how.squares:
            return {RootOf(x): algebra.value(*shape), x: algebra.value(*shape, degree=2)}
        if x in how.spheres:
            # a polynomial of degree D that isn't zero on the quadric |w|^2 = c vanishes on at most 2 D / p of its
            # points
            return {x: algebra.value(*shape, degree=2)}
        if x in how.circles:  # points of so many conics
            return {part: algebra.value(*shape, degree=2) for part in (x, how.circles[x])}
        return {x: algebra.value(*shape)}

    return _drawn(identity, sizes, algebra, draw)


def base_point(norm_squared: Rational, width: int) -> list[int]:
    """Integers with the given sum of squares.

    Raises:
        CannotDraw: there are none in this dimension.
    """
    if norm_squared.is_Integer and norm_squared > 0:
        bound = int(norm_squared**0.5) + 1
        for head in product(range(bound, -1, -1), repeat=min(width, 4)):
            if sum(x * x for x in head) == norm_squared:
                return [*head, *([0] * (width - len(head)))]
    raise CannotDraw(f"no integer point with |w|^2 = {norm_squared} in dimension {width}")


def _reflected(norm_squared: Rational, axis: Value, algebra: Algebra) -> Value:
    """b - 2 (b.x)/(x.x) x for every row x: almost every rational point of the sphere through b."""
    width = axis.shape[-1]
    base = algebra.transpose(
        algebra.concatenate([algebra.number(Rational(x)) for x in base_point(norm_squared, width)])
    )
    ones = algebra.ones(width, 1)
    along = algebra.matmul(algebra.multiply(axis, base), ones)
    length = algebra.matmul(algebra.multiply(axis, axis), ones)
    factor = algebra.multiply(algebra.number(Rational(2)), algebra.multiply(along, algebra.reciprocal(length)))
    return algebra.subtract(base, algebra.multiply(factor, axis))


def _angles(cosine: Basic, sine: Basic, half: Value, algebra: Algebra) -> dict[Any, Value]:
    """(1 - u^2) / (1 + u^2) and 2 u / (1 + u^2): all of the circle but (-1, 0), u the tangent of half the angle."""
    one, square = algebra.number(Rational(1)), algebra.multiply(half, half)
    scale = algebra.reciprocal(algebra.add(one, square))
    twice = algebra.add(half, half)
    return {
        cosine: algebra.multiply(algebra.subtract(one, square), scale),
        sine: algebra.multiply(twice, scale),
    }


def rational_inputs(identity: Identity, sizes: Sizes, rng: np.random.Generator) -> dict[Any, Any]:
    """Small fractions that fulfil every assumption.

    Raises:
        CannotDraw: none were found in DRAWS draws.
    """
    algebra = Rationals()
    pool = [Fraction(p, q) for p in range(-3, 4) for q in (1, 2)]

    def draw(x: Basic, shape: tuple[int, int], how: Plan) -> dict[Any, Value]:
        sign = how.signs.get(x)
        rows = [
            [_signed(pool[rng.integers(len(pool))], sign, x in how.squares) for _ in range(shape[1])]
            for _ in range(shape[0])
        ]
        value = matrix_of(rows)
        if x in how.circles:
            return _angles(x, how.circles[x], value, algebra)
        return {x: _reflected(how.spheres[x], value, algebra) if x in how.spheres else value}

    for _ in range(DRAWS):
        try:
            env = _drawn(identity, sizes, algebra, draw)
            if all(fulfilled(a, env, algebra) for a in identity.assumptions):
                return env
        except (UndefinedValue, NoMeaning):
            continue
    raise CannotDraw(
        f"no input fulfils {' and '.join(map(str, identity.assumptions))} (tried {DRAWS} at n = {sizes.n})"
    )


def _signed(value: Fraction, sign: str | None, square: bool) -> Fraction:
    if sign is None:
        return value
    value = abs(value) if value or sign == ">=" else Fraction(1)
    return value * value if square else value


RELATIONS: dict[type, Callable[[Any, Any], bool]] = {
    Ge: lambda a, b: a >= b,
    Gt: lambda a, b: a > b,
    Le: lambda a, b: a <= b,
    Lt: lambda a, b: a < b,
    Eq: lambda a, b: a == b,
    Ne: lambda a, b: a != b,
}


def fulfilled(assumption: Assumption, env: Mapping[Any, Any], algebra: Algebra) -> bool:
    """Whether inputs in an ordered number system fulfil an assumption, at every token and in the whole batch."""
    condition = assumption.condition
    if isinstance(condition, Diagonal):  # floats divide by zero and say nothing
        column, positions = condition.args[0], range(_length(condition, env))
        return all(np.all(evaluate(column, {**env, t: position}, algebra) != 0) for position in positions)
    if isinstance(condition, Statement):
        try:
            for position in range(_length(condition, env)):
                evaluate(condition.I, {**env, t: position}, algebra)
        except UndefinedValue:
            return False
        return True
    assert isinstance(condition, Relational)
    compare = RELATIONS[type(condition)]
    for position in range(_length(condition, env)):
        left, right = (evaluate(side, {**env, t: position}, algebra) for side in condition.args)
        if not np.all(compare(left, right)):
            return False
    return True


def _length(condition: Basic, env: Mapping[Any, Any]) -> int:
    """How many tokens a condition speaks about: n, unless its gate runs along another dimension."""
    tokens = condition.atoms(Token, GateToken)
    return min((shape_of(token.sequence, env)[0] for token in tokens), default=1)


def sides_are_one_object(identity: Identity) -> bool:
    """Whether the two sides are literally the same statement, so that comparing them shows nothing."""
    left, right = identity.left, identity.right
    return left is right or (type(left) is type(right) and left == right)
