"""Facts: what is claimed about numbers, functions, sizes and costs, where no two forms are compared.

A *fact* is a sentence and a check that decides it: an equation between SymPy's scalars or matrices (limits, integrals
and derivatives included), the range of a function, a count of operations, a shape, a number printed to some digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any, Literal

from sympy import Basic, Expr, Interval, MatrixBase, Rational, S, Symbol, cancel, expand, sympify
from sympy import Set as SymPySet
from sympy.calculus.util import function_range

from derivations.language.errors import StatementError
from derivations.language.forms import Form
from derivations.language.places import Place, caller


@dataclass(frozen=True)
class Finding:
    """What a check found: whether the fact holds (None where that couldn't be decided), and what shows it."""

    holds: bool | None
    shown: str
    details: Mapping[str, Any] = field(default_factory=dict)


class Check:
    """Something that can be decided. `method` names how, in a word or two."""

    method: str

    def find(self) -> Finding:
        """Decides it; exact, or not at all."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Fact:
    """A claim about numbers, functions, sizes or costs.

    Args:
        name: short, unique within its derivation.
        check: what decides it.
        says: the claim in one sentence; of one that is expected to be refuted, what is wrong with it.
        expected: "holds", or "refuted" for what is known to be wrong as printed.
        source: where it was printed.
    """

    name: str
    check: Check
    says: str = ""
    expected: Literal["holds", "refuted"] = "holds"
    source: str = ""
    place: Place = field(default_factory=caller)

    def __post_init__(self) -> None:
        if self.expected not in ("holds", "refuted"):
            raise StatementError(f"a fact is expected to be 'holds' or 'refuted', not {self.expected!r}")


POINTS = tuple(map(Rational, ("1/2", "2", "1/3", "3", "3/4", "5", "-1/2", "-2")))
"""Where two expressions that may differ are compared."""
DIGITS = 30


@dataclass(frozen=True)
class Equal(Check):
    """Two SymPy expressions or matrices are equal, for all values that the assumptions of their symbols admit.

    Integrals, limits, derivatives and sums are carried out first. A difference that isn't reduced to zero counts as
    refuted only where it differs from zero at a point, to 30 digits.
    """

    left: Any
    right: Any
    method = "SymPy"

    def find(self) -> Finding:
        left, right = sympify(self.left), sympify(self.right)
        if getattr(left, "shape", ()) != getattr(right, "shape", ()):
            return Finding(False, f"{_short(left)} and {_short(right)} have different shapes")
        pairs = list(zip(left, right, strict=True)) if isinstance(left, MatrixBase) else [(left, right)]
        for a, b in pairs:
            found = _compared(a, b)
            if not found.holds:
                return found
        return Finding(True, f"{_short(self.left)} = {_short(self.right)}")


def _short(e: Any) -> str:
    text = str(e)
    return text if len(text) < 160 else f"{text[:150]} ..."


def _compared(a: Any, b: Any) -> Finding:
    left, right = a.doit(), b.doit()
    if left == right:
        return Finding(True, "")
    difference = (
        expand(cancel(expand(left - right, trig=False).rewrite("exp"))) if left.is_finite is not False else S.NaN
    )
    if difference == 0:
        return Finding(True, "")
    undecided = f"{_short(difference)} isn't reduced to zero, and no point was found where it differs from it"
    return _differing(left, right) or Finding(None, undecided)


def _differing(left: Expr, right: Expr) -> Finding | None:
    """A point at which the sides differ by more than their last digits."""
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    for values in product(POINTS, repeat=min(len(symbols), 3)):
        point = dict(zip(symbols, [*values, *values * len(symbols)], strict=False))
        if not all(_admits(x, value) for x, value in point.items()):
            continue
        one, other = (side.subs(point).evalf(DIGITS) for side in (left, right))
        gap = abs(one - other) if one.is_number and other.is_number else S.NaN
        if gap is not S.NaN and gap > Rational(1, 10**15):
            where = ", ".join(f"{x} = {value}" for x, value in point.items())
            return Finding(
                False, f"{_short(one.n(6))} against {_short(other.n(6))}" + (f" at {where}" if where else "")
            )
    return None


def _admits(x: Basic, value: Expr) -> bool:
    """Whether the assumptions of a symbol allow a value."""
    return all(getattr(value, f"is_{name}") in (holds, None) for name, holds in x.assumptions0.items())


@dataclass(frozen=True)
class RangeWithin(Check):
    """The values of a function of one real variable over a domain lie in a set."""

    function: Expr
    variable: Symbol
    domain: Any
    within: Any
    method = "range"

    def find(self) -> Finding:
        values = function_range(self.function, self.variable, self.domain)
        holds = values.is_subset(self.within)
        text = f"{self.function} takes the values {values} for {self.variable} in {self.domain}"
        return Finding(None if holds is None else bool(holds), text)


@dataclass(frozen=True)
class Printed(Check):
    """A number agrees with one that was printed, to the digits that were printed."""

    value: Any
    printed: str
    unit: str = ""
    method = "arithmetic"

    def find(self) -> Finding:
        exact, printed = Fraction(self.value), Decimal(self.printed)
        exponent = printed.as_tuple().exponent
        digits = -exponent if isinstance(exponent, int) else 0
        holds = abs(exact - Fraction(printed)) <= Fraction(10) ** -digits / 2  # a tie may be rounded either way
        shown = str(exact) if exact.denominator == 1 else f"{float(exact):.6g}"
        return Finding(holds, f"{shown} {self.unit}".rstrip() + f", printed as {self.printed}")


@dataclass(frozen=True)
class HasShape(Check):
    """A form or matrix expression has this shape."""

    subject: Any
    shape: tuple[Any, Any]
    method = "shapes"

    def find(self) -> Finding:
        found = tuple(self.subject.shape)
        return Finding(found == tuple(map(sympify, self.shape)), f"{found[0]} x {found[1]}")


@dataclass(frozen=True)
class Computed(Check):
    """A function without arguments that computes a `Finding`, for what the other checks can't say."""

    function: Callable[[], Finding]
    method: str = "computed"

    def find(self) -> Finding:
        return self.function()


Quantity = Literal["multiplications", "additions", "exponentials", "divisions", "largest value", "saved for backward"]


@dataclass(frozen=True)
class Counts(Check):
    """How many operations a form takes, or how many numbers it keeps, is this polynomial in n, d_k and d_v.

    Args:
        form: what is evaluated.
        quantity: what is counted. The "largest value" is the largest matrix on the way that isn't a mask; "saved for
            backward" are the numbers that reverse-mode differentiation keeps.
        polynomial: the exact count.
        chunk: the size of a block, for a chunkwise form; the count holds for whole blocks.
        at: values for dimensions that aren't varied.
    """

    form: Form
    quantity: Quantity
    polynomial: Any
    chunk: int | None = None
    at: Mapping[Symbol, int] = field(default_factory=dict)
    method = "count"

    def find(self) -> Finding:
        raise StatementError("a count is decided by an evaluation, see numerics.proofs.facts")


REALS: SymPySet = S.Reals
NEGATIVE, POSITIVE = Interval.open(-S.Infinity, 0), Interval.open(0, S.Infinity)
"""Domains of `RangeWithin`."""


def rank_is(matrix: Any, rank: int) -> Computed:
    """The rank of a SymPy matrix, exactly."""

    def find() -> Finding:
        found = matrix.rank()
        return Finding(found == rank, f"rank {found} of a {matrix.rows} x {matrix.cols} matrix")

    return Computed(find, "rank")


def is_free_of(e: Basic, *symbols: Basic) -> Computed:
    """An expression depends on none of the symbols."""

    def find() -> Finding:
        met = [x for x in symbols if e.has(x)]
        return Finding(not met, f"{e} contains {', '.join(map(str, met)) or 'none of ' + ', '.join(map(str, symbols))}")

    return Computed(find, "reading")
