r"""RetNet: linear attention whose state fades and turns. S_t = gamma_t R_t^T S_{t-1} + k_t v_t^T, o_t = S_t^T q_t.

Sun et al. 2023 (arXiv 2307.08621), eqs. 3 to 7. R_t turns each pair of channels (2i, 2i + 1) by an angle of its own. In
a chunk, with the decays Gamma between its tokens and the turns R_{j+1} ... R_i between them, the turns from its start P
and to its end E, and the decays b and e likewise:

    O = b . (P(Q) S) + (A . Gamma) V,   A_ij = k_j^T R_{j+1} ... R_i q_i,   S' = b_n P_n^T S + (e . E^T(K))^T V
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.decays import Turns, decays, turned
from gpu.torch_kernels.layout import steps
from gpu.torch_kernels.tokens import by_tokens, outer, read


@by_chunks("retnet", fill={"cosine": 1.0})  # nothing turns behind a sequence's end
def chunkwise(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_gate: Tensor,
    cosine: Tensor,
    sine: Tensor,
    state: Tensor,
    *,
    counts: tuple[int, ...],
) -> tuple[Tensor, Tensor]:
    """RetNet on matrix products; memory and time are linear in the tokens."""
    decay, turns = decays(log_gate), Turns(cosine, sine)
    added = (turns.apply(k, turns.after, False) * decay.to_end).mT @ v
    whole = turns.now[..., -1:, :]
    before = []
    for here, active in steps(counts):
        before.append(state[:active])
        faded = turns.apply(before[-1].mT, whole[here], False).mT * decay.total[here]
        state = torch.cat([faded + added[here], state[active:]])
    scores = turns.compare(q, k, diagonal=(q * k).sum(-1)) * decay.within
    queries = turns.apply(q, turns.now, True) * decay.from_start
    return queries @ torch.cat(before) + scores @ v, state


@by_tokens("retnet")
def recurrent(
    q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, cosine: Tensor, sine: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """RetNet token by token, as in decoding."""
    back = turned(state.mT, cosine.unsqueeze(-2), -sine.unsqueeze(-2)).mT
    state = back * log_gate.exp()[..., None, None] + outer(k, v)
    return read(state, q), state
