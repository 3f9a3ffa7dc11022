"""Memory: how many numbers are alive after each operation of a walk.

A number is alive from the operation that computes it until the last one that reads it, or to the end if it belongs to
a final state. Inputs and numbers known beforehand (masks, constants) don't count, and the output doesn't either: they
are the same for every form. A result never takes the place of an operand, and what is put together from parts, cut out
or transposed is no copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from numerics.algebras.trace import Operation


def live_numbers(operations: Sequence[Operation], output: int, states: Sequence[int]) -> list[int]:
    """How many numbers are alive after each operation.

    Args:
        operations: the trace of a walk.
        output, states: which operations made the output and the final states.
    """
    held = _held(operations)
    last = list(range(len(operations)))
    for place, done in enumerate(operations):
        if done.kind == "computed":
            for operand in done.operands:
                for part in held[operand] if operand >= 0 else ():
                    last[part] = place
    for state in states:
        for part in held[state] if state >= 0 else ():
            last[part] = len(operations) - 1
    handed_out = held[output] if output >= 0 else frozenset()
    change = [0] * (len(operations) + 1)
    for place, done in enumerate(operations):
        if done.kind == "computed" and place not in handed_out:
            change[place] += done.size
            change[last[place] + 1] -= done.size
    return list(accumulate(change[:-1]))


def _held(operations: Sequence[Operation]) -> list[frozenset[int]]:
    """For each operation those that have computed the numbers of its result."""
    held: list[frozenset[int]] = []
    for place, done in enumerate(operations):
        parts = (held[x] for x in done.operands if x >= 0)
        held.append(frozenset({place}) if done.kind == "computed" else frozenset().union(*parts))
    return held
