r"""GLA: one gate for each channel of the key. S_t = Diag(alpha_t) S_{t-1} + k_t v_t^T, o_t = S_t^T q_t.

Yang et al. 2023 (arXiv 2312.06635). In a chunk, with the products of gates b from its start and e to its end:

    O = (Q . b) S + A V,   A_ij = sum over channels of q_i k_j alpha_{j+1} ... alpha_i,   S' = b_n . S + (e . K)^T V

Nothing is divided by a product of gates: decays.py says how A comes from matrix products all the same.
"""

from __future__ import annotations

from torch import Tensor

from gpu.torch_kernels.carry import add_product, carry
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.decays import ChannelDecays
from gpu.torch_kernels.tokens import by_tokens, outer, read


@by_chunks("gla")
def chunkwise(
    q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, state: Tensor, *, counts: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """GLA on matrix products; memory and time are linear in the tokens."""
    decay = ChannelDecays(log_gate)
    output, _, last = carry(decay.total, k * decay.after, v, q * decay.now, state, counts)
    return add_product(output, decay.compare(q, k, diagonal=(q * k).sum(-1)), v), last


@by_tokens("gla")
def recurrent(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """GLA token by token, as in decoding."""
    state = state * log_gate.exp().unsqueeze(-1) + outer(k, v)
    return read(state, q), state
