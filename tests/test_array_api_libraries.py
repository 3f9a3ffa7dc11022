"""The same lines on Torch, in memory that grows like the number of tokens, and only on arguments that fit together."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

from attnproof.implementation_cases import Case, called, drawn, errors_over_tolerance
from gpu.cupy_kernels.declared import CHUNKWISE
from gpu.cupy_kernels.exchange import on_torch
from gpu.registry import Implementation

each_system = pytest.mark.parametrize("implementation", CHUNKWISE, ids=lambda x: x.derivation)


def chosen(derivation: str) -> Implementation:
    return next(x for x in CHUNKWISE if x.derivation == derivation)


@each_system
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_torch_tensors_go_through_the_array_api(implementation: Implementation, dtype: str) -> None:
    case = Case(37, strongest=3.0, seed=4)
    arguments = drawn(implementation, case, dtype)
    returned = called(implementation, arguments, lambda x: torch.tensor(x, dtype=getattr(torch, dtype)), chunk_size=16)
    assert {str(x.dtype) for x in returned} == {f"torch.{dtype}"}
    found = [x.double().numpy() for x in returned]
    assert max(errors_over_tolerance(implementation, found, arguments, case, dtype).values()) <= 1


def peak(implementation: Implementation, tokens: int) -> int:
    """Bytes at the peak of one call, beyond the arguments."""
    arguments = drawn(implementation, Case(tokens, key_width=4, value_width=4, with_state=False), "float64")
    tracemalloc.start()
    try:
        called(implementation, arguments, np.asarray, chunk_size=64)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@each_system
def test_memory_grows_like_the_number_of_tokens(implementation: Implementation) -> None:
    """Four times the tokens take sixteen times the memory where an n x n matrix is formed."""
    assert peak(implementation, 2048) < 5 * peak(implementation, 512)


def test_torch_tensors_share_their_memory_with_numpy() -> None:
    seen: list[Any] = []

    def keeps(q: Any, *, scale: float) -> tuple[Any, Any]:
        seen.append(q)
        return q, scale * q

    q = torch.arange(6.0)
    same, doubled = on_torch(keeps)(q, scale=2.0)
    assert isinstance(seen[0], np.ndarray)
    q[0] = 7.0
    assert seen[0][0] == 7.0
    assert same.data_ptr() == q.data_ptr()
    assert torch.equal(doubled, torch.arange(6.0) * 2)


def test_a_chunkwise_function_on_torch_tensors() -> None:
    implementation = chosen("gated_deltanet")
    arguments = drawn(implementation, Case(20), "float64")
    tensors = {name: torch.tensor(x) for name, x in arguments.items()}
    output, state = on_torch(implementation.load())(**tensors, chunk_size=8)
    expected = called(implementation, arguments, np.asarray, chunk_size=8)
    assert isinstance(output, torch.Tensor)
    assert np.array_equal(output.numpy(), expected[0])
    assert np.array_equal(state.numpy(), expected[1])


def test_gradients_arent_lost_in_silence() -> None:
    with pytest.raises(ValueError, match=r"no backward pass.*detach"):
        on_torch(chosen("decay").load())(torch.zeros(1, 2, 1, 2, requires_grad=True))


def changed(arguments: dict[str, np.ndarray], **others: Any) -> dict[str, np.ndarray]:
    return arguments | {name: change(arguments[name]) for name, change in others.items()}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no heads": (
        {"q": lambda x: x[:, :, 0]},
        r"q has 4 dimensions, batch, tokens, heads, width; not the shape \(1, 5,",
    ),
    "fewer keys": ({"k": lambda x: x[:, :4]}, r"k has the layout 'b t h k', here \(1, 5, 2, 6\); its shape is \(1, 4"),
    "a gate with channels": (
        {"log_gate": lambda x: x[..., None]},
        r"log_gate has the layout 'b t g', here \(1, 5, 4\)",
    ),
    "another precision": ({"beta": lambda x: x.astype("float32")}, r"beta is float32 and q is float64: convert all"),
    "a transposed state": ({"initial_state": lambda x: x.swapaxes(2, 3)}, r"initial_state has the layout 'b g k v'"),
    "three heads for two": ({"v": lambda x: x[:, :, :3]}, r"the heads of v are a multiple of those of q, not 3 for 2"),
    "no tokens": ({"q": lambda x: x[:, :0]}, r"a sequence has one token or more"),
}


@pytest.mark.parametrize("reason", BAD)
def test_arguments_that_dont_fit_are_refused(reason: str) -> None:
    changes, message = BAD[reason]
    arguments = drawn(chosen("gated_deltanet"), Case(5, heads=2), "float64")
    with pytest.raises(ValueError, match=message):
        chosen("gated_deltanet").load()(**changed(arguments, **changes))


@pytest.mark.parametrize("size", [0, -1, 48])
def test_chunk_sizes_are_powers_of_two(size: int) -> None:
    arguments = drawn(chosen("decay"), Case(5), "float64")
    with pytest.raises(ValueError, match=f"chunk_size is a power of two, such as 64, not {size}"):
        chosen("decay").load()(**arguments, chunk_size=size)


def test_channels_that_turn_come_in_pairs() -> None:
    arguments = drawn(chosen("retnet"), Case(5), "float64")
    odd = changed(arguments, q=lambda x: x[..., :1], k=lambda x: x[..., :1])
    with pytest.raises(ValueError, match="an even width, not 1"):
        chosen("retnet").load()(**odd)


def test_more_pairs_of_channels_add_up() -> None:
    """The statement of RetNet has one pair: the outputs of several are sums, and each has rows of the state."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(1, 21, 2, width)) for width in (6, 6, 3))
    angle = rng.uniform(-3, 3, (1, 21, 2, 3))
    gate, state = -rng.random((1, 21, 2)), rng.normal(size=(1, 2, 6, 3))
    retnet = chosen("retnet").load()
    output, last = retnet(q, k, v, gate, np.cos(angle), np.sin(angle), state, chunk_size=8)
    pairs = [slice(2 * pair, 2 * pair + 2) for pair in range(3)]
    each = [
        retnet(q[..., at], k[..., at], v, gate, np.cos(turn), np.sin(turn), state[:, :, at], chunk_size=8)
        for at, turn in zip(pairs, np.split(angle, 3, axis=-1), strict=True)
    ]
    assert np.allclose(output, sum(part[0] for part in each), rtol=0, atol=1e-12)
    assert np.allclose(last, np.concatenate([part[1] for part in each], axis=2), rtol=0, atol=1e-12)
