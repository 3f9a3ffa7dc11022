r"""The two chunkwise forms that all recurrences here are: a state that fades and is written to, and one that corrects.

    written:    S_t = D_t S_{t-1} + k_t v_t^T
    corrected:  S_t = D_t S_{t-1} + e_t u_t^T + k_t w_t^T,   u_t = v_t - S_{t-1}^T D p_t

S is d_k x d_v here, D_t the gates. In one chunk with the state S before it, P and Q faded from its start,

    U = (I + (P E^T) . Gamma^-)^-1 (V - P S - ((P K^T) . Gamma^-) W)
    O = Q S + ((Q E^T) . Gamma) U + ((Q K^T) . Gamma) W

What doesn't need the state is computed for all chunks at once; the loop over chunks carries it.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from gpu.cupy_kernels.blocks import unit_lower_inverse
from gpu.cupy_kernels.decays import Decay, Reach

Array = Any


def written(
    decay: Decay, state: Array, Q: Array, K: Array, V: Array, reach: Reach = "inclusive"
) -> tuple[Array, Array]:
    """Outputs (b, g, N, C, v) and the last state.

    Args:
        decay: the gates.
        state: the state before the first chunk, (b, g, k, v).
        Q, K, V: queries, keys and values in chunks, (b, g, N, C, width).
        reach: "inclusive" where a token reads after its write, "before" where it reads before gate and write.
    """
    xp = array_namespace(Q)
    within, reads = decay.scores(Q, K, reach) @ V, decay.from_start(Q, reach)
    writes = xp.matrix_transpose(decay.to_end(K)) @ V
    outputs = []
    for c in range(Q.shape[2]):
        outputs.append(reads[:, :, c, ...] @ state)
        state = decay.carried(state, c) + writes[:, :, c, ...]
    return within + xp.stack(outputs, axis=2), state


def corrected(
    decay: Decay,
    state: Array,
    Q: Array,
    P: Array,
    E: Array,
    V: Array | float,
    reach: Reach,
    also_written: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Outputs (b, g, N, C, v) and the last state.

    Args:
        decay: the gates.
        state: the state before the first chunk, (b, g, k, v).
        Q: queries in chunks, (b, g, N, C, k), as all that follow.
        P: what a token predicts with.
        E: what its error is written under.
        V: what the prediction should have been, or the number 0.
        reach: "strict" where it predicts from the faded state, "before" from the one that hasn't faded.
        also_written: keys K and values W that are written beside the errors.
    """
    xp = array_namespace(Q)
    inverse, predicts = unit_lower_inverse(decay.scores(P, E, reach)), decay.from_start(P, reach)
    scores, reads = decay.scores(Q, E, "inclusive"), decay.from_start(Q, "inclusive")
    ends = xp.matrix_transpose(decay.to_end(E))
    targets: Array = V
    within, writes = 0, None
    if also_written is not None:
        K, W = also_written
        foreseen = decay.scores(P, K, reach) @ W
        targets = V - foreseen
        within, writes = decay.scores(Q, K, "inclusive") @ W, xp.matrix_transpose(decay.to_end(K)) @ W
    outputs = []
    for c in range(Q.shape[2]):
        errors = inverse[:, :, c, ...] @ (targets[:, :, c, ...] - predicts[:, :, c, ...] @ state)
        outputs.append(reads[:, :, c, ...] @ state + scores[:, :, c, ...] @ errors)
        state = decay.carried(state, c) + ends[:, :, c, ...] @ errors
        state = state if writes is None else state + writes[:, :, c, ...]
    return within + xp.stack(outputs, axis=2), state
