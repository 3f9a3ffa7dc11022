r"""RWKV-6: gates for each channel, the state read before the write, the own token with a bonus.

    S_t = Diag(w_t) S_{t-1} + k_t v_t^T,   o_t = S_{t-1}^T r_t + v_t ((u . k_t)^T r_t)

Peng et al. 2024 (arXiv 2404.05892), eqs. 19, 21 and 22. In a chunk, with the products of gates b^- from its start up to
the token before, and e to its end:

    O = (R . b^-) S + A V,   A_ij = sum over channels of r_i k_j w_{j+1} ... w_{i-1},  A_ii = r_i^T (u . k_i)
"""

from __future__ import annotations

from torch import Tensor

from gpu.torch_kernels.carry import add_product, carry
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.decays import ChannelDecays
from gpu.torch_kernels.tokens import by_tokens, outer, read


@by_chunks("rwkv6")
def chunkwise(
    r: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, bonus: Tensor, state: Tensor, *, counts: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """RWKV-6 on matrix products; memory and time are linear in the tokens."""
    decay = ChannelDecays(log_gate)
    output, _, last = carry(decay.total, k * decay.after, v, r * decay.before, state, counts)
    own = (r * k * bonus.unsqueeze(-2)).sum(-1)
    return add_product(output, decay.compare(r, k, diagonal=own, own=False), v), last


@by_tokens("rwkv6")
def recurrent(r: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, bonus: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """RWKV-6 token by token, as in decoding."""
    own = (r * k * bonus).sum(-1, keepdim=True)
    output = read(state, r) + own * v
    return output, state * log_gate.exp().unsqueeze(-1) + outer(k, v)
