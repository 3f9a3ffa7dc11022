r"""DeltaNet: the state corrects what it predicts. S_t = S_{t-1} + eta_t k_t (v_t - S_{t-1}^T k_t)^T, o_t = S_t^T q_t.

Schlag, Irie & Schmidhuber 2021 (arXiv 2102.11174), in chunks by Yang et al. 2024 (arXiv 2406.06484), where eta is beta:

    U = T V - (T K) S,   T = (I + D_eta ((K K^T) . M^-))^-1 D_eta
    O = Q S + ((Q K^T) . M) U,   S' = S + K^T U
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu.torch_kernels.carry import add_product, carry
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.tokens import by_tokens, outer, read
from gpu.torch_kernels.triangular import unit_lower_inverse


@by_chunks("deltanet")
def chunkwise(
    q: Tensor, k: Tensor, v: Tensor, eta: Tensor, state: Tensor, *, counts: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """DeltaNet on matrix products; memory and time are linear in the tokens."""
    system = unit_lower_inverse((k @ k.mT) * eta.unsqueeze(-1)) * eta.unsqueeze(-2)
    unfaded = torch.ones_like(k[..., :1, :1])
    output, written, last = carry(unfaded, k, system @ v, q, state, counts, removing=system @ k)
    return add_product(output, (q @ k.mT).tril(), written), last


@by_tokens("deltanet")
def recurrent(q: Tensor, k: Tensor, v: Tensor, eta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """DeltaNet token by token, as in decoding."""
    error = v - read(state, k)
    state = state + outer(k, eta.unsqueeze(-1) * error)
    return read(state, q), state
