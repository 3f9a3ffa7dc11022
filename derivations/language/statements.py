"""Derivations and identities: what a module of `derivations/` declares.

A *derivation* is a system with its forms and sources; an *identity* says that two forms are equal under assumptions,
or (expected = "refuted") that a formula which was printed somewhere isn't.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from sympy import Basic

from derivations.language.adjoint import Adjoint, adjoint
from derivations.language.assumptions import Assumption
from derivations.language.errors import NoMeaning, StatementError
from derivations.language.expressions import Statement, same_shape
from derivations.language.facts import Fact
from derivations.language.forms import Chunkwise, FinalState, Form, Recurrence, recurrence_or_none
from derivations.language.places import Place, caller
from derivations.language.symbols import State
from derivations.language.two_modes import ForwardMode, ReverseMode

Verdict = Literal["holds", "refuted", "unknown", "vacuous"]


@dataclass(frozen=True)
class Source:
    """Where a formula was published."""

    title: str
    where: str = ""
    url: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.title, self.where, self.url) if part)


@dataclass(frozen=True, eq=False)
class Identity:
    """Two forms and the claim that they are equal.

    Args:
        name: short, unique within its derivation.
        left, right: the two forms.
        says: the claim in one sentence; of a formula that is expected to be refuted, what is wrong with it.
        assumptions: what the inputs must fulfil.
        expected: "holds", or "refuted" for a formula that is known to be wrong as printed.
        source: where the formula was printed.
        matching: how the left side's states are read off the right side's, where the two sides carry different states.
        carries: whether final states are compared, from any initial state; by default wherever both sides have the
        same states.
    """

    name: str
    left: Form
    right: Form
    says: str = ""
    assumptions: tuple[Assumption, ...] = ()
    expected: Literal["holds", "refuted"] = "holds"
    source: str = ""
    matching: Mapping[State, Statement] | None = None
    carries: bool | None = None
    place: Place = field(default_factory=caller)

    def __post_init__(self) -> None:
        same_shape(f"compare the two sides of {self.name!r}:", self.left.shape, self.right.shape)
        if self.expected not in ("holds", "refuted"):
            raise StatementError(f"an identity is expected to be 'holds' or 'refuted', not {self.expected!r}")
        if self.matching is not None and set(self.matching) != set(self.left.states):
            raise StatementError(
                f"matching gives values for {sorted(map(str, self.matching))}, the left side has {self.left.states}"
            )
        if self.carries is None:
            object.__setattr__(self, "carries", self.matching is not None or self._same_states())
        if self.carries and not self.matching and not self._same_states():
            raise StatementError(f"{self.left.states} and {self.right.states} can't be compared without a matching")

    def _same_states(self) -> bool:
        return bool(self.left.states) and self.left.states == self.right.states

    def inputs(self) -> list[Basic]:
        """Every named matrix and scalar that is read from outside, sorted by name; initial states among them where
        carried.
        """
        found = self.left.symbols() | self.right.symbols()
        for assumption in self.assumptions:
            found |= assumption.subjects()
        if self.carries:
            found |= set(self.right.states)
        return sorted(found, key=str)

    @property
    def is_chunked(self) -> bool:
        """Whether a side goes block by block, so that the size of a block matters."""
        return any(isinstance(recurrence_or_none(side), Chunkwise) for side in (self.left, self.right))

    def with_sides(self, left: Form, right: Form) -> Identity:
        """The same claim about other forms (a falsified side, say)."""
        return replace(self, left=left, right=right)

    def without(self, assumption: Assumption) -> Identity:
        """The same claim with one assumption dropped."""
        return replace(self, assumptions=tuple(a for a in self.assumptions if a is not assumption))


@dataclass(frozen=True, eq=False)
class Reduction(Identity):
    """One system is a special case of another: an edge in the map of the family.

    Args:
        general, special: the names of the two derivations.
        condition: under what choice of inputs, in words.
    """

    general: str = ""
    special: str = ""
    condition: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.general and self.special and self.condition):
            raise StatementError(
                f"the reduction {self.name!r} names its general and its special system, and a condition"
            )
        if not self.says:
            object.__setattr__(self, "says", f"With {self.condition}, {self.general} is {self.special}.")


@dataclass(frozen=True, eq=False)
class Backward:
    """The backward pass of a recurrence. Nobody writes it: it is derived, and claimed to give the derivatives.

    Args:
        name: "backward", or "backward_of_" and the name of the form.
        recurrence: the forward pass.
        place: where the derivation is stated.
    """

    name: str
    recurrence: Recurrence
    place: Place
    says: str = "The derived backward pass gives the derivative by every input and by the initial state."
    expected: Literal["holds", "refuted"] = "holds"

    @property
    def adjoint(self) -> Adjoint:
        """The formulas."""
        return adjoint(self.recurrence)

    @cached_property
    def identity(self) -> Identity:
        """Forward mode and reverse mode agree in every direction."""
        sides = ForwardMode(self.recurrence), ReverseMode(self.adjoint)
        return Identity(self.name, *sides, says=self.says, place=self.place)


def compared_in(statement: Identity | Backward) -> Identity:
    """The identity whose sides are compared: of a backward pass that of its two modes."""
    return statement.identity if isinstance(statement, Backward) else statement


def _backward(name: str, form: Form, place: Place) -> Backward | str | None:
    """The backward pass of a form; the reason where a recurrence has none; None for what isn't a recurrence."""
    inner = recurrence_or_none(form)
    if inner is None or isinstance(inner, Chunkwise) or isinstance(form, FinalState):
        return None
    if not isinstance(form, Recurrence):
        return "its inputs are made of other inputs; the recurrence that it is made of has one"
    try:
        adjoint(form)
    except (NoMeaning, StatementError) as error:
        return str(error)
    return Backward("backward" if name == "recurrence" else f"backward_of_{name}", form, place)


@dataclass(frozen=True, eq=False)
class Derivation:
    """A system: its forms by name, its identities, its sources.

    Args:
        name: the name under which it is verified and shown, a Python identifier.
        title: as people call it.
        summary: what it is, in a sentence or two.
        forms: the ways to compute it, by name ("recurrence", "matrix", "chunkwise", ...).
        identities: what is claimed of its forms.
        sources: where it was published.
        facts: what is claimed besides: numbers, functions, sizes, costs.
    """

    name: str
    title: str
    summary: str
    forms: Mapping[str, Form]
    identities: Sequence[Identity]
    sources: Sequence[Source] = ()
    facts: Sequence[Fact] = ()
    place: Place = field(default_factory=caller)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise StatementError(
                f"{self.name!r} can't be the name of a derivation: use letters, digits and underscores"
            )
        object.__setattr__(self, "identities", tuple(self.identities))
        object.__setattr__(self, "sources", tuple(self.sources))
        object.__setattr__(self, "facts", tuple(self.facts))
        names = [statement.name for statement in self.statements]
        for name in names:
            if names.count(name) > 1:
                raise StatementError(f"{self.name} has two identities with the name {name!r}")

    @property
    def statements(self) -> tuple[Identity | Fact | Backward, ...]:
        """Identities, facts and backward passes, in order."""
        return (*self.identities, *self.facts, *self.backward)

    @property
    def backward(self) -> tuple[Backward, ...]:
        """The backward passes of the forms that are recurrences."""
        return tuple(found for found in self._passes.values() if isinstance(found, Backward))

    @property
    def without_backward(self) -> dict[str, str]:
        """The recurrences for which no backward pass can be derived, by form, and why."""
        return {name: found for name, found in self._passes.items() if isinstance(found, str)}

    @cached_property
    def _passes(self) -> dict[str, Backward | str | None]:
        return {name: _backward(name, form, self.place) for name, form in self.forms.items()}

    def identity(self, name: str) -> Identity:
        """The identity with this name."""
        return next(identity for identity in self.identities if identity.name == name)
