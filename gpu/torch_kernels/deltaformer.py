r"""DeltaFormer: attention by exponentials of the scores, whose values correct each other.

    u_t = v_t - sum_{j<t} exp(k_j^T w_t) u_j,   o_t = sum_{j<=t} exp(k_j^T q_t) u_j

Zhong et al. 2025 (arXiv 2505.19488), without the normalisation; document 000 has w = k. It is (I + E) U = V with E =
exp(W K^T) . M^-, solved from one block of rows to the next: U_b = (I + E_bb)^-1 (V_b - E_b,<b U_<b). Backward, with the
cotangent dU of U, R = (I + E)^-T dU from the last block to the first: dV = R and dE = -R U^T.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpu.torch_kernels.blocks import bounds, by_blocks
from gpu.torch_kernels.triangular import unit_lower_inverse


@by_blocks("deltaformer")
def blockwise(q: Tensor, k: Tensor, w: Tensor, v: Tensor, *, block_size: int) -> Tensor:
    """DeltaFormer by blocks of rows; memory is linear in the tokens, time quadratic.

    Corrections grow where scores of w and k exceed log 2.
    """
    output: Tensor = CorrectedAttention.apply(q, k, w, v, block_size)
    return output


class CorrectedAttention(torch.autograd.Function):
    """The output, from which U is kept: exponentials are computed again."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, w: Tensor, v: Tensor, block_size: int) -> Tensor:
        corrected, output = torch.empty_like(v), torch.empty_like(v)
        for start, stop in bounds(v.shape[-2], block_size):
            erased = _weights(w, k, start, stop, -1)
            unsolved = v[..., start:stop, :] - erased[..., :start] @ corrected[..., :start, :]
            corrected[..., start:stop, :] = unit_lower_inverse(erased[..., start:]) @ unsolved
            output[..., start:stop, :] = _weights(q, k, start, stop, 0) @ corrected[..., :stop, :]
        ctx.save_for_backward(q, k, w, corrected)
        ctx.block_size = block_size
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        q, k, w, corrected = ctx.saved_tensors
        dq, dk, dw, dv = (torch.zeros_like(x) for x in (q, k, w, corrected))  # dv collects dU first
        for start, stop in reversed(bounds(q.shape[-2], ctx.block_size)):
            rows, seen = (..., slice(start, stop), slice(None)), (..., slice(stop), slice(None))
            read, erased = _weights(q, k, start, stop, 0), _weights(w, k, start, stop, -1)
            dv[seen] += read.mT @ cotangent[rows]
            dv[rows] = unit_lower_inverse(erased[..., start:]).mT @ dv[rows]
            dv[..., :start, :] -= erased[..., :start].mT @ dv[rows]
            read_scores = (cotangent[rows] @ corrected[seen].mT) * read
            erased_scores = -(dv[rows] @ corrected[seen].mT) * erased
            dq[rows], dw[rows] = read_scores @ k[seen], erased_scores @ k[seen]
            dk[seen] += read_scores.mT @ q[rows] + erased_scores.mT @ w[rows]
        return dq, dk, dw, dv, None


def _weights(x: Tensor, k: Tensor, start: int, stop: int, diagonal: int) -> Tensor:
    """exp(X K^T) in these rows, with the columns up to the diagonal (0) or below it (-1); `... rows stop`.

    Scores are masked before they are exponentiated: those of later keys may overflow.
    """
    scores = x[..., start:stop, :] @ k[..., :stop, :].mT
    return scores.tril(start + diagonal).exp().tril(start + diagonal)
