"""Histories: how a sequence is cut into segments.

A *silent* token writes nothing: its sequences are zero and its gates one, but for those that ask. What such a token
reads shows what the past has left.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Basic

from numerics.free_ring.blocks import Sizes
from numerics.free_ring.letters import ONE_SIZE, PAST


@dataclass(frozen=True)
class History:
    """A sequence cut into segments, with a value for each input of an identity.

    Attributes:
        segments: PAST for all tokens so far, "1" for a single token.
        asks: the sequences that a silent token has; None where no token is silent. The last token is the silent one.
    """

    segments: Sizes
    asks: frozenset[Basic] | None = None

    @property
    def has_past(self) -> bool:
        return PAST in self.segments

    def tokens(self) -> range:
        """The positions of single tokens."""
        return range(int(self.has_past), len(self.segments))


EMPTY, FIRST, TWO_TOKENS = (History((ONE_SIZE,) * count) for count in range(3))
PAST_ONLY, GROWN = History((PAST,)), History((PAST, ONE_SIZE))
