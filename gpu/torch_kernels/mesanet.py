r"""MesaNet: the state is the regression that DeltaNet takes a step of, solved anew for each query.

    G_t = gamma_t G_{t-1} + k_t v_t^T,   H_t = gamma_t H_{t-1} + k_t k_t^T,   o_t = G_t^T (H_t + Lambda_t)^-1 q_t

von Oswald et al. 2025 (arXiv 2506.05233), document 000, eq. (36). With x_t = (H_t + Lambda_t)^-1 q_t in the place of
q_t it is decayed linear attention. The systems are solved by Cholesky factors, d_k^3 operations for each token, or by
conjugate gradients, which need no H_t: in a chunk their products with rows X are

    b . (X H) + ((X K^T) . Gamma) K + Lambda . X
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpu.torch_kernels.carry import carry_sums
from gpu.torch_kernels.chunks import by_chunks
from gpu.torch_kernels.decays import Decays, decays
from gpu.torch_kernels.tokens import by_tokens, outer, read

Results = tuple[Tensor, Tensor, Tensor]
Solver = Callable[..., Tensor]
"""Of queries, keys, Lambda, the decays and H before the chunk: the solutions, `... chunk k`."""
FILL = {"ridge": 1.0, "q": 1.0}
"""Behind a sequence's end Lambda and q are one, so that there too the systems have a solution, and not zero."""
STEPS = (None, "for each system, 2 d_k where None: d_k solve it in exact numbers. The error falls with each.")


@by_chunks("mesanet", FILL)
def chunkwise(*tensors: Tensor, counts: tuple[int, ...]) -> Results:
    """MesaNet by Cholesky factors, the rest on matrix products; memory and time are linear in the tokens."""
    return _in_chunks(by_cholesky, *tensors, counts=counts)


@by_chunks("mesanet", FILL, steps=STEPS)
def conjugate_gradients(*tensors: Tensor, counts: tuple[int, ...], steps: int | None) -> Results:
    """MesaNet by conjugate gradients, all on matrix products; memory and time are linear in the tokens."""
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}: pass at least one step of conjugate gradients")
    return _in_chunks(by_conjugate_gradients, *tensors, counts=counts, steps=steps)


@by_tokens("mesanet")
def recurrent(
    q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, ridge: Tensor, state: Tensor, curvature: Tensor
) -> Results:
    """MesaNet token by token by Cholesky factors, as in decoding."""
    gate = log_gate.exp()[..., None, None]
    state, curvature = gate * state + outer(k, v), gate * curvature + outer(k, k)
    return read(state, _solution(curvature, ridge, q)), state, curvature


def _in_chunks(
    solve: Solver,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_gate: Tensor,
    ridge: Tensor,
    state: Tensor,
    curvature: Tensor,
    *,
    counts: tuple[int, ...],
    **options: Any,
) -> Results:
    decay, widths = decays(log_gate), [v.shape[-1], k.shape[-1]]
    added = (k * decay.to_end).mT @ torch.cat([v, k], dim=-1)
    before, last = carry_sums(decay.total, added, torch.cat([state, curvature], dim=-1), counts)
    G, H = before.split(widths, dim=-1)
    x = solve(q, k, ridge, decay, H, **options)
    output = (x * decay.from_start) @ G + ((x @ k.mT) * decay.within) @ v
    return output, *last.split(widths, dim=-1)


def by_cholesky(q: Tensor, k: Tensor, ridge: Tensor, decay: Decays, H: Tensor) -> Tensor:
    """The solutions one token after another, in all chunks at once."""
    solutions = []
    for token in range(q.shape[-2]):
        reached = decay.within[..., token, : token + 1].unsqueeze(-1)
        keys = k[..., : token + 1, :]
        here = decay.from_start[..., token, :, None] * H + (keys * reached).mT @ keys
        solutions.append(_solution(here, ridge[..., token, :], q[..., token, :]))
    return torch.stack(solutions, dim=-2)


def by_conjugate_gradients(
    q: Tensor, k: Tensor, ridge: Tensor, decay: Decays, H: Tensor, *, steps: int | None
) -> Tensor:
    """The solutions of all tokens at once, from zero (Hestenes & Stiefel 1952)."""
    solution: Tensor = ByConjugateGradients.apply(q, k, ridge, decay.within, decay.from_start, H, steps)
    return solution


class ByConjugateGradients(torch.autograd.Function):
    """x = A^-1 q. With y = A^-1 dx, the cotangent of q is y, and those of what A is made of are those of -y^T (A x).

    The steps themselves aren't differentiated: where a solution is reached early, they are 0 / 0.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, ridge: Tensor, within: Tensor, from_start: Tensor, H: Tensor, steps: int | None
    ) -> Tensor:
        solution = _conjugate_gradients(partial(_image, k, ridge, within, from_start, H), q, steps)
        ctx.save_for_backward(solution, k, ridge, within, from_start, H)
        ctx.steps = steps
        return solution

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        solution, k, ridge, within, from_start, H = ctx.saved_tensors
        parts = k, ridge, within, from_start, H
        of_query = _conjugate_gradients(partial(_image, k, ridge, within, from_start, H), cotangent, ctx.steps)
        with torch.enable_grad():
            own = tuple(x.detach().requires_grad_() for x in parts)
            image = partial(_image, rows=solution.detach())(*own)
            found = torch.autograd.grad(image, own, -of_query)
        return of_query, *found, None


def _image(k: Tensor, ridge: Tensor, within: Tensor, from_start: Tensor, H: Tensor, rows: Tensor) -> Tensor:
    """(H_t + Lambda_t) x_t for the row of each token."""
    return from_start * (rows @ H) + ((rows @ k.mT) * within) @ k + ridge * rows


def _conjugate_gradients(image_of: Callable[[Tensor], Tensor], right: Tensor, steps: int | None) -> Tensor:
    solution, residual, direction = torch.zeros_like(right), right, right
    energy = (residual * residual).sum(-1, keepdim=True)
    for _ in range(2 * right.shape[-1] if steps is None else steps):
        image = image_of(direction)
        length = _quotient(energy, (direction * image).sum(-1, keepdim=True))
        solution, residual = solution + length * direction, residual - length * image
        previous, energy = energy, (residual * residual).sum(-1, keepdim=True)
        direction = residual + _quotient(energy, previous) * direction
    return solution


def _solution(curvature: Tensor, ridge: Tensor, q: Tensor) -> Tensor:
    factor = torch.linalg.cholesky(curvature + torch.diag_embed(ridge))
    return torch.cholesky_solve(q.unsqueeze(-1), factor).squeeze(-1)


def _quotient(above: Tensor, below: Tensor) -> Tensor:
    """above / below; where that is 0 / 0, or overflows, the solution is reached or the query is zero: above itself."""
    quotient = above / below
    return above / below.masked_fill(quotient.isnan() | quotient.isinf(), 1.0)
