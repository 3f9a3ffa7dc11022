"""What is tried with a kernel: named checks, each of which knows the inputs that it needs.

A check holds where every counted comparison stays within its tolerance; it is vacuous where no input was sharp enough
to count, and skipped where the kernel has nothing to try (no initial state, no gradients).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from attnproof.implementation_cases import FAMILIES, Case
from attnproof.oracle.conventions import OUTPUT
from attnproof.oracle.gradient_tolerances import measured
from attnproof.oracle.subject import Misbehaved, Subject, on_host
from attnproof.oracle.trials import Gap, Trial, carries, forms_of, is_gate, symbols_of
from derivations.language.adjoint import adjoint, cotangent_of, cotangent_of_output, inputs_of
from derivations.language.errors import StatementError
from derivations.language.forms import Recurrence
from gpu.registry import Argument
from numerics.algebras.contract import Algebra
from numerics.algebras.floats import numpy_float64
from numerics.backward import cotangents
from numerics.head_layouts import to_heads
from numerics.proofs.tolerances import tolerances_of_values

Verdict = Literal["holds", "refuted", "vacuous", "skipped"]


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: its name.
        ratio: the largest error over tolerance that counted.
        sharpness: the smallest relative error that would have been seen.
        message: what is wrong, or why nothing was tried.
        case: where it failed.
    """

    check: str
    verdict: Verdict
    ratio: float = 0.0
    sharpness: float = 0.0
    message: str = ""
    case: Case | None = None
    seconds: float = 0.0

    @property
    def id(self) -> str:
        return self.check

    def as_json(self) -> dict[str, Any]:
        """A flat record."""
        record: dict[str, Any] = {"check": self.check, "verdict": self.verdict, "error_over_tolerance": self.ratio}
        record |= {"smallest_fault_seen": self.sharpness, "message": self.message}
        return record | ({"case": vars(self.case)} if self.case else {})


Check = Callable[[Subject, Case], Finding]
Derivatives = dict[Any, tuple[np.ndarray, np.ndarray]]
"""By input of the statement: the derivative, and the tolerance of each of its rows."""


def compared(name: str, subject: Subject, cases: Iterator[Case] | list[Case]) -> Finding:
    """Output and states against the statement on each case, up to the first that fails."""
    ratio, sharpness = 0.0, 0.0
    for case in cases:
        try:
            trial = Trial(subject, case)
            gaps = [gap for gap in trial.gaps(subject.call(trial.arguments)) if gap.counts]
        except Misbehaved as error:
            return Finding(name, "refuted", np.inf, message=f"{described_case(case)}: {error}", case=case)
        worst = max(gaps, key=lambda gap: gap.ratio, default=None)
        if worst is None:
            continue
        ratio, sharpness = max(ratio, worst.ratio), max(sharpness, *(gap.sharpness for gap in gaps))
        if worst.ratio > 1:
            return Finding(name, "refuted", worst.ratio, sharpness, f"{described_case(case)}: {said(worst)}", case)
    return Finding(name, "holds" if sharpness else "vacuous", ratio, sharpness)


def said(gap: Gap) -> str:
    """A gap in words."""
    what = "the output" if gap.name == OUTPUT else f"the final {gap.name}"
    begins = f", and every token before {gap.first_token} is right" if gap.first_token else ""
    return f"{what} is off by {gap.ratio:.3g} tolerances at {gap.where}{begins}"


def described_case(case: Case) -> str:
    """A case in words."""
    state = "" if case.with_state else ", no initial state"
    gates = f", log gates down to {-case.strongest:g}" if case.strongest != 1 else ""
    keys = f", {case.family}" if case.family != "plain" else ""
    return f"n = {case.tokens}, d_k = {case.key_width}, d_v = {case.value_width}{state}{gates}{keys}"


def lengths(subject: Subject, case: Case) -> Finding:
    """One token, two, and around multiples of the chunk, with an initial state where the kernel takes one; once with
    d_k = d_v, so that a transposed state has the right shape.
    """
    c = case.chunk_size
    square = replace(case, tokens=3, key_width=4, value_width=4)
    cases = [replace(case, tokens=n) for n in (1, 2, c - 1, c, c + 1, 2 * c + 1, 3 * c + 5)]
    return compared("lengths", subject, [*cases[:2], square, *cases[2:]])


def without_a_state(subject: Subject, case: Case) -> Finding:
    """The same without an initial state."""
    if subject.convention.state is not None and not subject.convention.state.optional:
        return Finding("no initial state", "skipped", message="the kernel can't be called without one")
    c = case.chunk_size
    return compared("no initial state", subject, [replace(case, tokens=n, with_state=False) for n in (2, 2 * c + 3)])


def shapes(subject: Subject, case: Case) -> Finding:
    """d_k and d_v apart, one head, several batches, grouped heads where the layouts have them."""
    grouped = {letter for x in subject.convention.arguments for letter in x.layout.split()} >= {"h", "g"}
    cases = [
        replace(case, tokens=20, key_width=8, value_width=16, batch=3),
        replace(case, tokens=20, key_width=16, value_width=8, heads=3, groups=1),
    ]
    if grouped:
        cases.append(replace(case, tokens=20, heads=2, groups=2))
    return compared("shapes", subject, cases)


def keys(subject: Subject, case: Case) -> Finding:
    """Keys that are repeated, orthogonal or zero."""
    chosen = [family for family in FAMILIES if family != "large keys"]
    return compared("structured keys", subject, [replace(case, tokens=40, family=family) for family in chosen])


def gate_sweep(subject: Subject, case: Case) -> Finding:
    """Gates that let nearly everything through, and gates down to e^-20 a step: finite, and accurate."""
    if not any(is_gate(x, subject) for x in subject.convention.arguments):
        return Finding("gate sweep", "skipped", message="the statement has no gates")
    cases = [replace(case, tokens=2 * case.chunk_size + 3, strongest=x) for x in (1e-3, 0.1, 6.0, 20.0)]
    return compared("gate sweep", subject, cases)


def splits(subject: Subject, case: Case) -> Finding:
    """Two calls with the state handed over give what one call gives."""
    state, name = subject.convention.state, "split"
    if state is None or not carries(subject.convention):
        return Finding(name, "skipped", message="the kernel takes no initial state")
    case = replace(case, tokens=2 * case.chunk_size + 3)
    try:
        trial = Trial(subject, case)
        ratio = max(_split_at(cut, trial) for cut in (1, case.chunk_size - 1, case.chunk_size + 2))
    except Misbehaved as error:
        return Finding(name, "refuted", np.inf, message=f"{described_case(case)}: {error}", case=case)
    message = (
        "" if ratio <= 1 else f"the rest of a sequence is off by {ratio:.3g} tolerances where the state is handed over"
    )
    return Finding(name, "holds" if ratio <= 1 else "refuted", ratio, 0.0, message, case if message else None)


def _split_at(cut: int, trial: Trial) -> float:
    """The second part's error over tolerance: both parts round, so that twice the tolerance is allowed."""
    subject, arguments = trial.subject, trial.arguments
    layouts = {x.name: x.layout.split() for x in subject.convention.arguments}
    first, second = {}, {}
    for name, value in arguments.items():
        axis = layouts[name].index("t") if "t" in layouts[name] else None
        first[name] = value if axis is None else np.take(value, range(cut), axis)
        second[name] = value if axis is None else np.take(value, range(cut, trial.case.tokens), axis)
    carried = subject.call(first)
    for x in subject.convention.arguments:
        if x.layout.startswith("n "):
            second[x.name] = carried[x.stands_for]
    output = subject.call(second)[OUTPUT]
    layout = dict(subject.convention.returns)[OUTPUT].split()
    whole = np.concatenate([carried[OUTPUT], output], axis=layout.index("t"))
    found = trial.stated(OUTPUT, " ".join(layout), whole)
    error = abs(found - trial.values[OUTPUT]).max(axis=-1)
    return float((error / np.maximum(2 * trial.tolerances[OUTPUT], 1e-300)).max())


def causality(subject: Subject, case: Case) -> Finding:
    """Other tokens from one place on leave what was before it as it was, to the bit or within the tolerance."""
    case = replace(case, tokens=2 * case.chunk_size + 3)
    cut = case.chunk_size + 2
    try:
        trial = Trial(subject, case)
        other = Trial(subject, replace(case, seed=case.seed + 1))
        layouts = {x.name: x.layout.split() for x in subject.convention.arguments}
        changed = {
            name: _from(cut, value, other.arguments[name], layouts[name]) for name, value in trial.arguments.items()
        }
        before, after = (subject.call(given)[OUTPUT] for given in (trial.arguments, changed))
    except Misbehaved as error:
        return Finding("causality", "refuted", np.inf, message=f"{described_case(case)}: {error}", case=case)
    axis = dict(subject.convention.returns)[OUTPUT].split().index("t")
    gap = abs(np.take(before, range(cut), axis) - np.take(after, range(cut), axis))
    ratio = float(gap.max() / max(trial.tolerances[OUTPUT].max(), 1e-300))
    if ratio > 1:
        token = int(np.argwhere(gap)[0][axis])
        return Finding("causality", "refuted", ratio, 0.0, f"token {token} changes with the tokens from {cut} on", case)
    bits = "" if not gap.any() else f"earlier rows change by rounding (up to {gap.max():.2g})"
    return Finding("causality", "holds", ratio, message=bits)


def _from(cut: int, value: np.ndarray, other: np.ndarray, layout: list[str]) -> np.ndarray:
    if "t" not in layout:
        return value
    axis = layout.index("t")
    return np.concatenate(
        [np.take(x, r, axis) for x, r in ((value, range(cut)), (other, range(cut, value.shape[axis])))], axis
    )


def repeated(subject: Subject, case: Case) -> Finding:
    """The same answer twice, and arguments that lie in memory in another order."""
    case = replace(case, tokens=case.chunk_size + 3)
    try:
        trial = Trial(subject, case)
        first, second = (subject.call(trial.arguments) for _ in range(2))
        strided = subject.returned({name: _strided(subject.array(value)) for name, value in trial.arguments.items()})
        gaps = trial.gaps({name: on_host(x) for name, x in strided.items()})
    except Misbehaved as error:
        return Finding("repeated calls", "refuted", np.inf, message=str(error), case=case)
    differs = [name for name in first if not np.array_equal(first[name], second[name], equal_nan=True)]
    if differs:
        return Finding(
            "repeated calls", "refuted", np.inf, message=f"{differs[0]} is another one in a second call", case=case
        )
    worst = max(gaps, key=lambda gap: gap.ratio)
    message = "" if worst.ratio <= 1 else f"with arguments that aren't contiguous {said(worst)}"
    return Finding("repeated calls", "refuted" if message else "holds", worst.ratio, worst.sharpness, message)


def _strided(x: Any) -> Any:
    """The same values, every second one of an array that is twice as wide."""
    if hasattr(x, "repeat_interleave"):
        return x.repeat_interleave(2, dim=-1)[..., ::2]
    return np.repeat(x, 2, axis=-1)[..., ::2]


def gradients(subject: Subject, case: Case) -> Finding:
    """The gradient of every argument, for a loss on the output, on the last states, and on both."""
    name, form = "gradients", forms_of(subject.convention.derivation)[0]
    if subject.library != "torch" or not isinstance(form, Recurrence):
        return Finding(
            name, "skipped", message="gradients are taken through Torch, of statements that go token by token"
        )
    ratio = 0.0
    for losses in ("output and state", "output", "state"):
        own = replace(case, tokens=case.chunk_size + 3, heads=1, groups=1, batch=2)
        try:
            errors = _gradient_errors(subject, own, losses)
        except Misbehaved as error:
            return Finding(name, "refuted", np.inf, message=f"{described_case(own)}: {error}", case=own)
        except StatementError as error:
            return Finding(name, "skipped", message=str(error))
        ratio = max(ratio, *errors.values())
        wrong = {x: value for x, value in errors.items() if value > 1}
        if wrong:
            right = [x for x in errors if x not in wrong]
            listed = ", ".join(f"d{x} by {value:.3g} tolerances" for x, value in wrong.items())
            also = f"; {', '.join(f'd{x}' for x in right)} right" if right else ""
            return Finding(name, "refuted", ratio, 0.0, f"with a loss on the {losses}: {listed}{also}", own)
    return Finding(name, "holds", ratio)


def _gradient_errors(subject: Subject, case: Case, losses: str) -> dict[str, float]:
    import torch

    trial = Trial(subject, case)
    form = forms_of(subject.convention.derivation)[0]
    assert isinstance(form, Recurrence)
    rng = np.random.default_rng((case.seed, 2))
    tensors = {name: subject.array(value).requires_grad_() for name, value in trial.arguments.items()}
    returned = subject.returned(tensors)
    trial.gaps({name: on_host(x) for name, x in returned.items()})  # shapes first, and nothing that isn't finite
    given = {
        name: rng.normal(size=tuple(x.shape))
        * (losses == "output and state" or (name == OUTPUT) == (losses == "output"))
        for name, x in returned.items()
    }
    loss = sum((returned[name].double() * torch.tensor(value)).sum() for name, value in given.items())
    found = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True)
    stated = _stated_cotangents(trial, form, given)
    by_name = {str(x).removeprefix("d") if x != cotangent_of_output(form) else OUTPUT: v for x, v in stated.items()}
    chunkwise, derived = measured(trial, by_name), _derived(trial, form, trial.env | stated)
    return {
        x.name: _gradient_error(trial, x, gradient, derived, chunkwise.get(x.stands_for))
        for x, gradient in zip([a for a in subject.convention.arguments if a.name in tensors], found, strict=True)
    }


def _derived(trial: Trial, form: Recurrence, env: Mapping[Any, Any]) -> Derivatives:
    """From one derived backward pass: the derivative by every input, and how far each row of it may be off."""
    backward = adjoint(form)
    inputs = sorted({*inputs_of(form), *form.states}, key=str)

    def values(own: Mapping[Any, Any], algebra: Algebra) -> list[np.ndarray]:
        found = cotangents(backward, own, algebra)
        return [found[x] for x in inputs]

    rng, own = np.random.default_rng((trial.case.seed, 3)), trial.rounded_by_the_kernel()
    tolerances = tolerances_of_values(values, env, trial.subject.unit_roundoff, rng, own)
    return dict(zip(inputs, zip(values(env, numpy_float64()), tolerances, strict=True), strict=True))


def _stated_cotangents(trial: Trial, form: Recurrence, given: Mapping[str, np.ndarray]) -> dict[Any, np.ndarray]:
    layouts, symbols = dict(trial.subject.convention.returns), symbols_of(trial.subject.convention.derivation)
    zeros = {
        cotangent_of(x): np.zeros((len(trial.values[OUTPUT]), *trial.values[str(x)].shape[1:])) for x in form.states
    }
    own = {
        cotangent_of(symbols[name]): to_heads(value, layouts[name], symbols[name], trial.sizes)
        for name, value in given.items()
        if name != OUTPUT
    }
    output = trial.stated(OUTPUT, layouts[OUTPUT], given[OUTPUT])
    return zeros | own | {cotangent_of_output(form): output}


def _gradient_error(
    trial: Trial, argument: Argument, gradient: Any, derived: Derivatives, chunkwise: np.ndarray | None
) -> float:
    """The largest error over tolerance of a gradient's rows; `chunkwise` is tolerated besides, by logarithms."""
    symbol = symbols_of(trial.subject.convention.derivation)[argument.stands_for]
    if symbol not in derived:
        return 0.0
    whole, tolerance = derived[symbol]
    wanted = _as_derived(argument, whole)
    factor = _chain(trial, argument.scale, symbol) * (trial.sizes.d_k**-0.5 if argument.scaled else 1.0)
    value = np.zeros(trial.sizes.shape(argument.layout)) if gradient is None else on_host(gradient)
    if not np.isfinite(value).all():
        raise Misbehaved(f"d{argument.name} isn't finite")
    found = _as_derived(argument, to_heads(value, argument.layout, symbol, trial.sizes), of_all=True)
    scale = abs(factor) * np.ones_like(wanted)
    allowed = (2 * tolerance + trial.subject.unit_roundoff * abs(wanted).max(axis=-1)) * scale.max(axis=-1)
    if chunkwise is not None:
        by_logarithm = trial.env[symbol] if is_gate(argument, trial.subject) else 1.0
        allowed = np.maximum(allowed, chunkwise * (scale / by_logarithm).max(axis=-1))
    error = abs(found - wanted * factor).max(axis=-1)
    return float(np.where(error > 0, error / np.maximum(allowed, 1e-300), 0.0).max())


def _as_derived(argument: Argument, gradient: np.ndarray, of_all: bool = False) -> np.ndarray:
    """A gradient in what it says: one for all batches where the argument is (`of_all`: it is their sum already), and
    of a symmetric argument its symmetric part, since a kernel may read one triangle.
    """
    if not {"b", "n"} & set(argument.layout.split()) and not of_all:
        gradient = np.broadcast_to(gradient.sum(axis=0, keepdims=True), gradient.shape)
    return (gradient + gradient.swapaxes(-1, -2)) / 2 if argument.layout.endswith("k k") else gradient


def _chain(trial: Trial, scale: str, symbol: Any) -> Any:
    """The derivative of the statement's input by the argument."""
    return {"linear": 1.0, "log": trial.env[symbol], "log2": trial.env[symbol] * np.log(2)}[scale]


QUICK: tuple[Check, ...] = (lengths, without_a_state, gradients)
USUAL: tuple[Check, ...] = (
    lengths,
    without_a_state,
    shapes,
    keys,
    gate_sweep,
    splits,
    causality,
    repeated,
    gradients,
)
