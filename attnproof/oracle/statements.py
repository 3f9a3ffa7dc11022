"""A kernel's arguments in the words of its statement: which forms it may have, which matrices, gates on which scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from attnproof.catalogue import load_catalogue
from attnproof.implementation_cases import Case, drawn
from attnproof.oracle.conventions import Convention
from attnproof.oracle.subject import Subject
from derivations.language import d_v, n
from derivations.language.forms import Form, recurrence_or_none
from gpu.registry import Argument, Implementation
from gpu.torch_kernels.declared import ATTENTION, ORDERS, STATES
from gpu.torch_kernels.signatures import ARGUMENTS
from numerics.algebras.floats import numpy_float64
from numerics.evaluate import CHUNK
from numerics.float_inputs import rounded_inputs
from numerics.head_layouts import HeadSizes, to_heads
from numerics.run import run

Scaling = Callable[[np.ndarray], np.ndarray]
GATE_SCALES: dict[str, Scaling] = {
    "linear": np.exp,
    "log": lambda x: x,
    "log2": lambda x: x / np.log(2),
    "rate": lambda x: x,
}
"""A gate from its natural logarithm, as a kernel takes it; a rate is such a logarithm for a step of one."""
FROM_SCALES: dict[str, Scaling] = {"linear": lambda x: x, "log": np.exp, "log2": np.exp2}


@cache
def forms_of(derivation: str) -> tuple[Form, ...]:
    """The statement, and the other forms in whose order a kernel may compute."""
    known = load_catalogue().derivations[derivation].forms
    if derivation in ATTENTION:
        return (known[ATTENTION[derivation]],)
    chunked, recurrent, _ = STATES[derivation]
    return tuple(known[name] for name in dict.fromkeys((recurrent, chunked, *ORDERS.get(derivation, ()))))


def described(convention: Convention, as_called: bool = False) -> Implementation:
    """A kernel as an implementation of the registry, every gate on the scale on which gates are drawn, or on its own
    (`as_called`).
    """
    gates = {x.stands_for for x in ARGUMENTS[convention.derivation] if x.scale == "log"}
    arguments = tuple(
        x if as_called else replace(x, scale="log" if x.stands_for in gates else "linear") for x in convention.arguments
    )
    form = (*STATES.get(convention.derivation, ()), ATTENTION.get(convention.derivation))[0]
    return Implementation(
        "kernel", convention.derivation, str(form), "", "array_api", arguments, convention.returns, ("float64",)
    )


def is_gate(argument: Argument, subject: Subject) -> bool:
    """Whether an argument is a gate, on whatever scale."""
    known = ARGUMENTS[subject.convention.derivation]
    return any(x.stands_for == argument.stands_for and x.scale == "log" for x in known)


def presented(subject: Subject, case: Case) -> dict[str, np.ndarray]:
    """The arguments as the kernel gets them: gates on its scale, everything rounded to its precision."""
    drawn_as_logs = drawn(described(subject.convention), case, "float64")
    given = {
        x.name: GATE_SCALES[x.scale](drawn_as_logs[x.name]) if is_gate(x, subject) else drawn_as_logs[x.name]
        for x in subject.convention.arguments
        if x.name in drawn_as_logs
    }
    return rounded_inputs(given, subject.unit_roundoff)


def environment(
    convention: Convention, arguments: Mapping[str, np.ndarray], case: Case, sizes: HeadSizes
) -> dict[Any, Any]:
    """The same inputs for the statement: gates instead of logarithms, scaled queries, a matrix for each head."""
    symbols = symbols_of(convention.derivation)
    env: dict[Any, Any] = {CHUNK: case.stated_chunk(described(convention))}
    for x in symbols.values():
        env |= {side: {n: sizes.tokens, d_v: sizes.d_v}.get(side, sizes.d_k) for side in x.shape if side.is_Symbol}
    for x in convention.arguments:
        if x.name in arguments:
            value, layout = _on_the_statements_scale(x, convention, arguments)
            value = value * (sizes.d_k**-0.5 if x.scaled else 1.0)
            env[symbols[x.stands_for]] = to_heads(value, layout, symbols[x.stands_for], sizes)
    return env


def _on_the_statements_scale(
    argument: Argument, convention: Convention, arguments: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, str]:
    """An argument as the statement takes it, and its layout."""
    value = arguments[argument.name]
    if argument.scale != "rate":
        return FROM_SCALES[argument.scale](value), argument.layout
    step = convention.step
    return np.exp(value * arguments[step.name]), step.layout  # a rate has no dimensions but that of heads, the last


@cache
def symbols_of(derivation: str) -> dict[str, Any]:
    """The matrices of a statement by name."""
    forms = forms_of(derivation)
    return {str(x): x for form in forms for x in (*form.symbols(), *form.states)}


def computed(form: Form, env: Mapping[Any, Any], names: list[str]) -> dict[str, np.ndarray]:
    """The output and the last states of a form, by name."""
    with np.errstate(divide="ignore", invalid="ignore"):  # the logarithm of a mask
        outcome = run(form, env, numpy_float64())
    return dict(zip(names, (outcome.output, *outcome.states), strict=False))


def carries_a_state(convention: Convention) -> bool:
    """Whether the statement goes token by token."""
    return recurrence_or_none(forms_of(convention.derivation)[0]) is not None
