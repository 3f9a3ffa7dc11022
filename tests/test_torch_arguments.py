"""Wrong arguments are refused with what to change."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_cases import BY_NAME, WITH_STATE, case_for, tensors

every_implementation = pytest.mark.parametrize("name", BY_NAME)


def refused(name: str, message: str, changed: dict[str, Any], **options: Any) -> None:
    implementation = BY_NAME[name]
    inputs = {**tensors(implementation, case_for(5)), **changed}
    with pytest.raises(ValueError, match=message):
        implementation.load()(**inputs, **options)


@every_implementation
def test_each_shape_is_checked(name: str) -> None:
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case_for(5))
    for position, (key, x) in enumerate(inputs.items()):
        refused(name, rf"{key} has the shape .*: pass \(", {key: x[None]})
        if position:  # the first one says how many tokens there are
            refused(name, rf"{key} has the shape .*: pass \(.*tokens = 5|value heads = 2", {key: x[:, :1]})


@every_implementation
def test_each_dtype_is_checked(name: str) -> None:
    for key, x in tensors(BY_NAME[name], case_for(5)).items():
        refused(name, f"{key} is torch.int64: pass a tensor of float64", {key: x.long()})
        refused(name, f"{key} is list: pass a tensor", {key: x.tolist()})


@every_implementation
def test_queries_and_values_of_two_dtypes_are_refused(name: str) -> None:
    value = next(x.name for x in BY_NAME[name].arguments if x.layout == "b t g v")
    inputs = tensors(BY_NAME[name], case_for(5))
    refused(name, "cast them to one dtype", {value: inputs[value].float()})


@every_implementation
def test_value_heads_are_a_multiple_of_the_query_heads(name: str) -> None:
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case_for(5))
    many = {x.name: inputs[x.name].repeat(1, 1, 3, 1) for x in implementation.arguments if " h" in x.layout}
    refused(name, "2 value heads and 3 query heads: pass a multiple", many)


@every_implementation
def test_sizes_are_positive_integers(name: str) -> None:
    for option in BY_NAME[name].options:
        for size in (0, -1, 2.0, True, "64"):
            refused(name, f"{option} is {size!r}: pass a p", {}, **{option: size})


def test_chunks_are_powers_of_two() -> None:
    refused("torch.gla.chunkwise", "chunk_size is 48: pass a power of two, 32 or 64", {}, chunk_size=48)


BOUNDS = [
    ([0, 3], "let it begin with 0 and end with the 5 tokens"),
    ([1, 5], "let it begin with 0"),
    ([0], "let it begin with 0"),
    ([0, 4, 2, 5], "decreases"),
    ([0.0, 5.0], "isn't a one-dimensional tensor of int32 or int64"),
    ([[0, 5]], "isn't a one-dimensional tensor"),
]


@every_implementation
def test_bounds_of_packed_sequences_are_checked(name: str) -> None:
    implementation = BY_NAME[name]
    given = tensors(implementation, case_for(5, with_state=False))
    layouts = {x.name: x.layout for x in implementation.arguments}
    one = {key: x[:1] if layouts[key].startswith("b") else x for key, x in given.items()}
    for bounds, message in BOUNDS:
        with pytest.raises(ValueError, match=message):
            implementation.load()(**one, cu_seqlens=torch.tensor(bounds))


@every_implementation
def test_a_batch_is_not_packed(name: str) -> None:
    refused(name, "the batch is 2: pass tensors with b = 1", {}, cu_seqlens=torch.tensor([0, 5]))


@pytest.mark.parametrize("name", WITH_STATE)
def test_there_is_a_state_for_each_sequence(name: str) -> None:
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case_for(5))
    more = {key: x.repeat(2, *(1,) * (x.ndim - 1)) for key, x in inputs.items() if key.startswith("initial")}
    refused(name, "there are 2 sequences: pass an initial state for each", more)


def test_cosines_are_half_as_many_as_channels() -> None:
    inputs = tensors(BY_NAME["torch.retnet.chunkwise"], case_for(5))
    wide = {key: inputs[key].repeat(1, 1, 1, 2) for key in ("cosine", "sine")}
    for way in ("chunkwise", "recurrent"):
        refused(f"torch.retnet.{way}", "pass d_k / 2 cosines and sines", wide)


def test_conjugate_gradients_take_a_step() -> None:
    refused("torch.mesanet.conjugate_gradients", "pass at least one step", {}, steps=0)


@every_implementation
def test_names_are_those_of_the_arguments(name: str) -> None:
    function = BY_NAME[name].load()
    inputs = tensors(BY_NAME[name], case_for(5))
    with pytest.raises(TypeError, match="has no argument gates"):
        function(**inputs, gates=None)
    with pytest.raises(TypeError, match="each of them once"):
        function(next(iter(inputs.values())), **inputs)
