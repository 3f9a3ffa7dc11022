"""Backward passes: is what `derivations.language.adjoint` derives the derivative?

Forward mode and reverse mode are the two sides of an identity (derivations/language/two_modes.py), which holds in every
direction exactly where every entry of every cotangent is right. The exact rung compares with the derivative of the
polynomials themselves, the field rung with dual numbers in GF(p) at 256 tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from sympy import Basic, Pow

from derivations.language.expressions import Inverted, Reciprocal
from derivations.language.forms import Recurrence
from derivations.language.statements import Backward
from numerics.algebras.finite_field import PRIME
from numerics.evidence import Evidence, Verdict
from numerics.inputs import Sizes
from numerics.proofs import exact, mutants, typed
from numerics.proofs import field as field_rung

SMALL = (Sizes(1, 1, 1), Sizes(2, 1, 1), Sizes(2, 2, 1), Sizes(3, 1, 2))
"""One token from any state, with any dS, is the induction step; more tokens try the loop around it."""
SMALL_QUOTIENTS = (Sizes(1, 1, 1), Sizes(1, 2, 1), Sizes(2, 1, 1), Sizes(2, 1, 2))
"""Derivatives of fractions grow fast."""
ONE_TOKEN = (Sizes(1, 1, 1), Sizes(1, 2, 1), Sizes(1, 1, 2))
LONG, LONG_QUOTIENTS = Sizes(n=256, d_k=4, d_v=3), Sizes(n=256, d_k=2, d_v=3)
"""With divisions the bound on the degree keeps track of everything that was divided by, entry by entry."""

RUNGS: dict[str, Callable[[Backward, int, int | None], Evidence]] = {
    "typed": lambda statement, seed, length: typed.check(statement.identity),
    "exact": lambda statement, seed, length: exact_check(statement),
    "field": lambda statement, seed, length: field_check(statement, seed, length),
    "mutants": lambda statement, seed, length: mutants.check(statement.identity),
}
"""What can be climbed. Floats are compared with automatic differentiation in the tests."""


def sizes_of(recurrence: Recurrence) -> tuple[Sizes, ...]:
    """The sizes at which a backward pass is compared with the derivatives of polynomials."""
    return SMALL_QUOTIENTS if _divides(recurrence) else SMALL


def exact_check(statement: Backward) -> Evidence:
    """The exact rung of one backward pass; one token from any state too, where the recurrence has a beginning."""
    found = exact.check(statement.identity, sizes_of(statement.recurrence))
    if found.verdict != "holds" or statement.recurrence.initial is None:
        return found
    step = exact.check(_from_any_state(statement).identity, ONE_TOKEN)
    if step.verdict != "holds":
        return step
    return replace(found, sizes=(*found.sizes, *step.sizes), seconds=found.seconds + step.seconds)


def field_check(statement: Backward, seed: int = 0, length: int | None = None) -> Evidence:
    """The field rung of one backward pass: 256 tokens where no other length is asked for, error bound below 2^-60.

    A state that is divided by something made of itself has a degree that doubles with every token, as far as a walk
    can tell. There the bound is that of one token from any state with any dS, tried as often as the pass has tokens:
    a pass is one token after the other, and what holds for each of them adds up. The whole pass is run as well.
    """
    usual = LONG_QUOTIENTS if _divides(statement.recurrence) else LONG
    sizes = field_rung.production_sizes(statement.identity, length, usual)
    if not _divides_by_its_state(statement.recurrence):
        return field_rung.check(statement.identity, seed, sizes)
    begun = perf_counter()
    one_token = _from_any_state(statement)
    found = field_rung.check(one_token.identity, seed, replace(sizes, n=1))
    if found.verdict != "holds":
        return found
    differs = field_rung.differing(one_token.identity, replace(sizes, n=1), seed, trials=sizes.n)
    differs = differs or field_rung.differing(statement.identity, sizes, seed, trials=1)
    verdict: Verdict = "refuted" if differs else "holds"
    return Evidence(
        "field",
        verdict,
        (*found.sizes, sizes.as_json()),
        perf_counter() - begun,
        f"{differs} of the two sides differs modulo {PRIME}" if differs else "",
        found.details | {"bound_for": "each token, from any state"},
    )


def _from_any_state(statement: Backward) -> Backward:
    given = statement.recurrence
    return replace(statement, recurrence=Recurrence(given.states, given.updates, given.readout, given.read))


def _divides(recurrence: Recurrence) -> bool:
    return any(_quotients(e) for e in recurrence.expressions().values())


def _divides_by_its_state(recurrence: Recurrence) -> bool:
    divisors = {x for update in recurrence.updates for x in _quotients(update)}
    return any(x.has(state) for x in divisors for state in recurrence.states)


def _quotients(e: Basic) -> set[Basic]:
    """What an expression divides by."""
    powers = {p.base for p in e.atoms(Pow) if p.exp.is_negative}
    return powers | {x.args[0] for x in e.atoms(Reciprocal, Inverted)}
