"""Planted errors: small falsifications of a statement, each of which has to be refuted.

They are made from the statement itself, one change at a time: a sign, a dropped term or factor, a mask with or without
its diagonal, a gate off by one, two factors swapped, an inverse left out, one sequence read for another, a read on the
wrong side of the write. One that survives is proved equivalent by the exact rung, or is a hole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal

from sympy import Basic, Integer, S

from derivations.language.errors import NoMeaning, StatementError, UndefinedValue
from derivations.language.expressions import (
    Beside,
    Diagonal,
    Entrywise,
    Hadamard,
    Inverted,
    Product,
    RowProducts,
    ScalarNode,
    Scaled,
    Statement,
    Sum,
    Transposed,
)
from derivations.language.forms import Defined, Form, Recurrence, Substituted, Transport, text_lines
from derivations.language.masks import (
    CausalMask,
    CumulativeProduct,
    Decay,
    PrecedingProduct,
    RemainingProduct,
    ShiftedDecay,
    StrictDecay,
    StrictMask,
    TokenSum,
    TotalProduct,
)
from derivations.language.statements import Identity
from derivations.language.symbols import Gate, GateToken, Named, Sequence, Token
from numerics.evidence import Evidence
from numerics.inputs import CannotDraw, Sizes
from numerics.proofs import exact
from numerics.proofs.field import differing

TRIED = (Sizes(7, 3, 2, chunk=2), Sizes(5, 2, 3, chunk=3))
"""Where a mutant is tried modulo p: three chunks and a ragged tail, d_k and d_v different."""


@dataclass(frozen=True)
class Mutant:
    """A falsified statement: which side, which part, what was changed."""

    identity: Identity
    change: str


@dataclass(frozen=True)
class Fate:
    """What became of a mutant."""

    mutant: Mutant
    verdict: Literal["refuted", "equivalent", "hole"]


def mutants(identity: Identity) -> list[Mutant]:
    """All falsifications of both sides, without repetitions."""
    found: dict[tuple[str, ...], Mutant] = {}
    for side in ("left", "right"):
        original = identity.left if side == "left" else identity.right
        for change, form in _mutated_forms(original, identity):
            written = (side, *text_lines(form), str(getattr(form, "read", "")))
            if form != original and written not in found:
                sides = (form, identity.right) if side == "left" else (identity.left, form)
                found[written] = Mutant(identity.with_sides(*sides), f"{side}: {change}")
    return list(found.values())


def _mutated_forms(form: Form, identity: Identity) -> Iterator[tuple[str, Form]]:
    others = [x for x in identity.inputs() if isinstance(x, Sequence | Gate)]
    for part, e in form.expressions().items():
        for change, mutated in mutations(e, others):
            try:
                yield f"{part}: {change}", form.with_expressions({part: mutated})
            except (StatementError, ValueError):
                continue
    yield from _mutated_whole(form)


def _mutated_whole(form: Form) -> Iterator[tuple[str, Form]]:
    """Changes that aren't inside an expression."""
    match form:
        case Recurrence():
            flipped: Literal["after", "before"] = "before" if form.read == "after" else "after"
            yield f"the state is read {flipped} it is written", form.reading(flipped)
        case Transport():
            turned: Literal["ascending", "descending"] = "ascending" if form.order == "descending" else "descending"
            yield f"factors in {turned} order", replace(form, order=turned)
        case Substituted():
            for key in form.mapping:
                rest = {other: value for other, value in form.mapping.items() if other != key}
                yield f"{key} isn't replaced", Substituted(form.form, rest) if rest else form.form
            for change, inner in _mutated_whole(form.form):
                yield change, Substituted(inner, form.mapping)
        case Defined():
            for change, inner in _mutated_whole(form.form):
                yield change, Defined(inner, form.defined, form.definition)


def mutations(e: Basic, others: list[Any]) -> Iterator[tuple[str, Basic]]:
    """Every single change to an expression, with what it is; those that don't fit together are left out."""
    for change, replacement in _changes_here(e, others):
        yield change, replacement
    for position, argument in enumerate(e.args):
        if not isinstance(argument, Statement | ScalarNode) and not argument.atoms(Statement, ScalarNode):
            continue
        if isinstance(e, Named | Token | GateToken):
            continue
        for change, mutated in mutations(argument, others):
            try:
                yield change, e.func(*(mutated if k == position else a for k, a in enumerate(e.args)))
            except (StatementError, ValueError):
                continue


def _changes_here(e: Basic, others: list[Any]) -> Iterator[tuple[str, Basic]]:
    for change, make in _candidates(e, others):
        try:
            mutated = make()
        except (StatementError, ValueError):
            continue
        if mutated != e and getattr(mutated, "shape", None) == getattr(e, "shape", None):
            yield change, mutated


def _candidates(e: Any, others: list[Any]) -> Iterator[tuple[str, Any]]:
    """(what is changed, how to make it); making it may fail."""
    match e:
        case Sum():
            yield from _sums(e)
        case Scaled():
            yield f"without the factor {e.args[0]}", lambda: e.args[1]
            yield f"sign of {e}", lambda: Scaled(-e.args[0], e.args[1])
            if e.args[0] != -1:
                yield f"factor {e.args[0]} twice", lambda: Scaled(e.args[0] ** 2, e.args[1])
        case Product():
            yield from _products(e)
        case Hadamard():
            for position, factor in enumerate(e.args):
                yield f"without {factor}", lambda p=position: _without(e, p)
        case Inverted():
            yield f"{e.args[0]} isn't inverted", lambda: e.args[0]
        case Transposed():
            yield f"{e.args[0]} isn't transposed", lambda: e.args[0]
        case Entrywise():
            yield f"no {type(e).__name__.lower()} of {e.args[0]}", lambda: e.args[0]
        case Beside():
            for position in range(len(e.args)):
                yield f"sign of {e.args[position]}", lambda p=position: _negated(e, p)
            yield "the blocks in a row swapped", lambda: Beside(*reversed(e.args))
        case RowProducts():
            yield "the row products in the other order", lambda: RowProducts(*reversed(e.args))
        case TokenSum():
            summand, index, lower, upper = e.args
            yield "the sum ends one token early", lambda: TokenSum(summand, index, lower, upper - 1)
            yield "the sum begins one token late", lambda: TokenSum(summand, index, lower + 1, upper)
        case _:
            yield from _leaves(e, others)


def _sums(e: Sum) -> Iterator[tuple[str, Any]]:
    for position, term in enumerate(e.args):
        yield f"sign of {term}", lambda p=position: _negated(e, p)
        yield f"without {term}", lambda p=position: _without(e, p)


def _products(e: Product) -> Iterator[tuple[str, Any]]:
    for position, factor in enumerate(e.args):
        if isinstance(factor, Diagonal | Inverted):
            yield f"without {factor}", lambda p=position: _without(e, p)
        if not isinstance(factor, Diagonal) and factor.shape[0] == factor.shape[1]:
            turned = [a.T if k == position else a for k, a in enumerate(e.args)]
            yield f"{factor} transposed", lambda factors=turned: Product(*factors)
        if position:
            order = [*e.args[: position - 1], factor, e.args[position - 1], *e.args[position + 1 :]]
            yield f"{e.args[position - 1]} and {factor} swapped", lambda factors=order: Product(*factors)
    yield f"sign of {e}", lambda: -e
    yield f"{e} twice", lambda: 2 * e


def _negated(e: Any, position: int) -> Any:
    return e.func(*(-a if k == position else a for k, a in enumerate(e.args)))


def _without(e: Any, position: int) -> Any:
    rest = [a for k, a in enumerate(e.args) if k != position]
    return rest[0] if len(rest) == 1 else e.func(*rest)


MASKS: dict[type, tuple[type, ...]] = {
    CausalMask: (StrictMask,),
    StrictMask: (CausalMask,),
    Decay: (ShiftedDecay, StrictDecay),
    StrictDecay: (ShiftedDecay, Decay),
    ShiftedDecay: (StrictDecay, Decay),
    CumulativeProduct: (RemainingProduct, PrecedingProduct),
    PrecedingProduct: (CumulativeProduct,),
    RemainingProduct: (CumulativeProduct,),
}


def _leaves(e: Any, others: list[Any]) -> Iterator[tuple[str, Any]]:
    for mask in MASKS.get(type(e), ()):
        yield f"{mask.__name__} for {type(e).__name__}", lambda kind=mask: kind(*e.args)
    if isinstance(e, Decay | StrictDecay | ShiftedDecay):
        plain = CausalMask if isinstance(e, Decay) else StrictMask
        yield f"no decay in {type(e).__name__}", lambda: plain(e.shape[0])
    if isinstance(e, TotalProduct):
        yield "no decay of the carried state", lambda: S.One
    if isinstance(e, GateToken):
        yield f"{e} left out", lambda: S.One
        yield f"{e} squared", lambda: e**2
    for other in others:
        own = e.sequence if isinstance(e, Token | GateToken) else e
        if type(other) is type(own) and other != own and other.shape == own.shape:
            yield f"{other} for {own}", lambda x=other, whole=own is e: x if whole else type(e)(x, e.index)
    if isinstance(e, Integer) and e == 2:
        yield "1 for 2", lambda: S.One


def fate(mutant: Mutant) -> Fate | None:
    """What becomes of a mutant; None where it has no value at all, so that it isn't a statement."""
    tried = 0
    for sizes in TRIED:
        try:
            tried += 1
            if differing(mutant.identity, sizes, seed=1, trials=2):
                return Fate(mutant, "refuted")
        except (UndefinedValue, NoMeaning, CannotDraw, StatementError, KeyError):
            tried -= 1
    if not tried:
        return None
    verdict = exact.check(mutant.identity, exact.SMALL).verdict
    if verdict == "refuted":
        return Fate(mutant, "refuted")
    return Fate(mutant, "equivalent" if verdict == "holds" else "hole")


def fates(identity: Identity, every: int = 1) -> list[Fate]:
    """The mutants of an identity that are statements, or each so many of them, with what became of them."""
    return [found for mutant in mutants(identity)[::every] if (found := fate(mutant)) is not None]


def check(identity: Identity) -> Evidence:
    """The mutants rung of one identity: holds where every mutant is refuted or proved equivalent.

    A formula that is expected to be wrong is a planted error itself, and isn't falsified further.
    """
    begun = perf_counter()
    if identity.expected != "holds":
        return Evidence("mutants", "holds", (), perf_counter() - begun, details={"mutants": 0, "refuted": 0})
    found = fates(identity)
    count = {verdict: sum(f.verdict == verdict for f in found) for verdict in ("refuted", "equivalent", "hole")}
    holes = [f.mutant.change for f in found if f.verdict == "hole"]
    details = {
        "mutants": len(found),
        "refuted": count["refuted"],
        "equivalent": [f.mutant.change for f in found if f.verdict == "equivalent"],
        "holes": holes,
    }
    message = f"not refuted: {'; '.join(holes)}" if holes else ""
    sizes = tuple(s.as_json() for s in TRIED)
    return Evidence("mutants", "unknown" if holes else "holds", sizes, perf_counter() - begun, message, details)
