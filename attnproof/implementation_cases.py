"""Inputs for an implementation of `gpu.registry`, and how far what it returns is from the statement.

The statement is evaluated in float64 for each batch and value head, on the inputs as the implementation's precision
represents them. What is tolerated is derived from rounding noise in the order of the statement's form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from zlib import crc32

import numpy as np

from derivations.language import V, d_v, n
from derivations.language.forms import Form
from gpu.registry import Argument, Implementation
from numerics.algebras.floats import numpy_float64
from numerics.evaluate import CHUNK, Environment
from numerics.float_inputs import rounded_inputs
from numerics.head_layouts import HeadSizes, to_heads
from numerics.proofs.tolerances import Roundings, tolerances_of
from numerics.run import run

FAMILIES = ("plain", "repeated keys", "orthogonal keys", "zero keys", "large keys")
MASKED_SCORES = "masked scores that overflow"
"""A family of inputs for attention alone: where there is a state, the last key is written."""
QUERIES = ("Q", "R", "C")
STRENGTHS = ("beta", "eta", "Delta", "Lambda")
WRITTEN = ("K", "B")
"""Keys that values are written along, and not what is removed along: a removal of length three grows without end."""
FEATURES = ("phi_Q", "phi_K", "z")
"""What has to be positive, since its sums are divided by."""
STRONGEST_BLOCK = 320.0
"""exp(-320) is far from where float64 underflows, and what it multiplies is too small to count."""
UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
COMPUTED_IN = {"float16": "float32", "bfloat16": "float32"}
LARGEST = {"float16": 65504.0, "bfloat16": 2.0**127 * (2 - 2.0**-7)}
LEAST = {"float16": 2.0**-14, "bfloat16": 2.0**-126}
"""The largest and the least normal number of a narrow precision."""

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes:
        tokens: t.
        family: what is particular about the keys, one of FAMILIES, or MASKED_SCORES.
        strongest: log gates lie between minus this and zero.
        with_state: whether there is an initial state.
        seed: where everything is drawn from.
        batch, heads, groups, key_width, value_width: b, h, g / h, k and v.
        chunk_size: the blocks of a chunkwise form.
        lengths: of packed sequences, which together have as many tokens; None where they aren't packed.
        set_to: inputs of the statement that are a number everywhere, or another input: (("beta", 0.0), ("P", "K")).
        value_scale: a factor of values, and of the states that are made of them.
        query_scale: a factor of queries.
    """

    tokens: int
    family: str = "plain"
    strongest: float = 1.0
    with_state: bool = True
    seed: int = 0
    batch: int = 1
    heads: int = 1
    groups: int = 2
    key_width: int = 6
    value_width: int = 4
    chunk_size: int = 16
    lengths: tuple[int, ...] | None = None
    set_to: tuple[tuple[str, float | str], ...] = ()
    value_scale: float = 1.0
    query_scale: float = 1.0

    def stated_chunk(self, implementation: Implementation) -> int:
        """The blocks of the statement: shorter where gates are strong, since it divides by the product of a block's."""
        if not self.strongest or all(x.scale == "linear" for x in implementation.arguments):
            return self.chunk_size
        return min(self.chunk_size, int(STRONGEST_BLOCK / self.strongest))

    def sizes(self, implementation: Implementation) -> HeadSizes:
        """The sizes of the arguments. A statement about one pair of channels has d_k = 2."""
        pairs = any(x.shape == (n, 2) for x in named(implementation).values())
        width, value_heads = 2 if pairs else self.key_width, self.heads * self.groups
        return HeadSizes(self.tokens, width, self.value_width, self.heads, value_heads, self.batch, self.lengths)


def statement(implementation: Implementation) -> Form:
    """The form that an implementation computes."""
    return _form(implementation, implementation.form)


def _form(implementation: Implementation, name: str) -> Form:
    form: Form = getattr(import_module(f"derivations.{implementation.derivation}"), name)
    return form


def largest_tolerances(
    orders: Sequence[Form], env: Environment, roundings: Roundings, rng: np.random.Generator
) -> list[np.ndarray]:
    """How far a kernel may be off that computes in the order of any of these forms: the largest of their tolerances,
    for the output and each state, per row.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # the logarithm of a mask
        each = [tolerances_of(form, env, roundings, rng) for form in orders]
    return [np.maximum.reduce(own) for own in zip(*each, strict=True)]


def named(implementation: Implementation) -> dict[str, Any]:
    """The matrices of the statement by name: inputs, states, and O for the output, which has the shape of V."""
    form = statement(implementation)
    return {str(x): x for x in (*form.symbols(), *form.states)} | {"O": V}


def drawn(implementation: Implementation, case: Case, dtype: str) -> Arrays:
    """The arguments by name, in float64 but rounded to the precision."""
    arguments = [x for x in implementation.arguments if case.with_state or not x.optional]
    values = {x.stands_for: _drawn(x, implementation, case) for x in arguments}
    if "P" in values:  # what predicts is near a multiple of the key, or else the state grows without end
        values["P"] = 0.7 * values["K"] + 0.1 * values["P"]
    logs = {x.stands_for for x in arguments if x.scale == "log"}
    for name, value in case.set_to:
        number = value if isinstance(value, str) else np.log(value) if name in logs else value
        values[name] = values[number] if isinstance(number, str) else np.full_like(values[name], number)
    for name in (x for x in QUERIES if x in values):
        values[name] = case.query_scale * values[name]
    if case.family == MASKED_SCORES:
        _mask_large_scores(values)
    for x in arguments:
        values[x.stands_for] = values[x.stands_for] * (case.value_scale if "v" in x.layout.split() else 1.0)
    return rounded_inputs({x.name: values[x.stands_for] for x in arguments}, UNIT_ROUNDOFF[dtype])


def _mask_large_scores(values: Arrays) -> None:
    """The last key is so long that exponentials of its scores overflow; all tokens that may see it ask for nothing."""
    for name in WRITTEN:
        if name in values:
            values[name][:, -1] *= 200  # in float64, in which the statement is evaluated, they do not
    for name in (x for x in QUERIES if x in values):
        values[name][:, -1] = 0


def _drawn(argument: Argument, implementation: Implementation, case: Case) -> np.ndarray:
    sizes, symbol = case.sizes(implementation), argument.stands_for
    shape = sizes.shape(argument.layout)
    source = "angle" if symbol in ("c", "s") else symbol
    rng = np.random.default_rng((case.seed, crc32(source.encode())))
    if argument.scale == "log":
        return -case.strongest * rng.random(shape)
    if source == "angle":
        angle = rng.uniform(-np.pi, np.pi, shape)
        return np.cos(angle) if symbol == "c" else np.sin(angle)
    if symbol in FEATURES:
        return rng.uniform(0.05, 1, shape)
    if symbol == "H":  # a sum of k k^T
        half = rng.normal(size=shape)
        return half @ half.swapaxes(-1, -2) / shape[-1]
    if argument.layout in ("b t g", "b t g k") or symbol in STRENGTHS:
        return rng.uniform(0.05, 1, shape)
    if argument.layout == "b t h k" and symbol not in QUERIES:
        keys = _keys(rng, shape, case.family)
        return 3 * keys if case.family == "large keys" and symbol in WRITTEN else keys
    return rng.normal(size=shape)


def _keys(rng: np.random.Generator, shape: tuple[int, ...], family: str) -> np.ndarray:
    """Keys of length one (shorter if orthogonal), tokens along the second dimension."""
    keys = rng.normal(size=shape)
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    if family == "repeated keys":
        return np.repeat(keys[:, ::8], 8, axis=1)[:, : shape[1]]
    if family == "orthogonal keys":
        basis = np.linalg.qr(rng.normal(size=(shape[-1], shape[-1])))[0]
        # lengths differ: where the same k k^T is added again and again, it is rounded the same way each time, in the
        # statement too, and that isn't the independent noise which tolerances are made of
        return basis[np.arange(shape[1]) % shape[-1]][None, :, None, :] * rng.uniform(0.5, 1, (*shape[:-1], 1))
    if family == "zero keys":
        return keys * (rng.random((*shape[:-1], 1)) > 0.25)
    return keys


def environment(implementation: Implementation, arguments: Arrays, case: Case) -> Environment:
    """The same inputs for the statement: gates instead of their logarithms, a matrix for each batch and value head."""
    symbols, sizes = named(implementation), case.sizes(implementation)
    env: dict[Any, Any] = {CHUNK: case.stated_chunk(implementation)}
    for x in symbols.values():
        env |= {side: {n: sizes.tokens, d_v: sizes.d_v}.get(side, sizes.d_k) for side in x.shape if side.is_Symbol}
    for argument in implementation.arguments:
        if argument.name in arguments:
            value = arguments[argument.name]
            value = np.exp(value) if argument.scale == "log" else value
            env[symbols[argument.stands_for]] = as_stated(value, argument.layout, symbols[argument.stands_for], sizes)
    return env


def as_stated(value: np.ndarray, layout: str, symbol: Any, sizes: HeadSizes) -> np.ndarray:
    """An array of a layout as matrices of the statement, (batch * value heads, rows, columns)."""
    if layout.endswith(" p"):  # the statement has one pair of channels
        value, layout = value[..., 0], layout.removesuffix(" p")
    return to_heads(value, layout, symbol, sizes)


def called(
    implementation: Implementation, arguments: Arrays, convert: Callable[[Any], Any], **options: Any
) -> list[Any]:
    """What the implementation returns, as a list, on converted arguments."""
    returned = implementation.load()(**{name: convert(x) for name, x in arguments.items()}, **options)
    return list(returned) if isinstance(returned, tuple | list) else [returned]


def errors_over_tolerance(
    implementation: Implementation, returned: Sequence[np.ndarray], arguments: Arrays, case: Case, dtype: str
) -> dict[str, float]:
    """The largest error of any row, in units of that row's tolerance, for each returned value by its name.

    Args:
        implementation: what was called.
        returned: float64 copies of what it returned.
        arguments: what it was called with, from `drawn`.
        case: the case that these were drawn for.
        dtype: the precision that it computed in.
    """
    symbols, sizes = named(implementation), case.sizes(implementation)
    expected = _expected(implementation, environment(implementation, arguments, case), case, dtype)
    ratios = {}
    for (name, layout), value in zip(implementation.returns, returned, strict=True):
        wanted, tolerance = expected[name]
        error = abs(as_stated(value, layout, symbols[name], sizes) - wanted).max(axis=-1)
        if name == "O" and dtype in LARGEST:  # what overflows isn't compared
            error = np.where(abs(wanted).max(axis=-1) > LARGEST[dtype], 0.0, error)
        with np.errstate(over="ignore"):  # what is far off may be infinitely far off
            over = np.where(error > 0, error / np.maximum(tolerance, 1e-300), error)
        ratios[name] = float(np.max(over, initial=0.0))  # np.max keeps NaN, which is no agreement
    return ratios


Expected = dict[str, tuple[np.ndarray, np.ndarray]]


def _expected(implementation: Implementation, env: Environment, case: Case, dtype: str) -> Expected:
    """The statement's values with their tolerances: the output and the last states, by name."""
    form, symbols = statement(implementation), named(implementation)
    with np.errstate(divide="ignore"):  # the logarithm of a mask
        exact = run(form, env, numpy_float64())
    # an absolute error of the logarithm is a relative one of the gate, beside the rounding of exp
    gates = [symbols[x.stands_for] for x in implementation.arguments if x.scale == "log"]
    computed = {gate: 1 - np.log(np.maximum(env[gate], 1e-300)) for gate in gates}
    orders = [form, *(_form(implementation, name) for name in implementation.orders)]
    roundings = Roundings(UNIT_ROUNDOFF[COMPUTED_IN.get(dtype, dtype)], computed)
    tolerances = largest_tolerances(orders, env, roundings, np.random.default_rng((case.seed, 1)))
    if dtype in COMPUTED_IN:  # the output is rounded once more, below the least normal number to its multiples
        size = abs(exact.output).max(axis=-1)
        tolerances[0] = tolerances[0] + UNIT_ROUNDOFF[dtype] * np.maximum(size, LEAST[dtype])
    names = ["O", *map(str, form.states)]
    return dict(zip(names, zip((exact.output, *exact.states), tolerances, strict=True), strict=True))
