"""Costs at given sizes: which form is cheaper from which length on, and which size of a block is best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from sympy import Expr, Integer, Symbol

from derivations.language.symbols import d_k, d_v, n
from numerics.costs.best_chunk import BestChunk, best_chunk
from numerics.costs.crossover import cheaper_from
from numerics.costs.system import MATRIX, OPERATIONS, FormCosts
from numerics.evaluate import CHUNK

COMPARED: dict[str, Callable[[FormCosts, int], Expr | None]] = {
    "multiplications": lambda costs, ratio: costs.sequence.total(["multiplications"]),
    "operations": lambda costs, ratio: costs.sequence.operations,
    "weighted operations": lambda costs, ratio: costs.sequence.weighted(ratio),
    "operations of one token": lambda costs, ratio: costs.token.operations,
}
"""What two forms are compared by."""


@dataclass(frozen=True)
class Setting:
    """Where costs are compared.

    Args:
        d_k, d_v: the widths; a dimension of the user's own takes the size of d_k.
        chunk: the size of a block.
        length: n, where a number is asked for.
        ratio: how many times faster operations in products of matrices are than others.
    """

    d_k: int = 128
    d_v: int = 128
    chunk: int = 64
    length: int = 4096
    ratio: int = 16

    def sizes(self, costs: Iterable[FormCosts]) -> dict[Symbol, int]:
        """The size of every dimension that these costs depend on, and of n, d_k, d_v and C."""
        found = {x for form in costs for counts in (form.sequence, form.token) for x in counts.symbols}
        known = {n: self.length, d_k: self.d_k, d_v: self.d_v, CHUNK: self.chunk}
        return {**known, **dict.fromkeys(sorted(found - known.keys(), key=str), self.d_k)}

    def in_n(self, cost: Expr) -> Expr:
        """A cost as a polynomial in n alone."""
        return self._in(cost, {CHUNK: self.chunk}, kept=n)

    def in_chunk(self, cost: Expr) -> Expr:
        """A cost as a function of C alone."""
        return self._in(cost, {n: self.length}, kept=CHUNK)

    def number(self, polynomials: Iterable[Expr]) -> Fraction:
        """The greatest of some polynomials."""
        values = [self.in_n(p).subs(n, self.length) for p in polynomials]
        return max(Fraction(int(value.p), int(value.q)) for value in values)

    def greatest(self, polynomials: Iterable[Expr]) -> Expr:
        """The polynomial that is the greatest one here."""
        return max(polynomials, key=lambda p: self.number([p]))

    def _in(self, cost: Expr, sizes: dict[Symbol, int], kept: Symbol) -> Expr:
        known = {d_v: self.d_v, **sizes}
        return cost.subs({x: Integer(known.get(x, self.d_k)) for x in cost.free_symbols - {kept}})


@dataclass(frozen=True)
class Crossover:
    """Which of two forms takes less of something, and from which length on; nobody where they take the same."""

    forms: tuple[str, str]
    compared: str
    cheaper: str | None
    length: int = 1


def crossovers(costs: Sequence[FormCosts], setting: Setting) -> list[Crossover]:
    """Every two forms, by everything that both have a count of."""
    found = []
    for first, second in combinations(costs, 2):
        for compared, cost_of in COMPARED.items():
            pair = cost_of(first, setting.ratio), cost_of(second, setting.ratio)
            if None not in pair:
                found.append(_crossover((first.name, second.name), compared, *map(setting.in_n, pair)))
    return found


def _crossover(forms: tuple[str, str], compared: str, first: Expr, second: Expr) -> Crossover:
    for name, cost, other in ((forms[0], first, second), (forms[1], second, first)):
        length = cheaper_from(cost, other)
        if length is not None:
            return Crossover(forms, compared, name, length)
    return Crossover(forms, compared, None)


def best_chunks(costs: Iterable[FormCosts], setting: Setting) -> dict[str, BestChunk]:
    """The best size of a block of each form with blocks whose operations are polynomials in C."""
    found = {}
    for form in costs:
        time = form.sequence.weighted(setting.ratio)
        if form.has_blocks and time is not None and not form.sequence.only_at_chunk & {*OPERATIONS, *MATRIX}:
            found[form.name] = best_chunk(setting.in_chunk(time), setting.length)
    return found
