"""Every Torch implementation, in every precision, computes its statement within the derived tolerance."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_cases import cases
from torch_cases import BY_NAME, DTYPES, QUADRATIC, called, case_for, ratios, tensors

from attnproof.implementation_cases import Case, drawn, environment, statement
from derivations.language import V
from derivations.retnet import S_pair
from gpu.registry import Implementation
from numerics.algebras.floats import numpy_float64
from numerics.head_layouts import HeadSizes, to_heads
from numerics.proofs.tolerances import tolerances_of
from numerics.run import run

EXAMPLES = max(2, settings().max_examples // 10)
LONGEST = 2000 if EXAMPLES > 2 else 200
every_implementation = pytest.mark.parametrize("name", BY_NAME)


def longest(name: str, family: str) -> int:
    """Statements as n x n matrices are kept small; errors of large keys grow exponentially, until they overflow."""
    if family == "large keys":
        return 24
    return min(LONGEST, 300) if name in QUADRATIC else LONGEST


def fits(implementation: Implementation, case: Case, dtype: str) -> bool:
    """Whether what is stated is finite, and in other precisions far below the largest float32."""
    env = environment(implementation, drawn(implementation, case, dtype), case)
    with np.errstate(all="ignore"):
        outcome = run(statement(implementation), env, numpy_float64())
    limit = np.inf if dtype == "float64" else 1e15
    return all(bool(np.all(abs(x) < limit)) for x in (outcome.output, *outcome.states))


def worst(name: str, case: Case, dtype: str) -> float:
    """The largest error in tolerances."""
    implementation = BY_NAME[name]
    inputs = tensors(implementation, case, dtype)
    return max(ratios(implementation, called(implementation, inputs, case.chunk_size), inputs, case, dtype))


@every_implementation
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_computes_its_statement(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(partial(longest, name), (6, 5), batches=2, chunk_sizes=(1, 4, 16, 64)))
    dtype = data.draw(st.sampled_from(DTYPES))
    assume(fits(BY_NAME[name], case, dtype))
    assert worst(name, case, dtype) <= 1


@pytest.mark.parametrize(
    ("name", "dtype"), [("torch.gated_deltanet.chunkwise", "float32"), ("torch.kda.chunkwise", "float64")]
)
def test_computes_its_statement_over_many_chunks(name: str, dtype: str) -> None:
    case = Case(2000, strongest=0.05, groups=1, key_width=4, value_width=3, chunk_size=64)
    assert worst(name, case, dtype) <= 1


@every_implementation
def test_a_value_that_is_off_by_a_thousandth_is_found(name: str) -> None:
    implementation, case = BY_NAME[name], case_for(9)
    inputs = tensors(implementation, case, "float32")
    value = next(x.name for x in implementation.arguments if x.layout == "b t g v")
    wrong = {**inputs, value: inputs[value] * 1.001}
    assert ratios(implementation, implementation.load()(**wrong), inputs, case, "float32")[0] > 1


def test_twice_as_many_conjugate_gradients_as_channels_settle_it() -> None:
    """As many are enough in exact numbers, and in floats leave an error that is far outside the tolerance."""
    implementation, case = BY_NAME["torch.mesanet.conjugate_gradients"], case_for(30, key_width=16, batch=1)
    inputs = tensors(implementation, case)
    of_steps = lambda steps: max(ratios(implementation, implementation.load()(**inputs, steps=steps), inputs, case))
    assert of_steps(None) == of_steps(2 * 16) <= 1
    assert of_steps(16) > 10


@pytest.mark.parametrize("way", ["chunkwise", "recurrent"])
def test_pairs_of_channels_turn_each_by_itself(way: str) -> None:
    """The statement has one pair of channels: the output of three is the sum of three statements."""
    implementation, sizes = BY_NAME[f"torch.retnet.{way}"], HeadSizes(20, 6, 3, 1, 2, 2)
    parts = [tensors(implementation, case_for(20, seed=seed)) for seed in range(3)]
    turned = ("q", "k", "cosine", "sine")
    whole = {key: torch.cat([part[key] for part in parts], dim=-1) for key in turned}
    whole |= {"initial_state": torch.cat([part["initial_state"] for part in parts], dim=-2)}
    output, state = implementation.load()(**{**parts[0], **whole})
    stated, allowed = 0.0, 0.0
    for pair, part in enumerate(parts):
        own = {**parts[0], **{key: part[key] for key in (*turned, "initial_state")}}
        env = environment(implementation, {key: x.numpy() for key, x in own.items()}, case_for(20))
        exact = run(statement(implementation), env, numpy_float64())
        tolerance = tolerances_of(statement(implementation), env, 2.0**-53, np.random.default_rng(0))
        channels = slice(2 * pair, 2 * pair + 2)
        last = to_heads(state[..., channels, :].numpy(), "n g k v", S_pair, replace(sizes, d_k=2))
        assert (abs(last - exact.states[0]).max(axis=-1) <= tolerance[1]).all()
        stated, allowed = stated + exact.output, allowed + tolerance[0]
    found = to_heads(output.numpy(), "b t g v", V, sizes)
    assert (abs(found - stated).max(axis=-1) <= allowed).all()
