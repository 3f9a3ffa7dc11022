r"""DeltaFormer (Zhong et al. 2025, arXiv 2505.19488), not normalised: attention whose values correct each other.

    u_t = v_t - sum_{j<t} exp(k_j^T w_t) u_j,   o_t = sum_{j<=t} exp(k_j^T q_t) u_j

Inside a block U solves (I + exp(W K^T) . M^-) U = V less what earlier blocks have written. There is no state of finite
size: all keys and all U are kept, and no n x n matrix.
"""

from __future__ import annotations

from typing import Any

from gpu.cupy_kernels.blocks import at_or_below, masked, unit_lower_inverse
from gpu.cupy_kernels.layouts import Layout

Array = Any


def deltaformer(q: Array, k: Array, w: Array, v: Array, *, chunk_size: int = 128) -> Array:
    """The output, "b t g v". Memory grows like the number of tokens, time like its square.

    Args:
        q, k, w: queries, keys, and what asks for what was written before (often k), "b t h k".
        v: values, "b t g v", g a multiple of h.
        chunk_size: tokens in a block, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    layout = Layout.of(q, k, v, chunk_size)
    xp = layout.xp
    Q, K, V = layout.queries_keys_values(q, k, v)
    W = layout.tokens("w", w, "b t h k")
    mask, strict = at_or_below(chunk_size, Q), at_or_below(chunk_size, Q, "strict")
    blocks: list[Array] = []
    corrected: list[Array] = []
    for c in range(Q.shape[2]):
        queries, asking, values = Q[:, :, c, ...], W[:, :, c, ...], V[:, :, c, ...]
        past = 0 * values
        for earlier, written in enumerate(corrected):
            keys = xp.matrix_transpose(K[:, :, earlier, ...])
            values = values - xp.exp(asking @ keys) @ written
            past = past + xp.exp(queries @ keys) @ written
        keys = xp.matrix_transpose(K[:, :, c, ...])
        erased = xp.exp(masked(strict, asking @ keys, -xp.inf))
        corrected.append(unit_lower_inverse(erased) @ values)
        blocks.append(past + xp.exp(masked(mask, queries @ keys, -xp.inf)) @ corrected[-1])
    return layout.joined(xp.stack(blocks, axis=2))
