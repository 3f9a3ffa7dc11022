"""The one loop over chunks that all states have in common.

    R_c = Q_c S_c,   U_c = V_c - W_c S_c,   S_{c+1} = D_c . S_c + K_c^T U_c + X_c

S_c is `d_k d_v`, the state before chunk c. All else is known for every chunk before the loop starts. The loop reads
each state while it is in the caches: the states, which are larger than all that is read from them, needn't be stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Carried(NamedTuple):
    """Of each chunk R, which is read, and U, which is written, `chunks heads chunk v`; each sequence's last state."""

    read: Tensor
    written: Tensor
    last: Tensor


def carry(
    decay: Tensor,
    keys: Tensor,
    values: Tensor,
    queries: Tensor,
    state: Tensor,
    counts: tuple[int, ...],
    *,
    removing: Tensor | None = None,
    added: Tensor | None = None,
) -> Carried:
    """Carries a state from chunk to chunk, and reads it before each.

    Args:
        decay: D, `chunks heads 1 1` or `chunks heads k 1`.
        keys: K, `chunks heads chunk k`.
        values: V, `chunks heads chunk v`; where something is removed and nothing differentiated, U is written over it.
        queries: Q, `chunks heads chunk k`.
        state: the state before the first chunk, `sequences heads k v`.
        counts: how many sequences have a chunk at each step.
        removing: W, `chunks heads chunk k`; None where what is written doesn't depend on the state.
        added: X, `chunks heads k v`; None for none.
    """
    heads = state.shape[1]
    flat = [None if x is None else x.flatten(0, 1) for x in (decay, keys, values, queries, removing, added, state)]
    results = Carrying.apply(*flat, tuple(heads * count for count in counts))
    return Carried(*(x.unflatten(0, (-1, heads)) for x in results))


def carry_sums(decay: Tensor, added: Tensor, state: Tensor, counts: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Carries a state that only fades and is added to: S_c before each chunk, and the last states."""
    before, last = Summing.apply(decay, added, state, counts)
    return before, last


def add_product(into: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """`into` + left right, `chunks heads chunk v`, written into `into`: the product itself is never stored."""
    into.flatten(0, 1).baddbmm_(left.flatten(0, 1), right.flatten(0, 1))
    return into


class Summing(torch.autograd.Function):
    """S_{c+1} = D_c . S_c + X_c."""

    @staticmethod
    def forward(
        ctx: Any, decay: Tensor, added: Tensor, state: Tensor, counts: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        last, before = state.clone(), torch.empty_like(added)
        for kept, fade, more in _by_steps(counts, before, decay, added):
            here = last[: len(kept)]
            kept.copy_(here)
            here.mul_(fade).add_(more)
        ctx.save_for_backward(decay, before)
        ctx.counts = counts
        return before, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, before_cotangent: Tensor, last_cotangent: Tensor) -> tuple[Tensor | None, ...]:
        decay, before = ctx.saved_tensors
        carried, added_cotangent = last_cotangent.clone(), torch.empty_like(before)
        for kept, fade, more in reversed(_by_steps(ctx.counts, added_cotangent, decay, before_cotangent)):
            here = carried[: len(kept)]
            kept.copy_(here)
            here.mul_(fade).add_(more)
        return (before * added_cotangent).sum_to_size(decay.shape), added_cotangent, carried, None


class Carrying(torch.autograd.Function):
    """U_c = V_c - W_c S_c, S_{c+1} = D_c . S_c + K_c^T U_c + X_c; heads and chunks are one dimension here.

    The states between are kept only where a derivative needs them: they are many times larger than what is read.
    """

    @staticmethod
    def forward(
        ctx: Any,
        decay: Tensor,
        keys: Tensor,
        values: Tensor,
        queries: Tensor,
        removing: Tensor | None,
        added: Tensor | None,
        state: Tensor,
        counts: tuple[int, ...],
    ) -> tuple[Tensor, Tensor, Tensor]:
        differentiated = any(ctx.needs_input_grad)
        last, read = state.clone(), torch.empty_like(values)
        written = values.clone() if differentiated else values
        before = state.new_empty(decay.shape[0], *state.shape[1:]) if differentiated else None
        steps = _by_steps(counts, before, decay, keys.mT, written, queries, read, removing, added)
        for kept, fade, key, write, query, out, remove, more in steps:
            here = last[: len(fade)]
            if kept is not None:
                kept.copy_(here)
            out.baddbmm_(query, here, beta=0)
            if remove is not None:
                write.baddbmm_(remove, here, alpha=-1)
            here.mul_(fade).baddbmm_(key, write)
            if more is not None:
                here.add_(more)
        ctx.save_for_backward(decay, keys, queries, removing, before, written)
        ctx.counts, ctx.adds = counts, added is not None
        return read, written, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        decay, keys, queries, removing, before, written = ctx.saved_tensors
        outputs, writes, last = cotangents
        carried, after, errors = last.clone(), torch.empty_like(before), writes.clone()
        transposed = None if removing is None else removing.mT
        steps = _by_steps(ctx.counts, after, decay, keys, errors, queries.mT, outputs, transposed)
        for kept, fade, key, error, query, output, remove in reversed(steps):
            here = carried[: len(fade)]
            kept.copy_(here)
            error.baddbmm_(key, here)
            here.mul_(fade).baddbmm_(query, output)
            if remove is not None:
                here.baddbmm_(remove, error, alpha=-1)
        return (
            (before * after).sum_to_size(decay.shape),
            written @ after.mT,
            errors,
            outputs @ before.mT,
            None if removing is None else -errors @ before.mT,
            after if ctx.adds else None,
            carried,
            None,
        )


def _by_steps(counts: tuple[int, ...], *tensors: Tensor | None) -> list[tuple[Any, ...]]:
    """The parts of the tensors that belong to each step; None for each part of what isn't there."""
    nothing = [None] * len(counts)
    return list(zip(*(nothing if x is None else x.split(list(counts)) for x in tensors), strict=True))
