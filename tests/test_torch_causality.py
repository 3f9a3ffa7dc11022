"""Later tokens don't change earlier rows by a bit, and neither do other sequences and heads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_cases import BY_NAME, case_for, tensors

DTYPES = (torch.float64, torch.float32, torch.bfloat16)


def output_of(name: str, inputs: dict[str, torch.Tensor], **options: Any) -> torch.Tensor:
    results = BY_NAME[name].load()(**inputs, **options)
    return results[0] if isinstance(results, tuple) else results


@pytest.mark.parametrize("name", [x.name for x in BY_NAME.values() if x.causal_bit_for_bit])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cut", [1, 21])
def test_later_tokens_do_not_change_a_bit(name: str, dtype: torch.dtype, cut: int) -> None:
    implementation = BY_NAME[name]
    case = case_for(implementation, 40, dtype=dtype, strongest=3.0)
    inputs, others = tensors(implementation, case), tensors(implementation, case.of(seed=1))
    changed = {
        x.name: torch.cat([inputs[x.name][:, :cut], others[x.name][:, cut:]], dim=1)
        if x.layout.startswith("b t")
        else inputs[x.name]
        for x in implementation.arguments
    }
    before, after = output_of(name, inputs), output_of(name, changed)
    assert torch.equal(before[:, :cut], after[:, :cut])
    assert not torch.equal(before[:, cut:], after[:, cut:])


@pytest.mark.parametrize("name", BY_NAME)
def test_grouped_heads_are_repeated_heads(name: str) -> None:
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case_for(implementation, 20))
    repeated = {
        x.name: inputs[x.name].repeat_interleave(2, dim=2) if " h" in x.layout else inputs[x.name]
        for x in implementation.arguments
    }
    assert torch.equal(output_of(name, inputs), output_of(name, repeated))


@pytest.mark.parametrize("name", BY_NAME)
def test_strides_do_not_matter(name: str) -> None:
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case_for(implementation, 20))
    strided = {key: torch.stack([x, x], dim=-1)[..., 0] for key, x in inputs.items()}
    assert torch.equal(output_of(name, inputs), output_of(name, strided))
