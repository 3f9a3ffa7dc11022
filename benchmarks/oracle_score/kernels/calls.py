"""Faults around a right kernel: in how it is called, and in what becomes of its results.

Each takes the kernel, its keyword arguments, and a dictionary that it keeps from call to call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from benchmarks.oracle_score.kernels.frame import Kernel

Arguments = dict[str, Any]
Kept = dict[Any, Any]
Around = Callable[[Kernel, Arguments, Kept], Any]
AROUND: dict[str, Around] = {}
"""By fault: what is done around the kernel."""


def planted(fault: str) -> Callable[[Around], Around]:
    """Registers what is done around a kernel under the name of the fault."""

    def registered(around: Around) -> Around:
        AROUND[fault] = around
        return around

    return registered


def wrapped(kernel: Kernel, fault: str) -> Kernel:
    """The kernel with a fault of AROUND."""
    around = AROUND[fault]
    kept: Kept = {}

    def faulty(**given: Any) -> Any:
        return around(kernel, given, kept)

    faulty.__qualname__ = faulty.__name__ = f"{kernel.__name__.removesuffix('no fault')}{fault}"
    faulty.__signature__ = kernel.__signature__  # type: ignore[attr-defined]
    return faulty


def output_changed(found: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """What a kernel returned, with another output."""
    return (change(found[0]), *found[1:]) if isinstance(found, tuple) else change(found)


def state_changed(found: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """What a kernel returned, with another first state."""
    return (found[0], change(found[1]), *found[2:])


def value_name(given: Arguments) -> str:
    """What the values are called."""
    return "x" if "x" in given else "v"


STATES = {"initial_state", "initial_normaliser", "initial_curvature"}


def is_tokens(value: Any, tokens: int) -> bool:
    """Whether an argument that isn't a state has an entry for each token."""
    return isinstance(value, Tensor) and value.ndim >= 3 and value.shape[1] == tokens
