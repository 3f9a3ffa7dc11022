"""Evidence as it was written by `attnproof verify --json`, read back into the reports that it was written from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnproof.catalogue import Catalogue
from attnproof.checking import Unfinished
from numerics.evidence import Counterexample, Evidence
from numerics.proofs.ladder import BackwardReport, FactReport, Report

OF_EVIDENCE = ("rung", "verdict", "sizes", "seconds", "message")
"""The fields that every record of a rung has; the others are the rung's own."""


class RecordError(Exception):
    """A file that is no record of `verify --json`; the message says what to do."""


@dataclass(frozen=True)
class Record:
    """What a verification found: its reports by id, and how it was made."""

    reports: Mapping[str, Report]
    version: str
    seed: int
    seconds: float

    def missing(self, catalogue: Catalogue) -> list[str]:
        """The ids of statements that it says nothing about."""
        return [entry.id for entry in catalogue.entries() if entry.id not in self.reports]


def read(path: Path) -> Record:
    """The record in a file.

    Raises:
        RecordError: it can't be read, or isn't such a record.
    """
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise RecordError(f"can't read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(
            f"{path} isn't a record of this version's `attnproof verify --json` ({type(error).__name__}: {error}). "
            f"Write a new one: attnproof verify --json {path}"
        ) from error


def from_json(record: Mapping[str, Any]) -> Record:
    """The record of `verify --json`. Verdicts are computed from its evidence again, not copied."""
    reports = {written["id"]: _report(written) for written in record["identities"]}
    return Record(reports, str(record["version"]), int(record["seed"]), float(record["seconds"]))


def _report(written: Mapping[str, Any]) -> Report:
    evidence = tuple(_evidence(rung) for rung in written["evidence"])
    found = written["counterexample"]
    counterexample = Counterexample(**(found | {"entry": tuple(found["entry"])})) if found else None
    common = (written["id"], written["expected"], evidence, counterexample)
    if "message" in written:
        return Unfinished(*common, message=written["message"])
    return {"fact": FactReport, "backward": BackwardReport}.get(written.get("kind", ""), Report)(*common)


def _evidence(written: Mapping[str, Any]) -> Evidence:
    details = {name: value for name, value in written.items() if name not in OF_EVIDENCE}
    return Evidence(
        written["rung"],
        written["verdict"],
        tuple(written["sizes"]),
        written["seconds"],
        written.get("message", ""),
        details,
    )
