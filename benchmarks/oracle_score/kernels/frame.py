"""How the kernels are called: named arguments `b t h k`, grouped heads, packed sequences, sums in float32 at least.

A core computes one system for sequences of one length. It gets tensors with heads first, `b g t k`, in float32 or
float64, and the states before the first token, and returns the output and the states after the last one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from gpu.registry import Argument
from gpu.torch_kernels.signatures import ARGUMENTS

Kernel = Callable[..., Any]
Core = Callable[..., tuple[Tensor, ...]]
BLOCK = 16
"""Tokens in a chunk of the kernels that go by chunks."""


def kernel_of(system: str, core: Core, fault: str = "") -> Kernel:
    """A core as a kernel in the layout of flash-linear-attention, with states `n g k v`.

    Args:
        system: the name of its derivation.
        core: takes the system's arguments by name, and `fault`.
        fault: what is wrong with it; "" for nothing.
    """
    arguments = [_named(x) for x in ARGUMENTS[system]]

    def kernel(*, scale: float = 1.0, cu_seqlens: Tensor | None = None, **given: Tensor | None) -> Any:
        value = next(given[x.name] for x in arguments if x.layout == "b t g v")
        assert value is not None
        offsets = None if cu_seqlens is None else [int(x) for x in cu_seqlens]
        found = [core(**own, fault=fault) for own in _sequences(arguments, given, value, offsets, scale)]
        output, *states = (torch.cat(x, axis) for x, axis in zip(zip(*found, strict=True), (2, 0, 0), strict=False))
        output = output.transpose(1, 2).to(value.dtype)
        return (output, *states) if states else output

    kernel.__qualname__ = kernel.__name__ = f"{system} with {fault or 'no fault'}"
    return signed(kernel, arguments)


def signed(kernel: Kernel, arguments: list[Argument]) -> Kernel:
    """The kernel with a signature that names its arguments."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [inspect.Parameter(x.name, keyword, default=None if x.optional else inspect._empty) for x in arguments]
    common = [inspect.Parameter("scale", keyword, default=1.0), inspect.Parameter("cu_seqlens", keyword, default=None)]
    kernel.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]
    return kernel


def _named(argument: Argument) -> Argument:
    return replace(argument, name="g") if argument.name in ("log_gate", "log_a") else argument


def _sequences(
    arguments: list[Argument], given: dict[str, Any], value: Tensor, offsets: list[int] | None, scale: float
) -> list[dict[str, Tensor]]:
    """The core's arguments: one set for the whole batch, or one for each packed sequence."""
    spans = [slice(None)] if offsets is None else [slice(*x) for x in pairwise(offsets)]
    heads = {x.name: _heads_first(x, given.get(x.name), value, scale) for x in arguments}
    wide = torch.promote_types(value.dtype, torch.float32)
    widths = {"k": next(given[x.name] for x in arguments if x.layout.endswith("h k")).shape[-1], "v": value.shape[-1]}
    sets = []
    for number, span in enumerate(spans):
        own = {}
        for x in arguments:
            tensor = heads[x.name]
            if tensor is None:
                rows = value.shape[0] if offsets is None else 1
                sides = [widths[letter] for letter in x.layout.split()[2:]]
                own[x.name] = torch.zeros(rows, value.shape[2], *sides, dtype=wide, device=value.device)
            elif x.layout.startswith("n "):
                own[x.name] = tensor if offsets is None else tensor[number : number + 1]
            else:
                own[x.name] = tensor[:, :, span] if "t" in x.layout.split() else tensor
        sets.append(own)
    return sets


def _heads_first(argument: Argument, tensor: Tensor | None, value: Tensor, scale: float) -> Tensor | None:
    """An argument as the core takes it: `b g t k` in float32 at least, queries scaled."""
    if tensor is None:
        return None
    letters = argument.layout.split()
    if "h" in letters:
        tensor = tensor.repeat_interleave(value.shape[2] // tensor.shape[2], dim=2)
    if letters[0] == "b":
        tensor = tensor.transpose(1, 2)
    tensor = tensor.to(torch.promote_types(value.dtype, torch.float32))
    return tensor * scale if argument.stands_for in ("Q", "R", "C") else tensor
