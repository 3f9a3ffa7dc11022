"""What a walk has done, operation by operation: what each one read, how much work it was, and how much it made.

The analyses in `numerics/costs/` read it: what is alive at once, what waits for what, what one row alone needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from numerics.algebras.contract import Positions


class Work(NamedTuple):
    """How many scalar operations."""

    multiplications: int = 0
    additions: int = 0
    exponentials: int = 0
    divisions: int = 0

    def split(self, parts: int) -> Work:
        """What each of so many equal parts takes."""
        return Work(*(number // parts for number in self))


NO_WORK = Work()

Kind = Literal["given", "view", "rows", "assembled", "computed"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on whole matrices. Others name it by its place in the trace.

    Args:
        kind: "computed", or where no number is made: "given" for an input, "view" for a transpose or a selection by a
            mask, "rows" for some rows of the operand, "assembled" for operands put below one another.
        rows: how many rows come out.
        operands: the operations whose results it reads; what is known beforehand, such as a mask, isn't listed.
        size: how many numbers it makes, or is given.
        work: how many scalar operations it takes.
        steps: how many of them wait for one another, where a sum counts as one step.
        matrix: whether it is a product of two matrices, none of them a row or a column.
        last_row: the work for its last row alone; None where that takes all of it.
        by_row: the operands of which the last row needs the last row alone.
        taken: of "rows", which ones.
    """

    kind: Kind
    rows: int
    operands: tuple[int, ...] = ()
    size: int = 0
    work: Work = NO_WORK
    steps: int = 0
    matrix: bool = False
    last_row: Work | None = None
    by_row: tuple[int, ...] = ()
    taken: Positions = 0
