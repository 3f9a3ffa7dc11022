"""Checking one identity, with whatever may happen on the way turned into a report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from traceback import extract_tb
from typing import Any

from attnproof.catalogue import Entry
from gpu.namespaces import available
from numerics.algebras.floats import Floats
from numerics.proofs.ladder import RUNGS, USUAL, Options, Report, climb


@dataclass(frozen=True)
class Settings:
    """What every process of a verification is told.

    Args:
        folders: the user's folders of derivations.
        rungs: the rungs to climb; a statement is always typed first.
        seed: where the field and floats rungs draw from.
        length: n on the field rung; the usual one where None.
    """

    folders: tuple[str, ...] = ()
    rungs: tuple[str, ...] = USUAL
    seed: int = 0
    length: int | None = None

    def __post_init__(self) -> None:
        unknown = [rung for rung in self.rungs if rung not in RUNGS]
        if unknown:
            raise ValueError(f"no rung is named {' or '.join(map(repr, unknown))}; there are: {', '.join(RUNGS)}")
        if self.length is not None and self.length < 2:
            raise ValueError(f"the field rung takes two tokens or more, not {self.length}")


@dataclass(frozen=True)
class Unfinished(Report):
    """An identity whose check broke off. Without evidence its verdict is unknown; `message` says what happened."""

    message: str = ""

    def as_json(self) -> dict[str, Any]:
        return super().as_json() | {"message": self.message}


def unfinished(entry: Entry, message: str) -> Unfinished:
    """The report of a check that broke off."""
    return Unfinished(entry.id, entry.statement.expected, (), message=f"{entry.statement.place}: {message}")


def check(entry: Entry, settings: Settings) -> Report:
    """Climbs the rungs with one identity; an exception that no rung expects gives an `Unfinished`."""
    floats = float_systems() if "floats" in settings.rungs else ()
    try:
        return climb(entry.derivation, entry.statement, settings.rungs, Options(settings.seed, floats, settings.length))
    except Exception as error:
        raised = extract_tb(error.__traceback__)[-1]
        return unfinished(
            entry, f"the check raised {type(error).__name__}: {error} (at {raised.filename}:{raised.lineno})"
        )


@cache
def float_systems() -> tuple[Floats, ...]:
    """The float number systems of this machine; imports Torch where it is installed."""
    return tuple(Floats(found.xp, found.dtype, found.device) for found in available())
