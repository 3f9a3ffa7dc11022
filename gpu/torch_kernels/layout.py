"""Sequences cut into chunks, with the first chunks of all sequences before their second ones, and so on.

Chunks of one step don't depend on one another, and lie next to each other: a loop over steps treats sequences of a
batch, or packed ones of any lengths, at once. Sequences are sorted by length, so that those that have a chunk at a step
are the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True)
class Layout:
    """How the tokens of a tensor `b t ...` are dealt to chunks.

    Attributes:
        batch, tokens: the tensor's first two sizes.
        chunk: tokens in a chunk.
        counts: how many sequences have a chunk at each step.
        sequences: how many there are, empty ones included.
        order: the sequences by falling length; None where all are as long as the tensor.
        rows: for packed sequences, `chunks chunk`: the token in each row of each chunk, -1 for none.
    """

    batch: int
    tokens: int
    chunk: int
    counts: tuple[int, ...]
    sequences: int
    order: Tensor | None = None
    rows: Tensor | None = None

    def pieces(self, x: Tensor, size: int, fill: float = 0.0) -> Sequence[Tensor]:
        """The tokens of each segment of `size` steps, for `chunks`.

        A split and not slices: the derivative of a slice is as long as the whole tensor.
        """
        if self.rows is None:
            return x.split(size * self.chunk, dim=1)
        none = (self.rows < 0).view(*self.rows.shape, *(1,) * (x.ndim - 2))
        dealt = x[0][self.rows.clamp(min=0)].masked_fill(none, fill)
        return dealt.split([sum(self.counts[a:b]) for a, b in self.segments(size)])

    def chunks(self, piece: Tensor, fill: float = 0.0) -> Tensor:
        """A piece as `chunks heads chunk ...`, filled up where the sequences end."""
        if self.rows is not None:
            return piece.transpose(1, 2)
        missing = -piece.shape[1] % self.chunk
        if missing:
            piece = pad(piece, (0, 0) * (piece.ndim - 2) + (0, missing), value=fill)
        return piece.unflatten(1, (-1, self.chunk)).transpose(0, 1).transpose(2, 3).flatten(0, 1)

    def put(self, pieces: Iterable[Tensor]) -> Tensor:
        """The inverse of `pieces` and `chunks`: `b t heads ...` from `chunks heads chunk ...` of all steps, in order.

        Without a derivative, each piece of a plain batch goes to its place as soon as it is there.
        """
        if self.rows is not None:
            rows = torch.cat([x.transpose(1, 2).flatten(0, 1) for x in pieces])
            filled = (self.rows.flatten() >= 0).nonzero().flatten()
            places = torch.empty_like(filled)
            places[self.rows.flatten()[filled]] = filled
            return rows[places][None]
        parts = (x.unflatten(0, (-1, self.batch)).transpose(2, 3).transpose(0, 1) for x in pieces)
        if torch.is_grad_enabled():
            return torch.cat(list(parts), dim=1).flatten(1, 2)[:, : self.tokens]
        return self._placed(parts)

    def _placed(self, parts: Iterable[Tensor]) -> Tensor:
        """Parts `b steps chunk heads ...` one after another in one tensor."""
        whole: Tensor | None = None
        start = 0
        for part in parts:
            whole = part.new_empty(self.batch, self.tokens, *part.shape[3:]) if whole is None else whole
            there = whole[:, start : start + part.shape[1] * self.chunk]
            if there.shape[1] == part.shape[1] * self.chunk:
                there.unflatten(1, part.shape[1:3]).copy_(part)
            else:
                there.copy_(part.flatten(1, 2)[:, : there.shape[1]])
            start += there.shape[1]
        assert whole is not None
        return whole

    def in_own_order(self, states: Tensor) -> Tensor:
        """States of the sequences in the caller's order, sorted."""
        return states if self.order is None else states[self.order]

    def in_callers_order(self, states: Tensor) -> Tensor:
        """The inverse of `in_own_order`."""
        return states if self.order is None else states[self.order.argsort()]

    def segments(self, size: int) -> Iterator[tuple[int, int]]:
        """The steps in groups of `size`, from where to where."""
        for start in range(0, len(self.counts), size):
            yield start, min(start + size, len(self.counts))


def of_batch(batch: int, tokens: int, chunk: int) -> Layout:
    """Sequences of one length."""
    chunk = _no_longer_than(tokens, chunk)
    return Layout(batch, tokens, chunk, (batch,) * -(-tokens // chunk) if batch else (), batch)


def of_packed(lengths: list[int], chunk: int, device: torch.device) -> Layout:
    """Sequences one after another in a batch of one."""
    chunk = _no_longer_than(max(lengths), chunk)
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    chunks = [-(-lengths[i] // chunk) for i in order]
    counts = tuple(sum(own > step for own in chunks) for step in range(chunks[0]))
    sequence = torch.tensor([order[i] for count in counts for i in range(count)], dtype=torch.int64)
    step = torch.tensor([number for number, count in enumerate(counts) for _ in range(count)], dtype=torch.int64)
    length = torch.tensor(lengths)
    within = step[:, None] * chunk + torch.arange(chunk)  # of its sequence
    begin = (length.cumsum(0) - length)[sequence][:, None]
    rows = torch.where(within < length[sequence][:, None], begin + within, -1)
    return Layout(1, sum(lengths), chunk, counts, len(lengths), torch.tensor(order).to(device), rows.to(device))


def steps(counts: Sequence[int]) -> Iterator[tuple[slice, int]]:
    """For each step: which chunks are its own, and how many sequences take part."""
    start = 0
    for count in counts:
        yield slice(start, start + count), count
        start += count


def _no_longer_than(tokens: int, chunk: int) -> int:
    """The chunk, or the smallest power of two that holds all tokens."""
    return min(chunk, 1 << max(tokens - 1, 0).bit_length())
