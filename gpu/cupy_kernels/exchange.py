"""Torch tensors in and out of the functions here, without a copy: DLPack hands over the memory that an array has.

A CUDA tensor becomes a CuPy array on its device, a CPU tensor a NumPy array. There is no backward pass through it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from array_api_compat import is_torch_array

Array = Any


def from_torch(tensor: Array) -> Array:
    """A CuPy or NumPy array on the memory of a tensor.

    Raises:
        ValueError: the tensor requires gradients.
    """
    if tensor.requires_grad:
        raise ValueError("there is no backward pass through these functions: call them with tensor.detach()")
    return import_module("cupy" if tensor.is_cuda else "numpy").from_dlpack(tensor)


def to_torch(array: Array) -> Array:
    """A Torch tensor on the memory of an array."""
    return import_module("torch").from_dlpack(array)


def on_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of the same arguments for Torch tensors, and with tensors as results.

    What isn't a tensor is passed on as it is.
    """

    @wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        returned = function(*map(_converted, arguments), **{name: _converted(x) for name, x in options.items()})
        return tuple(map(to_torch, returned)) if isinstance(returned, tuple) else to_torch(returned)

    return called


def _converted(x: Any) -> Any:
    return from_torch(x) if is_torch_array(x) else x
