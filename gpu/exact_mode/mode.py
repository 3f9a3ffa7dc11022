"""The mode in which exact code runs: plain tensors that user code makes can take exact numbers in.

`out = torch.zeros(...)` makes a plain tensor; `out[:, t] = o` writes exact numbers into it. From then on the memory of
`out` has exact numbers beside it, and whatever reads that memory, through `out` or any view, reads those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from derivations.language.errors import NoMeaning
from gpu.exact_mode.dispatch import Arguments, apply, leaves, lowered, mapped, number
from gpu.exact_mode.errors import explained
from gpu.exact_mode.moving import arbitrary
from gpu.exact_mode.numbers import moved
from gpu.exact_mode.tensor import ExactTensor

aten = torch.ops.aten
UNINITIALISED = frozenset({aten.empty.memory_format, aten.empty_strided.default, aten.empty_like.default})


class ExactMode(TorchDispatchMode):
    """While it is active, exact tensors and plain ones mix, and plain ones can be written into."""

    def __init__(self) -> None:
        super().__init__()
        self._beside: dict[int, tuple[Tensor, ExactTensor]] = {}
        """By address of a memory: a tensor that keeps it alive, and the exact numbers beside it, in one dimension."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        exact_args, exact_kwargs = self._exact(args, kwargs)
        if not any(isinstance(x, ExactTensor) for x in leaves(exact_args, exact_kwargs)):
            return _uninitialised(func, func(*args, **kwargs))
        target = _written(func, args, kwargs)
        if isinstance(target, Tensor) and not isinstance(target, ExactTensor):
            if torch.Tag.inplace_view in func.tags:
                return func(*args, **kwargs)
            return self._write(func, args, kwargs, target)
        return apply(func, exact_args, exact_kwargs)

    def _write(self, func: OpOverload, args: Any, kwargs: Any, target: Tensor) -> Tensor:
        """An operator that writes into a plain tensor."""
        with explained(func):
            if not target.is_floating_point():
                raise NoMeaning(f"it writes field numbers into a tensor of dtype {target.dtype}")
            stands_in = self._beside_of(target)
            replaced = lambda x: stands_in if x is target else self.exact(x)
            apply(func, *_mapped(replaced, args, kwargs))
        return target

    def _exact(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The arguments, with exact tensors in the place of plain ones that were written into."""
        return _mapped(self.exact, args, kwargs) if self._beside else (args, kwargs)

    def exact(self, x: Any) -> Any:
        """The exact tensor beside a plain one that was written into; anything else as it is."""
        if not isinstance(x, Tensor) or isinstance(x, ExactTensor) or not x.numel():
            return x
        found = self._beside.get(x.untyped_storage().data_ptr())
        if found is None:
            return x
        exact: ExactTensor = apply(aten.as_strided.default, (found[1], x.shape, x.stride(), x.storage_offset()), {})
        return exact

    def _beside_of(self, target: Tensor) -> ExactTensor:
        """The exact tensor beside one that is written into, made where there is none yet."""
        if not target.numel():  # all empty memories have one address
            return lowered(number(target), target.dtype)
        address = target.untyped_storage().data_ptr()
        if address not in self._beside:
            count = target.untyped_storage().nbytes() // target.element_size()
            whole = target.detach().as_strided((count,), (1,), 0)
            copied = moved(torch.clone, number(whole))
            self._beside[address] = whole, lowered(copied, target.dtype)
        beside: ExactTensor = self.exact(target)
        return beside


def _mapped(function: Callable[[Any], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    return tuple(mapped(function, x) for x in args), {name: mapped(function, x) for name, x in kwargs.items()}


def _written(func: OpOverload, args: Any, kwargs: Any) -> Any:
    """What an operator writes into, if it does."""
    if not func._schema.is_mutable:
        return None
    return kwargs["out"] if "out" in kwargs else args[0]


def _uninitialised(func: OpOverload, result: Any) -> Any:
    """New memory holds integers at random instead of whatever is there, which may be NaN."""
    if func in UNINITIALISED and result.is_floating_point() and result.layout is torch.strided:
        result.copy_(arbitrary(torch.empty_like(result, dtype=torch.int64)) % 2**20)
    return result
