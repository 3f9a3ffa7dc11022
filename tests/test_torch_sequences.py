"""Sequences packed into one, and a sequence in two parts: each is what the statement says of each sequence."""

from __future__ import annotations

import pytest
import torch
from torch_cases import BY_NAME, WITH_STATE, Case, Named, case_for, ratios, tensors

from gpu.registry import Implementation
from numerics.head_layouts import HeadSizes

LENGTHS = ([7, 0, 33, 1, 16], [0, 0])


def part(implementation: Implementation, given: Named, start: int, stop: int) -> Named:
    """The arguments with some tokens only."""
    layouts = {x.name: x.layout for x in implementation.arguments}
    return {name: x[:, start:stop] if layouts[name].startswith("b t") else x for name, x in given.items()}


def in_order(results: object) -> tuple[torch.Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("name", BY_NAME)
def test_packed_sequences_do_not_see_each_other(name: str, lengths: list[int]) -> None:
    implementation = BY_NAME[name]
    small = case_for(implementation, 1)
    sizes = HeadSizes.packed(lengths, small.sizes.d_k, 3)
    inputs = tensors(implementation, Case(sizes))
    bounds = torch.tensor([0, *lengths]).cumsum(0)
    options = dict.fromkeys(implementation.options, 16)
    packed = in_order(implementation.load()(**inputs, cu_seqlens=bounds, **options))
    layouts = {x.name: x.layout for x in implementation.arguments}
    for index, length in enumerate(lengths):
        start, stop = int(bounds[index]), int(bounds[index + 1])
        states = {key: x[index : index + 1] for key, x in inputs.items() if layouts[key].startswith("n")}
        own = {**part(implementation, inputs, start, stop), **states}
        results = (packed[0][:, start:stop], *(x[index : index + 1] for x in packed[1:]))
        if length:
            assert max(ratios(implementation, results, own, Case(sizes.one_sequence(index)))) <= 1
        else:
            assert all(map(torch.equal, results[1:], states.values()))


@pytest.mark.parametrize("cut", [1, 23])
@pytest.mark.parametrize("name", WITH_STATE)
def test_two_parts_are_the_whole(name: str, cut: int) -> None:
    implementation = BY_NAME[name]
    case = case_for(implementation, 40)
    inputs = tensors(implementation, case)
    states = [x.name for x in implementation.arguments if x.layout.startswith("n")]
    options = dict.fromkeys(implementation.options, 16)
    first, *carried = implementation.load()(**part(implementation, inputs, 0, cut), **options)
    rest = {**part(implementation, inputs, cut, 40), **dict(zip(states, carried, strict=True))}
    second, *last = implementation.load()(**rest, **options)
    assert max(ratios(implementation, (torch.cat([first, second], dim=1), *last), inputs, case)) <= 1


@pytest.mark.parametrize("name", BY_NAME)
def test_no_tokens_leave_the_state_as_it_is(name: str) -> None:
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case_for(implementation, 0))
    output, *states = in_order(implementation.load()(**inputs))
    assert output.shape == (2, 0, 2, 3)
    assert all(map(torch.equal, states, [x for name, x in inputs.items() if name.startswith("initial")]))


@pytest.mark.parametrize("name", BY_NAME)
def test_fewer_tokens_than_channels_in_a_chunk_that_is_filled_up(name: str) -> None:
    implementation = BY_NAME[name]
    case = case_for(implementation, 3, with_state=False)
    inputs = tensors(implementation, case)
    assert max(ratios(implementation, implementation.load()(**inputs), inputs, case)) <= 1
