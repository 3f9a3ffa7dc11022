"""Where the error of a wrong kernel begins, if nothing is known that it computes instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnproof.implementation_cases import Case
from attnproof.oracle.conventions import OUTPUT
from attnproof.oracle.findings import Finding
from attnproof.oracle.subject import Misbehaved, Subject
from attnproof.oracle.trials import Gap, Trial

FORWARD = ("lengths", "no initial state", "shapes", "structured keys", "gate sweep", "limits", "scale", "drawn inputs")


def localised(subject: Subject, whole: Case, findings: Sequence[Finding]) -> str:
    """In a sentence: only in gradients, only with an initial state, only in one head, from which token on."""
    wrong = [x.check for x in findings if x.verdict == "refuted"]
    if not set(wrong) & set(FORWARD):
        right = [x.check for x in findings if x.verdict == "holds"]
        return f"wrong only in: {', '.join(wrong)}" + (f" (right: {', '.join(right)})" if right else "")
    parts = [*_by_length(subject, whole), *_by_state(subject, whole)]
    return "; ".join(parts)


def _by_length(subject: Subject, whole: Case) -> list[str]:
    """Whether one block is right, and at which token more than one begin to be wrong."""
    size = whole.chunk_size
    inside, beyond = (_wrong(subject, replace(whole, tokens=n)) for n in (size, 2 * size + 3))
    if inside is None or beyond is None:
        return []
    if not beyond:
        return [f"{2 * size + 3} tokens are right with usual inputs"]
    if not inside:
        return [f"right within one block of {size}; with {2 * size + 3} tokens {_first(beyond, size)}"]
    return [_first(beyond, size)]


def _first(gaps: list[Gap], size: int) -> str:
    output = [gap.first_token for gap in gaps if gap.name == OUTPUT]
    if not output or output[0] is None:
        return f"the output is right, and the final {' and '.join(gap.name for gap in gaps)} wrong"
    within = f", the {output[0] % size}th of its block" if output[0] % size else ", where a block begins"
    return f"the first wrong token is {output[0]}{within if output[0] >= size else ''}"


def _by_state(subject: Subject, whole: Case) -> list[str]:
    state = subject.convention.state
    if state is None or not state.optional:
        return []
    without, given = (_wrong(subject, replace(whole, with_state=x)) for x in (False, True))
    if without is None or given is None or bool(without) == bool(given):
        return []
    return ["wrong only with an initial state" if given else "wrong only without an initial state"]


def _wrong(subject: Subject, case: Case) -> list[Gap] | None:
    """What is off; None where the call doesn't return what it should."""
    try:
        trial = Trial(subject, case)
        return [gap for gap in trial.gaps(subject.call(trial.arguments)) if gap.ratio > 1]
    except Misbehaved:
        return None
