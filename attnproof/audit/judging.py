"""One subject judged: its checks, whether they are the expected ones, and for a finding the smallest input."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal

import numpy as np

import attnproof
from attnproof.audit.gradients import STRONG, derivatives
from attnproof.audit.inner_loss import InnerLoss
from attnproof.audit.stated import Stated
from attnproof.audit.subjects import Subject
from attnproof.implementation_cases import Case
from attnproof.oracle.conventions import convention_of
from attnproof.oracle.findings import Finding
from attnproof.oracle.judging import chosen
from attnproof.oracle.report import KernelReport

Effort = Literal["quick", "usual"]
Verdict = Literal["agrees", "finding", "unclear", "not run"]
IN_NORM, LOADING = "gradients in norm", (ImportError, AttributeError, OSError, RuntimeError)
LONGEST = 66
"""Tokens of one block of 64, and the smallest number of another."""


@dataclass(frozen=True)
class Judged:
    """What was found of one subject.

    Attributes:
        findings: one for each check.
        smallest: the smallest input on which it fails, in words.
        replay: Python that runs that input again.
    """

    findings: tuple[Finding, ...]
    smallest: str = ""
    replay: str = ""


def check(subject: Subject, effort: Effort = "quick", case: Case | None = None, seed: int = 0) -> KernelReport:
    """The oracle's report of a subject.

    Args:
        subject: of the oracle, neither `Stated` nor `InnerLoss`.
        effort: as for `attnproof.check_kernel`.
        case: a single input, as a record prints it.
        seed: where inputs are drawn from.
    """
    return attnproof.check_kernel(subject.kernel(), subject.derivation, **_options(subject, effort, case, seed))


def _options(subject: Subject, effort: Effort, case: Case | None, seed: int) -> dict[str, Any]:
    how = {"layout": subject.layout, "constants": subject.constants, "library": subject.arrays, "dtype": subject.dtype}
    return how | {"chunk_size": subject.chunk_size, "effort": effort, "case": case, "seed": seed}


def audited(subject: Subject, effort: Effort = "quick", backward: bool = True, seed: int = 0) -> dict[str, Any]:
    """A flat record of what was found, as `docs/audit.json` has it.

    A subject whose library is missing, or of another version than the pinned one, isn't run, and the record says so.
    """
    begun, misses = perf_counter(), subject.library.misses
    if misses:
        return not_run(subject, misses)
    try:
        subject.load()
        differing = subject.differing()
    except LOADING as error:
        return not_run(subject, f"can't be loaded: {type(error).__name__}: {error}")
    judged = _judged(subject, effort, backward, seed)
    if differing:
        message = f"another source than {subject.home}: {', '.join(differing)}"
        judged = replace(
            judged, findings=(*judged.findings, Finding("same source", "refuted", np.inf, message=message))
        )
    return _record(subject, judged) | {"seconds": round(perf_counter() - begun, 1)}


def not_run(subject: Subject, why: str) -> dict[str, Any]:
    """The record of a subject that wasn't run, or whose process ended."""
    verdict: Verdict = "not run"
    return _about(subject) | {"verdict": verdict, "expected": False, "why": why, "checks": [], "seconds": 0.0}


def _judged(subject: Subject, effort: Effort, backward: bool, seed: int) -> Judged:
    if isinstance(subject, Stated | InnerLoss):
        return _apart(subject)
    judged = _by_the_oracle(subject, effort, seed)
    if not backward or subject.arrays != "torch" or subject.dtype != "float32":
        return judged
    in_norm = gradients_in_norm(subject)
    judged = replace(judged, findings=(*judged.findings, in_norm))
    if in_norm.verdict == "refuted" and not judged.smallest:
        smallest, replay = _smallest_not_finite(subject)
        judged = replace(judged, smallest=smallest, replay=replay or judged.replay)
    return judged


def _apart(subject: Stated | InnerLoss) -> Judged:
    findings = tuple(subject.findings())
    wrong = next((x for x in findings if x.verdict == "refuted"), None)
    if wrong is None:
        return Judged(findings)
    return Judged(findings, wrong.message.split(":")[0], f"attnproof audit {subject.name}")


def _by_the_oracle(subject: Subject, effort: Effort, seed: int) -> Judged:
    found: list[Finding] = []
    try:
        report = attnproof.check_kernel(
            subject.kernel(), subject.derivation, done=found.append, **_options(subject, effort, None, seed)
        )
    except Exception as error:  # a fault of the oracle's: what it found until then stands
        if len(found) > len(chosen(effort)):  # all was checked, and the search for an explanation broke off
            return Judged(tuple(found))
        message = f"the oracle raised {type(error).__name__}: {error}"
        return Judged((*found, Finding("the oracle", "vacuous", message=message)))
    written = re.search(r"case=(attnproof\.Case\(.*\))\)$", report.replay)
    return Judged(report.findings, report.smallest, _replay(subject, written.group(1)) if written else "")


def _replay(subject: Subject, case: str) -> str:
    call = f"print(check(subject({subject.name!r}), case={case}))"
    return f"import attnproof; from attnproof.audit import check, subject; {call}"


def gradients_in_norm(subject: Subject) -> Finding:
    """Derivatives with ever stronger gates: finite, and within what rounding explains (`attnproof.audit.gradients`)."""
    convention = convention_of(subject.kernel(), subject.derivation, subject.layout, subject.constants)
    gated = any(x.scale != "linear" or x.stands_for in ("gamma", "alpha") for x in convention.arguments)
    losses = ["output and state"] + ["state"] * (len(convention.returns) > 1)
    cases = [(1.0, loss) for loss in losses] + [(x, losses[0]) for x in STRONG[1:] if gated]
    ratio = 0.0
    for strongest, loss in cases:
        try:
            found = derivatives(subject, LONGEST + 1, strongest, loss)
        except Exception as error:
            return Finding(IN_NORM, "refuted", np.inf, message=f"it raised {type(error).__name__}: {error}")
        ratio = max(ratio, found.ratio)
        if ratio > 1:
            return Finding(IN_NORM, "refuted", ratio, message=str(found))
    return Finding(IN_NORM, "holds", ratio)


def _smallest_not_finite(subject: Subject) -> tuple[str, str]:
    """The fewest tokens with one channel for which a derivative isn't finite, in words and as Python."""
    for tokens in range(1, LONGEST + 1):
        for strongest in STRONG:
            found = derivatives(subject, tokens, strongest, "output and state", width=1)
            if found.not_finite:
                call = f"derivatives(subject({subject.name!r}), {tokens}, {strongest}, {found.loss!r}, width=1)"
                said = str(found).replace(f"n = {tokens}", f"n = {tokens}, d_k = d_v = 1")
                return said, f"from attnproof.audit import derivatives, subject; print({call})"
    return "", ""


def _record(subject: Subject, judged: Judged) -> dict[str, Any]:
    shown = [_check(x) for x in judged.findings]
    failed = {x["check"] for x in shown if x["verdict"] == "refuted"}
    tried = {x["check"] for x in shown}
    verdict: Verdict = "finding" if failed else "agrees" if _all_hold(shown) else "unclear"
    confirmed = _confirmed(subject) if failed and subject.expected.checks else None
    expected = subject.expected.fits(failed, tried) and verdict != "unclear" and confirmed is not False
    finding = {
        "finding": subject.expected.says if failed and expected else "",
        "confirmed": subject.confirmation if confirmed else "",
        "smallest_input": judged.smallest if failed else "",
        "replay": judged.replay if failed else "",
    }
    return _about(subject) | {"verdict": verdict, "expected": expected, "why": "", "checks": shown} | finding


def _all_hold(checks: Iterable[dict[str, Any]]) -> bool:
    verdicts = {x["verdict"] for x in checks}
    return "holds" in verdicts and "vacuous" not in verdicts


def _check(finding: Finding) -> dict[str, Any]:
    return {key: value for key, value in finding.as_json().items() if key not in ("case", "tested")}


def _about(subject: Subject) -> dict[str, Any]:
    return {
        "name": subject.name,
        "library": subject.library.name,
        "version": subject.library.pinned,
        "home": subject.home,
        "same_source": list(subject.same_source),
        "derivation": subject.derivation,
        "called": subject.called,
        "dtype": subject.dtype,
    }


def _confirmed(subject: Subject) -> bool | None:
    """Whether what is said of a finding is so; None where there is nothing to confirm it with."""
    if isinstance(subject, InnerLoss):
        return subject.is_as_printed() if subject.printed else None
    instead = subject.expected.instead
    if instead is None:
        return None
    return _holds(check(replace(subject, adapter=instead.adapter)).findings, ("lengths", "no initial state"))


def _holds(findings: Sequence[Finding], names: Sequence[str]) -> bool:
    verdicts = {x.check: x.verdict for x in findings}
    return all(verdicts.get(name) == "holds" for name in names)
