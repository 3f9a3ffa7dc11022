"""(I + N)^-1 for strictly lower triangular N, many at once.

With X = (I + N)^-1, dX = -X dN X, so that the cotangent of N is -X^T dX X^T, of which the strictly lower part counts.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class UnitLowerInverse(torch.autograd.Function):
    """The inverse, which is all that its derivative needs to keep."""

    @staticmethod
    def forward(ctx: Any, strictly_lower: Tensor) -> Tensor:
        identity = torch.eye(strictly_lower.shape[-1], dtype=strictly_lower.dtype, device=strictly_lower.device)
        right = identity.expand(strictly_lower.shape)
        inverse = torch.linalg.solve_triangular(strictly_lower, right, upper=False, unitriangular=True)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        return -(inverse.mT @ cotangent @ inverse.mT).tril(-1)


def unit_lower_inverse(strictly_lower: Tensor) -> Tensor:
    """(I + N)^-1.

    Args:
        strictly_lower: N, `... n n`. What stands on and above its diagonal isn't read.
    """
    inverse: Tensor = UnitLowerInverse.apply(strictly_lower)
    return inverse
