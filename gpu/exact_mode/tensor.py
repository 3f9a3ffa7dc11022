"""The tensor that user code is given: it looks like a float tensor, and holds residues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gpu.exact_mode.errors import NoExactMeaning, calling_line
from gpu.exact_mode.numbers import Numbers


@dataclass
class Exponents:
    """What is known of the exponents in a buffer. All views of the buffer share it.

    Attributes:
        known: whether every number in it is known modulo p - 1; not any more once another number was written into it.
        infinite: whether an exponent may be -inf.
    """

    known: bool
    infinite: bool


class ExactTensor(Tensor):
    """Residues under the name of floats.

    Shape, strides, device and dtype are those that a float tensor would have here, so that code that asks for them
    runs as it does in floats. Autograd works on it as on any tensor, its formulas carried out in residues.

    Attributes:
        residues: modulo p, int64, with the strides of this tensor.
        exponents: modulo p - 1 likewise, or None. They count only while `shared.known`; see `numbers`.
        shared: what all views of the memory share.
    """

    residues: Tensor
    exponents: Tensor | None
    shared: Exponents

    @staticmethod
    def __new__(
        cls, numbers: Numbers, dtype: torch.dtype = torch.float32, shared: Exponents | None = None
    ) -> ExactTensor:
        """A tensor of residues with the float `dtype` that user code sees."""
        residues, exponents = numbers.residues, numbers.exponents
        assert isinstance(residues, Tensor)
        assert not isinstance(exponents, int)
        result: ExactTensor = Tensor._make_wrapper_subclass(
            cls,
            residues.shape,
            strides=residues.stride(),
            storage_offset=residues.storage_offset(),
            dtype=dtype,
            device=residues.device,
        )
        result.residues, result.exponents = residues, exponents
        result.shared = shared or Exponents(exponents is not None, numbers.infinite)
        return result

    def __init__(self, *arguments: Any, **options: Any) -> None:
        del arguments, options

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        from gpu.exact_mode.dispatch import apply  # the rules make tensors of this class

        del types
        return apply(func, args, kwargs or {})

    @property
    def numbers(self) -> Numbers:
        """The residues, and the exponents where all views of the buffer have them."""
        known = self.shared.known
        return Numbers(self.residues, self.exponents if known else None, known and self.shared.infinite)

    def write(self, numbers: Numbers) -> None:
        """Overwrites the entries, of this tensor and of all that share its memory."""
        numbers = numbers.finite() if numbers.exponents is None or not self.shared.known else numbers
        _overwrite(self.residues, numbers.residues)
        if numbers.exponents is None or not self.shared.known:
            self.shared.known = False
            return
        assert self.exponents is not None
        _overwrite(self.exponents, numbers.exponents)
        self.shared.infinite |= numbers.infinite

    def data_ptr(self) -> int:
        """Compiled kernels ask for the address of memory, and there is none with floats in it."""
        reason = "it hands memory to a compiled kernel: run the PyTorch version of it"
        raise NoExactMeaning("data_ptr", reason, calling_line())

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        del tensor_contents
        known = ", exponents known" if self.shared.known else ""
        return f"ExactTensor({tuple(self.shape)}, {self.dtype}, modulo 2^31 - 1{known})"


def _overwrite(target: Tensor, source: Tensor | int) -> None:
    if isinstance(source, Tensor):
        target.copy_(source)
    else:
        target.fill_(source)
