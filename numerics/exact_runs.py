"""A PyTorch function against a recurrence, modulo p: outputs, final states and the gradients of all arguments.

The function runs in exact mode (gpu/exact_mode) on random residues, its gradients by autograd. The recurrence is walked
in the number system of numerics/algebras/finite_field.py, its gradients by the backward pass that is derived from it.
Formulas that are equal are equal in every entry; two that differ agree in an entry with a probability of at most their
degree over 2^31 (Schwartz-Zippel).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any
from zlib import crc32

import numpy as np
import torch
from sympy import Basic, Rational, Symbol

from derivations.language.adjoint import adjoint, cotangent_of, cotangent_of_output, inputs_of, shape_of_input
from derivations.language.errors import StatementError
from derivations.language.forms import Recurrence
from gpu.exact_mode.running import Run, exact_tensor
from gpu.exact_mode.running import run as run_exactly
from gpu.registry import Argument, Implementation
from numerics.algebras.finite_field import PRIME, FiniteField
from numerics.algebras.with_exponents import UNITS, PowersOfAGenerator
from numerics.backward import cotangents
from numerics.head_layouts import HeadSizes, from_heads, place, to_heads
from numerics.run import run

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Difference:
    """The first entry in which two arrays of residues differ.

    Attributes:
        of: what they are, "O" or "gradient of g".
        place: where it is, "batch 0, token 17, value head 1, d_k 3".
        found, expected: the two residues.
        share: how many of the entries differ.
    """

    of: str
    place: str
    found: int
    expected: int
    share: float

    def __str__(self) -> str:
        return f"{self.of} differs at {self.place}, and in {self.share:.0%} of its entries"


def difference(of: str, layout: str, found: np.ndarray, expected: np.ndarray) -> Difference | None:
    """The first difference of two arrays with the dimensions of a layout; None where they are equal.

    Raises:
        ValueError: they have different shapes.
    """
    if found.shape != expected.shape:
        raise ValueError(f"{of} has the shape {found.shape} where {expected.shape} ({layout}) is expected")
    differs = found != expected
    if not differs.any():
        return None
    first = tuple(int(x) for x in np.argwhere(differs)[0])
    return Difference(of, place(layout, first), int(found[first]), int(expected[first]), float(differs.mean()))


@dataclass(frozen=True)
class Comparison:
    """What was compared, each with its first difference or None.

    Attributes:
        differences: by name: what is returned ("O", "S"), and "gradient of q" for each argument.
        without_effect: those whose expected value is zero in every entry, so that equality says little.
    """

    differences: dict[str, Difference | None]
    without_effect: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything is equal."""
        return not any(self.differences.values())

    def __str__(self) -> str:
        found = [str(x) for x in self.differences.values() if x is not None]
        return "\n".join(found) or f"equal: {', '.join(self.differences)}"


def compare_exactly(
    function: Callable[..., Any],
    described: Implementation,
    recurrence: Recurrence,
    sizes: HeadSizes,
    *,
    seed: int = 0,
    without: Sequence[str] = (),
    factors: Mapping[str, Fraction | int] | None = None,
    dtype: torch.dtype = torch.float32,
    options: Mapping[str, Any] | None = None,
) -> Comparison:
    """Whether a function computes a recurrence, forward and backward, at random residues.

    Args:
        function: takes the described arguments by name, and returns what is described.
        described: the layout of arguments and returned values, and the inputs of the statement that they stand for.
        recurrence: the statement, token by token.
        sizes: of the dimensions; packed ones pass `cu_seqlens`.
        seed: of the residues and of the cotangents.
        without: names of optional arguments that aren't passed.
        factors: by argument the number that the function multiplies it by before it is the statement's input.
        dtype: the precision that the function takes its arguments to have.
        options: other arguments of the function.

    Raises:
        StatementError: the description and the statement don't fit together.
        NoExactMeaning: the function calls an operator that has no exact meaning.
        ValueError: the function returns something else than what is described.
    """
    case = _drawn(described, recurrence, sizes, seed, without, factors or {})
    found = _found(function, case, dtype, options or {})
    expected = _expected(case)
    compared: dict[str, Difference | None] = {}
    for name, layout in described.returns:
        compared[name] = difference(name, layout, found.outputs[name], expected.outputs[name])
    for argument in case.arguments:
        name = f"gradient of {argument.name}"
        pair = (_symmetric(argument.layout, side.gradients[argument.name]) for side in (found, expected))
        compared[name] = difference(name, argument.layout, *pair)
    return Comparison(compared, tuple(_without_effect(expected)))


def _without_effect(expected: Run) -> Iterator[str]:
    named = expected.outputs | {f"gradient of {name}": x for name, x in expected.gradients.items()}
    return (name for name, x in named.items() if x.size and not x.any())


def _symmetric(layout: str, x: np.ndarray) -> np.ndarray:
    """x + x^T where the last two dimensions are the same one: a second moment of keys is symmetric, and a gradient by
    it is one up to what cancels in the transpose.
    """
    letters = layout.split()
    return (x + np.swapaxes(x, -1, -2)) % PRIME if letters[-2:] == ["k", "k"] else x


@dataclass(frozen=True)
class _Case:
    """The numbers that are drawn for one comparison.

    Attributes:
        residues: by argument, modulo p: what the function is given.
        exponents: by log gate the same numbers modulo p - 1.
        upstream: the cotangent of each returned value.
        factors: by argument, modulo p.
    """

    described: Implementation
    recurrence: Recurrence
    sizes: HeadSizes
    residues: Arrays
    exponents: Arrays
    upstream: Arrays
    factors: Mapping[str, int]

    @property
    def arguments(self) -> list[Argument]:
        """The arguments that are given."""
        return [x for x in self.described.arguments if x.name in self.residues]

    @property
    def symbols(self) -> dict[str, Basic]:
        """The inputs and states of the statement, by name."""
        return {str(x): x for x in inputs_of(self.recurrence) | set(self.recurrence.states)}

    @property
    def layouts(self) -> dict[str, str]:
        """The layout of each argument and of each returned value."""
        return {x.name: x.layout for x in self.arguments} | dict(self.described.returns)

    def values(self, argument: Argument) -> np.ndarray:
        """The statement's input: the gate of a log gate, the argument times its factor."""
        if argument.scale == "log":
            values: np.ndarray = PowersOfAGenerator()(self.exponents[argument.name])
            return values
        return self.residues[argument.name] * self.factors.get(argument.name, 1) % PRIME

    def slope(self, argument: Argument) -> np.ndarray | int:
        """The derivative of the statement's input by the argument: d exp(g) = exp(g) dg."""
        return self.values(argument) if argument.scale == "log" else self.factors.get(argument.name, 1)

    def one_sequence(self, index: int) -> _Case:
        """The numbers of one of the packed sequences."""
        assert self.sizes.lengths is not None
        ends = list(accumulate(self.sizes.lengths))
        tokens = slice(ends[index] - self.sizes.lengths[index], ends[index])
        cut = {"t": tokens, "n": slice(index, index + 1)}
        part = lambda name, x: x[tuple(cut.get(letter, slice(None)) for letter in self.layouts[name].split())]
        each = ({name: part(name, x) for name, x in a.items()} for a in (self.residues, self.exponents, self.upstream))
        residues, exponents, upstream = each
        sizes = self.sizes.one_sequence(index)
        return replace(self, sizes=sizes, residues=residues, exponents=exponents, upstream=upstream)


def _drawn(
    described: Implementation,
    recurrence: Recurrence,
    sizes: HeadSizes,
    seed: int,
    without: Sequence[str],
    factors: Mapping[str, Fraction | int],
) -> _Case:
    given = [x for x in described.arguments if x.name not in without]
    _check(described, given, recurrence)

    def draw(name: str, layout: str, modulus: int) -> np.ndarray:
        return np.random.default_rng([seed, crc32(name.encode())]).integers(0, modulus, sizes.shape(layout))

    residues = {x.name: _symmetric(x.layout, draw(x.name, x.layout, PRIME)) for x in given}
    exponents = {x.name: draw(f"log {x.name}", x.layout, UNITS) for x in given if x.scale == "log"}
    upstream = {name: _symmetric(layout, draw(f"d{name}", layout, PRIME)) for name, layout in described.returns}
    scaled = {name: int(FiniteField().number(Rational(Fraction(x)))[0, 0]) for name, x in factors.items()}
    return _Case(described, recurrence, sizes, residues, exponents, upstream, scaled)


def _check(described: Implementation, given: Sequence[Argument], recurrence: Recurrence) -> None:
    inputs, states = ({str(x) for x in symbols} for symbols in (inputs_of(recurrence), recurrence.states))
    standing = {x.stands_for for x in given}
    if unknown := sorted(standing - inputs):
        raise StatementError(f"{described.name}: {', '.join(unknown)} isn't among the inputs {sorted(inputs)}")
    if missing := sorted(inputs - states - standing):
        raise StatementError(f"{described.name}: no argument stands for {', '.join(missing)}")
    if unknown := sorted({name for name, _ in described.returns[1:]} - states):
        raise StatementError(f"{described.name} returns {', '.join(unknown)}; the states are {sorted(states)}")


def _found(function: Callable[..., Any], case: _Case, dtype: torch.dtype, options: Mapping[str, Any]) -> Run:
    inputs = {name: exact_tensor(x, case.exponents.get(name), dtype) for name, x in case.residues.items()}
    packed: dict[str, Any] = {}
    if case.sizes.lengths is not None:
        packed["cu_seqlens"] = torch.tensor([0, *accumulate(case.sizes.lengths)], dtype=torch.int32)
    upstream = iter(case.upstream.items())

    def cotangent(_: str, shape: tuple[int, ...]) -> np.ndarray:
        name, x = next(upstream, ("", np.zeros(0)))
        if shape != x.shape:
            wanted = f"{x.shape} ({case.layouts[name]}) for {name}" if name else "nothing more"
            raise ValueError(f"{case.described.name} returns the shape {shape} where the description has {wanted}")
        return x

    found = run_exactly(lambda: function(**inputs, **packed, **options), inputs, cotangent)
    if len(found.outputs) != len(case.described.returns):
        missing = ", ".join(list(case.upstream)[len(found.outputs) :])
        raise ValueError(f"{case.described.name} doesn't return {missing}, which the description has")
    return Run(dict(zip(case.upstream, found.outputs.values(), strict=True)), found.gradients)


def _expected(case: _Case) -> Run:
    """What the statement says, in the layouts of the function."""
    if case.sizes.lengths is None:
        return _of_one_batch(case) if case.sizes.tokens else _of_nothing(case)
    parts = [_expected(case.one_sequence(index)) for index in range(len(case.sizes.lengths))]
    join = lambda of: {name: _joined([of(part)[name] for part in parts], case.layouts[name]) for name in of(parts[0])}
    return Run(join(lambda part: part.outputs), join(lambda part: part.gradients))


def _joined(parts: list[np.ndarray], layout: str) -> np.ndarray:
    """What packed sequences have one after another, or share: then their gradients add up."""
    letters = layout.split()
    for letter in ("t", "n"):
        if letter in letters:
            return np.concatenate(parts, axis=letters.index(letter))
    return sum(parts[1:], start=parts[0]) % PRIME


def _of_nothing(case: _Case) -> Run:
    """Without tokens the last state is the first one."""
    states = {x.stands_for: x.name for x in case.arguments}
    outputs = {
        name: case.residues[states[name]] if name in states else np.zeros_like(x) for name, x in case.upstream.items()
    }
    gradients = {x.name: case.upstream.get(x.stands_for, np.zeros_like(case.residues[x.name])) for x in case.arguments}
    return Run(outputs, gradients)


def _of_one_batch(case: _Case) -> Run:
    recurrence, sizes, returns = case.recurrence, case.sizes, case.described.returns
    env = _environment(case)
    outcome = run(recurrence, env, FiniteField())
    states = {str(x): x for x in recurrence.states}
    values = dict(zip((returns[0][0], *states), (outcome.output, *outcome.states), strict=True))
    slots = {returns[0][0]: cotangent_of_output(recurrence)} | {name: cotangent_of(x) for name, x in states.items()}
    outputs = {name: from_heads(values[name], layout, slots[name], sizes) for name, layout in returns}
    env |= {slots[name]: np.zeros_like(value) for name, value in values.items()}
    env |= {slots[name]: to_heads(case.upstream[name], layout, slots[name], sizes) for name, layout in returns}
    found = cotangents(adjoint(recurrence), env, FiniteField())
    gradients = {}
    for x in case.arguments:
        symbol = case.symbols[x.stands_for]
        whole = np.broadcast_to(found.get(symbol, 0), env[symbol].shape)  # what nothing reads has none
        gradients[x.name] = from_heads(whole, x.layout, symbol, sizes) * case.slope(x) % PRIME
    return Run(outputs, gradients)


def _environment(case: _Case) -> dict[Any, Any]:
    """The inputs of the statement, and the sizes of all their dimensions."""
    inputs = [case.symbols[x.stands_for] for x in case.arguments]
    given = {
        symbol: to_heads(case.values(x), x.layout, symbol, case.sizes)
        for symbol, x in zip(inputs, case.arguments, strict=True)
    }
    sides = {side for x in case.symbols.values() for side in shape_of_input(x) if isinstance(side, Symbol)}
    known = {"n": case.sizes.tokens, "d_v": case.sizes.d_v}
    return given | {side: known.get(str(side), case.sizes.d_k) for side in sides}
