"""The family of systems: a graph whose edges are verified reductions, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnproof.catalogue import Catalogue
from numerics.proofs.ladder import Report


@dataclass(frozen=True)
class Edge:
    """One system is a special case of another under a condition; the report says whether that was verified."""

    general: str
    special: str
    condition: str
    report: Report

    def as_json(self) -> dict[str, str | bool]:
        """The record of `family --json`."""
        return {
            "general": self.general,
            "special": self.special,
            "condition": self.condition,
            "identity": self.report.id,
            "verdict": self.report.verdict,
            "ok": self.report.ok,
        }


def graph(catalogue: Catalogue, reports: Sequence[Report]) -> list[Edge]:
    """The reductions that have a report, general systems together."""
    by_id = {report.id: report for report in reports}
    edges = [
        Edge(reduction.general, reduction.special, reduction.condition, by_id[entry.id])
        for entry, reduction in catalogue.reductions()
        if entry.id in by_id
    ]
    return sorted(edges, key=lambda edge: (edge.general, edge.special))


def systems(catalogue: Catalogue, edges: Sequence[Edge]) -> list[dict[str, str]]:
    """The systems that the edges join, with their titles."""
    names = sorted({name for edge in edges for name in (edge.general, edge.special)})
    known = catalogue.derivations  # a reduction of something else makes a broken module, and is shown all the same
    return [{"name": name, "title": known[name].title if name in known else name} for name in names]
