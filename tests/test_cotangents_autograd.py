"""The derived backward passes against Torch's automatic differentiation in float64, for every recurrence there is.

Torch differentiates the forward walk operation by operation; the derived pass is walked in NumPy. Both round, and may
differ by what rounding noise makes of the derived pass (numerics/proofs/tolerances.py), once for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sympy import Basic

from attnproof.catalogue import Entry, load_catalogue
from derivations.language import Cotangent
from derivations.language.statements import Backward
from numerics.algebras.floats import Floats, numpy_float64
from numerics.backward import loss
from numerics.float_inputs import float_inputs
from numerics.inputs import Sizes
from numerics.proofs.tolerances import tolerances_of
from numerics.run import run

torch = pytest.importorskip("torch")

SIZES = Sizes(n=13, d_k=5, d_v=4)
ROUNDOFF = 2.0**-53
SHARP = 1e-9
"""A tolerance must be a small share of the derivative, or the comparison shows nothing."""
WITHOUT_EFFECT = {("rwkv4.backward_of_shifted", "R")}
"""Inputs that cancel in the output, so that their derivative is zero: the shift of numerator and denominator."""
PASSES = [entry for entry in load_catalogue().entries() if isinstance(entry.statement, Backward)]


def by_autograd(backward: Backward, env: dict[Any, Any]) -> dict[Any, np.ndarray]:
    """The derivative of <dO, O> + <dS_n, S_n> by every input."""
    from array_api_compat import torch as namespace

    inputs = backward.adjoint.inputs
    tensors = {x: value if isinstance(value, int) else torch.tensor(value) for x, value in env.items()}
    for x in inputs:
        tensors[x].requires_grad_()
    loss(backward.recurrence, tensors, Floats(namespace, torch.float64)).sum().backward()
    return {x: tensors[x].grad.numpy() for x in inputs}


@pytest.mark.parametrize("passed", PASSES, ids=lambda passed: passed.id)
def test_every_input(passed: Entry) -> None:
    backward, rng = passed.statement, np.random.default_rng(0)
    assert isinstance(backward, Backward)
    env = float_inputs(passed.identity, SIZES, rng)
    expected = by_autograd(backward, env)
    for x in backward.adjoint.inputs:
        derived, tolerance = with_tolerance(backward, x, env, rng)
        assert derived.shape == expected[x].shape
        sharp = 0 < tolerance.max() < SHARP * abs(expected[x]).max()
        assert sharp == ((passed.id, str(x)) not in WITHOUT_EFFECT), f"the tolerance of d{x} is {tolerance.max()}"
        assert within(derived, expected[x], tolerance), f"d{x}"


def with_tolerance(
    backward: Backward, x: Basic, env: dict[Any, Any], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The derived cotangent of one input, and how far each row may be off."""
    form = Cotangent(backward.recurrence, of=x)
    return run(form, env, numpy_float64()).output, tolerances_of(form, env, ROUNDOFF, rng)[0]


def within(derived: np.ndarray, expected: np.ndarray, tolerance: np.ndarray) -> bool:
    return bool((abs(derived - expected).max(axis=-1) <= 2 * tolerance).all())


@pytest.mark.parametrize("share", [1e-9, 1e-11])
def test_a_small_error_is_found(share: float) -> None:
    passed, rng = next(p for p in PASSES if p.id == "gated_deltanet.backward"), np.random.default_rng(0)
    backward = passed.statement
    assert isinstance(backward, Backward)
    env = float_inputs(passed.identity, SIZES, rng)
    expected = by_autograd(backward, env)
    for x in backward.adjoint.inputs:
        derived, tolerance = with_tolerance(backward, x, env, rng)
        assert within(derived, expected[x], tolerance)
        assert not within(derived * (1 + share), expected[x], tolerance), f"d{x}"
