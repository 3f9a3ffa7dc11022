"""Runs a function on exact tensors: what it returns, and the gradients of a pairing of that with given cotangents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.utils._pytree import keystr, tree_flatten_with_path

from derivations.language.errors import NoMeaning
from gpu.exact_mode.dispatch import number
from gpu.exact_mode.errors import NoExactMeaning
from gpu.exact_mode.mode import ExactMode
from gpu.exact_mode.numbers import Numbers
from gpu.exact_mode.tensor import ExactTensor

RECOMPUTED = "CheckpointFunctionBackward"
"""A checkpoint of the old kind, `use_reentrant=True`, goes backward in `backward()` only, not in `autograd.grad`."""
Cotangent = Callable[[str, tuple[int, ...]], np.ndarray]
"""From the name and the shape of something returned, the residues of its cotangent; asked for in order."""


@dataclass(frozen=True)
class Run:
    """What a function computed, as residues modulo 2^31 - 1 in int64 arrays.

    Attributes:
        outputs: by name, "output" or "output[0]", the float tensors that it returned.
        gradients: by name the gradient of each input, zero where nothing depends on it.
    """

    outputs: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]


def exact_tensor(
    residues: np.ndarray,
    exponents: np.ndarray | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> ExactTensor:
    """An input: its residues modulo p, and for a log gate those modulo p - 1."""
    parts = [None if x is None else torch.tensor(x, dtype=torch.int64, device=device) for x in (residues, exponents)]
    assert parts[0] is not None
    return ExactTensor(Numbers(parts[0], parts[1]), dtype)


def run(call: Callable[[], Any], inputs: Mapping[str, ExactTensor], cotangent: Cotangent | None) -> Run:
    """Calls a function, and differentiates what it returns by its inputs.

    Args:
        call: the function with its arguments, `inputs` among them.
        inputs: what is differentiated by.
        cotangent: what everything that is returned is paired with; None for the outputs alone.

    Raises:
        NoExactMeaning: an operator has none.
        UndefinedHere: a division by zero.
        ValueError: the function returns no float tensor.
    """
    for x in inputs.values():
        x.requires_grad_(cotangent is not None)
    with _without_compiling(), ExactMode() as mode:
        returned = _named(call())
        if not returned:
            raise ValueError("the function returns no float tensor: return tensors, or tuples, lists or dicts of them")
        gradients = {} if cotangent is None else _gradients(returned, inputs, cotangent)
        outputs = {name: _array(name, mode.exact(x)) for name, x in returned.items()}
    return Run(outputs, gradients)


def _without_compiling() -> AbstractContextManager[Any]:
    """Compiled code runs as it was written: exact tensors can't be traced."""
    set_stance: Any = getattr(torch.compiler, "set_stance", None)  # since Torch 2.6
    return set_stance("force_eager") if set_stance is not None else nullcontext()


def _named(returned: Any) -> dict[str, Tensor]:
    """The float tensors in what is returned, by name."""
    leaves, _ = tree_flatten_with_path(returned)
    return {f"output{keystr(path)}": x for path, x in leaves if isinstance(x, Tensor) and x.is_floating_point()}


def _gradients(
    returned: Mapping[str, Tensor], inputs: Mapping[str, ExactTensor], cotangent: Cotangent
) -> dict[str, np.ndarray]:
    pairs = [(x, cotangent(name, tuple(x.shape))) for name, x in returned.items()]
    reached = [x for x, _ in pairs if x.requires_grad]
    upstream = [exact_tensor(c, dtype=x.dtype, device=x.device) for x, c in pairs if x.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if reached and inputs:
        found = _differentiated(reached, list(inputs.values()), upstream)
    return {
        name: np.zeros(tuple(x.shape), dtype=np.int64) if gradient is None else _array(name, gradient)
        for (name, x), gradient in zip(inputs.items(), found, strict=True)
    }


def _differentiated(
    outputs: list[Tensor], inputs: Sequence[ExactTensor], upstream: list[ExactTensor]
) -> Sequence[Tensor | None]:
    if not any(node.name() == RECOMPUTED for node in _graph(outputs)):
        return torch.autograd.grad(outputs, inputs, upstream, allow_unused=True)
    for x in inputs:
        x.grad = None
    torch.autograd.backward(outputs, upstream)
    return [x.grad for x in inputs]


def _graph(outputs: list[Tensor]) -> Iterator[Node]:
    """All operations that outputs come from."""
    waiting = [x.grad_fn for x in outputs]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [function for function, _ in node.next_functions]
            yield node


def _array(name: str, x: Tensor) -> np.ndarray:
    try:
        residues = number(x).finite().residues
    except NoMeaning as error:
        raise NoExactMeaning(name, str(error), "the end of the function, which returns it") from None
    assert isinstance(residues, Tensor)
    array: np.ndarray = residues.detach().cpu().numpy()
    return array
