"""PyTorch's autograd differentiates emitted code: matrix and chunkwise forms have the gradients of their recurrence.

Everything is computed in float64; the tolerance is that of a float32 recurrence, which rounding in float64 is far below
and a wrong term far above. The recurrence's own gradients are held to the derived backward pass in
tests/test_vectors_values.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sympy import Eq
from test_emit_values import DERIVATIONS, emitted, function_of
from test_vectors_values import vectors

from attnproof.vectors import Vectors
from derivations.language.forms import Algorithm, Chunkwise, Form, Recurrence
from derivations.language.statements import Identity

torch = pytest.importorskip("torch")

Gradients = dict[str, np.ndarray]


def equal_forms() -> list[tuple[str, str, str]]:
    """(derivation, recurrence, another form that an identity says is equal to it, on the same inputs)."""
    found = set()
    for name, derivation in DERIVATIONS.items():
        names = {id(form): key for key, form in derivation.forms.items()}
        for identity in derivation.identities:
            one, other = names.get(id(identity.left)), names.get(id(identity.right))
            if one and other and goes_by_token(identity.left) and is_comparable(identity):
                found.add((name, one, other))
    return sorted(found)


def goes_by_token(form: Form) -> bool:
    return isinstance(form, Recurrence) and not isinstance(form, Chunkwise) and form.initial is None


def is_comparable(identity: Identity) -> bool:
    """Whether the sides are equal around an input, and not only where an equation between inputs holds."""
    right = identity.right
    related = any(isinstance(x.condition, Eq) for x in identity.assumptions)
    plain = not goes_by_token(right) and not isinstance(right, Algorithm) and right.symbols() == identity.left.symbols()
    return identity.expected == "holds" and plain and not related


EQUAL = equal_forms()


def gradients(source: str, made: Vectors, with_state: bool) -> Gradients:
    """The gradients of the sum of <grad_o, o> by every input, and by the initial states where they are given."""
    taken = {
        key: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for key, value in made.inputs.items()
        if not key.startswith("grad_") and (with_state or not key.startswith("initial_"))
    }
    returned = function_of(source)(**taken)
    output = returned[0] if isinstance(returned, tuple) else returned
    (output * torch.tensor(made.inputs["grad_o"], dtype=torch.float64)).sum().backward()
    return {key: value.grad.numpy() for key, value in taken.items() if value.grad is not None}


def outside(one: Gradients, other: Gradients, made: Vectors) -> list[str]:
    """Which gradients differ by more than their tolerance."""
    wrong = []
    for key in one.keys() | other.keys():
        zero: Any = np.zeros_like(made.inputs[key])
        error = abs(one.get(key, zero) - other.get(key, zero))
        if not np.all(error <= made.tolerance[f"grad_{key}"]):
            wrong.append(key)
    return wrong


def test_there_are_many_of_them() -> None:
    assert len({name for name, *_ in EQUAL}) >= 15


@pytest.mark.parametrize(("name", "recurrence", "form"), EQUAL)
def test_equal_forms_have_equal_gradients(name: str, recurrence: str, form: str) -> None:
    made = vectors(name, recurrence)
    with_state = isinstance(DERIVATIONS[name].forms[form], Chunkwise)
    wanted = gradients(emitted(name, recurrence, "torch"), made, with_state)
    found = gradients(emitted(name, form, "torch").replace("chunk_size=64", "chunk_size=3"), made, with_state)
    assert found
    assert not outside(found, wanted, made)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("decay(gamma)", "decay(gamma.detach())"),
        ("beta * v", "beta.detach() * v"),
        ("(k @ k.mT)", "(k @ k.detach().mT)"),
    ],
)
def test_a_gradient_that_loses_a_term_is_found(right: str, wrong: str) -> None:
    made, source = vectors("gated_deltanet", "recurrence"), emitted("gated_deltanet", "matrix", "torch")
    assert right in source
    wanted = gradients(emitted("gated_deltanet", "recurrence", "torch"), made, with_state=False)
    assert not outside(gradients(source, made, with_state=False), wanted, made)
    assert outside(gradients(source.replace(right, wrong), made, with_state=False), wanted, made)


@pytest.mark.parametrize("form", ["matrix", "chunkwise", "recurrence"])
def test_gates_of_zero_have_finite_gradients(form: str) -> None:
    made = vectors("gated_deltanet", "recurrence")
    closed = {**made.inputs, "gamma": made.inputs["gamma"] * (np.arange(7) != 3)[:, None]}
    shut = Vectors(closed, made.expected, made.tolerance, made.manifest)
    wanted = gradients(emitted("gated_deltanet", "recurrence", "torch"), shut, with_state=False)
    found = gradients(emitted("gated_deltanet", form, "torch"), shut, with_state=False)
    assert all(np.isfinite(value).all() for value in found.values())
    assert not outside(found, wanted, made)
