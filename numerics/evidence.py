"""What was run and what came of it. A status is computed from these records and never typed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Rung = Literal["typed", "exact", "field", "every-length", "floats", "assumptions", "mutants"]
Verdict = Literal["holds", "refuted", "unknown", "vacuous"]


@dataclass(frozen=True)
class Evidence:
    """One rung of one identity.

    `sizes` lists the sizes that were tried, `details` what belongs to the rung (prime, trials, error bound, seed,
    tolerance, ...), and `message` says in a sentence why the verdict isn't "holds".
    """

    rung: Rung
    verdict: Verdict
    sizes: tuple[dict[str, int], ...] = ()
    seconds: float = 0.0
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """A flat record."""
        record: dict[str, Any] = {
            "rung": self.rung,
            "verdict": self.verdict,
            "sizes": list(self.sizes),
            "seconds": round(self.seconds, 4),
        }
        return record | ({"message": self.message} if self.message else {}) | self.details


@dataclass(frozen=True)
class Counterexample:
    """The smallest input on which the two sides differ: exact numbers, both values, and the factorised gap at this
    size.

    `inputs` maps each input to its rows; `compared` says what differs ("output" or a final state); numbers are
    written as fractions.
    """

    sizes: dict[str, int]
    inputs: dict[str, list[list[str]]]
    compared: str
    left: list[list[str]]
    right: list[list[str]]
    gap: str
    entry: tuple[int, int]

    def as_json(self) -> dict[str, Any]:
        """The record of `verify --json`."""
        return {
            "sizes": self.sizes,
            "inputs": self.inputs,
            "compared": self.compared,
            "left": self.left,
            "right": self.right,
            "gap": self.gap,
            "entry": list(self.entry),
        }


def written(matrix: Any) -> list[list[str]]:
    """A matrix of exact numbers as its rows of text, the way records keep it."""
    return [[str(entry) for entry in row] for row in matrix]


def combined(evidence: list[Evidence]) -> Verdict:
    """The verdict of an identity from its rungs.

    An exact or modular refutation refutes. Floats alone can't refute what was proved: then the verdict is unknown. So
    it is where no rung compared the two sides. A proof for every length strengthens what the others say: that there is
    none says nothing of the formula, and one beside a refutation is a contradiction, which leaves it unknown.
    """
    by_rung = {e.rung: e.verdict for e in evidence}
    proved = by_rung.pop("every-length", "unknown") == "holds"
    if by_rung.get("typed", "holds") != "holds":
        return by_rung["typed"]
    exact = {by_rung[rung] for rung in ("exact", "field") if rung in by_rung}
    if proved and "refuted" in by_rung.values():
        return "unknown"
    if "refuted" in exact or (not exact and by_rung.get("floats") == "refuted"):
        return "refuted"
    if not exact and "floats" not in by_rung:
        return "unknown"
    verdicts = set(by_rung.values())
    if verdicts == {"holds"}:
        return "holds"
    return "vacuous" if "vacuous" in verdicts else "unknown"
