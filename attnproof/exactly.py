"""Exact mode for anybody's PyTorch function: it runs in GF(p), p = 2^31 - 1, unchanged, forward and backward.

    chunked = attnproof.exact(my_chunk_kernel, q, k, v, g, beta, log=["g"], chunk_size=16)
    recurrent = attnproof.exact(my_recurrent_kernel, q, k, v, g, beta, log=["g"])
    print(chunked.differences(recurrent))

Two functions that compute the same formula give the same residues, however they sum it up; no tolerance is needed. An
operator without a meaning in a finite field (a root, a comparison, a softmax) stops with an error that names it and the
line that called it. `compare_exactly` holds a function against a statement.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

try:
    import torch
except ImportError as error:
    raise ImportError("attnproof.exact runs PyTorch functions: pip install 'attnproof[torch]'") from error
import numpy as np
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten

from attnproof.catalogue import load_catalogue
from derivations.language.adjoint import inputs_of
from derivations.language.errors import StatementError
from derivations.language.forms import Recurrence
from gpu.exact_mode.modular import PRIME, UNITS
from gpu.exact_mode.running import Run, exact_tensor
from gpu.exact_mode.running import run as run_exactly
from gpu.exact_mode.tensor import ExactTensor
from gpu.registry import Implementation
from numerics import exact_runs
from numerics.exact_runs import Comparison, Difference, difference
from numerics.head_layouts import HeadSizes


class ExactRun(Run):
    """What a function computed from random residues.

    Attributes:
        outputs: by name ("output", or "output[0]" of a tuple) the residues of every float tensor that it returned.
        gradients: by argument the residues of the derivative of <dO, O>, with random residues dO for every output.
    """

    def differences(self, other: ExactRun) -> list[Difference]:
        """Where this run and another one differ: outputs in the order in which they are returned, and gradients in
        the order of the arguments. Names are those of this run.

        Raises:
            ValueError: they differ in the number of outputs or arguments, or in a shape.
        """
        found: list[Difference | None] = []
        for mine, theirs, title in (
            (self.outputs, other.outputs, "{}"),
            (self.gradients, other.gradients, "gradient of {}"),
        ):
            if len(mine) != len(theirs):
                raise ValueError(f"one run has {', '.join(mine) or 'nothing'}, the other {', '.join(theirs)}")
            for (name, x), y in zip(mine.items(), theirs.values(), strict=True):
                layout = " ".join(f"dimension-{k}" for k in range(x.ndim))
                found.append(difference(title.format(name), layout, x, y))
        return [x for x in found if x is not None]


def exact(
    function: Callable[..., Any],
    *args: Any,
    log: Collection[str] = (),
    constant: Collection[str] = (),
    seed: int = 0,
    gradients: bool = True,
    **kwargs: Any,
) -> ExactRun:
    """Runs a PyTorch function in exact arithmetic on random numbers, forward and backward.

    Every float tensor among the arguments gives its shape, dtype and device, and is replaced by random residues; all
    other arguments are passed as they are (with functools.partial where they have a name of `exact`'s own). A float
    that the function multiplies by is read as the short fraction, or root of one, that it is a rounding of: 0.1 is
    1/10, and 32**-0.5 squared is 1/32.

    Args:
        function: eager PyTorch code. Where it is compiled with torch.compile, it runs uncompiled.
        args, kwargs: its arguments; it takes the float tensors among them as new tensors, and doesn't change yours.
        log: names of arguments that are logarithms of gates. They are integers: exp sees them modulo p - 1, and
            everything else modulo p. Nothing else has an exponential.
        constant: names of arguments that keep their values, each read as a fraction.
        seed: of the random numbers. The same seed gives the same numbers to any function that takes tensors of these
            shapes in this order.
        gradients: whether to differentiate by every replaced tensor.

    Raises:
        NoExactMeaning: the function calls an operator that has none; the message has its name and the line.
        UndefinedHere: it divides by zero.
        ValueError: `log` or `constant` names no argument.
    """
    positional = _positional_names(function, len(args))
    leaves, structure = tree_flatten_with_path(dict(zip(positional, args, strict=True)) | kwargs)
    named = [(_name(path), _name(path[:1]), x) for path, x in leaves]
    _check_names(named, log, constant)
    inputs = dict(_drawn(named, log, constant, seed))
    passed = tree_unflatten([inputs.get(name, x) for name, _, x in named], structure)
    first = [passed.pop(name) for name in positional]
    cotangents = _residues(seed, "cotangents")
    cotangent = lambda _, shape: next(cotangents)(shape, PRIME)
    found = run_exactly(lambda: function(*first, **passed), inputs, cotangent if gradients else None)
    return ExactRun(found.outputs, found.gradients)


def _name(path: tuple[Any, ...]) -> str:
    return f"{path[0].key}{keystr(path[1:])}"


def _positional_names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of the first parameters; a number where there is no name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a builtin
        parameters = {}.values()
    named = [x.name for x in parameters if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)][:count]
    return named + [f"args[{k}]" for k in range(len(named), count)]


Draw = Callable[[Sequence[int], int], np.ndarray]
"""From a shape and a bound, integers at random."""
Leaf = tuple[str, str, Any]
"""The name of a leaf, "states[0]", that of its argument, "states", and its value."""


def _check_names(named: Sequence[Leaf], *groups: Collection[str]) -> None:
    tensors = {argument for _, argument, x in named if _is_replaced(x)}
    for name in sorted({name for group in groups for name in group} - tensors):
        raise ValueError(f"{name!r} is no argument with float tensors; those are {', '.join(sorted(tensors))}")


def _is_replaced(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _drawn(
    named: Sequence[Leaf], log: Collection[str], constant: Collection[str], seed: int
) -> Iterator[tuple[str, ExactTensor]]:
    drawn = _residues(seed, "arguments")
    for name, argument, x in named:
        if not _is_replaced(x) or argument in constant:
            continue
        draw = next(drawn)
        residues, exponents = draw(x.shape, PRIME), draw(x.shape, UNITS) if argument in log else None
        yield name, exact_tensor(residues, exponents, x.dtype, x.device)


def _residues(seed: int, purpose: str) -> Iterator[Draw]:
    """For the first tensor, the second one, and so on a source of random integers of its own."""
    for position in count():
        rng = np.random.default_rng([seed, crc32(purpose.encode()), position])
        yield partial(_integers, rng)


def _integers(rng: np.random.Generator, shape: Sequence[int], below: int) -> np.ndarray:
    return rng.integers(0, below, tuple(shape))


def compare_exactly(
    function: Callable[..., Any],
    described: Implementation,
    sizes: HeadSizes,
    *,
    statement: Recurrence | None = None,
    seed: int = 0,
    without: Sequence[str] = (),
    factors: Mapping[str, Fraction | int] | None = None,
    dtype: torch.dtype = torch.float32,
    options: Mapping[str, Any] | None = None,
    derivations: Sequence[str | Path] = (),
) -> Comparison:
    """Whether a PyTorch function computes a system, forward and backward: outputs, final states and all gradients.

    Args:
        function: takes the described arguments by name.
        described: what its arguments stand for in the derivation; see `gpu.registry`.
        statement: a recurrence to compare with instead of the derivation's own.
        sizes: of batch, heads, tokens and channels; with `HeadSizes.packed`, `cu_seqlens` is passed.
        seed: of the random residues.
        without: names of optional arguments that aren't passed.
        factors: by argument the number that the function multiplies it by first, as {"q": Fraction(1, 8)}.
        dtype: the precision that the function takes its arguments to have.
        options: other arguments of the function.
        derivations: folders with derivations of one's own.

    Raises:
        StatementError: no recurrence of the derivation reads what the arguments stand for.
        NoExactMeaning: the function calls an operator that has no exact meaning.
        ValueError: the function returns something else than what is described.
    """
    recurrence = statement or _recurrence(described, derivations)
    return exact_runs.compare_exactly(
        function,
        described,
        recurrence,
        sizes,
        seed=seed,
        without=without,
        factors=factors,
        dtype=dtype,
        options=options,
    )


def _recurrence(described: Implementation, derivations: Sequence[str | Path]) -> Recurrence:
    """The recurrence of the derivation that reads what the arguments stand for."""
    derivation = load_catalogue(derivations).derivations.get(described.derivation)
    if derivation is None:
        raise StatementError(f"there is no derivation {described.derivation!r}")
    read = {x.stands_for for x in described.arguments}
    token_by_token = [x.recurrence for x in derivation.backward]
    for recurrence in token_by_token:
        states = {str(x) for x in recurrence.states}
        if {str(x) for x in inputs_of(recurrence)} - states == read - states:
            return recurrence
    raise StatementError(f"{described.derivation} has no recurrence that reads {', '.join(sorted(read))}")
