"""Later tokens don't change earlier rows by a bit where that is promised; groups and strides are roundings apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_cases import BY_NAME, DTYPES, called, case_for, ratios, tensors

EXAMPLES = max(2, settings().max_examples // 10)
every_implementation = pytest.mark.parametrize("name", BY_NAME)


@pytest.mark.parametrize("name", [x.name for x in BY_NAME.values() if x.causal_bit_for_bit])
@settings(max_examples=EXAMPLES)
@given(
    cut=st.integers(1, 39), size=st.sampled_from([1, 16, 64]), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 99)
)
def test_later_tokens_do_not_change_a_bit(name: str, cut: int, size: int, dtype: str, seed: int) -> None:
    implementation = BY_NAME[name]
    case = case_for(40, strongest=3.0, seed=seed)
    inputs, others = (tensors(implementation, x, dtype) for x in (case, replace(case, seed=seed + 1)))
    changed = {
        x.name: torch.cat([inputs[x.name][:, :cut], others[x.name][:, cut:]], dim=1)
        if x.layout.startswith("b t")
        else inputs[x.name]
        for x in implementation.arguments
    }
    before, after = (called(implementation, x, size)[0] for x in (inputs, changed))
    assert torch.equal(before[:, :cut], after[:, :cut])
    assert not torch.equal(before[:, cut:], after[:, cut:])


@every_implementation
def test_grouped_heads_are_repeated_heads(name: str) -> None:
    """Within tolerance: for another layout in memory a matrix library may take another way."""
    implementation, case = BY_NAME[name], case_for(20)
    inputs = tensors(implementation, case)
    repeated = {
        x.name: inputs[x.name].repeat_interleave(2, dim=2) if " h" in x.layout else inputs[x.name]
        for x in implementation.arguments
    }
    assert max(ratios(implementation, implementation.load()(**repeated), inputs, case)) <= 1


@every_implementation
def test_strides_do_not_matter(name: str) -> None:
    implementation, case = BY_NAME[name], case_for(20)
    inputs = tensors(implementation, case)
    strided = {key: torch.stack([x, x], dim=-1)[..., 0] for key, x in inputs.items()}
    assert not any(x.is_contiguous() for x in strided.values() if x.numel() > 1)
    assert max(ratios(implementation, implementation.load()(**strided), inputs, case)) <= 1
