"""Sequences packed into one, and a sequence in two parts: each is what the statement says of each sequence."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch_cases import BY_NAME, DTYPES, WITH_STATE, Named, called, case_for, in_order, ratios, tensors

from gpu.registry import Implementation

EXAMPLES = max(1, settings().max_examples // 10)
every_implementation = pytest.mark.parametrize("name", BY_NAME)
sizes_of_chunks = st.sampled_from([1, 4, 16, 64])


def part(implementation: Implementation, given: Named, start: int, stop: int) -> Named:
    """The arguments with some tokens only."""
    layouts = {x.name: x.layout for x in implementation.arguments}
    return {name: x[:, start:stop] if layouts[name].startswith("b t") else x for name, x in given.items()}


@every_implementation
@settings(max_examples=EXAMPLES)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    size=sizes_of_chunks,
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 99),
)
@example(lengths=[7, 0, 33, 1, 16], size=16, dtype="float64", seed=0)
@example(lengths=[0, 0], size=16, dtype="float64", seed=0)
def test_packed_sequences_do_not_see_each_other(
    name: str, lengths: list[int], size: int, dtype: str, seed: int
) -> None:
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case_for(sum(lengths), batch=1, lengths=tuple(lengths), seed=seed), dtype)
    bounds = torch.tensor([0, *lengths]).cumsum(0)
    packed = called(implementation, inputs, size, cu_seqlens=bounds)
    layouts = {x.name: x.layout for x in implementation.arguments}
    for index, length in enumerate(lengths):
        start, stop = int(bounds[index]), int(bounds[index + 1])
        states = {key: x[index : index + 1] for key, x in inputs.items() if layouts[key].startswith("n")}
        own = {**part(implementation, inputs, start, stop), **states}
        results = (packed[0][:, start:stop], *(x[index : index + 1] for x in packed[1:]))
        if length:
            assert max(ratios(implementation, results, own, case_for(length, batch=1), dtype)) <= 1
        else:
            assert all(torch.equal(x, y.to(x.dtype)) for x, y in zip(results[1:], states.values(), strict=True))


@pytest.mark.parametrize("name", WITH_STATE)
@settings(max_examples=2 * EXAMPLES)
@given(tokens=st.integers(2, 60), share=st.floats(0, 1), size=sizes_of_chunks, seed=st.integers(0, 99))
def test_two_parts_are_the_whole(name: str, tokens: int, share: float, size: int, seed: int) -> None:
    implementation, case = BY_NAME[name], case_for(tokens, seed=seed)
    cut = 1 + int(share * (tokens - 2))
    inputs = tensors(implementation, case)
    states = [x.name for x in implementation.arguments if x.layout.startswith("n")]
    first, *carried = called(implementation, part(implementation, inputs, 0, cut), size)
    rest = {**part(implementation, inputs, cut, tokens), **dict(zip(states, carried, strict=True))}
    second, *last = called(implementation, rest, size)
    assert max(ratios(implementation, (torch.cat([first, second], dim=1), *last), inputs, case)) <= 1


@every_implementation
def test_no_tokens_leave_the_state_as_it_is(name: str) -> None:
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case_for(0))
    output, *states = in_order(implementation.load()(**inputs))
    assert output.shape == (2, 0, 2, 3)
    assert all(map(torch.equal, states, [x for name, x in inputs.items() if name.startswith("initial")]))


@every_implementation
def test_fewer_tokens_than_channels_in_a_chunk_that_is_filled_up(name: str) -> None:
    implementation, case = BY_NAME[name], case_for(3, with_state=False)
    inputs = tensors(implementation, case)
    assert max(ratios(implementation, implementation.load()(**inputs), inputs, case)) <= 1
