"""Packed sequences that aren't kept apart, around a right kernel."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.oracle_score.kernels.calls import Arguments, Kept, planted, state_changed
from benchmarks.oracle_score.kernels.frame import BLOCK, Kernel


def _offsets(given: Arguments) -> list[int]:
    return [] if given.get("cu_seqlens") is None else [int(x) for x in given["cu_seqlens"]]


@planted("carry fades from the chunk's start, not the sequence's")
def _packed_from_chunk(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    starts, state = _offsets(given)[:-1], given.get("initial_state")
    if not starts or state is None:
        return kernel(**given)
    gates = [given["g"][0, start // BLOCK * BLOCK : start].float().sum(0) for start in starts]
    return kernel(**given | {"initial_state": state * torch.stack(gates).exp()[..., None, None].to(state)})


@planted("an empty sequence gives NaN")
def _empty_is_nan(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    offsets = torch.tensor(_offsets(given))
    if not len(offsets):
        return kernel(**given)
    empty = (offsets.diff() == 0)[:, None, None, None]
    return state_changed(kernel(**given), lambda x: x.masked_fill(empty, torch.nan))


@planted("first sequence's state for all")
def _first_state(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    state = given.get("initial_state")
    if not _offsets(given) or state is None:
        return kernel(**given)
    return kernel(**given | {"initial_state": state[:1].expand_as(state)})


@planted("boundaries of sequences not seen")
def _one_sequence(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    found, offsets, state = kernel(**given), _offsets(given), given.get("initial_state")
    if not offsets:
        return found
    first = {"initial_state": None if state is None else state[:1]}
    return kernel(**given | first | {"cu_seqlens": None})[0], *found[1:]


@planted("padding fades the state of shorter sequences")
def _padded(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    offsets = torch.tensor(_offsets(given))
    if not len(offsets):
        return kernel(**given)
    missing = (offsets.diff().max() - offsets.diff()).to(torch.float32)
    return state_changed(kernel(**given), lambda x: x * (-0.1 * missing).exp()[:, None, None, None].to(x))


@planted("offsets counted from one")
def _late_offsets(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    offsets = _offsets(given)
    moved = [min(x + 1, offsets[-1]) if 0 < k < len(offsets) - 1 else x for k, x in enumerate(offsets)]
    return kernel(**given | ({"cu_seqlens": torch.tensor(moved)} if offsets else {}))
