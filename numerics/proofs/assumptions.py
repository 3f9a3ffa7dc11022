"""Each assumption is needed: without it, some exact input has no value or refutes the identity.

The input violates the assumption that is dropped and fulfils the others. An assumption without such an input is
superfluous, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np

from derivations.language.assumptions import Assumption
from derivations.language.errors import NoMeaning, UndefinedValue
from derivations.language.forms import SumOfSquares
from derivations.language.statements import Identity
from numerics.algebras.objects import matrix_of
from numerics.algebras.rationals import Rationals
from numerics.evidence import Evidence, written
from numerics.inputs import CannotDraw, Sizes, fulfilled, plan, rational_inputs, shape_of
from numerics.proofs.compare import sides

SMALL = (Sizes(1, 1, 1, 1), Sizes(2, 1, 1, 1), Sizes(1, 2, 1, 1), Sizes(2, 2, 1, 1), Sizes(3, 2, 1, 1))
PLAIN = (Fraction(-1), Fraction(0), Fraction(2), Fraction(1, 2))
RANDOM_TRIES = 60


@dataclass(frozen=True)
class Witness:
    """An input that shows that an assumption is needed, and how: "undefined" or "refuted"."""

    how: str
    inputs: dict[str, list[list[str]]]
    message: str


def witness(identity: Identity, assumption: Assumption) -> Witness | None:
    """The first exact input without the assumption at which the identity fails or has no value."""
    bare = identity.without(assumption)
    algebra = Rationals()
    for sizes in SMALL:
        for env in _violating(bare, assumption, sizes):
            try:
                others = all(fulfilled(a, env, algebra) for a in bare.assumptions)
                violates = not _fulfilled_or_undefined(assumption, env)
            except NoMeaning:
                continue
            if others and violates:
                found = _failure(bare, env)
                if found is not None:
                    return Witness(found[0], {str(x): written(env[x]) for x in identity.inputs() if x in env}, found[1])
    return None


def _fulfilled_or_undefined(assumption: Assumption, env: dict[Any, Any]) -> bool:
    try:
        return fulfilled(assumption, env, Rationals())
    except UndefinedValue:
        return False


def _violating(bare: Identity, assumption: Assumption, sizes: Sizes) -> Iterator[dict[Any, Any]]:
    """All ones, except that what the assumption speaks about takes a plain value; then small fractions at random."""
    dimensions = sizes.environment(bare)
    names = [x for x in bare.inputs() if x not in plan(bare).spheres]
    if len(names) == len(bare.inputs()):
        for value in PLAIN:
            env: dict[Any, Any] = dict(dimensions)
            for x in names:
                rows, columns = shape_of(x, env)
                entry = value if x in assumption.subjects() else Fraction(1)
                env[x] = matrix_of([[entry] * columns for _ in range(rows)])
            yield env
    rng = np.random.default_rng(0)
    for _ in range(RANDOM_TRIES):
        try:
            yield rational_inputs(bare, sizes, rng)
        except CannotDraw:
            return


def _failure(bare: Identity, env: dict[Any, Any]) -> tuple[str, str] | None:
    try:
        for name, left, right in sides(bare, env, Rationals()):
            if _is_square_sum(bare) and (right < 0).any():
                return "refuted", f"the sum of squares is {right[0, 0]}"
            if (left != right).any():
                row, column = (int(x) for x in np.argwhere(left != right)[0])
                return "refuted", f"{name}, row {row + 1}: {left[row, column]} against {right[row, column]}"
    except UndefinedValue as error:
        return "undefined", str(error)
    except NoMeaning:
        return None
    return None


def _is_square_sum(identity: Identity) -> bool:
    """Whether the right side claims to be positive."""
    return isinstance(identity.right, SumOfSquares)


def check(identity: Identity) -> Evidence:
    """The assumptions rung of one identity: holds where each assumption is needed (or there are none)."""
    begun = perf_counter()
    shown: list[dict[str, Any]] = []
    superfluous: list[str] = []
    for assumption in identity.assumptions:
        found = witness(identity, assumption)
        if found is None:
            superfluous.append(str(assumption))
        else:
            shown.append(
                {
                    "assumption": str(assumption),
                    "without_it": found.how,
                    "inputs": found.inputs,
                    "message": found.message,
                }
            )
    details = {"needed": shown} if shown else {}
    if superfluous:
        message = f"{identity.place}: no input was found that shows {' and '.join(superfluous)} to be needed"
        return Evidence("assumptions", "unknown", (), perf_counter() - begun, message, details)
    return Evidence("assumptions", "holds", (), perf_counter() - begun, details=details)
