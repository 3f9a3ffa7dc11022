"""States, scales and gates mistreated around a right kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.oracle_score.kernels.calls import STATES, Arguments, Kept, is_tokens, planted, state_changed, value_name
from benchmarks.oracle_score.kernels.frame import BLOCK, Kernel


def _transposed(state: Tensor) -> Tensor:
    return state.mT.contiguous() if state.shape[-1] == state.shape[-2] else state


@planted("initial state ignored")
def _ignored(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return kernel(**given | {"initial_state": None})


@planted("initial state ignored where the batch is one")
def _ignored_alone(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return kernel(**given | ({"initial_state": None} if given[value_name(given)].shape[0] == 1 else {}))


@planted("initial state read transposed")
def _read_transposed(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    state = given.get("initial_state")
    return kernel(**given | {"initial_state": state if state is None else _transposed(state)})


@planted("final state stored transposed")
def _stored_transposed(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return state_changed(kernel(**given), _transposed)


@planted("final state misses the last token")
def _one_behind(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    tokens = given[value_name(given)].shape[1]
    sequences = {x: v[:, : tokens - 1] for x, v in given.items() if _is_sequence(v, tokens)}
    found = kernel(**given)
    return (found[0], *kernel(**given | sequences)[1:]) if tokens > 1 else found


@planted("final state is that of the last full chunk")
def _last_full_chunk(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    tokens = given[value_name(given)].shape[1]
    full = tokens // BLOCK * BLOCK
    sequences = {x: v[:, :full] for x, v in given.items() if _is_sequence(v, tokens)}
    found = kernel(**given)
    return (found[0], *kernel(**given | sequences)[1:]) if full else found


def _is_sequence(value: Any, tokens: int) -> bool:
    return isinstance(value, Tensor) and value.ndim in (3, 4) and value.shape[1] == tokens and value.is_floating_point()


@planted("carry dropped between chunks")
def _carry_dropped(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    tokens, rows, own = given[value_name(given)].shape[1], [], dict(given)
    for start in range(0, max(tokens, 1), BLOCK):
        part = {x: v[:, start : start + BLOCK] for x, v in given.items() if x not in STATES and is_tokens(v, tokens)}
        output, *states = kernel(**own | part)
        rows.append(output)
        own |= dict.fromkeys(STATES & own.keys())
    return torch.cat(rows, 1), *states


@planted("q scaled by d_k^-1/2")
def _scaled(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    name = "q" if "q" in given else "r"
    return kernel(**given | {name: given[name] * given[name].shape[-1] ** -0.5})


@planted("scale put on the keys")
def _scale_on_keys(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return kernel(**given | {"k": given["k"] * given.get("scale", 1.0), "scale": 1.0})


@planted("scale ignored")
def _scale_ignored(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return kernel(**given | {"scale": 1.0})


@planted("gate taken to the base 2")
def _base_2(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return kernel(**given | {"g": given["g"] * 0.6931471805599453})


@planted("gate not used")
def _ungated(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return kernel(**given | {"g": torch.zeros_like(given["g"])})


@planted("strength read through a sigmoid")
def _sigmoid(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return kernel(**given | {"eta": given["eta"].sigmoid()})
