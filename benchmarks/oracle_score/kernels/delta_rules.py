r"""DeltaNet, Gated DeltaNet, KDA and PaTH by chunks, each with a triangular system; Comba token by token.

    U = (I + D_beta (A_kk . strict))^-1 D_beta (V - B_k S),   O = B_q S + A_qk U,   S' = b_n S + E_k^T U

A_kk and A_qk are the keys' and queries' products with the decays between tokens, B_k and B_q keys and queries with the
decays from the chunk's start, E_k keys with those to its end. Yang et al. 2024 (arXiv 2406.06484, 2412.06464), Kimi
Team 2025 (2510.26692), Yang et al. 2025 (2505.16381), Hu et al. 2025 (2506.02475).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.oracle_score.kernels.backward_faults import DividedByStrength
from benchmarks.oracle_score.kernels.channel_gates import scores
from benchmarks.oracle_score.kernels.frame import BLOCK
from benchmarks.oracle_score.kernels.parts import (
    Results,
    by_tokens,
    channel_decays,
    chunks,
    decays,
    joined,
    lower_solve,
    outer,
    read,
    to_end,
)

SystemSolver = Callable[[Tensor, Tensor], Tensor]


def neumann(strict: Tensor, right: Tensor, powers: int) -> Tensor:
    """(I - L)(I + L^2)(I + L^4) ... B, right where L to the power 2^powers is zero."""
    power, solution = -strict, right
    for _ in range(powers):
        solution = solution + power @ solution
        power = power @ power
    return solution


NEUMANN = {"powers of the inverse end too early": 2, "all powers of the inverse": 4}
"""How many factors; four are enough for 16 tokens."""


def solver(fault: str) -> SystemSolver:
    """How (I + L) U = B is solved."""
    if fault == "first order of the inverse":
        return lambda strict, right: right - strict @ right
    if fault in NEUMANN:
        return lambda strict, right: neumann(strict, right, NEUMANN[fault])
    if fault == "system solved in bfloat16":
        return lambda strict, right: lower_solve(strict.bfloat16().to(right.dtype), right)
    if fault == "system transposed":
        return lambda strict, right: torch.linalg.solve_triangular(strict.mT, right, upper=True, unitriangular=True)
    return lower_solve


def deltanet(q: Tensor, k: Tensor, v: Tensor, eta: Tensor, initial_state: Tensor, fault: str = "") -> Results:
    """Without gates."""
    state, rows, solve = initial_state, [], solver(fault)
    for here in chunks(v.shape[-2]):
        queries, keys, values, strength = q[..., here, :], k[..., here, :], v[..., here, :], eta[..., here, None]
        overlaps = strength * (keys @ keys.mT).tril(-1)
        if fault == "beta missing in the system":
            overlaps = (keys @ keys.mT).tril(-1)
        if fault == "diagonal in the system":
            overlaps = strength * (keys @ keys.mT).tril()
            solve = lambda x, right: torch.linalg.solve(torch.eye(x.shape[-1]).to(x) + x, right)
        predicted = 0 if fault == "carry not predicted" else keys @ state
        written = solve(
            -overlaps if fault == "sign of the system" else overlaps, _wanted(values, predicted, strength, fault)
        )
        rows.append(queries @ state + (queries @ keys.mT).tril() @ written)
        state = state + keys.mT @ written
    return joined(rows, v), state


def _wanted(values: Tensor, predicted: Tensor | float, strength: Tensor, fault: str) -> Tensor:
    """The right side of DeltaNet's system: beta (v - S k)."""
    if fault == "beta missing in the system":
        return strength * values - predicted
    if fault == "beta missing on the right":
        return values - strength * predicted
    if fault == "sign of the system":
        return strength * (values + predicted)
    if fault == "dbeta divided by beta":
        written: Tensor = DividedByStrength.apply(values - predicted, strength)
        return written
    return strength * (values - predicted)


def gated_deltanet(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, initial_state: Tensor, fault: str = ""
) -> Results:
    """One gate for each token and head."""
    state, rows, solve = initial_state, [], solver(fault)
    g = g.cumsum(-1) if fault == "gates summed up twice" else g
    for here in chunks(v.shape[-2], v.shape[-2] if fault == "M in the place of Gamma" else BLOCK):
        queries, keys, values, strength = q[..., here, :], k[..., here, :], v[..., here, :], beta[..., here, None]
        gates = g[..., here]
        from_start, within = gates.cumsum(-1).exp()[..., None], decays(gates)
        before, between = from_start, within.tril(-1)
        if fault == "error before the decay":
            before, between = from_start / gates.exp()[..., None], within.tril(-1) / gates.exp()[..., None]
        if fault == "M in the place of Gamma":
            between = torch.ones_like(within).tril(-1)
        overlaps = strength * (keys @ keys.mT) * between
        predicted = strength * before * (keys @ state)
        written = solve(overlaps, (values if fault == "no beta on the right" else strength * values) - predicted)
        reads = queries @ keys.mT * (torch.ones_like(within).tril() if fault == "scores don't fade" else within)
        rows.append(from_start * (queries @ state) + reads @ written)
        total = from_start[..., -1, :, None]
        if fault == "fold of dg behind the last token" and here.start and values.shape[-2] < BLOCK:
            total = total.detach()
        state = total * (0 if fault == "carry dropped" else 1) * state + (keys * to_end(gates)[..., None]).mT @ written
    return joined(rows, v), state


def kda(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, initial_state: Tensor, fault: str = "") -> Results:
    """A gate for each channel of the key."""
    state, rows, solve = initial_state, [], solver(fault)
    for here in chunks(v.shape[-2]):
        queries, keys, values, strength = q[..., here, :], k[..., here, :], v[..., here, :], beta[..., here, None]
        gates = g[..., here, :]
        if fault == "one gate for all channels":
            gates = gates.mean(-1, keepdim=True).expand_as(gates)
        from_start, behind = gates.cumsum(-2).exp(), channel_decays(gates)[..., -1, :, :]
        predicting = keys / gates.exp() if fault == "error before the decay" else keys
        overlaps = strength * scores(predicting, keys, gates, fault).tril(-1)
        wanted = strength * (values - (predicting * from_start) @ state)
        written = solve(overlaps, wanted)
        rows.append((queries * from_start) @ state + scores(queries, keys, gates, fault) @ written)
        behind = torch.ones_like(behind) if fault == "keys not faded to the chunk's end" else behind
        state = from_start[..., -1, :].unsqueeze(-1) * state + (keys * behind).mT @ written
    return joined(rows, v), state


def path_attention(
    q: Tensor, k: Tensor, w: Tensor, v: Tensor, beta: Tensor, initial_state: Tensor, fault: str = ""
) -> Results:
    """No softmax: S_t = (I - beta_t w_t w_t^T) S_{t-1} + k_t v_t^T."""
    state, rows, solve = initial_state, [], solver(fault)
    for here in chunks(v.shape[-2]):
        queries, keys, values, turns = q[..., here, :], k[..., here, :], v[..., here, :], w[..., here, :]
        strength = beta[..., here, None]
        overlaps = strength * (turns @ turns.mT).tril(-1)
        seen = turns @ state + (turns @ keys.mT).tril(0 if fault == "own write reflected" else -1) @ values
        if fault == "keys reflect":
            overlaps, seen = strength * (keys @ keys.mT).tril(-1), keys @ state + (keys @ keys.mT).tril(-1) @ values
            turns = keys
        removed = solve(overlaps, seen if fault == "beta once too few" else strength * seen)
        if fault == "reflected the other way":
            removed = -removed
        rows.append(queries @ state + (queries @ keys.mT).tril() @ values - (queries @ turns.mT).tril() @ removed)
        state = state + keys.mT @ values - turns.mT @ removed
    return joined(rows, v), state


def comba(
    q: Tensor, k: Tensor, p: Tensor, v: Tensor, g: Tensor, beta: Tensor, initial_state: Tensor, fault: str = ""
) -> Results:
    """Token by token: it predicts with p before the state fades."""
    state, rows = initial_state, []
    if fault == "predicts with k":
        p = k
    if fault == "keys and predictors exchanged":
        k, p = p, k
    for q_t, k_t, p_t, v_t, gate, strength in by_tokens(q, k, p, v, g[..., None], beta[..., None]):
        fade = (gate if fault == "gate read as linear" else gate.exp())[..., None]
        predicting = fade * state if fault == "decays before the error" else state
        error = v_t - read(predicting, p_t)
        state = fade * state + outer(k_t, strength * (v_t + read(state, p_t) if fault == "sign" else error))
        rows.append(read(state, q_t).unsqueeze(-2))
    return joined(rows, v), state
