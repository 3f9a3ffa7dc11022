"""Whether a fault is larger than bfloat16's own error: computed, from the oracle's own tolerance and nothing else.

The faulty kernel takes bfloat16 inputs, computes in float32 and returns float32, so that what it is off by is the fault
alone. On the probes' inputs its error is held to the oracle's tolerance for bfloat16 inputs with sums in float32. What
is more than twice that tolerance stays above it whatever bfloat16 adds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnproof.implementation_cases import Case
from attnproof.oracle.conventions import Convention, convention_of
from attnproof.oracle.gradients import LOSSES, gradient_gaps
from attnproof.oracle.subject import Misbehaved, Subject
from attnproof.oracle.trials import Trial
from benchmarks.oracle_score.faults import CORES, Fault
from benchmarks.oracle_score.inputs import GATES, values_of
from benchmarks.oracle_score.kernels.frame import Kernel, kernel_of
from benchmarks.oracle_score.probes import BEHAVIOUR, Probe, probes_of
from derivations.language.errors import StatementError

LARGER = 2.0
STRONG = 6.0
"""With stronger gates a loss on the last state alone has gradients by the first one that float32 has no numbers for."""
WITHOUT_SIZE = ("mutation", "aliasing", "memory")
"""Kinds of fault that are there or not, whatever the precision."""


def over_tolerance(fault: Fault) -> float:
    """The largest error of a fault over bfloat16's tolerance; infinite for what isn't a matter of size."""
    if fault.kind in WITHOUT_SIZE:
        return np.inf
    return max((_on(fault, probe) for probe in probes_of(fault) if probe.case.tokens), default=0.0)


def _on(fault: Fault, probe: Probe) -> float:
    own = fault.kernel()
    convention = convention_of(own, fault.system, "fla")
    subject = Subject(_wide(own), convention, "torch", "bfloat16", "float32")
    try:
        if fault.kind in ("backward", "overflow") and not probe.offsets:
            return max(_of_values(fault, probe, subject), _of_gradients(probe, subject))
        return _of_values(fault, probe, subject)
    except Misbehaved:  # NaN, or it raised
        return np.inf


def _wide(kernel: Kernel) -> Kernel:
    """The kernel with all of its arguments in float32."""

    def wide(**given: Any) -> Any:
        tensors = {name: x.float() if _is_floating(x) else x for name, x in given.items()}
        return kernel(**tensors)

    return wide


def _is_floating(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def _of_values(fault: Fault, probe: Probe, subject: Subject) -> float:
    """Faulty against right on a probe's inputs, in tolerances of the row with the largest one.

    For packed sequences the tolerances are those of a single sequence that is as long.
    """
    given = {GATES.get(name, name): value for name, value in probe.arguments(fault.system, "bfloat16").items()}
    trial = Trial(subject, probe.case, shared={} if probe.offsets else given)
    right = _wide(kernel_of(fault.system, CORES[fault.system]))
    found, wanted = (_called(kernel, given, probe) for kernel in (subject.kernel, right))
    if fault.kind in BEHAVIOUR:  # what differs only now and then, or with other later tokens
        calls = [_called(subject.kernel, given, probe) for _ in range(6)]
        found = max(calls, key=lambda values: max(abs(a - b).max() for a, b in zip(values, wanted, strict=True)))
    if not all(np.isfinite(x).all() for x in found):
        return np.inf
    names = [name for name, _ in subject.convention.returns]
    gaps = [float(abs(a - b).max(initial=0.0)) for a, b in zip(found, wanted, strict=True)]
    return max(gap / float(trial.tolerances[name].max()) for name, gap in zip(names, gaps, strict=True))


def _called(kernel: Kernel, given: dict[str, np.ndarray], probe: Probe) -> list[np.ndarray]:
    tensors = {name: torch.tensor(value, dtype=torch.float32) for name, value in given.items()}
    if probe.strided:
        tensors = {name: x.repeat_interleave(2, -1)[..., ::2] for name, x in tensors.items()}
    return [x.double().numpy() for x in values_of(kernel(**tensors, **probe.options()))]


def _of_gradients(probe: Probe, subject: Subject) -> float:
    """The largest error of a gradient over its tolerance; zero where the statement's derivatives aren't known."""
    losses = LOSSES if probe.case.strongest < STRONG else LOSSES[:1]
    try:
        gaps = [gradient_gaps(subject, _set(probe, subject.convention), own) for own in losses]
    except StatementError:
        return 0.0
    return max((gap.ratio for own in gaps for gap in own.values()), default=0.0)


def _set(probe: Probe, convention: Convention) -> Case:
    """The probe's case with one head, as the oracle takes gradients, and with strengths set to what the probe has."""
    names = {x.stands_for for x in convention.arguments} & {"beta", "eta"}
    chosen = () if probe.strength is None else tuple((name, probe.strength) for name in names)
    return replace(probe.case, heads=1, groups=1, set_to=chosen)
