r"""FoX, the forgetting transformer (Lin et al. 2025, arXiv 2503.02130): softmax attention whose scores fade.

    o_i = sum_{j<=i} a_ij v_j / sum_{j<=i} a_ij,   a_ij = exp(q_i^T k_j + g_{j+1} + ... + g_i)

Queries of one block meet the keys block by block, from their own back to the first, so that the gates in between add
up on the way. What has been summed up is kept at the scale of the largest score so far (Milakov & Gimelshein 2018,
arXiv 1805.02867).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from gpu.cupy_kernels.blocks import at_or_below, masked
from gpu.cupy_kernels.decays import sums_between, sums_from_start, sums_to_end
from gpu.cupy_kernels.layouts import Layout

Array = Any


def forgetting_attention(q: Array, k: Array, v: Array, log_gate: Array, *, chunk_size: int = 128) -> Array:
    """The output, "b t g v". Memory grows like the number of tokens, time like its square.

    Args:
        q, k: queries and keys, "b t h k"; scores are their inner products as they are.
        v: values, "b t g v", g a multiple of h.
        log_gate: log gamma, at most zero, "b t g".
        chunk_size: tokens in a block, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    layout = Layout.of(q, k, v, chunk_size)
    Q, K, V = layout.queries_keys_values(q, k, v)
    gates = layout.tokens("log_gate", log_gate, "b t g")
    xp = layout.xp
    within, from_start, to_end = sums_between(gates), sums_from_start(gates), xp.matrix_transpose(sums_to_end(gates))
    mask = at_or_below(chunk_size, Q)
    blocks = []
    for c in range(Q.shape[2]):
        scores = Q[:, :, c, ...] @ xp.matrix_transpose(K[:, :, c, ...]) + within[:, :, c, ...]
        mean = Mean.of(masked(mask, scores, -xp.inf), V[:, :, c, ...])
        gone = from_start[:, :, c, ...]
        for earlier in reversed(range(c)):
            scores = Q[:, :, c, ...] @ xp.matrix_transpose(K[:, :, earlier, ...])
            mean = mean.joined(Mean.of(scores + gone + to_end[:, :, earlier, ...], V[:, :, earlier, ...]))
            gone = gone + from_start[:, :, earlier, -1:, :]
        blocks.append(mean.sums / mean.weights)
    return layout.joined(xp.stack(blocks, axis=2))


@dataclass(frozen=True)
class Mean:
    """Sums of exp(score - largest) times values, and of these weights, for each row: (..., C, v), twice (..., C, 1)."""

    sums: Array
    weights: Array
    largest: Array

    @classmethod
    def of(cls, scores: Array, values: Array) -> Mean:
        """From scores (..., C, C'), of which each row has a finite one, and values (..., C', v)."""
        xp = array_namespace(scores)
        largest = xp.max(scores, axis=-1, keepdims=True)
        weights = xp.exp(scores - largest)
        return cls(weights @ values, xp.sum(weights, axis=-1, keepdims=True), largest)

    def joined(self, other: Mean) -> Mean:
        """The sums over the keys of both."""
        xp = array_namespace(self.sums)
        largest = xp.maximum(self.largest, other.largest)
        own, others = xp.exp(self.largest - largest), xp.exp(other.largest - largest)
        return Mean(own * self.sums + others * other.sums, own * self.weights + others * other.weights, largest)
