"""How a system runs over its sequences: argument checks, chunks, segments of chunks, and what the backward pass keeps.

A system gives one function of the chunks of a segment. For the backward pass only the states between segments are
kept; the rest is computed again, segment by segment (Chen et al. 2016, arXiv 1604.06174).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gpu.registry import Argument
from gpu.torch_kernels.arguments import checked_chunk_size, lengths_of, one_dtype, sizes_of
from gpu.torch_kernels.layout import Layout, of_batch, of_packed
from gpu.torch_kernels.public import published
from gpu.torch_kernels.signatures import ARGUMENTS

Results = tuple[Tensor, ...]
"""The output, and the last states."""
ChunkFunction = Callable[..., Results]
"""Of the arguments' chunks, `chunks heads chunk ...`, the states, and `counts`: how many sequences have a chunk at each
step. A parameter that isn't there for each token comes as it is."""

SEGMENT_ON_CPU, SEGMENT_ON_GPU = 512, 8192
"""Tokens of each sequence in a segment: on a CPU, what is computed from them stays in its caches."""
CHUNK_ON_CPU, CHUNK_ON_GPU = 32, 64
"""Tokens in a chunk where nothing is said: a CPU has no unit for which larger products are faster by themselves."""

CHUNK_SIZE = {
    "chunk_size": (None, f"tokens in a chunk, a power of two; {CHUNK_ON_GPU}, or {CHUNK_ON_CPU} on a CPU, where None.")
}


def by_chunks(
    derivation: str, fill: Mapping[str, float] | None = None, **options: tuple[Any, str]
) -> Callable[[ChunkFunction], Callable[..., Any]]:
    """Makes a system's function of chunks its public chunkwise implementation.

    Args:
        derivation: which system it is.
        fill: with what an argument is filled up behind a sequence's end, where it isn't zero.
        options: keyword arguments of the function, each with its default and a line of help.
    """
    arguments = ARGUMENTS[derivation]

    def run(function: ChunkFunction, tensors: Sequence[Tensor | None], chosen: dict[str, Any]) -> Any:
        chunk_size, cu_seqlens = chosen.pop("chunk_size"), chosen.pop("cu_seqlens")
        return run_chunks(partial(function, **chosen), arguments, tensors, chunk_size, cu_seqlens, fill or {})

    return lambda function: published(function, arguments, {**CHUNK_SIZE, **options}, run)


def run_chunks(
    function: ChunkFunction,
    arguments: Sequence[Argument],
    tensors: Sequence[Tensor | None],
    chunk_size: int | None,
    cu_seqlens: Tensor | None,
    fill: Mapping[str, float],
) -> Results:
    """The output `b t g v`, and the last states, from tensors as callers pass them.

    Raises:
        ValueError: an argument is wrong; the message says what to change.
    """
    call = _Call(arguments, tensors, chunk_size, cu_seqlens, fill)
    states = call.states()

    def outputs() -> Iterator[Tensor]:
        for counts, pieces in call.segments():
            output, *states[:] = call.run(function, counts, states, pieces)
            yield output

    whole = call.layout.put(outputs()).to(call.value.dtype) if call.layout.counts else torch.zeros_like(call.value)
    return whole, *map(call.layout.in_callers_order, states)


class _Call:
    """Checked tensors, and how they are cut."""

    def __init__(
        self,
        arguments: Sequence[Argument],
        tensors: Sequence[Tensor | None],
        chunk_size: int | None,
        cu_seqlens: Tensor | None,
        fill: Mapping[str, float],
    ) -> None:
        self.sizes, self.dtype = sizes_of(arguments, tensors), one_dtype(arguments, tensors)
        self.named = {a.name: (a, x) for a, x in zip(arguments, tensors, strict=True)}
        self.inputs = [(a, x) for a, x in self.named.values() if not is_state(a) and x is not None]
        self.value, self.fill = next(x for a, x in self.inputs if a.layout == "b t g v"), fill
        on_cpu = self.value.device.type == "cpu"
        self.segment = SEGMENT_ON_CPU if on_cpu else SEGMENT_ON_GPU
        usual = CHUNK_ON_CPU if on_cpu else CHUNK_ON_GPU
        self.layout = self._layout(usual if chunk_size is None else checked_chunk_size(chunk_size), cu_seqlens)

    def _layout(self, chunk_size: int, cu_seqlens: Tensor | None) -> Layout:
        batch, tokens = self.sizes["b"], self.sizes["t"]
        if cu_seqlens is None:
            layout = of_batch(batch, tokens, chunk_size)
        else:
            layout = of_packed(lengths_of(cu_seqlens, batch, tokens), chunk_size, self.value.device)
        if self.sizes.setdefault("n", layout.sequences) != layout.sequences:
            raise ValueError(f"there are {layout.sequences} sequences: pass an initial state for each of them")
        return layout

    def states(self) -> list[Tensor]:
        """The initial states in the layout's order."""
        return [self._state(a, x) for a, x in self.named.values() if is_state(a)]

    def _state(self, argument: Argument, x: Tensor | None) -> Tensor:
        if x is None:
            shape = [self.sizes[letter] for letter in argument.layout.split()]
            return self.value.new_zeros(shape, dtype=self.dtype)
        return self.layout.in_own_order(x.to(self.dtype))

    def segments(self) -> Iterator[tuple[tuple[int, ...], list[Tensor]]]:
        """For each segment: how many sequences have a chunk at each of its steps, and its part of the inputs."""
        size = max(1, self.segment // self.layout.chunk)
        bounds = list(self.layout.segments(size))
        parts = [
            self.layout.pieces(x, size, self.fill.get(a.name, 0.0)) if has_tokens(a) else [x] * len(bounds)
            for a, x in self.inputs
        ]
        for number, (start, stop) in enumerate(bounds):
            yield self.layout.counts[start:stop], [part[number] for part in parts]

    def run(
        self, function: ChunkFunction, counts: tuple[int, ...], states: list[Tensor], pieces: list[Tensor]
    ) -> Results:
        """What the function computes from a segment. Where a derivative is asked for, only what goes in is kept."""

        def computed(*tensors: Tensor) -> Results:
            own, given = tensors[: len(states)], tensors[len(states) :]
            cut = [self._cut(a, x) for (a, _), x in zip(self.inputs, given, strict=True)]
            return function(*cut, *own, counts=counts)

        if torch.is_grad_enabled() and any(x.requires_grad for x in (*states, *pieces)):
            kept: Results = checkpoint(computed, *states, *pieces, use_reentrant=False, preserve_rng_state=False)
            return kept
        return computed(*states, *pieces)

    def _cut(self, argument: Argument, piece: Tensor) -> Tensor:
        if not has_tokens(argument):
            return piece.to(self.dtype)
        chunks = self.layout.chunks(piece, self.fill.get(argument.name, 0.0)).to(self.dtype)
        groups = self.sizes["g"] // self.sizes["h"] if "h" in argument.layout.split() else 1
        if groups == 1:
            return chunks.contiguous()
        return chunks.unsqueeze(2).expand(-1, -1, groups, *chunks.shape[2:]).flatten(1, 2)


def is_state(argument: Argument) -> bool:
    """Whether there is one for each sequence."""
    return argument.layout.startswith("n ")


def has_tokens(argument: Argument) -> bool:
    """Whether there is one for each token."""
    return argument.layout.startswith("b t ")
