"""Both sides of an identity in one number system: the pairs of values that have to be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from sympy import Basic

from derivations.language.errors import StatementError
from derivations.language.expressions import Inverted, Product, Statement, product_of
from derivations.language.forms import Form, Recurrence
from derivations.language.statements import Identity
from derivations.language.symbols import Parameter, State
from numerics.algebras.contract import Algebra, Value
from numerics.evaluate import evaluate
from numerics.recurrences import at_tokens, history, start
from numerics.run import Outcome, run


class Pair(NamedTuple):
    """What is compared, and its value on either side."""

    name: str
    left: Value
    right: Value


Runner = Callable[[Form, Mapping[Any, Any], Algebra], Outcome]
"""Evaluates a form: `numerics.run.run`, or something that remembers what it ran."""


def sides(identity: Identity, env: Mapping[Any, Any], algebra: Algebra, runner: Runner = run) -> Iterator[Pair]:
    """("output", left, right), then ("final S", left, right) for every state that both sides carry.

    Where the sides carry different states, they go token by token, and what `matching` reads off the right states is
    compared with the left ones after each.
    """
    if identity.matching is not None:
        yield from _matched(identity, env, algebra)
        return
    left, right = runner(identity.left, env, algebra), runner(identity.right, env, algebra)
    yield Pair("output", left.output, right.output)
    if identity.carries:
        for state, mine, theirs in zip(identity.left.states, left.states, right.states, strict=True):
            yield Pair(f"final {state}", mine, theirs)


def recurrences(identity: Identity) -> tuple[Recurrence, Recurrence]:
    """Both sides of an identity with a matching.

    Raises:
        StatementError: a side isn't a plain recurrence.
    """
    if not (isinstance(identity.left, Recurrence) and isinstance(identity.right, Recurrence)):
        raise StatementError(f"{identity.place}: states are matched between two recurrences")
    return identity.left, identity.right


def probe(state: State) -> Parameter:
    """A column of inputs that matched states are multiplied by, where comparing all their entries after each token
    would be slow.
    """
    return Parameter(f"probe of {state}", state.shape[1])


def _matched(identity: Identity, env: Mapping[Any, Any], algebra: Algebra) -> Iterator[Pair]:
    left, right = recurrences(identity)
    assert identity.matching is not None
    theirs = start(right, env, algebra)
    mine: dict[Basic, Value] = {
        x: evaluate(value, {**env, **theirs}, algebra) for x, value in identity.matching.items()
    }
    yield from _beginnings(identity, env, algebra)
    read = readings(identity, env)
    for (positions, *own), (_, *other) in zip(
        history(left, env, mine, algebra), history(right, env, theirs, algebra), strict=True
    ):
        for name, mine_read, theirs_read in read:
            moment = [side.read == "after" or name != "output" for side in (left, right)]
            seen = own[moment[0]]
            if name != "output":  # a probe of a left state is made of the right states
                seen = [{**theirs, **mine} for mine, theirs in zip(own[1], other[1], strict=True)]
            a = at_tokens(mine_read, env, positions, seen, algebra)
            b = at_tokens(theirs_read, env, positions, other[moment[1]], algebra)
            yield from (Pair(name, x, y) for x, y in zip(a, b, strict=True))


def _beginnings(identity: Identity, env: Mapping[Any, Any], algebra: Algebra) -> Iterator[Pair]:
    """Where the left side says how it begins: that, against the beginning of the right side read through the
    matching.
    """
    left, right = recurrences(identity)
    if left.initial is None:
        return
    blank = {x: value for x, value in env.items() if x not in (*left.states, *right.states)}
    theirs = start(right, blank, algebra)
    for state, own in zip(left.states, left.initial, strict=True):
        expected = evaluate((identity.matching or {})[state], {**blank, **theirs}, algebra)
        yield Pair(f"initial {state}", evaluate(own, blank, algebra), expected)


def readings(identity: Identity, env: Mapping[Any, Any]) -> list[tuple[str, Statement, Statement]]:
    """What is read from matched states after each token: outputs, and each state, probed where `env` has a probe."""
    left, right = recurrences(identity)
    found: list[tuple[str, Statement, Statement]] = [("output", left.readout, right.readout)]
    for state, value in (identity.matching or {}).items():
        column = probe(state)
        found.append((str(state), *(_probed(state, value, column) if column in env else (state, value))))
    return found


def _probed(state: State, value: Statement, column: Parameter) -> tuple[Statement, Statement]:
    """S x against value x. For S against X A^-1 the column is x = A y, so that S A y is compared with X y: nothing is
    solved, and A y is as random as y where A has an inverse.
    """
    *rest, last = value.args if isinstance(value, Product) else (value,)
    if not isinstance(last, Inverted):
        return state @ column, value @ column
    return state @ (last.args[0] @ column), product_of([*rest, column])
