"""Verifying identities of the catalogue: from names to reports, and the record that is kept of them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

from attnproof.catalogue import BrokenModule, Catalogue, Entry, all_folders, load_catalogue
from attnproof.checking import Settings
from attnproof.readable import summary_of, why
from attnproof.workers import check_all
from numerics.proofs.ladder import USUAL, Report


@dataclass(frozen=True)
class Verification:
    """What a verification has found: a report for each entry, in the catalogue's order, and the broken modules."""

    entries: tuple[Entry, ...]
    reports: tuple[Report, ...]
    broken: tuple[BrokenModule, ...]
    seed: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether something was checked, every verdict is the expected one, and no module is broken."""
        return bool(self.reports) and not self.broken and all(report.ok for report in self.reports)

    def why(self, report: Report) -> str:
        """Why one of the reports isn't ok, with its counterexample: several lines, none where it is."""
        entry = next(entry for entry in self.entries if entry.id == report.id)
        return "\n".join(why(entry.statement, report))

    def __str__(self) -> str:
        reasons = [self.why(report) for report in self.reports if not report.ok]
        broken = [f"broken module: {module}" for module in self.broken]
        return "\n".join([*reasons, *broken, summary_of(self.reports, self.broken)])

    def as_json(self) -> dict[str, Any]:
        """The record of `verify --json`. Numbers that JSON doesn't have (inf, nan) are strings."""
        record = {
            "version": version("attnproof"),
            "seconds": round(self.seconds, 3),
            "ok": self.ok,
            "seed": self.seed,
            "identities": [report.as_json() for report in self.reports],
            "broken": [module.as_json() for module in self.broken],
        }
        return _in_json(record)


def verify(
    *names: str,
    rungs: Sequence[str] = USUAL,
    derivations: Iterable[str | Path] = (),
    jobs: int = 1,
    seed: int = 0,
) -> Verification:
    """Checks identities and says what was found.

    Args:
        names: derivations ("deltanet"), identities ("gated_deltanet.gamma_rewrite") or patterns of them; everything
            without names.
        rungs: the rungs to climb, all of them by default; a statement is always typed first.
        derivations: folders with more modules of derivations.
        jobs: how many processes. With more than one, a script needs `if __name__ == "__main__":` around the call,
            as always with processes that Python spawns.
        seed: where the field and floats rungs draw from.

    Raises:
        CatalogueError: a name selects nothing, or a folder isn't there.
        ValueError: there is no such rung.
    """
    folders = tuple(map(str, all_folders(derivations)))
    settings = Settings(folders, tuple(rungs), seed)
    catalogue = load_catalogue(folders)
    return run(catalogue, catalogue.select(names), settings, jobs)


def run(
    catalogue: Catalogue,
    entries: Sequence[Entry],
    settings: Settings,
    jobs: int = 1,
    done: Callable[[Report], None] = lambda report: None,
) -> Verification:
    """Checks the entries; `done` is called with each report as it comes."""
    begun = perf_counter()
    reports: dict[str, Report] = {}
    for report in check_all(entries, settings, jobs):
        reports[report.id] = report
        done(report)
    in_order = tuple(reports[entry.id] for entry in entries)
    return Verification(tuple(entries), in_order, catalogue.broken, settings.seed, perf_counter() - begun)


def write_json(verification: Verification, path: Path) -> None:
    """Writes the record; the file is either the old one or the whole new one, whatever interrupts.

    Raises:
        OSError: the file can't be written.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        text = json.dumps(verification.as_json(), indent=2, ensure_ascii=False, allow_nan=False, default=str)
        unfinished.write_text(text + "\n", encoding="utf-8")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _in_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_json(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(x) for x in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
