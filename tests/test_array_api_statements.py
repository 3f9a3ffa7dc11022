"""The chunkwise array-API functions against their statements: every system, both precisions, inputs of every kind.

The judge is `attnproof.implementation_cases`: the statement in float64, and a tolerance for each row from rounding
noise.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_cases import cases

from attnproof.implementation_cases import Case, called, drawn, environment, errors_over_tolerance, statement
from gpu.cupy_kernels import blocks, carried, decays, forgetting_attention
from gpu.cupy_kernels.declared import CHUNKWISE
from gpu.registry import Implementation
from numerics.algebras.floats import numpy_float64
from numerics.run import run

QUADRATIC = ("forgetting_attention", "deltaformer")
EXAMPLES = max(settings().max_examples // 5, 1)
"""Of each of the systems, so that the quick profile tries some sixty in all."""


def longest(implementation: Implementation, family: str) -> int:
    """Statements as n x n matrices are kept small; errors of large keys grow exponentially, until they overflow."""
    if family == "large keys":
        return 24
    return 300 if implementation.derivation in QUADRATIC else 2000


def in_float64(returned: list[Any]) -> list[np.ndarray]:
    return [np.asarray(x, dtype=np.float64) for x in returned]


def run_on_numpy(implementation: Implementation, arguments: dict[str, np.ndarray], dtype: str, size: int) -> list[Any]:
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return called(implementation, arguments, lambda x: x.astype(dtype), chunk_size=size)


def worst(implementation: Implementation, case: Case, dtype: str) -> float:
    """The largest error in units of its tolerance."""
    arguments = drawn(implementation, case, dtype)
    returned = run_on_numpy(implementation, arguments, dtype, case.chunk_size)
    return max(errors_over_tolerance(implementation, in_float64(returned), arguments, case, dtype).values())


def fits(implementation: Implementation, case: Case, dtype: str) -> bool:
    """Whether what is stated stays far below the largest float32, intermediate values included."""
    env = environment(implementation, drawn(implementation, case, dtype), case)
    with np.errstate(all="ignore"):
        outcome = run(statement(implementation), env, numpy_float64())
    return all(bool(np.all(abs(x) < 1e15)) for x in (outcome.output, *outcome.states))


each_system = pytest.mark.parametrize("implementation", CHUNKWISE, ids=lambda x: x.derivation)


@each_system
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_it_computes_its_statement(implementation: Implementation, data: st.DataObject) -> None:
    drawn_cases = cases(partial(longest, implementation), (8, 8), chunk_sizes=(1, 2, 16, 64, 128))
    case, dtype = data.draw(drawn_cases), data.draw(st.sampled_from(implementation.dtypes))
    assume(dtype == "float64" or fits(implementation, case, dtype))
    assert worst(implementation, case, dtype) <= 1


@pytest.mark.parametrize("name", ["gated_deltanet", "gla"])
def test_a_long_sequence(name: str) -> None:
    implementation = next(x for x in CHUNKWISE if x.derivation == name)
    assert worst(implementation, Case(2000, strongest=0.05, chunk_size=64), "float32") <= 1


with_states = pytest.mark.parametrize(
    "implementation", [x for x in CHUNKWISE if len(x.returns) > 1], ids=lambda x: x.derivation
)


@with_states
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_split_at_any_token_it_is_the_whole(implementation: Implementation, data: st.DataObject) -> None:
    case = Case(data.draw(st.integers(2, 60)), seed=data.draw(st.integers(0, 2**16)), chunk_size=8)
    arguments = drawn(implementation, case, "float64")
    returned = in_two(implementation, arguments, data.draw(st.integers(1, case.tokens - 1)))
    assert max(errors_over_tolerance(implementation, returned, arguments, case, "float64").values()) <= 1


def in_two(implementation: Implementation, arguments: dict[str, np.ndarray], cut: int) -> list[np.ndarray]:
    """The outputs of two calls one after the other, and the last states."""
    tokens = [x.name for x in implementation.arguments if " t " in x.layout]
    starts = [x.name for x in implementation.arguments if x.optional]
    first = run_on_numpy(implementation, arguments | {x: arguments[x][:, :cut] for x in tokens}, "float64", 8)
    second = arguments | {x: arguments[x][:, cut:] for x in tokens} | dict(zip(starts, first[1:], strict=True))
    output, *states = run_on_numpy(implementation, second, "float64", 8)
    return [np.concatenate([first[0], output], axis=1), *states]


@pytest.mark.parametrize("name", ["decay", "mamba2", "retnet", "gla", "gated_deltanet", "kda"])
def test_a_gate_of_zero_starts_anew(name: str) -> None:
    """In the middle of a chunk, as packed sequences would have it."""
    implementation, case = next(x for x in CHUNKWISE if x.derivation == name), Case(30, strongest=0.3)
    arguments = drawn(implementation, case, "float64")
    gate = next(x.name for x in implementation.arguments if x.scale == "log")
    arguments[gate][:, 13] = -np.inf
    output, state = run_on_numpy(implementation, arguments, "float64", 8)
    tokens = [x.name for x in implementation.arguments if " t " in x.layout]
    later = run_on_numpy(implementation, {x: arguments[x][:, 13:] for x in tokens}, "float64", 8)
    assert np.allclose(output[:, 13:], later[0], rtol=0, atol=1e-12)
    assert np.allclose(state, later[1], rtol=0, atol=1e-12)


def test_a_state_that_isnt_handed_over_is_noticed() -> None:
    implementation = next(x for x in CHUNKWISE if x.derivation == "decay")
    case = Case(40, strongest=0.1)
    arguments = drawn(implementation, case, "float64")
    forgotten = replace(implementation, arguments=tuple(x for x in implementation.arguments if not x.optional))
    returned = in_float64(called(forgotten, {x: y for x, y in arguments.items() if x != "initial_state"}, np.asarray))
    assert max(errors_over_tolerance(implementation, returned, arguments, case, "float64").values()) > 100


def other_mask(reach: str) -> str:
    return "strict" if reach == "inclusive" else "inclusive"


def never_moved(x: Any, first: float = 0) -> Any:
    return x


def transposed_inverse(strict: Any) -> Any:
    return np.eye(strict.shape[-1]) - strict


def not_faded(log_gates: Any, state: Any, chunk: int) -> Any:
    return state


def forgetful_mean(self: Any, other: Any) -> Any:
    return self


PLANTED: dict[str, tuple[Any, str, Any, tuple[str, ...]]] = {
    "the mask's diagonal": (decays, "_mask", other_mask, ("linear_attention", "decay", "deltanet", "comba")),
    "a gate too many": (decays, "moved_down", never_moved, ("decay", "gla", "comba", "rwkv6", "rwkv7", "kda")),
    "the inverse to first order": (carried, "unit_lower_inverse", transposed_inverse, ("deltanet", "path_attention")),
    "a state that doesn't fade": (decays, "faded_state", not_faded, ("gla", "gated_deltanet", "retnet", "rwkv6")),
    "one block of keys": (forgetting_attention.Mean, "joined", forgetful_mean, ("forgetting_attention",)),
    "a corner of the scores": (decays, "from_blocks", lambda a, b, c: blocks.from_blocks(a, b, 0 * c), ("kda", "gla")),
}


@pytest.mark.parametrize(("error", "name"), [(error, name) for error, (*_, names) in PLANTED.items() for name in names])
def test_a_planted_error_is_found(error: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far outside of the tolerance of float32, with gates that are neither one nor zero."""
    implementation = next(x for x in CHUNKWISE if x.derivation == name)
    case = Case(40, strongest=0.5)
    assert worst(implementation, case, "float32") <= 1
    home, function, planted, _ = PLANTED[error]
    monkeypatch.setattr(home, function, planted)
    assert worst(implementation, case, "float32") > 100
