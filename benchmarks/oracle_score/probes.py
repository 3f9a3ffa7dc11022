"""Kernel against kernel: situations in which a fault must show, whatever the oracle makes of it.

A probe looks at what a kernel returns, at gradients, and at what a call does to memory. A fault of the table is one
only if some probe sees another thing than with the right kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnproof.implementation_cases import Case
from attnproof.oracle.calls import poisoned
from benchmarks.oracle_score.faults import CORES, Fault
from benchmarks.oracle_score.inputs import arguments_of, tensors, values_of
from benchmarks.oracle_score.kernels.frame import Kernel, kernel_of

Seen = dict[str, Tensor]
BEHAVIOUR = ("mutation", "aliasing", "memory", "nondeterminism", "causality")
"""Kinds of fault that show in how calls behave."""
CLEAR = 1e-4
"""By so much of the largest entry values must differ in float32."""
CASE = Case(37, batch=2)
CUT = 20
"""The token from which on others are put in, to see whether earlier rows stay."""


@dataclass(frozen=True)
class Probe:
    """A situation.

    Attributes:
        offsets: of packed sequences; none if empty.
        scale: what queries are multiplied by.
        strength: what strengths beta are set to, if anything.
        queries: a factor of queries and of what asks, for large scores.
        strided: whether arguments lie in memory in another order.
    """

    case: Case = CASE
    offsets: tuple[int, ...] = ()
    scale: float = 1.0
    strength: float | None = None
    queries: float = 1.0
    strided: bool = False

    def arguments(self, system: str, dtype: str = "float32") -> dict[str, np.ndarray]:
        """By the registry's names; states for each of the packed sequences."""
        own = arguments_of(system, replace(self.case, batch=1) if self.offsets else self.case, dtype)
        for name in ("q", "w"):
            own |= {name: own[name] * self.queries} if name in own else {}
        for name in ("beta", "eta"):
            own |= {name: np.full_like(own[name], self.strength)} if name in own and self.strength is not None else {}
        states = arguments_of(system, replace(self.case, batch=len(self.offsets) - 1), dtype) if self.offsets else {}
        return own | {name: value for name, value in states.items() if name.startswith("initial")}

    def options(self) -> dict[str, Any]:
        """Other keyword arguments."""
        offsets = {"cu_seqlens": torch.tensor(self.offsets)} if self.offsets else {}
        return {"scale": self.scale} | offsets


USUAL = (
    Probe(),
    Probe(replace(CASE, tokens=53, heads=2, key_width=5, value_width=12, batch=1)),
    Probe(replace(CASE, key_width=6, value_width=6, batch=1)),
    Probe(replace(CASE, strongest=0.1)),
    Probe(replace(CASE, strongest=20.0)),
    Probe(replace(CASE, with_state=False)),
)
BY_KIND: dict[str, tuple[Probe, ...]] = {
    "formula": (Probe(scale=0.5),),
    "varlen": (Probe(offsets=(0, 5, 5, 9, 37)),),
    "overflow": (Probe(queries=100.0), Probe(replace(CASE, strongest=40.0))),
    "backward": (Probe(replace(CASE, tokens=2)), Probe(strength=0.0), Probe(replace(CASE, heads=2))),
    "shape": (Probe(strided=True),),
    "aliasing": (Probe(replace(CASE, tokens=0)),),
}


Look = Callable[[Kernel, str, Probe], Seen]


def probes_of(fault: Fault) -> tuple[Probe, ...]:
    """The probes for a fault, the likeliest first."""
    return (*BY_KIND.get(fault.kind, ()), *USUAL)


def differs(fault: Fault) -> str:
    """Where a faulty kernel differs from the right one, in words; "" if it doesn't."""
    look = backward if fault.kind in ("backward", "overflow") else behaviour if fault.kind in BEHAVIOUR else forward
    for probe in probes_of(fault):
        wanted, found = _honest(look, fault.system, probe), look(fault.kernel(), fault.system, probe)
        name = next((x for x in wanted if apart(found[x], wanted[x]) > CLEAR), "")
        if name:
            return f"{name}, {probe}"
    return ""


@cache
def _honest(look: Look, system: str, probe: Probe) -> Seen:
    return look(kernel_of(system, CORES[system]), system, probe)


def apart(a: Tensor, b: Tensor) -> float:
    """The largest difference, in units of the largest entry of `b`; infinite where only one of them is finite."""
    if a.shape != b.shape:
        return math.inf
    a, b = a.double(), b.double()
    if not torch.equal(a.isfinite(), b.isfinite()):
        return math.inf
    gap, size = (a - b).nan_to_num(0, 0, 0).abs(), b.nan_to_num(0, 0, 0).abs()
    return float(gap.max() / size.max().clamp(min=1e-30)) if gap.numel() and gap.any() else 0.0


def _given(system: str, probe: Probe) -> dict[str, Tensor]:
    own = tensors(probe.arguments(system), torch.float32)
    return {name: x.repeat_interleave(2, -1)[..., ::2] for name, x in own.items()} if probe.strided else own


def forward(kernel: Kernel, system: str, probe: Probe) -> Seen:
    """Output and last states."""
    return _named(values_of(kernel(**_given(system, probe), **probe.options())))


def _named(values: list[Tensor]) -> Seen:
    return {f"returned {place}": x.detach().clone() for place, x in enumerate(values)}


def backward(kernel: Kernel, system: str, probe: Probe) -> Seen:
    """The same, and the gradients: of a random linear function of everything, of the states, of the output's sum."""
    given = {name: x.requires_grad_() for name, x in _given(system, probe).items()}
    seen: Seen = {}
    for loss in ("all", "states", "sum"):
        values = values_of(kernel(**given, **probe.options()))
        seen |= _named(values)
        total = values[0].sum() if loss == "sum" else sum((x * weight).sum() for x, weight in _weighted(values, loss))
        if isinstance(total, Tensor) and total.requires_grad:
            found = torch.autograd.grad(total, list(given.values()), allow_unused=True)
            pairs = zip(given.items(), found, strict=True)
            seen |= {f"d{name} of {loss}": torch.zeros_like(x) if d is None else d for (name, x), d in pairs}
    return seen


def _weighted(values: list[Tensor], loss: str) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    for place, x in enumerate(values):
        weight = torch.randn(x.shape, generator=generator)
        if loss == "all" or place:
            yield x, weight


def behaviour(kernel: Kernel, system: str, probe: Probe) -> Seen:
    """What calls do: to their inputs, to earlier results, in what memory, and whether they do it again."""
    given, options = _given(system, probe), probe.options()
    before = {name: x.clone() for name, x in given.items()}
    first = values_of(kernel(**given, **options))
    kept, seen = _named(first), {f"{name} after the call": x.clone() for name, x in given.items()}
    places = {_place(x) for x in given.values()}
    seen |= {f"{name} is an argument's memory": _flag(_place(x) in places) for name, x in _numbered(first)}
    again = [_named(values_of(kernel(**before, **options))) for _ in range(3)]
    seen |= {f"{name} is the same again": _flag(all(x[name].equal(kept[name]) for x in again)) for name in kept}
    other = tensors(replace(probe, case=replace(probe.case, seed=1)).arguments(system), torch.float32)
    later = _named(values_of(kernel(**_joined(before, other, probe.case.tokens), **options)))
    seen |= {f"{name} for other inputs": x for name, x in later.items()}
    seen["earlier rows stay"] = _flag(later["returned 0"][:, :CUT].equal(kept["returned 0"][:, :CUT]))
    seen |= {f"{name} after later calls": x.clone() for name, x in _numbered(first)}
    with poisoned("torch"):
        return seen | _named(values_of(kernel(**before, **options)))


def _flag(value: bool) -> Tensor:
    return torch.tensor(float(value))


def _place(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _numbered(values: list[Tensor]) -> list[tuple[str, Tensor]]:
    return [(f"returned {place}", x) for place, x in enumerate(values)]


def _joined(first: Seen, other: Seen, tokens: int) -> Seen:
    """The first tokens of one set of arguments, and the rest of another."""
    return {
        name: torch.cat([x[:, :CUT], other[name][:, CUT:]], 1) if x.ndim > 2 and x.shape[1] == tokens else x
        for name, x in first.items()
    }
