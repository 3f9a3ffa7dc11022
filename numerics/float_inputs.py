"""Float inputs for an identity: families that are hard in different ways, each drawn from the assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sympy import Basic, Eq

from derivations.language.expressions import Statement
from derivations.language.statements import Identity
from derivations.language.symbols import ChannelGate, Gate, Named, t
from derivations.language.symbols import Sequence as TokenSequence
from numerics.algebras.floats import numpy_float64
from numerics.evaluate import evaluate
from numerics.inputs import DRAWS, CannotDraw, Plan, Sizes, add_values, base_point, fulfilled, plan, shape_of

FAMILIES = ("plain", "gates near one", "gates near zero", "repeated keys", "zero rows", "large norms")


def float_inputs(
    identity: Identity, sizes: Sizes, rng: np.random.Generator, family: str = "plain", batch: int = 2
) -> dict[Any, Any]:
    """Float64 inputs with a leading batch dimension that fulfil the assumptions.

    Args:
        family: one of FAMILIES.
        batch: the leading dimension (heads, say).

    Raises:
        CannotDraw: no draw fulfilled the assumptions.
    """
    how = plan(identity)
    dimensions = sizes.environment(identity)
    given = {getattr(key, "sequence", key) for key in how.values} | how.sines
    for _ in range(DRAWS):
        env: dict[Any, Any] = dict(dimensions)
        for x in identity.inputs():
            shape = (batch, *shape_of(x, env))
            if x in how.circles:
                angle = rng.uniform(-np.pi, np.pi, shape)
                env |= {x: np.cos(angle), how.circles[x]: np.sin(angle)}
            elif x not in given:
                env[x] = _draw(x, shape, how, rng, family)
        add_values(how, env, numpy_float64())
        if _fulfilled(identity, env):
            return env
    raise CannotDraw(f"no float input fulfils {' and '.join(map(str, identity.assumptions))} in {DRAWS} draws")


def _fulfilled(identity: Identity, env: dict[Any, Any]) -> bool:
    """Whether the conditions that aren't built into the draw hold in every matrix of the batch."""
    algebra, equations = numpy_float64(), plan(identity).equations
    checked = [a for a in identity.assumptions if not isinstance(a.condition, Eq) or a in equations]
    inverted = [a.condition for a in checked if isinstance(a.condition, Statement) and not a.condition.has(t)]
    matrices = [evaluate(matrix, env, algebra) for matrix in inverted]
    if any((np.linalg.matrix_rank(matrix) < matrix.shape[-1]).any() for matrix in matrices):
        return False  # rounding hides from elimination that a matrix is singular
    return all(fulfilled(a, env, algebra) for a in checked)


def _draw(x: Basic, shape: tuple[int, ...], how: Plan, rng: np.random.Generator, family: str) -> np.ndarray:
    if x in how.spheres:
        value = rng.normal(size=shape)
        if shape[-1] == 1:
            base_point(how.spheres[x], 1)  # refuses where the sphere has no such point
        return value * np.sqrt(float(how.spheres[x]) / (value**2).sum(axis=-1, keepdims=True))
    if isinstance(x, Gate | ChannelGate) or not isinstance(x, Named) or x in how.signs:
        return _gates(shape, rng, family)
    value = rng.normal(size=shape) / np.sqrt(shape[-1])
    if family == "large norms":
        return value * 3
    if not isinstance(x, TokenSequence):
        return value
    if family == "repeated keys" and shape[-2] > 1:
        return np.repeat(value[..., ::2, :], 2, axis=-2)[..., : shape[-2], :]
    if family == "zero rows" and shape[-2] > 1:
        return value * (rng.random((*shape[:-1], 1)) > 0.25)
    return value


def _gates(shape: tuple[int, ...], rng: np.random.Generator, family: str) -> np.ndarray:
    uniform = rng.uniform(0.02, 1, shape)
    if family == "gates near one":
        return 1 - 1e-3 * uniform
    if family == "gates near zero":
        return 1e-3 * uniform
    return uniform


def rounded_inputs(env: Mapping[Any, Any], unit_roundoff: float) -> dict[Any, Any]:
    """The inputs as a precision represents them, in float64, so that rounding them is no error of the formula."""
    if unit_roundoff < 2.0**-50:
        return dict(env)
    return {key: value if isinstance(value, int) else _rounded(value, unit_roundoff) for key, value in env.items()}


def _rounded(value: np.ndarray, unit_roundoff: float) -> np.ndarray:
    mantissa, exponent = np.frexp(value)
    return np.ldexp(np.round(mantissa / (2 * unit_roundoff)) * (2 * unit_roundoff), exponent)
