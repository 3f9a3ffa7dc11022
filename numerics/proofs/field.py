"""Rung 3, field: equal modulo a prime at production size, with the probability that a false identity passes.

Two different polynomials of degree D agree at a uniformly random point of GF(p) with probability at most D / p
(Schwartz-Zippel). The degree is computed by a walk of its own (numerics/algebras/degrees.py); trials are independent
and multiply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, log2
from time import perf_counter
from typing import Any

import numpy as np
from sympy import Basic

from derivations.language.errors import NoMeaning, UndefinedValue
from derivations.language.forms import Closed, Defined, Form, Substituted, Transport
from derivations.language.statements import Identity
from derivations.language.symbols import n, t
from numerics.algebras.degrees import Degree, Degrees
from numerics.algebras.finite_field import PRIME, FiniteField
from numerics.evaluate import evaluate, start, step
from numerics.evidence import Evidence
from numerics.inputs import CannotDraw, Sizes, degree_inputs, field_inputs, shape_of
from numerics.proofs.compare import Pair, probe, recurrences, sides

PRODUCTION = Sizes(n=1031, d_k=64, d_v=48, chunk=64)
"""A prime length: the last chunk is ragged."""
WHERE_REFUTED = Sizes(n=67, d_k=8, d_v=6, chunk=16)
"""A false identity shows at any size; there is no need for a large one."""
ERROR_BITS = 60
"""Trials are added until the error bound is below 2^-60."""
REDRAWS = 3


def check(identity: Identity, seed: int = 0, sizes: Sizes | None = None) -> Evidence:
    """The field rung of one identity."""
    begun = perf_counter()
    sizes = sizes or (PRODUCTION if identity.expected == "holds" else WHERE_REFUTED)
    details: dict[str, Any] = {"prime": PRIME, "seed": seed}

    def evidence(verdict: Any, message: str = "") -> Evidence:
        return Evidence("field", verdict, (sizes.as_json(),), perf_counter() - begun, message, details)

    try:
        degree = gap_degree(identity, sizes)
        trials = trials_for(degree)
        # a difference refutes whatever the degree is; only agreement needs a bound
        differs = differing(identity, sizes, seed, trials or 1)
    except (NoMeaning, UndefinedValue, CannotDraw) as error:
        return evidence("unknown", f"{identity.place}: {error}")
    if differs:
        return evidence("refuted", f"{differs} of the two sides differs modulo {PRIME}")
    if trials == 0:
        return evidence("unknown", f"the sides agree, but a degree of about 2^{degree.bit_length()} gives no bound")
    details |= {"degree": degree, "trials": trials}
    details["error_bound"] = (degree / PRIME) ** trials
    details["error_bound_log2"] = round(trials * log2(max(degree, 1) / PRIME), 1)
    return evidence("holds")


def trials_for(degree: int) -> int:
    """How many independent trials bring (degree / p)^trials below 2^-60; 0 where none can."""
    bits = log2(PRIME) - log2(max(degree, 1))
    return ceil((ERROR_BITS + 1) / bits) if bits > 1 else 0


def gap_degree(identity: Identity, sizes: Sizes) -> int:
    """A bound on the degree of the numerator of left - right, over all entries that are compared."""
    algebra = Degrees()
    env = degree_inputs(identity, sizes, algebra)
    if identity.matching is not None:
        return _stepwise_degree(identity, env, algebra)
    return max(left.gap(right) for _, left, right in sides(identity, env, algebra))


def _stepwise_degree(identity: Identity, env: Mapping[Any, Any], algebra: Degrees) -> int:
    """For matched states, which are compared after each token: up to the first step at which the sides differ, the
    left states *are* the right ones read through the matching, so that their degree is the lower of the two. A false
    identity is found at
    that step.
    """
    assert identity.matching is not None
    left, right = recurrences(identity)
    theirs = start(right, env, algebra)
    mine: dict[Basic, Degree] = {
        state: evaluate(value, {**env, **theirs}, algebra) for state, value in identity.matching.items()
    }
    degree = 0
    for position in algebra.positions(env[n]):
        here = {**env, t: position}
        theirs, right_output = step(right, here, theirs, algebra)
        mine, left_output = step(left, here, mine, algebra)
        degree = max(degree, left_output.gap(right_output))
        for state, value in identity.matching.items():
            matched: Degree = evaluate(value, {**here, **theirs}, algebra)
            degree = max(degree, mine[state].gap(matched) + 1)  # one more for the probe
            mine[state] = min(mine[state], matched, key=lambda d: d.size)
    return degree


def differing(identity: Identity, sizes: Sizes, seed: int, trials: int) -> str:
    """The name of the first pair of values that differ in a trial, or nothing.

    A draw at which the statement has no value (a singular matrix modulo p) is drawn again.
    """
    algebra = FiniteField()
    rng = np.random.default_rng(seed)
    for attempt in range(REDRAWS):
        env = field_inputs(identity, sizes, algebra, rng, trials)
        for state in identity.matching or ():
            env[probe(state)] = algebra.random(rng, (trials, *shape_of(probe(state), env)))
        try:
            for name, left, right in _pairs(identity, env, algebra, trials):
                if (left != right).any():
                    return name
        except UndefinedValue:
            if attempt == REDRAWS - 1:
                raise
            continue
        return ""
    return ""


def _pairs(identity: Identity, env: dict[Any, Any], algebra: FiniteField, trials: int) -> Iterator[Pair]:
    """All trials at once, or one by one where the n x n matrices of all trials would not fit a cache."""
    if not any(_is_closed(side) for side in (identity.left, identity.right)):
        yield from sides(identity, env, algebra)
        return
    for trial in range(trials):
        yield from sides(identity, {k: v if isinstance(v, int) else v[trial] for k, v in env.items()}, algebra)


def _is_closed(form: Form) -> bool:
    return isinstance(form, Closed | Transport) or (isinstance(form, Substituted | Defined) and _is_closed(form.form))
