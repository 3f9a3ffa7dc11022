"""Places: the file and line where something is stated, for messages."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

LANGUAGE = Path(__file__).parent


@dataclass(frozen=True)
class Place:
    """A line of a module."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def caller() -> Place:
    """The nearest line outside the language package: where a statement is written."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        Path(frame.f_code.co_filename).parent == LANGUAGE or frame.f_code.co_filename.startswith("<")
    ):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
