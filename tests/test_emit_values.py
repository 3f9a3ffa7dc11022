"""Emitted code computes the statement: every form of every derivation, in each library, against the walk in float64."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sympy import Basic

from attnproof.catalogue import load_catalogue
from attnproof.emitting import TARGETS, emit
from attnproof.vectors.drawing import drawn_for
from derivations.language.forms import Algorithm, Chunkwise, Form, recurrence_or_none
from derivations.language.symbols import State
from numerics.algebras.floats import numpy_float64
from numerics.evaluate import CHUNK
from numerics.inputs import Sizes
from numerics.proofs.tolerances import tolerances_of
from numerics.run import run

DERIVATIONS = load_catalogue().derivations
FORMS = [
    (name, form)
    for name, derivation in DERIVATIONS.items()
    for form in derivation.forms
    if not isinstance(derivation.forms[form], Algorithm)
]
SIZES = Sizes(7, 3, 2, chunk=3)
BATCH, HEADS = 2, 2
ROUNDOFF = 2.0**-53
Arrays = dict[str, np.ndarray]


@cache
def emitted(name: str, form: str, target: str) -> str:
    """The code of a form in the default layouts."""
    return emit(DERIVATIONS[name], form, target)


def rows_and_columns(x: Basic) -> str:
    """The letters of an input after batch and heads, where it has more than one row or column."""
    sides = [str(side) for side in getattr(x, "shape", (1, 1))]
    letters = [{"n": "t", "d_k": "k", "d_v": "v", "1": ""}.get(side, "xy"[place]) for place, side in enumerate(sides)]
    return letters[0] + (letters[1].upper() if letters[1] == letters[0] else letters[1])


def default_layout(x: Basic) -> str:
    """The default layouts, written a second time, as einsum writes them."""
    sides = rows_and_columns(x)
    if isinstance(x, State):
        return "bh" + (sides[::-1] if sides[:1] == "v" and sides[1:] else sides)
    if sides == "tT":
        return "bhtT"
    return "bth" + sides[1:] if sides[:1] == "t" else "h" + sides


def squeezed(value: np.ndarray, x: Basic) -> np.ndarray:
    """(batch * heads, rows, columns) as (batch, heads, ...), without rows or columns of which there is one."""
    shape = getattr(x, "shape", (1, 1))
    sizes = [size for size, side in zip(value.shape[1:], shape, strict=True) if side != 1]
    return value.reshape(BATCH, HEADS, *sizes)


def inputs_of(name: str, form: str, sizes: Sizes = SIZES) -> dict[Any, Any]:
    """What a form is evaluated on; what has no batch in its layout is the same in every batch."""
    statement = DERIVATIONS[name].forms[form]
    env = drawn_for(DERIVATIONS[name], statement, sizes, seed=1, matrices=BATCH * HEADS)
    for x in statement.symbols():
        if x in env and not isinstance(env[x], int) and "b" not in default_layout(x):
            env[x] = np.tile(env[x][:HEADS], (BATCH, 1, 1))
    return env


def arguments(source: str, statement: Form, env: dict[Any, Any]) -> Arrays:
    """The arguments of the emitted function, by the names in its signature."""
    states = {f"initial_{x}": x for x in statement.states}
    if len(states) == 1:
        states = {"initial_state": statement.states[0]}
    by_name: dict[str, Basic] = {str(x): x for x in statement.symbols()}
    lowered = {name.lower(): x for name, x in by_name.items()}
    found: Arrays = {}
    for name in names_in_signature(source):
        plain = name.rstrip("_").replace("_prime", "'")
        x = states.get(plain, by_name.get(plain, lowered.get(plain)))
        if x is not None:
            letters = default_layout(x)
            whole = squeezed(env[x], x)
            kept = whole if "b" in letters else whole[0]
            present = ("bh" if "b" in letters else "h") + rows_and_columns(x)
            found[name] = np.einsum(f"{present}->{letters}", kept)
    return found


def names_in_signature(source: str) -> list[str]:
    """The arguments of the last function of a module."""
    function = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)][-1]
    return [argument.arg for argument in function.args.args]


def function_of(source: str) -> Callable[..., Any]:
    """The last function of a module, executed in a namespace of its own."""
    namespace: dict[str, Any] = {}
    exec(compile(source, "emitted", "exec"), namespace)
    name = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)][-1]
    return namespace[name]


@cache
def expected(name: str, form: str) -> tuple[dict[Any, Any], list[np.ndarray], list[np.ndarray]]:
    """The inputs, what the walk makes of them, and the tolerances."""
    statement, env = DERIVATIONS[name].forms[form], inputs_of(name, form)
    outcome = run(statement, env, numpy_float64())
    tolerances = tolerances_of(statement, env, ROUNDOFF, np.random.default_rng(2))
    return env, [outcome.output, *outcome.states], tolerances


def computed(source: str, name: str, form: str, converted: Callable[[np.ndarray], Any]) -> list[np.ndarray]:
    """What the emitted function returns, as (batch * heads, rows, columns)."""
    statement, env = DERIVATIONS[name].forms[form], expected(name, form)[0]
    given = {key: converted(value) for key, value in arguments(source, statement, env).items()}
    if isinstance(recurrence_or_none(statement), Chunkwise):
        given["chunk_size"] = env[CHUNK]
    returned = function_of(source)(**given)
    output, *states = returned if isinstance(returned, tuple) else (returned,)
    states = list(states[0]) if states and isinstance(states[0], tuple) else states
    values = []
    for value, wanted, x in zip(
        (output, *states), expected(name, form)[1], (statement, *statement.states), strict=True
    ):
        letters = rows_and_columns(x)
        layout = default_layout(x) if isinstance(x, State) else "bhtT" if letters == "tT" else "bth" + letters[1:]
        moved = np.einsum(f"{layout}->bh{letters}", np.asarray(value))
        if moved.shape != squeezed(wanted, x).shape:
            raise ValueError(f"the shape is {moved.shape}")
        values.append(moved.reshape(wanted.shape))
    return values


def errors_over_tolerance(values: list[np.ndarray], name: str, form: str) -> float:
    """The largest error of any row in units of its tolerance."""
    _, wanted, tolerances = expected(name, form)
    ratios = [
        np.max(abs(value - right).max(axis=-1) / np.maximum(tolerance, 1e-300))
        for value, right, tolerance in zip(values, wanted, tolerances, strict=True)
    ]
    return float(np.max(ratios))


def converter(target: str) -> Callable[[np.ndarray], Any]:
    """From NumPy to the arrays of a library; skips where it isn't installed."""
    if target == "numpy":
        return np.asarray
    module = pytest.importorskip(target, reason=f"{target} isn't installed")
    if target == "torch":
        return lambda x: module.from_numpy(x.copy())
    module.config.update("jax_enable_x64", True)
    return module.numpy.asarray


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_emitted_code_computes_the_form(name: str, form: str, target: str) -> None:
    values = computed(emitted(name, form, target), name, form, converter(target))
    assert errors_over_tolerance(values, name, form) < 1


@pytest.mark.parametrize(("name", "form"), FORMS[::6])
def test_the_precision_is_that_of_the_inputs(name: str, form: str) -> None:
    source, statement = emitted(name, form, "numpy"), DERIVATIONS[name].forms[form]
    single = {key: x.astype(np.float32) for key, x in arguments(source, statement, inputs_of(name, form)).items()}
    returned = function_of(source)(**single)
    output = returned[0] if isinstance(returned, tuple) else returned
    assert output.dtype == np.float32
