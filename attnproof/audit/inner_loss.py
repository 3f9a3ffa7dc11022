"""Subjects that descend a loss of their own: the step that they take, against automatic differentiation of the loss.

TTT-Linear and Titans predict v - k by a layer norm of k S, and their code has the derivative written out:

    L(S) = |LN(k S) . w + b - (v - k)|^2 / 2   (TTT, arXiv 2407.04620),   twice that (Titans, arXiv 2501.00663)

The statements of the catalogue have no layer norm, so that this is asked apart: after one token from a state S_0, is
what was subtracted from the (decayed) state the step size times the derivative of L? The tolerance is 12 times the
deviation of the same derivative in float32 from itself in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnproof.audit.subjects import Subject
from attnproof.oracle.findings import Finding

EPSILON = 1e-6
MARGIN, DRAWS, UNIT_ROUNDOFF = 12.0, 6, 2.0**-24
WIDTHS = (3, 8)
"""Two entries are normed to plus and minus one whatever the state is, so that their derivative is rounding alone."""


@dataclass(frozen=True, kw_only=True)
class InnerLoss(Subject):
    """The adapter makes a function of q, k, v, w, b, the step size and S_0 that returns the decayed S_0 less S_1, which
    is the step.

    Attributes:
        factor: of |...|^2 in the loss.
        printed: the step as the code has it, where it isn't the derivative: confirms what is said of it.
    """

    factor: float
    printed: Callable[[dict[str, Any], Any], Any] | None = None

    @property
    def confirmation(self) -> str:
        return "The step that is taken is what this expression gives, within rounding." if self.printed else ""

    def findings(self) -> Iterator[Finding]:
        """One check."""
        worst, seen = 0.0, 0.0
        for width in WIDTHS:
            ratio, sharpness = self.error_over_tolerance(width, self.derivative)
            worst, seen = max(worst, ratio), max(seen, sharpness)
            if ratio > 1:
                message = f"n = 1, d_k = d_v = {width}: the step is off by {ratio:.3g} tolerances"
                yield Finding("derivative of the loss", "refuted", ratio, seen, message)
                return
        yield Finding("derivative of the loss", "holds", worst, seen)

    def is_as_printed(self) -> bool:
        """Whether the step is what `printed` has."""
        printed = self.printed
        assert printed is not None
        return all(self.error_over_tolerance(width, lambda x: printed(x, EPSILON))[0] <= 1 for width in WIDTHS)

    def error_over_tolerance(self, width: int, right: Callable[[dict[str, Any]], Any]) -> tuple[float, float]:
        """Of the step of one token, and the smallest relative error that would have been seen."""
        inputs = drawn(width)
        exact = right({name: x.double() for name, x in inputs.items()})
        error = (self.kernel()(**inputs).double() - exact).abs()
        stored = UNIT_ROUNDOFF * inputs["state"].double().abs().max()  # the step is read off two states
        tolerance = rounding(inputs, right) + stored
        return float((error / tolerance).max()), float(tolerance / exact.abs().max())

    def derivative(self, inputs: dict[str, Any]) -> Any:
        """The step size times the derivative of the loss by the state, by automatic differentiation."""
        import torch

        state = inputs["state"].detach().clone().requires_grad_()
        values = inputs["k"] @ state
        normed = torch.nn.functional.layer_norm(values, values.shape[-1:], eps=EPSILON)
        missing = normed * inputs["w"] + inputs["b"] - (inputs["v"] - inputs["k"])
        loss = self.factor * (missing**2).sum()
        return inputs["step"] * torch.autograd.grad(loss, state)[0]


def drawn(width: int, seed: int = 0) -> dict[str, Any]:
    """One token: k, v (1, d), w, b (d), a step size and a state (d, d), in float32."""
    import torch

    rng = np.random.default_rng((seed, width))
    shapes = {"k": (1, width), "v": (1, width), "w": (width,), "b": (width,), "state": (width, width)}
    values = {name: rng.normal(size=shape) for name, shape in shapes.items()} | {"step": np.array(0.25)}
    return {name: torch.tensor(x, dtype=torch.float32) for name, x in values.items()}


def rounding(inputs: dict[str, Any], right: Callable[[dict[str, Any]], Any]) -> Any:
    """MARGIN deviations of the same expression in float32, over inputs nearby, one for all entries."""
    squares = 0.0
    rng = np.random.default_rng(1)
    for _ in range(DRAWS):
        near = {name: x * (1 + 2.0**-10 * rng.uniform(-1, 1)) for name, x in inputs.items()}
        exact = right({name: x.double() for name, x in near.items()})
        squares = squares + ((right(near).double() - exact) ** 2).mean() / DRAWS
    return MARGIN * squares**0.5


def precedence(inputs: dict[str, Any], epsilon: float) -> Any:
    """D g - sum(g) / (rstd D) - x sum(g x) / (rstd D), where the derivative has (D g - sum(g) - x sum(g x)) / (rstd D),
    times 2 and the step size: g is the derivative by the normed values x.
    """
    k, w = inputs["k"], inputs["w"]
    values, width = k @ inputs["state"], k.shape[-1]
    root = (values.var(-1, unbiased=False, keepdim=True) + epsilon).sqrt()
    normed = (values - values.mean(-1, keepdim=True)) / root
    g = w * (w * normed + inputs["b"] - (inputs["v"] - k))
    taken = width * g - g.sum(-1, keepdim=True) / (root * width)
    taken = taken - normed * (g * normed).sum(-1, keepdim=True) / (root * width)
    return 2 * inputs["step"] * k.mT @ taken


def titans(use_chunk: bool) -> Callable[[Any], Any]:
    """fla's Titans, with no decay: alpha is so small that 1 - alpha is one."""

    def adapt(function: Any) -> Any:
        def step(k: Any, v: Any, w: Any, b: Any, step: Any, state: Any) -> Any:
            import torch

            gate = torch.full((1, 1, 1, 1), 1e-30)
            k, v = k[None, :, None], v[None, :, None]
            _, last = function(
                k,
                k,
                v,
                w[None],
                b[None],
                step.reshape(1, 1, 1, 1),
                gate,
                gate + 0.5,
                eps=EPSILON,
                chunk_size=1,
                initial_state=state[None, None],
                output_final_state=True,
                use_chunk=use_chunk,
            )
            return state - last[0, 0]

        return step

    return adapt


def ttt(function: Any) -> Any:
    """fla's TTT-Linear, with the state's bias at zero."""

    def step(k: Any, v: Any, w: Any, b: Any, step: Any, state: Any) -> Any:
        k, v = k[None, :, None], v[None, :, None]
        _, last, _ = function(
            k.clone(),
            k,
            v,
            w[None],
            b[None],
            step.reshape(1, 1, 1, 1),
            eps=EPSILON,
            mini_batch_size=1,
            initial_state=state[None, None],
            output_final_state=True,
        )
        return state - last[0, 0]

    return step
