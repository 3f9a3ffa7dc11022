"""What other people's checks make of the same kernels, each as its users run it: one shape, random inputs, one call.

- `torch.testing.assert_close` at its defaults, of the output and the last states.
- A global ratio of root mean squares below 0.005, of output, last states and all gradients, as in the tests of
  flash-linear-attention.
- `torch.allclose` with rtol = atol = 1e-2, of the output, as on leaderboards.

The reference is the statement in float64, and for gradients autograd of the registry's implementation in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnproof.implementation_cases import Case, as_stated, named
from benchmarks.oracle_score.inputs import GATES, arguments_of, registered, stated, tensors, values_of
from benchmarks.oracle_score.kernels.frame import Kernel

SHAPE = Case(128, batch=2, heads=2, groups=1, key_width=32, value_width=32)
RATIO, CLOSE = 0.005, 1e-2


@dataclass(frozen=True)
class Compared:
    """What a kernel returned, beside what it should have.

    Attributes:
        output, states, gradients: pairs, found and wanted.
    """

    output: tuple[Tensor, Tensor]
    states: list[tuple[Tensor, Tensor]]
    gradients: list[tuple[Tensor, Tensor]]


def assert_close(x: Compared) -> bool:
    """`torch.testing.assert_close` of output and states."""
    try:
        for found, wanted in (x.output, *x.states):
            torch.testing.assert_close(found, wanted.to(found.dtype))
    except AssertionError:
        return False
    return True


def rms_ratio(x: Compared) -> bool:
    """The root mean square of all errors below 0.005 of that of the values, for each tensor by itself."""
    return all(_ratio(found.double(), wanted) < RATIO for found, wanted in (x.output, *x.states, *x.gradients))


def _ratio(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).square().mean().sqrt() / (wanted.square().mean().sqrt() + 1e-8))


def allclose(x: Compared) -> bool:
    """`torch.allclose` of the output at 1e-2."""
    found, wanted = x.output
    return torch.allclose(found.double(), wanted, rtol=CLOSE, atol=CLOSE)


OTHER_CHECKS: dict[str, Callable[[Compared], bool]] = {
    "assert_close": assert_close,
    "RMS ratio": rms_ratio,
    "allclose 1e-2": allclose,
}


def passed(kernel: Kernel, system: str, dtype: str, names: str = "kernel", seed: int = 0) -> dict[str, bool]:
    """Which of the checks a kernel passes; none if it raises.

    Args:
        names: "kernel" where gates are called g, "registry" where they have the registry's names.
    """
    try:
        compared = _compared(kernel, system, dtype, names == "kernel", seed)
    except Exception:
        return dict.fromkeys(OTHER_CHECKS, False)
    return {name: check(compared) for name, check in OTHER_CHECKS.items()}


def _compared(kernel: Kernel, system: str, dtype: str, short: bool, seed: int) -> Compared:
    case = replace(SHAPE, seed=seed)
    arguments = arguments_of(system, case, dtype)
    names = {name: GATES.get(name, name) if short else name for name in arguments}
    given = {names[x]: torch.tensor(v, dtype=getattr(torch, dtype)).requires_grad_() for x, v in arguments.items()}
    values = values_of(kernel(**given))
    wanted = stated(system, arguments, case)
    symbols, sizes = named(registered(system)), case.sizes(registered(system))
    found = [
        torch.tensor(as_stated(x.detach().double().numpy(), layout, symbols[name], sizes)).to(x.dtype)
        for x, (name, layout) in zip(values, registered(system).returns, strict=True)
    ]
    output, *states = zip(found, [torch.tensor(x) for x in wanted], strict=True)
    exact = {x: v.requires_grad_() for x, v in tensors(arguments, torch.float64).items()}
    back = {GATES.get(x, x): x for x in arguments}
    reference = registered(system).load()
    derived = _gradients(values_of(reference(**{back[x]: v for x, v in exact.items()})), list(exact.values()))
    pairs = zip(given, _gradients(values, list(given.values())), derived, strict=True)
    return Compared(output, states, [(_of_argument(name, a), _of_argument(name, b)) for name, a, b in pairs])


def _of_argument(name: str, gradient: Tensor) -> Tensor:
    """Of MesaNet's H, which is symmetric, the symmetric part: a kernel may read one triangle."""
    return (gradient + gradient.mT) / 2 if name == "initial_curvature" else gradient


def _gradients(values: list[Tensor], arguments: list[Tensor]) -> list[Tensor]:
    """Of one random linear function of everything that was returned."""
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(x.shape, generator=generator).to(torch.bfloat16) for x in values]
    reached = [(x, w.to(x.dtype)) for x, w in zip(values, weights, strict=True) if x.requires_grad]
    if not reached:
        return [torch.zeros_like(x) for x in arguments]
    outputs, own = zip(*reached, strict=True)
    found = torch.autograd.grad(outputs, arguments, own, allow_unused=True)
    return [torch.zeros_like(x) if d is None else d for x, d in zip(arguments, found, strict=True)]
