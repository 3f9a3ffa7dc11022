r"""Decayed linear attention, Mamba-2 and GLA: the state fades before each write, by one gate or one for each channel.

    S_t = D_t S_{t-1} + k_t v_t^T,   o_t = S_t^T q_t

D_t = gamma_t I in Sun et al. 2023 (arXiv 2307.08621) and Dao & Gu 2024 (arXiv 2405.21060), where q = C, k = B,
v = Delta x and gamma = a; D_t = Diag(alpha_t) in Yang et al. 2023 (arXiv 2312.06635).
"""

from __future__ import annotations

from typing import Any

from gpu.cupy_kernels.carried import written
from gpu.cupy_kernels.decays import ChannelDecay, Decay, TokenDecay
from gpu.cupy_kernels.layouts import Layout

Array = Any


def decayed_attention(
    q: Array, k: Array, v: Array, log_gate: Array, initial_state: Array | None = None, *, chunk_size: int = 64
) -> tuple[Array, Array]:
    """The output "b t g v" and the final state "b g k v".

    Args:
        q, k: queries and keys, "b t h k".
        v: values, "b t g v", g a multiple of h.
        log_gate: log gamma, at most zero, "b t g".
        initial_state: the state before the first token, "b g k v"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    layout = Layout.of(q, k, v, chunk_size)
    return _fading(layout, TokenDecay(layout.tokens("log_gate", log_gate, "b t g")), q, k, v, initial_state)


def gla(
    q: Array, k: Array, v: Array, log_gate: Array, initial_state: Array | None = None, *, chunk_size: int = 64
) -> tuple[Array, Array]:
    """As `decayed_attention`, with log alpha, "b t g k", for the log gate."""
    layout = Layout.of(q, k, v, chunk_size)
    return _fading(layout, ChannelDecay(layout.tokens("log_gate", log_gate, "b t g k")), q, k, v, initial_state)


def _fading(
    layout: Layout, gates: Decay, q: Array, k: Array, v: Array, initial_state: Array | None
) -> tuple[Array, Array]:
    state = layout.state("initial_state", initial_state)
    output, state = written(gates, state, *layout.queries_keys_values(q, k, v))
    return layout.joined(output), state


def mamba2(
    C: Array, B: Array, x: Array, step: Array, log_a: Array, initial_state: Array | None = None, *, chunk_size: int = 64
) -> tuple[Array, Array]:
    """The output y "b t g v" and the final state "b g k v" of Mamba-2, S_t = a_t S_{t-1} + B_t (Delta_t x_t)^T.

    Args:
        C, B: what reads and what writes, "b t h k".
        x: inputs, "b t g v", g a multiple of h.
        step: Delta, "b t g".
        log_a: log a = Delta A, at most zero, "b t g".
        initial_state: the state before the first token, "b g k v"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    Layout.of(C, B, x, chunk_size).check("step", step, "b t g")
    return decayed_attention(C, B, step[..., None] * x, log_a, initial_state, chunk_size=chunk_size)
