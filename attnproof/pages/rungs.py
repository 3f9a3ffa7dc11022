"""What a page says of each rung that a statement has climbed: how far it reaches, and what was run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnproof.pages.wording import words
from attnproof.readable import cell
from numerics.evidence import Evidence
from numerics.proofs.ladder import Report

SHOWN_STEPS = 40
"""Proofs have at most so many lines on a page; `attnproof show NAME --proof` prints them whole."""


@dataclass(frozen=True)
class Climbed:
    """One rung: its verdict, its reach in a few characters, a sentence, and the steps of a proof."""

    rung: str
    verdict: str
    reach: str
    sentence: str
    proof: tuple[tuple[str, str], ...] = ()


def climbed(report: Report) -> tuple[Climbed, ...]:
    """Every rung of a report but those that say nothing: assumptions where there are none."""
    return tuple(_climbed(e) for e in report.evidence if e.rung != "assumptions" or e.details.get("needed"))


def _climbed(found: Evidence) -> Climbed:
    reach = cell(found)
    proof = tuple((what, value) for what, value in found.details.get("proof", ()))[:SHOWN_STEPS]
    return Climbed(found.rung, found.verdict, "" if reach == found.verdict else reach, _sentence(found), proof)


def _sentence(found: Evidence) -> str:
    texts, rule = words()["rung"], SENTENCES.get(found.rung)
    told = rule(found, texts) if rule and found.verdict == "holds" else ""
    return told or found.message


def _exact(found: Evidence, texts: dict[str, str]) -> str:
    if "shown" in found.details:
        return texts["fact"].format(method=found.details.get("method", ""), shown=found.details["shown"])
    return texts["exact"].format(sizes=", ".join(map(_size, found.sizes)))


def _size(size: dict[str, int]) -> str:
    return f"({size['n']}, {size['d_k']}, {size['d_v']})"


def _field(found: Evidence, texts: dict[str, str]) -> str:
    size = found.sizes[0] if found.sizes else {}
    known = {"n": "?", "d_k": "?", "d_v": "?"} | size | found.details
    text = texts["field"].format(**{name: known.get(name, "?") for name in FIELD_NAMES})
    assumed = found.details.get("bound_assumes")
    return f"{text} {texts['field_assumes'].format(what=assumed)}" if assumed else text


FIELD_NAMES = ("prime", "n", "d_k", "d_v", "degree", "trials", "seed", "error_bound_log2")


def _every_length(found: Evidence, texts: dict[str, str]) -> str:
    names: list[str] = found.details.get("for_every", [])
    return texts["every-length"].format(names=", ".join(names), hypothesis=found.details.get("hypothesis", ""))


def _floats(found: Evidence, texts: dict[str, str]) -> str:
    errors: dict[str, Any] = found.details.get("error_over_tolerance", {})
    listed = ", ".join(f"{system} {float(error):.2f}" for system, error in errors.items())
    return texts["floats"].format(errors=listed, inputs=found.details.get("inputs", "?"))


def _mutants(found: Evidence, texts: dict[str, str]) -> str:
    return texts["mutants"].format(refuted=found.details["refuted"], mutants=found.details["mutants"])


SENTENCES: dict[str, Callable[[Evidence, dict[str, str]], str]] = {
    "typed": lambda found, texts: texts["typed"],
    "exact": _exact,
    "field": _field,
    "every-length": _every_length,
    "floats": _floats,
    "assumptions": lambda found, texts: texts["assumptions"].format(needed=len(found.details["needed"])),
    "mutants": _mutants,
}
