r"""PaTH without its softmax (Yang et al. 2025, arXiv 2505.16381): positions as products of I - beta w w^T.

A_ij = q_i^T (I - beta_i w_i w_i^T) ... (I - beta_{j+1} w_{j+1} w_{j+1}^T) k_j,   o_i = sum_{j<=i} A_ij v_j
S_t = (I - beta_t w_t w_t^T) S_{t-1} + k_t v_t^T,   o_t = S_t^T q_t
"""

from __future__ import annotations

from typing import Any

from gpu.cupy_kernels.carried import corrected
from gpu.cupy_kernels.decays import NoDecay
from gpu.cupy_kernels.layouts import Layout

Array = Any


def path_attention(
    q: Array,
    k: Array,
    w: Array,
    v: Array,
    beta: Array,
    initial_state: Array | None = None,
    *,
    chunk_size: int = 64,
) -> tuple[Array, Array]:
    """The output "b t g v" and the final state "b g k v".

    Args:
        q, k, w: queries, keys, and the directions of the factors, "b t h k".
        v: values, "b t g v", g a multiple of h.
        beta: strengths of the factors, "b t g".
        initial_state: the state before the first token, "b g k v"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    layout = Layout.of(q, k, v, chunk_size)
    Q, K, V = layout.queries_keys_values(q, k, v)
    W = layout.tokens("w", w, "b t h k")
    removed = layout.tokens("beta", beta, "b t g") * W
    state = layout.state("initial_state", initial_state)
    output, state = corrected(NoDecay(), state, Q, W, removed, 0, "strict", also_written=(K, V))
    return layout.joined(output), state
