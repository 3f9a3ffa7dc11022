"""Systems token by token: the loop, and the two products that all of them consist of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gpu.torch_kernels.chunks import Results, has_tokens, is_state, run_chunks
from gpu.torch_kernels.layout import steps
from gpu.torch_kernels.public import published
from gpu.torch_kernels.signatures import ARGUMENTS

TokenFunction = Callable[..., Results]
"""Of one token's arguments, `sequences heads ...`, and the states before it: the output and the states after it."""


def by_tokens(derivation: str) -> Callable[[TokenFunction], Callable[..., Any]]:
    """Makes a system's function of one token its public recurrent implementation, as it serves decoding."""
    arguments = ARGUMENTS[derivation]
    runs = [has_tokens(x) for x in arguments if not is_state(x)]

    def run(function: TokenFunction, tensors: Sequence[Tensor | None], chosen: dict[str, Any]) -> Any:
        return run_chunks(partial(_one_by_one, function, runs), arguments, tensors, 1, chosen["cu_seqlens"], {})

    return lambda function: published(function, arguments, {}, run)


def _one_by_one(function: TokenFunction, runs: list[bool], *inputs: Tensor, counts: tuple[int, ...]) -> Results:
    """A function of chunks of one token. `runs` says of which inputs there is one for each token."""
    given, states = inputs[: len(runs)], inputs[len(runs) :]
    outputs = []
    for here, active in steps(counts):
        token = [x[here].squeeze(2) if run else x for x, run in zip(given, runs, strict=True)]
        output, *after = function(*token, *(state[:active] for state in states))
        states = tuple(torch.cat([new, old[active:]]) for new, old in zip(after, states, strict=True))
        outputs.append(output)
    return torch.cat(outputs).unsqueeze(2), *states


def read(state: Tensor, key: Tensor) -> Tensor:
    """S^T k, `... v`, of a state `... k v` and a key `... k`."""
    return (key.unsqueeze(-2) @ state).squeeze(-2)


def outer(key: Tensor, value: Tensor) -> Tensor:
    """k v^T, `... k v`."""
    return key.unsqueeze(-1) * value.unsqueeze(-2)
