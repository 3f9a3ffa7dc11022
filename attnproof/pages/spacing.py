"""Moving places apart on a line: labels at the ends of curves, boxes in a column."""

from __future__ import annotations

from collections.abc import Sequence


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Sorted places, each moved up until it is at least a gap above the one before."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + gap) if found else place)
    return found
