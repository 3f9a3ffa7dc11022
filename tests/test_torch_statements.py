"""Every Torch implementation, in every precision, computes its statement within the derived tolerance."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_cases import BY_NAME, KEYS, Case, case_for, environment, expected, ratios, tensors, tolerances

from derivations.language import V
from derivations.retnet import S_pair
from gpu.registry import Implementation
from numerics.head_layouts import HeadSizes, to_heads

EXAMPLES = max(2, settings.default.max_examples // 10) if settings.default else 2
LONGEST = 70 if EXAMPLES <= 2 else 2000
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
every_implementation = pytest.mark.parametrize("name", BY_NAME)


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, HeadSizes, dict]:
    """Tokens around the ends of chunks, heads in groups, and everything else that a case has."""
    tokens = draw(st.integers(1, 70) | st.integers(1, LONGEST))
    sizes = HeadSizes(tokens, draw(st.sampled_from([2, 4, 6])), draw(st.integers(1, 5)), 1, draw(st.integers(1, 2)), 1)
    options = {
        "keys": draw(st.sampled_from(KEYS)),
        "strongest": draw(st.sampled_from([0.0, 0.1, 1.0, 20.0])),
        "with_state": draw(st.booleans()),
        "seed": draw(st.integers(0, 99)),
        "dtype": draw(st.sampled_from(DTYPES)),
    }
    return draw(st.sampled_from([1, 4, 16, 64])), sizes, options


def computed(implementation: Implementation, case: Case, chunk: int) -> list[float]:
    inputs = tensors(implementation, case)
    options = dict.fromkeys(implementation.options, chunk)
    return ratios(implementation, implementation.load()(**inputs, **options), inputs, case, chunk)


@every_implementation
@settings(max_examples=EXAMPLES)
@given(drawn=cases())
def test_computes_its_statement(name: str, drawn: tuple[int, HeadSizes, dict]) -> None:
    chunk, sizes, options = drawn
    implementation = BY_NAME[name]
    if any(x.name == "cosine" for x in implementation.arguments):  # its statement has one pair of channels
        sizes = HeadSizes(sizes.tokens, 2, sizes.d_v, sizes.query_heads, sizes.value_heads, sizes.batch)
    assert max(computed(implementation, Case(sizes, **options), chunk)) <= 1


@pytest.mark.parametrize(
    ("name", "dtype"), [("torch.gated_deltanet.chunkwise", torch.float32), ("torch.kda.chunkwise", torch.float64)]
)
def test_computes_its_statement_over_many_chunks(name: str, dtype: torch.dtype) -> None:
    implementation = BY_NAME[name]
    sizes = HeadSizes(2000, 4, 3, 1, 1, 1)
    assert max(computed(implementation, Case(sizes, dtype=dtype, strongest=0.05), 64)) <= 1


@every_implementation
def test_a_value_that_is_off_by_a_thousandth_is_found(name: str) -> None:
    implementation = BY_NAME[name]
    case = case_for(implementation, 9, dtype=torch.float32)
    inputs = tensors(implementation, case)
    value = next(x.name for x in implementation.arguments if x.layout == "b t g v")
    wrong = {**inputs, value: inputs[value] * 1.001}
    assert ratios(implementation, implementation.load()(**wrong), inputs, case)[0] > 1


@pytest.mark.parametrize("way", ["chunkwise", "recurrent"])
def test_pairs_of_channels_turn_each_by_itself(way: str) -> None:
    implementation = BY_NAME[f"torch.retnet.{way}"]
    sizes = HeadSizes(20, 6, 3, 1, 2, 2)
    given = tensors(implementation, Case(sizes))
    output, state = implementation.load()(**given)
    parts = []
    for pair in range(3):
        channels = slice(2 * pair, 2 * pair + 2)
        own = {key: x[..., channels] if key in ("q", "k") else x for key, x in given.items()}
        own |= {key: given[key][..., pair : pair + 1] for key in ("cosine", "sine")}
        own["initial_state"] = given["initial_state"][..., channels, :]
        case = Case(HeadSizes(20, 2, 3, 1, 2, 2))
        env = environment(implementation, own, case)
        exact, tolerance = expected(implementation, env), tolerances(implementation, env, 2.0**-53)
        last = to_heads(state[..., channels, :].numpy(), "n g k v", S_pair, case.sizes)
        assert (abs(last - exact[1]).max(axis=-1) <= tolerance[1]).all()
        parts.append((exact[0], tolerance[0]))
    found = to_heads(output.numpy(), "b t g v", V, sizes)
    whole, tolerance = (sum(part[k] for part in parts) for k in (0, 1))
    assert (abs(found - whole).max(axis=-1) <= tolerance).all()
