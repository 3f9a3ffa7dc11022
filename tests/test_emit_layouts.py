"""Emitted code takes and returns arrays in the layout that is asked for; one that can't be is an error that helps."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_emit_values import DERIVATIONS, arguments, expected, function_of

from attnproof.emitting import LayoutError, emit, parse_layout
from attnproof.emitting.layouts import as_matrices, default_layout, in_layout, sides_of
from derivations.language import K, S, beta
from derivations.language.symbols import Parameter, Sequence, dimension, n

NAME, FORM = "gated_deltanet", "recurrence"
WORDS = {"q": "bthk", "k": "bthk", "v": "bthv", "beta": "bth", "gamma": "bth", "S": "bhkv", "o": "bthv"}
AXES = {name: list(permutations(words)) for name, words in WORDS.items()}


def called(layouts: dict[str, str], scale: str = "linear") -> tuple[np.ndarray, np.ndarray]:
    """The function in these layouts, on arrays that are moved there, and its results moved back."""
    written = [f"{name}={' '.join(words)}" for name, words in layouts.items()]
    if scale != "linear":
        gate = next(text for text in written if text.startswith("gamma="))
        written[written.index(gate)] = f"gamma={scale}({gate.removeprefix('gamma=')})"
    source = emit(DERIVATIONS[NAME], FORM, "numpy", written)
    env = expected(NAME, FORM)[0]
    plain = arguments(emit(DERIVATIONS[NAME], FORM, "numpy"), DERIVATIONS[NAME].forms[FORM], env)
    moved: dict[str, Any] = {}
    for name, value in plain.items():
        key = "S" if name == "initial_state" else name
        moved[name] = np.einsum(f"{WORDS[key]}->{''.join(layouts[key])}", value)
    if scale != "linear":
        moved[f"{scale}_gamma"] = {"log": np.log, "log2": np.log2}[scale](moved.pop("gamma"))
    output, state = function_of(source)(**moved)
    back = lambda value, key: np.einsum(f"{''.join(layouts[key])}->{WORDS[key]}", value)
    return back(output, "o"), back(state, "S")


def plain() -> tuple[np.ndarray, np.ndarray]:
    return called(dict(WORDS))


@given(st.fixed_dictionaries({name: st.sampled_from(axes) for name, axes in AXES.items()}))
def test_any_order_of_dimensions_gives_the_same_numbers(layouts: dict[str, Any]) -> None:
    for value, wanted in zip(called(layouts), plain(), strict=True):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("scale", ["log", "log2"])
def test_a_gate_may_be_a_logarithm(scale: str) -> None:
    for value, wanted in zip(called(dict(WORDS), scale), plain(), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-13, atol=1e-15)  # exp(log x) is off by a few roundings


def test_an_argument_without_heads_is_read_by_all_of_them() -> None:
    source = emit(DERIVATIONS[NAME], FORM, "numpy", ["k=b t k", "beta=t"])
    env = expected(NAME, FORM)[0]
    given_ = arguments(emit(DERIVATIONS[NAME], FORM, "numpy"), DERIVATIONS[NAME].forms[FORM], env)
    shared = {**given_, "k": given_["k"][:, :, 0], "beta": given_["beta"][0, :, 0]}
    spread = {**given_, "k": given_["k"][:, :, :1].repeat(2, axis=2)}
    spread["beta"] = np.broadcast_to(given_["beta"][:1, :, :1], given_["beta"].shape)
    output, state = function_of(source)(**shared)
    wanted, wanted_state = function_of(emit(DERIVATIONS[NAME], FORM, "numpy"))(**spread)
    np.testing.assert_allclose(output, wanted, rtol=1e-13)
    np.testing.assert_allclose(state, wanted_state, rtol=1e-13)


@pytest.mark.parametrize(
    ("layout", "says"),
    [
        ("q=b t h", "needs each of t, k once"),
        ("q=b t h k k", "needs each of t, k once"),
        ("q=b t h k v", "needs each of t, k once"),
        ("gamma=b t h k", "needs each of t once"),
        ("gamma=log b t h", "needs each of t once"),
        ("gamma=ln(b t h)", "isn't a layout"),
        ("gamma=log(b t h", "isn't a layout"),
        ("S=log(b h k v)", "isn't a gate"),
        ("q=log(b t h k)", "isn't a gate"),
        ("nobody=b t h k", "names are q, k, v, beta, gamma, S, o"),
        ("q", "write NAME=WORDS"),
    ],
)
def test_a_layout_that_does_not_fit_says_what_would(layout: str, says: str) -> None:
    with pytest.raises(LayoutError, match=says):
        emit(DERIVATIONS[NAME], FORM, "torch", [layout])


@given(st.permutations(["b", "h", "t", "k"]))
def test_arrays_go_there_and_back(words: list[str]) -> None:
    layout = parse_layout(" ".join(words))
    matrices = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    there = in_layout(matrices, layout, K)
    assert there.shape == tuple({"b": 2, "h": 3, "t": 4, "k": 5}[word] for word in words)
    np.testing.assert_array_equal(as_matrices(there, layout, K), matrices)


@pytest.mark.parametrize(
    ("symbol", "words"),
    [
        (K, "b t h k"),
        (S, "b h k v"),
        (beta, "b t h"),
        (Parameter("u", K.shape[1]), "h k"),
        (Sequence("A", n, n), "b h t T"),
        (Parameter("B", dimension("h"), 1), "h d_h"),
        (Parameter("C", 2 * dimension("p"), dimension("p")), "h 2p p"),
    ],
)
def test_defaults(symbol: Any, words: str) -> None:
    assert str(default_layout(symbol)) == words
    assert set(sides_of(symbol)) - {""} <= set(words.split())
