r"""Linear attention, plain and normalised (Katharopoulos et al. 2020, arXiv 2006.16236).

S_t = S_{t-1} + k_t v_t^T,   o_t = S_t^T q_t;   normalised: z_t = z_{t-1} + k_t,   o_t = S_t^T q_t / (z_t^T q_t)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gpu.cupy_kernels.carried import written
from gpu.cupy_kernels.decays import NoDecay
from gpu.cupy_kernels.layouts import Layout

Array = Any


def linear_attention(
    q: Array, k: Array, v: Array, initial_state: Array | None = None, *, chunk_size: int = 64
) -> tuple[Array, Array]:
    """The output "b t g v" and the final state "b g k v".

    Args:
        q, k: queries and keys, "b t h k".
        v: values, "b t g v", g a multiple of h.
        initial_state: the state before the first token, "b g k v"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    layout = Layout.of(q, k, v, chunk_size)
    state = layout.state("initial_state", initial_state)
    output, state = written(NoDecay(), state, *layout.queries_keys_values(q, k, v))
    return layout.joined(output), state


def normalised_linear_attention(
    q: Array,
    k: Array,
    v: Array,
    initial_state: Array | None = None,
    initial_normaliser: Array | None = None,
    *,
    chunk_size: int = 64,
) -> tuple[Array, Array, Array]:
    """The output "b t g v", the final state "b g k v" and the final normaliser z, "b g k".

    The weights of a token add up to its denominator, which must not be zero: q and k are features, such as elu + 1.

    Args:
        q, k: features of queries and keys, "b t h k".
        v: values, "b t g v", g a multiple of h.
        initial_state, initial_normaliser: S and z before the first token, "b g k v" and "b g k"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    attention = partial(linear_attention, chunk_size=chunk_size)
    return with_normaliser(attention, q, k, v, initial_state, initial_normaliser)


def with_normaliser(
    attention: Callable[..., tuple[Array, Array]],
    q: Array,
    k: Array,
    v: Array,
    initial_state: Array | None = None,
    initial_normaliser: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Normalised linear attention by a plain one: the normaliser is the state of one more value, 1 for all tokens."""
    layout, width = Layout.of(q, k, v, chunk_size=1), v.shape[3]
    state = layout.state("initial_state", initial_state)
    z = layout.state("initial_normaliser", initial_normaliser, "b g k")
    values = layout.xp.concat([v, layout.xp.ones_like(v[..., :1])], axis=-1)
    sums, last = attention(q, k, values, layout.xp.concat([state, z[..., None]], axis=-1))
    return sums[..., :width] / sums[..., width:], last[..., :width], last[..., width]
