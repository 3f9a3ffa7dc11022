r"""RWKV-7: fade each channel, remove along one key, write along another. o_t = S_t^T r_t,

    S_t = Diag(w_t) S_{t-1} - (kappa_t . a_t) (S_{t-1}^T kappa_t)^T + k_t v_t^T

Peng et al. 2025 (arXiv 2503.14456). In a chunk, with the products of gates b from its start, b^- the same up to the
token before, e to its end, A = kappa . a, and <X, Y> the inner products of rows through the gates between them:

    U = -T (<kappa, K>^- V + (b^- . kappa) S),   T = (I + <kappa, A>^-)^-1
    O = (b . R) S + <R, K> V + <R, A> U,   S' = b_n . S + (e . A)^T U + (e . K)^T V

The gates between are those after the column's token: up to the row's own for R, up to the one before for kappa.
"""

from __future__ import annotations

from torch import Tensor

from gpu.torch_kernels.carry import add_product, carry
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.decays import ChannelDecays
from gpu.torch_kernels.tokens import by_tokens, outer, read
from gpu.torch_kernels.triangular import unit_lower_inverse


@by_chunks("rwkv7")
def chunkwise(
    r: Tensor,
    k: Tensor,
    kappa: Tensor,
    v: Tensor,
    log_gate: Tensor,
    a: Tensor,
    state: Tensor,
    *,
    counts: tuple[int, ...],
) -> tuple[Tensor, Tensor]:
    """RWKV-7 on matrix products; memory and time are linear in the tokens."""
    decay = ChannelDecays(log_gate)
    removal = kappa * a
    system = unit_lower_inverse(decay.compare(kappa, removal, own=False))
    seen = decay.compare(kappa, k, own=False) @ v
    output, removed, last = carry(
        decay.total,
        removal * decay.after,
        -(system @ seen),
        r * decay.now,
        state,
        counts,
        removing=system @ (kappa * decay.before),
        added=(k * decay.after).mT @ v,
    )
    output = add_product(output, decay.compare(r, k, diagonal=(r * k).sum(-1)), v)
    return add_product(output, decay.compare(r, removal, diagonal=(r * removal).sum(-1)), removed), last


@by_tokens("rwkv7")
def recurrent(
    r: Tensor, k: Tensor, kappa: Tensor, v: Tensor, log_gate: Tensor, a: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """RWKV-7 token by token, as in decoding."""
    seen = read(state, kappa)
    state = state * log_gate.exp().unsqueeze(-1) - outer(kappa * a, seen) + outer(k, v)
    return read(state, r), state
