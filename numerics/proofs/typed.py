"""Rung 1, typed: the statement fits together, its two sides are different objects, and its assumptions admit inputs."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import numpy as np
from sympy import Basic, Dummy, Expr

from derivations.language.errors import StatementError
from derivations.language.forms import SumOfSquares
from derivations.language.statements import Identity
from derivations.language.symbols import GateToken
from numerics.algebras.shapes import Shape, Shapes
from numerics.evidence import Evidence, Verdict
from numerics.inputs import CannotDraw, Sizes, plan, rational_inputs, shape_of, sides_are_one_object
from numerics.proofs.compare import sides

DISTINCT = Sizes(n=7, d_k=5, d_v=3, chunk=2)
"""Every dimension another number, so that a mismatch can't hide."""


def check(identity: Identity) -> Evidence:
    """The typed rung of one identity."""
    begun = perf_counter()

    def evidence(verdict: Verdict, message: str = "") -> Evidence:
        return Evidence("typed", verdict, (DISTINCT.as_json(),), perf_counter() - begun, message)

    if sides_are_one_object(identity):
        return evidence(
            "vacuous", f"{identity.place}: the two sides are the same statement, so comparing them shows nothing"
        )
    try:
        _walk_shapes(identity)
    except (StatementError, TypeError) as error:
        return evidence("unknown", f"{identity.place}: {error}")
    doubtful = weights_without_a_sign(identity)
    if doubtful:
        return evidence("unknown", f"{identity.place}: nothing says that {doubtful[0]} >= 0, as a sum of squares needs")
    try:
        admitted_inputs(identity)
    except CannotDraw as error:
        return evidence("vacuous", f"{identity.place}: {error}")
    return evidence("holds")


def weights_without_a_sign(identity: Identity) -> list[Expr]:
    """The weights of sums of squares that the assumptions don't make nonnegative."""
    signs = plan(identity).signs
    terms = [term for side in (identity.left, identity.right) if isinstance(side, SumOfSquares) for term in side.terms]
    return [weight for weight, *_ in terms if not _with_signs(weight, signs).is_nonnegative]


def _with_signs(weight: Expr, signs: Mapping[Basic, str]) -> Expr:
    """The weight with every gate token replaced by a symbol that SymPy knows the sign of."""
    known = {">=": Dummy(nonnegative=True), ">": Dummy(positive=True)}
    tokens = weight.atoms(GateToken)
    return weight.xreplace({x: known.get(signs.get(x.sequence, ""), Dummy(real=True)) for x in tokens})


def _walk_shapes(identity: Identity) -> None:
    algebra = Shapes()
    env = dict(DISTINCT.environment(identity))
    shapes = {x: Shape(*shape_of(x, env)) for x in identity.inputs()}
    for name, left, right in sides(identity, {**env, **shapes}, algebra):
        if left != right:
            raise StatementError(f"the {name} of the left side is {left.shape}, of the right side {right.shape}")


def admitted_inputs(identity: Identity, seed: int = 0) -> dict[object, object]:
    """Exact inputs at small sizes that fulfil the assumptions; the statement need not have a value at each of them.

    Raises:
        CannotDraw: there are none at any of the sizes tried.
    """
    error = CannotDraw("no sizes were tried")
    for sizes in (Sizes(1, 1, 1), Sizes(2, 2, 1), Sizes(3, 3, 2)):
        try:
            return rational_inputs(identity, sizes, np.random.default_rng(seed))
        except CannotDraw as found:
            error = found
    raise error
