"""Whether every argument was tested: an input on which a term is below the tolerance says nothing about that term.

GPU MODE's Gated DeltaNet problems cumulate the gates twice, so that nothing is left to carry, and a kernel that drops
what it carries passes all of them. Here it is counted for which arguments an input was a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from attnproof.oracle.findings import Finding
from attnproof.oracle.gradients import NAME as GRADIENTS
from attnproof.oracle.statements import carries_a_state
from attnproof.oracle.subject import Subject
from attnproof.oracle.trials import CARRY, CLEAR

NAME = "coverage"


def coverage(subject: Subject, findings: Sequence[Finding]) -> Finding:
    """Vacuous where an argument, or what is carried from block to block, moved no output by `CLEAR` tolerances."""
    tested = frozenset(chain.from_iterable(x.tested for x in findings))
    wanted = [x.name for x in subject.convention.arguments]
    wanted += [CARRY] if carries_a_state(subject.convention) else []
    if any(x.check == GRADIENTS and x.verdict == "holds" for x in findings):
        wanted += [f"d{x.name}" for x in subject.convention.arguments]
    missing = [name for name in wanted if name not in tested]
    if any(x.verdict == "refuted" for x in findings):
        return Finding(NAME, "skipped", message="counted of kernels that are right")
    if missing:
        message = f"no input was a test of {', '.join(missing)}: without, nothing moves by {CLEAR:g} tolerances"
        return Finding(NAME, "vacuous", message=message, tested=tested)
    return Finding(NAME, "holds", message=f"tests of {', '.join(wanted)}", tested=tested)
