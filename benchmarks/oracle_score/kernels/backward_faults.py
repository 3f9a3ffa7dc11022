"""Autograd functions whose forward pass is right and whose backward pass isn't, each as it was found in public code."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class DividedByStrength(torch.autograd.Function):
    """beta x, whose gradient by beta is recovered from the product, dy . y / beta: zero where beta is zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(beta * x, beta)
        return beta * x

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:
        product, beta = ctx.saved_tensors
        by_beta = (cotangent * product).sum(-1, keepdim=True) / beta
        return cotangent * beta, by_beta.nan_to_num(0.0, 0.0, 0.0)


class OfOneBatch(torch.autograd.Function):
    """A parameter spread over batches, whose gradient is that of the first batch alone."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, batch: int) -> Tensor:
        return parameter.expand(batch, *parameter.shape)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, None]:
        return cotangent[0], None


class ReadsGradientByStrides(torch.autograd.Function):
    """The identity, whose backward pass reads the gradient as if it lay in memory row by row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        flat = torch.as_strided(cotangent, (cotangent.untyped_storage().nbytes() // cotangent.element_size(),), (1,))
        flat = flat[cotangent.storage_offset() :]
        missing = cotangent.numel() - flat.numel()
        filled = torch.cat([flat, flat.new_zeros(max(missing, 0))])
        return filled[: cotangent.numel()].reshape(cotangent.shape)
