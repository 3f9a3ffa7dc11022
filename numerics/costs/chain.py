"""The longest dependency chain: how many operations have to wait for one another, however many run side by side.

An operation on whole matrices is one step, a product and a sum included. Substitution in a triangular system of size n
takes n steps, elimination 3 n, a running product of n gates n - 1. Views and selections by a mask take none. A sequence
that is computed row by row is ready row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

from numerics.algebras.trace import Operation

Steps = tuple[int, ...]
"""After how many steps each row is there; one number where all rows are there at once."""


def longest_chain(operations: Sequence[Operation], ends: Sequence[int]) -> int:
    """The steps on the longest chain that leads to one of the results.

    Args:
        operations: the trace of a walk.
        ends: which operations made the output and the final states.
    """
    ready: list[Steps] = []
    for done in operations:
        operands = [ready[x] if x >= 0 else (0,) for x in done.operands]
        match done.kind:
            case "rows":
                ready.append(_taken(operands[0], done))
            case "assembled":
                ready.append(_assembled(operands, done, operations))
            case _:
                ready.append((done.steps + max(map(max, operands), default=0),))
    return max((max(ready[end]) for end in ends if end >= 0), default=0)


def _taken(rows: Steps, done: Operation) -> Steps:
    if len(rows) == 1:
        return rows
    if isinstance(done.taken, int):
        return (rows[done.taken],)
    chosen = rows[done.taken.start : done.taken.stop]
    return chosen if len(chosen) == done.rows else (max(chosen),)  # of a range of tokens each is a column


def _assembled(parts: list[Steps], done: Operation, operations: Sequence[Operation]) -> Steps:
    """The rows of all parts; each is a column that becomes a row where there are as many parts as rows."""
    if len(parts) == done.rows:
        return tuple(map(max, parts))
    if min(done.operands) < 0:
        return (max(map(max, parts)),)  # a part that is known beforehand isn't in the trace
    sizes = [operations[x].rows for x in done.operands]
    return tuple(step for part, size in zip(parts, sizes, strict=True) for step in (part * size)[:size])
