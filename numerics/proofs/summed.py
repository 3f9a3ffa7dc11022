"""Closed forms by summing up: a state that is scaled and written to, S_t = g_t S_{t-1} + w_t, is a weighted sum.

S_n = g_1 ... g_n S_0 + sum_j g_{j+1} ... g_n w_j
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from sympy import Basic, Expr, S, sympify

from derivations.language.expressions import Product, Scaled, Statement, Sum
from derivations.language.forms import Recurrence
from derivations.language.symbols import Gate, State, t
from numerics.algebras.growing_history import Stack
from numerics.evaluate import evaluate
from numerics.free_ring.blocks import Block
from numerics.histories.runner import Runner
from numerics.recurrences import States, start

WEIGHT = Gate("weight")
"""The products of the gates after each token."""


def summed(form: Recurrence, runner: Runner, env: Mapping[Any, Any]) -> States:
    """The states of a recurrence that are weighted sums over its history, in closed form."""
    found: States = {}
    begun = start(form, env, runner.algebra)
    for state, update in zip(form.states, form.updates, strict=True):
        parts = _gate_and_writes(state, update, form.states)
        if parts is not None:
            found[state] = _closed(begun[state], *parts, runner, env)
    return found


def _gate_and_writes(state: State, update: Statement, states: tuple[State, ...]) -> tuple[Expr, list[Statement]] | None:
    """The scalar that an update multiplies its state by, and what it adds; None where it does anything else."""
    terms = update.args if isinstance(update, Sum) else (update,)
    carried = [term for term in terms if any(term.has(x) for x in states)]
    writes = [term for term in terms if term not in carried]
    if len(carried) != 1:
        return None
    gate, inner = carried[0].args if isinstance(carried[0], Scaled) else (S.One, carried[0])
    return (gate, writes) if inner == state and not any(_has(gate, x) for x in states) else None


def _has(gate: Expr, state: State) -> bool:
    return bool(sympify(gate).has(state))


def _closed(begun: Block, gate: Basic, writes: list[Statement], runner: Runner, env: Mapping[Any, Any]) -> Block:
    gates = runner.each_token(gate, S.One, env)
    total = runner.algebra.multiply(runner.algebra.total_product(gates), begun)
    inner = {**env, WEIGHT: runner.algebra.remaining_product(gates)}
    places = range(len(runner.history.segments))
    for write in writes if places else ():
        each = [evaluate(_weighted(write), {**inner, t: place}, runner.algebra) for place in places]
        total = total + reduce(Block.__add__, [runner.algebra.total(Stack((value,))) for value in each])
    return total


def _weighted(write: Any) -> Statement:
    """A write times its weight, which the first factor of a product takes."""
    scale, inner = write.args if isinstance(write, Scaled) else (S.One, write)
    if isinstance(inner, Product):
        first, *rest = inner.args
        return Product(Scaled(WEIGHT[t] * scale, first), *rest)
    return Scaled(WEIGHT[t] * scale, inner)
