"""The ladder: which rungs an identity climbs, and its verdict from what each of them found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from traceback import extract_tb
from typing import Any, cast

from derivations.language.facts import Fact
from derivations.language.places import Place
from derivations.language.statements import Backward, Derivation, Identity, compared_in
from numerics.algebras.floats import Floats
from numerics.evidence import Counterexample, Evidence, Rung, Verdict, combined
from numerics.proofs import assumptions, backward, counterexample, every_length, exact, facts, floats, mutants, typed
from numerics.proofs import field as field_rung

RUNGS = ("typed", "exact", "field", "every-length", "floats", "assumptions", "mutants")
USUAL = RUNGS[:-1]
"""What is climbed unless asked otherwise: planted errors test the checker more than the formula, and take time."""


@dataclass(frozen=True)
class Options:
    """What a climb needs beyond the identity: the seed, the float number systems of this machine (NumPy float64 where
    empty), and the length on the field rung, where it isn't the usual one.
    """

    seed: int = 0
    floats: Sequence[Floats] = field(default=())
    length: int | None = None


COMPARING = {"exact", "field", "floats"}
"""The rungs that compare the two sides; the others alone can't say that an identity holds."""

CLIMB: dict[str, Callable[[Derivation, Identity, Options], Evidence]] = {
    "typed": lambda derivation, identity, options: typed.check(identity),
    "exact": lambda derivation, identity, options: exact.check(identity),
    "field": lambda derivation, identity, options: field_rung.check(identity, options.seed, length=options.length),
    "every-length": lambda derivation, identity, options: every_length.check(derivation, identity),
    "floats": lambda derivation, identity, options: floats.check(identity, options.seed, options.floats),
    "assumptions": lambda derivation, identity, options: assumptions.check(identity),
    "mutants": lambda derivation, identity, options: mutants.check(identity),
}


@dataclass(frozen=True)
class Report:
    """The evidence for one identity, and what follows from it."""

    id: str
    expected: str
    evidence: tuple[Evidence, ...]
    counterexample: Counterexample | None = None

    @property
    def verdict(self) -> Verdict:
        return combined(list(self.evidence))

    @property
    def ok(self) -> bool:
        """Whether the verdict is the expected one. A refutation without a counterexample doesn't count."""
        found = self.verdict == self.expected
        return found and (self.expected != "refuted" or self.counterexample is not None)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions that were shown to be needed."""
        needed = (e.details.get("needed", ()) for e in self.evidence if e.rung == "assumptions")
        return tuple(shown["assumption"] for all_shown in needed for shown in all_shown)

    @property
    def seconds(self) -> float:
        return sum(e.seconds for e in self.evidence)

    def as_json(self) -> dict[str, Any]:
        """The record of `verify --json`."""
        return {
            "id": self.id,
            "expected": self.expected,
            "verdict": self.verdict,
            "ok": self.ok,
            "evidence": [e.as_json() for e in self.evidence],
            "counterexample": self.counterexample.as_json() if self.counterexample else None,
        }


@dataclass(frozen=True)
class FactReport(Report):
    """The evidence for one fact; what shows its refutation is in the evidence."""

    @property
    def ok(self) -> bool:
        return self.verdict == self.expected

    def as_json(self) -> dict[str, Any]:
        return super().as_json() | {"kind": "fact"}


@dataclass(frozen=True)
class BackwardReport(Report):
    """The evidence for one backward pass."""

    def as_json(self) -> dict[str, Any]:
        return super().as_json() | {"kind": "backward"}


def _rungs_of(
    derivation: Derivation, statement: Identity | Backward, options: Options
) -> Mapping[str, Callable[[], Evidence]]:
    """The rungs that a statement has, by name."""
    if isinstance(statement, Backward):
        return {rung: partial(check, statement, options.seed, options.length) for rung, check in backward.RUNGS.items()}
    return {rung: partial(check, derivation, statement, options) for rung, check in CLIMB.items()}


def _or_unknown(rung: str, place: Place, check: Callable[[], Evidence]) -> Evidence:
    """The evidence of a rung. One that breaks is unknown, and what the others found is kept."""
    begun = perf_counter()
    try:
        return check()
    except Exception as error:
        raised = extract_tb(error.__traceback__)[-1]
        what = f"the check raised {type(error).__name__}: {error} (at {raised.filename}:{raised.lineno})"
        return Evidence(cast(Rung, rung), "unknown", (), perf_counter() - begun, f"{place}: {what}")


def _without_contradiction(evidence: list[Evidence]) -> list[Evidence]:
    """The evidence, with a word where a formula was proved for every length and refuted at one."""
    refuting = [e.rung for e in evidence if e.verdict == "refuted" and e.rung != "assumptions"]
    message = f"proved for every length, and refuted on the rung {' and '.join(refuting)}: one of them is wrong"
    return [
        replace(e, message=message) if refuting and e.rung == "every-length" and e.verdict == "holds" else e
        for e in evidence
    ]


def climb(
    derivation: Derivation,
    statement: Identity | Fact | Backward,
    rungs: Sequence[str] = USUAL,
    options: Options | None = None,
) -> Report:
    """Climbs the rungs in order: the typed one always, and the exact one where no other that was asked for compares the
    sides. A statement that isn't typed goes no further; a refuted one gets its smallest counterexample. A fact has one
    rung, its check; a backward pass has those of `numerics.proofs.backward`.
    """
    id_ = f"{derivation.name}.{statement.name}"
    if isinstance(statement, Fact):
        evidence_for_it = _or_unknown("exact", statement.place, lambda: facts.check(statement))
        return FactReport(id_, statement.expected, (evidence_for_it,))
    climbs = _rungs_of(derivation, statement, options or Options())
    evidence: list[Evidence] = []
    asked = {"typed", *rungs} if COMPARING & climbs.keys() & set(rungs) else {"typed", "exact", *rungs}
    for rung in (rung for rung in RUNGS if rung in asked & climbs.keys()):
        evidence.append(_or_unknown(rung, statement.place, climbs[rung]))
        if rung == "typed" and evidence[-1].verdict != "holds":
            break
    evidence = _without_contradiction(evidence)
    refuted = any(e.verdict == "refuted" for e in evidence if e.rung != "assumptions")
    found = counterexample.smallest(compared_in(statement)) if refuted else None
    kind = BackwardReport if isinstance(statement, Backward) else Report
    return kind(id_, statement.expected, tuple(evidence), found)
