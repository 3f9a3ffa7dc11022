"""What a page shows of one identity, fact or backward pass: its formulas, its evidence, and where it is false."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

import derivations
from attnproof.catalogue import Catalogue, Entry
from attnproof.checking import Unfinished
from attnproof.pages.mathematics import equation, from_text, mathml, matrix
from attnproof.pages.rungs import Climbed, climbed
from attnproof.readable import counterexample_lines, readable
from derivations.language.facts import Fact
from derivations.language.forms import Form, equations, latex_lines
from derivations.language.places import Place
from derivations.language.printing import LATEX
from derivations.language.statements import Backward, Derivation, Identity
from numerics.evidence import Counterexample
from numerics.proofs.ladder import Report

NOT_CHECKED = "not checked"
"""The verdict of a statement that a record says nothing about."""
CORRECTIONS = 2
"""So many correct formulas are shown beside a false one."""
ROOT = Path(derivations.__file__).parent.parent


@dataclass(frozen=True)
class Lines:
    """A form or one side of an identity: its name where it has one, its equations, and their LaTeX."""

    name: str
    equations: tuple[Markup, ...]
    latex: str


@dataclass(frozen=True)
class Assumed:
    """An assumption, why it is needed, and the input without it for which the formula fails."""

    condition: Markup
    because: str
    without_it: str
    inputs: str


@dataclass(frozen=True)
class Refutation:
    """The smallest input on which two sides differ: what it is, both values, and the factorised gap."""

    setting: str
    left: Markup
    right: Markup
    where: str
    gap: Markup


@dataclass(frozen=True)
class Link:
    """What another statement is called and where it is."""

    text: str
    address: str


@dataclass(frozen=True)
class Correction:
    """A statement that is right, for one that isn't."""

    link: Link
    says: str
    verdict: str
    sides: tuple[Lines, ...]


@dataclass(frozen=True)
class Shown:
    """One statement as its page shows it.

    `kind` is "identity", "fact" or "backward"; `shown` is what decided a fact; `messages` says what isn't as expected.
    """

    id: str
    anchor: str
    address: str
    kind: str
    says: str
    expected: str
    verdict: str
    ok: bool
    sides: tuple[Lines, ...] = ()
    assumptions: tuple[Assumed, ...] = ()
    rungs: tuple[Climbed, ...] = ()
    refutation: Refutation | None = None
    corrections: tuple[Correction, ...] = ()
    claims: tuple[str, ...] = ()
    printed_in: str = ""
    place: str = ""
    method: str = ""
    shown: str = ""
    messages: tuple[str, ...] = ()

    @property
    def is_refuted(self) -> bool:
        """Whether it is false, or is expected to be."""
        return "refuted" in (self.expected, self.verdict)


def anchor(name: str) -> str:
    """A name as the id of an element: ids have no blanks."""
    return re.sub(r"\s+", "-", name)


def address(entry: Entry) -> str:
    """Where a statement is, from the site's root."""
    return f"systems/{entry.derivation.name}.html#{anchor(entry.statement.name)}"


def place_text(place: Place) -> str:
    """derivations/gla.py:73; of a user's module the name of the file."""
    file = Path(place.file)
    return f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file.name}:{place.line}"


def without_folders(message: str) -> str:
    """A message without the folder in which the package happens to be."""
    return message.replace(f"{ROOT}/", "")


def lines_of(form: Form, name: str = "") -> Lines:
    """A form as equations."""
    latex = latex_lines(form)
    return Lines(name, tuple(map(equation, latex)), "\n".join(latex))


def forms_of(derivation: Derivation) -> list[Lines]:
    """Every form of a derivation."""
    return [lines_of(form, name) for name, form in derivation.forms.items()]


@dataclass(frozen=True)
class Shower:
    """Shows statements: knows the catalogue, the evidence, and which claims rest on what."""

    catalogue: Catalogue
    reports: Mapping[str, Report]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_entries", {entry.id: entry for entry in self.catalogue.entries()})
        object.__setattr__(self, "_decided", self.catalogue.decided())

    def show(self, entry: Entry) -> Shown:
        """One statement with everything that is known of it."""
        report, statement = self.reports.get(entry.id), entry.statement
        own: dict[str, Any] = {}
        if isinstance(statement, Fact):
            own = {"kind": "fact", "method": statement.check.method, "shown": _shown(report)}
        elif isinstance(statement, Backward):
            own = {"kind": "backward", "sides": (_adjoint(statement),), "refutation": _refutation(entry, report)}
        else:
            own = self._of_identity(entry, statement, report)
        return Shown(
            entry.id,
            anchor(statement.name),
            address(entry),
            says=statement.says,
            expected=statement.expected,
            verdict=report.verdict if report else NOT_CHECKED,
            ok=bool(report and report.ok and report.expected == statement.expected),
            rungs=climbed(report) if report else (),
            claims=tuple(self._decided.get(entry.id, ())),  # type: ignore[attr-defined]
            printed_in=getattr(statement, "source", ""),
            place=place_text(statement.place),
            messages=_messages(report),
            **own,
        )

    def _of_identity(self, entry: Entry, identity: Identity, report: Report | None) -> dict[str, Any]:
        return {
            "kind": "identity",
            "sides": tuple(_side(side, entry.derivation) for side in (identity.left, identity.right)),
            "assumptions": tuple(_assumptions(identity, report)),
            "refutation": _refutation(entry, report),
            "corrections": tuple(self._corrections(entry, identity)) if identity.expected == "refuted" else (),
        }

    def _corrections(self, entry: Entry, identity: Identity) -> Iterator[Correction]:
        """What claims call the correction; else what shares a side with the false formula, and holds."""
        claimed = [name for claim in self.catalogue.claims() if entry.id in claim.false for name in claim.by]
        others = (Entry(entry.derivation, other) for other in entry.derivation.identities)
        beside = [other.id for other in others if other.statement.expected == "holds" and _share(other, identity)]
        for name in list(dict.fromkeys(claimed or beside))[:CORRECTIONS]:
            found: Entry | None = self._entries.get(name)  # type: ignore[attr-defined]
            if found is not None:
                yield self._correction(found)

    def _correction(self, found: Entry) -> Correction:
        report, statement = self.reports.get(found.id), found.statement
        sides = (statement.left, statement.right) if isinstance(statement, Identity) else ()
        return Correction(
            Link(found.id, address(found)),
            statement.says,
            report.verdict if report else NOT_CHECKED,
            tuple(_side(side, found.derivation) for side in sides),
        )


def _share(other: Entry, identity: Identity) -> bool:
    """Whether two identities speak of one form."""
    own = other.identity
    return any(mine is theirs for mine in (own.left, own.right) for theirs in (identity.left, identity.right))


def _side(form: Form, derivation: Derivation) -> Lines:
    return lines_of(form, next((name for name, known in derivation.forms.items() if known is form), ""))


def _adjoint(statement: Backward) -> Lines:
    latex = equations(statement.adjoint.lines(LATEX))
    return Lines("", tuple(map(equation, latex)), "\n".join(latex))


def _assumptions(identity: Identity, report: Report | None) -> Iterator[Assumed]:
    needed = {shown["assumption"]: shown for shown in _needed(report)}
    for assumption in identity.assumptions:
        shown = needed.get(str(assumption), {})
        inputs = ", ".join(f"{name} = {_in_line(rows)}" for name, rows in shown.get("inputs", {}).items())
        without_it = " ".join(filter(None, (shown.get("without_it", ""), _in_brackets(shown.get("message", "")))))
        yield Assumed(mathml(assumption.write(LATEX)), assumption.needed_because, without_it, inputs)


def _needed(report: Report | None) -> Sequence[Mapping[str, Any]]:
    found = [e.details.get("needed", ()) for e in report.evidence if e.rung == "assumptions"] if report else []
    return [shown for all_shown in found for shown in all_shown]


def _in_brackets(text: str) -> str:
    return f"({text})" if text else ""


def _in_line(rows: list[list[str]]) -> str:
    """1 for one number, (1, 2) for a column, (1, 2; 3, 4) for a matrix."""
    text = ", ".join(row[0] for row in rows) if len(rows[0]) == 1 else "; ".join(", ".join(row) for row in rows)
    return text if len(rows) == len(rows[0]) == 1 else f"({text})"


def _refutation(entry: Entry, report: Report | None) -> Refutation | None:
    if report is None or report.counterexample is None:
        return None
    found: Counterexample = report.counterexample
    first, *others = counterexample_lines(entry.identity, found)
    inputs = others[: len(found.inputs)] if first.endswith("these inputs") else []
    setting = "; ".join([first.removeprefix("refuted by "), *(line.strip() for line in inputs)])
    where = others[-1].strip().removeprefix("gap in ").partition(": ")[0]
    gap = mathml(from_text(readable(found.gap)))
    return Refutation(setting, mathml(matrix(found.left)), mathml(matrix(found.right)), where, gap)


def _shown(report: Report | None) -> str:
    found = [str(e.details.get("shown", e.message)) for e in report.evidence] if report else []
    return "; ".join(found)


def _messages(report: Report | None) -> tuple[str, ...]:
    """Why a verdict isn't the expected one."""
    if report is None or report.ok:
        return ()
    said = [f"{e.rung}: {e.message}" for e in report.evidence if e.message]
    return tuple(
        without_folders(line) for line in (*said, *([report.message] if isinstance(report, Unfinished) else []))
    )
