"""The counts of a form as polynomials in n, d_k, d_v and the size C of a block.

A chunkwise form is counted at whole blocks: with n = blocks C its count is a polynomial in both, and so one in n, C and
n / C.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Add, Basic, Expr, Mul, Symbol, expand

from derivations.language.forms import Chunkwise, Defined, FinalState, Form, Substituted
from derivations.language.symbols import Named, d_k, d_v, n
from numerics.costs.greatest import greatest
from numerics.costs.polynomials import Point, fitted
from numerics.costs.walks import Walk, walk
from numerics.evaluate import CHUNK

BLOCKS = Symbol("blocks", integer=True, positive=True)
"""How many blocks a sequence has, n / C."""

FIRST = {n: 4, BLOCKS: 3, CHUNK: 3}
"""The smallest size that a count is taken at: shorter chains and products with a row are other cases. Elsewhere 2."""
DEGREES = {n: 3, BLOCKS: 2, CHUNK: 3, d_v: 2}
"""The highest power of a dimension. Elsewhere 3, for the general inverse of a state."""
FURTHER = {n: (11, 9, 40), BLOCKS: (7, 4, 8), CHUNK: (5, 11, 8), d_k: (7, 14, 6), d_v: (5, 6, 13)}
"""Sizes outside of those that the polynomials are fitted to."""
FURTHER_WIDTHS = (8, 6, 12)
"""Those of a dimension of the user's own."""
HELD = {n: range(6, 9), BLOCKS: range(3, 6)}
"""The sizes at which what is alive at once is compared, see `greatest`."""


class CountedForm:
    """The polynomials of one form; each walk is made once.

    Args:
        form: what is counted.
        chunk: the size of a block, for a form with blocks; None leaves C a variable.
    """

    def __init__(self, form: Form, chunk: int | None = None) -> None:
        self.form, self.has_blocks, self._chunk = form, has_blocks(form), chunk
        blocks = (BLOCKS,) if chunk else (BLOCKS, CHUNK)
        self._symbols = ((n,), blocks)[self.has_blocks] + widths_of(form)
        self._walks: dict[Point, Walk] = {}

    def count(self, quantity: str) -> tuple[Expr, ...]:
        """The polynomial that a count is, or several of which the count is the greatest one.

        Args:
            quantity: "peak memory", or a name that `Walk.number` has.

        Raises:
            NoMeaning: there is no such polynomial, or the form has no count.
        """
        if quantity == "peak memory":
            held, *others = self._symbols
            found = greatest(lambda point: self._walk(point).live, (held, HELD[held]), others, self._further())
        else:
            axes = {x: range(FIRST.get(x, 2), FIRST.get(x, 2) + DEGREES.get(x, 3) + 1) for x in self._symbols}
            found = [fitted(lambda point: self._walk(point).number(quantity), axes, self._further())]
        return tuple(expand(p.xreplace({BLOCKS: n / (self._chunk or CHUNK)})) for p in found)

    def _further(self) -> Iterator[Point]:
        return zip(*(FURTHER.get(x, FURTHER_WIDTHS) for x in self._symbols), strict=True)

    def _walk(self, point: Point) -> Walk:
        if point not in self._walks:
            sizes = dict(zip(self._symbols, point, strict=True))
            if self.has_blocks:
                sizes.setdefault(CHUNK, self._chunk or 1)
                sizes[n] = sizes.pop(BLOCKS) * sizes[CHUNK]
            self._walks[point] = walk(self.form, sizes)
        return self._walks[point]


def has_blocks(form: Form) -> bool:
    """Whether a form, or one that it is made of, goes block by block."""
    match form:
        case Chunkwise():
            return True
        case FinalState():
            return has_blocks(form.recurrence)
        case Substituted():
            inner = (form.form, *form.mapping.values())
        case Defined():
            inner = (form.form, form.definition)
        case _:
            return False
    return any(has_blocks(part) for part in inner if isinstance(part, Form))


def widths_of(form: Form) -> tuple[Symbol, ...]:
    """The dimensions of a form other than n, by name."""
    read: list[Basic] = [*form.expressions().values(), *form.symbols(), *form.states]
    shapes = [side for x in read if isinstance(x, Named) for side in x.shape]
    found = {x for e in (*read, *shapes) for x in e.atoms(Symbol) if x.is_integer and x.is_positive}
    return tuple(sorted(found - {n}, key=str))


def state_size(form: Form) -> Expr:
    """How many numbers the states of a form are."""
    return Add(*(Mul(*x.shape) for x in form.states))
