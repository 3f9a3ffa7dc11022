"""The one rung of a fact: its check, carried out exactly.

A count is made by walking the form with sizes alone, at every combination of a few small sizes; the polynomial through
these points is unique, and is checked at larger sizes besides.
"""

from __future__ import annotations

from functools import cache, partial
from time import perf_counter
from typing import Any

from sympy import Expr, expand, sympify

from derivations.language.errors import NoMeaning
from derivations.language.facts import Counts, Fact, Finding, Quantity
from derivations.language.forms import Form
from derivations.language.symbols import d_k, d_v, n
from numerics.costs.polynomials import misfit_of, through
from numerics.costs.walks import walk
from numerics.evaluate import CHUNK
from numerics.evidence import Evidence

DEGREES = {n: 3, d_k: 3, d_v: 2}
"""The highest power of each dimension in a count: n^3 for a general inverse, d_k^3 for one of a state."""
BEYOND = ((11, 7, 5), (9, 8, 6), (13, 6, 9))
"""Sizes outside of those that the polynomial is fitted to."""
LONG = 40
"""Added to n for the largest value, which is a polynomial where n is large against d_k and d_v."""


def check(fact: Fact) -> Evidence:
    """The evidence for one fact: on the exact rung, since no check rounds."""
    begun = perf_counter()
    found = count(fact.check) if isinstance(fact.check, Counts) else fact.check.find()
    verdict: Any = {True: "holds", False: "refuted", None: "unknown"}[found.holds]
    details = {"method": fact.check.method, "shown": found.shown, **found.details}
    message = "" if found.holds else found.shown
    return Evidence("exact", verdict, (), perf_counter() - begun, message, details)


def count(counts: Counts) -> Finding:
    """The polynomial that a form's count is, against the one that was stated."""
    found = fitted(counts)
    misfit = _misfit(counts, found)
    if misfit:
        return Finding(None, misfit)
    stated = sympify(counts.polynomial)
    return Finding(expand(found - stated) == 0, f"{counts.quantity}: {found}", {"counted": str(found)})


def counted(form: Form, quantity: Quantity, chunk: int | None = None) -> Expr:
    """How many operations a form takes, or how many numbers it keeps, as a polynomial in n, d_k and d_v.

    Args:
        form: what is evaluated.
        quantity: what is counted, see `derivations.language.facts.Counts`.
        chunk: the size of a block, for a chunkwise form; the count holds for whole blocks.

    Raises:
        NoMeaning: the count isn't a polynomial.
    """
    counts = Counts(form, quantity, 0, chunk)
    found = fitted(counts)
    misfit = _misfit(counts, found)
    if misfit:
        raise NoMeaning(misfit)
    return found


def _misfit(counts: Counts, found: Expr) -> str:
    """Where beyond the sizes that it was fitted to the polynomial isn't the count; empty where it always is."""
    step, first = counts.chunk or 1, _first_length(counts)
    further = [(length * step + first, *widths) for length, *widths in BEYOND]
    return misfit_of(partial(counted_at, counts), found, tuple(DEGREES), further)


def fitted(counts: Counts) -> Expr:
    """The polynomial in n, d_k and d_v through the counts at small sizes."""
    step, first = counts.chunk or 1, _first_length(counts)
    lengths = range(first + step, first + step * (DEGREES[n] + 2), step)
    widths = {x: range(1, DEGREES[x] + 2) for x in (d_k, d_v)}
    return through(cache(partial(counted_at, counts)), {n: lengths, **widths})


def _first_length(counts: Counts) -> int:
    return LONG * (counts.chunk or 1) if counts.quantity == "largest value" else 0


def counted_at(counts: Counts, sizes: tuple[int, ...]) -> int:
    """What is counted at these values of n, d_k and d_v."""
    known = dict(zip(DEGREES, sizes, strict=True))
    return walk(counts.form, {**known, CHUNK: counts.chunk or known[n], **counts.at}).number(counts.quantity)
