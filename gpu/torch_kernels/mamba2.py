r"""Mamba-2 (SSD): decayed linear attention with the names of state space models. y_t = S_t^T C_t,

    S_t = a_t S_{t-1} + B_t (Delta_t x_t)^T,   a_t = exp(Delta_t A)

Dao & Gu 2024 (arXiv 2405.21060): queries are C, keys are B, values are Delta x, and log a is Delta A.
"""

from __future__ import annotations

from torch import Tensor

from gpu.torch_kernels import decay
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.tokens import by_tokens


@by_chunks("mamba2")
def chunkwise(
    C: Tensor, B: Tensor, x: Tensor, step: Tensor, log_a: Tensor, state: Tensor, *, counts: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Mamba-2 on matrix products; memory and time are linear in the tokens."""
    return decay.in_chunks(C, B, x * step.unsqueeze(-1), log_a, state, counts=counts)


@by_tokens("mamba2")
def recurrent(C: Tensor, B: Tensor, x: Tensor, step: Tensor, log_a: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Mamba-2 token by token, as in decoding."""
    return decay.of_token(C, B, x * step.unsqueeze(-1), log_a, state)
