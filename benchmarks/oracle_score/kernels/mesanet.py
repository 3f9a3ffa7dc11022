r"""MesaNet, token by token, with a linear system for each query. von Oswald et al. 2025 (arXiv 2506.05233).

G_t = gamma_t G_{t-1} + k_t v_t^T,   H_t = gamma_t H_{t-1} + k_t k_t^T,   o_t = G_t^T (H_t + Lambda_t)^-1 q_t
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.oracle_score.kernels.parts import Results, by_tokens, joined, outer, read


def mesanet(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    ridge: Tensor,
    initial_state: Tensor,
    initial_curvature: Tensor,
    fault: str = "",
) -> Results:
    """Both sums fade with the same gate."""
    state, curvature, rows = initial_state, initial_curvature, []
    if fault == "ridge detached":
        ridge = ridge.detach()
    for q_t, k_t, v_t, gate, ridge_t in by_tokens(q, k, v, g[..., None], ridge):
        fade = gate.exp()[..., None]
        state = fade * state + outer(k_t, v_t)
        curvature = (curvature if fault == "curvature doesn't fade" else fade * curvature) + outer(k_t, k_t)
        row = read(state, q_t if fault == "queries not solved for" else _solved(curvature, ridge_t, q_t, fault))
        rows.append(row.unsqueeze(-2))
    return joined(rows, v), state, curvature


def _solved(curvature: Tensor, ridge: Tensor, q: Tensor, fault: str) -> Tensor:
    """(H + Lambda)^-1 q."""
    if fault == "ridge squared":
        ridge = ridge * ridge
    if fault == "ridge of the first channel":
        ridge = ridge[..., :1].expand_as(ridge)
    system = curvature + torch.diag_embed(ridge)
    if fault == "two steps of conjugate gradients":
        return _conjugate_gradients(system, q, 2)
    return torch.linalg.solve(system, q.unsqueeze(-1)).squeeze(-1)


def _conjugate_gradients(system: Tensor, q: Tensor, steps: int) -> Tensor:
    solution, residual, direction = torch.zeros_like(q), q, q
    for _ in range(steps):
        image = read(system, direction)
        energy = (residual * residual).sum(-1, keepdim=True)
        length = energy / (direction * image).sum(-1, keepdim=True).clamp(min=1e-30)
        solution, residual = solution + length * direction, residual - length * image
        direction = residual + (residual * residual).sum(-1, keepdim=True) / energy.clamp(min=1e-30) * direction
    return solution
