r"""DeltaNet (Schlag et al. 2021, arXiv 2102.11174; Yang et al. 2024, arXiv 2406.06484): the state corrects itself.

S_t = S_{t-1} + eta_t k_t (v_t - S_{t-1}^T k_t)^T,   o_t = S_t^T q_t
"""

from __future__ import annotations

from typing import Any

from gpu.cupy_kernels.carried import corrected
from gpu.cupy_kernels.decays import NoDecay
from gpu.cupy_kernels.layouts import Layout

Array = Any


def deltanet(
    q: Array, k: Array, v: Array, eta: Array, initial_state: Array | None = None, *, chunk_size: int = 64
) -> tuple[Array, Array]:
    """The output "b t g v" and the final state "b g k v".

    Args:
        q, k: queries and keys, "b t h k".
        v: values, "b t g v", g a multiple of h.
        eta: how much of an error is corrected, "b t g".
        initial_state: the state before the first token, "b g k v"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype.
    """
    layout = Layout.of(q, k, v, chunk_size)
    Q, K, V = layout.queries_keys_values(q, k, v)
    erased = layout.tokens("eta", eta, "b t g") * K
    output, state = corrected(NoDecay(), layout.state("initial_state", initial_state), Q, K, erased, V, reach="strict")
    return layout.joined(output), state
