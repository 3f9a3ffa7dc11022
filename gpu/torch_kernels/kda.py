r"""KDA, Kimi Delta Attention: fade each channel, then overwrite. o_t = S_t^T q_t,

    S_t = (I - beta_t k_t k_t^T) Diag(alpha_t) S_{t-1} + beta_t k_t v_t^T

Kimi Team 2025 (arXiv 2510.26692), eq. 1. In a chunk, with the products of gates b from its start and e to its end, and
A(X)_ij = sum over channels of x_i k_j alpha_{j+1} ... alpha_i:

    U = T V - (T (b . K)) S,   T = (I + D_beta (A(K) . M^-))^-1 D_beta
    O = (Q . b) S + (A(Q) . M) U,   S' = b_n . S + (e . K)^T U
"""

from __future__ import annotations

from torch import Tensor

from gpu.torch_kernels.carry import add_product, carry
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.decays import ChannelDecays
from gpu.torch_kernels.tokens import by_tokens, outer, read
from gpu.torch_kernels.triangular import unit_lower_inverse


@by_chunks("kda")
def chunkwise(
    q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, beta: Tensor, state: Tensor, *, counts: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """KDA on matrix products; memory and time are linear in the tokens."""
    decay = ChannelDecays(log_gate)
    system = unit_lower_inverse(decay.compare(k, k) * beta.unsqueeze(-1)) * beta.unsqueeze(-2)
    removing = system @ (k * decay.now)
    output, written, last = carry(
        decay.total, k * decay.after, system @ v, q * decay.now, state, counts, removing=removing
    )
    return add_product(output, decay.compare(q, k, diagonal=(q * k).sum(-1)), written), last


@by_tokens("kda")
def recurrent(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """KDA token by token, as in decoding."""
    faded = state * log_gate.exp().unsqueeze(-1)
    error = v - read(faded, k)
    state = faded + outer(k, beta.unsqueeze(-1) * error)
    return read(state, q), state
