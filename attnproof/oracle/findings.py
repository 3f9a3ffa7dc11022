"""What a check found, and the comparison that most checks make: output and last states against the statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from attnproof.implementation_cases import Case
from attnproof.oracle.conventions import OUTPUT
from attnproof.oracle.subject import Misbehaved, Subject
from attnproof.oracle.trials import Gap, Trial

Verdict = Literal["holds", "refuted", "vacuous", "skipped"]


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: its name.
        ratio: the largest error over tolerance that counted.
        sharpness: the smallest relative error that would have been seen.
        message: what is wrong, or why nothing was tried.
        case: where it failed.
        tested: the arguments whose share of the output was clearly above the tolerance on some input.
    """

    check: str
    verdict: Verdict
    ratio: float = 0.0
    sharpness: float = 0.0
    message: str = ""
    case: Case | None = None
    seconds: float = 0.0
    tested: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        return self.check

    def as_json(self) -> dict[str, Any]:
        """A flat record."""
        record: dict[str, Any] = {"check": self.check, "verdict": self.verdict, "error_over_tolerance": self.ratio}
        record |= {"smallest_fault_seen": self.sharpness, "message": self.message, "tested": sorted(self.tested)}
        return record | ({"case": asdict(self.case)} if self.case else {})


Check = Callable[[Subject, Case], Finding]


def compared(name: str, subject: Subject, cases: Iterable[Case]) -> Finding:
    """Output and states against the statement on each case, up to the first that fails."""
    ratio, sharpness, tested = 0.0, 0.0, frozenset[str]()
    for case in cases:
        try:
            trial = Trial(subject, case)
            gaps = [gap for gap in trial.gaps(subject.call(trial.arguments)) if gap.counts]
        except Misbehaved as error:
            return broken(name, case, error)
        worst = max(gaps, key=lambda gap: gap.ratio, default=None)
        if worst is None:
            continue
        ratio, sharpness = max(ratio, worst.ratio), max(sharpness, *(gap.sharpness for gap in gaps))
        if worst.ratio > 1:
            return Finding(name, "refuted", worst.ratio, sharpness, f"{described_case(case)}: {said(worst)}", case)
        if not trial.testable <= tested:
            tested |= trial.tested
    return Finding(name, "holds" if sharpness else "vacuous", ratio, sharpness, tested=tested)


def broken(name: str, case: Case, error: Misbehaved) -> Finding:
    """What a call that misbehaved is."""
    return Finding(name, "refuted", np.inf, message=f"{described_case(case)}: {error}", case=case)


def skipped(name: str, why: str) -> Finding:
    """That nothing was tried."""
    return Finding(name, "skipped", message=why)


def said(gap: Gap) -> str:
    """A gap in words."""
    what = "the output" if gap.name == OUTPUT else f"the final {gap.name}"
    begins = f", and every token before {gap.first_token} is right" if gap.first_token else ""
    return f"{what} is off by {gap.ratio:.3g} tolerances at {gap.where}{begins}"


def described_case(case: Case) -> str:
    """A case in words."""
    state = "" if case.with_state else ", no initial state"
    gates = f", log gates down to {-case.strongest:g}" if case.strongest != 1 else ""
    keys = f", {case.family}" if case.family != "plain" else ""
    fixed = "".join(
        f", {name} = {value if isinstance(value, str) else format(value, 'g')}" for name, value in case.set_to
    )
    scale = f", values times {case.value_scale:g}" if case.value_scale != 1 else ""
    scale += f", queries times {case.query_scale:g}" if case.query_scale != 1 else ""
    return f"n = {case.tokens}, d_k = {case.key_width}, d_v = {case.value_width}{state}{gates}{keys}{fixed}{scale}"
