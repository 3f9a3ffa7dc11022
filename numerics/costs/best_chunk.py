"""The size of a block at which a chunkwise form takes the least time, by a model that knows operations alone.

The time is M / ratio + W: M are the operations in products of matrices, W all others, and the ratio says how many times
faster a machine does the former. Reading and writing memory, the start of a kernel and idle units are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sympy import Expr, Poly, S, diff, numer, real_roots, together

from numerics.evaluate import CHUNK

SMALLEST = 2
"""A block of one token has no products of matrices."""


@dataclass(frozen=True)
class BestChunk:
    """Where the time is least: among all real sizes and among the powers of two, and the times there."""

    exact: Expr
    time: Expr
    power_of_two: int
    time_there: Expr

    def as_json(self) -> dict[str, Any]:
        """The record of `cost --json`: exact values in SymPy's syntax."""
        return {
            "C": str(self.exact),
            "time": str(self.time),
            "power_of_two": self.power_of_two,
            "time_there": str(self.time_there),
        }


def best_chunk(time: Expr, length: int) -> BestChunk:
    """The best size of a block, between 2 and the length.

    Args:
        time: a function of C alone, a polynomial in C and 1 / C with rational coefficients.
        length: how many tokens the sequence has.
    """
    slope = Poly(numer(together(diff(time, CHUNK))), CHUNK)
    roots = real_roots(slope) if slope.degree() > 0 else []
    inside = [root for root in roots if SMALLEST < root < length]
    exact = min([S(SMALLEST), S(length), *inside], key=lambda size: time.subs(CHUNK, size))
    powers = [2**k for k in range(1, length.bit_length()) if 2**k <= length] or [SMALLEST]
    best = min(powers, key=lambda size: time.subs(CHUNK, size))
    return BestChunk(exact, time.subs(CHUNK, exact), best, time.subs(CHUNK, best))
