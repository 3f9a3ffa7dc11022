"""What has no meaning on a history: places in the past, dimensions as numbers, rows that see later tokens."""

from __future__ import annotations

from typing import Any

from sympy import Symbol, sympify

from derivations.language.errors import NoMeaning
from derivations.language.expressions import Eye, Ones, Zeros
from derivations.language.masks import CausalMask, GateProduct, TokenSum
from derivations.language.symbols import (
    GateToken,
    Named,
    Token,
    n,
    t,
)


def refuse_numbers(e: Any) -> None:
    """NoMeaning where a position or dimension is a number of the formula: the past is one segment, not one token."""
    if isinstance(e, Named | Eye | Ones | Zeros | CausalMask):
        return
    if isinstance(e, Token | GateToken):
        _refuse_places(e, [e.index] if isinstance(e.index, Symbol) else [])
        return
    if isinstance(e, Symbol) and e.is_integer:
        raise NoMeaning(f"growing history: {e} is used as a number")
    if isinstance(e, TokenSum | GateProduct):
        body, index, lower, upper = e.args
        _refuse_places(e, [x for x in (lower, lower - 1, upper, upper + 1) if _is_position(x) or x == 0 or x == n])
        if isinstance(e, GateProduct) and not _is_position(lower - 1):
            raise NoMeaning(f"growing history: {e} begins within the past")
        if any(inner.has(index) for inner in body.atoms(TokenSum)):
            raise NoMeaning(f"growing history: a sum in {e} runs with its position")
        refuse_numbers(body)
        return
    for argument in e.args:
        refuse_numbers(argument)


def refuse_later_tokens(e: Any) -> None:
    """NoMeaning where what belongs to one token is made of the whole sequence: it would change with a new token."""
    if isinstance(e, Token | GateToken):
        return
    whole = isinstance(e, Named | Eye | Ones | Zeros | CausalMask) and e.has(n)
    if whole or (isinstance(e, TokenSum | GateProduct) and e.args[3].has(n)):
        raise NoMeaning(f"growing history: {e} sees later tokens")
    for argument in e.args:
        refuse_later_tokens(argument)


def refuse_positions(e: Any) -> None:
    """NoMeaning where a sum or product ends at the token itself, so that it is another one for each token."""
    running = [x for x in sympify(e).atoms(TokenSum, GateProduct) if any(bound.has(t) for bound in x.args[2:])]
    if running:
        raise NoMeaning(f"growing history: {running[0]} at each token of the past")


def _is_position(x: Any) -> bool:
    return isinstance(x, Symbol) and not x.is_positive


def _refuse_places(e: Any, known: list[Any]) -> None:
    """Sums begin with the first token, or with a token that is looked at, and end before or with one, or with the
    last; nothing else can be said of a place in the past."""
    wanted = 1 if isinstance(e, Token | GateToken) else 2
    if len(known) < wanted:
        raise NoMeaning(f"growing history: {e} is at a place in the past that isn't its beginning or its end")
