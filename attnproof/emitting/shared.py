"""Parts of formulas that get a line and a name of their own: what stands in several places, and masks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sympy import Basic, Symbol

from attnproof.emitting.names import Names
from derivations.language import expressions as nodes
from derivations.language import masks
from derivations.language.expressions import Statement
from derivations.language.symbols import Named, Token

MASKS = (nodes.Eye, masks.StrictMask, masks.CausalMask, masks.StrictDecay, masks.ShiftedDecay, masks.Decay)
"""What always has a line of its own."""
WORDS: dict[type, str] = {
    masks.StrictMask: "M_strict",
    masks.CausalMask: "M",
    masks.StrictDecay: "Gamma_strict",
    masks.ShiftedDecay: "Gamma_shifted",
    masks.Decay: "Gamma",
    masks.CumulativeProduct: "so_far",
    masks.PrecedingProduct: "before",
    masks.RemainingProduct: "to_end",
    nodes.Exponential: "weights",
    nodes.ScalarExponential: "weight",
    nodes.Hadamard: "scores",
}
"""What a part is called that has no name in the module of its derivation."""
WORTH_A_LINE = 4
"""How many operations a part takes at least, for a name to be shorter to read than the part."""


def parts_to_name(formulas: Iterable[Basic], known: Mapping[Basic, str]) -> list[Basic]:
    """Masks, and what stands in several places, each before what contains it.

    Args:
        formulas: what is about to be written.
        known: what has a name already.
    """
    roots = list(formulas)
    chosen: list[Basic] = []
    while True:
        count: Counter[Basic] = Counter()
        for root in (*roots, *chosen):
            count.update(_parts(root, {*known, *chosen} - {root}))
        new = [e for e, times in count.items() if e not in chosen and (times > 1 or type(e) in MASKS)]
        worth = [e for e in new if type(e) in MASKS or _is_worth_a_line(e)]
        if not worth:
            return _inner_first(chosen)
        chosen.append(max(worth, key=lambda e: (_size(e), str(e))))


def _inner_first(parts: Sequence[Basic]) -> list[Basic]:
    return sorted(parts, key=lambda e: (not isinstance(e, MASKS), _size(e), str(e)))


def _size(e: Basic) -> int:
    return 1 + sum(_size(a) for a in e.args)


def _parts(e: Basic, stop: set[Basic]) -> Iterator[Basic]:
    """The nodes of a formula, down to what has a name; a sum over tokens is a scope of its own."""
    if e in stop or isinstance(e, Named | Token | masks.TokenSum | masks.GateProduct):
        return
    yield e
    alone = [] if isinstance(e, nodes.Product | nodes.Inverted) else e.args
    yield from (nodes.Eye(x.shape[0]) for x in alone if isinstance(x, nodes.Diagonal))  # it is written x * eye
    for argument in e.args:
        yield from _parts(argument, stop)


def _is_worth_a_line(e: Basic) -> bool:
    """A part of several operations that reads something; an inverse is solved with and never formed."""
    excluded = isinstance(e, nodes.Inverted | nodes.Diagonal | nodes.Transposed | nodes.Ones | nodes.ScalarOf)
    if excluded or not isinstance(e, Statement | nodes.ScalarNode) or not e.atoms(Named):
        return False
    return isinstance(e, masks.OverTokens) or _operations(e) >= WORTH_A_LINE


def _operations(e: Any) -> int:
    own = 0 if isinstance(e, Named | Token) or not e.args else max(len(e.args) - 1, 1)
    return own + (0 if isinstance(e, Named | Token) else sum(_operations(a) for a in e.args))


def named(parts: Iterable[Basic], names: Names, authors: Mapping[Basic, str]) -> dict[Basic, str]:
    """A name for each part: that of the module that states the formula, else what kind of thing it is.

    Args:
        parts: what to name.
        names: the names that were given out.
        authors: names that expressions have in the module.
    """
    return {e: names.new(_kind(e) if isinstance(e, nodes.Eye) else authors.get(e) or _kind(e)) for e in parts}


def _kind(e: Any) -> str:
    if isinstance(e, nodes.Eye):
        return f"eye_{e.shape[0]}".replace("*", "").replace("_d_", "_")
    word = next((word for kind, word in WORDS.items() if type(e) is kind), None)
    if isinstance(e, masks.OfGates) and not isinstance(e, masks.OverTokens):
        gates = str(e.args[0])
        return f"{word}_{gates}" if gates != "gamma" and isinstance(e.args[0], Named) else f"{word}"
    return word or ("solved" if e.has(nodes.Inverted) else "part")


def as_symbol(e: Any, name: str) -> Basic:
    """What stands for a named part where a formula is printed."""
    return Named(name, *e.shape) if isinstance(e, Statement) else Symbol(name)


def names_in_module(variables: Mapping[str, object]) -> dict[Basic, str]:
    """The expressions that a module of derivations gives a name to, by expression."""
    found: dict[Basic, str] = {}
    for name, value in variables.items():
        if isinstance(value, Statement | nodes.ScalarNode) and not isinstance(value, Named | Token):
            found.setdefault(value, name)
    return found
