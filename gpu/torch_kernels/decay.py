r"""Decayed linear attention: the state fades before each write. S_t = gamma_t S_{t-1} + k_t v_t^T, o_t = S_t^T q_t.

Mamba-2 (Dao & Gu 2024, arXiv 2405.21060) and, with one gamma for all tokens, RetNet without its turns (Sun et al. 2023,
arXiv 2307.08621). In a chunk, with the decays Gamma between its tokens, b from its start and e to its end:

    O = b . (Q S) + ((Q K^T) . Gamma) V,   S' = b_n S + (e . K)^T V
"""

from __future__ import annotations

from torch import Tensor

from gpu.torch_kernels.carry import add_product, carry
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.decays import decays
from gpu.torch_kernels.tokens import by_tokens, outer, read


def in_chunks(
    q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, state: Tensor, *, counts: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Decayed linear attention on matrix products; memory and time are linear in the tokens."""
    decay = decays(log_gate)
    output, _, last = carry(decay.total, k * decay.to_end, v, q, state, counts)
    return add_product(output.mul_(decay.from_start), (q @ k.mT).mul_(decay.within), v), last


def of_token(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Decayed linear attention token by token, as in decoding."""
    state = state * log_gate.exp()[..., None, None] + outer(k, v)
    return read(state, q), state


chunkwise, recurrent = by_chunks("decay")(in_chunks), by_tokens("decay")(of_token)
