"""The sheet of a claim: what it says, what decides it, what it has to assume, where it is false and what is true."""

from __future__ import annotations

from attnproof.claims import ClaimReport
from attnproof.readable import counterexample_lines
from attnproof.verification import Verification
from derivations.language.facts import Fact


def claim_lines(report: ClaimReport, found: Verification) -> list[str]:
    """A claim in full."""
    claim = report.claim
    lines = [f"{claim.id} ({claim.place})", f"  {claim.says}", f"  verdict: {report.verdict}" + _expectation(report)]
    lines += [f"  assuming: {assumption}" for assumption in report.assumptions]
    for decider in report.decided_by:
        lines.append(f"  {decider.id} {decider.role}: {decider.verdict}")
        lines += [f"    {line}" for line in _shown(decider.id, found)]
    lines += [f"  would be decided by: {claim.would_decide}"] if claim.would_decide else []
    lines += [f"  note: {claim.note}"] if claim.note else []
    return [*lines, *(f"  missing: {text}" for text in report.unexpected)]


def _expectation(report: ClaimReport) -> str:
    return "" if report.ok else f", expected: {report.claim.expected}"


def _shown(name: str, found: Verification) -> list[str]:
    """What a decider says and what showed it, with the counterexample where it is refuted."""
    pairs = zip(found.entries, found.reports, strict=True)
    entry, report = next(((e, r) for e, r in pairs if e.id == name), (None, None))
    if entry is None or report is None:
        return []
    lines = [entry.statement.says] if entry.statement.says else []
    if isinstance(entry.statement, Fact):
        return [*lines, *(str(e.details["shown"]) for e in report.evidence if e.details.get("shown"))]
    if report.counterexample is not None:
        lines += counterexample_lines(entry.identity, report.counterexample)
    return lines
