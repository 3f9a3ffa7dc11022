"""Errors planted in the machinery that the systems share are found by the comparison with the statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_cases import BY_NAME, called, case_for, ratios, tensors

from attnproof.exactly import compare_exactly
from gpu.torch_kernels import carry, chunks, decays, gated_deltanet, gla, linear_attention, rwkv7
from numerics.head_layouts import HeadSizes

Plant = Callable[[pytest.MonkeyPatch], None]


def _no_decay_of_the_carry(patch: pytest.MonkeyPatch) -> None:
    original = gated_deltanet.carry
    patch.setattr(gated_deltanet, "carry", lambda decay, *rest, **more: original(torch.ones_like(decay), *rest, **more))


def _keys_fade_by_their_own_gate(patch: pytest.MonkeyPatch) -> None:
    original = gated_deltanet.decays

    def wrong(log_gate: torch.Tensor) -> decays.Decays:
        right = original(log_gate)
        return right._replace(to_end=right.to_end * log_gate.exp().unsqueeze(-1))

    patch.setattr(gated_deltanet, "decays", wrong)


def _one_correction_less(patch: pytest.MonkeyPatch) -> None:
    """I - N in the place of (I + N)^-1: right for two tokens."""
    identity = lambda x: torch.eye(x.shape[-1], dtype=x.dtype)
    patch.setattr(gated_deltanet, "unit_lower_inverse", lambda x: identity(x) - x.tril(-1))


def _gates_late_by_one(patch: pytest.MonkeyPatch) -> None:
    original = gla.ChannelDecays
    patch.setattr(gla, "ChannelDecays", lambda log_gate: original(log_gate.roll(1, dims=-2)))


def _own_gate_left_out(patch: pytest.MonkeyPatch) -> None:
    original = decays.Between.compare
    patch.setattr(
        decays.Between,
        "compare",
        lambda self, rows, columns, diagonal=None, own=True: original(self, rows, columns, diagonal, False),
    )


def _heads_mixed_up(patch: pytest.MonkeyPatch) -> None:
    original = chunks._Call._cut
    patch.setattr(
        chunks._Call,
        "_cut",
        lambda self, a, piece: original(self, a, piece).flip(1) if a.name == "v" else original(self, a, piece),
    )


def _state_forgotten_between_segments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(chunks, "SEGMENT_ON_CPU", 16)
    original = linear_attention.carry
    patch.setattr(
        linear_attention,
        "carry",
        lambda *given: original(*given[:4], 0 * given[4], *given[5:]),  # the fifth is the state
    )


def _removal_too_strong(patch: pytest.MonkeyPatch) -> None:
    original = rwkv7.carry
    patch.setattr(rwkv7, "carry", lambda decay, keys, *rest, **more: original(decay, keys * 1.01, *rest, **more))


PLANTED: list[tuple[str, Plant]] = [
    ("torch.gated_deltanet.chunkwise", _no_decay_of_the_carry),
    ("torch.gated_deltanet.chunkwise", _keys_fade_by_their_own_gate),
    ("torch.gated_deltanet.chunkwise", _one_correction_less),
    ("torch.gla.chunkwise", _gates_late_by_one),
    ("torch.kda.chunkwise", _own_gate_left_out),
    ("torch.gla.chunkwise", _own_gate_left_out),
    ("torch.decay.chunkwise", _heads_mixed_up),
    ("torch.linear_attention.chunkwise", _state_forgotten_between_segments),
    ("torch.rwkv7.chunkwise", _removal_too_strong),
]


@pytest.mark.parametrize(("name", "plant"), PLANTED, ids=lambda x: getattr(x, "__name__", x))
def test_a_planted_error_is_found(name: str, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    implementation = BY_NAME[name]
    case = case_for(40)
    inputs = tensors(implementation, case, "float32")
    worst = lambda: max(ratios(implementation, called(implementation, inputs, 16), inputs, case, "float32"))
    assert worst() <= 1
    plant(monkeypatch)
    assert worst() > 10


def _backward_of_the_carry_without_decay(original: Any) -> Any:
    def wrong(ctx: Any, *cotangents: torch.Tensor) -> Any:
        decay, *rest = original(ctx, *cotangents)
        return 0 * decay, *rest

    return staticmethod(wrong)


@pytest.mark.parametrize(
    ("name", "function", "options"),
    [
        ("torch.gla.chunkwise", carry.Carrying, {}),
        ("torch.kda.chunkwise", carry.Carrying, {}),
        ("torch.mesanet.conjugate_gradients", carry.Summing, {"steps": 3}),
    ],
)
def test_a_wrong_derivative_is_found(
    name: str, function: Any, options: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    implementation = BY_NAME[name]
    # in exact numbers conjugate gradients have to end after as many steps as there are channels, and not before: chunks
    # are full, since behind a sequence's end there is no cotangent to solve for
    sizes = HeadSizes.packed([2, 4], 3, 2) if options else HeadSizes(5, 3, 2, 1, 1, 1)
    compared = lambda: compare_exactly(
        implementation.load(), implementation, sizes, options={"chunk_size": 2, **options}
    )
    assert compared().ok
    monkeypatch.setattr(function, "backward", _backward_of_the_carry_without_decay(function.backward))
    wrong = [of for of, difference in compared().differences.items() if difference is not None]
    assert wrong == ["gradient of log_gate"]
