"""One more token without a state: the work for the last row of the output alone, from the inputs of all tokens.

Backwards through the trace each value is asked for its last row, or for all of it. A row of A B needs one row of A and
all of B; an entrywise operation needs a row of each; a transpose, a running product, or a triangular system needs all.
Nothing but inputs is kept from token to token: what was computed for earlier tokens and is read again counts again.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from numerics.algebras.trace import NO_WORK, Operation, Work


class Asked(IntEnum):
    """How much of a value is asked for."""

    NOTHING = 0
    LAST_ROW = 1
    ALL = 2


class LastRow(NamedTuple):
    """The work for the last row, and the inputs that are read further back than their last row."""

    work: Work
    kept: tuple[int, ...]


def last_row(operations: Sequence[Operation], output: int) -> LastRow:
    """What the last row of the output takes.

    Args:
        operations: the trace of a walk.
        output: which operation made the output.
    """
    asked = [Asked.NOTHING] * len(operations)
    if output >= 0:
        asked[output] = Asked.LAST_ROW
    works: list[Work] = []
    for place in reversed(range(len(operations))):
        done = operations[place]
        if asked[place] == Asked.NOTHING:
            continue
        alone = asked[place] == Asked.LAST_ROW and done.rows > 1
        works.append(done.last_row if alone and done.last_row is not None else done.work)
        for number, operand in enumerate(done.operands):
            if operand >= 0:
                asked[operand] = max(asked[operand], _of_operand(done, number, alone, operations))
    given = (k for k, done in enumerate(operations) if done.kind == "given")
    kept = tuple(k for k in given if asked[k] == Asked.ALL)
    return LastRow(Work(*map(sum, zip(*works, strict=True))) if works else NO_WORK, kept)


def _of_operand(done: Operation, number: int, alone: bool, operations: Sequence[Operation]) -> Asked:
    """How much of one operand is asked for, where the result is asked for all or for its last row `alone`."""
    if done.kind == "rows":
        return _of_sequence(done, operations[done.operands[0]].rows, alone)
    if not alone:
        return Asked.ALL
    if done.kind == "assembled":
        if number < len(done.operands) - 1:
            return Asked.NOTHING
        return Asked.ALL if len(done.operands) == done.rows else Asked.LAST_ROW  # a column is a row
    return Asked.LAST_ROW if number in done.by_row else Asked.ALL


def _of_sequence(done: Operation, rows: int, alone: bool) -> Asked:
    """A token or a block reads the last row alone if there is nothing else in it, or nothing else is asked for."""
    first, end = (done.taken, done.taken + 1) if isinstance(done.taken, int) else (done.taken.start, done.taken.stop)
    tokens = 1 if alone and done.rows == end - first else end - first
    return Asked.LAST_ROW if end == rows and tokens == 1 else Asked.ALL
