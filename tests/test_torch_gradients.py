"""Gradients: equal to the statement's in a finite field, to difference quotients, and finite under strong gates."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch_cases import BY_NAME, DTYPES, called, case_for, in_order, tensors

from attnproof.implementation_cases import FAMILIES

EXAMPLES = max(1, settings().max_examples // 10)
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
@settings(max_examples=EXAMPLES)
@given(
    tokens=st.integers(1, 7),
    size=st.sampled_from([1, 2, 4]),
    strongest=st.sampled_from([0.0, 0.5]),
    with_state=st.booleans(),
    seed=st.integers(0, 99),
)
@example(tokens=5, size=2, strongest=0.5, with_state=True, seed=3)
def test_gradients_are_difference_quotients(
    name: str, tokens: int, size: int, strongest: float, with_state: bool, seed: int
) -> None:
    implementation = BY_NAME[name]
    case = case_for(tokens, batch=1, strongest=strongest, with_state=with_state, seed=seed)
    inputs = tensors(implementation, case)

    def function(*given: torch.Tensor) -> Any:
        named = dict(zip(inputs, given, strict=True))
        if "initial_curvature" in named:  # a Cholesky factor reads one triangle: the matrix stays symmetric
            named["initial_curvature"] = (named["initial_curvature"] + named["initial_curvature"].mT) / 2
        return called(implementation, named, size)

    assert torch.autograd.gradcheck(function, tuple(x.requires_grad_() for x in inputs.values()), fast_mode=True)


@every_gated
@settings(max_examples=max(1, EXAMPLES // 2))
@given(
    strongest=st.sampled_from([20.0, 500.0]),
    family=st.sampled_from(FAMILIES),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 99),
)
def test_strong_gates_leave_everything_finite(name: str, strongest: float, family: str, dtype: str, seed: int) -> None:
    implementation = BY_NAME[name]
    case = case_for(20, family=family, strongest=strongest, seed=seed)
    inputs = {key: x.requires_grad_() for key, x in tensors(implementation, case, dtype).items()}
    results = in_order(implementation.load()(**inputs))
    gradients = torch.autograd.grad([x.float().sum() for x in results], list(inputs.values()))
    assert all(x.isfinite().all() for x in (*results, *gradients))


@pytest.mark.parametrize("name", FORGETFUL)
def test_a_gate_of_minus_infinity_forgets(name: str) -> None:
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case_for(20))
    inputs["log_gate"][:, 7] = -torch.inf
    output = in_order(implementation.load()(**{key: x.requires_grad_() for key, x in inputs.items()}))[0]
    gradient = torch.autograd.grad(output[:, 8:].sum(), inputs["v"])[0]
    assert output.isfinite().all()
    assert (gradient[:, :7] == 0).all()
