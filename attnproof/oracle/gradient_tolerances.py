"""How far a gradient may be off in the order of a chunkwise backward pass, measured.

A backward pass has no chunkwise statement of its own whose rounding noise could be computed. Measured is how far a
chunkwise implementation in float32, in blocks as long as the kernel's, is from itself in float64, on inputs near those
of a trial. Errors are proportional to the unit roundoff, and a kernel whose inputs are bfloat16 rounds to it what one
of its passes hands to the next. It says how much rounding there is, and nothing about what is right. An implementation
that were wrong in one precision would make a tolerance so large that the comparison doesn't count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnproof.implementation_cases import UNIT_ROUNDOFF, called
from attnproof.oracle.arrays import on_host, usual_library
from attnproof.oracle.conventions import OUTPUT
from attnproof.oracle.statements import symbols_of
from attnproof.oracle.trials import Trial
from gpu.registry import Argument, Implementation, implementations
from numerics.head_layouts import from_one_head, to_heads
from numerics.proofs.tolerances import MARGIN, smoothed

DRAWS, NEAR = 6, 2.0**-10
"""So many inputs, that near: relatively, so that each rounds in another way."""
MEASURED_IN = "float32"
"""Narrower inputs would not do: the implementation computes in float32 from them."""


def measured(trial: Trial, cotangents: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """By the statement's name of each input: MARGIN times the root of the mean square of a row's error.

    Args:
        trial: of one head, whose inputs are taken.
        cotangents: of the output and of the states, in the layout of the statement.
    """
    known = implementations(trial.subject.convention.derivation, "torch")
    found = [x for x in known if x.name.endswith((".chunkwise", ".blockwise"))]
    if not found or usual_library() != "torch":
        return {}
    rng, scale = np.random.default_rng((trial.case.seed, 4)), trial.subject.unit_roundoff / UNIT_ROUNDOFF[MEASURED_IN]
    squares: dict[str, np.ndarray] = {}
    for _ in range(DRAWS):
        near = {
            x: v if isinstance(v, int) else v * (1 + NEAR * rng.uniform(-1, 1, v.shape)) for x, v in trial.env.items()
        }
        rounded, exact = (_gradients(found[0], near, cotangents, trial, dtype) for dtype in (MEASURED_IN, "float64"))
        for name, value in rounded.items():
            squares[name] = squares.get(name, 0) + ((value - exact[name]) ** 2).mean(axis=-1) / DRAWS
    return {name: MARGIN * scale * smoothed(np.sqrt(value)) for name, value in squares.items()}


def _gradients(
    implementation: Implementation,
    env: Mapping[Any, Any],
    cotangents: Mapping[str, np.ndarray],
    trial: Trial,
    dtype: str,
) -> dict[str, np.ndarray]:
    """The gradients by an implementation's arguments, in the statement's layout; those of gates by their logarithms."""
    import torch

    symbols = symbols_of(implementation.derivation)
    present = [x for x in implementation.arguments if symbols[x.stands_for] in env]
    inputs = [_tensor(x, env[symbols[x.stands_for]], symbols[x.stands_for], dtype) for x in present]
    blocks = {"chunk_size": _power_of_two(trial.case.chunk_size)} if "chunk_size" in implementation.options else {}
    given = {x.name: tensor for x, tensor in zip(present, inputs, strict=True)}
    returned = called(implementation, given, lambda tensor: tensor, **blocks)
    loss = torch.zeros((), dtype=torch.float64)
    for (name, layout), value in zip(implementation.returns, returned, strict=True):
        if name in cotangents:
            symbol = symbols[name] if name != OUTPUT else symbols["V"] if "V" in symbols else symbols["X"]
            loss = loss + (value.double() * torch.tensor(from_one_head(cotangents[name], layout, symbol))).sum()
    found = torch.autograd.grad(loss, inputs, allow_unused=True)
    return {
        x.stands_for: to_heads(
            on_host(torch.zeros_like(i) if g is None else g), x.layout, symbols[x.stands_for], trial.sizes
        )
        for x, i, g in zip(present, inputs, found, strict=True)
    }


def _power_of_two(size: int) -> int:
    """The smallest that isn't below: a longer block rounds more."""
    return 1 << max(size - 1, 0).bit_length()


def _tensor(argument: Argument, value: np.ndarray, symbol: Any, dtype: str) -> Any:
    import torch

    own = np.log(value) if argument.scale == "log" else value
    return torch.tensor(from_one_head(own, argument.layout, symbol), dtype=getattr(torch, dtype)).requires_grad_()
