"""Verifying identities of the catalogue: from names to reports, and the record that is kept of them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

from attnproof.catalogue import BrokenModule, Catalogue, Entry, all_folders, load_catalogue
from attnproof.checking import Settings
from attnproof.claims import ClaimReport, claims_summary, decidable, decide_all, why_claim
from attnproof.readable import summary_of, why
from attnproof.workers import check_all
from derivations.language.claims import Claim
from numerics.proofs.ladder import USUAL, Report

QUICK = ("typed", "exact", "every-length", "assumptions")
"""The rungs that are climbed on the spot: they take a moment, even where the full ladder takes minutes."""
DECIDING = {"typed", "exact", "assumptions"}
"""The rungs that the verdict of a claim rests on."""


@dataclass(frozen=True)
class Verification:
    """What a verification has found: a report for each entry, in the catalogue's order, the claims that these decide,
    and the broken modules.
    """

    entries: tuple[Entry, ...]
    reports: tuple[Report, ...]
    broken: tuple[BrokenModule, ...]
    seed: int
    seconds: float
    claims: tuple[ClaimReport, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether something was checked, every verdict is the expected one, and no module is broken."""
        as_expected = all(report.ok for report in self.reports) and all(claim.ok for claim in self.claims)
        return bool(self.reports) and not self.broken and as_expected

    def why(self, report: Report) -> str:
        """Why one of the reports isn't ok, with its counterexample: several lines, none where it is."""
        entry = next(entry for entry in self.entries if entry.id == report.id)
        return "\n".join(why(entry.statement, report))

    def __str__(self) -> str:
        reasons = [self.why(report) for report in self.reports if not report.ok]
        reasons += [line for claim in self.claims for line in why_claim(claim)]
        broken = [f"broken module: {module}" for module in self.broken]
        claims = [claims_summary(self.claims)] if self.claims else []
        return "\n".join([*reasons, *broken, summary_of(self.reports, self.broken), *claims])

    def as_json(self) -> dict[str, Any]:
        """The record of `verify --json`."""
        return {
            "version": version("attnproof"),
            "seconds": round(self.seconds, 3),
            "ok": self.ok,
            "seed": self.seed,
            "identities": [report.as_json() for report in self.reports],
            "claims": [claim.as_json() for claim in self.claims],
            "broken": [module.as_json() for module in self.broken],
        }


def verify(
    *names: str,
    rungs: Sequence[str] = USUAL,
    derivations: Iterable[str | Path] = (),
    jobs: int = 1,
    seed: int = 0,
    length: int | None = None,
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
        length: how many tokens the field rung takes, 521 where None.

    Raises:
        CatalogueError: a name selects nothing, or a folder isn't there.
        ValueError: there is no such rung.
    """
    folders = tuple(map(str, all_folders(derivations)))
    settings = Settings(folders, tuple(rungs), seed, length)
    catalogue = load_catalogue(folders)
    return run(catalogue, catalogue.select(names), settings, jobs)


def run(
    catalogue: Catalogue,
    entries: Sequence[Entry],
    settings: Settings,
    jobs: int = 1,
    done: Callable[[Report], None] = lambda report: None,
    claims: Sequence[Claim] | None = None,
) -> Verification:
    """Checks the entries; `done` is called with each report as it comes. Then the given claims get their verdicts.

    Where none are given these are all claims if everything is checked, else those that the entries decide; and none
    where a rung that a claim's verdict rests on wasn't climbed.
    """
    begun = perf_counter()
    reports: dict[str, Report] = {}
    for report in check_all(entries, settings, jobs):
        reports[report.id] = report
        done(report)
    in_order = tuple(reports[entry.id] for entry in entries)
    if claims is None and not {"typed", *settings.rungs} >= DECIDING:
        claims = ()
    elif claims is None:
        everything = len(entries) == len(catalogue.entries())
        claims = catalogue.claims() if everything else decidable(catalogue.claims(), in_order)
    decided = decide_all(claims, in_order)
    seconds = perf_counter() - begun
    return Verification(tuple(entries), in_order, catalogue.broken, settings.seed, seconds, decided)


def write_json(record: Mapping[str, Any], path: Path) -> None:
    """Writes a record; the file is either the old one or the whole new one, whatever interrupts.

    Raises:
        OSError: the file can't be written.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        text = json.dumps(_in_json(record), indent=2, ensure_ascii=False, allow_nan=False, default=str)
        unfinished.write_text(text + "\n", encoding="utf-8")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _in_json(value: Any) -> Any:
    """Numbers that JSON doesn't have (inf, nan) are strings."""
    if isinstance(value, dict):
        return {key: _in_json(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(x) for x in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
