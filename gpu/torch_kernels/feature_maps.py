r"""Normalised linear attention: a mean of the values. o_t = S_t^T q_t / (z_t^T q_t), z_t = z_{t-1} + k_t.

Katharopoulos et al. 2020 (arXiv 2006.16236); q and k are features, such as elu + 1 of queries and keys. The normaliser
is what linear attention makes of a value that is one everywhere: it is carried as one more column of the state.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu.torch_kernels import linear_attention
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.tokens import by_tokens


@by_chunks("feature_maps", fill={"q": 1.0})  # behind a sequence's end too there is something to divide by
def chunkwise(
    q: Tensor, k: Tensor, v: Tensor, state: Tensor, normaliser: Tensor, *, counts: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalised linear attention on matrix products; memory and time are linear in the tokens."""
    return _divided(*linear_attention.in_chunks(q, k, _with_ones(v), _joined(state, normaliser), counts=counts))


@by_tokens("feature_maps")
def recurrent(q: Tensor, k: Tensor, v: Tensor, state: Tensor, normaliser: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Normalised linear attention token by token, as in decoding."""
    return _divided(*linear_attention.of_token(q, k, _with_ones(v), _joined(state, normaliser)))


def _with_ones(values: Tensor) -> Tensor:
    return torch.cat([values, torch.ones_like(values[..., :1])], dim=-1)


def _joined(state: Tensor, normaliser: Tensor) -> Tensor:
    return torch.cat([state, normaliser.unsqueeze(-1)], dim=-1)


def _divided(sums: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return sums[..., :-1] / sums[..., -1:], state[..., :-1], state[..., -1]
