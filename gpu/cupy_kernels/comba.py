r"""Comba (Hu et al. 2025, arXiv 2506.02475): one vector predicts, before the decay, and another one is written.

S_t = gamma_t S_{t-1} + beta_t k_t (v_t - S_{t-1}^T p_t)^T,   o_t = S_t^T q_t
"""

from __future__ import annotations

from typing import Any

from gpu.cupy_kernels.carried import corrected
from gpu.cupy_kernels.decays import TokenDecay
from gpu.cupy_kernels.layouts import Layout

Array = Any


def comba(
    q: Array,
    k: Array,
    p: Array,
    v: Array,
    log_gate: Array,
    beta: Array,
    initial_state: Array | None = None,
    *,
    chunk_size: int = 64,
) -> tuple[Array, Array]:
    """The output "b t g v" and the final state "b g k v".

    What is predicted may be fed back to the output, o_t = S_t^T (q_t - d p_t): pass q - d p for q.

    Args:
        q, k, p: queries, keys, and what predicts, "b t h k".
        v: values, "b t g v", g a multiple of h.
        log_gate: log gamma, at most zero, "b t g".
        beta: how much of an error is corrected, "b t g".
        initial_state: the state before the first token, "b g k v"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    layout = Layout.of(q, k, v, chunk_size)
    gates = TokenDecay(layout.tokens("log_gate", log_gate, "b t g"))
    Q, K, V = layout.queries_keys_values(q, k, v)
    P, erased = layout.tokens("p", p, "b t h k"), layout.tokens("beta", beta, "b t g") * K
    state = layout.state("initial_state", initial_state)
    output, state = corrected(gates, state, Q, P, erased, V, reach="before")
    return layout.joined(output), state
