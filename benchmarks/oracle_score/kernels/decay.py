r"""Decayed linear attention, by chunks: S' = b_n S + (e . K)^T V, O = b . (Q S) + ((Q K^T) . Gamma) V.

b are the products of the gates from the chunk's start, e those to its end. RetNet (Sun et al. 2023) goes token by token
here: each pair of channels turns, S_t = gamma_t R_t^T S_{t-1} + k_t v_t^T.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from benchmarks.oracle_score.kernels.frame import BLOCK
from benchmarks.oracle_score.kernels.parts import (
    Results,
    by_tokens,
    chunks,
    decays,
    gate_sums,
    joined,
    outer,
    past_only,
    read,
    to_end,
)


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor, initial_state: Tensor, fault: str = "") -> Results:
    """One gate for each token and head."""
    state, rows = initial_state, []
    gates = pad(g, (1, -1)) if fault == "gate of the token before" else g
    if fault == "gates summed up twice":
        gates = g.cumsum(-1)
    for here in chunks(v.shape[-2]):
        queries, keys, values, own = q[..., here, :], k[..., here, :], v[..., here, :], gates[..., here]
        from_start = own.cumsum(-1).exp()
        reads = from_start / own.exp() if fault == "the query's gate left out" else from_start
        rows.append(reads[..., None] * (queries @ state) + (queries @ keys.mT * _within(own, fault)) @ values)
        behind = to_end(own)
        total = from_start[..., -1]
        if fault == "fold of dg behind the last token" and here.start and values.shape[-2] < BLOCK:
            total = total.detach()
        if fault == "own write fades":
            behind = behind * own.exp()
        if fault == "keys not faded to the chunk's end":
            behind = torch.ones_like(behind)
        kept = torch.ones_like(total) if fault == "carry doesn't fade" else total
        state = kept[..., None, None] * state + (keys * behind[..., None]).mT @ values
    return joined(rows, v), state


def _within(gates: Tensor, fault: str) -> Tensor:
    """Gamma, the decays between the tokens of a chunk."""
    if fault == "exp before the mask":
        return masked_too_late(gates)
    if fault == "own write fades":
        return (gate_sums(gates) + gates[..., None, :]).exp().tril()
    if fault == "the query's gate left out":
        return (gate_sums(gates) - past_only(gates)).exp().tril()
    if fault == "no decay within a chunk":
        return torch.ones_like(gate_sums(gates)).tril()
    if fault in ("later gates change rounding", "decays from differences of sums"):
        sums = gates.cumsum(-1) - (gates.sum(-1, keepdim=True) if fault == "later gates change rounding" else 0)
        return (sums[..., :, None] - sums[..., None, :]).tril().exp().tril()
    return decays(gates)


def masked_too_late(gates: Tensor) -> Tensor:
    """Gamma, whose exponentials are taken above the diagonal too, where they may overflow: NaN in the backward pass."""
    sums = gate_sums(gates)
    causal = torch.ones(sums.shape[-2:], dtype=torch.bool, device=gates.device).tril()
    return (sums - sums.mT).exp().where(causal, 0.0)


def retnet(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, cosine: Tensor, sine: Tensor, initial_state: Tensor, fault: str = ""
) -> Results:
    """Token by token; the angles are those of pairs of channels (2 i, 2 i + 1)."""
    state, rows = initial_state, []
    turn = -sine if fault == "turns the other way" else sine
    for q_t, k_t, v_t, gate, c_t, s_t in by_tokens(q, k, v, g[..., None], cosine, turn):
        fade, write = gate.exp()[..., None], outer(k_t, v_t)
        if fault == "own write turns":
            state = fade * _turned(state + write, c_t, s_t)
        elif fault == "turned, and not faded":
            state = _turned(state, c_t, s_t) + write
        else:
            state = fade * _turned(state, c_t, s_t) + write
        rows.append(read(state, q_t).unsqueeze(-2))
    if fault == "the last state is turned once more" and rows:
        state = _turned(state, cosine[..., -1, :], sine[..., -1, :])
    return joined(rows, v), state


def _turned(state: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """R^T S, of a state `... k v`: pairs of its rows turned back by their angles."""
    even, odd = state[..., 0::2, :], state[..., 1::2, :]
    c, s = cosine[..., None], sine[..., None]
    return torch.stack([c * even + s * odd, c * odd - s * even], -2).flatten(-3, -2)
