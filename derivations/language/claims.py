"""Claims: the sentences of a document, each bound to what decides it.

A claim has a permanent id. Its verdict is computed from the verdicts of identities and facts, which it names by id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from derivations.language.errors import StatementError
from derivations.language.places import Place, caller

ClaimVerdict = Literal["holds", "holds under assumptions", "refuted", "empirical", "unknown"]
EXPECTED = ("holds", "holds under assumptions", "refuted", "empirical")


@dataclass(frozen=True, eq=False)
class Claim:
    """A sentence of a document.

    Args:
        id: permanent, such as "S0-38".
        says: the sentence in our own words.
        place: where it stands in the document, such as "line 92".
        expected: "holds", "holds under assumptions", "refuted", or "empirical".
        by: ids of what has to hold for the claim to hold, or, where the claim is refuted, of its correction.
        only_if: what has to be assumed, in words, with the id of the claim without it, which has to be refuted. The
            assumptions of the identities in `by` count as well.
        false: ids of the claim as it was stated, which have to be refuted for the claim to be.
        would_decide: for an empirical claim, what would decide it.
        note: what a reader should know besides.
    """

    id: str
    says: str
    place: str
    expected: Literal["holds", "holds under assumptions", "refuted", "empirical"]
    by: str | tuple[str, ...] = ()
    only_if: Mapping[str, str] = field(default_factory=dict)
    false: str | tuple[str, ...] = ()
    would_decide: str = ""
    note: str = ""
    source: Place = field(default_factory=caller)

    def __post_init__(self) -> None:
        for name in ("by", "false"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        problem = self._problem()
        if problem:
            raise StatementError(f"{self.id} {problem}")

    def _problem(self) -> str:
        if self.expected not in EXPECTED:
            return f"is expected to be one of {', '.join(EXPECTED)}, not {self.expected!r}"
        if self.expected == "empirical":
            return (
                "" if self.would_decide and not self.deciders else "is empirical: say what would decide it, and no more"
            )
        if self.expected == "refuted":
            return "" if self.false and self.by else "is refuted: give what is false and its correction"
        return "" if self.by and not self.false else "holds: give what shows it"

    @property
    def deciders(self) -> tuple[str, ...]:
        """The ids of everything that the verdict is computed from."""
        return tuple(dict.fromkeys((*self.by, *self.only_if.values(), *self.false)))


@dataclass(frozen=True, eq=False)
class Document:
    """A document and its claims, in the order in which they were made.

    Args:
        name: short, such as "document_000".
        title: as it calls itself.
        claims: every claim, once.
    """

    name: str
    title: str
    claims: Sequence[Claim]
    place: Place = field(default_factory=caller)

    def __post_init__(self) -> None:
        object.__setattr__(self, "claims", tuple(self.claims))
        ids = [claim.id for claim in self.claims]
        for own in ids:
            if ids.count(own) > 1:
                raise StatementError(f"{self.name} has two claims with the id {own}")
