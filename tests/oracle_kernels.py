"""Kernels for the tests of the oracle: Gated DeltaNet as a loop over tokens, right or with one fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Kernel = Callable[..., Any]
BLOCK = 8


def gated_deltanet(fault: str = "") -> Kernel:
    """A kernel with flash-linear-attention's names: log gates, states `n g k v`; `fault` is one of FAULTS or ""."""

    def kernel(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor,
        beta: Tensor,
        scale: float = 1.0,
        initial_state: Tensor | None = None,
        output_final_state: bool = True,
    ) -> tuple[Any, Any]:
        heads = v.shape[2] // q.shape[2]
        wide = torch.promote_types(v.dtype, torch.float32)
        q, k = (x.repeat_interleave(heads, 2).to(wide) for x in (q, k))
        value, gate, strength = v.to(wide), g.to(wide), beta.to(wide)
        state = value.new_zeros(v.shape[0], v.shape[2], k.shape[-1], v.shape[-1])
        if initial_state is not None and fault != "initial state ignored":
            state = initial_state.to(wide)
        if fault == "initial state read transposed" and state.shape[-1] == state.shape[-2]:
            state = state.mT
        rows = []
        for t in range(v.shape[1]):
            if fault == "carry dropped" and t and t % BLOCK == 0:
                state = torch.zeros_like(state)
            state = _step(state, k[:, t], value[:, t], gate[:, t], strength[:, t], fault)
            read = q[:, t] * (k.shape[-1] ** -0.5 if fault == "scaled" else scale)
            rows.append((state * read[..., None]).sum(-2))
        return _returned(torch.stack(rows, 1) if rows else torch.zeros_like(value), state, v, fault)

    kernel.__qualname__ = f"gated_deltanet with {fault or 'no fault'}"
    return kernel


def _step(state: Tensor, k: Tensor, v: Tensor, gate: Tensor, beta: Tensor, fault: str) -> Tensor:
    fade = (gate if fault == "gate read as linear" else gate.exp())[..., None, None]
    predicts = state if fault == "decay after the error" else fade * state
    error = v - (predicts * k[..., None]).sum(-2)
    strength = torch.ones_like(beta) if fault == "no beta" else beta
    write = k[..., None] * (strength[..., None] * error)[..., None, :]
    if fault == "gate detached":
        fade = fade.detach()
    return fade * state - write if fault == "sign" else fade * state + write


def _returned(output: Tensor, state: Tensor, v: Tensor, fault: str) -> tuple[Any, Any]:
    if fault == "state returned transposed":
        state = state.mT
    if fault == "NaN":
        output = output / 0 * 0
    if fault == "zeros":
        output = 0 * output
    if fault == "last row zeroed":
        output = torch.cat([output[:, :-1], 0 * output[:, -1:]], 1)
    if fault == "writes into v":
        v.detach().mul_(2)
    return output.to(v.dtype), state


FAULTS = {
    "decay after the error": "it computes Comba with P = K",
    "no beta": "beta isn't used: it is one",
    "sign": "sign of",
    "carry dropped": "what is carried is dropped after every 8 tokens",
    "initial state ignored": "the initial S is ignored",
    "initial state read transposed": "the initial S is read transposed",
    "state returned transposed": "the final S is transposed",
    "scaled": "q is scaled by d_k^-1/2 too much",
    "gate read as linear": "g is read as a gate, and not as its logarithm",
    "NaN": "",
    "zeros": "the output is zero",
    "last row zeroed": "",
    "writes into v": "",
}
"""What the diagnosis must say of each; "" where there is no formula to name."""
