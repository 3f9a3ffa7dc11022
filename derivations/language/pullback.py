r"""Reverse mode: from the cotangent G of an expression f, the cotangents of what it reads, as expressions again.

If f is the left side, the rules are G |-> (A^T G B^T for X in A X B), (-X^-T G X^-T for X^-1), (<A, G> for c in c A),
(the diagonal of G for x in Diag(x)), and so on. They are the transposes of the rules in `derivative`: for every
direction E of the inputs, <G, df(E)> is the sum of <dx, E_x>.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Add, Basic, Expr, Mul, Pow, Rational, S, Symbol

from derivations.language.errors import NoMeaning
from derivations.language.expressions import (
    Below,
    Beside,
    Diagonal,
    Exponential,
    Eye,
    Hadamard,
    Inverted,
    Product,
    Reciprocal,
    ScalarExponential,
    ScalarOf,
    Scaled,
    Statement,
    Sum,
    TraceOf,
    Transposed,
    Zeros,
)
from derivations.language.simplified import (
    UNIT,
    added,
    diagonal_of,
    hadamard,
    inner_product,
    product,
    scaled,
    transposed,
)
from derivations.language.symbols import GateToken, Named, Token

Contribution = tuple[Basic, Basic]
"""Something that is read, and a term of its cotangent."""


def pullback(e: Basic, cotangent: Basic) -> dict[Basic, Basic]:
    """The cotangent of everything that an expression reads, in the order in which it is first read.

    Args:
        e: a matrix expression, or a scalar.
        cotangent: of the same shape; a scalar for a scalar.

    Returns:
        For each token, gate, named matrix and scalar symbol its cotangent, of its own shape.

    Raises:
        NoMeaning: an operation on the way has no rule.
    """
    terms: dict[Basic, list[Basic]] = {}
    for leaf, term in _contributions(e, cotangent):
        terms.setdefault(leaf, []).append(term)
    return {leaf: added(found) for leaf, found in terms.items()}


def is_read(e: Basic) -> bool:
    """Whether an expression is an input: a token, a named matrix, a scalar that is neither dimension nor position."""
    return isinstance(e, Named | Token | GateToken) or (isinstance(e, Symbol) and not e.is_integer)


def _is_constant(e: Basic) -> bool:
    named = e.atoms(Named)
    names = {x.args[0] for x in named}
    return not named and not any(is_read(x) and x not in names for x in e.atoms(Symbol))


def _contributions(e: Basic, g: Basic) -> Iterator[Contribution]:
    if is_read(e):
        yield e, g
    elif not _is_constant(e):
        yield from (_of_matrix if isinstance(e, Statement) else _of_scalar)(e, g)


def _of_matrix(e: Statement, g: Statement) -> Iterator[Contribution]:
    inner = e.args[0]
    match e:
        case Product():
            for k, factor in enumerate(e.args):
                before, after = map(transposed, reversed(e.args[:k])), map(transposed, reversed(e.args[k + 1 :]))
                yield from _contributions(factor, product(*before, g, *after))
        case Sum():
            for term in e.args:
                yield from _contributions(term, g)
        case Scaled():
            yield from _contributions(e.args[1], scaled(e.args[0], g))
            yield from _contributions(e.args[0], inner_product(e.args[1], g))
        case Hadamard():
            for k, factor in enumerate(e.args):
                yield from _contributions(factor, hadamard(g, *e.args[:k], *e.args[k + 1 :]))
        case Transposed():
            yield from _contributions(inner, transposed(g))
        case Inverted():
            yield from _contributions(inner, scaled(S.NegativeOne, product(transposed(e), g, transposed(e))))
        case Diagonal():
            yield from _contributions(inner, diagonal_of(g))
        case Exponential():
            yield from _contributions(inner, hadamard(g, e))
        case Reciprocal():
            yield from _contributions(inner, scaled(S.NegativeOne, hadamard(g, e, e)))
        case Below():
            for k, block in enumerate(e.args):
                yield from _contributions(block, product(_choosing(k, [a.shape[0] for a in e.args]), g))
        case Beside():
            for k, block in enumerate(e.args):
                chosen = transposed(_choosing(k, [a.shape[1] for a in e.args]))
                yield from _contributions(block, product(g, chosen))
        case _:
            raise NoMeaning(f"no rule for the pullback of {type(e).__name__}, in {e}")


def _choosing(position: int, sizes: list[Expr]) -> Statement:
    """[0, I, 0]: what picks the rows of one block out of a column of blocks."""
    own = sizes[position]
    if len(sizes) == 1:
        return Eye(own)
    return Beside(*(Eye(own) if k == position else Zeros(own, size) for k, size in enumerate(sizes)))


def _of_scalar(e: Expr, g: Expr) -> Iterator[Contribution]:
    inner = e.args[0]
    match e:
        case Add():
            for term in e.args:
                yield from _contributions(term, g)
        case Mul():
            for k, factor in enumerate(e.args):
                yield from _contributions(factor, Mul(g, *e.args[:k], *e.args[k + 1 :]))
        case Pow() if isinstance(e.exp, Rational):
            yield from _contributions(e.base, Mul(g, e.exp, e.base ** (e.exp - 1)))
        case ScalarExponential():
            yield from _contributions(inner, Mul(g, e))
        case ScalarOf():
            yield from _contributions(inner, scaled(g, UNIT))
        case TraceOf():
            yield from _contributions(inner, scaled(g, Eye(inner.shape[0])))
        case _:
            raise NoMeaning(f"no rule for the pullback of {type(e).__name__}, in {e}")
