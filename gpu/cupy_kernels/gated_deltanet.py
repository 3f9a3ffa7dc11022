r"""Gated DeltaNet and KDA: forget, then correct what is predicted, with one gate a token or one for each channel.

    S_t = D_t S_{t-1} + beta_t k_t (v_t - (D_t S_{t-1})^T k_t)^T,   o_t = S_t^T q_t

Yang, Kautz & Hatamizadeh 2024 (arXiv 2412.06464), eq. 10, with D_t = gamma_t I; Kimi Team 2025 (arXiv 2510.26692),
eq. 1, with D_t = Diag(alpha_t).
"""

from __future__ import annotations

from typing import Any

from gpu.cupy_kernels.carried import corrected
from gpu.cupy_kernels.decays import ChannelDecay, Decay, TokenDecay
from gpu.cupy_kernels.layouts import Layout

Array = Any


def gated_deltanet(
    q: Array,
    k: Array,
    v: Array,
    log_gate: Array,
    beta: Array,
    initial_state: Array | None = None,
    *,
    chunk_size: int = 64,
) -> tuple[Array, Array]:
    """The output "b t g v" and the final state "b g k v".

    Args:
        q, k: queries and keys, "b t h k".
        v: values, "b t g v", g a multiple of h.
        log_gate: log gamma, at most zero, "b t g".
        beta: how much of an error is corrected, "b t g".
        initial_state: the state before the first token, "b g k v"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    layout = Layout.of(q, k, v, chunk_size)
    return _forget_then_correct(
        layout, TokenDecay(layout.tokens("log_gate", log_gate, "b t g")), q, k, v, beta, initial_state
    )


def kda(
    q: Array,
    k: Array,
    v: Array,
    log_gate: Array,
    beta: Array,
    initial_state: Array | None = None,
    *,
    chunk_size: int = 64,
) -> tuple[Array, Array]:
    """As `gated_deltanet`, with log alpha, "b t g k", for the log gate."""
    layout = Layout.of(q, k, v, chunk_size)
    return _forget_then_correct(
        layout, ChannelDecay(layout.tokens("log_gate", log_gate, "b t g k")), q, k, v, beta, initial_state
    )


def _forget_then_correct(
    layout: Layout, gates: Decay, q: Array, k: Array, v: Array, beta: Array, initial_state: Array | None
) -> tuple[Array, Array]:
    Q, K, V = layout.queries_keys_values(q, k, v)
    erased = layout.tokens("beta", beta, "b t g") * K
    state = layout.state("initial_state", initial_state)
    output, state = corrected(gates, state, Q, K, erased, V, reach="strict")
    return layout.joined(output), state
