"""From which length on one form takes fewer operations than another, exactly."""

from __future__ import annotations

from sympy import Expr, Poly, floor, real_roots

from derivations.language.symbols import n


def cheaper_from(cost: Expr, other: Expr) -> int | None:
    """The smallest length from which on a cost is smaller than another one, at every length; None if there is none.

    Args:
        cost, other: polynomials in n with rational coefficients.
    """
    less = Poly(other - cost, n)
    if less.LC() <= 0:
        return None
    last = max(real_roots(less), default=None) if less.degree() else None
    return 1 if last is None else max(1, int(floor(last)) + 1)
