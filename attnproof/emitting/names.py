"""What symbols of a statement are called in code: Q is q, S stays S, and no name stands for two things."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence

from sympy import Basic, Symbol

from attnproof.emitting.layouts import sides_of
from attnproof.emitting.targets import TARGETS
from derivations.language.adjoint import shape_of_input
from derivations.language.symbols import ChannelGate, Gate, State, d_k, d_v, n
from derivations.language.symbols import Sequence as TokenSequence

LENGTH = "length"
RESERVED = {
    *keyword.kwlist,
    *(target.module for target in TARGETS.values()),
    *(
        "I",
        "O",
        "l",
        "t",
        "i",
        "j",
        "o",
        "o_t",
        "sum",
        "range",
        "token",
        "batch",
        "heads",
        "chunk_size",
        "initial_state",
    ),
    *("first", "rows", "left", "entries", "outputs", "size", "like", LENGTH, "d_k", "d_v"),
}
"""Names that emitted code uses for itself, or that a linter refuses."""
FIRST_ARGUMENTS = ("Q", "K", "V")


class Names:
    """Names that were given out; each is given once."""

    def __init__(self, helpers: Iterable[str]) -> None:
        self.taken = RESERVED | set(helpers)
        self.given: dict[tuple[object, str], str] = {}

    def new(self, wanted: str) -> str:
        """The name itself if it is free, else with an underscore or a number behind it."""
        clean = re.sub(r"\W", "_", wanted.replace("'", "_prime"))
        clean = clean if clean[:1].isalpha() or clean[:1] == "_" else f"x_{clean}"
        tries = (clean, f"{clean}_", *(f"{clean}_{number}" for number in range(2, 1000)))
        name = next(found for found in tries if found not in self.taken)
        self.taken.add(name)
        return name

    def again(self, key: object, wanted: str) -> str:
        """A new name the first time, and the same one for the same key and wish from then on."""
        if (key, wanted) not in self.given:
            self.given[key, wanted] = self.new(wanted)
        return self.given[key, wanted]

    def of_symbols(self, symbols: Sequence[Basic]) -> dict[Basic, str]:
        """Names for inputs and states: sequences in small letters, unless something else is called so."""
        plain = {str(x) for x in symbols}
        found: dict[Basic, str] = {}
        for x in sorted(symbols, key=lambda x: isinstance(x, TokenSequence)):
            text = str(x)
            lowers = isinstance(x, TokenSequence | Gate | ChannelGate) and text.lower() not in plain - {text}
            found[x] = self.new(text.lower() if lowers else text)
        return found

    def of_dimensions(self, symbols: Iterable[Basic]) -> dict[Basic, str]:
        """Names for n, d_k, d_v and a statement's own dimensions."""
        sides = {x for symbol in symbols for side in shape_of_input(symbol) for x in side.free_symbols}
        own = sorted(sides - {n, d_k, d_v}, key=str)
        return {n: LENGTH, d_k: "d_k", d_v: "d_v"} | {x: self.new(f"d_{x}" if str(x) == "h" else str(x)) for x in own}


def in_order(symbols: Iterable[Basic]) -> list[Basic]:
    """Arguments: q, k and v, then the other sequences and gates, then what is the same for all tokens."""

    def place(x: Basic) -> tuple[int, bool, str]:
        text = str(x)
        return (
            FIRST_ARGUMENTS.index(text) if text in FIRST_ARGUMENTS else len(FIRST_ARGUMENTS),
            "t" not in sides_of(x),
            text,
        )

    return sorted(symbols, key=place)


def is_state(x: Basic) -> bool:
    """Whether a symbol is carried from token to token."""
    return isinstance(x, State)


def is_dimension(x: Basic) -> bool:
    """Whether a symbol is a size; sizes are positive, positions needn't be."""
    return isinstance(x, Symbol) and bool(x.is_integer and x.is_positive)
