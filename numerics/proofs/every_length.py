"""Rung 4, every length: the induction over an appended token, for every n and every width.

Both sides are evaluated on [past; new token] (numerics/algebras/growing_history.py). With closed forms for what the
past has left in the state, shown are: they hold at the start; one token takes them to those of the longer history;
the new token's output is the same on both sides; and the past's outputs don't change when a token is appended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from time import perf_counter
from typing import Any

from derivations.language.errors import NoMeaning, StatementError, UndefinedValue
from derivations.language.forms import Chunkwise, Form, TokenRows
from derivations.language.statements import Assumption, Derivation, Identity
from derivations.language.symbols import n
from numerics.algebras.growing_history import GrowingHistory, Width
from numerics.evaluate import evaluate
from numerics.evidence import Evidence
from numerics.free_ring.blocks import Block, Sizes, differences
from numerics.free_ring.letters import ONE_SIZE, PAST
from numerics.free_ring.polynomials import Polynomial
from numerics.free_ring.rules import Relation, Rule, reduced, rule_of
from numerics.free_ring.scalars import ONE, number
from numerics.histories.history import EMPTY, FIRST, GROWN, PAST_ONLY, TWO_TOKENS, History
from numerics.histories.inputs import parts
from numerics.histories.runner import Carrying, Computed, PastStates, on
from numerics.proofs.compare import recurrences
from numerics.proofs.hypotheses import Hypothesis, askers, carried_by, computing, goes_token_by_token, hypotheses
from numerics.recurrences import States, start

Reasons = (NoMeaning, UndefinedValue, StatementError, KeyError, ValueError)


class Unproved(Exception):
    """A step of the induction doesn't reduce to zero."""


@dataclass
class Proof:
    """What was assumed of the past, and what was reduced to zero; readable line by line."""

    hypothesis: Hypothesis
    lines: list[tuple[str, str]] = field(default_factory=list)
    rules: tuple[Rule, ...] = ()
    relations: tuple[Relation, ...] = ()

    def equal(self, what: str, left: Block, right: Block) -> None:
        """Notes that two values are the same polynomials.

        Raises:
            Unproved: they aren't.
        """
        gap = [(row, column, rest) for row, column, own in differences(left, right) if (rest := self._rest(own))]
        if gap:
            row, column, difference = gap[0]
            raise Unproved(f"{what}: block ({row + 1}, {column + 1}) differs by {difference}")
        self.lines.append((what, str(right)))

    def _rest(self, difference: Polynomial) -> Polynomial | None:
        """What rules leave of a difference, if anything."""
        rest = reduced(difference, self.rules)
        for relation in self.relations:
            rest = relation.applied(rest)
        return None if rest.is_zero else rest

    def note(self, what: str, value: Any) -> None:
        """Adds a line that isn't a reduction."""
        self.lines.append((what, str(value)))


def check(derivation: Derivation, identity: Identity) -> Evidence:
    """The evidence: "holds" with the proof, or "unknown" with what doesn't reduce under each hypothesis."""
    begun, failures = perf_counter(), []
    try:
        _refuse_blocks_with_a_state_of_their_own(identity)
        for hypothesis, prover in _attempts(identity, derivation):
            try:
                proof = prover()
            except (Unproved, *Reasons) as error:
                failures.append(f"{hypothesis}: {error}")
                continue
            details = {
                "for_every": _dimensions(identity),
                "hypothesis": hypothesis,
                "proof": [list(line) for line in proof.lines],
            }
            return Evidence("every-length", "holds", (), perf_counter() - begun, details=details)
    except Reasons as error:
        failures.append(str(error))
    return Evidence("every-length", "unknown", (), perf_counter() - begun, details={"tried": failures})


def _refuse_blocks_with_a_state_of_their_own(identity: Identity) -> None:
    """NoMeaning where a block hands on a state that isn't compared: one block says nothing of the next one then."""
    for side in (identity.left, identity.right):
        for part in parts(side):
            if isinstance(part, Chunkwise) and not (identity.carries and part.states == side.states):
                raise NoMeaning(f"growing history: blocks whose state {part.states[0]} isn't compared")


def _dimensions(identity: Identity) -> list[str]:
    """n and the other dimensions, all of which stay open."""
    _, env = on(FIRST, identity)
    return ["n", *sorted(str(x) for x, value in env.items() if isinstance(value, Width))]


def _attempts(identity: Identity, derivation: Derivation) -> Iterator[tuple[str, Callable[[], Proof]]]:
    """The ways to prove an identity, by the name of what is assumed of the past."""
    if not carried_by(identity):
        yield "no induction", lambda: _directly(identity)
        for asks in askers(identity, []):
            about = f"both sides answer every query {' and '.join(map(str, asks))} alike"
            yield about, lambda own=frozenset(asks): _by_an_equation(identity, own)  # type: ignore[misc]
    for hypothesis in hypotheses(identity, derivation):
        yield hypothesis.source, lambda own=hypothesis: prove(identity, own)  # type: ignore[misc]


def prove(identity: Identity, hypothesis: Hypothesis) -> Proof:
    """The induction of an identity under a hypothesis.

    Raises:
        Unproved: something doesn't reduce to zero.
        NoMeaning, UndefinedValue: a form has no value on a growing history.
    """
    proof = Proof(hypothesis, relations=_relations(identity))
    steps = _Steps(identity, hypothesis)
    for state, value in hypothesis.after((PAST,)).items():
        proof.note(f"hypothesis: {state} after the past", value)
    short_histories(proof, identity)
    steps.base(proof)
    steps.step(proof)
    steps.outputs(proof)
    return proof


def short_histories(proof: Proof, identity: Identity) -> None:
    """One token, and two: both sides have a value, and it is the same."""
    for history, name in ((FIRST, "one token"), (TWO_TOKENS, "two tokens")):
        runner, env = on(history, identity)
        left = runner.run(identity.left, {**env, **_matched_states(identity, env, runner.algebra)}).output
        proof.equal(f"base: {name}", left, runner.run(identity.right, env).output)


def _matched_states(identity: Identity, env: Mapping[Any, Any], algebra: GrowingHistory) -> States:
    """What the left side begins with, where a matching reads it off the right side's beginning."""
    if not identity.matching:
        return {}
    theirs = start(recurrences(identity)[1], env, algebra)
    return {state: evaluate(e, {**env, **theirs}, algebra) for state, e in identity.matching.items()}


def _relations(identity: Identity) -> tuple[Relation, ...]:
    """What the assumptions say of single tokens: |w|^2 = c, or c^2 + s^2 = 1."""
    found = []
    for history in (GROWN, TWO_TOKENS):
        _, env = on(history, identity)
        for place in history.tokens():
            found += [own for x in identity.assumptions if (own := _relation(x, env, place)) is not None]
    return tuple(found)


def _relation(assumption: Assumption, env: Mapping[Any, Any], place: int) -> Relation | None:
    """An assumption on the token at a place, as a value for a power of an atom."""
    if assumption.norm_of is not None and assumption.norm_of[1].is_Rational:
        token, value = assumption.norm_of
        row = env[token.sequence].row_blocks(place, place + 1)
        [atom] = (row @ row.T).scalar.atoms()
        return Relation(atom, 1, number(Fraction(int(value.p), int(value.q))))
    if assumption.circle_of is not None and all(x.shape == (n, 1) for x in assumption.circle_of):
        cosine, sine = (env[x].row_blocks(place, place + 1).scalar for x in assumption.circle_of)
        [atom] = cosine.atoms()
        return Relation(atom, 2, ONE + -(sine * sine))
    return None


class _Steps:
    """The parts of one induction."""

    def __init__(self, identity: Identity, hypothesis: Hypothesis) -> None:
        self.identity, self.hypothesis = identity, hypothesis
        self.carrying = carried_by(identity)
        self.past = hypothesis.past()

    def _run(self, form: Form, history: History) -> tuple[Computed, list[tuple[Carrying, States]]]:
        """The value of a side, and what the forms inside it carry afterwards."""
        runner, env = on(history, self.identity, self._states(form))
        return runner.run(form, env), runner.carried

    def _states(self, side: Form) -> PastStates:
        """What the past has left; on the left of a matching it is read off the right side's letters."""
        if not (self.identity.matching and side is self.identity.left):
            return self.past
        right = recurrences(self.identity)[1]

        def read_off(form: Carrying, env: Mapping[Any, Any]) -> States:
            runner, _ = on(PAST_ONLY, self.identity)
            return _matched_states(self.identity, {**env, **self.past(right, env)}, runner.algebra)

        return read_off

    def _carried(self, history: History) -> list[tuple[Any, Block]]:
        """What is carried after a history; with a matching the left side's states are compared through it alone."""
        compared = (self.identity.right,) if self.identity.matching else (self.identity.left, self.identity.right)
        runs = [own for side in compared for own in self._run(side, history)[1]]
        return [pair for _, states in runs for pair in states.items()]

    def base(self, proof: Proof) -> None:
        """Before the first token the closed forms are the initial states, and states of one name are equal."""
        known: States = dict(self.hypothesis.after(()))
        for state, value in self._carried(EMPTY):
            proof.equal(f"base: {state} before the first token", value, known.setdefault(state, value))
        if self.identity.matching:
            self._matched_starts(proof)

    def _matched_starts(self, proof: Proof) -> None:
        left, right = recurrences(self.identity)
        runner, env = on(EMPTY, self.identity)
        blank = {x: value for x, value in env.items() if x not in (*left.states, *right.states)}
        mine = start(left, blank, runner.algebra) if left.initial is not None else {}
        read_off = _matched_states(self.identity, blank, runner.algebra) if mine else {}
        for state, value in mine.items():
            proof.equal(f"base: {state} as it is read off the right side", value, read_off[state])

    def step(self, proof: Proof) -> None:
        """One token takes the closed forms to those of the longer history; states of one name stay equal."""
        known: States = dict(self.hypothesis.after(GROWN.segments))
        for state, value in known.items():
            proof.note(f"appended: {state} after [past; token]", value)
        for state, value in self._carried(GROWN):
            proof.equal(f"step: {state} one token on", value, known.setdefault(state, value))

    def outputs(self, proof: Proof) -> None:
        """The new token's rows agree; the past's rows are those that they were."""
        (left, _), (right, _) = (self._run(side, GROWN) for side in (self.identity.left, self.identity.right))
        if self.identity.left.shape[0] != n:
            proof.equal("value", left.output, right.output)
        else:
            proof.equal("output: the new token's row", left.output.row_blocks(1, 2), right.output.row_blocks(1, 2))
            for name, side, value in (("left", self.identity.left, left), ("right", self.identity.right, right)):
                self._past_unchanged(proof, name, side, value)
        if self.identity.carries:
            self._equal_states(proof, left, right)

    def _equal_states(self, proof: Proof, left: Computed, right: Computed) -> None:
        """What the claim says of the final states."""
        matching = self.identity.matching
        runner, env = on(GROWN, self.identity)
        for state, value in left.states.items():
            here = {**env, **right.states}
            read_off = evaluate(matching[state], here, runner.algebra) if matching else right.states[state]
            proof.equal(f"step: {state} on both sides", value, read_off)

    def _past_unchanged(self, proof: Proof, name: str, side: Form, grown: Computed) -> None:
        if goes_token_by_token(side) or isinstance(computing(side), TokenRows):
            return  # token by token: a row doesn't see later tokens
        past = self._run(side, PAST_ONLY)[0].output
        above = grown.output.row_blocks(0, 1)
        if len(past.columns) != len(above.columns):
            later = Block(above.rows, above.columns[1:], (above.entries[0][1:],))
            proof.equal(f"causality: the past doesn't see the new token, {name} side", later, later - later)
            above = Block(above.rows, above.columns[:1], (above.entries[0][:1],))
        proof.equal(f"causality: the past's rows, {name} side", above, past)


def _by_an_equation(identity: Identity, asks: frozenset[Any]) -> Proof:
    """Two forms that carry nothing, by an equation of their pasts: both answer every silent query alike.

    Raises:
        Unproved: an answer doesn't reduce to zero by the equation of the past.
    """
    proof = Proof(Hypothesis("both sides answer a query alike"))
    short_histories(proof, identity)
    proof.equal("base: a query before the first token", *_answers(identity, (), asks))
    left, right = _answers(identity, (PAST,), asks)
    proof.note("hypothesis: of the past, zero is", left - right)
    proof.rules = tuple(rule for row in (left - right).entries for entry in row if (rule := _without_query(entry)))
    proof.equal("step: a query after one more token", *_answers(identity, GROWN.segments, asks))
    _Steps(identity, proof.hypothesis).outputs(proof)
    return proof


def _answers(identity: Identity, segments: Sizes, asks: frozenset[Any]) -> tuple[Block, Block]:
    """The silent token's rows on both sides."""
    history = History((*segments, ONE_SIZE), asks)
    rows = []
    for side in (identity.left, identity.right):
        runner, env = on(history, identity)
        rows.append(runner.run(side, env).output.row_blocks(len(segments), len(segments) + 1))
    return rows[0], rows[1]


def _without_query(equation: Polynomial) -> Rule | None:
    """The equation of the past as a rule. It holds for every query, so that a query q^T which begins each word is left
    out."""
    first = {word[:1] for word in equation.terms}
    if len(first) == 1 and all(len(word) > 1 for word in equation.terms):
        [(query,)] = first
        if query.rows == ONE_SIZE and query.base.endswith("'"):
            rest = {word[1:]: scalar for word, scalar in equation.terms.items()}
            return rule_of(Polynomial(query.columns, equation.columns, rest))
    return rule_of(equation)


def _directly(identity: Identity) -> Proof:
    """Both sides at any length are one matrix of letters: no induction is needed.

    Raises:
        Unproved: they differ, or a side goes token by token.
    """
    sides = (identity.left, identity.right)
    if any(goes_token_by_token(side) or isinstance(computing(side), TokenRows) for side in sides):
        raise Unproved("a side goes token by token")
    proof = Proof(Hypothesis("none"))
    short_histories(proof, identity)
    values = []
    for side in sides:
        runner, env = on(PAST_ONLY, identity)
        values.append(runner.run(side, env))
    proof.equal("value at any length", *(value.output for value in values))
    for state, value in values[0].states.items() if identity.carries else ():
        proof.equal(f"{state} after any length", value, values[1].states[state])
    return proof
