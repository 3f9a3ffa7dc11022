"""Arrays of a kernel's arguments, with heads, and the same arrays as a statement's inputs: one matrix for each head.

A layout names the dimensions: b batch, n sequences of a packed batch, t tokens, h query heads, g value heads, k d_k,
v d_v. A statement knows neither batch nor heads; its matrices are stacked along one leading dimension, a matrix for
each batch and value head. Each query head serves value heads / query heads consecutive value heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sympy import Basic

from derivations.language.adjoint import shape_of_input
from derivations.language.errors import StatementError
from derivations.language.symbols import d_v, n
from numerics.algebras.finite_field import PRIME

WORDS = {"b": "batch", "n": "sequence", "t": "token", "h": "query head", "g": "value head", "k": "d_k", "v": "d_v"}


@dataclass(frozen=True)
class HeadSizes:
    """Sizes of the dimensions of a kernel's arguments.

    Attributes:
        lengths: of packed sequences, which then lie one after another along the tokens of a batch of one.
    """

    tokens: int
    d_k: int
    d_v: int
    query_heads: int = 1
    value_heads: int = 2
    batch: int = 2
    lengths: tuple[int, ...] | None = None

    @classmethod
    def packed(
        cls, lengths: Sequence[int], d_k: int, d_v: int, query_heads: int = 1, value_heads: int = 2
    ) -> HeadSizes:
        """Sequences of these lengths, packed."""
        return cls(sum(lengths), d_k, d_v, query_heads, value_heads, 1, tuple(lengths))

    def shape(self, layout: str) -> tuple[int, ...]:
        """The shape of an array with these dimensions; p stands for the pairs of channels that are rotated."""
        size = {
            "b": self.batch,
            "n": self.batch if self.lengths is None else len(self.lengths),
            "t": self.tokens,
            "h": self.query_heads,
            "g": self.value_heads,
            "k": self.d_k,
            "v": self.d_v,
            "p": self.d_k // 2,
        }
        return tuple(size[letter] for letter in layout.split())

    def one_sequence(self, index: int) -> HeadSizes:
        """The sizes of one of the packed sequences by itself."""
        assert self.lengths is not None
        return replace(self, tokens=self.lengths[index], lengths=None)


def place(layout: str, index: Sequence[int]) -> str:
    """An entry in words: "batch 0, token 17, value head 1"."""
    return ", ".join(f"{WORDS.get(x, x)} {k}" for x, k in zip(layout.split(), index, strict=True))


def to_heads(x: np.ndarray, layout: str, symbol: Basic, sizes: HeadSizes) -> np.ndarray:
    """An argument as an input of a statement, of shape (batch * value heads, rows, columns).

    Raises:
        StatementError: the input has other dimensions than the argument.
    """
    letters = _letters(layout)
    if "h" in letters:
        x = np.repeat(x, sizes.value_heads // sizes.query_heads, axis=letters.index("h"))
        letters[letters.index("h")] = "g"
    wanted = ["b", "g", *_sides(symbol)]
    kept = [letter for letter in wanted if letter in letters]
    without = [letter for letter in letters if letter not in wanted]
    moved = np.transpose(x, [letters.index(letter) for letter in (*kept, *without)])
    spread = moved[(*(slice(None) if letter in kept else None for letter in wanted), *(0 for _ in without))]
    _check(symbol, layout, sizes, spread.shape[2:], moved.shape[len(kept) :])
    whole = np.broadcast_to(spread, (sizes.batch, sizes.value_heads, *spread.shape[2:]))
    return whole.reshape(-1, *whole.shape[2:])


def _check(symbol: Basic, layout: str, sizes: HeadSizes, shape: tuple[int, ...], left_over: tuple[int, ...]) -> None:
    fixed = [int(side) if side.is_Integer else size for side, size in zip(shape_of_input(symbol), shape, strict=True)]
    if fixed != list(shape) or any(size != 1 for size in left_over):
        said = f"{symbol} is {' x '.join(map(str, shape_of_input(symbol)))} in the statement"
        raise StatementError(f"{said}, and ({layout}) is {sizes.shape(layout)}: choose sizes that fit")


def from_heads(x: np.ndarray, layout: str, symbol: Basic, sizes: HeadSizes) -> np.ndarray:
    """The transpose of `to_heads`: what it copied to several heads is summed up over them, modulo p."""
    letters = _letters(layout)
    groups = sizes.value_heads // sizes.query_heads
    split = x.reshape(sizes.batch, sizes.query_heads, groups, *x.shape[-2:])
    if "h" in letters:
        merged, first = split.sum(axis=2), "h"
    else:
        merged, first = split.reshape(sizes.batch, sizes.value_heads, *x.shape[-2:]), "g"
    present = ["b", first, *_sides(symbol)]
    summed = merged.sum(axis=tuple(k for k, letter in enumerate(present) if letter not in letters)) % PRIME
    kept = [letter for letter in present if letter in letters]
    moved = np.transpose(summed, [kept.index(letter) for letter in letters if letter in kept])
    return moved[tuple(slice(None) if letter in kept else None for letter in letters)]


def from_one_head(x: np.ndarray, layout: str, symbol: Basic) -> np.ndarray:
    """The inverse of `to_heads` where there is one head: an input of a statement, (batch, rows, columns), as an array.

    What the layout has no dimension for is the same along it.
    """
    letters = _letters(layout)
    present = ["b", *_sides(symbol)]
    first = x[tuple(slice(None) if letter in letters else 0 for letter in present)]
    kept = [letter for letter in present if letter in letters]
    moved = np.transpose(first, [kept.index(letter) for letter in letters if letter in kept])
    return moved[tuple(slice(None) if letter in kept else None for letter in letters)]


def _letters(layout: str) -> list[str]:
    """The dimensions, with a sequence of a packed batch as a batch, and K for a second k."""
    letters = ["b" if letter == "n" else letter for letter in layout.split()]
    return [letter.upper() if letter in letters[:place] else letter for place, letter in enumerate(letters)]


def _sides(symbol: Basic) -> list[str]:
    """The letters of the rows and of the columns of an input, "" where there is one."""
    rows, columns = (_letter(side) for side in shape_of_input(symbol))
    return [rows, columns.upper() if rows == columns else columns]


def _letter(side: Basic) -> str:
    """d_k goes by many names: all that isn't a length or d_v is a width of keys."""
    return "t" if side == n else "v" if side == d_v else "" if side == 1 else "k"
