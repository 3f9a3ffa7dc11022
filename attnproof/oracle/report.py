"""The report of the oracle: what was tried, what was found, and what is wrong with the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnproof.oracle.findings import Finding


@dataclass(frozen=True)
class KernelReport:
    """What the oracle found.

    Attributes:
        kernel: its name.
        derivation, title: the system that it was held against.
        dtype, accumulation: the precision of its inputs, and that of its sums.
        findings: one for each check.
        diagnosis: what the kernel computes instead; "" where that isn't known.
        begins: where its error begins.
        smallest: the smallest input on which it fails, in words.
        replay: a call that runs that input again.
    """

    kernel: str
    derivation: str
    title: str
    dtype: str
    accumulation: str
    findings: tuple[Finding, ...]
    seconds: float
    diagnosis: str = ""
    begins: str = ""
    smallest: str = ""
    replay: str = ""

    @property
    def ok(self) -> bool:
        """Whether something was tried that could fail, and nothing failed. Vacuous and skipped are no passes."""
        verdicts = [x.verdict for x in self.findings]
        return "refuted" not in verdicts and "holds" in verdicts and "vacuous" not in verdicts

    def raise_if_wrong(self) -> None:
        """Raises AssertionError with the report where the kernel isn't right."""
        if not self.ok:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        refuted = any(x.verdict == "refuted" for x in self.findings)
        word = "computes" if self.ok else "doesn't compute" if refuted else "isn't shown to compute"
        precision = self.dtype if self.accumulation == self.dtype else f"{self.dtype} with sums in {self.accumulation}"
        lines = [f"{self.kernel} {word} {self.title} in {precision} ({self.seconds:.1f} s)"]
        if self.diagnosis:
            lines.append(f"  {self.diagnosis}")
        if self.begins:
            lines.append(f"  {self.begins}")
        if self.smallest:
            lines.append(f"  smallest input: {self.smallest}")
        lines += [f"  {_line(x)}" for x in self.findings]
        return "\n".join([*lines, f"  again: {self.replay}"] if self.replay else lines)

    def as_json(self) -> dict[str, Any]:
        """The record of `check --json`."""
        return {
            "kernel": self.kernel,
            "derivation": self.derivation,
            "dtype": self.dtype,
            "accumulation": self.accumulation,
            "ok": self.ok,
            "diagnosis": self.diagnosis,
            "begins": self.begins,
            "smallest_input": self.smallest,
            "replay": self.replay,
            "seconds": round(self.seconds, 3),
            "checks": [x.as_json() for x in self.findings],
        }


def _line(finding: Finding) -> str:
    if finding.verdict == "holds":
        seen = f", sees relative errors from {finding.sharpness:.1g}" if finding.sharpness else ""
        note = f"; {finding.message}" if finding.message else ""
        return f"{finding.check}: right, {finding.ratio:.2g} of the tolerance{seen}{note}"
    if finding.verdict == "refuted":
        return f"{finding.check}: WRONG, {finding.message}"
    return f"{finding.check}: {finding.verdict}, {finding.message or 'no input was sharp enough to count'}"
