"""The record of an audit: what was run, with what, and what was found. `docs/audit.md` is made of it."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attnproof.audit.subjects import installed_version
from attnproof.audit.workers import Settings

RUN_WITH = ("torch", "numpy", "triton")
DIGITS = 3
"""Of numbers: more than three say nothing, and would change with every processor."""


def record(found: Iterable[Mapping[str, Any]], settings: Settings) -> dict[str, Any]:
    """The record of these subjects, by name."""
    return {
        "attnproof": version("attnproof"),
        "python": platform.python_version(),
        "versions": {name: installed_version(name) or "none" for name in RUN_WITH},
        "effort": settings.effort,
        "backward": settings.backward,
        "seed": settings.seed,
        "subjects": sorted((_rounded(x) for x in found), key=lambda x: str(x["name"])),
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(x) for key, x in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(x) for x in value]
    if isinstance(value, float) and math.isfinite(value) and value:
        return round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))
    return value


def as_expected(recorded: Mapping[str, Any]) -> bool:
    """Whether every subject was run, and what was found is what is expected of it."""
    return all(x["expected"] for x in recorded["subjects"])


def read(file: Path) -> dict[str, Any] | None:
    """A record that was written; None where there is none."""
    if not file.exists():
        return None
    recorded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return recorded
