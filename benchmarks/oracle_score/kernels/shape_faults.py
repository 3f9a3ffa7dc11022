"""Heads, channels, tails, strides and precisions mistreated around a right kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.oracle_score.kernels.calls import Arguments, Kept, output_changed, planted, state_changed, value_name
from benchmarks.oracle_score.kernels.frame import BLOCK, Kernel

TF32 = 2.0**10


@planted("query heads in the wrong order")
def _heads_repeated(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    groups = given[value_name(given)].shape[2]
    own = {
        x: v.repeat(1, 1, groups // v.shape[2], 1)
        for x, v in given.items()
        if x in ("q", "k", "p", "w", "r", "kappa") and isinstance(v, Tensor) and v.shape[2] < groups
    }
    return kernel(**given | own)


@planted("strengths of the first head")
def _first_head(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return kernel(**given | {"beta": given["beta"][:, :, :1].expand_as(given["beta"])})


@planted("second tile of value channels is the first")
def _first_tile(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    tile = 8
    if given[value_name(given)].shape[-1] <= tile:
        return kernel(**given)
    return output_changed(kernel(**given), lambda x: torch.cat([x[..., :tile], x[..., :-tile]], -1))


@planted("arguments read as if contiguous")
def _ignores_strides(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    own = {x: _as_contiguous(v) for x, v in given.items() if isinstance(v, Tensor) and v.is_floating_point()}
    return kernel(**given | own)


def _as_contiguous(x: Tensor) -> Tensor:
    """What a kernel reads that takes the strides of a contiguous array for granted."""
    if x.is_contiguous():
        return x
    return torch.as_strided(x, x.shape, torch.empty(x.shape, device="meta").stride())


@planted("last row not written")
def _last_row(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return output_changed(kernel(**given), lambda x: torch.cat([x[:, :-1], torch.zeros_like(x[:, -1:])], 1))


@planted("rows behind the last full chunk not written")
def _tail(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    tokens = given[value_name(given)].shape[1]
    full = tokens // BLOCK * BLOCK
    keep = (torch.arange(tokens) < full)[:, None, None] | torch.tensor(full == 0)
    return output_changed(kernel(**given), lambda x: x.where(keep.to(x.device), 0.0))


@planted("products in TF32")
def _tf32(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    rounded = {x: _to_tf32(given[x]) for x in ("q", "k", "v") if x in given}
    return kernel(**given | rounded)


def _to_tf32(x: Tensor) -> Tensor:
    """x to 11 significant bits."""
    mantissa, exponent = torch.frexp(x.float())
    return torch.ldexp((mantissa * 2 * TF32).round() / (2 * TF32), exponent).to(x.dtype)


@planted("state handed on in bfloat16")
def _narrow_state(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return state_changed(kernel(**given), lambda x: x.bfloat16().to(x.dtype))
