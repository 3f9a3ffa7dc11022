"""Running a form: the walk of `numerics.evaluate` over its expressions, token by token, block by block, or all at once.

    run(recurrence, {K: ..., V: ..., Q: ..., n: 8, d_k: 4, d_v: 3}, algebra).output

A recurrence starts from the values of its state symbols in the environment, else from its own initial state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sympy import Basic, Rational, preorder_traversal

from derivations.language.adjoint import Cotangent
from derivations.language.errors import NoMeaning
from derivations.language.expressions import Exponential, Hadamard, Scaled, Sum
from derivations.language.forms import (
    Algorithm,
    Chunkwise,
    Closed,
    Defined,
    FinalState,
    Form,
    Recurrence,
    Substituted,
    SumOfSquares,
    TokenRows,
    Transport,
    sequence_of,
)
from derivations.language.symbols import GateToken, Named, Token, i, j, n, s, t
from derivations.language.two_modes import ForwardMode, ReverseMode
from numerics.algebras.contract import Algebra, Value
from numerics.backward import cotangent, forward_mode, reverse_mode
from numerics.evaluate import CHUNK, Environment, RootOf, evaluate, integer
from numerics.recurrences import States, at_tokens, batches, history, start, step, updated


@dataclass(frozen=True)
class Outcome:
    """What a form computes: its output, and its final states where it has any."""

    output: Value
    states: tuple[Value, ...] = ()


def run(form: Form, env: Environment, algebra: Algebra) -> Outcome:
    """The value of a form. A recurrence starts from the values of its state symbols in `env`, else from its own
    initial state.
    """
    match form:
        case Closed():
            return Outcome(evaluate(form.expression, _with_common(form.expression, env, algebra), algebra))
        case TokenRows():
            return Outcome(algebra.stack(_columns(form.row, env, algebra)))
        case SumOfSquares():
            return Outcome(evaluate(form.expression, env, algebra))
        case Transport():
            return Outcome(_transport(form, env, algebra))
        case Chunkwise():
            return _run_chunks(form, env, algebra)
        case Recurrence():
            return _run_tokens(form, env, algebra)
        case FinalState():
            return Outcome(evaluate(form.value, {**env, **_last_states(form.recurrence, env, algebra)}, algebra))
        case Substituted():
            return run(form.form, _substituted(form, env, algebra), algebra)
        case Defined():
            return run(form.form, {**env, sequence_of(form.defined): _defined(form, env, algebra)}, algebra)
        case Cotangent():
            return Outcome(cotangent(form, env, algebra))
        case ForwardMode():
            return Outcome(forward_mode(form, env, algebra))
        case ReverseMode():
            return Outcome(reverse_mode(form, env, algebra))
        case Algorithm():
            return Outcome(form.function(algebra, **{str(x): env[x] for x in form.inputs}))
    raise NoMeaning(f"the walk has no rule for the form {type(form).__name__}")


def _columns(row: Basic, env: Environment, algebra: Algebra) -> list[Value]:
    columns: list[Value] = []
    for positions in batches(env[n], algebra):
        columns += at_tokens(row, env, positions, [], algebra)
    return columns


def _with_common(e: Basic, env: Environment, algebra: Algebra) -> Environment:
    """The environment, and in it the weights that stand in an expression more than once, as in a normalised one."""
    known = dict(env)
    for common in _repeated_weights(e):
        known[common] = evaluate(common, known, algebra)
    return known


@cache
def _repeated_weights(e: Any) -> tuple[Basic, ...]:
    count: dict[Basic, int] = {}
    for part in preorder_traversal(e):
        if isinstance(part, Exponential | Hadamard) and not part.atoms(Token, GateToken):
            count[part] = count.get(part, 0) + 1
    return tuple(sorted((part for part, times in count.items() if times > 1), key=lambda part: part.count_ops()))


def _last_states(recurrence: Recurrence, env: Environment, algebra: Algebra) -> States:
    """The states after the last token. Nothing is read on the way: the queries need not be given."""
    states = start(recurrence, env, algebra)
    if isinstance(recurrence, Chunkwise):
        places = blocks(env, algebra)
    else:
        places = [{**env, t: position} for position in algebra.positions(env[n])]
    for here in places:
        states = updated(recurrence, here, states, algebra)
    return states


def _run_tokens(form: Recurrence, env: Environment, algebra: Algebra) -> Outcome:
    outputs: list[Value] = []
    states: States = {}
    for positions, before, after in history(form, env, start(form, env, algebra), algebra):
        outputs += at_tokens(form.readout, env, positions, after if form.read == "after" else before, algebra)
        states = after[-1]
    return Outcome(algebra.stack(outputs), tuple(states.values()))


def blocks(env: Environment, algebra: Algebra) -> list[dict[Any, Any]]:
    """The environments of the blocks: sequences cut into C tokens, n the length of the block."""
    length, size = env[n], env[CHUNK]
    sequences = {x: value for x, value in env.items() if _is_sequence(x)}
    cut = []
    for first in range(0, length, size):
        last = min(first + size, length)
        cut.append({**env, **{x: algebra.block(v, first, last) for x, v in sequences.items()}, n: last - first})
    return cut


def _is_sequence(key: Any) -> bool:
    named = key.subject if isinstance(key, RootOf) else key
    return isinstance(named, Named) and named.shape[0] == n


def _run_chunks(form: Chunkwise, env: Environment, algebra: Algebra) -> Outcome:
    states, outputs = start(form, env, algebra), []
    for block in blocks(env, algebra):
        states, output = step(form, block, states, algebra)
        outputs.append(output)
    return Outcome(algebra.concatenate(outputs), tuple(states.values()))


def _substituted(form: Substituted, env: Environment, algebra: Algebra) -> Environment:
    """The environment that the inner form is evaluated in."""
    stale = {RootOf(sequence_of(key)) for key in form.mapping}
    kept = {x: value for x, value in env.items() if x not in stale}
    return {**kept, **_substitutes(form, env, algebra)}


def _substitutes(form: Substituted, env: Environment, algebra: Algebra) -> States:
    """The new values of the replaced symbols, all computed from the old ones."""
    values = {}
    for key, replacement in form.mapping.items():
        if isinstance(replacement, Form):
            values[key] = run(replacement, env, algebra).output
        elif isinstance(key, Token | GateToken):
            values[sequence_of(key)] = algebra.stack(_columns(replacement, env, algebra))
        else:
            values[key] = evaluate(replacement, env, algebra)
    return values


def _defined(form: Defined, env: Environment, algebra: Algebra) -> Value:
    if isinstance(form.definition, Form):
        return run(form.definition, env, algebra).output
    if not isinstance(form.defined, Token | GateToken):
        return evaluate(form.definition, env, algebra)
    rows: Value | None = None
    for position in algebra.positions(env[n]):
        known = {**env, t: position} | ({} if rows is None else {sequence_of(form.defined): rows})
        row = algebra.stack([evaluate(form.definition, known, algebra)])
        rows = row if rows is None else algebra.concatenate([rows, row])
    return rows


def _transport(form: Transport, env: Environment, algebra: Algebra) -> Value:
    """A, column by column from the last: the rows q_i^T F_i ... F_{j+1} of all i >= j are kept and multiplied by one
    more factor.
    """
    if form.order == "ascending":
        return _transport_ascending(form, env, algebra)
    length = env[n]
    columns: list[Value] = []
    carried: Value | None = None
    for position in reversed(range(length)):
        own = algebra.transpose(evaluate(form.left, {**env, i: position}, algebra))
        carried = own if carried is None else algebra.concatenate([own, carried])
        column = algebra.matmul(carried, evaluate(form.right, {**env, j: position}, algebra))
        if position:
            column = algebra.concatenate([_zero_column(column, position, algebra), column])
        columns.append(column)
        carried = algebra.matmul(carried, evaluate(form.factor, {**env, s: position}, algebra))
    return algebra.transpose(algebra.stack(columns[::-1]))


def run_on(form: Form, column: Named, env: Environment, algebra: Algebra) -> Value:
    """The product of an attention matrix with a column in `env`, without forming the matrix where possible."""
    match form:
        case Closed():
            return evaluate(_times(form.expression, column), env, algebra)
        case Transport(order="descending"):
            return _transport_of(form, env[column], env, algebra)
        case Substituted():
            return run_on(form.form, column, _substituted(form, env, algebra), algebra)
    return algebra.matmul(run(form, env, algebra).output, env[column])


def _times(e: Any, column: Named) -> Any:
    """e x, with x multiplied into each term of a sum: from the right, every factor then meets a column."""
    if isinstance(e, Sum):
        return Sum(*(_times(term, column) for term in e.args))
    return Scaled(e.args[0], _times(e.args[1], column)) if isinstance(e, Scaled) else e @ column


def _transport_of(form: Transport, weights: Value, env: Environment, algebra: Algebra) -> Value:
    """sum_j A_ij x_j for every i: the weighted keys are carried along, each step by one more factor."""
    carried: Value | None = None
    rows: list[Value] = []
    for position in algebra.positions(env[n]):
        key = evaluate(form.right, {**env, j: position}, algebra)
        own = algebra.multiply(algebra.token(weights, position), key)
        if carried is not None:
            own = algebra.add(algebra.matmul(evaluate(form.factor, {**env, s: position}, algebra), carried), own)
        carried = own
        left = algebra.transpose(evaluate(form.left, {**env, i: position}, algebra))
        rows.append(algebra.matmul(left, carried))
    return algebra.stack(rows)


def _zero_column(like: Value, rows: int, algebra: Algebra) -> Value:
    """Zeros with the batch of `like`."""
    return algebra.multiply(algebra.zeros(rows, 1), algebra.block(like, 0, 1))


def _transport_ascending(form: Transport, env: Environment, algebra: Algebra) -> Value:
    length = env[n]
    rows: list[list[Value]] = [[] for _ in range(length)]
    for column in range(length):
        right = evaluate(form.right, {**env, j: column}, algebra)
        product = algebra.identity(integer(form.factor.shape[0], env))
        for row in range(length):
            if row < column:
                entry = algebra.multiply(algebra.number(Rational(0)), algebra.block(right, 0, 1))
            else:
                if row > column:
                    product = algebra.matmul(product, evaluate(form.factor, {**env, s: row}, algebra))
                left = algebra.transpose(evaluate(form.left, {**env, i: row}, algebra))
                entry = algebra.matmul(algebra.matmul(left, product), right)
            rows[row].append(entry)
    return algebra.stack([algebra.concatenate(row) for row in rows])
