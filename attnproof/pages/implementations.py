"""Implementations of the systems, as `gpu.registry` has them, and what was measured of them on which device.

A record is a file that `python -m attnproof.device_evidence` has written. Where there is none, a page says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnproof.device_evidence import sources

if TYPE_CHECKING:
    from gpu.registry import Implementation


@dataclass(frozen=True)
class Measurement:
    """One implementation in one precision on one device: the largest error of each case, in tolerances.

    `errors` are pairs (tokens, error over tolerance), by length; `failure` is what an exception said; `outdated` is
    whether the implementations have changed since.
    """

    device: str
    dtype: str
    errors: tuple[tuple[int, float], ...]
    seconds: float | None
    passes: bool
    failure: str
    outdated: bool

    @property
    def largest(self) -> float:
        """The largest error in units of its tolerance."""
        return max((error for _, error in self.errors), default=0.0)


@dataclass(frozen=True)
class Fast:
    """One implementation and its measurements."""

    declared: Implementation
    measured: tuple[Measurement, ...]


def all_fast(records: Path) -> list[Fast]:
    """Every registered implementation with what the records in a folder say of it.

    Args:
        records: the folder of the device records; it needn't be there.
    """
    if find_spec("gpu.registry") is None:
        return []
    from gpu.registry import implementations

    measured = _measurements(sorted(records.glob("*.json")))
    return [Fast(declared, tuple(measured.get(declared.name, ()))) for declared in implementations()]


def _measurements(files: Iterable[Path]) -> Mapping[str, list[Measurement]]:
    found: dict[str, list[Measurement]] = {}
    for file in files:
        record = json.loads(file.read_text(encoding="utf-8"))
        outdated = record["sources"] != sources()
        for written in record["implementations"]:
            measurement = _measurement(record["device"], outdated, written)
            found.setdefault(written["implementation"], []).append(measurement)
    return found


def _measurement(device: str, outdated: bool, written: Mapping[str, Any]) -> Measurement:
    """JSON has no infinity: float reads the word that was written in its place."""
    largest = [max((float(error) for error in case.values()), default=0.0) for case in written["errors"]]
    pairs = tuple(sorted(zip(written["tokens"], largest, strict=False)))
    failure = written.get("failure") or ""
    return Measurement(device, written["dtype"], pairs, written["seconds"], bool(written["passes"]), failure, outdated)


def lines(fast: Iterable[Fast]) -> dict[str, tuple[tuple[int, float], ...]]:
    """The errors by length of everything that was measured, by implementation, precision and device."""
    return {f"{one.declared.name}, {m.dtype}, {m.device}": m.errors for one in fast for m in one.measured}
