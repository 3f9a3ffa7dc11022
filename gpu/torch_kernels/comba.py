r"""Comba: one vector predicts, another one is written. S_t = gamma_t S_{t-1} + beta_t k_t (v_t - S_{t-1}^T p_t)^T.

Hu et al. 2025 (arXiv 2506.02475), o_t = S_t^T q_t; the state predicts before it decays. In a chunk, with the decays
Gamma between its tokens, b from its start, b^- the same up to the token before, and e to its end:

    U = T V - (T (b^- . P)) S,   T = (I + D_beta ((P K^T) . Gamma^sh))^-1 D_beta
    O = b . (Q S) + ((Q K^T) . Gamma) U,   S' = b_n S + (e . K)^T U
"""

from __future__ import annotations

from torch import Tensor

from gpu.torch_kernels.carry import add_product, carry
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.decays import decays
from gpu.torch_kernels.tokens import by_tokens, outer, read
from gpu.torch_kernels.triangular import unit_lower_inverse


@by_chunks("comba")
def chunkwise(
    q: Tensor,
    k: Tensor,
    p: Tensor,
    v: Tensor,
    log_gate: Tensor,
    beta: Tensor,
    state: Tensor,
    *,
    counts: tuple[int, ...],
) -> tuple[Tensor, Tensor]:
    """Comba on matrix products; memory and time are linear in the tokens."""
    decay = decays(log_gate)
    system = unit_lower_inverse((p @ k.mT) * decay.within_before * beta.unsqueeze(-1)) * beta.unsqueeze(-2)
    removing = (system * decay.before.mT) @ p
    output, written, last = carry(decay.total, k * decay.to_end, system @ v, q, state, counts, removing=removing)
    return add_product(output.mul_(decay.from_start), (q @ k.mT).mul_(decay.within), written), last


@by_tokens("comba")
def recurrent(
    q: Tensor, k: Tensor, p: Tensor, v: Tensor, log_gate: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Comba token by token, as in decoding."""
    error = v - read(state, p)
    write = outer(k, beta.unsqueeze(-1) * error)
    state = state * log_gate.exp()[..., None, None] + write
    return read(state, q), state
