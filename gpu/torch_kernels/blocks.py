"""How attention without a state runs over its sequences: argument checks, heads, packed sequences, blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gpu.registry import Argument
from gpu.torch_kernels.arguments import lengths_of, one_dtype, sizes_of
from gpu.torch_kernels.public import published
from gpu.torch_kernels.signatures import ARGUMENTS

Attention = Callable[..., Tensor]
"""Of arguments `b g t ...` and a `block_size`: the output `b g t v`."""


BLOCK_SIZE = {"block_size": (128, "rows in a block.")}


def by_blocks(derivation: str) -> Callable[[Attention], Callable[..., Any]]:
    """Makes a function of one sequence, for all batches and heads, its public blockwise implementation."""
    arguments = ARGUMENTS[derivation]

    def run(function: Attention, tensors: Sequence[Tensor | None], chosen: dict[str, Any]) -> Tensor:
        return _by_sequences(function, arguments, tensors, **chosen)

    return lambda function: published(function, arguments, BLOCK_SIZE, run)


def _by_sequences(
    function: Attention,
    arguments: Sequence[Argument],
    tensors: Sequence[Tensor | None],
    *,
    block_size: int,
    cu_seqlens: Tensor | None,
) -> Tensor:
    sizes, dtype = sizes_of(arguments, tensors), one_dtype(arguments, tensors)
    if isinstance(block_size, bool) or not isinstance(block_size, int) or block_size < 1:
        raise ValueError(f"block_size is {block_size!r}: pass a positive number of rows, such as 128")
    pairs = [(a, x) for a, x in zip(arguments, tensors, strict=True) if x is not None]
    value = next(x for a, x in pairs if a.layout == "b t g v")
    given = [_by_head(x, a, sizes).to(dtype) for a, x in pairs]
    lengths = [sizes["t"]] if cu_seqlens is None else lengths_of(cu_seqlens, sizes["b"], sizes["t"])
    sequences = zip(*(x.split(lengths, dim=2) for x in given), strict=True)
    outputs = [function(*sequence, block_size=block_size) for sequence in sequences if sequence[0].shape[2]]
    return torch.cat(outputs, dim=2).transpose(1, 2).to(value.dtype) if outputs else torch.zeros_like(value)


def by_rows(rows: Callable[..., Tensor], q: Tensor, *others: Tensor, block_size: int) -> Tensor:
    """Attention by blocks of queries.

    Args:
        rows: of some queries and all else up to the last of them: their rows of the output. It is called again in the
            backward pass.
        q, others: `b g t ...`.
        block_size: how many queries.
    """
    keeps = torch.is_grad_enabled() and any(x.requires_grad for x in (q, *others))
    outputs = []
    for start, stop in bounds(q.shape[2], block_size):
        seen = (q[:, :, start:stop], *(x[:, :, :stop] for x in others))
        again = checkpoint(rows, *seen, use_reentrant=False, preserve_rng_state=False) if keeps else rows(*seen)
        outputs.append(again)
    return torch.cat(outputs, dim=2)


def bounds(tokens: int, block_size: int) -> list[tuple[int, int]]:
    """Where blocks begin and end."""
    return [(start, min(start + block_size, tokens)) for start in range(0, tokens, block_size)]


def _by_head(x: Tensor, argument: Argument, sizes: dict[str, int]) -> Tensor:
    """`b g t ...` from `b t g ...`, or from `b t h ...` with each head repeated."""
    x = x.transpose(1, 2)
    groups = sizes["g"] // sizes["h"] if "h" in argument.layout.split() else 1
    return x if groups == 1 else x.repeat_interleave(groups, dim=1)
