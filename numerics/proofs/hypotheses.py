"""Induction hypotheses: closed forms of what a recurrence carries, as functions of the history.

Where they come from doesn't matter, since every one is proved with the induction. A chunkwise form says what the state
is after a block; else a silent token asks for it: the coefficient of its query in the row that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sympy import Basic, preorder_traversal

from derivations.language.errors import NoMeaning
from derivations.language.expressions import Product, Statement, product_of
from derivations.language.forms import (
    Chunkwise,
    Closed,
    Defined,
    FinalState,
    Form,
    Recurrence,
    Transport,
    recurrence_or_none,
    sequence_of,
)
from derivations.language.statements import Derivation, Identity
from derivations.language.symbols import GateToken, Named, Sequence, Token, n
from numerics.free_ring import scalars
from numerics.free_ring.blocks import Block, Sizes
from numerics.free_ring.functions import scalar_power
from numerics.free_ring.letters import ONE_SIZE, PAST, Word, transposed
from numerics.free_ring.polynomials import Polynomial
from numerics.free_ring.scalars import Monomial, Scalar
from numerics.histories.history import History
from numerics.histories.inputs import parts
from numerics.histories.runner import Carrying, PastStates, letters_of, on
from numerics.proofs.summed import summed
from numerics.recurrences import States

OfHistory = Callable[[Sizes], States]
"""The carried values after a history, given as its segments."""


@dataclass(frozen=True)
class Hypothesis:
    """Closed forms of carried values; those without one stay letters. `source` says where they come from."""

    source: str
    closed: OfHistory | None = None

    def after(self, segments: Sizes) -> States:
        """The closed forms after a history."""
        return {} if self.closed is None else self.closed(segments)

    def past(self) -> PastStates:
        """The states after the past: closed forms where there are some, else letters."""
        known = self.after((PAST,))

        def states(form: Carrying, env: Mapping[Any, Any]) -> States:
            return {state: known.get(state, value) for state, value in letters_of(form, env).items()}

        return states


LETTERS = Hypothesis("what is carried is the same on both sides")


def hypotheses(identity: Identity, derivation: Derivation) -> Iterator[Hypothesis]:
    """What may be true of the states after the past, the likeliest first."""
    carrying = carried_by(identity)
    for side in (identity.right, identity.left):
        if isinstance(recurrence_or_none(side), Chunkwise):
            yield Hypothesis("the block form's state", _of_block(identity, side))
    left, right = identity.left, identity.right
    if isinstance(left, FinalState) and left.value in left.recurrence.states:
        yield Hypothesis("the state is the other side", _of_value(identity, left.value, right))
    yield LETTERS
    for own in carrying:
        if isinstance(own, Defined):
            sequence = sequence_of(own.defined)
            for e in _parts_like(sequence, identity):
                yield Hypothesis(f"{sequence} = {e}", _of_value(identity, sequence, Closed(e)))
    states = {state for form in carrying if isinstance(form, Recurrence) for state in form.states}
    for name, form in derivation.forms.items():
        block = recurrence_or_none(form)
        if isinstance(block, Chunkwise) and states and set(block.states) <= states:
            yield Hypothesis(f"the state of the block form {name!r}", _of_block(identity, form))
    yield Hypothesis("what was written, summed up", _summed_up(identity))
    if carrying:
        for asks in askers(identity, carrying):
            yield Hypothesis(f"what a query {_names(asks)} reads", _Asked(identity, frozenset(asks)))


def carried_by(identity: Identity) -> list[Carrying]:
    """The forms of an identity that carry something from token to token."""
    found: list[Any] = []
    for side in (identity.left, identity.right):
        for part in parts(side):
            own = isinstance(part, Transport | Recurrence) and not isinstance(part, Chunkwise)
            if own or (isinstance(part, Defined) and isinstance(part.defined, Token | GateToken)):
                found.append(part)
    return found


def _of_block(identity: Identity, form: Form) -> OfHistory:
    def closed(segments: Sizes) -> States:
        runner, env = on(History(segments), identity)
        return runner.run(form, env).states

    return closed


def _parts_like(x: Basic, identity: Identity) -> Iterator[Statement]:
    """Parts of the closed sides that have the shape of a sequence: ends of products among them."""
    for side in (identity.right, identity.left):
        for e in preorder_traversal(side.expression) if isinstance(side, Closed) else ():
            ends = [product_of(e.args[k:]) for k in range(len(e.args))] if isinstance(e, Product) else [e]
            yield from (end for end in ends if getattr(end, "shape", None) == x.shape and not end.has(x))


def _summed_up(identity: Identity) -> OfHistory:
    def closed(segments: Sizes) -> States:
        runner, env = on(History(segments), identity)
        found: States = {}
        for side in (identity.left, identity.right):
            runner.run(side, env)
        for form, inner in runner.environments:
            found |= summed(form, runner, inner)
        return found

    return closed


def _of_value(identity: Identity, state: Any, form: Form) -> OfHistory:
    def closed(segments: Sizes) -> States:
        runner, env = on(History(segments), identity)
        return {state: runner.run(form, env).output}

    return closed


def _names(sequences: set[Basic]) -> str:
    return " and ".join(sorted(map(str, sequences)))


def askers(identity: Identity, carrying: list[Carrying]) -> Iterator[set[Basic]]:
    """Sets of sequences that a silent token may keep: those that are read and not written, and each by itself."""
    sequences = {x for x in identity.inputs() if isinstance(x, Sequence) and x.shape[0] == n}
    read: set[Basic] = set()
    for form in carrying:
        if isinstance(form, Recurrence):
            written = {x for update in form.updates for x in update.atoms(Named)}
            read |= {x for x in form.readout.atoms(Sequence) if x not in written}
    tried: list[set[Basic]] = []
    for candidate in [read & sequences, *({x} for x in sorted(sequences, key=str))]:
        if candidate and candidate not in tried:
            tried.append(candidate)
            yield candidate


def computing(side: Form) -> Form:
    """The form that gives a side its output, inside of substitutions and definitions."""
    while isinstance(inner := getattr(side, "form", None), Form):
        side = inner
    return side


def goes_token_by_token(side: Form) -> bool:
    """Whether a side's output is read from something that it carries."""
    form = computing(side)
    return isinstance(form, Recurrence | Transport) and not isinstance(form, Chunkwise)


class _Asked:
    """What is carried, as the coefficient of a silent token's query in the form that carries nothing."""

    def __init__(self, identity: Identity, asks: frozenset[Basic]) -> None:
        self.identity, self.asks = identity, asks

    def __call__(self, segments: Sizes) -> States:
        carrying, other = self._sides()
        (state, tail), scale = self._query(carrying)
        past = None if segments == (PAST,) or PAST not in segments else Hypothesis("", self).past()
        answer = self._answer(other, segments, past)
        blocks = [linear_coefficient(entry, tail) for (entry,) in answer.entries]
        if not blocks:
            return {}
        rows = tuple(block.rows for block in blocks)
        closed = Block(rows, (blocks[0].columns,), tuple((block,) for block in blocks))
        return {state: closed.times(scalar_power(scale, Fraction(-1)))}

    def _sides(self) -> tuple[Form, Form]:
        """The side that goes token by token, and the one that says what it carries."""
        left, right = self.identity.left, self.identity.right
        if goes_token_by_token(left) == goes_token_by_token(right):
            raise NoMeaning("growing history: both sides go token by token, or neither: none says what is carried")
        return (left, right) if goes_token_by_token(left) else (right, left)

    def _answer(self, form: Form, segments: Sizes, past: PastStates | None = None) -> Block:
        """The silent token's row, as a column; of an attention matrix without its own key."""
        runner, env = on(History((*segments, ONE_SIZE), self.asks), self.identity, past or letters_of)
        output = runner.run(form, env).output
        row = output.row_blocks(len(segments), len(segments) + 1).T
        return (
            row if len(output.columns) == 1 and self.identity.left.shape[1] != n else row.row_blocks(0, len(segments))
        )

    def _query(self, carrying: Form) -> tuple[tuple[Basic, Word], Scalar]:
        """What a silent token reads: a multiple of the state times a word."""
        column = self._answer(carrying, (PAST,)).single
        states = {
            str(value.single): x for form in carried_by(self.identity) for x, value in letters_of(form, {}).items()
        }
        for word, scale in _readings(column):
            if word and word[0] in states:
                return (states[word[0]], word[1:]), scale
        raise NoMeaning(f"growing history: a silent token reads {column}, which isn't the state times a query")


def _readings(column: Polynomial) -> Iterator[tuple[Word, Scalar]]:
    """A column of one term as a word and its scalar; where it is 1 x 1, the word stands in the scalar."""
    if len(column.terms) != 1:
        return
    [(word, scalar)] = column.terms.items()
    yield word, scalar
    if not word and len(scalar.terms) == 1:
        [(monomial, value)] = scalar.terms.items()
        for atom, power in monomial:
            rest = Scalar({tuple(x for x in monomial if x[0] != atom): value})
            if power == 1:
                yield from ((own, rest) for own in (atom.word, transposed(atom.word)))


def linear_coefficient(column: Polynomial, tail: Word) -> Polynomial:
    """A with column = A . tail, where the query stands in `tail` alone.

    Raises:
        NoMeaning: a term doesn't end with these letters.
    """
    width = tail[0].rows if tail else column.columns
    total = Polynomial(column.rows, width)
    for word, scalar in column.terms.items():
        total = total + _without_tail(word, scalar, tail, total)
    return total


def _without_tail(word: Word, scalar: Scalar, tail: Word, like: Polynomial) -> Polynomial:
    if _ends_with(word, tail):
        rest = word[: len(word) - len(tail)]
        own = Polynomial.of(*rest) if rest else Polynomial.identity(like.rows)
        return own.times(scalar)
    total = Polynomial(*like.shape)
    for monomial, value in scalar.terms.items():
        total = total + _out_of_a_scalar(word, monomial, tail, like).times(scalars.number(value))
    return total


def _out_of_a_scalar(word: Word, monomial: Monomial, tail: Word, like: Polynomial) -> Polynomial:
    """The query may stand in an inner product: v (k^T q) is (v k^T) q."""
    for atom, power in monomial:
        for inner in (atom.word, transposed(atom.word)):
            if power == 1 and inner and _ends_with(inner, tail):
                rest = Scalar({tuple(x for x in monomial if x[0] != atom): Fraction(1)})
                whole = (*word, *inner[: len(inner) - len(tail)])
                own = Polynomial.of(*whole) if whole else Polynomial.identity(like.rows)
                return own.times(rest)
    raise NoMeaning(f"growing history: {Scalar({monomial: Fraction(1)})} {' '.join(word)} isn't linear in the query")


def _ends_with(word: Word, tail: Word) -> bool:
    return len(word) >= len(tail) and word[len(word) - len(tail) :] == tail
