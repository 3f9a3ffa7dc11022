"""What a matrix expression says about its own zeros, so that a triangular system is solved by substitution.

The rules look at the expression alone: I + D_beta ((K K^T) . M^-) is unit lower triangular because M^- is strictly
lower.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Basic

from derivations.language.expressions import (
    Diagonal,
    Exponential,
    Eye,
    Hadamard,
    Inverted,
    Logarithm,
    Product,
    Scaled,
    Sum,
    Transposed,
    Zeros,
)
from derivations.language.masks import CausalMask, Decay, ShiftedDecay, StrictDecay, StrictMask, Toeplitz


@dataclass(frozen=True)
class Structure:
    """Zeros above (`lower`) or below (`upper`) the diagonal, zeros on it (`strict`), or ones on it (`unit`)."""

    lower: bool = False
    upper: bool = False
    strict: bool = False
    unit: bool = False

    @property
    def transposed(self) -> Structure:
        return Structure(self.upper, self.lower, self.strict, self.unit)


GENERAL = Structure()


def structure(e: Basic) -> Structure:
    """The structure that follows from how `e` is written."""
    match e:
        case Eye():
            return Structure(lower=True, upper=True, unit=True)
        case Diagonal():
            return Structure(lower=True, upper=True)
        case Zeros():
            return Structure(lower=True, upper=True, strict=True)
        case StrictMask() | StrictDecay() | ShiftedDecay():
            return Structure(lower=True, strict=True)
        case Toeplitz():
            return Structure(lower=True)
        case Exponential():
            return _of_exponential(e.args[0])
        case CausalMask() | Decay():
            return Structure(lower=True, unit=True)
        case Transposed():
            return structure(e.args[0]).transposed
        case Inverted():
            return structure(e.args[0])
        case Scaled():
            inner = structure(e.args[1])
            return Structure(inner.lower, inner.upper, inner.strict, False)
        case Hadamard() | Sum() | Product():
            return _combined(e)
    return GENERAL


def _of_exponential(exponent: Basic) -> Structure:
    """exp(X + log M) has the zeros of M: log 0 is -oo."""
    terms = exponent.args if isinstance(exponent, Sum) else (exponent,)
    masks = [structure(term.args[0]) for term in terms if isinstance(term, Logarithm)]
    return Structure(*(any(getattr(mask, name) for mask in masks) for name in ("lower", "upper", "strict")))


def _combined(e: Basic) -> Structure:
    parts = [structure(a) for a in e.args]
    if isinstance(e, Hadamard):
        return Structure(
            any(p.lower for p in parts),
            any(p.upper for p in parts),
            any(p.strict for p in parts),
            all(p.unit for p in parts),
        )
    lower, upper = all(p.lower for p in parts), all(p.upper for p in parts)
    if isinstance(e, Sum):
        ones = sum(p.unit for p in parts)
        unit = ones == 1 and all(p.unit or p.strict for p in parts)
        return Structure(lower, upper, all(p.strict for p in parts), unit)
    triangular = lower or upper
    return Structure(
        lower, upper, triangular and any(p.strict for p in parts), triangular and all(p.unit for p in parts)
    )
