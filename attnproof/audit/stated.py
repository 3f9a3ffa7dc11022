"""Subjects that the oracle has no convention for, since they fix an input of the statement or have other ones: held
against the statement directly.

The statement is evaluated in float64 on the inputs as float32 has them; the tolerance of each row comes from rounding
noise in the order of the subject's forms, as for the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from attnproof.audit.subjects import Subject
from attnproof.oracle.findings import Finding
from derivations.language.forms import Form
from derivations.language.statements import Identity
from derivations.language.symbols import Gate
from numerics.algebras.floats import numpy_float64
from numerics.float_inputs import float_inputs, rounded_inputs
from numerics.inputs import Sizes
from numerics.proofs.tolerances import Roundings, tolerances_of
from numerics.run import run

UNIT_ROUNDOFF = 2.0**-24
HEADS, SQUARE, WIDE = 3, (6, 6), (6, 4)
SHARP = 0.05
Named = dict[str, np.ndarray]
"""Inputs by their names in the statement, (heads, rows, columns)."""


@dataclass(frozen=True)
class Input:
    """One input: how many tokens, from which state, and how strong gates are."""

    tokens: int
    with_state: bool
    family: str = "plain"
    seed: int = 0

    def __str__(self) -> str:
        state = "" if self.with_state else ", no initial state"
        gates = f", {self.family}" if self.family != "plain" else ""
        return f"n = {self.tokens}{state}{gates}"


@dataclass(frozen=True, kw_only=True)
class Stated(Subject):
    """A subject with its statement. Its adapter makes a function of inputs by name, in Torch's float32 arrays, that
    returns output and last states as matrices of the statement.

    Attributes:
        forms: the statement and other orders of its operations, by their names in the module of the derivation.
        fixed: inputs that the library fixes, from the others.
        widths: d_k and d_v.
        takes_state: whether it can start from a state.
        states: how many of the statement's states it returns.
    """

    forms: tuple[str, ...]
    fixed: Callable[[Named], Named] = lambda inputs: {}
    widths: tuple[int, int] = WIDE
    takes_state: bool = True
    states: int = 1

    @property
    def form(self) -> Form:
        """The statement."""
        return _form(self.derivation, self.forms[0])

    def findings(self) -> Iterator[Finding]:
        """One for each check."""
        c = self.chunk_size
        lengths = (1, 2, c - 1, c, c + 1, 2 * c + 1, 3 * c + 5)
        if self.takes_state:
            yield self.compared("lengths", [Input(n, True) for n in lengths])
            yield self.compared("no initial state", [Input(n, False) for n in (2, 2 * c + 3)])
        else:
            yield self.compared("lengths", [Input(n, False) for n in lengths])
        yield self.causality()

    def compared(self, name: str, inputs: list[Input]) -> Finding:
        """Output and states on each input, up to the first that fails."""
        ratio, sharpness = 0.0, 0.0
        for x in inputs:
            try:
                found, seen = self.error_over_tolerance(x)
            except Exception as error:
                return Finding(name, "refuted", np.inf, message=f"{x}: it raised {type(error).__name__}: {error}")
            ratio, sharpness = max(ratio, found), max(sharpness, seen)
            if not found <= 1:
                return Finding(name, "refuted", found, sharpness, f"{x}: off by {found:.3g} tolerances")
        return Finding(name, "holds" if 0 < sharpness < SHARP else "vacuous", ratio, sharpness)

    def error_over_tolerance(self, x: Input) -> tuple[float, float]:
        """The largest of any row, and the smallest relative error that would have been seen."""
        env = self.drawn(x)
        outcome = run(self.form, env, numpy_float64())
        wanted = [outcome.output, *outcome.states][: 1 + self.states]
        rng = np.random.default_rng((x.seed, 1))
        roundings = Roundings(UNIT_ROUNDOFF, _gates(env))
        each = [tolerances_of(_form(self.derivation, f), env, roundings, rng) for f in self.forms]
        tolerances = [np.maximum.reduce(rows) for rows in zip(*(x[: len(wanted)] for x in each), strict=True)]
        ratios, sharpness = [], []
        for value, right, tolerance in zip(self.returned(env), wanted, tolerances, strict=False):
            if value.shape != right.shape or not np.isfinite(value).all():
                raise ValueError(f"{value.shape} with inf or NaN, where {right.shape} is right")
            error = abs(value - right).max(axis=-1)
            ratios.append(np.where(error > 0, error / np.maximum(tolerance, 1e-300), 0.0).max())
            sharpness.append(float(np.median(tolerance) / abs(right).max()))
        return float(max(ratios)), max(sharpness)

    def causality(self) -> Finding:
        """Earlier rows don't change with later tokens."""
        n, cut = 2 * self.chunk_size + 3, self.chunk_size + 2
        env, other = (self.drawn(Input(n, False, seed=seed)) for seed in (0, 1))
        per_token = [x for x, v in env.items() if getattr(v, "ndim", 0) == 3 and v.shape[1] == n]
        changed = env | {x: np.concatenate([env[x][:, :cut], other[x][:, cut:]], axis=1) for x in per_token}
        before, after = (self.returned(inputs)[0][:, :cut] for inputs in (env, changed))
        gap = abs(before - after).max() / abs(before).max()
        message = f"rows before token {cut} change by {gap:.2g} with the tokens from there on" if gap else ""
        return Finding("causality", "refuted" if gap > cut * UNIT_ROUNDOFF else "holds", float(gap), message=message)

    def drawn(self, x: Input) -> dict[Any, Any]:
        """Inputs of the statement as float32 represents them."""
        sizes = Sizes(x.tokens, *self.widths, chunk=self.chunk_size)
        identity = Identity(self.name, self.form, self.form)
        rng = np.random.default_rng((x.seed, x.tokens))
        env = float_inputs(identity, sizes, rng, x.family, batch=HEADS)
        for state in getattr(self.form, "states", ()):
            env.pop(state, None)
            if x.with_state:  # positive, since RWKV-4 divides by one
                shape = tuple(int(side.subs(sizes.environment(identity))) for side in state.shape)
                env[state] = abs(rng.normal(size=(HEADS, *shape))) + 0.5
        given = rounded_inputs(env, UNIT_ROUNDOFF)
        by_name = self.fixed(_named(given))
        return {symbol: by_name.get(str(symbol), value) for symbol, value in given.items()}

    def returned(self, env: Mapping[Any, Any]) -> list[np.ndarray]:
        """What the function returns, in float64."""
        import torch

        tensors = {name: torch.tensor(x, dtype=torch.float32) for name, x in _named(env).items()}
        with torch.no_grad():
            return [x.double().numpy() for x in self.kernel()(**tensors)]


def _named(env: Mapping[Any, Any]) -> Named:
    return {str(x): v for x, v in env.items() if isinstance(v, np.ndarray)}


def _form(derivation: str, name: str) -> Form:
    form: Form = getattr(import_module(f"derivations.{derivation}"), name)
    return form


def _gates(env: Mapping[Any, Any]) -> dict[Any, Any]:
    """Gates from cumulated logarithms, with their errors: the absolute error of such a sum is a gate's relative one."""
    gates = {x: v for x, v in env.items() if isinstance(x, Gate) and str(x) == "gamma"}
    return {x: 1 + abs(np.log(v)).cumsum(axis=1) for x, v in gates.items()}
