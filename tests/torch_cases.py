"""Inputs for the Torch implementations of the registry, and how far what they return is from the statements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from derivations.language import d_k, d_v, n
from derivations.language.forms import Form
from derivations.path_attention import X, matrix_with_beta, path_fox
from gpu.registry import Argument, Implementation
from gpu.torch_kernels.declared import IMPLEMENTATIONS
from gpu.torch_kernels.signatures import ARGUMENTS
from numerics.algebras.floats import numpy_float64
from numerics.evaluate import CHUNK
from numerics.head_layouts import HeadSizes, to_heads
from numerics.proofs.tolerances import tolerances_of
from numerics.run import run

PATH_FOX = replace(
    next(x for x in IMPLEMENTATIONS if x.name == "torch.forgetting_attention.blockwise"),
    name="torch.path_attention.blockwise",
    derivation="path_attention",
    form="path_fox of matrix_with_beta",
    home="gpu.torch_kernels.path_fox:blockwise",
    arguments=ARGUMENTS["path_fox"],
)
"""Not in the registry, since the derivation gives no name to the form that it computes."""
BY_NAME = {x.name: x for x in (*IMPLEMENTATIONS, PATH_FOX)}
WITH_STATE = [x.name for x in IMPLEMENTATIONS if len(x.returns) > 1]
KEYS = ("plain", "repeated", "orthogonal", "zero", "large")
UNIT_ROUNDOFF = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
CHANNEL_GATES = ("gla", "rwkv6", "kda", "rwkv7")
Named = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """What a test draws.

    Attributes:
        sizes: of everything.
        keys: what is particular about them, one of KEYS.
        strongest: log gates lie between minus this and zero.
        with_state: whether there is an initial state.
        seed: where it is drawn from.
        dtype: the precision of the tensors.
    """

    sizes: HeadSizes
    keys: str = "plain"
    strongest: float = 1.0
    with_state: bool = True
    seed: int = 0
    dtype: torch.dtype = torch.float64

    def of(self, **changes: Any) -> Case:
        """The same with some attributes changed."""
        return replace(self, **changes)


def case_for(implementation: Implementation, tokens: int, **options: Any) -> Case:
    """A small case: one query head, two value heads, d_k and d_v different. A pair of channels has d_k = 2."""
    width = 2 if any(x.name == "cosine" for x in implementation.arguments) else 5
    return Case(HeadSizes(tokens, width, 3, 1, 2, 2), **options)


def statement(implementation: Implementation) -> Form:
    """The form that an implementation computes."""
    if implementation is PATH_FOX:
        return path_fox.where(X, matrix_with_beta)
    form: Form = getattr(import_module(f"derivations.{implementation.derivation}"), implementation.form)
    return form


def symbols(form: Form) -> dict[str, Any]:
    """The inputs and states of a statement by name."""
    return {str(x): x for x in (*form.symbols(), *form.states)}


def tensors(implementation: Implementation, case: Case) -> Named:
    """The arguments by name. The same seed and size give the same numbers in every precision but for their rounding."""
    arguments = [x for x in implementation.arguments if case.with_state or not x.optional]
    return {x.name: torch.tensor(_drawn(x, case)).to(case.dtype) for x in arguments}


def _drawn(argument: Argument, case: Case) -> np.ndarray:
    shape, name = case.sizes.shape(argument.layout), argument.name
    rng = np.random.default_rng((case.seed, crc32(("angle" if name in ("cosine", "sine") else name).encode())))
    if argument.scale == "log":
        return -case.strongest * rng.random(shape)
    if name in ("cosine", "sine"):
        angle = rng.uniform(-np.pi, np.pi, shape)
        return np.cos(angle) if name == "cosine" else np.sin(angle)
    if argument.stands_for in ("phi_Q", "phi_K", "z") or argument.layout in ("b t g", "b t g k"):
        return rng.uniform(0.1, 1, shape)
    if argument.stands_for == "H":
        half = rng.normal(size=shape)
        return half @ half.swapaxes(-1, -2) / shape[-1]
    if argument.layout == "b t h k" and name not in ("q", "r", "C"):
        return _keys(rng, shape, case.keys)
    return rng.normal(size=shape) / (np.sqrt(shape[-1]) if name in ("q", "r", "C") else 1)


def _keys(rng: np.random.Generator, shape: tuple[int, ...], keys: str) -> np.ndarray:
    """Keys of length one, tokens along the second dimension; large ones have length 1.3."""
    drawn = rng.normal(size=shape)
    drawn /= np.linalg.norm(drawn, axis=-1, keepdims=True)
    if keys == "repeated":
        return np.repeat(drawn[:, ::8], 8, axis=1)[:, : shape[1]]
    if keys == "orthogonal":
        basis = np.linalg.qr(rng.normal(size=(shape[-1], shape[-1])))[0]
        return np.broadcast_to(basis[np.arange(shape[1]) % shape[-1]][None, :, None, :], shape).copy()
    if keys == "zero":
        return drawn * (rng.random((*shape[:-1], 1)) > 0.25)
    return drawn * 1.3 if keys == "large" else drawn


def environment(implementation: Implementation, given: Named, case: Case, chunk: int = 16) -> dict[Any, Any]:
    """The same inputs for the statement: gates in the place of their logarithms, one matrix for each value head."""
    names, sizes = symbols(statement(implementation)), case.sizes
    width = next((side for x in names.values() for side in x.shape if side not in (n, d_v) and side.is_Symbol), d_k)
    env: dict[Any, Any] = {n: sizes.tokens, d_v: sizes.d_v, width: sizes.d_k, CHUNK: chunk}
    for argument in implementation.arguments:
        if argument.name in given:
            value = given[argument.name].detach().double().numpy()
            value = np.exp(value) if argument.scale == "log" else value
            env[names[argument.stands_for]] = _matrices(value, argument.layout, names[argument.stands_for], sizes)
    return env


def _matrices(value: np.ndarray, layout: str, symbol: Any, sizes: HeadSizes) -> np.ndarray:
    if layout.endswith(" p"):  # the statement has one pair of channels
        value, layout = value[..., 0], layout.removesuffix(" p")
    return to_heads(value, layout, symbol, sizes)


def returned(implementation: Implementation, results: Any, case: Case) -> list[np.ndarray]:
    """What an implementation returned as matrices of the statement, in float64."""
    results = results if isinstance(results, tuple) else (results,)
    names = symbols(statement(implementation))
    values = next(names[x.stands_for] for x in implementation.arguments if x.layout == "b t g v")
    of_names = {**names, "O": values}  # the output has the shape of the values
    return [
        to_heads(x.detach().double().numpy(), layout, of_names[name], case.sizes)
        for x, (name, layout) in zip(results, implementation.returns, strict=True)
    ]


def expected(implementation: Implementation, env: dict[Any, Any]) -> list[np.ndarray]:
    """The statement's output and last states in float64."""
    with np.errstate(divide="ignore"):  # the logarithm of a mask
        outcome = run(statement(implementation), env, numpy_float64())
    return [outcome.output, *outcome.states]


def tolerances(implementation: Implementation, env: dict[Any, Any], unit_roundoff: float) -> list[np.ndarray]:
    """How far each row may be off. A gate is exp of its logarithm: rounded once, and by the logarithm's own error."""
    gates = [x.stands_for for x in implementation.arguments if x.scale == "log"]
    names = symbols(statement(implementation))
    computed = {names[x]: 1 - np.log(np.maximum(env[names[x]], 1e-300)) for x in gates}
    found = [_noise(form, env, unit_roundoff, computed) for form in _orders(implementation)]
    return [np.maximum.reduce(each) for each in zip(*found, strict=True)]


def _noise(form: Form, env: dict[Any, Any], unit_roundoff: float, computed: Any) -> list[np.ndarray]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return tolerances_of(form, env, unit_roundoff, np.random.default_rng(0), computed)


def _orders(implementation: Implementation) -> list[Form]:
    """The forms whose rounding noise counts. Chunks of channel gates are declared as recurrences, since their chunkwise
    statements divide by products of gates and overflow where the implementation doesn't. Their order is the chunkwise
    one all the same: without gates, a triangular system is further off than a contracting recurrence.
    """
    forms = [statement(implementation)]
    if implementation.derivation in CHANNEL_GATES and implementation.name.endswith(".chunkwise"):
        forms.append(import_module(f"derivations.{implementation.derivation}").chunkwise)
    return forms


def ratios(implementation: Implementation, results: Any, given: Named, case: Case, chunk: int = 16) -> list[float]:
    """The largest error of any row of the output and of each last state, in tolerances; NaN counts as infinite."""
    # products of gates are above 10^-130 in chunks of this size, so that what is divided by them has a noise
    env = environment(implementation, given, case, min(chunk, 16) if case.strongest > 4 else chunk)
    computing = torch.float64 if case.dtype == torch.float64 else torch.float32
    found = []
    for x, value, exact, tolerance in zip(
        results if isinstance(results, tuple) else (results,),
        returned(implementation, results, case),
        expected(implementation, env),
        tolerances(implementation, env, UNIT_ROUNDOFF[computing]),
        strict=True,
    ):
        size, limits = abs(exact).max(axis=-1), torch.finfo(x.dtype)
        if x.dtype != computing:  # a narrow result is rounded once more, below the least normal number to its multiples
            tolerance = tolerance + UNIT_ROUNDOFF[x.dtype] * np.maximum(size, limits.smallest_normal)
        error = np.where(size > limits.max, 0, abs(value - exact).max(axis=-1))  # what overflows isn't compared
        off = np.divide(error, tolerance, out=np.where(error > 0, np.inf, 0.0), where=tolerance > 0)
        found.append(float(np.nan_to_num(off, nan=np.inf).max(initial=0.0)))
    return found
