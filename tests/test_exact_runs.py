"""The comparison of a function with a statement modulo p: layouts, heads, packed sequences, and errors in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

import derivations.decay  # noqa: E402
import derivations.mesanet  # noqa: E402
import derivations.retnet  # noqa: E402
import derivations.rwkv6  # noqa: E402
from attnproof.exactly import compare_exactly  # noqa: E402
from derivations.language import K, S, V, gamma  # noqa: E402
from derivations.language.errors import StatementError  # noqa: E402
from gpu.registry import Argument, Implementation  # noqa: E402
from numerics.algebras.finite_field import PRIME  # noqa: E402
from numerics.exact_runs import Comparison, difference  # noqa: E402
from numerics.head_layouts import HeadSizes, from_heads, to_heads  # noqa: E402

SIZES = HeadSizes(tokens=4, d_k=3, d_v=2, query_heads=2, value_heads=4)
Q_, K_, V_ = Argument("q", "Q", "b t h k"), Argument("k", "K", "b t h k"), Argument("v", "V", "b t g v")
GATE, STATE = Argument("g", "gamma", "b t g", "log"), Argument("state", "S", "n g k v", optional=True)


def described(
    derivation: str, *arguments: Argument, states: tuple[tuple[str, str], ...] = (("S", "n g k v"),)
) -> Implementation:
    returns = (("O", "b t g v"), *states)
    return Implementation("mine", derivation, "recurrence", "here:f", "torch", arguments, returns, ("float32",))


DECAY = described("decay", Q_, K_, V_, GATE, STATE)
RWKV6 = described(
    "rwkv6",
    *(replace(Q_, stands_for="R"), K_, V_),
    *(Argument("g", "w", "b t g k", "log"), Argument("u", "u", "g k"), STATE),
)
MESANET = described(
    "mesanet",
    *(Q_, K_, V_, GATE, Argument("ridge", "Lambda", "b t g k")),
    *(replace(STATE, stands_for="G"), Argument("curvature", "H", "n g k k")),
    states=(("G", "n g k v"), ("H", "n g k k")),
)


def heads(x: Tensor, v: Tensor) -> Tensor:
    return x.repeat_interleave(v.shape[2] // x.shape[2], 2)


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor | None = None, cu_seqlens: Any = None) -> Any:
    """S_t = exp(g_t) S_{t-1} + k_t v_t^T, o_t = S_t^T q_t, sequence by sequence where they are packed."""
    if cu_seqlens is not None:
        return packed(decay, cu_seqlens.tolist(), (q, k, v, g), state)
    q, k, outputs = heads(q, v), heads(k, v), []
    s = torch.zeros(*v.shape[:1], v.shape[2], q.shape[3], v.shape[3]) if state is None else state
    for t in range(q.shape[1]):
        s = s * g[:, t, :, None, None].exp() + k[:, t, :, :, None] * v[:, t, :, None]
        outputs.append((q[:, t, :, None] @ s).squeeze(2))
    return torch.stack(outputs, 1) if outputs else v * 0, s


def packed(function: Callable[..., Any], bounds: list[int], rows: tuple[Tensor, ...], state: Tensor) -> Any:
    outputs, states = [], []
    for index, (start, stop) in enumerate(pairwise(bounds)):
        o, s = function(*(x[:, start:stop] for x in rows), state[index : index + 1])
        outputs.append(o)
        states.append(s)
    return torch.cat(outputs, 1), torch.cat(states)


def rwkv6(q: Tensor, k: Tensor, v: Tensor, g: Tensor, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """o_t reads the state before token t, and token t itself through the bonus u."""
    q, k, s, outputs = heads(q, v), heads(k, v), state, []
    for t in range(q.shape[1]):
        own = k[:, t, :, :, None] * v[:, t, :, None]
        outputs.append(torch.einsum("bgk,bgkv->bgv", q[:, t], s + u[None, :, :, None] * own))
        s = s * g[:, t, :, :, None].exp() + own
    return torch.stack(outputs, 1), s


def mesanet(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, ridge: Tensor, state: Tensor, curvature: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """o_t = G_t (H_t + Lambda_t)^-1 q_t, G_t = gamma_t G_{t-1} + v_t k_t^T, H_t = gamma_t H_{t-1} + k_t k_t^T."""
    q, k, outputs = heads(q, v), heads(k, v), []
    for t in range(q.shape[1]):
        fade, key = g[:, t, :, None, None].exp(), k[:, t, :, :, None]
        state, curvature = fade * state + key * v[:, t, :, None], fade * curvature + key * key.mT
        solved = torch.linalg.solve(curvature + torch.diag_embed(ridge[:, t]), q[:, t, :, :, None])
        outputs.append((solved.mT @ state).squeeze(2))
    return torch.stack(outputs, 1), state, curvature


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("function", "description"), [(decay, DECAY), (rwkv6, RWKV6), (mesanet, MESANET)], ids=["decay", "rwkv6", "mesanet"]
)
def test_equal(function: Callable[..., Any], description: Implementation, seed: int) -> None:
    found = compare_exactly(function, description, SIZES, seed=seed)
    assert found.ok, str(found)
    assert not found.without_effect
    assert str(found).startswith("equal: O, ")
    assert len(found.differences) == len(description.returns) + len(description.arguments)


def test_packed() -> None:
    sizes = HeadSizes.packed([0, 3, 1, 0, 2], 3, 2, 2, 4)
    found = compare_exactly(decay, DECAY, sizes)
    assert found.ok, str(found)

    def leaks(cu_seqlens: Tensor, **given: Tensor) -> Any:
        """The third sequence begins a token early."""
        return decay(**given, cu_seqlens=cu_seqlens - (cu_seqlens == 4).int())

    places = {name: x.place for name, x in compare_exactly(leaks, DECAY, sizes).differences.items() if x}
    assert places["S"] == "sequence 2, value head 0, d_k 0, d_v 0"
    assert places["O"].startswith("batch 0, token 3, ")
    assert places["gradient of state"].startswith("sequence 2, ")


def changed(**changes: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """The decay with some arguments changed first."""
    return lambda **given: decay(**{name: changes.get(name, lambda x: x)(x) for name, x in given.items()})


def other_output(change: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    def function(**given: Tensor) -> Any:
        output, state = decay(**given)
        return change(output), state

    return function


PLANTED = {
    "heads are interleaved": changed(q=lambda x: x.repeat(1, 1, 2, 1)),
    "a gate is late": changed(g=lambda x: x.roll(1, 1)),
    "a gate is the gate of another head": changed(g=lambda x: x.flip(2)),
    "a gate has the other sign": changed(g=lambda x: -x),
    "the state is forgotten": changed(state=lambda x: x * 0),
    "the batch is turned round": changed(state=lambda x: x.flip(0)),
    "a factor": changed(q=lambda x: x / 2),
    "one entry of one output": other_output(lambda o: torch.cat([o[:-1], o[-1:] + torch.eye(2)[1] * 0.5])),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    found = compare_exactly(PLANTED[name], DECAY, SIZES)
    assert not found.ok
    assert found.differences["O"] is not None


def test_a_transposed_state() -> None:
    """With d_k = d_v, where shapes don't tell."""
    square = replace(SIZES, d_v=3)
    assert compare_exactly(decay, DECAY, square).ok
    assert not compare_exactly(changed(state=lambda x: x.mT), DECAY, square).ok
    turned = lambda **given: (decay(**given)[0], decay(**given)[1].mT)
    found = compare_exactly(turned, DECAY, square)
    assert {name for name, x in found.differences.items() if x} >= {"S", "gradient of state"}
    assert found.differences["O"] is None


def test_a_lost_gradient() -> None:
    for name in ("q", "k", "v", "g", "state"):
        found = compare_exactly(changed(**{name: lambda x: x.detach()}), DECAY, SIZES)
        assert [key for key, x in found.differences.items() if x] == [f"gradient of {name}"]


def test_a_factor_that_belongs_to_the_function() -> None:
    function = changed(q=lambda x: x * 0.125, v=lambda x: x / 3)
    assert not compare_exactly(function, DECAY, SIZES, factors={"q": Fraction(1, 8)}).ok
    assert compare_exactly(function, DECAY, SIZES, factors={"q": Fraction(1, 8), "v": Fraction(1, 3)}).ok


def test_without_a_state() -> None:
    found = compare_exactly(decay, DECAY, replace(SIZES, tokens=1), without=["state"])
    assert found.ok
    assert found.without_effect == ("gradient of g",)
    assert "gradient of state" not in found.differences


def test_another_statement() -> None:
    """The gate that fades the own write too."""
    found = compare_exactly(decay, DECAY, SIZES, statement=derivations.decay.own_write_fades)
    assert found.differences["O"] is not None
    early = changed(v=lambda x: x)
    own = lambda **given: early(**given | {"v": given["v"] * given["g"][..., None].exp()})
    assert compare_exactly(own, DECAY, SIZES, statement=derivations.decay.own_write_fades).ok


@pytest.mark.parametrize(
    ("description", "said"),
    [
        (replace(DECAY, derivation="nothing"), "there is no derivation 'nothing'"),
        (
            replace(DECAY, arguments=(Q_, K_, V_, replace(GATE, stands_for="beta"))),
            "has no recurrence that reads K, Q, V, beta",
        ),
        (replace(DECAY, returns=(("O", "b t g v"), ("H", "n g k v"))), "returns H; the states are"),
    ],
)
def test_descriptions_that_dont_fit(description: Implementation, said: str) -> None:
    with pytest.raises(StatementError, match=said):
        compare_exactly(decay, description, SIZES)


def test_arguments_that_dont_fit_a_given_statement() -> None:
    recurrence = derivations.decay.recurrence
    with pytest.raises(StatementError, match="no argument stands for V"):
        compare_exactly(decay, DECAY, SIZES, statement=recurrence, without=["v"])
    with pytest.raises(StatementError, match="beta isn't among the inputs"):
        compare_exactly(decay, replace(DECAY, arguments=(replace(Q_, stands_for="beta"),)), SIZES, statement=recurrence)
    pairs = replace(DECAY, arguments=(*DECAY.arguments, Argument("c", "c", "b t h p"), Argument("s", "s", "b t h p")))
    with pytest.raises(StatementError, match=r"is n x 2 in the statement, and \(b t h k\) is \(2, 4, 2, 3\)"):
        compare_exactly(lambda c, s, **given: decay(**given), pairs, SIZES, statement=derivations.retnet.recurrence)


def test_functions_that_return_something_else() -> None:
    with pytest.raises(ValueError, match="mine doesn't return S"):
        compare_exactly(lambda **given: decay(**given)[0], DECAY, SIZES)
    with pytest.raises(ValueError, match="where the description has nothing more"):
        compare_exactly(lambda **given: (*decay(**given), given["q"]), DECAY, SIZES)
    with pytest.raises(ValueError, match=r"the shape \(2, 3, 4, 2\) where .* \(2, 4, 4, 2\) \(b t g v\) for O"):
        compare_exactly(other_output(lambda o: o[:, :3]), DECAY, SIZES)


def test_the_words_of_a_difference() -> None:
    a, b = np.zeros((2, 3), dtype=np.int64), np.array([[0, 0, 0], [0, 5, 6]])
    found = difference("O", "b t", a, b)
    assert found is not None
    assert (found.place, found.found, found.expected) == ("batch 1, token 1", 0, 5)
    assert str(found) == "O differs at batch 1, token 1, and in 33% of its entries"
    assert str(Comparison({"O": found, "S": None})) == str(found)
    assert difference("O", "b t", a, a) is None


LAYOUTS = [(K, "b t h k"), (V, "b t g v"), (K, "t k"), (gamma, "b t g"), (gamma, "b t h"), (gamma, "g"), (S, "n g k v")]


@given(st.sampled_from(LAYOUTS), st.integers(0, 2**32 - 1))
def test_from_heads_is_the_transpose_of_to_heads(case: Any, seed: int) -> None:
    """<to_heads(x), y> = <x, from_heads(y)>, which is what makes it the gradient's way back."""
    symbol, layout = case
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 1000, SIZES.shape(layout))
    there = to_heads(x, layout, symbol, SIZES)
    y = rng.integers(0, 1000, there.shape)
    back = from_heads(y, layout, symbol, SIZES)
    assert back.shape == x.shape
    assert (there * y).sum() % PRIME == (x * back).sum() % PRIME


def test_heads_are_served_by_their_group() -> None:
    x = np.arange(2 * 4 * 2 * 3).reshape(2, 4, 2, 3)
    served = to_heads(x, "b t h k", K, SIZES).reshape(2, 4, 4, 3)
    for value_head in range(4):
        assert np.array_equal(served[:, value_head], x[:, :, value_head // 2])
    state = np.arange(2 * 4 * 3 * 2).reshape(2, 4, 3, 2)
    assert np.array_equal(to_heads(state, "n g k v", S, SIZES).reshape(2, 4, 2, 3), np.swapaxes(state, -1, -2))
