"""Layouts: how the dimensions of a kernel's arrays are ordered, and how such an array becomes a matrix per head.

A layout is a list of words: b batch, h head, t tokens, k d_k, v d_v; any other dimension by its own name, and a second
one of the same kind in capitals ("b h t T"). A gate may be given as a logarithm: "log(b t h)", "log2(b t h)". Inside,
an array is (batch, heads, rows, columns), rows and columns as in the statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sympy import Basic, Symbol

from derivations.language.adjoint import shape_of_input
from derivations.language.errors import StatementError
from derivations.language.symbols import ChannelGate, Gate, State, d_k, d_v, n

Scale = Literal["linear", "log", "log2"]
HEADS = ("b", "h")
WORDS = {n: "t", d_k: "k", d_v: "v"}
_WRITTEN = re.compile(r"(?:(linear|log2|log)\()?\s*([^()]*?)\s*(\))?")


class LayoutError(StatementError):
    """A layout that doesn't fit its argument; the message says which words it needs."""


@dataclass(frozen=True)
class Layout:
    """The dimensions of one array in order, and on which scale its numbers are.

    Args:
        words: one word a dimension.
        scale: "log" and "log2" for an array that holds the logarithms of gates.
    """

    words: tuple[str, ...]
    scale: Scale = "linear"

    def __str__(self) -> str:
        text = " ".join(self.words)
        return text if self.scale == "linear" else f"{self.scale}({text})"


def parse_layout(text: str) -> Layout:
    """The layout that is written so: "b t h k", "log(b t h)".

    Raises:
        LayoutError: it isn't written so.
    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None or bool(match[1]) != bool(match[3]):
        raise LayoutError(f"{text!r} isn't a layout: write words as in 'b t h k', or 'log(b t h)' for logarithms")
    scale: Scale = "log" if match[1] == "log" else "log2" if match[1] == "log2" else "linear"
    return Layout(tuple(match[2].split()), scale)


def sides_of(symbol: Basic) -> tuple[str, str]:
    """The words of the rows and of the columns of an input; "" where there is one."""
    rows, columns = (_word(side) for side in shape_of_input(symbol))
    return rows, columns.upper() if rows == columns else columns


def _word(side: Basic) -> str:
    if side == 1:
        return ""
    word = WORDS.get(side, re.sub(r"[ *]", "", str(side)))
    return f"d_{word}" if word in HEADS else word  # a dimension that is called h


def default_layout(symbol: Basic) -> Layout:
    """`b t h k` for sequences, `b h k v` for states (the transpose of the statement's), `h ...` for parameters."""
    rows, columns = sides_of(symbol)
    if isinstance(symbol, State):
        sides = (columns, rows) if rows == "v" and columns else (rows, columns)
        words: tuple[str, ...] = ("b", "h", *sides)
    elif rows == "t" and columns == "T":  # attention matrices
        words = ("b", "h", rows, columns)
    elif rows == "t":
        words = ("b", "t", "h", columns)
    else:
        words = ("h", rows, columns)
    return Layout(tuple(word for word in words if word))


def chosen(symbols: Mapping[str, Basic], written: Sequence[str]) -> dict[str, Layout]:
    """The layout of every argument: the default, or the one that is written "name=layout".

    Args:
        symbols: what each argument is called, and which symbol of the statement it is.
        written: "q=b h t k", "gamma=log(b t h)"; a name is that of the argument or of the symbol.

    Raises:
        LayoutError: a name that nothing has, or words that don't fit.
    """
    layouts = {name: default_layout(symbol) for name, symbol in symbols.items()}
    names = {str(symbol): name for name, symbol in symbols.items()} | {name: name for name in symbols}
    for text in written:
        name, separator, layout = text.partition("=")
        if not separator or name.strip() not in names:
            raise LayoutError(f"{text!r} is no layout of an argument: write NAME=WORDS; names are {', '.join(symbols)}")
        argument = names[name.strip()]
        layouts[argument] = _fitting(argument, symbols[argument], parse_layout(layout))
    return layouts


def _fitting(name: str, symbol: Basic, layout: Layout) -> Layout:
    needed = [side for side in sides_of(symbol) if side]
    known = {*HEADS, *needed}
    if sorted(set(layout.words)) != sorted(layout.words) or not set(needed) <= set(layout.words) <= known:
        raise LayoutError(
            f"'{layout}' isn't a layout of {name}: it needs each of {', '.join(needed) or 'no words'} once, "
            f"and may have {' and '.join(HEADS)}"
        )
    if layout.scale != "linear" and not isinstance(symbol, Gate | ChannelGate | Symbol):
        raise LayoutError(f"{name} isn't a gate: it can't be given as a logarithm")
    return layout


def canonical(symbol: Basic) -> tuple[str, str, str, str]:
    """The words of an array inside: batch, heads, rows, columns."""
    return (*HEADS, *sides_of(symbol))


def axes_to(words: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Which axis of `words` comes at each place, for those of `wanted` that are there."""
    return [words.index(word) for word in wanted if word in words]


def as_matrices(x: np.ndarray, layout: Layout, symbol: Basic) -> np.ndarray:
    """An array in a layout as matrices of the statement, (batch, heads, rows, columns); gates stay logarithms."""
    wanted = canonical(symbol)
    moved = np.transpose(x, axes_to(layout.words, wanted))
    return moved[tuple(slice(None) if word in layout.words else None for word in wanted)]


def in_layout(x: np.ndarray, layout: Layout, symbol: Basic) -> np.ndarray:
    """Matrices (batch, heads, rows, columns) in a layout; of a dimension that it hasn't, the first entry."""
    words = canonical(symbol)
    kept = x[tuple(slice(None) if word in layout.words else 0 for word in words)]
    present = [word for word in words if word in layout.words]
    return np.ascontiguousarray(np.transpose(kept, axes_to(present, layout.words)))
