"""Checks of what callers hand over, whose errors say what to change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from gpu.registry import Argument

WORDS = {
    "b": "batch",
    "n": "sequences",
    "t": "tokens",
    "h": "query heads",
    "g": "value heads",
    "k": "d_k",
    "v": "d_v",
    "p": "d_k / 2",
}
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def sizes_of(arguments: Sequence[Argument], tensors: Sequence[Tensor | None]) -> dict[str, int]:
    """The size of each letter of the layouts.

    Raises:
        ValueError: a tensor is missing, or has a wrong dtype, device or shape.
    """
    sizes: dict[str, int] = {}
    first = tensors[0]
    for argument, x in zip(arguments, tensors, strict=True):
        if x is None and argument.optional:
            continue
        if not isinstance(x, Tensor) or x.dtype not in DTYPES:
            found = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"{argument.name} is {found}: pass a tensor of float64, float32, bfloat16 or float16")
        if isinstance(first, Tensor) and x.device != first.device:
            raise ValueError(
                f"{argument.name} is on {x.device} and {arguments[0].name} on {first.device}: move one of them"
            )
        _take_up(sizes, argument, tuple(x.shape))
    if "h" in sizes and sizes.get("g", 0) % max(sizes["h"], 1):
        raise ValueError(f"there are {sizes['g']} value heads and {sizes['h']} query heads: pass a multiple of these")
    if "p" in sizes and 2 * sizes["p"] != sizes["k"]:
        raise ValueError(f"d_k is {sizes['k']}, and there are {sizes['p']} angles: pass d_k / 2 cosines and sines")
    return sizes


def _take_up(sizes: dict[str, int], argument: Argument, shape: tuple[int, ...]) -> None:
    letters = argument.layout.split()
    wanted = ", ".join(f"{WORDS[x]}{f' = {sizes[x]}' if x in sizes else ''}" for x in letters)
    if len(shape) != len(letters) or any(sizes.setdefault(x, n) != n for x, n in zip(letters, shape, strict=True)):
        raise ValueError(f"{argument.name} has the shape {shape}: pass ({wanted})")


def one_dtype(arguments: Sequence[Argument], tensors: Sequence[Tensor | None]) -> torch.dtype:
    """The dtype to compute in: float64 where queries, keys and values are, else float32.

    Raises:
        ValueError: they differ in dtype.
    """
    pairs = zip(arguments, tensors, strict=True)
    given = {a.name: x.dtype for a, x in pairs if x is not None and a.layout in ("b t h k", "b t g v")}
    if len(set(given.values())) > 1:
        raise ValueError(f"{', '.join(f'{name} is {dtype}' for name, dtype in given.items())}: cast them to one dtype")
    return torch.float64 if torch.float64 in given.values() else torch.float32


def checked_chunk_size(chunk_size: int) -> int:
    """The chunk size.

    Raises:
        ValueError: it isn't a power of two.
    """
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size!r}: pass a power of two, such as 64")
    if chunk_size & (chunk_size - 1):
        below = 1 << (chunk_size.bit_length() - 1)
        raise ValueError(f"chunk_size is {chunk_size}: pass a power of two, {below} or {2 * below}")
    return chunk_size


def lengths_of(cu_seqlens: Tensor, batch: int, tokens: int) -> list[int]:
    """The lengths of packed sequences, from where they begin and end: [0, 3, 3, 8] has lengths 3, 0 and 5.

    Raises:
        ValueError: it isn't an increasing list of integers from 0 to the number of tokens, or the batch isn't 1.
    """
    if not isinstance(cu_seqlens, Tensor) or cu_seqlens.dtype not in (torch.int32, torch.int64) or cu_seqlens.ndim != 1:
        raise ValueError("cu_seqlens isn't a one-dimensional tensor of int32 or int64: pass torch.tensor([0, ..., T])")
    if batch != 1:
        raise ValueError(f"cu_seqlens packs sequences along one row, and the batch is {batch}: pass tensors with b = 1")
    bounds = cu_seqlens.tolist()
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != tokens:
        raise ValueError(f"cu_seqlens is {bounds}: let it begin with 0 and end with the {tokens} tokens")
    lengths = [end - begin for begin, end in pairwise(bounds)]
    if min(lengths) < 0:
        raise ValueError(f"cu_seqlens is {bounds}, and decreases: each sequence begins where the one before it ends")
    return lengths
