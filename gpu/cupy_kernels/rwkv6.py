r"""RWKV-6 (Peng et al. 2024, arXiv 2404.05892): gates for each channel, read before the write, the own token apart.

S_t = Diag(w_t) S_{t-1} + k_t v_t^T,   o_t = S_{t-1}^T r_t + ((u . k_t)^T r_t) v_t
"""

from __future__ import annotations

from typing import Any

from gpu.cupy_kernels.carried import written
from gpu.cupy_kernels.decays import ChannelDecay
from gpu.cupy_kernels.layouts import Layout

Array = Any


def rwkv6(
    r: Array,
    k: Array,
    v: Array,
    log_gate: Array,
    bonus: Array,
    initial_state: Array | None = None,
    *,
    chunk_size: int = 64,
) -> tuple[Array, Array]:
    """The output "b t g v" and the final state "b g k v".

    Args:
        r, k: receptances and keys, "b t h k".
        v: values, "b t g v", g a multiple of h.
        log_gate: log w, at most zero, "b t g k".
        bonus: u, what a token's own key counts, "g k".
        initial_state: the state before the first token, "b g k v"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    layout = Layout.of(r, k, v, chunk_size)
    layout.check("bonus", bonus, "g k")
    gates = ChannelDecay(layout.tokens("log_gate", log_gate, "b t g k"))
    R, K, V = layout.queries_keys_values(r, k, v)
    past, state = written(gates, layout.state("initial_state", initial_state), R, K, V, reach="before")
    own = layout.xp.sum(R * K * bonus[:, None, None, :], axis=-1)
    return layout.joined(past + own[..., None] * V), state
