r"""How the past fades inside a chunk: products of gates exp(g) between two tokens, none of them above one.

    inclusive  gamma_{j+1} ... gamma_i      for i >= j   what token i reads of the write of token j after its own gate
    strict     the same                     for i > j    what it predicts from the state that has faded
    before     gamma_{j+1} ... gamma_{i-1}  for i > j    what it reads or predicts before its own gate

Log gates g are at most zero, and minus infinity where a token forgets everything. Their sums are masked before exp is
taken, and they are sums of the tokens in between, never differences of sums from the first token on: after gates of -20
a difference has lost the digits of later ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from array_api_compat import array_namespace

from gpu.cupy_kernels.blocks import Mask, at_or_below, from_blocks, masked

Array = Any
Reach = Literal["inclusive", "strict", "before"]


class Decay(Protocol):
    """What a chunkwise form asks of its gates. Arrays of tokens are (..., C, d)."""

    def scores(self, rows: Array, columns: Array, reach: Reach) -> Array:
        """Inner products of rows and columns, each faded by the gates in between, (..., C, C)."""

    def from_start(self, rows: Array, reach: Reach) -> Array:
        """Rows times what is left at their token of the state before the chunk."""

    def to_end(self, rows: Array) -> Array:
        """Rows times what is left of their token's write at the end of the chunk."""

    def carried(self, state: Array, chunk: int) -> Array:
        """What is left of a state (b, g, k, v) after one of the chunks (b, g, N, C, d)."""


class Divisible(Protocol):
    """Gates whose chunks can be cut in halves."""

    def from_start(self, rows: Array, reach: Reach) -> Array:
        """As in `Decay`."""

    def to_end(self, rows: Array) -> Array:
        """As in `Decay`."""

    def halved(self, half: int) -> tuple[Self, Self]:
        """The gates of runs of 2 s tokens: of the first s of each run, and of the second."""


def sums_from_start(log_gates: Array, reach: Reach = "inclusive") -> Array:
    """g_1 + ... + g_i along the tokens of (..., C, d), without g_i for "before"."""
    sums = array_namespace(log_gates).cumulative_sum(log_gates, axis=-2)
    return moved_down(sums) if reach == "before" else sums


def sums_to_end(log_gates: Array) -> Array:
    """g_{i+1} + ... + g_C along the tokens of (..., C, d)."""
    xp = array_namespace(log_gates)
    return xp.flip(sums_from_start(xp.flip(log_gates, axis=-2), "before"), axis=-2)


def sums_between(log_gates: Array, reach: Reach = "inclusive") -> Array:
    """g_{j+1} + ... + g_i at (i, j) of (..., C, C) from (..., C, 1), without g_i for "before"; zero where i <= j."""
    strict = at_or_below(log_gates.shape[-2], log_gates, "strict")
    return sums_from_start(masked(strict, log_gates, 0), reach)


def moved_down(x: Array, first: float = 0) -> Array:
    """Each row of (..., C, d) in the place of the next one, and a number in the first."""
    xp = array_namespace(x)
    return xp.concat([xp.full_like(x[..., :1, :], first), x[..., :-1, :]], axis=-2)


def faded_state(log_gates: Array, state: Array, chunk: int) -> Array:
    """A state times all gates of a chunk, one for the whole of it or one for each of its rows."""
    xp = array_namespace(log_gates)
    return xp.exp(xp.sum(log_gates[:, :, chunk, ...], axis=-2))[..., None] * state


def halves_of(tokens: Array, half: int) -> tuple[Array, Array]:
    """(..., C, d) cut into runs of 2 s tokens: the first and the second s of each, (..., C / 2 s, s, d)."""
    xp = array_namespace(tokens)
    *batch, size, width = tokens.shape
    runs = xp.reshape(tokens, (*batch, size // (2 * half), 2, half, width))
    return runs[..., 0, :, :], runs[..., 1, :, :]


def scores_by_halves(decay: Divisible, rows: Array, columns: Array, reach: Reach) -> Array:
    """From the first half of 2 s tokens to the second all gates pass the middle: rows fade from there, columns up to
    there, and their products are a matrix product, for s = 1, 2, ..., C / 2.
    """
    xp, size = array_namespace(rows), rows.shape[-2]
    own = xp.sum(rows * columns, axis=-1)[..., None, None]
    blocks = own if reach == "inclusive" else xp.zeros_like(own)
    for half in (1 << level for level in range(size.bit_length() - 1)):
        earlier, later = decay.halved(half)
        left, right = later.from_start(halves_of(rows, half)[1], reach), earlier.to_end(halves_of(columns, half)[0])
        blocks = from_blocks(blocks[..., 0::2, :, :], blocks[..., 1::2, :, :], left @ xp.matrix_transpose(right))
    return blocks[..., 0, :, :]


def _mask(reach: Reach) -> Mask:
    return "inclusive" if reach == "inclusive" else "strict"


@dataclass(frozen=True)
class NoDecay:
    """No gates."""

    def scores(self, rows: Array, columns: Array, reach: Reach) -> Array:
        products = rows @ array_namespace(rows).matrix_transpose(columns)
        return masked(at_or_below(products.shape[-1], products, _mask(reach)), products, 0)

    def from_start(self, rows: Array, reach: Reach) -> Array:
        del reach
        return rows

    def to_end(self, rows: Array) -> Array:
        return rows

    def carried(self, state: Array, chunk: int) -> Array:
        del chunk
        return state


@dataclass(frozen=True)
class ChannelDecay:
    """One gate for each channel of the key: log gates (..., C, d_k)."""

    log_gates: Array

    def scores(self, rows: Array, columns: Array, reach: Reach) -> Array:
        return scores_by_halves(self, rows, columns, reach)

    def from_start(self, rows: Array, reach: Reach) -> Array:
        return array_namespace(rows).exp(sums_from_start(self.log_gates, reach)) * rows

    def to_end(self, rows: Array) -> Array:
        return array_namespace(rows).exp(sums_to_end(self.log_gates)) * rows

    def carried(self, state: Array, chunk: int) -> Array:
        return faded_state(self.log_gates, state, chunk)

    def halved(self, half: int) -> tuple[ChannelDecay, ChannelDecay]:
        earlier, later = halves_of(self.log_gates, half)
        return ChannelDecay(earlier), ChannelDecay(later)


@dataclass(frozen=True)
class TokenDecay(ChannelDecay):
    """One gate a token: log gates (..., C, 1). All scores of a chunk fade by one mask, Gamma."""

    def scores(self, rows: Array, columns: Array, reach: Reach) -> Array:
        xp, mask = array_namespace(rows), at_or_below(rows.shape[-2], rows, _mask(reach))
        sums = masked(mask, sums_between(self.log_gates, reach), -xp.inf)
        return xp.exp(sums) * (rows @ xp.matrix_transpose(columns))
