r"""MesaNet (von Oswald et al. 2025, arXiv 2506.05233): the regression that DeltaNet takes a step of, solved.

    G_t = gamma_t G_{t-1} + k_t v_t^T,   H_t = gamma_t H_{t-1} + k_t k_t^T,   o_t = G_t^T (H_t + Lambda_t)^-1 q_t

Each query is first replaced by the solution q*_t of its own system; the rest is decayed linear attention.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import device

from gpu.cupy_kernels.carried import written
from gpu.cupy_kernels.decays import TokenDecay
from gpu.cupy_kernels.layouts import Layout

Array = Any


def mesanet(
    q: Array,
    k: Array,
    v: Array,
    log_gate: Array,
    ridge: Array,
    initial_state: Array | None = None,
    initial_curvature: Array | None = None,
    *,
    chunk_size: int = 16,
) -> tuple[Array, Array, Array]:
    """The output "b t g v", the final state G "b g k v" and the final curvature H "b g k k".

    The systems of one chunk are solved together and take chunk_size matrices d_k x d_k for each value head.

    Args:
        q, k: queries and keys, "b t h k".
        v: values, "b t g v", g a multiple of h.
        log_gate: log gamma, at most zero, "b t g".
        ridge: the diagonal of Lambda, positive, "b t g k".
        initial_state, initial_curvature: G and H before the first token, "b g k v" and "b g k k"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    layout = Layout.of(q, k, v, chunk_size)
    gates = TokenDecay(layout.tokens("log_gate", log_gate, "b t g"))
    Q, K, V = layout.queries_keys_values(q, k, v)
    curvature = layout.state("initial_curvature", initial_curvature, "b g k k")
    # the rows that fill up the last chunk get Lambda = I, with which their system has a solution
    Lambda = layout.tokens("ridge", ridge, "b t g k", filling=1)
    solved, curvature = _solved(layout, gates, curvature, Q, K, Lambda)
    output, state = written(gates, layout.state("initial_state", initial_state), solved, K, V)
    return layout.joined(output), state, curvature


def _solved(layout: Layout, gates: TokenDecay, H: Array, Q: Array, K: Array, Lambda: Array) -> tuple[Array, Array]:
    """(H_t + Lambda_t)^-1 q_t for every token, (b, g, N, C, k), and the last H."""
    xp = layout.xp
    *_, size, width = K.shape
    ones, identity = xp.ones_like(K[..., :1]), xp.eye(width, dtype=K.dtype, device=device(K))
    between, from_start = gates.scores(ones, ones, "inclusive"), gates.from_start(ones, "inclusive")
    solved = []
    for c in range(K.shape[2]):
        keys = K[:, :, c, ...]
        products = xp.reshape(keys[..., :, None] * keys[..., None, :], (*keys.shape[:2], size, width * width))
        within = xp.reshape(between[:, :, c, ...] @ products, (*keys.shape, width))
        curvatures = from_start[:, :, c, ..., None] * H[:, :, None, ...] + within
        systems = curvatures + Lambda[:, :, c, ..., None] * identity
        solved.append(xp.linalg.solve(systems, Q[:, :, c, ..., None])[..., 0])
        H = curvatures[:, :, -1, ...]
    return xp.stack(solved, axis=2), H
