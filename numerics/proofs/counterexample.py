"""The smallest exact counterexample of a false identity: fewest tokens, then dimensions, then the simplest numbers.

A size is tried with all inputs symbolic; at the first one with a gap, inputs are set to one except for as few entries
as possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, islice, product
from typing import Any

import numpy as np
from sympy import Add, Basic, Expr, Integer, Mul, Pow, Symbol

from derivations.language.errors import NoMeaning, UndefinedValue
from derivations.language.statements import Identity
from derivations.language.symbols import Gate
from numerics.algebras.contract import Value
from numerics.algebras.polynomials import RationalFunction
from numerics.algebras.rationals import Rationals
from numerics.evaluate import CHUNK, RootOf
from numerics.evidence import Counterexample, written
from numerics.inputs import CannotDraw, Plan, Sizes, add_values, fulfilled, plan, rational_inputs, shape_of
from numerics.proofs.compare import sides
from numerics.proofs.exact import Gap, gap_at

LONGEST, WIDEST = 5, 3
SIMPLEST = (Fraction(1, 2), Fraction(2), Fraction(0), Fraction(-1), Fraction(3))
CHANGED_ENTRIES = 3
"""How many entries may differ from one before random small fractions are tried."""


def sizes_in_order(chunked: bool) -> Iterator[Sizes]:
    """Sizes by tokens, then by the sum of the dimensions, then by the largest of them."""
    for length in range(1, LONGEST + 1):
        widths = product(range(1, WIDEST + 1), repeat=2)
        for d_k, d_v in sorted(widths, key=lambda w: (sum(w), max(w), w)):
            yield Sizes(length, d_k, d_v, chunk=1)
            if chunked and length > 1:
                yield Sizes(length, d_k, d_v, chunk=2)


def smallest(identity: Identity) -> Counterexample | None:
    """The smallest counterexample, or None where no size up to n = 5, d = 3 has one."""
    for sizes in sizes_in_order(identity.is_chunked):
        try:
            gap = gap_at(identity, sizes)
        except (UndefinedValue, NoMeaning, CannotDraw):
            continue
        if gap is not None:
            point = _simplest_point(identity, gap)
            if point is not None:
                return _evaluated(identity, gap, point)
    return None


def _simplest_point(identity: Identity, gap: Gap) -> dict[Any, Any] | None:
    """Inputs at which the gap isn't zero: ones, then one other entry, then two, then small fractions at random."""
    how = plan(identity)
    for env in _candidates(identity, gap, how):
        try:
            if all(fulfilled(a, env, Rationals()) for a in identity.assumptions) and _differs(identity, env):
                return env
        except (UndefinedValue, NoMeaning):
            continue
    return None


def _candidates(identity: Identity, gap: Gap, how: Plan) -> Iterator[dict[Any, Any]]:
    if not (how.spheres or how.circles):  # ones lie on neither
        relevant = _relevant(identity, gap)
        for count in range(min(CHANGED_ENTRIES, len(relevant)) + 1):
            for names in combinations(relevant, count):
                for values in product(SIMPLEST, repeat=count):
                    yield _point(identity, gap, how, dict(zip(names, values, strict=True)))
    rng = np.random.default_rng(0)
    for _ in range(100):
        try:
            yield rational_inputs(identity, gap.sizes, rng)
        except CannotDraw:
            return


def _relevant(identity: Identity, gap: Gap) -> list[str]:
    """The entries that some gap depends on: gates first, since a gate of one half is the plainest change."""
    algebra, used = gap.inputs.algebra, set()
    for _, left, right in sides(identity, gap.inputs.env, algebra):
        for entry in algebra.difference(left, right).flat:
            for p in [entry.numerator, entry.denominator] if isinstance(entry, RationalFunction) else [entry]:
                met = [name for name, degree in zip(algebra.generators, p.degrees(), strict=True) if degree > 0]
                used |= {inner for name in met for inner in algebra.inputs_of(name)}
    return sorted(
        used, key=lambda name: (not isinstance(gap.inputs.entries[name][0], Gate), -gap.inputs.entries[name][1], name)
    )


def _point(identity: Identity, gap: Gap, how: Plan, changed: Mapping[str, Fraction]) -> dict[Any, Any]:
    env: dict[Any, Any] = dict(gap.sizes.environment(identity))
    values: dict[Basic, Value] = {}
    for name, (x, row, column) in gap.inputs.entries.items():
        matrix = values.setdefault(x, np.empty(shape_of(x, env), dtype=object))
        entry = changed.get(name, Fraction(1))
        matrix[row, column] = entry * entry if x in how.squares else entry
    env |= values
    add_values(how, env, Rationals())
    return env


def _differs(identity: Identity, env: Mapping[Any, Any]) -> bool:
    return any((left != right).any() for _, left, right in sides(identity, env, Rationals()))


def _evaluated(identity: Identity, gap: Gap, env: Mapping[Any, Any]) -> Counterexample:
    pairs = enumerate(sides(identity, env, Rationals()))
    number, (name, left, right) = next((number, p) for number, p in pairs if (p.left != p.right).any())
    row, column = (int(x) for x in np.argwhere(left != right)[0])
    inputs = {str(x): written(env[x]) for x in identity.inputs()}
    used = {k: v for k, v in gap.sizes.environment(identity).items() if k != CHUNK or identity.is_chunked}
    dimensions = {str(k): v for k, v in used.items()}
    factorised = factorised_gap(_gap_of(identity, gap, number, (row, column)))
    return Counterexample(dimensions, inputs, name, written(left), written(right), factorised, (row + 1, column + 1))


def _gap_of(identity: Identity, gap: Gap, number: int, entry: tuple[int, int]) -> Gap:
    """The gap at an entry of the pair with this number: matched states are compared token by token, under one name."""
    pairs = sides(identity, gap.inputs.env, gap.inputs.algebra)
    compared, left, right = next(islice(pairs, number, None))
    return replace(gap, compared=compared, entry=entry, value=gap.inputs.algebra.difference(left, right)[entry])


def factorised_gap(gap: Gap) -> str:
    """left - right, factorised, in SymPy's syntax: (1 - gamma_2)*k_1*k_2**2*q_2*v_1."""
    if isinstance(gap.value, RationalFunction):
        lowest = gap.value.cancelled()
        if lowest.denominator.is_one():
            return _factorised(lowest.numerator, gap)
        top, bottom = (_factorised(p, gap) for p in (lowest.numerator, lowest.denominator))
        return f"({top})/({bottom})"
    return _factorised(gap.value, gap)


def _factorised(polynomial: Any, gap: Gap) -> str:
    coefficient, factors = polynomial.factor()
    symbols = [Symbol(name) for name in gap.inputs.algebra.generators]
    roots = {Symbol(name): x for name, (x, _, _) in gap.inputs.entries.items() if RootOf(x) in gap.inputs.env}
    number = Integer(int(coefficient.p)) / Integer(int(coefficient.q))
    parts: list[tuple[Expr, int]] = [(_as_sympy(factor, symbols), int(power)) for factor, power in factors]
    if number < 0:
        number, parts = _with_sign_moved(number, parts)
    rooted = {x: Symbol(f"sqrt_{x}") for x in roots}
    powers = [
        f"{_bracketed(base.xreplace(rooted))}{'' if power == 1 else f'**{power}'}" for base, power in _sums_first(parts)
    ]
    if number == -1 and powers:
        return "-" + "*".join(powers)
    if number != 1 or not powers:
        powers.insert(0, str(number))
    return "*".join(powers)


def _as_sympy(polynomial: Any, symbols: list[Symbol]) -> Expr:
    terms = []
    for exponents, coefficient in polynomial.to_dict().items():
        powers = [Pow(x, int(e)) for x, e in zip(symbols, exponents, strict=True) if e]
        terms.append(Mul(Integer(int(coefficient.p)) / Integer(int(coefficient.q)), *powers))
    return Add(*terms)


def _with_sign_moved(number: Expr, parts: list[tuple[Expr, int]]) -> tuple[Expr, list[tuple[Expr, int]]]:
    """-(gamma - 1) as (1 - gamma)."""
    for index, (base, power) in enumerate(parts):
        if isinstance(base, Add) and power % 2:
            return -number, [*parts[:index], (Add(*(-a for a in base.args)), power), *parts[index + 1 :]]
    return number, parts


def _sums_first(parts: list[tuple[Expr, int]]) -> list[tuple[Expr, int]]:
    return sorted(parts, key=lambda part: (not isinstance(part[0], Add), str(part[0])))


def _bracketed(base: Expr) -> str:
    return f"({base})" if isinstance(base, Add) else str(base)
