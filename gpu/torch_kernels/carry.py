"""The one loop over chunks that all states have in common.

    U_c = V_c - W_c S_c,   S_{c+1} = D_c . S_c + K_c^T U_c + X_c

S_c is `d_k d_v`, the state before chunk c. All else is known for every chunk before the loop starts. The loop keeps
each S_c, so that what is read from the states is one batched product after it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Carried(NamedTuple):
    """Before each chunk the state, `chunks heads k v`; each chunk's U; and for each sequence the last state."""

    before: Tensor
    corrections: Tensor
    last: Tensor


def carry(
    decay: Tensor,
    keys: Tensor,
    values: Tensor,
    reads: Tensor,
    state: Tensor,
    counts: tuple[int, ...],
    added: Tensor | None = None,
) -> Carried:
    """Carries a state whose writes depend on it.

    Args:
        decay: D, `chunks heads 1 1` or `chunks heads k 1`.
        keys: K, `chunks heads chunk k`.
        values: V, `chunks heads chunk v`.
        reads: W, `chunks heads chunk k`.
        state: the state before the first chunk, `sequences heads k v`.
        counts: how many sequences have a chunk at each step.
        added: X, `chunks heads k v`; None for none.
    """
    heads = state.shape[1]
    flat = [None if x is None else x.flatten(0, 1) for x in (decay, keys, values, reads, added, state)]
    results = Correcting.apply(*flat, tuple(heads * count for count in counts))
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


class Correcting(torch.autograd.Function):
    """U_c = V_c - W_c S_c, S_{c+1} = D_c . S_c + K_c^T U_c + X_c; heads and chunks are one dimension here."""

    @staticmethod
    def forward(
        ctx: Any,
        decay: Tensor,
        keys: Tensor,
        values: Tensor,
        reads: Tensor,
        added: Tensor | None,
        state: Tensor,
        counts: tuple[int, ...],
    ) -> tuple[Tensor, Tensor, Tensor]:
        last, corrections = state.clone(), values.clone()
        before = state.new_empty(decay.shape[0], *state.shape[1:])
        steps = _by_steps(counts, before, decay, keys.mT, corrections, reads, before if added is None else added)
        for kept, fade, key, correction, read, more in steps:
            here = last[: len(kept)]
            kept.copy_(here)
            correction.baddbmm_(read, here, alpha=-1)
            here.mul_(fade).baddbmm_(key, correction)
            if added is not None:
                here.add_(more)
        ctx.save_for_backward(decay, keys, reads, before, corrections)
        ctx.counts, ctx.adds = counts, added is not None
        return before, corrections, last

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, before_cotangent: Tensor, correction_cotangent: Tensor, last_cotangent: Tensor
    ) -> tuple[Tensor | None, ...]:
        decay, keys, reads, before, corrections = ctx.saved_tensors
        carried, after, errors = last_cotangent.clone(), torch.empty_like(before), correction_cotangent.clone()
        steps = _by_steps(ctx.counts, after, decay, keys, errors, reads.mT, before_cotangent)
        for kept, fade, key, error, read, more in reversed(steps):
            here = carried[: len(kept)]
            kept.copy_(here)
            error.baddbmm_(key, here)
            here.mul_(fade).add_(more).baddbmm_(read, error, alpha=-1)
        return (
            (before * after).sum_to_size(decay.shape),
            corrections @ after.mT,
            errors,
            -errors @ before.mT,
            after if ctx.adds else None,
            carried,
            None,
        )


def _by_steps(counts: tuple[int, ...], *tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """The parts of the tensors that belong to each step."""
    return list(zip(*(x.split(list(counts)) for x in tensors), strict=True))
