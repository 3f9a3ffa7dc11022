"""Exact mode on a GPU: the residues are those of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

import attnproof  # noqa: E402
from gpu.torch_kernels import gated_deltanet, mesanet  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no device that Torch can use"),
]


def masked(q: Tensor, k: Tensor, v: Tensor, g: Tensor, rate: Tensor) -> Tensor:
    """Exponents with -inf, quotients, powers, plain constants, and memory that is written into."""
    total = g.cumsum(1)
    outside = torch.ones(g.shape[1], g.shape[1], dtype=torch.bool, device=g.device).triu(1)
    between = (total[:, :, None] - total[:, None]).masked_fill(outside, float("-inf")).exp()
    out = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    out[:, :] = (q @ k.mT * between) @ v / (1 + rate**2) * q.shape[-1] ** -0.5
    return out * torch.tensor([0.5, 0.1, 3.0], device=v.device) + torch.linalg.solve(k.mT @ k, q.mT).mT


SIZES = {"q": (2, 40, 3), "k": (2, 40, 3), "v": (2, 40, 3), "g": (2, 40), "rate": (2, 40, 1)}
HEADS = {"q": (1, 40, 1, 4), "k": (1, 40, 1, 4), "v": (1, 40, 2, 4), "log_gate": (1, 40, 2), "beta": (1, 40, 2)}
FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, ...]], str]] = {
    "masked": (masked, SIZES, "g"),
    "gated_deltanet": (gated_deltanet.chunkwise, HEADS, "log_gate"),
    "mesanet": (
        mesanet.conjugate_gradients,
        {name: shape for name, shape in HEADS.items() if name != "beta"} | {"ridge": (1, 40, 2, 4)},
        "log_gate",
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_residues_are_those_of_the_cpu(name: str) -> None:
    function, shapes, log = FUNCTIONS[name]
    one, other = (
        attnproof.exact(
            function, **{key: torch.zeros(shape, device=device) for key, shape in shapes.items()}, log=[log]
        )
        for device in ("cpu", "cuda")
    )
    assert one.differences(other) == []
