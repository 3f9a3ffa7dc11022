"""A letter for each input on each segment of a history."""

from __future__ import annotations

from typing import Any

from sympy import Basic, Gt, Ne, Symbol, sympify

from derivations.language.errors import NoMeaning
from derivations.language.expressions import Diagonal
from derivations.language.forms import (
    Defined,
    FinalState,
    Form,
    Substituted,
    sequence_of,
)
from derivations.language.statements import Identity
from derivations.language.symbols import (
    ChannelGate,
    Gate,
    GateToken,
    Named,
    State,
    n,
)
from numerics.algebras.growing_history import Length, Width
from numerics.free_ring.blocks import Block, all_ones, of_polynomial
from numerics.free_ring.letters import DIAGONAL, ONE_SIZE, PAST, Letter, ones
from numerics.free_ring.polynomials import Polynomial
from numerics.free_ring.scalars import Atom, of_atom
from numerics.histories.history import History
from numerics.histories.meaning import refuse_numbers

FIRST_PRIME, PRIME_STEP = 1_000_003, 2
"""Dimensions get values that no sum or product of small numbers takes by accident."""


def inputs(identity: Identity, history: History) -> dict[Any, Any]:
    """A value for each input and dimension of an identity on a history.

    Raises:
        NoMeaning: a position or dimension is used as a number, or two letters would have one name.
    """
    env: dict[Any, Any] = {n: Length(len(history.segments))}
    everything = _expressions(identity)
    for e in everything:
        refuse_numbers(e)
    dimensions = {x for e in everything for x in e.atoms(Symbol) if x.is_integer and x.is_positive} - {n}
    for number, x in enumerate(sorted(dimensions, key=str)):
        env[x] = Width(str(x), FIRST_PRIME + PRIME_STEP * number)
    used: set[str] = set()
    for x in identity.inputs():
        env[x] = value_on(x, history, used)
    return env


def _expressions(identity: Identity) -> list[Basic]:
    sides = [*identity.left.expressions().values(), *identity.right.expressions().values()]
    keys = [key for form in (identity.left, identity.right) for key in _replaced(form)]
    return [sympify(e) for e in [*sides, *(identity.matching or {}).values(), *keys, *identity.inputs()]]


def _replaced(form: Form) -> list[Basic]:
    """The symbols that a form's substitutions and definitions give values to."""
    own: list[Basic] = []
    for inner in parts(form):
        if isinstance(inner, Substituted):
            own += list(inner.mapping)
        if isinstance(inner, Defined):
            own.append(inner.defined)
    return own


def parts(form: Form) -> list[Form]:
    """A form and all forms inside it."""
    inner: list[Any] = []
    match form:
        case Substituted():
            inner = [form.form, *(value for value in form.mapping.values() if isinstance(value, Form))]
        case Defined():
            inner = [form.form, *([form.definition] if isinstance(form.definition, Form) else [])]
        case FinalState():
            inner = [form.recurrence]
    return [form, *(part for x in inner for part in parts(x))]


def value_on(x: Any, history: History, used: set[str]) -> Block:
    """The letters of an input: a block for each segment where it has a row for each token."""
    if not isinstance(x, Named):
        return of_polynomial(Polynomial.scalar(of_atom(Atom(_fresh(str(x), used)))))
    if any(side.is_Integer and side > 1 for side in x.shape):
        return _in_parts(x, history, used)
    rows, columns = (str(side) for side in x.shape)
    if x.shape[0] != n:
        name = f"{x.args[0]}₀" if isinstance(x, State) else str(x.args[0])
        return of_polynomial(_letter(x, _fresh(name, used), rows, columns))
    if x.shape[1] == n:
        raise NoMeaning(f"growing history: {x} has a row and a column for each token")
    blocks = [_segment(x, place, history, columns, used) for place in range(len(history.segments))]
    return Block(history.segments, (columns,), tuple((block,) for block in blocks))


def _in_parts(x: Named, history: History, used: set[str]) -> Block:
    """A matrix some of whose sides are numbers: a letter for each column, or each row, of its own."""
    numbered = [range(1, int(side) + 1) if side.is_Integer else range(1, 2) for side in x.shape]
    rows, columns = (1 if side.is_Integer else side for side in x.shape)
    kind = type(x)
    made = []
    for row in numbered[0]:
        beside = [value_on(kind(f"{x.args[0]}_{row}{column}", rows, columns), history, used) for column in numbered[1]]
        entries = tuple(tuple(e for block in beside for e in block.entries[k]) for k in range(len(beside[0].rows)))
        made.append(Block(beside[0].rows, tuple(size for block in beside for size in block.columns), entries))
    return Block(tuple(s for b in made for s in b.rows), made[0].columns, tuple(row for b in made for row in b.entries))


def _fresh(name: str, used: set[str]) -> str:
    if name in used:
        raise NoMeaning(f"growing history: two letters would have the name {name}")
    used.add(name)
    return name


def _letter(x: Named, name: str, rows: str, columns: str) -> Polynomial:
    if rows == columns == ONE_SIZE:
        return Polynomial.scalar(of_atom(Atom(name)))
    if isinstance(x, Gate):
        return Polynomial.of(Letter(name, rows, rows, DIAGONAL), *ones(rows))
    return Polynomial.of(Letter(name, rows, columns))


def _segment(x: Named, place: int, history: History, columns: str, used: set[str]) -> Polynomial:
    name = str(x.args[0])
    if history.segments[place] == PAST:
        if isinstance(x, Gate) or columns == ONE_SIZE:
            return Polynomial.of(Letter(_fresh(name, used), PAST, PAST, DIAGONAL), *ones(PAST))
        return Polynomial.of(Letter(_fresh(name, used), PAST, columns))
    silent = history.asks is not None and place == len(history.segments) - 1
    if silent and x not in (history.asks or ()):
        gate = isinstance(x, Gate | ChannelGate)
        return all_ones((ONE_SIZE,), (columns,)).single if gate else Polynomial(ONE_SIZE, columns)
    several = len(history.segments) - int(history.has_past) - int(history.asks is not None) > 1
    own = _fresh(_token_name(name) + ("'" if silent else f"[{place + 1}]" if several else ""), used)
    if columns == ONE_SIZE:
        return Polynomial.scalar(of_atom(Atom(own)))
    if isinstance(x, ChannelGate):
        return Polynomial.of(*(letter.T for letter in ones(columns)), Letter(own, columns, columns, DIAGONAL))
    return Polynomial.of(Letter(own, columns, ONE_SIZE).T)


def _token_name(name: str) -> str:
    return name.lower() if name != name.lower() else f"{name}_t"


def is_nonzero(condition: Basic) -> Basic | None:
    """The sequence whose gates an assumption keeps away from zero, if it does."""
    if isinstance(condition, Diagonal):
        return sequence_of(condition.args[0])
    if isinstance(condition, Ne | Gt) and condition.rhs == 0 and isinstance(condition.lhs, GateToken):
        return condition.lhs.sequence
    return None


def invertible_gates(identity: Identity) -> frozenset[str]:
    """The names of the gates that the assumptions keep away from zero."""
    found = (is_nonzero(assumption.condition) for assumption in identity.assumptions)
    return frozenset(str(x.args[0]) for x in found if x is not None)
