r"""RWKV-7, token by token. Peng et al. 2025 (arXiv 2503.14456).

S_t = Diag(w_t) S_{t-1} - (kappa_t . a_t) (S_{t-1}^T kappa_t)^T + k_t v_t^T,   o_t = S_t^T r_t
"""

from __future__ import annotations

from torch import Tensor

from benchmarks.oracle_score.kernels.parts import Results, by_tokens, joined, outer, read


def rwkv7(
    r: Tensor, k: Tensor, kappa: Tensor, v: Tensor, g: Tensor, a: Tensor, initial_state: Tensor, fault: str = ""
) -> Results:
    """What kappa reads from the state before it fades is removed along kappa . a."""
    state, rows = initial_state, []
    if fault == "kappa detached":
        kappa = kappa.detach()
    for r_t, k_t, kappa_t, v_t, gate, a_t in by_tokens(r, k, kappa, v, g, a):
        faded = gate.exp().unsqueeze(-1) * state
        removed = read(faded if fault == "removed after it has faded" else state, kappa_t)
        along = kappa_t if fault == "removed without a" else kappa_t * a_t
        if fault == "removed along k":
            along = k_t * a_t
        before = read(state, r_t)
        kept = faded - outer(along, -removed if fault == "sign of what is removed" else removed)
        state = kept + outer(k_t * a_t if fault == "a in what is written" else k_t, v_t)
        rows.append((before if fault == "read before the write" else read(state, r_t)).unsqueeze(-2))
    return joined(rows, v), state
