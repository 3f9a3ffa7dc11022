"""Golden vectors: inputs of a form, what it makes of them in float64, its gradients, and how far a kernel may be off.

Reproducible bit for bit with the same versions: inputs come from NumPy's PCG64 with the given seed, in the order of the
symbols' names; everything else is evaluated in float64 in the order of the statement.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from sympy import Basic

from attnproof.emitting.arguments import OUTPUT, Arguments, arguments_of
from attnproof.emitting.layouts import HEADS, Layout, canonical, in_layout
from attnproof.implementation_cases import UNIT_ROUNDOFF
from attnproof.vectors.drawing import drawn_for
from attnproof.vectors.files import VectorError
from derivations.language.adjoint import Adjoint, Cotangent, adjoint, cotangent_of, cotangent_of_output
from derivations.language.errors import NoMeaning, StatementError
from derivations.language.forms import Algorithm, Chunkwise, Form, Recurrence, text_lines
from derivations.language.statements import Derivation
from numerics.algebras.floats import numpy_float64
from numerics.backward import cotangents
from numerics.float_inputs import rounded_inputs
from numerics.inputs import Sizes
from numerics.proofs.tolerances import MARGIN, Roundings, tolerances_of
from numerics.run import run

FORMAT = 1
"""Counts up when a reader of older files would misread the new ones."""
STORED = {"float64": "float64", "float32": "float32", "float16": "float16", "bfloat16": "float32"}
"""What inputs of a precision are stored as; NumPy has no bfloat16, and float32 holds it exactly."""
INPUTS, EXPECTED, TOLERANCE = "inputs", "expected", "tolerance"
GRADIENT = "grad_"
RATE = {"log": 1.0, "log2": float(np.log(2))}
"""The derivative of a gate by its logarithm, in units of the gate."""
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Shape:
    """The sizes of the vectors."""

    tokens: int = 24
    d_k: int = 8
    d_v: int = 6
    batch: int = 2
    heads: int = 2
    chunk: int = 8


@dataclass(frozen=True)
class Vectors:
    """What is written: three groups of arrays, and what is said of them."""

    inputs: Arrays
    expected: Arrays
    tolerance: Arrays
    manifest: dict[str, Any]


@dataclass(frozen=True)
class _Case:
    """One form on one input. `env` holds matrices (batch * heads, rows, columns), and gates, not their logarithms;
    `backward` is the backward pass, or why there is none.
    """

    form: Form
    arguments: Arguments
    shape: Shape
    env: Mapping[Any, Any]
    unit_roundoff: float
    seed: int
    backward: Adjoint | str

    def stored(self, x: np.ndarray, name: str, symbol: Basic) -> np.ndarray:
        """Matrices as an array in a layout."""
        whole = x.reshape(self.shape.batch, self.shape.heads, *x.shape[-2:])
        return in_layout(whole, self.arguments.layouts[name], symbol)

    def tolerance(self, form: Form) -> list[np.ndarray]:
        """How far each row may be off; a gate that is given as a logarithm has the error of an exponential."""
        logs = [self.arguments.inputs[name] for name in self.logarithms]
        rng = np.random.Generator(np.random.PCG64([self.seed, 1]))
        roundings = Roundings(self.unit_roundoff, {x: 1 - np.log(self.env[x]) for x in logs})
        return tolerances_of(form, self.env, roundings, rng)

    @property
    def logarithms(self) -> list[str]:
        """The names of the gates that are given as logarithms."""
        return [name for name in self.arguments.inputs if self.arguments.layouts[name].scale != "linear"]


def make(
    derivation: Derivation,
    form_name: str,
    shape: Shape | None = None,
    seed: int = 0,
    dtype: str = "float32",
    layouts: Sequence[str] = (),
) -> Vectors:
    """Golden vectors of a form.

    Args:
        derivation: the system.
        form_name: which of its forms.
        shape: the sizes.
        seed: where the inputs are drawn from.
        dtype: the precision that a kernel computes in; inputs are numbers of this precision.
        layouts: as for `emit`.

    Raises:
        VectorError: there is no such form, or it isn't a formula.
        LayoutError: a layout doesn't fit.
    """
    form = _form_of(derivation, form_name)
    case, given = _drawn(derivation, form, shape or Shape(), seed, dtype, layouts)
    outcome = run(form, case.env, numpy_float64())
    expected, tolerance = _outputs(case, [outcome.output, *outcome.states])
    if isinstance(case.backward, Adjoint):
        for name, (value, allowed) in _gradients(case, case.backward).items():
            expected[name], tolerance[name] = value, allowed
    stored = {name: value.astype(STORED[dtype]) for name, value in given.items()}
    return Vectors(stored, expected, tolerance, _manifest(derivation, form_name, case, dtype))


def _form_of(derivation: Derivation, name: str) -> Form:
    form = derivation.forms.get(name)
    if form is None or isinstance(form, Algorithm):
        known = [name for name, other in derivation.forms.items() if not isinstance(other, Algorithm)]
        raise VectorError(f"{derivation.name} has no form {name!r} to evaluate; choose --form {' or '.join(known)}")
    return form


def _drawn(
    derivation: Derivation, form: Form, shape: Shape, seed: int, dtype: str, layouts: Sequence[str]
) -> tuple[_Case, Arrays]:
    """The inputs as matrices, and as arrays in their layouts."""
    arguments, u = arguments_of(form, layouts), UNIT_ROUNDOFF[dtype]
    sizes = Sizes(shape.tokens, shape.d_k, shape.d_v, shape.chunk)
    env = dict(drawn_for(derivation, form, sizes, seed, shape.batch * shape.heads))
    if isinstance(form, Recurrence) and form.initial is not None:  # it begins as stated
        env = {x: value for x, value in env.items() if x not in form.states}
    backward = _backward_of(form)
    if isinstance(backward, Adjoint):
        env |= _cotangents_drawn(backward.recurrence, env, seed)
    env = rounded_inputs({x: _alike(x, value, arguments, shape) for x, value in env.items()}, u)
    logs: dict[str, np.ndarray] = {}
    for name, x in arguments.inputs.items():
        scale = arguments.layouts[name].scale
        if scale != "linear":
            logs[name] = rounded_inputs({x: np.log(env[x]) / RATE[scale]}, u)[x]
            env[x] = np.exp(logs[name] * RATE[scale])
    case = _Case(form, arguments, shape, env, u, seed, backward)
    given = {
        arguments.passed(name): case.stored(logs[name] if name in logs else env[x], name, x)
        for name, x in arguments.inputs.items()
    }
    given |= {name: case.stored(env[x], arguments.called[x], x) for name, x in arguments.states.items() if x in env}
    if isinstance(backward, Adjoint):
        given |= _cotangents_given(case, backward.recurrence)
    return case, given


def _alike(x: Any, value: Any, arguments: Arguments, shape: Shape) -> Any:
    """What has no batch or no heads in its layout is the same in all of them."""
    name = arguments.called.get(x)
    if name is None or isinstance(value, int):
        return value
    words = arguments.layouts[name].words
    whole = value.reshape(shape.batch, shape.heads, *value.shape[-2:])
    first = whole[tuple(slice(None) if word in words else slice(1) for word in HEADS)]
    return np.broadcast_to(first, whole.shape).reshape(value.shape).copy()


def _cotangents_given(case: _Case, recurrence: Recurrence) -> Arrays:
    """The cotangents of the output and of the final states, as arrays in their layouts."""
    finals = _final_names(case.arguments)
    given = {
        f"{GRADIENT}{OUTPUT}": case.stored(case.env[cotangent_of_output(recurrence)], OUTPUT, case.arguments.output)
    }
    return given | {
        f"{GRADIENT}{name}": case.stored(case.env[cotangent_of(x)], case.arguments.called[x], x)
        for name, x in finals.items()
    }


def _final_names(arguments: Arguments) -> dict[str, Any]:
    return {name.replace("initial", "final", 1): x for name, x in arguments.states.items()}


def _backward_of(form: Form) -> Adjoint | str:
    """The backward pass of a form, or why there is none, in words."""
    if not isinstance(form, Recurrence) or isinstance(form, Chunkwise):
        return "gradients are derived for recurrences, token by token: choose a form that is one"
    try:
        return adjoint(form)
    except (NoMeaning, StatementError) as error:
        return str(error)


def _cotangents_drawn(recurrence: Recurrence, env: Mapping[Any, Any], seed: int) -> dict[Any, np.ndarray]:
    """Cotangents of the output and of the final states, from a generator of their own."""
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    outcome = run(recurrence, env, numpy_float64())
    symbols = (cotangent_of_output(recurrence), *map(cotangent_of, recurrence.states))
    return {x: rng.normal(size=y.shape) for x, y in zip(symbols, (outcome.output, *outcome.states), strict=True)}


def _outputs(case: _Case, values: Sequence[np.ndarray]) -> tuple[Arrays, Arrays]:
    """The output and the final states, and the tolerance of each entry."""
    places = [(OUTPUT, OUTPUT, case.arguments.output)]
    places += [(name, case.arguments.called[x], x) for name, x in _final_names(case.arguments).items()]
    expected, tolerance = {}, {}
    for (name, of, symbol), value, rows in zip(places, values, case.tolerance(case.form), strict=True):
        expected[name] = case.stored(value, of, symbol)
        tolerance[name] = case.stored(np.broadcast_to(rows[..., None], value.shape), of, symbol)
    return expected, tolerance


def _gradients(case: _Case, backward: Adjoint) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The gradient by each input and by each initial state, and its tolerance."""
    found = cotangents(backward, case.env, numpy_float64())
    places = [(case.arguments.passed(name), name, x) for name, x in case.arguments.inputs.items()]
    places += [(name, case.arguments.called[x], x) for name, x in case.arguments.states.items()]
    out = {}
    for name, of, x in places:
        if x in found and x in case.env:
            (rows,) = case.tolerance(Cotangent(backward.recurrence, x))
            value = np.broadcast_to(found[x], case.env[x].shape)
            value, rows = _by_logarithm(case, of, x, value, np.broadcast_to(rows[..., None], value.shape))
            out[f"{GRADIENT}{name}"] = (_summed(case, value, of, x), _summed(case, rows, of, x))
    return out


def _by_logarithm(
    case: _Case, name: str, x: Basic, value: np.ndarray, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The derivative by the logarithm of a gate: times the gate, which is computed with an error of its own."""
    if name not in case.logarithms:
        return value, allowed
    gate = case.env[x] * RATE[case.arguments.layouts[name].scale]
    own = MARGIN * case.unit_roundoff * (2 - np.log(case.env[x])) * abs(gate * value)
    return gate * value, abs(gate) * allowed + own


def _summed(case: _Case, value: np.ndarray, name: str, symbol: Basic) -> np.ndarray:
    """A gradient in a layout: the sum over batches and heads that share the input. Tolerances add up alike."""
    layout: Layout = case.arguments.layouts[name]
    whole = value.reshape(case.shape.batch, case.shape.heads, *value.shape[-2:])
    missing = tuple(axis for axis, word in enumerate(canonical(symbol)) if word in HEADS and word not in layout.words)
    return in_layout(whole.sum(axis=missing, keepdims=True), layout, symbol)


def _manifest(derivation: Derivation, form_name: str, case: _Case, dtype: str) -> dict[str, Any]:
    layouts, arguments = case.arguments.layouts, case.arguments
    names = {arguments.passed(name): str(layouts[name]) for name in arguments.inputs}
    names |= {name: str(arguments.layout_of(x)) for name, x in arguments.states.items()}
    names |= {OUTPUT: str(layouts[OUTPUT])}
    names |= {name: str(arguments.layout_of(x)) for name, x in _final_names(arguments).items()}
    return {
        "format": FORMAT,
        "derivation": derivation.name,
        "form": form_name,
        "equations": text_lines(case.form),
        "sources": [str(source) for source in derivation.sources],
        "sizes": asdict(case.shape),
        "seed": case.seed,
        "dtype": dtype,
        "unit_roundoff": case.unit_roundoff,
        "layouts": names,
        "gradients": f"of the sum of <{GRADIENT}X, X> over the outputs and final states X",
        "no_gradients_because": "" if isinstance(case.backward, Adjoint) else case.backward,
        "drawn_with": "numpy.random.PCG64; float64, in the order of the statement",
        "versions": versions(("attnproof", "numpy", "sympy")) | {"python": platform.python_version()},
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of packages by name."""
    return {name: version(name) for name in packages}
