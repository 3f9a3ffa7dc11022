"""Forms on a history: what they compute token by token, with a letter for the rows of the past."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Basic

from derivations.language.errors import NoMeaning
from derivations.language.forms import (
    Chunkwise,
    Closed,
    Defined,
    FinalState,
    Form,
    Recurrence,
    Substituted,
    TokenRows,
    Transport,
    sequence_of,
)
from derivations.language.statements import Identity
from derivations.language.symbols import (
    GateToken,
    Parameter,
    State,
    Token,
    d_k,
    i,
    j,
    n,
    s,
    t,
)
from numerics.algebras.growing_history import GrowingHistory
from numerics.evaluate import evaluate, integer
from numerics.free_ring.blocks import Block, Sizes, all_ones, built, of_polynomial, zeros
from numerics.free_ring.letters import ONE_SIZE, PAST, Letter
from numerics.free_ring.polynomials import Polynomial
from numerics.histories.history import PAST_ONLY, History
from numerics.histories.inputs import inputs, invertible_gates, value_on
from numerics.histories.meaning import refuse_later_tokens, refuse_positions
from numerics.recurrences import States, start, step, updated

Carrying = Recurrence | Transport | Defined | TokenRows
PastStates = Callable[[Carrying, Mapping[Any, Any]], States]
"""What a form carries after the past, from the environment of a history."""

OUTPUT = "O"
"""The letter of the past's rows of a side."""

CARRIED = State("carried", n, d_k)
"""What a product of transports carries: each key, turned by the factors of all tokens after it, as a row."""


def letters_of(form: Carrying, env: Mapping[Any, Any]) -> States:
    """What is carried after the past, as letters of their own; an initial state has other ones."""
    del env
    if isinstance(form, Defined):
        sequence = sequence_of(form.defined)
        return {sequence: of_polynomial(Polynomial.of(Letter(str(sequence), PAST, str(sequence.shape[1]))))}
    if isinstance(form, Transport):
        return {CARRIED: of_polynomial(Polynomial.of(Letter("carried", PAST, str(form.left.shape[0]))))}
    return {state: _past_state(state) for state in form.states}


def _past_state(state: State) -> Block:
    return value_on(Parameter(str(state), *state.shape), PAST_ONLY, set())


@dataclass(frozen=True)
class Computed:
    """What a form computes on a history: a row for each segment, and its states after the last token."""

    output: Block
    states: States


class Runner:
    """Evaluates forms on one history. The states after the past are given; rows of the past are letters where a form
    computes them token by token. `carried` collects what each form carries after the last token, `environments` what
    the inputs of each recurrence were inside of substitutions.
    """

    def __init__(self, history: History, algebra: GrowingHistory, past: PastStates) -> None:
        self.history, self.algebra, self.past = history, algebra, past
        self.carried: list[tuple[Carrying, States]] = []
        self.environments: list[tuple[Recurrence, Mapping[Any, Any]]] = []

    def run(self, form: Form, env: Mapping[Any, Any], name: str = OUTPUT) -> Computed:
        """The value of a form.

        Args:
            form: what is computed.
            env: a value for each input.
            name: the letter of the rows of the past, where the form gives a row to each token. It stands for the same
                rows wherever it has the same name, which `carried` is there to show.

        Raises:
            NoMeaning: the form has no value on a growing history.
        """
        match form:
            case Closed():
                return Computed(evaluate(form.expression, env, self.algebra), {})
            case TokenRows():
                refuse_later_tokens(form.row)
                rows = [evaluate(form.row, {**env, t: place}, self.algebra) for place in self.history.tokens()]
                return Computed(self._rows(form, rows, form.row.shape[0], env, name), {})
            case Chunkwise():
                states, output = step(form, env, self._start_of_block(form, env), self.algebra)
                return Computed(output, states)
            case Recurrence():
                return self._recurrence(form, env, name)
            case FinalState():
                last = self._last_states(form.recurrence, env)
                return Computed(evaluate(form.value, {**env, **last}, self.algebra), {})
            case Transport():
                return self._transport(form, env, name)
            case Substituted():
                return self.run(form.form, {**env, **self._substitutes(form, env)}, name)
            case Defined():
                return self.run(form.form, {**env, sequence_of(form.defined): self._defined(form, env)}, name)
        raise NoMeaning(f"growing history has no rule for the form {type(form).__name__}")

    def _rows(self, form: Carrying, columns: list[Block], width: Any, env: Mapping[Any, Any], name: str) -> Block:
        """The rows of single tokens, below a letter for those of the past."""
        sides = self.algebra.sizes(integer(width, env))
        rows = self.algebra.concatenate([self._past_rows(sides, name), *(column.T for column in columns)])
        if name != OUTPUT:
            self.carried.append((form, {f"the rows {name}": rows}))
        return rows

    def _past_rows(self, sides: Sizes, name: str) -> Block:
        if not self.history.has_past:
            return zeros((), sides)
        return built((PAST,), sides, lambda i, k: Polynomial.of(Letter(_part(name, k, sides), PAST, sides[k])))

    def _recurrence(self, form: Recurrence, env: Mapping[Any, Any], name: str) -> Computed:
        refuse_later_tokens(form.readout)
        states, outputs = self._begun(form, env), []
        for place in self.history.tokens():
            states, output = step(form, {**env, t: place}, states, self.algebra)
            outputs.append(output)
        self.carried.append((form, states))
        return Computed(self._rows(form, outputs, form.readout.shape[0], env, name), states)

    def _begun(self, form: Recurrence, env: Mapping[Any, Any]) -> States:
        for update in form.updates:
            refuse_later_tokens(update)
        self.environments.append((form, env))
        return self.past(form, env) if self.history.has_past else start(form, env, self.algebra)

    def _start_of_block(self, form: Chunkwise, env: Mapping[Any, Any]) -> States:
        """The states before a block of any length: letters, so that what is shown of one holds of every next one."""
        fixed = [str(state) for state in form.states if state not in env]
        if fixed:
            raise NoMeaning(f"growing history: blocks that begin with one {' and '.join(fixed)}, not with any")
        return start(form, env, self.algebra)

    def _last_states(self, form: Recurrence, env: Mapping[Any, Any]) -> States:
        """The states after the last token, where nothing is read on the way."""
        if isinstance(form, Chunkwise):
            return updated(form, env, self._start_of_block(form, env), self.algebra)
        states = self._begun(form, env)
        for place in self.history.tokens():
            states = updated(form, {**env, t: place}, states, self.algebra)
        self.carried.append((form, states))
        return states

    def _substitutes(self, form: Substituted, env: Mapping[Any, Any]) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for key, replacement in form.mapping.items():
            if isinstance(replacement, Form):
                values[key] = self.run(replacement, env, f"{key}*").output
            elif isinstance(key, Token | GateToken):
                values[sequence_of(key)] = self.each_token(replacement, sequence_of(key).shape[1], env)
            else:
                values[key] = evaluate(replacement, env, self.algebra)
        return values

    def each_token(self, e: Basic, width: Any, env: Mapping[Any, Any]) -> Block:
        """A column at every token, as rows; for the past all at once."""
        rows = []
        if not self.history.segments:
            return zeros((), self.algebra.sizes(integer(width, env)))
        for place, size in enumerate(self.history.segments):
            if size == PAST:
                refuse_positions(e)
            value = evaluate(e, {**env, t: place}, self.algebra)
            if size == PAST and not value.per_token:
                value = (all_ones((PAST,), (ONE_SIZE,)) @ value.T).T.tagged("column")
                value = value.T.tagged("scalar") if value.rows == (ONE_SIZE,) else value
            rows.append(value)
        return self.algebra.stack(rows)

    def _defined(self, form: Defined, env: Mapping[Any, Any]) -> Block:
        name = str(sequence_of(form.defined))
        if isinstance(form.definition, Form):
            return self.run(form.definition, env, name).output
        if not isinstance(form.defined, Token | GateToken):
            return evaluate(form.definition, env, self.algebra)
        refuse_later_tokens(form.definition)
        sides = self.algebra.sizes(integer(getattr(form.defined, "shape", (1,))[0], env))
        rows = self.past(form, env)[sequence_of(form.defined)] if self.history.has_past else zeros((), sides)
        for place in self.history.tokens():
            known = {**env, t: place, sequence_of(form.defined): rows}
            rows = self.algebra.concatenate(
                [rows, self.algebra.stack([evaluate(form.definition, known, self.algebra)])]
            )
        self.carried.append((form, {sequence_of(form.defined): rows}))
        return rows

    def _transport(self, form: Transport, env: Mapping[Any, Any], name: str) -> Computed:
        """Row i is the carried matrix, with a row for each key, times the query; each token multiplies all of it."""
        if form.order != "descending":
            raise NoMeaning("growing history: a product in ascending order isn't carried from token to token")
        if name != OUTPUT:
            raise NoMeaning("growing history: the rows of a product of transports inside another form")
        for e in (form.left, form.right, form.factor):
            refuse_later_tokens(e)
        width = self.algebra.sizes(integer(form.left.shape[0], env))
        carried = self.past(form, env)[CARRIED] if self.history.has_past else zeros((), width)
        rows = []
        for place in self.history.tokens():
            own = evaluate(form.right, {**env, j: place}, self.algebra).T
            turned = carried @ evaluate(form.factor, {**env, s: place}, self.algebra).T if carried.rows else carried
            carried = self.algebra.concatenate([turned, own])
            row = (carried @ evaluate(form.left, {**env, i: place}, self.algebra)).T
            later = zeros((ONE_SIZE,), self.history.segments[place + 1 :])
            rows.append(Block(row.rows, row.columns + later.columns, (row.entries[0] + later.entries[0],)))
        self.carried.append((form, {CARRIED: carried}))
        return Computed(self.algebra.concatenate([self._scores_of_past(), *rows]), {CARRIED: carried})

    def _scores_of_past(self) -> Block:
        """The rows of the past of an attention matrix: a letter, and zeros for the keys of later tokens."""
        segments = self.history.segments
        if not self.history.has_past:
            return zeros((), segments)
        letter = Polynomial.of(Letter("A", PAST, PAST))
        return Block((PAST,), segments, ((letter, *zeros((PAST,), segments[1:]).entries[0]),))


def _part(name: str, number: int, sides: Sizes) -> str:
    return name if len(sides) == 1 else f"{name}_{number + 1}"


def on(history: History, identity: Identity, past: PastStates = letters_of) -> tuple[Runner, dict[Any, Any]]:
    """A runner and an environment for a history of an identity."""
    algebra = GrowingHistory(history.segments, invertible_gates(identity))
    return Runner(history, algebra, past), inputs(identity, history)
