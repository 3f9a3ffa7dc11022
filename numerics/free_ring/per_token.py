"""Blocks with one value for each token of the past, side by side: what products and sums of them are.

A "column" for each token is d x n, a "row" n x d, a "scalar" n x 1. A product of a column and a row for each token is
their sum over the past; what has no such reading is refused.
"""

from __future__ import annotations

from derivations.language.errors import NoMeaning
from numerics.free_ring.blocks import Block, all_ones, built, of_polynomial
from numerics.free_ring.functions import diagonal
from numerics.free_ring.letters import ONE_SIZE, PAST, ones
from numerics.free_ring.polynomials import Polynomial


def _refused(what: str, *operands: Block) -> NoMeaning:
    kinds = " and ".join(f"a {x.per_token} of each past token" if x.per_token else "a matrix" for x in operands)
    return NoMeaning(f"growing history: {what} of {kinds}")


def refuse_per_token(what: str, *operands: Block) -> None:
    """NoMeaning where an operand is a value for each token, which the operation would take for one matrix."""
    if any(x.per_token for x in operands):
        raise _refused(what, *operands)


def as_rows(column: Block) -> Block:
    """A column as a row; of columns of all past tokens, their rows below one another."""
    if column.per_token not in ("", "column", "scalar"):
        raise _refused("rows", column)
    return (column if column.per_token == "scalar" else column.T).tagged("")


def _column_of_past() -> Polynomial:
    return Polynomial.of(*ones(PAST))


def added(a: Block, b: Block) -> Block:
    """A sum; what is the same for all tokens is spread over them."""
    if a.per_token == b.per_token:
        return a + b
    if (a.per_token and b.per_token) or "summed" in (a.per_token, b.per_token):
        raise _refused("a sum", a, b)
    if b.per_token:
        a, b = b, a
    past = of_polynomial(_column_of_past())
    spread = {"column": lambda: b @ past.T, "row": lambda: past @ b, "scalar": lambda: past @ b}
    return a + spread[a.per_token]().tagged(a.per_token)


def matrix_product(a: Block, b: Block) -> Block:
    """A product; of a column and a row for each token it is their sum over the past."""
    match a.per_token, b.per_token:
        case "", "":
            return a @ b
        case ("", "column") | ("row", ""):
            kind = a.per_token or b.per_token
            made = (a @ b).tagged(kind)
            if kind == "row" and b.columns == (ONE_SIZE,):
                return made.tagged("scalar")
            return made.T.tagged("scalar") if kind == "column" and a.rows == (ONE_SIZE,) else made
        case ("column", "row") | ("column", "scalar"):
            return (a @ b).tagged("summed")
        case "scalar", "row":
            return (a.T @ b).tagged("summed")
        case ("summed", "") | ("", "summed"):
            return (a @ b).tagged("summed")
        case "row", "column":
            return (a.hadamard(b.T) @ all_ones(a.columns, (ONE_SIZE,))).tagged("scalar")
    raise _refused("a product", a, b)


def multiplied(a: Block, b: Block) -> Block:
    """The entrywise product; a scalar scales."""
    for own, other in ((a, b), (b, a)):
        if own.is_scalar and not own.per_token:
            return other.times(own.scalar)
    if not (a.per_token or b.per_token) and a.rows == b.rows and a.columns != b.columns:
        column, other = (a, b) if a.columns == (ONE_SIZE,) else (b, a)
        return diagonal_matrix(column) @ other  # a column scales the rows
    if a.per_token == b.per_token and a.per_token != "summed":
        return a.hadamard(b).tagged(a.per_token)
    if b.per_token == "scalar":
        a, b = b, a
    if a.per_token == "scalar" and b.per_token != "summed":
        return _weighted(a, b)
    if {a.per_token, b.per_token} == {"", "column"}:
        spread, each = (a, b) if b.per_token else (b, a)
        return each.hadamard(spread @ of_polynomial(_column_of_past()).T).tagged("column")
    raise _refused("an entrywise product", a, b)


def _weighted(weights: Block, b: Block) -> Block:
    """A value for each token, or one for all, times the token's own scalar."""
    by = of_polynomial(diagonal(weights.single))
    if b.per_token == "column":
        return (b @ by).tagged("column")
    if b.per_token == "row":
        return (by @ b).tagged("row")
    if b.columns == (ONE_SIZE,):
        return (b @ weights.T).tagged("column")
    raise _refused("an entrywise product", weights, b)


def diagonal_matrix(column: Block) -> Block:
    """D_x of a column x of blocks."""
    refuse_per_token("a diagonal matrix", column)
    if column.columns != (ONE_SIZE,):
        raise NoMeaning("growing history: a diagonal matrix for each row of a matrix")
    sides = column.rows
    return built(
        sides,
        sides,
        lambda i, j: diagonal(column.entries[i][0]) if i == j else Polynomial(sides[i], sides[j]),
    )


def summed(value: Block) -> Block:
    """The sum over the tokens of the past; a single token is itself."""
    past = of_polynomial(_column_of_past())
    match value.per_token:
        case "column":
            return (value @ past).tagged("")
        case "row" | "scalar":
            return (past.T @ value).tagged("")
    return value.tagged("")
