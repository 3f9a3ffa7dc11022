r"""PaTH without softmax: A_ij = q_i^T (I - beta_i w_i w_i^T) ... (I - beta_{j+1} w_{j+1} w_{j+1}^T) k_j, O = (A . M) V.

Yang et al. 2025 (arXiv 2505.16381). It is a recurrence, S_t = (I - beta_t w_t w_t^T) S_{t-1} + k_t v_t^T. In a chunk:

    U = -J (W S + ((W K^T) . M^-) V),   J = (I + D_beta ((W W^T) . M^-))^-1 D_beta
    O = Q S + ((Q K^T) . M) V + ((Q W^T) . M) U,   S' = S + K^T V + W^T U
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu.torch_kernels.carry import add_product, carry
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.tokens import by_tokens, outer, read
from gpu.torch_kernels.triangular import unit_lower_inverse


@by_chunks("path_attention")
def chunkwise(
    q: Tensor, k: Tensor, w: Tensor, v: Tensor, beta: Tensor, state: Tensor, *, counts: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """PaTH without softmax on matrix products; memory and time are linear in the tokens."""
    system = unit_lower_inverse((w @ w.mT) * beta.unsqueeze(-1)) * beta.unsqueeze(-2)
    unfaded, seen = torch.ones_like(k[..., :1, :1]), (w @ k.mT).tril(-1) @ v
    output, reflected, last = carry(unfaded, w, -(system @ seen), q, state, counts, removing=system @ w, added=k.mT @ v)
    return add_product(add_product(output, (q @ k.mT).tril(), v), (q @ w.mT).tril(), reflected), last


@by_tokens("path_attention")
def recurrent(q: Tensor, k: Tensor, w: Tensor, v: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """PaTH without softmax token by token, as in decoding."""
    seen = read(state, w)
    reflected = state - outer(w, beta.unsqueeze(-1) * seen)
    state = reflected + outer(k, v)
    return read(state, q), state
