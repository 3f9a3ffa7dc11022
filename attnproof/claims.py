"""The verdicts of a document's claims, computed from the verdicts of the identities and facts that decide them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derivations.language.claims import Claim, ClaimVerdict
from numerics.proofs.ladder import Report


@dataclass(frozen=True)
class Decider:
    """One identity or fact that a claim rests on: its id, what it is to the claim, and its verdict."""

    id: str
    role: str
    verdict: str

    def as_json(self) -> dict[str, str]:
        """The record in `--json`."""
        return {"id": self.id, "role": self.role, "verdict": self.verdict}


@dataclass(frozen=True)
class ClaimReport:
    """A claim with its verdict.

    `assumptions` lists what has to be assumed, each shown to be needed; `unexpected` says what the verdict lacks.
    """

    claim: Claim
    verdict: ClaimVerdict
    decided_by: tuple[Decider, ...]
    assumptions: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the verdict is the expected one, and nothing that it rests on is missing."""
        return self.verdict == self.claim.expected and not self.unexpected

    def as_json(self) -> dict[str, Any]:
        """The record in `--json`."""
        record = {
            "id": self.claim.id,
            "says": self.claim.says,
            "place": self.claim.place,
            "expected": self.claim.expected,
            "verdict": self.verdict,
            "ok": self.ok,
            "decided_by": [decider.as_json() for decider in self.decided_by],
            "assumptions": list(self.assumptions),
        }
        extra = {"would_decide": self.claim.would_decide, "note": self.claim.note, "unexpected": list(self.unexpected)}
        return record | {key: value for key, value in extra.items() if value}


SHOWS, STATES, WITHOUT, CORRECTS = "shows it", "is the claim as stated", "is the claim without", "is the correction"
"""What a decider is to a claim."""


def decide(claim: Claim, reports: Mapping[str, Report]) -> ClaimReport:
    """The verdict of a claim.

    It holds where everything in `by` holds, under assumptions where there are some; it is refuted where everything in
    `false` is refuted and the correction in `by` holds. Anything else is unknown.
    """
    if claim.expected == "empirical":
        return ClaimReport(claim, "empirical", ())
    shows = CORRECTS if claim.false else SHOWS
    wanted = [(name, shows, "holds") for name in claim.by]
    wanted += [(name, STATES, "refuted") for name in claim.false]
    wanted += [(name, f"{WITHOUT} '{assumption}'", "refuted") for assumption, name in claim.only_if.items()]
    deciders, missing = [], []
    for name, role, needed in wanted:
        report = reports.get(name)
        deciders.append(Decider(name, role, report.verdict if report else "unknown"))
        lacks = _lack(report, needed)
        if lacks:
            missing.append(f"{name} {role}, and {lacks}")
    assumptions = tuple(claim.only_if) + _assumptions(claim, reports)
    verdict = "unknown" if missing else _verdict(claim, assumptions)
    return ClaimReport(claim, verdict, tuple(deciders), assumptions, tuple(missing))


def _lack(report: Report | None, needed: str) -> str:
    """What keeps a decider from counting; nothing where it counts."""
    if report is None:
        return "there is no such identity or fact"
    if report.verdict != needed:
        return f"should {'hold' if needed == 'holds' else 'be refuted'}, but its verdict is {report.verdict!r}"
    if report.expected != needed:
        return f"is {needed!r}, which isn't what it is expected to be itself"
    return "" if report.ok else "is refuted without a counterexample"


def _assumptions(claim: Claim, reports: Mapping[str, Report]) -> tuple[str, ...]:
    """The assumptions of the identities that show the claim."""
    found = (reports[name].assumptions for name in claim.by if name in reports)
    return tuple(dict.fromkeys(assumption for own in found for assumption in own))


def _verdict(claim: Claim, assumptions: Sequence[str]) -> ClaimVerdict:
    if claim.false:
        return "refuted"
    return "holds under assumptions" if assumptions else "holds"


def decidable(claims: Sequence[Claim], reports: Sequence[Report]) -> list[Claim]:
    """The claims that rest on something, all of which has a report: what a check of some systems decides by itself."""
    known = {report.id for report in reports}
    return [claim for claim in claims if claim.deciders and known.issuperset(claim.deciders)]


def decide_all(claims: Sequence[Claim], reports: Sequence[Report]) -> tuple[ClaimReport, ...]:
    """The verdicts of claims; one that rests on something without a report is unknown."""
    by_id = {report.id: report for report in reports}
    return tuple(decide(claim, by_id) for claim in claims)


def why_claim(report: ClaimReport) -> list[str]:
    """Why a claim's verdict isn't the expected one. No lines where it is."""
    if report.ok:
        return []
    head = f"{report.claim.id}: {report.verdict}, expected: {report.claim.expected} ({report.claim.source})"
    return [head, *(f"  {text}" for text in report.unexpected)]


def claims_summary(reports: Sequence[ClaimReport]) -> str:
    """204 claims: 110 hold, 56 hold under assumptions, 16 refuted, 22 empirical, 0 unexpected."""
    count = Counter(report.verdict for report in reports if report.ok)
    parts = [
        f"{count['holds']} hold",
        f"{count['holds under assumptions']} hold under assumptions",
        f"{count['refuted']} refuted",
        f"{count['empirical']} empirical",
        f"{sum(not report.ok for report in reports)} unexpected",
    ]
    return f"{len(reports)} {'claim' if len(reports) == 1 else 'claims'}: {', '.join(parts)}"
