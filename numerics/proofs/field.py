"""Rung 3, field: equal modulo a prime at production size, with the probability that a false identity passes.

Two different polynomials of degree D agree at a uniformly random point of GF(p) with probability at most D / p
(Schwartz-Zippel). The degree is computed by a walk of its own (numerics/algebras/degrees.py); trials are independent
and multiply.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import ceil, log2
from time import perf_counter
from typing import Any

import numpy as np
from sympy import Basic

from derivations.language.adjoint import goes_backward
from derivations.language.errors import NoMeaning, UndefinedValue
from derivations.language.expressions import Exponential, Product, ScalarExponential
from derivations.language.forms import Closed, Defined, Form, Substituted, free_inputs, sequence_of
from derivations.language.statements import Identity
from derivations.language.structure import structure
from derivations.language.symbols import Parameter, n, t
from numerics.algebras.contract import Algebra
from numerics.algebras.degrees import Degree, Degrees
from numerics.algebras.finite_field import PRIME, FiniteField
from numerics.algebras.weights import Weight, Weights, degree_of_exponential
from numerics.algebras.with_exponents import Exponents, PowersOfAGenerator, WithExponents, plain
from numerics.evaluate import evaluate
from numerics.evidence import Evidence
from numerics.inputs import CannotDraw, Sizes, degree_inputs, field_inputs, plan, shape_of
from numerics.proofs.compare import probe, readings, recurrences, sides
from numerics.recurrences import start, step
from numerics.run import Outcome, run, run_on

PRODUCTION = Sizes(n=521, d_k=64, d_v=48, chunk=64)
"""A prime length: the last chunk is ragged."""
WITH_STATES_KEPT = Sizes(n=263, d_k=16, d_v=12, chunk=16)
"""A backward pass goes through all states twice."""
WHERE_REFUTED = Sizes(n=67, d_k=8, d_v=6, chunk=16)
"""A false identity shows at any size; there is no need for a large one."""
WIDER = 66
"""With exponentials of scores: by how much queries and keys are wider than the length, so that all scores are
independent; see numerics/algebras/weights.py.
"""
ERROR_BITS = 60
"""Trials are added until the error bound is below 2^-60."""
REDRAWS = 3


def check(identity: Identity, seed: int = 0, sizes: Sizes | None = None, length: int | None = None) -> Evidence:
    """The field rung of one identity, at the sizes given, or at production sizes with another length."""
    begun = perf_counter()
    sizes = sizes or production_sizes(identity, length)
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
        details |= {"trials": trials or 1, "error_bound": 0.0}  # residues that differ are no accident
        return evidence("refuted", f"{differs} of the two sides differs modulo {PRIME}")
    if trials == 0:
        return evidence("unknown", f"the sides agree, but a degree of about 2^{degree.bit_length()} gives no bound")
    details |= {"degree": degree, "trials": trials}
    if has_exponentials(identity):
        details["bound_assumes"] = "exponentials of different exponents are independent uniform units"
    details["error_bound"] = (degree / PRIME) ** trials
    details["error_bound_log2"] = round(trials * log2(max(degree, 1) / PRIME), 1)
    return evidence("holds")


def production_sizes(identity: Identity, length: int | None = None, usual: Sizes = PRODUCTION) -> Sizes:
    """The sizes at which an identity is checked, with this length where one that holds is asked for."""
    if identity.expected == "refuted":
        return WHERE_REFUTED
    if any(goes_backward(side) for side in (identity.left, identity.right)):
        usual = WITH_STATES_KEPT
    length = length or usual.n
    wide = any(_has_scores(e) for e in _exponents(identity))
    return replace(usual, n=length, d_k=length + WIDER if wide else usual.d_k)


def trials_for(degree: int) -> int:
    """How many independent trials bring (degree / p)^trials below 2^-60; 0 where none can."""
    bits = log2(PRIME) - log2(max(degree, 1))
    return ceil((ERROR_BITS + 1) / bits) if bits > 1 else 0


def gap_degree(identity: Identity, sizes: Sizes) -> int:
    """A bound on the degree of the numerator of left - right, over all entries that are compared."""
    degrees = Degrees()
    env = degree_inputs(identity, sizes, degrees)
    env |= {x: degrees.value(*shape_of(x, env)) for x in (WEIGHTS, *map(probe, identity.matching or ()))}
    algebra: Algebra = degrees
    if has_exponentials(identity):
        algebra = lifted = WithExponents(degrees, Weights(), degree_of_exponential)
        env = {x: lifted.lift(v, Weight(1, *v.shape)) if isinstance(v, Degree) else v for x, v in env.items()}
    if identity.matching is not None:
        return _stepwise_degree(identity, env, algebra)
    return max(_gap(left, right) for _, left, right in sides(identity, env, algebra, _outcome_at_once))


def _gap(left: Any, right: Any) -> int:
    """The degree of the numerator of a difference."""
    return plain(left).gap(plain(right))


def has_exponentials(identity: Identity) -> bool:
    """Whether an exponential stands in either side, so that inputs are needed as exponents too."""
    return bool(_exponents(identity))


def _exponents(identity: Identity) -> set[Basic]:
    """What stands in exponents on either side."""
    parts = [e for form in (identity.left, identity.right) for e in form.expressions().values()]
    return {x.args[0] for e in parts for x in e.atoms(Exponential, ScalarExponential)}


def _has_scores(exponent: Basic) -> bool:
    """Whether an exponent contains inner products over the width of tokens, which is then chosen large."""
    neighbours = (pair for e in exponent.atoms(Product) for pair in pairwise(e.args))
    return any(
        right.shape[0] not in (1, n) for left, right in neighbours if not (_is_diagonal(left) or _is_diagonal(right))
    )


def _is_diagonal(e: Any) -> bool:
    known = structure(e)
    return known.lower and known.upper


def _stepwise_degree(identity: Identity, env: Mapping[Any, Any], algebra: Algebra) -> int:
    """For matched states, which are compared after each token.

    Up to the first step at which the sides differ, the left states *are* the right ones read through the matching, so
    that their degree is the lower of the two. A false identity is found at that step.
    """
    assert identity.matching is not None
    left, right = recurrences(identity)
    theirs = start(right, env, algebra)
    mine: dict[Basic, Any] = {x: evaluate(value, {**env, **theirs}, algebra) for x, value in identity.matching.items()}
    degree = 0
    for position in algebra.positions(env[n]):
        here = {**env, t: position}
        theirs, right_output = step(right, here, theirs, algebra)
        mine, left_output = step(left, here, mine, algebra)
        degree = max(degree, _gap(left_output, right_output))
        for name, mine_read, theirs_read in readings(identity, env):
            if name != "output":
                after = {**here, **theirs, **mine}
                degree = max(degree, _gap(*(evaluate(e, after, algebra) for e in (mine_read, theirs_read))))
        for x, value in identity.matching.items():
            matched = evaluate(value, {**here, **theirs}, algebra)
            mine[x] = min(mine[x], matched, key=lambda value: plain(value).size)
    return degree


def differing(identity: Identity, sizes: Sizes, seed: int, trials: int) -> str:
    """The name of the first pair of values that differ in a trial, or nothing.

    A draw at which the statement has no value (a singular matrix modulo p) is drawn again.
    """
    rng = np.random.default_rng(seed)
    algebra = exponential_field() if has_exponentials(identity) else FiniteField()
    for attempt in range(REDRAWS):
        env = field_inputs(identity, sizes, algebra, rng, trials)
        for state in identity.matching or ():
            env[probe(state)] = algebra.random(rng, (trials, *shape_of(probe(state), env)))
        env[WEIGHTS] = algebra.random(rng, (trials, *shape_of(WEIGHTS, env)))
        runner = _Remembering(identity, (sizes, seed, attempt, trials))
        try:
            pairs = sides(identity, env, algebra, runner)
            return next((name for name, a, b in pairs if (plain(a) != plain(b)).any()), "")
        except UndefinedValue:
            if attempt == REDRAWS - 1:
                raise
    return ""


@cache
def exponential_field() -> WithExponents:
    """GF(p) with exponents modulo p - 1."""
    return WithExponents(FiniteField(), Exponents(), PowersOfAGenerator())


REMEMBERED = 32
_kept: OrderedDict[tuple[Any, ...], tuple[Form, Outcome]] = OrderedDict()
"""The last forms that were run, with what came out: the identities of a system share their forms and their draws."""


class _Remembering:
    """Runs forms on the inputs that an identity is drawn for, and remembers the outcomes."""

    def __init__(self, identity: Identity, drawn: tuple[Any, ...]) -> None:
        self.how, self.drawn = plan(identity), drawn

    def __call__(self, form: Form, env: Mapping[Any, Any], algebra: Algebra) -> Outcome:
        key = (id(form), self.drawn, *self._inputs(form, env))
        if key not in _kept:
            _kept[key] = form, _outcome(form, env, algebra)
            if len(_kept) > REMEMBERED:
                _kept.popitem(last=False)
        return _kept[key][1]

    def _inputs(self, form: Form, env: Mapping[Any, Any]) -> Iterator[tuple[Any, ...]]:
        """How each input of a form is drawn, and whether a state starts from a drawn value or from its own."""
        read = form.symbols() | set(form.states)
        given = {sequence_of(key): value for key, value in self.how.values.items() if sequence_of(key) in read}
        for value in given.values():
            read |= free_inputs(value)
        for x in sorted(read, key=str):
            special = x in self.how.squares, self.how.spheres.get(x), x in self.how.circles, x in self.how.sines
            yield str(x), x in env, *special, given.get(x)


def _outcome_at_once(form: Form, env: Mapping[Any, Any], algebra: Algebra) -> Outcome:
    return (_on_weights if form.shape == (n, n) else run)(form, env, algebra)


def _outcome(form: Form, env: Mapping[Any, Any], algebra: Algebra) -> Outcome:
    """The outcome in all trials: at once, or one by one where n x n matrices of all trials would not fit a cache."""
    if not _is_closed(form):
        return _outcome_at_once(form, env, algebra)
    arrays = {key: value for key, value in env.items() if not isinstance(value, int)}
    trials = next(iter(arrays.values())).shape[0]
    one = lambda trial: {**env, **{k: v[trial] for k, v in arrays.items()}}
    each = [_outcome_at_once(form, one(trial), algebra) for trial in range(trials)]
    return Outcome(np.stack([plain(outcome.output) for outcome in each]))


WEIGHTS = Parameter("weights", n)
"""A random column: two n x n matrices that differ send it to different columns, at one more degree in the bound."""


def _on_weights(form: Form, env: Mapping[Any, Any], algebra: Algebra) -> Outcome:
    return Outcome(run_on(form, WEIGHTS, env, algebra))


def _is_closed(form: Form) -> bool:
    return isinstance(form, Closed) or (isinstance(form, Substituted | Defined) and _is_closed(form.form))
