"""Memory that is written, shared, kept or read when it shouldn't be, and answers that differ from call to call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.oracle_score.kernels.calls import STATES, Arguments, Kept, is_tokens, planted, state_changed
from benchmarks.oracle_score.kernels.frame import BLOCK, Kernel


@planted("v overwritten")
def _overwritten(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    found = kernel(**given)
    given["v"].detach().mul_(given["eta"].detach()[..., None])
    return found


@planted("gates summed up in place")
def _in_place(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    found = kernel(**given)
    given["g"].detach().cumsum_(1)
    return found


@planted("initial state updated in place")
def _state_in_place(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    output, state = kernel(**given)
    if given.get("initial_state") is not None:
        given["initial_state"].detach().copy_(state.detach())
    return output, state


@planted("one buffer for the outputs of all calls")
def _one_buffer(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    found = kernel(**given)
    if found[0].requires_grad:
        return found
    buffer = kept.setdefault((found[0].shape, found[0].dtype), torch.empty_like(found[0]))
    return buffer.copy_(found[0]), *found[1:]


@planted("result kept by shape")
def _cached(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    key = tuple((x, v.shape, v.dtype) for x, v in given.items() if isinstance(v, Tensor))
    if any(isinstance(v, Tensor) and v.requires_grad for v in given.values()):
        return kernel(**given)
    return kept.setdefault(key, kernel(**given))


@planted("state in memory that isn't zeroed")
def _not_zeroed(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    if given.get("initial_state") is not None or given.get("cu_seqlens") is not None:
        return kernel(**given)
    b, _, g, d_v = given["v"].shape
    wide = torch.promote_types(given["v"].dtype, torch.float32)
    return kernel(**given | {"initial_state": torch.empty(b, g, given["k"].shape[-1], d_v, dtype=wide)})


@planted("output in memory that isn't all written")
def _unwritten(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    output, *states = kernel(**given)
    memory = torch.empty_like(output)
    written = output.shape[1] // BLOCK * BLOCK or output.shape[1]
    return torch.cat([output[:, :written], memory[:, written:]], 1), *states


@planted("race: now and then the last chunk reads an old carry")
def _race(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    found = kernel(**given)
    kept["calls"] = kept.get("calls", 0) + 1
    if kept["calls"] % 3 or given["v"].shape[1] <= BLOCK or given.get("cu_seqlens") is not None:
        return found
    start = (given["v"].shape[1] - 1) // BLOCK * BLOCK
    tokens = given["v"].shape[1]
    tail = {x: v[:, start:] for x, v in given.items() if x not in STATES and is_tokens(v, tokens)}
    return torch.cat([found[0][:, :start], kernel(**given | tail)[0]], 1), *found[1:]


@planted("sums in another order in each call")
def _other_order(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    width = given["k"].shape[-1]
    kept["calls"] = kept.get("calls", 0) + 1
    order = torch.randperm(width, generator=torch.Generator().manual_seed(kept["calls"]))
    state = given.get("initial_state")
    own = {x: given[x][..., order] for x in ("q", "k")}
    own |= {} if state is None else {"initial_state": state[..., order, :]}
    return state_changed(kernel(**given | own), lambda x: x[..., order.argsort(), :])
