r"""Gated DeltaNet: forget, then overwrite. S_t = gamma_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T.

Yang, Kautz & Hatamizadeh 2024 (arXiv 2412.06464), eq. 10; o_t = S_t^T q_t. In a chunk, with the decays
Gamma between its tokens, b from its start and e to its end:

    U = T (V - b . (K S)),   T = (I + D_beta ((K K^T) . Gamma^-))^-1 D_beta
    O = b . (Q S) + ((Q K^T) . Gamma) U,   S' = b_n S + (e . K)^T U
"""

from __future__ import annotations

from torch import Tensor

from gpu.torch_kernels.carry import add_product, carry
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.decays import decays
from gpu.torch_kernels.tokens import by_tokens, outer, read
from gpu.torch_kernels.triangular import unit_lower_inverse


@by_chunks("gated_deltanet")
def chunkwise(
    q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, beta: Tensor, state: Tensor, *, counts: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Gated DeltaNet on matrix products; memory and time are linear in the tokens."""
    decay = decays(log_gate)
    overlaps = (k @ k.mT).mul_(decay.within).mul_(beta.unsqueeze(-1))
    system = unit_lower_inverse(overlaps) * beta.unsqueeze(-2)
    removing = (system * decay.from_start.mT) @ k
    output, written, last = carry(decay.total, k * decay.to_end, system @ v, q, state, counts, removing=removing)
    return add_product(output.mul_(decay.from_start), (q @ k.mT).mul_(decay.within), written), last


@by_tokens("gated_deltanet")
def recurrent(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Gated DeltaNet token by token, as in decoding."""
    faded = state * log_gate.exp()[..., None, None]
    error = v - read(faded, k)
    state = faded + outer(k, beta.unsqueeze(-1) * error)
    return read(state, q), state
