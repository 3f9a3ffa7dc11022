"""Memory and compilation: nothing on the way is quadratic in the tokens, and torch.compile takes the whole function."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import settings
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_cases import BY_NAME, case_for, ratios, tensors

IN_CHUNKS = [name for name, x in BY_NAME.items() if "chunk_size" in x.options]
IN_BLOCKS = [name for name, x in BY_NAME.items() if "block_size" in x.options]
MANY = settings().max_examples > 100
"""Whether there is time to compile more: `make test-deep`."""
COMPILED = [
    "torch.gated_deltanet.chunkwise",
    "torch.gla.chunkwise",
    "torch.mesanet.conjugate_gradients",
    "torch.forgetting_attention.blockwise",
    "torch.rwkv7.recurrent",
]


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
    case = case_for(tokens, strongest=0.1)
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


@pytest.mark.parametrize("name", COMPILED if MANY else COMPILED[:1])
def test_compiles_as_one_graph(name: str) -> None:
    """Compiled, it computes its statement, and derivatives that are difference quotients."""
    implementation, case = BY_NAME[name], case_for(3, strongest=0.5)
    inputs = {key: x.requires_grad_() for key, x in tensors(implementation, case).items()}
    compiled = torch.compile(implementation.load(), backend="aot_eager", fullgraph=True)

    def function(*given: torch.Tensor) -> Any:
        return compiled(**dict(zip(inputs, given, strict=True)), **dict.fromkeys(implementation.options, 2))

    assert max(ratios(implementation, function(*inputs.values()), inputs, case)) <= 1
    assert torch.autograd.gradcheck(function, tuple(inputs.values()), fast_mode=True)
