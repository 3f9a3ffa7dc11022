"""Both sides of an identity in one number system: the pairs of values that have to be equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sympy import Basic

from derivations.language.errors import StatementError
from derivations.language.forms import Recurrence
from derivations.language.statements import Identity
from derivations.language.symbols import Parameter, n, t
from numerics.algebras.contract import Algebra, Value
from numerics.evaluate import evaluate, run, start, step


class Pair(NamedTuple):
    """What is compared, and its value on either side."""

    name: str
    left: Value
    right: Value


def sides(identity: Identity, env: Mapping[Any, Any], algebra: Algebra) -> Iterator[Pair]:
    """("output", left, right), then ("final S", left, right) for every state that both sides carry.

    Where the sides carry different states, they go token by token, and what `matching` reads off the right states is
    compared with the left ones after each.
    """
    if identity.matching is not None:
        yield from _matched(identity, env, algebra)
        return
    left, right = run(identity.left, env, algebra), run(identity.right, env, algebra)
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


def probe(state: Basic) -> Parameter:
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
    for position in algebra.positions(env[n]):
        here = {**env, t: position}
        mine, left_output = step(left, here, mine, algebra)
        theirs, right_output = step(right, here, theirs, algebra)
        yield Pair("output", left_output, right_output)
        for state, value in identity.matching.items():
            column, after = probe(state), {**here, **theirs}
            if column in env:
                expected = evaluate(value @ column, after, algebra)
                yield Pair(str(state), algebra.matmul(mine[state], env[column]), expected)
            else:
                yield Pair(str(state), mine[state], evaluate(value, after, algebra))
