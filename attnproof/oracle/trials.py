"""One input, what the statement makes of it, and how far a kernel may be off: the tolerance is computed, row by row.

The statement is evaluated in float64 for each batch and value head, on the inputs as the kernel's precision represents
them. A kernel may compute in the order of any of its forms, so that the largest of their tolerances counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from attnproof.implementation_cases import QUERIES, Case, largest_tolerances
from attnproof.oracle.conventions import OUTPUT
from attnproof.oracle.statements import (
    carries_a_state,
    computed,
    described,
    environment,
    forms_of,
    is_gate,
    presented,
    symbols_of,
)
from attnproof.oracle.subject import Arrays, Misbehaved, Subject
from derivations.language import V, n
from derivations.language.errors import NoMeaning, StatementError, UndefinedValue
from gpu.registry import Argument
from numerics.head_layouts import HeadSizes, to_heads
from numerics.proofs.tolerances import Roundings

SHARP = 0.125
"""Where the tolerance is more than this share of the output, an input tests nothing and isn't counted. In bfloat16 the
roundings of products' operands alone, with their margin, are five to ten hundredths of it, and of a rotated state more;
whether each argument is tested at all is counted apart (`Trial.tested`)."""
CLEAR = 4.0
"""So many tolerances an output must move when an argument is taken away, for the input to count as a test of it."""
LARGEST = {"float64": 1.8e308, "float32": 3.4e38, "bfloat16": 3.4e38, "float16": 65504.0}
SMALLEST = {"float64": 2.3e-308, "float32": 1.2e-38, "bfloat16": 1.2e-38, "float16": 6.2e-5}
"""The smallest numbers with all their digits: below, a precision rounds to multiples of the last one's."""
NO_VALUE = (NoMeaning, StatementError, UndefinedValue, KeyError, ValueError, np.linalg.LinAlgError)
"""What a formula may raise that has no value on some input."""
READ_BEFORE = {"comba": ("P",), "rwkv6": ("R",), "rwkv7": ("kappa",)}
"""By derivation the inputs that read the state before the gate of their own token."""
CARRY = "what is carried from block to block"


@dataclass(frozen=True)
class Gap:
    """How far one returned value is from the statement.

    Attributes:
        name: the value, "O" or a state.
        ratio: the largest error over tolerance of any row.
        where: that row.
        first_token: the first token whose row is off; None for states.
        sharpness: the smallest relative error of the value that would have been seen.
    """

    name: str
    ratio: float
    where: str
    first_token: int | None
    sharpness: float

    @property
    def counts(self) -> bool:
        return self.sharpness < SHARP


class Trial:
    """A case for a subject: arguments, the statement's values and tolerances.

    Args:
        shared: arguments to take in the place of drawn ones.
    """

    def __init__(self, subject: Subject, case: Case, shared: Mapping[str, np.ndarray] | None = None) -> None:
        self.subject, self.case = subject, case
        self.sizes = case.sizes(described(subject.convention))
        self.arguments = presented(subject, case) | dict(shared or {})
        self.env = environment(subject.convention, self.arguments, case, self.sizes)
        self.names = [OUTPUT, *(str(x) for x in forms_of(subject.convention.derivation)[0].states)]
        self.values = computed(forms_of(subject.convention.derivation)[0], self.env, self.names)
        self.tolerances = self._tolerances()

    def rounded_by_the_kernel(self) -> dict[Any, np.ndarray]:
        """Inputs of the statement that the kernel computes, with their errors in units of u: gates from logarithms.

        An absolute error of a logarithm is a relative one of the gate, beside the rounding of exp. What reads the state
        before its token's gate has the decays up to the token before, whose logarithms are those up to the token less
        its own: they are off by a rounding of the sum, even over no token at all.
        """
        logs = {x: np.log(np.maximum(self.env[x], 1e-300)) for x in self.gates}
        linear = {self._symbol(x) for x in self.subject.convention.arguments if x.scale == "linear"}
        errors = {x: 1 - logs[x] for x in self.gates if x not in linear}
        for name in READ_BEFORE.get(self.subject.convention.derivation, ()):
            errors[symbols_of(self.subject.convention.derivation)[name]] = sum(
                abs(np.cumsum(logs[x], axis=-2)) for x in self.cumulated
            )
        return errors

    @cached_property
    def roundings(self) -> Roundings:
        """How the kernel may round."""
        subject = self.subject
        return Roundings(subject.unit_roundoff, self.rounded_by_the_kernel(), subject.of_sums, self.cumulated)

    @cached_property
    def computed_by_the_kernel(self) -> frozenset[Any]:
        """The inputs of the statement that aren't what the kernel is given."""
        return frozenset({*self.roundings.computed, *self.roundings.cumulated})

    @property
    def gates(self) -> list[Any]:
        """The gates among the inputs, on whatever scale the kernel takes them."""
        return [self._symbol(x) for x in self.subject.convention.arguments if is_gate(x, self.subject)]

    @property
    def cumulated(self) -> list[Any]:
        """The gates of single tokens, whose logarithms kernels sum up."""
        return [x for x in self.gates if x.shape[0] == n]

    def _tolerances(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng((self.case.seed, 1))
        orders = forms_of(self.subject.convention.derivation)
        found = largest_tolerances(orders, self.env, self.roundings, rng)
        return {name: np.maximum(x, self.smallest) for name, x in zip(self.names, found, strict=True)}

    @property
    def smallest(self) -> float:
        """What is rounded away below the smallest number that has all its digits."""
        return SMALLEST[self.subject.dtype] * self.subject.unit_roundoff

    def _symbol(self, argument: Argument) -> Any:
        return symbols_of(self.subject.convention.derivation)[argument.stands_for]

    def gaps(self, returned: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray] | None = None) -> list[Gap]:
        """How far returned values are from the statement's, or from others in its place.

        Raises:
            Misbehaved: a value has the wrong shape, or isn't finite.
        """
        return [
            self._gap(name, layout, returned[name], values or self.values) for name, layout in self.returned_names()
        ]

    def returned_names(self) -> list[tuple[str, str]]:
        """What is returned and compared, each with its layout."""
        return [(name, layout) for name, layout in self.subject.convention.returns if name in self.values]

    def _gap(self, name: str, layout: str, returned: np.ndarray, values: Mapping[str, np.ndarray]) -> Gap:
        found, wanted, tolerance = self.stated(name, layout, returned), values[name], self.tolerances[name]
        if not np.isfinite(found).all():
            if self.overflows:
                return Gap(name, 0.0, "", None, np.inf)
            raise Misbehaved(f"{name} isn't finite, first at {self._first(name, ~np.isfinite(found))}")
        error = abs(found - wanted)
        ratio = in_tolerances(error.max(axis=-1), tolerance)
        size = abs(wanted).max() if wanted.size else 0.0
        sharpness = float(np.median(tolerance) / size) if size else 0.0
        bad = np.flatnonzero((ratio > 1).any(axis=0) & (name == OUTPUT))
        where = self._place(name, error, ratio) if ratio.size else ""
        return Gap(name, float(ratio.max(initial=0.0)), where, int(bad[0]) if len(bad) else None, sharpness)

    @property
    def linear_in_queries(self) -> bool:
        """Whether half the queries give half the output, and the same states."""
        symbols = symbols_of(self.subject.convention.derivation)
        queries = [x for name, x in symbols.items() if name in QUERIES and x in self.env]
        halved = self._computed({**self.env, **{x: self.env[x] / 2 for x in queries}})
        same = halved | {OUTPUT: 2 * halved[OUTPUT]}
        return all(np.allclose(same[x], self.values[x], rtol=1e-9, atol=1e-12) for x in self.names)

    @property
    def overflows(self) -> bool:
        """Whether what the statement gives comes near the largest number of the kernel's precision."""
        largest = max(abs(x).max(initial=0.0) for x in self.values.values())
        return bool(largest > LARGEST[self.subject.dtype] / 100)

    def _place(self, name: str, error: np.ndarray, ratio: np.ndarray) -> str:
        """The worst entry in words."""
        head, row = (int(k) for k in np.unravel_index(ratio.argmax(), ratio.shape))
        return self._words(name, head, row, int(error[head, row].argmax()))

    def _words(self, name: str, head: int, row: int, channel: int) -> str:
        heads = self.sizes.value_heads
        first = f"batch {head // heads}, value head {head % heads}"
        if name != OUTPUT:
            return f"{first}, row {row}, column {channel}"
        last = " (the last one)" if row == self.case.tokens - 1 else ""
        block = f", {row % self.case.chunk_size} in its block" if self.case.tokens > self.case.chunk_size else ""
        return f"{first}, token {row}{last}{block}, channel {channel}"

    @property
    def testable(self) -> frozenset[str]:
        """What this input could be a test of: the arguments that are passed, and what is carried over a block's end."""
        carries = carries_a_state(self.subject.convention) and self.case.tokens > self.case.chunk_size
        return frozenset(self.arguments) | ({CARRY} if carries else set())

    @property
    def tested(self) -> frozenset[str]:
        """The arguments that this input tests: without one, output or a state move by `CLEAR` tolerances.

        Without a state, a strength, a query or a key means zero in its place; a gate, one. Also whether it tests that
        a state is carried from block to block.
        """
        passed = [x for x in self.subject.convention.arguments if x.name in self.arguments]
        found = {x.name for x in passed if self._moves(partial(self._computed, self._without(x)))}
        if CARRY in self.testable and self._moves(lambda: without_carry(self, self.case.chunk_size)):
            found.add(CARRY)
        return frozenset(found)

    def _without(self, argument: Argument) -> dict[Any, Any]:
        symbol = self._symbol(argument)
        value = self.env[symbol]
        if is_gate(argument, self.subject) or argument.stands_for == "c":  # a cosine
            return {**self.env, symbol: np.ones_like(value)}
        return {**self.env, symbol: 2 * value if argument.stands_for == "Lambda" else 0 * value}

    def _computed(self, env: Mapping[Any, Any]) -> Arrays:
        return computed(forms_of(self.subject.convention.derivation)[0], env, self.names)

    def _moves(self, values: Callable[[], Mapping[str, np.ndarray]]) -> bool:
        try:
            other = values()
        except NO_VALUE:  # a division by what was taken away
            return True
        return any(
            (in_tolerances(abs(other[x] - self.values[x]).max(axis=-1), self.tolerances[x]) > CLEAR).any()
            for x in self.names
        )

    def stated(self, name: str, layout: str, returned: np.ndarray) -> np.ndarray:
        """A returned value as matrices of the statement, one for each batch and value head.

        Raises:
            Misbehaved: it has the wrong shape.
        """
        check_shape(name, returned, layout, self.sizes)
        symbol = V if name == OUTPUT else symbols_of(self.subject.convention.derivation)[name]
        return to_heads(returned, layout, symbol, self.sizes)

    def _first(self, name: str, bad: np.ndarray) -> str:
        head, row, channel = (int(k) for k in np.argwhere(bad)[0])
        return self._words(name, head, row, channel)


def check_shape(name: str, value: np.ndarray, layout: str, sizes: HeadSizes) -> None:
    """Raises Misbehaved where a returned value hasn't the shape of its layout."""
    if value.shape != sizes.shape(layout):
        raise Misbehaved(f"{name} has the shape {value.shape} where {layout!r} is {sizes.shape(layout)}")


def in_tolerances(error: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Errors in units of their tolerances; NaN is infinitely far off."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.where(error == 0, 0.0, error / np.maximum(tolerance, 1e-300))
    return np.nan_to_num(ratio, nan=np.inf, posinf=np.inf)


def without_carry(trial: Trial, size: int) -> Arrays:
    """The statement's values if each block of `size` tokens began from an empty state, but for the first one."""
    form = forms_of(trial.subject.convention.derivation)[0]
    rows, env, last = [], dict(trial.env), {}
    for start in range(0, trial.case.tokens, size):
        stop = min(start + size, trial.case.tokens)
        cut = {x: v[..., start:stop, :] if _runs(x) else v for x, v in env.items()}
        last = computed(form, {**cut, n: stop - start}, trial.names)
        rows.append(last[OUTPUT])
        env |= {state: 0 * env[state] for state in form.states if state in env}
    return {**last, OUTPUT: np.concatenate(rows, axis=-2)}


def _runs(x: Any) -> bool:
    return getattr(x, "shape", (0,))[0] == n
