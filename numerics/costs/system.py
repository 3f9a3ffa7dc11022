"""What a form costs: for a whole sequence, and for one more token.

A whole sequence is evaluated forwards, as the form is written. For one more token a form with states starts from them:
its cost is what a sequence of n tokens takes beyond one of n - 1, in blocks of one token where it has blocks. Any other
form is asked for its last row, from the inputs of all tokens (see `numerics.costs.last_row`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from sympy import Add, Expr, Symbol, expand

from derivations.language.errors import NoMeaning, StatementError
from derivations.language.forms import Form
from derivations.language.symbols import n
from numerics.costs.forms import CountedForm, state_size

OPERATIONS = ("multiplications", "additions", "exponentials", "divisions")
MATRIX = ("matrix multiplications", "matrix additions")
"""Of the operations those in products of two matrices of which none is a row or a column."""
SEQUENCE = (*OPERATIONS, *MATRIX, "saved for backward", "peak memory", "longest chain")
"""What is counted for a whole sequence."""
TOKEN = (*OPERATIONS, "kept")
"""What is counted for one more token: operations, and the numbers that are kept from token to token."""

Polynomials = tuple[Expr, ...]
"""One polynomial, or several of which a count is the greatest."""


@dataclass(frozen=True)
class Costs:
    """Costs by name, and why there is none of what isn't counted."""

    found: Mapping[str, Polynomials]
    missing: Mapping[str, str]
    only_at_chunk: frozenset[str] = frozenset()
    """What is a polynomial at one size of a block alone."""

    @property
    def symbols(self) -> set[Symbol]:
        """The dimensions that the counts depend on."""
        return {x for polynomials in self.found.values() for p in polynomials for x in p.free_symbols}

    @property
    def operations(self) -> Expr | None:
        """All scalar operations together; None where one kind isn't counted."""
        return self.total(OPERATIONS)

    def weighted(self, ratio: int) -> Expr | None:
        """The operations, where one in a product of matrices counts 1 / ratio; None where some aren't counted."""
        everything, matrix = self.operations, self.total(MATRIX)
        return None if everything is None or matrix is None else expand(everything - matrix + matrix / ratio)

    def total(self, quantities: Iterable[str]) -> Expr | None:
        """The sum of some of the counts; None where one is missing."""
        if not self.found.keys() >= set(quantities):
            return None
        return Add(*(p for quantity in quantities for p in self.found[quantity]))

    def as_json(self) -> dict[str, Any]:
        """The record of `cost --json`, in SymPy's syntax."""
        found = {quantity: [str(p) for p in polynomials] for quantity, polynomials in self.found.items()}
        return {"greatest_of": found, "not_counted": dict(self.missing), "only_at_this_C": sorted(self.only_at_chunk)}


@dataclass(frozen=True)
class FormCosts:
    """What one form costs.

    Args:
        name: of the form, in its derivation.
        has_blocks: whether it goes block by block.
        sequence: for a whole sequence, forwards.
        token: for one more token.
        token_from: what is at hand for it: the states, or the inputs of all tokens.
    """

    name: str
    has_blocks: bool
    sequence: Costs
    token: Costs
    token_from: Literal["states", "inputs"]

    def takes(self, quantity: str) -> bool:
        """Whether there is anything under this name that isn't zero; also where it isn't counted."""
        return any(counts.found.get(quantity) != (0,) for counts in (self.sequence, self.token))

    def as_json(self) -> dict[str, Any]:
        """The record of `cost --json`."""
        counts = {"sequence": self.sequence.as_json(), "token": self.token.as_json(), "token_from": self.token_from}
        return {"form": self.name, "has_blocks": self.has_blocks, **counts}


def costs_of(name: str, form: Form, chunk: int) -> FormCosts:
    """The costs of a form.

    Args:
        name: its name.
        form: what is counted.
        chunk: the size of a block at which is counted what isn't a polynomial in that size.
    """
    counted = CountedForm(form)
    ways = [counted.count, CountedForm(form, chunk).count] if counted.has_blocks else [counted.count]
    sequence = _counts(SEQUENCE, *ways)
    if not form.states:
        return FormCosts(name, counted.has_blocks, sequence, _counts(TOKEN, _of_last_row(form, counted)), "inputs")
    tokens = CountedForm(form, chunk=1) if counted.has_blocks else counted
    return FormCosts(name, counted.has_blocks, sequence, _counts(TOKEN, _of_last_token(form, tokens)), "states")


def _counts(quantities: Iterable[str], *ways: Callable[[str], Polynomials]) -> Costs:
    """Each quantity in the first way that gives a count; what has none keeps the first reason."""
    found: dict[str, Polynomials] = {}
    reasons: dict[str, str] = {}
    for quantity, count in product(quantities, ways):
        if quantity not in found:
            try:
                found[quantity] = count(quantity)
            except Exception as error:  # an algorithm is a function of the user's
                reasons.setdefault(quantity, _reason(error))
    missing = {quantity: reason for quantity, reason in reasons.items() if quantity not in found}
    return Costs(found, missing, frozenset(reasons.keys() & found.keys()))


def _reason(error: Exception) -> str:
    """One line; an error of this package's says what it is by itself."""
    text = " ".join(str(error).split())
    return text if isinstance(error, NoMeaning | StatementError) else f"{type(error).__name__}: {text}"


def _of_last_token(form: Form, counted: CountedForm) -> Callable[[str], Polynomials]:
    """What a sequence takes beyond one that is a token shorter, and the states."""

    def count(quantity: str) -> Polynomials:
        if quantity == "kept":
            return (state_size(form),)
        (whole,) = counted.count(quantity)
        return (expand(whole - whole.subs(n, n - 1)),)

    return count


def _of_last_row(form: Form, counted: CountedForm) -> Callable[[str], Polynomials]:
    """The last row alone."""

    def count(quantity: str) -> Polynomials:
        if form.shape[0] != n:
            raise StatementError(f"the output is {form.shape[0]} x {form.shape[1]}: it has no row for each token")
        return counted.count(f"row {quantity}")

    return count
