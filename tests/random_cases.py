"""Random cases for implementations: sizes, families of keys, strengths of gates."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from attnproof.implementation_cases import FAMILIES, Case


@st.composite
def cases(
    draw: st.DrawFn,
    longest: Callable[[str], int],
    widest: tuple[int, int],
    batches: int = 1,
    chunk_sizes: tuple[int, ...] = (16,),
) -> Case:
    """Any case; lengths are drawn evenly in their logarithm.

    Args:
        longest: the greatest number of tokens of a family.
        widest: the greatest widths of keys and of values.
        batches: the greatest batch.
        chunk_sizes: what chunk sizes are drawn from.
    """
    family = draw(st.sampled_from(FAMILIES))
    return Case(
        int(longest(family) ** draw(st.floats(0, 1))),
        family,
        strongest=draw(st.sampled_from([0.0, 0.01, 1.0, 20.0])),
        with_state=draw(st.booleans()),
        seed=draw(st.integers(0, 2**16)),
        batch=draw(st.integers(1, batches)),
        heads=draw(st.integers(1, 2)),
        groups=draw(st.integers(1, 2)),
        key_width=draw(st.integers(1, widest[0])),
        value_width=draw(st.integers(1, widest[1])),
        chunk_size=draw(st.sampled_from(chunk_sizes)),
    )
