r"""Linear attention: the past is one matrix. S_t = S_{t-1} + k_t v_t^T, o_t = S_t^T q_t.

Katharopoulos et al. 2020 (arXiv 2006.16236), without feature map and normaliser (feature_maps.py has it). In a chunk:

    O = Q S + ((Q K^T) . M) V,   S' = S + K^T V
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu.torch_kernels.carry import add_product, carry
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.tokens import by_tokens, outer, read


def in_chunks(q: Tensor, k: Tensor, v: Tensor, state: Tensor, *, counts: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Linear attention on matrix products; memory and time are linear in the tokens."""
    output, _, last = carry(torch.ones_like(k[..., :1, :1]), k, v, q, state, counts)
    return add_product(output, (q @ k.mT).tril(), v), last


def of_token(q: Tensor, k: Tensor, v: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Linear attention token by token, as in decoding."""
    state = state + outer(k, v)
    return read(state, q), state


chunkwise, recurrent = by_chunks("linear_attention")(in_chunks), by_tokens("linear_attention")(of_token)
