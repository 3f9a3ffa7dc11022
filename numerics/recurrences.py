"""Recurrences in any number system: the states before and after each token, and what is read from them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from sympy import Basic, preorder_traversal

from derivations.language.expressions import Sum
from derivations.language.forms import Recurrence
from derivations.language.masks import GateProduct, TokenSum
from derivations.language.symbols import GateToken, Token, n, t
from numerics.algebras.contract import Algebra, Value
from numerics.evaluate import Environment, batch_of, evaluate, integer

States = dict[Basic, Value]
"""The value of each state of a recurrence."""


def at_tokens(e: Basic, env: Environment, positions: range, states: list[States], algebra: Algebra) -> list[Value]:
    """An expression at each of the positions, with the states of each (an empty list where it reads none).

    What is read doesn't feed back into the states, so that many tokens are evaluated at once, along a leading
    dimension.
    """
    batch = () if algebra.tokens_at_once == 1 else batch_of(env)
    if algebra.tokens_at_once == 1 or not _reads_one_token(e) or not _lines_up(e, env, states, batch):
        each = states or [{}] * len(positions)
        return [
            evaluate(e, {**env, t: position, **own}, algebra) for position, own in zip(positions, each, strict=True)
        ]
    read = [x for x in states[0] if _has(e, x)] if states else []
    together = {x: algebra.along([own[x] for own in states], batch) for x in read}
    value = evaluate(e, {**env, t: positions, **together}, algebra)
    return [value[k] for k in range(len(positions))]


def _lines_up(e: Basic, env: Environment, states: list[States], batch: tuple[int, ...]) -> bool:
    """Whether a leading dimension over tokens comes out, and stands in front of the batch of every sequence."""
    tokens = _tokens_of(e)
    runs = bool(tokens) or _has(e, t) or any(_has(e, state) for state in (states[0] if states else ()))
    return runs and all(env[x.sequence].shape[:-2] == batch for x in tokens if x.sequence in env)


@cache
def _tokens_of(e: Any) -> frozenset[Any]:
    return frozenset(e.atoms(Token, GateToken))


@cache
def _has(e: Basic, part: Basic) -> bool:
    return bool(e.has(part))


@cache
def _reads_one_token(e: Any) -> bool:
    """Whether an expression reads no tokens but token t."""
    return all(x.index == t for x in _tokens_of(e)) and not e.atoms(TokenSum, GateProduct)


def batches(length: int, algebra: Algebra) -> list[range]:
    """The positions of a sequence, in as many at once as the number system takes."""
    size = algebra.tokens_at_once
    return [range(first, min(first + size, length)) for first in range(0, length, size)]


def start(recurrence: Recurrence, env: Environment, algebra: Algebra) -> States:
    """The states before the first token."""
    initial: States = {}
    for index, state in enumerate(recurrence.states):
        if state in env:
            initial[state] = env[state]
        elif recurrence.initial is not None:
            initial[state] = evaluate(recurrence.initial[index], env, algebra)
        else:
            initial[state] = algebra.zeros(*(integer(side, env) for side in state.shape))
    return initial


def step(recurrence: Recurrence, env: Environment, states: States, algebra: Algebra) -> tuple[States, Value]:
    """One token (or block), bound in `env`: the new states and the output."""
    after = updated(recurrence, env, states, algebra)
    reads = after if recurrence.read == "after" else states
    return after, evaluate(recurrence.readout, {**env, **reads}, algebra)


def updated(recurrence: Recurrence, env: Environment, states: States, algebra: Algebra) -> States:
    """The states after one token or block."""
    before = {**env, **states}
    for common in _repeated(recurrence.updates):
        before[common] = evaluate(common, before, algebra)
    return {
        x: evaluate(update, before, algebra) for x, update in zip(recurrence.states, recurrence.updates, strict=True)
    }


@cache
def _repeated(expressions: tuple[Any, ...]) -> tuple[Basic, ...]:
    """Sums that stand in more than one of the expressions, or twice in one: they are evaluated once.

    An environment may hold the value of any expression, not of symbols alone.
    """
    count: dict[Basic, int] = {}
    for e in expressions:
        for part in preorder_traversal(e):
            if isinstance(part, Sum) and all(x.index == t for x in part.atoms(Token, GateToken)):
                count[part] = count.get(part, 0) + 1
    often = [part for part, times in count.items() if times > 1]
    return tuple(sorted(often, key=lambda part: part.count_ops()))


def history(
    form: Recurrence, env: Environment, states: States, algebra: Algebra
) -> Iterator[tuple[range, list[States], list[States]]]:
    """The states before and after each token, from the given ones on, some tokens at a time."""
    for positions in batches(env[n], algebra):
        before, after = [], []
        for position in positions:
            before.append(states)
            states = updated(form, {**env, t: position}, states, algebra)
            after.append(states)
        yield positions, before, after
