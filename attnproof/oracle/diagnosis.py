"""What a wrong kernel computes instead: its values are compared with those of other formulas, within the tolerance.

Tried are ways of calling (a gate read on another scale, a state transposed, forgotten or dropped between blocks), the
catalogue's other systems with the same inputs, and the statement with one small error planted in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnproof.catalogue import load_catalogue
from attnproof.implementation_cases import Case
from attnproof.oracle.conventions import OUTPUT
from attnproof.oracle.subject import Misbehaved, Subject
from attnproof.oracle.trials import NO_VALUE, Trial, computed, forms_of, is_gate, symbols_of, without_carry
from derivations.language.forms import Form, Recurrence, text_lines
from derivations.language.statements import Identity
from numerics.proofs.mutants import mutants

Values = dict[str, np.ndarray]
STANDS_IN = {"P": "K", "W": "K", "kappa": "K"}
"""Inputs that other systems have besides, and which of them they are taken to be."""
SAME_ROLE = ({"Q", "R", "C"}, {"K", "B"}, {"V", "X"}, {"beta", "eta"}, {"gamma"}, {"alpha", "w"})
"""Inputs that have the same part in different systems."""
TOKENS, WIDTH = 24, 5
"""Small enough for many candidates; d_k = d_v, so that a transposed state has a meaning."""


@dataclass(frozen=True)
class Candidate:
    """Another formula: what it is, and its values for a trial."""

    name: str
    values: Callable[[Trial], Mapping[str, np.ndarray]]


def diagnosed(subject: Subject, case: Case) -> str:
    """What the kernel computes instead of the statement, in a sentence; "" where nothing tried is it."""
    cases = [replace(case, tokens=TOKENS, key_width=WIDTH, value_width=WIDTH, seed=case.seed + k) for k in range(2)]
    try:
        trials = [Trial(subject, own) for own in cases]
        returned = [subject.call(trial.arguments) for trial in trials]
    except Misbehaved:
        return ""
    for candidate in candidates(subject):
        if all(_is_it(candidate, trial, found) for trial, found in zip(trials, returned, strict=True)):
            return candidate.name
    return ""


def _is_it(candidate: Candidate, trial: Trial, returned: Values) -> bool:
    """Whether the values are the candidate's, and the candidate isn't the statement on this input."""
    try:
        other = {**trial.values, **candidate.values(trial)}
        differs = any(_apart(other[x], trial.values[x], trial.tolerances[x]) for x in trial.values if x in returned)
        return differs and all(gap.ratio <= 1 for gap in trial.gaps(returned, other))
    except (Misbehaved, *NO_VALUE):
        return False


def _apart(a: np.ndarray, b: np.ndarray, tolerance: np.ndarray) -> bool:
    return a.shape != b.shape or bool((abs(a - b).max(axis=-1) > tolerance).any())


def candidates(subject: Subject) -> Iterator[Candidate]:
    """The likeliest mistakes first."""
    form = forms_of(subject.convention.derivation)[0]
    yield Candidate("the output is zero", lambda trial: {OUTPUT: 0 * trial.values[OUTPUT]})
    yield Candidate("all that it returns is zero", lambda trial: {x: 0 * trial.values[x] for x in trial.names})
    yield from _states(form)
    yield from _calls(subject, form)
    yield from _relatives(form)
    yield from _falsified(form)


def _changed(name: str, form: Form, x: Any, change: Callable[[np.ndarray], np.ndarray]) -> Candidate:
    """The statement with one input changed."""
    return Candidate(name, lambda trial: _with(trial, form, {x: change(trial.env[x])}))


def _states(form: Form) -> Iterator[Candidate]:
    for state in form.states:
        yield _final_transposed(str(state))
        yield _changed(f"the initial {state} is read transposed", form, state, lambda s: s.swapaxes(-1, -2))
        yield _changed(f"the initial {state} is ignored", form, state, lambda s: 0 * s)
        yield _final_is_initial(state)
    for size in (8, 16, 32, 64, 128) if form.states else ():
        yield _dropping(size)


def _final_transposed(name: str) -> Candidate:
    what = f"the final {name} is transposed; all else is right"
    return Candidate(what, lambda trial: {name: trial.values[name].swapaxes(-1, -2)})


def _final_is_initial(state: Any) -> Candidate:
    what = f"the initial {state} is returned as the final one; all else is right"
    return Candidate(what, lambda trial: {str(state): trial.env[state]})


def _dropping(size: int) -> Candidate:
    return Candidate(f"what is carried is dropped after every {size} tokens", lambda trial: without_carry(trial, size))


def _calls(subject: Subject, form: Form) -> Iterator[Candidate]:
    symbols = symbols_of(subject.convention.derivation)
    for argument in subject.convention.arguments:
        name, x = argument.name, symbols[argument.stands_for]
        if is_gate(argument, subject):
            yield _changed(f"{name} isn't used: no token fades", form, x, np.ones_like)
            yield _changed(f"{name} is read as a gate, and not as its logarithm", form, x, np.log)
            yield _changed(f"the exponential of {name} is taken where the gate was given", form, x, np.exp)
            yield _changed(f"{name} is taken to the base 2", form, x, lambda gates: 2 ** np.log(gates))
            yield _changed(f"{name} of the token before is used", form, x, _late)
        if argument.stands_for in ("Q", "R", "C"):
            for power, how in (
                (-0.5, "scaled by d_k^-1/2 too much"),
                (0.5, "not scaled"),
                (-1.0, "scaled twice too much"),
            ):
                yield _scaled(f"{name} is {how}", form, x, power)


def _scaled(name: str, form: Form, x: Any, power: float) -> Candidate:
    return Candidate(name, lambda trial: _with(trial, form, {x: trial.env[x] * trial.sizes.d_k**power}))


def _late(gates: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones_like(gates[..., :1, :]), gates[..., :-1, :]], axis=-2)


def _with(trial: Trial, form: Form, changed: Mapping[Any, np.ndarray]) -> Values:
    return computed(form, {**trial.env, **changed}, trial.names)


def _relatives(form: Form) -> Iterator[Candidate]:
    """Other recurrences of the catalogue whose inputs this one has, those with the most inputs in common first."""
    own = {str(x) for x in form.symbols()}
    found = [
        (other.title, name, recurrence)
        for other in load_catalogue().derivations.values()
        for name, recurrence in other.forms.items()
        if type(recurrence) is Recurrence and recurrence != form
    ]
    for title, name, other in sorted(found, key=lambda x: -len(own & {str(s) for s in x[2].symbols()})):
        taken = [f"{x} = {y}" for x, y in STANDS_IN.items() if x not in own and x in map(str, other.symbols())]
        also = f" with {' and '.join(taken)}" if taken else ""
        what = title if name == "recurrence" else f"{title} ({name})"
        yield _relative(f"it computes {what}{also}: {'; '.join(text_lines(other))}", other)


def _relative(name: str, form: Form) -> Candidate:
    return Candidate(name, lambda trial: _as_other(trial, form))


def _as_other(trial: Trial, form: Form) -> Values:
    """The values of another system; inputs that have the same part there are taken for one another."""
    own = {str(x): v for x, v in trial.env.items() if not isinstance(v, int)}
    env = dict(trial.env)
    for x in (*form.symbols(), *form.states):
        if x in env or getattr(x, "is_integer", False):
            continue
        role: set[str] = next((role for role in SAME_ROLE if str(x) in role), {STANDS_IN.get(str(x), str(x))})
        name = next(iter(sorted(role & own.keys())), str(x))
        if name in own or x not in form.states:  # a state that isn't given begins at zero
            env[x] = own[name]
    return computed(form, env, trial.names)


def _falsified(form: Form) -> Iterator[Candidate]:
    """The statement with one small error."""
    for mutant in mutants(Identity("kernel", form, form)):
        if mutant.change.startswith("left: "):
            wrong = mutant.identity.left
            name = f"it computes {'; '.join(text_lines(wrong))} ({mutant.change.removeprefix('left: ')})"
            yield _relative(name, wrong)
