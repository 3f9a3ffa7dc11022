"""The reference functions of transformers' Qwen3-Next, unmodified, are Gated DeltaNet modulo p; planted errors show.

Outputs, final state and the gradients of all arguments, against eq. 10 as derivations/gated_deltanet.py states it.
"""

from __future__ import annotations

import inspect
import linecache
import textwrap
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import settings

torch = pytest.importorskip("torch", reason="torch isn't installed: pip install 'attnproof[audit]'")
pytest.importorskip("transformers", reason="transformers isn't installed: pip install 'attnproof[audit]'")

from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next  # noqa: E402

import attnproof  # noqa: E402
from attnproof.exactly import compare_exactly  # noqa: E402
from derivations.gated_deltanet import printed  # noqa: E402
from gpu.exact_mode import NoExactMeaning  # noqa: E402
from gpu.registry import Argument, Implementation  # noqa: E402
from numerics.exact_runs import Comparison  # noqa: E402
from numerics.head_layouts import HeadSizes  # noqa: E402

RECURRENT, CHUNKED = (
    inspect.unwrap(getattr(qwen3_next, f"torch_{way}_gated_delta_rule")) for way in ("recurrent", "chunk")
)
DESCRIBED = Implementation(
    name="transformers",
    derivation="gated_deltanet",
    form="recurrence",
    home="transformers.models.qwen3_next.modeling_qwen3_next:torch_chunk_gated_delta_rule",
    library="torch",
    arguments=(
        Argument("query", "Q", "b t h k"),
        Argument("key", "K", "b t h k"),
        Argument("value", "V", "b t g v"),
        Argument("g", "gamma", "b t g", scale="log"),
        Argument("beta", "beta", "b t g"),
        Argument("initial_state", "S", "b g k v", optional=True),
    ),
    returns=(("O", "b t g v"), ("S", "b g k v")),
    dtypes=("float32",),
)
WIDTH = 16
"""Queries are scaled by d_k^(-1/2) inside, which is 1/4 here."""


def compared(function: Callable[..., Any], sizes: HeadSizes, state: bool = True, **options: Any) -> Comparison:
    return compare_exactly(
        function,
        DESCRIBED,
        sizes,
        without=() if state else ["initial_state"],
        factors={"query": Fraction(1, 4)},
        options={"output_final_state": True} | ({} if state else {"initial_state": None}) | options,
    )


@pytest.mark.parametrize("state", [True, False], ids=["from a state", "from zero"])
@pytest.mark.parametrize(("tokens", "chunk_size"), [(1, 64), (5, 2), (63, 16), (65, 64), (130, 32), (300, 64)])
def test_chunked(tokens: int, chunk_size: int, state: bool) -> None:
    found = compared(CHUNKED, HeadSizes(tokens, WIDTH, 12, 1, 2), state, chunk_size=chunk_size)
    assert found.ok, str(found)
    assert set(found.differences) == {"O", "S"} | {
        f"gradient of {x.name}" for x in DESCRIBED.arguments if state or not x.optional
    }
    assert found.without_effect == (("gradient of g",) if tokens == 1 and not state else ())


@pytest.mark.parametrize(("tokens", "state"), [(1, True), (7, False), (40, True)])
def test_recurrent(tokens: int, state: bool) -> None:
    found = compared(RECURRENT, HeadSizes(tokens, WIDTH, 12, 2, 4), state)
    assert found.ok, str(found)


def test_recurrent_with_many_tokens() -> None:
    tokens = 300 if settings().max_examples > 100 else 120  # autograd copies the outputs at every token
    found = compared(RECURRENT, HeadSizes(tokens, WIDTH, 12, 1, 1, batch=1))
    assert found.ok, str(found)


@pytest.mark.parametrize("width", [32, 96])
def test_one_against_the_other(width: int) -> None:
    """One multiplies by d_k^(-1/2) and the other divides by the root; 96 has none in the field."""
    arguments = [torch.zeros(1, 20, 2, width)] * 3 + [torch.zeros(1, 20, 2)] * 2
    chunked = attnproof.exact(CHUNKED, *arguments, log=["g"], chunk_size=8)
    assert chunked.differences(attnproof.exact(RECURRENT, *arguments, log=["g"])) == []


def test_another_recurrence_is_told_apart() -> None:
    """The recurrence that predicts before it decays; with eta in the place of beta."""
    with_eta = tuple(replace(x, stands_for="eta") if x.name == "beta" else x for x in DESCRIBED.arguments)
    described = replace(DESCRIBED, arguments=with_eta)
    found = compare_exactly(
        CHUNKED,
        described,
        HeadSizes(5, WIDTH, 3),
        statement=printed,
        factors={"query": Fraction(1, 4)},
        options={"output_final_state": True},
    )
    assert all(found.differences.values())


def test_a_norm_that_is_switched_on_has_no_exact_meaning() -> None:
    arguments = [torch.zeros(1, 4, 1, 8)] * 3 + [torch.zeros(1, 4, 1)] * 2
    with pytest.raises(NoExactMeaning, match="rsqrt") as raised:
        attnproof.exact(CHUNKED, *arguments, log=["g"], use_qk_l2norm_in_kernel=True)
    assert "modeling_qwen3_next.py:" in raised.value.place
    assert "(in l2norm)" in raised.value.place


PLANTED = {
    "the mask has the diagonal": (CHUNKED, ".triu(1)", ".triu(0)"),
    "the mask lets the future in": (CHUNKED, ".triu(1)", ".triu(2)"),
    "the carry is dropped": (
        CHUNKED,
        "last_recurrent_state = last_recurrent_state * chunk_decay",
        "last_recurrent_state = 0 * chunk_decay",
    ),
    "the carry isn't faded": (CHUNKED, "* chunk_decay[:, :, i] + key", "+ key"),
    "the gate is late by one token": (
        CHUNKED,
        "cum_decay = decay.cumsum(dim=3)",
        "cum_decay = decay.cumsum(dim=3) - decay",
    ),
    "the gate starts over in the wrong place": (
        CHUNKED,
        "(cum_decay[..., -1:] - cum_decay)",
        "(cum_decay[..., -2:-1] - cum_decay)",
    ),
    "beta is missing where keys are removed": (CHUNKED, "k_beta = key * beta.unsqueeze(-1)", "k_beta = key"),
    "the first state is transposed": (CHUNKED, "initial_state.to(new_values)", "initial_state.to(new_values).mT"),
    "the last state is transposed": (
        CHUNKED,
        "last_recurrent_state = None if not output_final_state else last_recurrent_state",
        "last_recurrent_state = last_recurrent_state.mT",
    ),
    "the first state is forgotten": (CHUNKED, "if initial_state is None:", "if True:"),
    "the gate's gradient is detached": (CHUNKED, "decay.cumsum(dim=3)", "decay.cumsum(dim=3).detach()"),
    "the carry's gradient is detached": (
        CHUNKED,
        "inter_chunk_attn = query[:, :, i] @ last_recurrent_state",
        "inter_chunk_attn = query[:, :, i] @ last_recurrent_state.detach()",
    ),
    "the query's gradient is detached": (CHUNKED, "query = query * scaling", "query = (query * scaling).detach()"),
    "a gradient is scaled": (CHUNKED, "key = key * (cum_decay", "key = (2 * key - key.detach()) * (cum_decay"),
    "the state is read before the write": (RECURRENT, "core_attn_out[:, :, i] =", "core_attn_out[:, :, i - 1] ="),
}


def _with_error(function: Callable[..., Any], right: str, wrong: str) -> Callable[..., Any]:
    """A copy of a function with another line."""
    source = textwrap.dedent(inspect.getsource(function))
    source = source[source.index("def ") :]
    assert source.count(right) == 1, f"{right!r} is there {source.count(right)} times"
    name = f"<planted {wrong}>"
    changed = source.replace(right, wrong)
    linecache.cache[name] = len(changed), None, changed.splitlines(keepends=True), name
    scope: dict[str, Any] = dict(vars(qwen3_next))
    exec(compile(changed, name, "exec"), scope)
    return scope[function.__name__]  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_found(name: str) -> None:
    function, right, wrong = PLANTED[name]
    sizes = HeadSizes(7, WIDTH, WIDTH if "transposed" in name else 12, 1, 2)
    options = {"chunk_size": 2} if function is CHUNKED else {}
    found = compared(_with_error(function, right, wrong), sizes, **options)
    differing = [key for key, x in found.differences.items() if x is not None]
    assert differing
    if "gradient" in name:
        assert all(key.startswith("gradient of") for key in differing)
