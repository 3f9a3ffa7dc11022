"""The record of a score: every result, and the sums that are printed and stand on the page."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.oracle_score.faults import FAULTS, Fault
from benchmarks.oracle_score.scoring import FaultResult, HonestResult, Result

LARGER = 2.0
"""A fault is larger than bfloat16's own error from so many of its tolerances on."""
LARGEST = 1e6
"""Larger ratios are written as this one, so that a record has no infinities."""
OTHERS = ("assert_close", "RMS ratio", "allclose 1e-2")


@dataclass(frozen=True)
class Scored:
    """One fault in both precisions.

    Attributes:
        named: whether the diagnosis says what must be said; None where nothing must be.
    """

    fault: Fault
    by_dtype: dict[str, dict[str, Any]]

    @property
    def larger_than_bfloat16(self) -> bool:
        found: float = self.by_dtype["bfloat16"]["over_tolerance"]
        return found > LARGER

    def caught(self, dtype: str) -> bool:
        """Whether the oracle caught it."""
        return bool(self.by_dtype[dtype]["caught"])

    @property
    def missed(self) -> list[str]:
        """The precisions in which it should have been caught and wasn't."""
        wanted = ["float32", *(["bfloat16"] if self.larger_than_bfloat16 else [])]
        return [dtype for dtype in wanted if not self.caught(dtype)]

    @property
    def diagnosis(self) -> str:
        """What is said of it in float32."""
        return str(self.by_dtype["float32"]["diagnosis"])

    @property
    def named(self) -> bool | None:
        """Whether the diagnosis names it."""
        return any(x in self.diagnosis for x in self.fault.says) if self.fault.says else None

    def others(self, name: str) -> bool:
        """Whether another check caught it in float32."""
        return bool(self.by_dtype["float32"]["others"][name])


def record_of(results: Sequence[Result], versions: dict[str, str]) -> dict[str, Any]:
    """All results, sorted, as JSON has them."""
    faults = sorted((x for x in results if isinstance(x, FaultResult)), key=lambda x: (x.id, x.dtype))
    honest = sorted((x for x in results if isinstance(x, HonestResult)), key=lambda x: (x.id, x.dtype, x.seed))
    return {
        "versions": versions,
        "faults": [_finite(vars(x)) for x in faults],
        "honest": [_finite(vars(x)) for x in honest],
    }


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: float(f"{min(x, LARGEST) if not math.isnan(x) else LARGEST:.3g}") if isinstance(x, float) else x
        for name, x in row.items()
    }


def scored(record: dict[str, Any]) -> list[Scored]:
    """The faults of a record, in the order of the table."""
    rows: dict[str, dict[str, Any]] = {}
    for row in record["faults"]:
        rows.setdefault(row["id"], {})[row["dtype"]] = row
    return [Scored(x, rows[x.id]) for x in FAULTS if x.id in rows]


def false_alarms(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs of honest implementations that were refuted."""
    return [row for row in record["honest"] if row["verdict"] == "refuted"]


def totals(record: dict[str, Any]) -> list[str]:
    """The sums in words."""
    faults, honest = scored(record), record["honest"]
    larger, formulas = [x for x in faults if x.larger_than_bfloat16], [x for x in faults if x.fault.kind == "formula"]
    systems, implementations = {x.fault.system for x in faults}, {row["id"] for row in honest}
    vacuous = sum(row["verdict"] == "vacuous" for row in honest)
    compared = [row for row in honest if row["others"]]
    lines = [
        f"{sum(x.caught('float32') for x in faults)} of {len(faults)} planted faults in {len(systems)} systems are "
        f"caught in float32, and {sum(x.caught('bfloat16') for x in larger)} of the {len(larger)} that are larger than "
        "bfloat16's own error in bfloat16.",
        f"{len(false_alarms(record))} false alarms in {len(honest)} seeded runs of {len(implementations)} honest "
        f"implementations; in {vacuous} of them a check had no input that was sharp enough.",
        f"{sum(bool(x.named) for x in formulas)} of {len(formulas)} formula faults are named by the diagnosis.",
    ]
    for name in OTHERS:
        alarms = sum(row["others"][name] for row in compared)
        lines.append(
            f"{name}: {sum(x.others(name) for x in faults)} of {len(faults)} faults caught in float32, "
            f"{alarms} false alarms in {len(compared)} runs."
        )
    return lines


def failed(record: dict[str, Any]) -> bool:
    """Whether a fault was missed or an honest implementation refuted."""
    return any(x.missed for x in scored(record)) or bool(false_alarms(record))


def written(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def dumped(record: dict[str, Any]) -> str:
    """A record as text, a line for each result."""
    parts = [f'"versions": {json.dumps(record["versions"])}']
    for name in ("faults", "honest"):
        rows = ",\n  ".join(json.dumps(row) for row in record[name])
        parts.append(f'"{name}": [\n  {rows}\n]')
    return "{" + ",\n".join(parts) + "}\n"
