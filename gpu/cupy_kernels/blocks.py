"""Lower triangular matrices by halves: [[A, 0], [C, B]], and (I + N)^-1 from such blocks by matrix products.

    (I + N)^-1 = [[A, 0], [-B C A, B]],  A and B the inverses of the blocks on the diagonal, C the block of N below

Substitution by rows has as many steps as rows; here there are log2 of that, each for all chunks and heads at once.
"""

from __future__ import annotations

from typing import Any, Literal

from array_api_compat import array_namespace, device

Array = Any
Mask = Literal["inclusive", "strict"]


def at_or_below(size: int, like: Array, mask: Mask = "inclusive") -> Array:
    """The (size, size) booleans i >= j, or i > j where strict, on the device of an array."""
    xp = array_namespace(like)
    positions = xp.arange(size, device=device(like))
    columns, rows = positions[None, :], positions[:, None]
    return rows >= columns if mask == "inclusive" else rows > columns


def masked(mask: Array, x: Array, otherwise: float) -> Array:
    """x where the mask (C, C) says so, else a number; a row or a column (..., C, 1) is spread over the mask."""
    xp = array_namespace(x)
    return xp.where(mask, x, xp.full_like(x[..., :1, :1], otherwise))


def from_blocks(upper: Array, lower: Array, corner: Array) -> Array:
    """[[upper, 0], [corner, lower]] of square blocks of one size (..., s, s)."""
    xp = array_namespace(upper)
    top = xp.concat([upper, xp.zeros_like(upper)], axis=-1)
    return xp.concat([top, xp.concat([corner, lower], axis=-1)], axis=-2)


def unit_lower_inverse(strict: Array) -> Array:
    """(I + N)^-1 of strictly lower triangular matrices N (..., C, C), C a power of two."""
    xp, size = array_namespace(strict), strict.shape[-1]
    if size == 1:
        return xp.ones_like(strict)
    half = size // 2
    on_diagonal = xp.stack([strict[..., :half, :half], strict[..., half:, half:]])
    inverses = unit_lower_inverse(on_diagonal)
    upper, lower = inverses[0, ...], inverses[1, ...]
    return from_blocks(upper, lower, -(lower @ strict[..., half:, :half] @ upper))
