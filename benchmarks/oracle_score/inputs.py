"""Inputs for kernels of the score: those of a case, by the parameters' names, as Torch tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnproof.implementation_cases import Case, drawn, environment, statement
from gpu.registry import Implementation, implementations
from numerics.algebras.floats import numpy_float64
from numerics.run import run

Arrays = dict[str, np.ndarray]
GATES = {"log_gate": "g", "log_a": "g"}
"""What the kernels call the arguments that have another name in the registry."""


@cache
def registered(system: str) -> Implementation:
    """The implementation of the registry that goes in the order of the statement."""
    found = {x.name: x for x in implementations(system, "torch")}
    return found.get(f"torch.{system}.recurrent") or found[f"torch.{system}.blockwise"]


def arguments_of(system: str, case: Case, dtype: str = "float32") -> Arrays:
    """The arguments by the registry's names, in float64, rounded to a precision."""
    return drawn(registered(system), case, dtype)


def tensors(arguments: Mapping[str, np.ndarray], dtype: torch.dtype) -> dict[str, Tensor]:
    """The arguments as the kernels take them."""
    return {GATES.get(name, name): torch.tensor(value, dtype=dtype) for name, value in arguments.items()}


def values_of(returned: Any) -> list[Tensor]:
    """What a kernel returns, as a list: the output and the last states."""
    return list(returned) if isinstance(returned, tuple | list) else [returned]


def stated(system: str, arguments: Arrays, case: Case) -> list[np.ndarray]:
    """The statement's own output and last states in float64, a matrix for each batch and value head."""
    form = statement(registered(system))
    exact = run(form, environment(registered(system), arguments, case), numpy_float64())
    return [exact.output, *exact.states]
