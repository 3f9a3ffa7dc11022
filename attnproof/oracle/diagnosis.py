"""What a wrong kernel computes instead: its values are compared with those of other formulas, within the tolerance.

Tried are ways of calling (a gate read on another scale, a state transposed, forgotten or dropped between blocks), the
catalogue's other systems with the same inputs, and the statement with one small error planted in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from attnproof.catalogue import load_catalogue
from attnproof.implementation_cases import QUERIES, Case
from attnproof.oracle.conventions import OUTPUT
from attnproof.oracle.misreadings import Change, misreadings
from attnproof.oracle.statements import computed, forms_of, symbols_of
from attnproof.oracle.subject import Misbehaved, Subject
from attnproof.oracle.trials import NO_VALUE, Trial, without_carry
from derivations.language.forms import Closed, Form, Recurrence, text_lines
from derivations.language.statements import Identity
from derivations.language.symbols import n
from numerics.proofs.mutants import mutants

Values = dict[str, np.ndarray]
STANDS_IN = {"P": "K", "W": "K", "kappa": "K"}
"""Inputs that other systems have besides, and which of them they are taken to be."""
SAME_ROLE = ({"Q", "R", "C", "phi_Q"}, {"K", "B", "phi_K"}, {"V", "X"}, {"beta", "eta"}, {"gamma"}, {"alpha", "w"})
"""Inputs that have the same part in different systems."""
GATES = ("gamma", "alpha", "a", "w")
KEYS = ("K", "B", "phi_K")
SCALED = (
    (1, 1, "scale is ignored"),
    (4, 1, "scale is applied twice"),
)
"""By how much output and states of `scale` = 1/2 are to be multiplied to be right, and what that shows."""
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
    wrong_scale = _of_scale(subject, trials[0])
    if wrong_scale:
        return wrong_scale
    for candidate in candidates(subject):
        if all(_is_it(candidate, trial, found) for trial, found in zip(trials, returned, strict=True)):
            return candidate.name
    return ""


def _of_scale(subject: Subject, trial: Trial) -> str:
    """What a kernel of the right values does with a `scale` of one half, if that isn't to halve the output."""
    if subject.convention.constants.get("scale") != 1.0 or not trial.linear_in_queries:
        return ""
    try:
        if any(gap.ratio > 1 for gap in trial.gaps(subject.call(trial.arguments))):
            return ""
        found = subject.call(trial.arguments, scale=0.5)
        for output, state, what in SCALED:
            back = {x: (output if x == OUTPUT else state) * value for x, value in found.items()}
            if all(gap.ratio <= 1 for gap in trial.gaps(back)):
                return what
        keys = [x for name, x in symbols_of(subject.convention.derivation).items() if name in KEYS and x in trial.env]
        halved = computed(
            forms_of(subject.convention.derivation)[0],
            {**trial.env, **{x: trial.env[x] / 2 for x in keys}},
            trial.names,
        )
        if all(gap.ratio <= 1 for gap in trial.gaps(found, halved)):
            return "scale is put on k"
    except Misbehaved:
        pass
    return ""


def _is_it(candidate: Candidate, trial: Trial, returned: Values) -> bool:
    """Whether the values are the candidate's, and the candidate isn't the statement on this input."""
    try:
        other = {**trial.values, **candidate.values(trial)}
        differs = any(_apart(other[x], trial.values[x], trial.tolerances[x]) for x in trial.values if x in returned)
        return differs and all(_fits(trial, name, layout, returned, other) for name, layout in trial.returned_names())
    except (Misbehaved, *NO_VALUE):
        return False


def _fits(trial: Trial, name: str, layout: str, returned: Values, other: Values) -> bool:
    """Whether a returned value is the candidate's.

    Where that has grown larger than the statement's up to a row, as a wrong sign may make it, its roundings have too.
    """
    found, wanted, stated = trial.stated(name, layout, returned[name]), other[name], trial.values[name]
    if not (np.isfinite(found).all() and np.isfinite(wanted).all()):
        return False
    theirs, own = (np.maximum.accumulate(abs(x).max(axis=-1), axis=-1) for x in (wanted, stated))
    larger = np.maximum(theirs / np.maximum(own, 1e-300), 1.0)
    return bool((abs(found - wanted).max(axis=-1) <= larger * trial.tolerances[name]).all())


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
    yield from _refuted(subject)
    yield from _falsified(subject)


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
        if argument.stands_for in QUERIES:
            for power, how in (
                (-0.5, "scaled by d_k^-1/2 too much"),
                (0.5, "not scaled"),
                (-1.0, "scaled twice too much"),
            ):
                yield _scaled(f"{argument.name} is {how}", form, symbols[argument.stands_for], power)
    for what, change in misreadings(subject):
        yield Candidate(what, partial(_misread, form, change))
    if isinstance(form, Recurrence):
        for gate in (x for x in form.symbols() if x.shape[0] == n and str(x) in GATES):
            what = f"the query reads without its own gate {gate}_t: (S_{{t-1}} + ...) q_t"
            yield Candidate(what, partial(_without_the_querys_gate, form, gate))


def _misread(form: Form, change: Change, trial: Trial) -> Values:
    return computed(form, {**trial.env, **change(trial.env)}, trial.names)


def _without_the_querys_gate(form: Recurrence, gate: Any, trial: Trial) -> Values:
    """Each token reads the state before it, and what it has written itself."""
    known = symbols_of(trial.subject.convention.derivation)
    query = next(known[name] for name in QUERIES if name in known)
    faded = {**trial.env, query: (1 - trial.env[gate]) * trial.env[query]}
    reading = Recurrence(form.states, form.updates, form.readout, "before", form.initial)
    before = computed(reading, faded, trial.names)[OUTPUT]
    return {**trial.values, OUTPUT: trial.values[OUTPUT] + before}


def _scaled(name: str, form: Form, x: Any, power: float) -> Candidate:
    return Candidate(name, lambda trial: _with(trial, form, {x: trial.env[x] * trial.sizes.d_k**power}))


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


def _falsified(subject: Subject) -> Iterator[Candidate]:
    """The statement with one small error, in each of the forms that it is written in."""
    known = load_catalogue().derivations[subject.convention.derivation].forms
    first = forms_of(subject.convention.derivation)[0]
    for form in (first, *(x for x in known.values() if x is not first)):
        if type(form) is not Recurrence and not (isinstance(form, Closed) and form.name == OUTPUT):
            continue
        for mutant in mutants(Identity("kernel", form, form)):
            if mutant.change.startswith("left: "):
                wrong = mutant.identity.left
                name = f"it computes {'; '.join(text_lines(wrong))} ({mutant.change.removeprefix('left: ')})"
                yield _relative(name, wrong)


def _refuted(subject: Subject) -> Iterator[Candidate]:
    """Formulas that are known to be wrong: the sides of the derivation's refuted identities."""
    for identity in load_catalogue().derivations[subject.convention.derivation].identities:
        for form in (identity.left, identity.right) if identity.expected == "refuted" else ():
            if type(form) is Recurrence or (isinstance(form, Closed) and form.name == OUTPUT):
                yield _relative(f"it computes {'; '.join(text_lines(form))} ({identity.says})", form)
