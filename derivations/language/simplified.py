r"""Products, transposes, sums and traces that are built in the shortest form: k_t instead of 1 k_t, (A B)^T = B^T A^T.

The operators of the language keep what was written. What is derived by rules (a derivative, a pullback) was written by
nobody, and should read like a formula of a paper: <v k^T, G> is the scalar v^T G k, and the diagonal of u v^T is u . v.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy import Add, Expr, Mul, S

from derivations.language.expressions import (
    Diagonal,
    Eye,
    Hadamard,
    Inverted,
    Ones,
    Product,
    Scaled,
    ScalarOf,
    Statement,
    Sum,
    TraceOf,
    Transposed,
)

UNIT = Ones(S.One, S.One)
"""The 1 x 1 matrix that is one."""


def scaled(factor: Expr, matrix: Statement) -> Statement:
    """factor matrix, without a factor of one."""
    if isinstance(matrix, Scaled):
        factor, matrix = Mul(factor, matrix.args[0]), matrix.args[1]
    return matrix if factor == 1 else Scaled(factor, matrix)


def product(*factors: Statement) -> Statement:
    """A matrix product: scalars in front, identities left out, without brackets."""
    scale: Expr = S.One
    kept: list[Statement] = []
    waiting = list(reversed(factors))
    while waiting:
        factor = waiting.pop()
        if isinstance(factor, Scaled):
            scale = Mul(scale, factor.args[0])
            waiting.append(factor.args[1])
        elif isinstance(factor, Product):
            waiting += reversed(factor.args)
        elif not isinstance(factor, Eye) and factor != UNIT:
            kept.append(factor)
    if not kept:
        return scaled(scale, factors[0] if isinstance(factors[0], Eye) else UNIT)
    return scaled(scale, kept[0] if len(kept) == 1 else Product(*kept))


def transposed(e: Statement) -> Statement:
    """The transpose, moved inside products and inverses."""
    match e:
        case Transposed():
            return e.args[0]
        case Diagonal() | Eye():
            return e
        case Ones():
            return Ones(e.shape[1], e.shape[0])
        case Scaled():
            return scaled(e.args[0], transposed(e.args[1]))
        case Product():
            return product(*map(transposed, reversed(e.args)))
        case Inverted():
            return Inverted(transposed(e.args[0]))
        case Sum() if _is_symmetric(e):
            return e
    return e.T


def _is_symmetric(e: Sum) -> bool:
    """Whether each term is symmetric as it is written, as in I - beta k k^T."""
    return all(transposed(term) == product(term) for term in e.args)


def hadamard(*factors: Statement) -> Statement:
    """An entrywise product: scalars in front, matrices of ones left out, A^T . B^T as (A . B)^T."""
    scale: Expr = S.One
    kept: list[Statement] = []
    for factor in factors:
        if isinstance(factor, Scaled):
            scale, factor = Mul(scale, factor.args[0]), factor.args[1]
        if not isinstance(factor, Ones):
            kept += factor.args if isinstance(factor, Hadamard) else [factor]
    if not kept:
        return scaled(scale, factors[0])
    if len(kept) > 1 and all(isinstance(factor, Transposed) for factor in kept):
        return scaled(scale, Transposed(Hadamard(*(factor.args[0] for factor in kept))))
    return scaled(scale, kept[0] if len(kept) == 1 else Hadamard(*kept))


def added(terms: Sequence[Statement | Expr]) -> Statement | Expr:
    """A sum of scalars, or of matrices: those that differ only in their scalars are one term."""
    if not isinstance(terms[0], Statement):
        return Add(*terms)
    scales: dict[Statement, Expr] = {}
    for term in terms:
        scale, matrix = term.args if isinstance(term, Scaled) else (S.One, term)
        scales[matrix] = scales.get(matrix, S.Zero) + scale
    together = [scaled(scale, matrix) for matrix, scale in scales.items()]
    return together[0] if len(together) == 1 else Sum(*together)


def factors_of(e: Statement) -> tuple[Statement, ...]:
    """The factors of a product; anything else is its own."""
    return e.args if isinstance(e, Product) else (e,)


def trace_of(e: Statement) -> Expr:
    """The trace; of a product with a column or row in it, the scalar that turning the factors round makes of it."""
    if isinstance(e, Scaled):
        return Mul(e.args[0], trace_of(e.args[1]))
    if e == UNIT:
        return S.One
    factors = factors_of(e)
    first = next((k for k, factor in enumerate(factors) if factor.shape[0] == 1), None)
    if first is None:
        return TraceOf(e)
    turned = product(*factors[first:], *factors[:first])
    return Mul(turned.args[0], ScalarOf(turned.args[1])) if isinstance(turned, Scaled) else ScalarOf(turned)


def inner_product(a: Statement, b: Statement) -> Expr:
    """<A, B> = tr(A^T B), the sum of the products of the entries."""
    return trace_of(product(transposed(a), b))


def diagonal_of(e: Statement) -> Statement:
    """The diagonal of a square matrix as a column: of u v^T it is u . v, of A B it is (A . B^T) 1."""
    match e:
        case Sum():
            return Sum(*map(diagonal_of, e.args))
        case Scaled():
            return scaled(e.args[0], diagonal_of(e.args[1]))
        case Transposed():
            return diagonal_of(e.args[0])
    factors = factors_of(e)
    if len(factors) == 1:
        return product(hadamard(e, Eye(e.shape[0])), Ones(e.shape[0], S.One))
    cut = next((k for k, factor in enumerate(factors) if k and factor.shape[0] == 1), 1)
    left, right = product(*factors[:cut]), transposed(product(*factors[cut:]))
    return product(hadamard(left, right), Ones(left.shape[1], S.One))
