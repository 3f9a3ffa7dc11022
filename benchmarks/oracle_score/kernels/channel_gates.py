r"""Gates for each channel of the key: GLA by chunks, RWKV-6 token by token.

GLA (Yang et al. 2023): S_t = Diag(alpha_t) S_{t-1} + k_t v_t^T, o_t = S_t^T q_t; in a chunk, scores are
A_ij = sum over channels of q_i k_j alpha_{j+1} ... alpha_i. RWKV-6 (Peng et al. 2024) reads before it writes:
o_t = S_{t-1}^T r_t + v_t (u . k_t)^T r_t.
"""

from __future__ import annotations

from torch import Tensor

from benchmarks.oracle_score.kernels.backward_faults import OfOneBatch
from benchmarks.oracle_score.kernels.parts import Results, by_tokens, channel_decays, chunks, joined, outer, read

CLAMP = -30.0


def scores(queries: Tensor, keys: Tensor, gates: Tensor, fault: str = "") -> Tensor:
    """A_ij, zero above the diagonal."""
    if fault in ("two exponentials with a common reference", "cumulated gates clamped"):
        sums = gates.cumsum(-2)
        if fault == "cumulated gates clamped":
            sums = sums.clamp(min=CLAMP)
        middle = sums[..., sums.shape[-2] // 2, None, :]
        return ((queries * (sums - middle).exp()) @ (keys * (middle - sums).exp()).mT).tril()
    return (queries.unsqueeze(-2) * keys.unsqueeze(-3) * channel_decays(gates)).sum(-1)


def gla(q: Tensor, k: Tensor, v: Tensor, g: Tensor, initial_state: Tensor, fault: str = "") -> Results:
    """By chunks."""
    state, rows = initial_state, []
    if fault == "one gate for all channels":
        g = g.mean(-1, keepdim=True).expand_as(g)
    for here in chunks(v.shape[-2]):
        queries, keys, values, gates = q[..., here, :], k[..., here, :], v[..., here, :], g[..., here, :]
        from_start, behind = gates.cumsum(-2).exp(), channel_decays(gates)[..., -1, :, :]
        attention = scores(queries, keys, gates, fault)
        if fault == "own write fades":
            attention, behind = scores(queries, keys * gates.exp(), gates), behind * gates.exp()
        if fault == "own token without the mask":
            attention = attention + (queries @ keys.mT).triu(1)
        if fault == "the query's gate left out":
            attention = attention + scores(queries * ((-gates).exp() - 1), keys, gates).tril(-1)
        reads = from_start / gates.exp() if fault == "the query's gate left out" else from_start
        rows.append((queries * reads) @ state + attention @ values)
        total = from_start[..., -1, :].unsqueeze(-1)
        if fault == "carry fades along the values" and state.shape[-1] == state.shape[-2]:
            total = total.mT
        state = total * state + (keys * behind).mT @ values
    return joined(rows, v), state


def rwkv6(r: Tensor, k: Tensor, v: Tensor, g: Tensor, bonus: Tensor, initial_state: Tensor, fault: str = "") -> Results:
    """Token by token."""
    state, rows = initial_state, []
    own = bonus[:1].expand_as(bonus) if fault == "bonus of the first head" else bonus
    if fault == "dbonus of the first batch alone":
        own = OfOneBatch.apply(bonus, v.shape[0])
    for r_t, k_t, v_t, gate in by_tokens(r, k, v, g):
        fade, write = gate.exp().unsqueeze(-1), outer(k_t, v_t)
        before = fade * state if fault == "fades before it is read" else state
        state = fade * state + write
        direct = ((1.0 if fault == "no bonus" else own) * r_t * k_t).sum(-1, keepdim=True) * v_t
        if fault == "read after the write":
            row = read(state, r_t)
        elif fault == "own token twice":
            row = read(state, r_t) + direct
        else:
            row = read(before, r_t) + direct
        rows.append(row.unsqueeze(-2))
    return joined(rows, v), state
