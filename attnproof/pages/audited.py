"""The kernels audited: other people's functions with their verdicts, from the record of `attnproof audit --json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Audited:
    """One public function.

    Attributes:
        home: "module:function".
        version: of its library, as it was audited.
        derivation: the system that it was held against.
        error: the largest error over tolerance of the checks that hold; None where none does.
        finding: what was found, in words; "" where it agrees or wasn't run.
    """

    name: str
    library: str
    version: str
    home: str
    derivation: str
    verdict: str
    error: float | None
    finding: str


def all_audited(record: Path) -> list[Audited]:
    """The subjects of a record, by library and name; none where there is no record."""
    if not record.is_file():
        return []
    subjects = json.loads(record.read_text(encoding="utf-8"))["subjects"]
    return [_audited(x) for x in sorted(subjects, key=lambda x: (x["library"], x["name"]))]


def _audited(x: dict[str, object]) -> Audited:
    checks = x["checks"]
    assert isinstance(checks, list)
    errors = [float(c["error_over_tolerance"]) for c in checks if c["verdict"] == "holds"]
    kept = {key: str(x[key]) for key in ("name", "library", "version", "home", "derivation", "verdict")}
    return Audited(**kept, error=max(errors, default=None), finding=str(x.get("finding") or x["why"]))
