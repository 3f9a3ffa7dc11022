"""Memory and compilation: nothing on the way is quadratic in the tokens, and torch.compile takes the whole function."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_cases import BY_NAME, case_for, tensors

IN_CHUNKS = [name for name, x in BY_NAME.items() if "chunk_size" in x.options]
IN_BLOCKS = [name for name, x in BY_NAME.items() if "block_size" in x.options]


class LargestTensor(TorchDispatchMode):
    """Notes how many entries the largest tensor has that an operator returns."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        returned = func(*args, **(kwargs or {}))
        sizes = [
            x.untyped_storage().nbytes() // x.element_size()
            for x in tree_leaves(returned)
            if isinstance(x, torch.Tensor)
        ]
        self.entries = max(self.entries, *sizes, 0)
        return returned


def largest(name: str, tokens: int, differentiated: bool) -> int:
    implementation = BY_NAME[name]
    case = case_for(implementation, tokens, strongest=0.1)
    inputs = {key: x.requires_grad_(differentiated) for key, x in tensors(implementation, case).items()}
    options = dict.fromkeys(implementation.options, 16)
    with LargestTensor() as seen:
        results = implementation.load()(**inputs, **options)
        if differentiated:
            output = results[0] if isinstance(results, tuple) else results
            torch.autograd.grad(output.sum(), list(inputs.values()), allow_unused=True)
    return seen.entries


@pytest.mark.parametrize("name", IN_CHUNKS + IN_BLOCKS)
@pytest.mark.parametrize("differentiated", [False, True], ids=["forward", "backward"])
def test_no_tensor_grows_faster_than_the_tokens(name: str, differentiated: bool) -> None:
    assert largest(name, 256, differentiated) <= 2 * largest(name, 128, differentiated)


def test_compiles_as_one_graph() -> None:
    implementation = BY_NAME["torch.gated_deltanet.chunkwise"]
    inputs = {key: x.requires_grad_() for key, x in tensors(implementation, case_for(implementation, 3)).items()}
    options = dict.fromkeys(implementation.options, 16)
    compiled = torch.compile(implementation.load(), backend="aot_eager", fullgraph=True)
    outputs = []
    for function in (implementation.load(), compiled):
        results = function(**inputs, **options)
        output = results[0] if isinstance(results, tuple) else results
        outputs.append((output, *torch.autograd.grad(output.sum(), list(inputs.values()), allow_unused=True)))
    assert all(torch.equal(eager, graph) for eager, graph in zip(*outputs, strict=True) if eager is not None)
