"""Gradients: equal to the statement's in a finite field, to difference quotients, and finite under strong gates."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_cases import BY_NAME, KEYS, case_for, tensors

EXAMPLES = settings.default.max_examples // 10 if settings.default else 2
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
every_implementation = pytest.mark.parametrize("name", BY_NAME)
every_gated = pytest.mark.parametrize(
    "name", [name for name, x in BY_NAME.items() if any(argument.scale == "log" for argument in x.arguments)]
)
FORGETFUL = [
    name
    for name, x in BY_NAME.items()
    if any(argument.name == "log_gate" for argument in x.arguments) and x.derivation not in ("comba", "rwkv7")
]
"""Implementations whose gate lets nothing through; Comba and RWKV-7 predict from the state before it fades."""


@every_implementation
def test_gradients_are_difference_quotients(name: str) -> None:
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case_for(implementation, 5, strongest=0.5, seed=3))
    options = dict.fromkeys(implementation.options, 2)

    def function(*given: torch.Tensor) -> Any:
        named = dict(zip(inputs, given, strict=True))
        if "initial_curvature" in named:  # a Cholesky factor reads one triangle: the matrix stays symmetric
            named["initial_curvature"] = (named["initial_curvature"] + named["initial_curvature"].mT) / 2
        return implementation.load()(**named, **options)

    assert torch.autograd.gradcheck(function, tuple(x.requires_grad_() for x in inputs.values()), fast_mode=True)


@every_gated
@settings(max_examples=max(1, EXAMPLES // 2))
@given(
    strongest=st.sampled_from([20.0, 500.0]),
    keys=st.sampled_from(KEYS),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 99),
)
def test_strong_gates_leave_everything_finite(
    name: str, strongest: float, keys: str, dtype: torch.dtype, seed: int
) -> None:
    implementation = BY_NAME[name]
    case = case_for(implementation, 20, strongest=strongest, keys=keys, dtype=dtype, seed=seed)
    inputs = {key: x.requires_grad_() for key, x in tensors(implementation, case).items()}
    results = implementation.load()(**inputs)
    results = results if isinstance(results, tuple) else (results,)
    gradients = torch.autograd.grad([x.float().sum() for x in results], list(inputs.values()))
    assert all(x.isfinite().all() for x in (*results, *gradients))


@pytest.mark.parametrize("name", FORGETFUL)
def test_a_gate_of_minus_infinity_forgets(name: str) -> None:
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case_for(implementation, 20))
    inputs["log_gate"][:, 7] = -torch.inf
    results = implementation.load()(**{key: x.requires_grad_() for key, x in inputs.items()})
    output = results[0] if isinstance(results, tuple) else results
    gradient = torch.autograd.grad(output[:, 8:].sum(), inputs["v"])[0]
    assert output.isfinite().all()
    assert (gradient[:, :7] == 0).all()
