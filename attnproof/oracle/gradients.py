"""The check of gradients: of every argument, against the backward pass that is derived from the statement.

The loss is a random linear function of the output, of the last states, or of both. An argument that is the logarithm of
a gate has the gate's derivative times the gate; a rate A of gates exp(A dt), the sum of what its gates have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnproof.implementation_cases import MASKED_SCORES, Case
from attnproof.oracle.arrays import usual_library
from attnproof.oracle.conventions import OUTPUT
from attnproof.oracle.derivatives import Derivatives, derivatives, of_a_sum
from attnproof.oracle.findings import Finding, broken, described_case, skipped
from attnproof.oracle.gradient_tolerances import measured
from attnproof.oracle.statements import carries_a_state, presented, symbols_of
from attnproof.oracle.subject import Arrays, Misbehaved, Subject
from attnproof.oracle.trials import CLEAR, SMALLEST, Trial, in_tolerances
from attnproof.oracle.values import zero_strengths
from derivations.language.errors import StatementError
from gpu.registry import Argument
from numerics.float_inputs import rounded_inputs
from numerics.head_layouts import to_heads
from numerics.proofs.tolerances import MARGIN

NAME = "gradients"
LOSSES = ("output and state", "output", "state", "sum of the output")
"""In the last one the output's cotangent is ones, which Torch hands on as one number that is expanded."""


@dataclass(frozen=True)
class GradientGap:
    """How far the gradient of one argument is off.

    Attributes:
        ratio: the largest error over tolerance.
        what: what is known of a wrong one: that it is zero, a multiple of the right one, or where it begins.
        tested: whether it is clearly above the tolerance.
    """

    ratio: float
    what: str
    tested: bool


def few_gradients(subject: Subject, case: Case) -> Finding:
    """For a loss on the output and the last states, and on the states alone; and with strong gates."""
    own = _small(case)
    return _judged(subject, [(own, LOSSES[0]), (own, LOSSES[2]), (replace(own, strongest=20.0), LOSSES[0])])


def gradients(subject: Subject, case: Case) -> Finding:
    """For a loss on the output, on the last states, and on both; with strong gates; for one and two tokens; without an
    initial state; where strengths are zero; and of attention where scores that a mask hides overflow.
    """
    own = _small(case)
    cases = [(own, losses) for losses in LOSSES]
    cases += [(replace(own, strongest=20.0), LOSSES[0])]
    cases += [(replace(own, tokens=n), LOSSES[0]) for n in (1, 2, 2 * case.chunk_size)]
    if subject.convention.state is None or subject.convention.state.optional:
        cases += [(replace(own, with_state=False), LOSSES[0])]
    cases += [(replace(own, set_to=(x,)), LOSSES[0]) for x in zero_strengths(subject)]
    if not carries_a_state(subject.convention):
        cases += [(replace(own, family=MASKED_SCORES), LOSSES[1])]
    return _judged(subject, cases)


def _small(case: Case) -> Case:
    return replace(case, tokens=case.chunk_size + 3, heads=1, groups=1, batch=2)


def _judged(subject: Subject, cases: list[tuple[Case, str]]) -> Finding:
    if not carries_a_state(subject.convention) and usual_library() != "torch":
        return skipped(NAME, "the gradients of attention matrices are taken by Torch, which isn't installed")
    if subject.library not in ("torch", "jax"):
        return skipped(NAME, f"{subject.library} doesn't differentiate")
    if not subject.differentiable(presented(subject, replace(cases[0][0], tokens=1))):
        return skipped(NAME, "what the kernel returns has no gradient: it is judged forward only")
    ratio, tested = 0.0, frozenset[str]()
    for case, losses in cases:
        if losses == "state" and len(subject.convention.returns) < 2:
            continue
        try:
            gaps = gradient_gaps(subject, case, losses)
        except Misbehaved as error:
            return broken(NAME, case, error)
        except StatementError as error:
            return skipped(NAME, str(error))
        ratio = max(ratio, *(gap.ratio for gap in gaps.values()))
        wrong = _said(gaps, losses)
        if wrong:
            return Finding(NAME, "refuted", ratio, 0.0, f"{described_case(case)}, {wrong}", case)
        tested |= {f"d{name}" for name, gap in gaps.items() if gap.tested}
    return Finding(NAME, "holds" if tested else "vacuous", ratio, tested=tested)


def _said(gaps: Mapping[str, GradientGap], losses: str) -> str:
    wrong = {f"d{name}": gap for name, gap in gaps.items() if gap.ratio > 1}
    if not wrong:
        return ""
    right = [f"d{name}" for name, gap in gaps.items() if gap.ratio <= 1]
    listed = ", ".join(f"{name} by {gap.ratio:.3g} tolerances{gap.what}" for name, gap in wrong.items())
    return f"with a loss on the {losses}: {listed}{'; ' * bool(right)}{', '.join(right)}{' right' * bool(right)}"


def gradient_gaps(subject: Subject, case: Case, losses: str) -> dict[str, GradientGap]:
    """By argument how far its gradient is off.

    Raises:
        Misbehaved: a gradient isn't finite, or the kernel raised.
    """
    trial, given = Trial(subject, case), {}

    def drawn(values: Arrays) -> Arrays:
        trial.gaps(values)  # shapes first, and nothing that isn't finite
        given.update(_cotangents(values, losses, trial))
        return given

    _, found = subject.pullback(trial.arguments, drawn)
    derived, stated = derivatives(trial, given)
    rounding, sums = measured(trial, stated), of_a_sum(trial, derived, stated)
    arguments = [x for x in subject.convention.arguments if x.name in found]
    return {x.name: _gap(trial, x, found[x.name], derived, rounding, sums) for x in arguments}


def _cotangents(values: Arrays, losses: str, trial: Trial) -> Arrays:
    """Of what is in the loss."""
    if losses == "sum of the output":
        return {OUTPUT: np.ones(values[OUTPUT].shape)}
    rng = np.random.default_rng((trial.case.seed, 2))
    chosen = [x for x in values if losses == "output and state" or (x == OUTPUT) == (losses == "output")]
    return rounded_inputs({x: rng.normal(size=values[x].shape) for x in chosen}, trial.subject.unit_roundoff)


def _gap(
    trial: Trial,
    argument: Argument,
    gradient: np.ndarray | None,
    derived: Derivatives,
    rounding: Mapping[str, np.ndarray],
    sums: np.ndarray,
) -> GradientGap:
    symbol = symbols_of(trial.subject.convention.derivation)[argument.stands_for]
    value = np.zeros(trial.sizes.shape(argument.layout)) if gradient is None else gradient
    if value.shape != trial.sizes.shape(argument.layout):
        wanted_shape = trial.arguments[argument.name].shape
        raise Misbehaved(f"d{argument.name} has the shape {value.shape}, and {argument.name} {wanted_shape}")
    if not np.isfinite(value).all():
        raise Misbehaved(f"d{argument.name} isn't finite")
    found = _as_derived(argument, to_heads(value, argument.layout, symbol, trial.sizes), of_all=True)
    wanted, tolerance = _wanted(trial, argument, derived, rounding, sums)
    tolerance = np.maximum(tolerance, MARGIN * SMALLEST[trial.subject.dtype])
    ratio = in_tolerances(abs(found - wanted).max(axis=-1), tolerance)
    tested = bool((abs(wanted).max(axis=-1) > CLEAR * tolerance).any())
    return GradientGap(float(ratio.max()), _what(found, wanted, ratio, symbol.shape[0] == 1), tested)


def _wanted(
    trial: Trial, argument: Argument, derived: Derivatives, rounding: Mapping[str, np.ndarray], sums: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The derivative by an argument, and each row's tolerance. What the statement doesn't read has none."""
    shape = trial.env[symbols_of(trial.subject.convention.derivation)[argument.stands_for]].shape
    wanted, tolerance = np.zeros(shape), np.zeros(shape[:-1])
    for symbol, factor in _parts(trial, argument):
        if symbol not in derived:
            continue
        whole, own = derived[symbol]
        scale = abs(factor) * np.ones_like(whole)
        allowed = (2 * own + trial.subject.unit_roundoff * abs(whole).max(axis=-1)) * scale.max(axis=-1)
        if str(symbol) in rounding:
            by_logarithm = np.maximum(trial.env[symbol], 1e-300) if symbol in trial.gates else 1.0
            allowed = np.maximum(allowed, rounding[str(symbol)] * (scale / by_logarithm).max(axis=-1))
        if symbol in trial.cumulated:
            allowed = np.maximum(allowed, sums * (scale / np.maximum(trial.env[symbol], 1e-300)).max(axis=-1))
        wanted, tolerance = wanted + whole * factor, tolerance + allowed
    if argument.scale == "rate":
        wanted = np.broadcast_to(wanted.sum(axis=-2, keepdims=True), wanted.shape)
        tolerance = np.broadcast_to(tolerance.sum(axis=-1, keepdims=True), tolerance.shape)
    return _as_derived(argument, wanted), _of_all(argument, tolerance)


def _parts(trial: Trial, argument: Argument) -> Iterator[tuple[Any, Any]]:
    """The statement's inputs that depend on an argument, with their derivatives by it."""
    convention = trial.subject.convention
    symbols = symbols_of(convention.derivation)
    symbol = symbols[argument.stands_for]
    value = trial.env[symbol]
    factor = {
        "linear": 1.0,
        "log": value,
        "log2": value * np.log(2),
        "rate": value * trial.env[symbols["Delta"]] if argument.scale == "rate" else 0.0,
    }[argument.scale]
    yield symbol, factor * (trial.sizes.d_k**-0.5 if argument.scaled else 1.0)
    if argument.stands_for == "Delta":  # the gates depend on it too
        for x in convention.arguments:
            if x.scale == "rate":
                gate = symbols[x.stands_for]
                yield gate, trial.env[gate] * to_heads(trial.arguments[x.name], x.layout, gate, trial.sizes)


def _as_derived(argument: Argument, gradient: np.ndarray, of_all: bool = False) -> np.ndarray:
    """A gradient in what it says: one for all batches where the argument is (`of_all`: it is their sum already), and
    of a symmetric argument its symmetric part, since a kernel may read one triangle.
    """
    if not of_all:
        gradient = _of_all(argument, gradient)
    return (gradient + gradient.swapaxes(-1, -2)) / 2 if argument.layout.endswith("k k") else gradient


def _of_all(argument: Argument, values: np.ndarray) -> np.ndarray:
    """Summed over the batch where the argument has none."""
    if {"b", "n"} & set(argument.layout.split()):
        return values
    return np.broadcast_to(values.sum(axis=0, keepdims=True), values.shape)


def _what(found: np.ndarray, wanted: np.ndarray, ratio: np.ndarray, one_row: bool) -> str:
    """What is known of a wrong gradient, in words."""
    if ratio.max() <= 1:
        return ""
    if not found.any():
        return " (it is zero)"
    found, clear = np.broadcast_to(found, wanted.shape), abs(wanted) > 0.1 * abs(wanted).max()
    factors = found[clear] / wanted[clear]
    if factors.size > 1 and np.ptp(factors) < 1e-3 * abs(factors).max() and abs(factors.mean() - 1) > 1e-2:
        return f" (it is {factors.mean():.4g} times what it should be)"
    bad = np.flatnonzero((ratio > 1).any(axis=0))
    if one_row or len(bad) == ratio.shape[-1]:
        return ""
    return f" (rows {', '.join(map(str, bad[:4]))}{' ...' * (len(bad) > 4)} of {ratio.shape[-1]})"
