"""The derivative of a statement along a direction: d/dz f(X + z E) at z = 0, as a statement again.

It is linear in E, and zero for every E exactly where the gradient is zero. SymPy's own matrix derivative isn't used:
in 1.14 `Trace((S*K.T - V.T)*D*(S*K.T - V.T).T).diff(S)` is 0.
"""

from __future__ import annotations

from sympy import Add, Basic, Expr, Integer, Mul, Pow, S

from derivations.language.errors import NoMeaning
from derivations.language.expressions import (
    Below,
    Beside,
    Diagonal,
    Exponential,
    Hadamard,
    Inverted,
    Product,
    ScalarExponential,
    ScalarOf,
    Statement,
    Sum,
    TraceOf,
    Transposed,
    Zeros,
)
from derivations.language.masks import TokenSum
from derivations.language.symbols import Named


def derivative(e: Basic, variable: Named, along: Statement) -> Basic:
    """The derivative of a matrix expression or scalar with respect to a named matrix, along a direction of the same
    shape.

    Raises:
        NoMeaning: an operation on the way has no rule.
    """
    if e == variable:
        return along
    if not e.has(variable):
        return Zeros(*e.shape) if isinstance(e, Statement) else S.Zero
    match e:
        case Product() | Hadamard() | Mul():  # a scaled matrix is a Mul as well
            return _added(
                [_replaced(e, k, derivative(a, variable, along)) for k, a in enumerate(e.args) if a.has(variable)]
            )
        case Sum() | Add():
            return _added([derivative(a, variable, along) for a in e.args if a.has(variable)])
        case Transposed() | ScalarOf() | TraceOf() | Diagonal():
            return type(e)(derivative(e.args[0], variable, along))
        case Inverted():
            return -(e @ derivative(e.args[0], variable, along) @ e)
        case Exponential():
            return e.hadamard(derivative(e.args[0], variable, along))
        case ScalarExponential():
            return e * derivative(e.args[0], variable, along)
        case Below() | Beside():
            return type(e)(*(derivative(a, variable, along) for a in e.args))
        case TokenSum():
            return TokenSum(derivative(e.args[0], variable, along), *e.args[1:])
        case Pow() if isinstance(e.exp, Integer):
            return e.exp * e.base ** (e.exp - 1) * derivative(e.base, variable, along)
    raise NoMeaning(f"no rule for the derivative of {type(e).__name__}")


def _replaced(e: Basic, position: int, value: Basic) -> Basic:
    return e.func(*(value if k == position else a for k, a in enumerate(e.args)))


def _added(terms: list[Basic]) -> Basic:
    if isinstance(terms[0], Statement):
        return terms[0] if len(terms) == 1 else Sum(*terms)
    return Expr.__add__(terms[0], _added(terms[1:])) if len(terms) > 1 else terms[0]
