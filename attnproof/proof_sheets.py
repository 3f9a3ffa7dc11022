"""Proofs for every length as a person reads them: what is assumed of the past, and what was reduced to zero."""

from __future__ import annotations

from collections.abc import Sequence

from attnproof.catalogue import Entry
from derivations.language.statements import Identity
from numerics.evidence import Evidence
from numerics.proofs.ladder import Report

PROOF = "every-length"
"""The rung that proofs come from."""

LEGEND = (
    "Capital letters and masks are the past, of any length n; small letters are the new token; [a ; b] is a above b.",
    "Gates of the past and Diag(x) are diagonal, [A ⊙ B] is an entrywise product, rem(g) and total(g) are products of",
    "gates g, after each token of the past and of all of them. What a line shows is the same on both sides.",
)
BLOCKS = "A block of any length begins with any state, so that what holds of one holds of the next."


def proof_lines(entry: Entry, report: Report) -> list[str]:
    """The proof of an identity, or why there is none."""
    found = next((e for e in report.evidence if e.rung == PROOF), None)
    if found is None:
        return ["", f"{entry.id}: this rung is for identities that are typed, and it hasn't been climbed"]
    if found.verdict != "holds":
        return ["", f"{entry.id}: no proof for every length", *_tried(found)]
    return ["", f"{entry.id}: proof for every {_listed(found.details['for_every'])}", *_steps(entry, found)]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _tried(found: Evidence) -> list[str]:
    return [f"  {line}" for line in found.details.get("tried", [found.message])]


def _steps(entry: Entry, found: Evidence) -> list[str]:
    lines = [f"  {line}" for line in LEGEND]
    if isinstance(entry.statement, Identity) and entry.statement.is_chunked:
        lines.append(f"  {BLOCKS}")
    lines.append(f"  induction over an appended token; assumed of the past: {found.details['hypothesis']}")
    for what, value in found.details["proof"]:
        lines += [f"  {what}", f"      {value}"]
    return lines
