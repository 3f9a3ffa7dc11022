"""Which array libraries, precisions and devices this machine has. NumPy in float64 is always there.

A library is looked up before it is imported, and one that is installed but broken doesn't break the others: it is
left out, with a warning that says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

PRECISIONS = ("float64", "float32")


@dataclass(frozen=True)
class ArrayNamespace:
    """One precision of one library on one device.

    Args:
        label: the three in words, "torch float32 on cpu".
        xp: the library as an array-API namespace of `array_api_compat`.
        dtype: the precision, as that library's own dtype.
        device: what the library calls the device; None for its default.
    """

    label: str
    xp: Any
    dtype: Any
    device: Any


def available() -> list[ArrayNamespace]:
    """Every array namespace of this machine. Imports Torch and CuPy where they are installed."""
    return [*numpy_namespaces(), *_optional("torch", torch_namespaces), *_optional("cupy", cupy_namespaces)]


def numpy_namespaces() -> list[ArrayNamespace]:
    """NumPy in float64."""
    xp = import_module("array_api_compat.numpy")
    return [ArrayNamespace("numpy float64 on cpu", xp, xp.float64, None)]


def torch_namespaces() -> list[ArrayNamespace]:
    """Torch in both precisions on the CPU, and on a CUDA or ROCm device where it finds one."""
    xp, torch = import_module("array_api_compat.torch"), import_module("torch")
    return _in_each_precision("torch", xp, ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])


def cupy_namespaces() -> list[ArrayNamespace]:
    """CuPy in both precisions; nothing where there is no device."""
    cupy = import_module("cupy")
    if not cupy.cuda.is_available():
        return []
    return _in_each_precision("cupy", import_module("array_api_compat.cupy"), [None])


def _in_each_precision(library: str, xp: Any, devices: list[str | None]) -> list[ArrayNamespace]:
    return [
        ArrayNamespace(f"{library} {precision} on {device or 'cuda'}", xp, getattr(xp, precision), device)
        for device in devices
        for precision in PRECISIONS
    ]


def _optional(library: str, find: Callable[[], list[ArrayNamespace]]) -> list[ArrayNamespace]:
    if find_spec(library) is None:
        return []
    try:
        return find()
    except Exception as error:  # a broken install raises anything: ImportError, OSError, RuntimeError, ...
        warnings.warn(f"{library} is installed but left out: {type(error).__name__}: {error}", stacklevel=3)
        return []
