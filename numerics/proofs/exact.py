"""Rung 2, exact: equal as polynomials (or rational functions) with every input symbolic, at several small sizes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from derivations.language.adjoint import goes_backward
from derivations.language.errors import NoMeaning, UndefinedValue
from derivations.language.forms import Form, recurrence_or_none
from derivations.language.statements import Identity
from numerics.algebras.polynomials import Monomial, NewExponents, RationalFunction
from numerics.evidence import Evidence
from numerics.inputs import CannotDraw, Sizes, SymbolicInputs, divides, plan, symbolic_inputs
from numerics.proofs.compare import sides

SMALL = (Sizes(1, 1, 1), Sizes(2, 1, 1), Sizes(2, 2, 1), Sizes(3, 2, 2))
LARGEST = Sizes(6, 3, 2)
ON_SPHERES = Sizes(4, 3, 2)
"""The largest size where every token of a sequence lies on a sphere: normal forms modulo the relations grow fast."""
CARRIED = (Sizes(7, 2, 1, chunk=2), Sizes(7, 1, 2, chunk=3))
"""A carried state first shows in the third chunk; both sizes end in a ragged tail."""
WITH_COTANGENTS = Sizes(4, 3, 2)
"""A backward pass reads dO and dS besides the inputs, and its formulas are of twice the degree."""
DIVIDED_STATES = (Sizes(5, 2, 1), Sizes(2, 3, 2))
"""A state that is divided at every token is a rational function that grows fast: its largest sizes are smaller."""


@dataclass(frozen=True)
class Gap:
    """The first entry at which the two sides differ, as a polynomial or rational function."""

    sizes: Sizes
    compared: str
    entry: tuple[int, int]
    value: Any
    inputs: SymbolicInputs


def schedule(identity: Identity) -> tuple[Sizes, ...]:
    """The sizes at which an identity is tried, smallest first."""
    if any(_divides_its_state(side) for side in (identity.left, identity.right)):
        return (*SMALL, *DIVIDED_STATES)
    if any(goes_backward(side) for side in (identity.left, identity.right)):
        return (*SMALL, WITH_COTANGENTS)
    return (*SMALL, *(CARRIED if identity.is_chunked else ()), ON_SPHERES if plan(identity).spheres else LARGEST)


def _divides_its_state(form: Form) -> bool:
    recurrence = recurrence_or_none(form)
    return recurrence is not None and any(divides(update) for update in recurrence.updates)


def gap_at(identity: Identity, sizes: Sizes) -> Gap | None:
    """The first nonzero entry of left - right, or None where the two sides are equal.

    Raises:
        UndefinedValue, NoMeaning, CannotDraw: the statement has no value at these sizes.
    """
    exponents: tuple[Monomial, ...] = ()
    while True:  # the monomials in exponents are known once the exponentials have been met
        try:
            return _first_gap(identity, sizes, symbolic_inputs(identity, sizes, exponents))
        except NewExponents as found:
            exponents += found.monomials


def _first_gap(identity: Identity, sizes: Sizes, inputs: SymbolicInputs) -> Gap | None:
    pairs = sides(identity, inputs.env, inputs.algebra)
    for compared, left, right in pairs:
        difference = inputs.algebra.difference(left, right)
        for row in range(difference.shape[0]):
            for column in range(difference.shape[1]):
                if not inputs.algebra.is_zero(difference[row, column]):
                    _meet_all_exponents(pairs)
                    return Gap(sizes, compared, (row, column), difference[row, column], inputs)
    return None


def _meet_all_exponents(pairs: Iterator[Any]) -> None:
    """What comes after a gap is evaluated as well: a counterexample is searched with all exponents known."""
    with suppress(UndefinedValue):
        deque(pairs, maxlen=0)


def check(identity: Identity, sizes_tried: Sequence[Sizes] = ()) -> Evidence:
    """The exact rung of one identity, at the sizes of its schedule where none are given."""
    begun = perf_counter()
    tried: list[dict[str, int]] = []
    skipped: list[str] = []
    for sizes in sizes_tried or schedule(identity):
        try:
            gap = gap_at(identity, sizes)
        except (UndefinedValue, CannotDraw) as error:
            skipped.append(f"n = {sizes.n}, d_k = {sizes.d_k}, d_v = {sizes.d_v}: {error}")
            continue
        except NoMeaning as error:
            return Evidence("exact", "unknown", tuple(tried), perf_counter() - begun, f"{identity.place}: {error}")
        tried.append(sizes.as_json())
        if gap is not None:
            where = f"{gap.compared}, row {gap.entry[0] + 1}, column {gap.entry[1] + 1}"
            return Evidence(
                "exact", "refuted", tuple(tried), perf_counter() - begun, f"the sides differ at n = {sizes.n}: {where}"
            )
    details: dict[str, Any] = {"without_a_value": skipped} if skipped else {}
    if not tried:
        return Evidence("exact", "unknown", (), perf_counter() - begun, f"no size has a value: {skipped[0]}", details)
    return Evidence("exact", "holds", tuple(tried), perf_counter() - begun, details=details)


def numerator(entry: Any) -> Any:
    """The numerator of a polynomial or rational function."""
    return entry.numerator if isinstance(entry, RationalFunction) else entry
