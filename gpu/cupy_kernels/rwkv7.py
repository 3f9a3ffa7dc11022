r"""RWKV-7 (Peng et al. 2025, arXiv 2503.14456): fade each channel, remove along one key, write along another.

S_t = Diag(w_t) S_{t-1} - (kappa_t . a_t) (S_{t-1}^T kappa_t)^T + k_t v_t^T,   o_t = S_t^T r_t
"""

from __future__ import annotations

from typing import Any

from gpu.cupy_kernels.carried import corrected
from gpu.cupy_kernels.decays import ChannelDecay
from gpu.cupy_kernels.layouts import Layout

Array = Any


def rwkv7(
    r: Array,
    k: Array,
    kappa: Array,
    v: Array,
    log_gate: Array,
    a: Array,
    initial_state: Array | None = None,
    *,
    chunk_size: int = 64,
) -> tuple[Array, Array]:
    """The output "b t g v" and the final state "b g k v".

    Args:
        r, k, kappa: receptances, what is written, and what is removed, "b t h k".
        v: values, "b t g v", g a multiple of h.
        log_gate: log w, at most zero, "b t g k".
        a: how much of each channel is removed, "b t g k".
        initial_state: the state before the first token, "b g k v"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    layout = Layout.of(r, k, v, chunk_size)
    gates = ChannelDecay(layout.tokens("log_gate", log_gate, "b t g k"))
    R, K, V = layout.queries_keys_values(r, k, v)
    removed = layout.tokens("kappa", kappa, "b t h k")
    direction = removed * layout.tokens("a", a, "b t g k")
    state = layout.state("initial_state", initial_state)
    output, state = corrected(gates, state, R, removed, direction, 0, "before", also_written=(K, V))
    return layout.joined(output), state
