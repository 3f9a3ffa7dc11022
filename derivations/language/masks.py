r"""The masks, and sums and products over tokens.

M_ij = [i >= j];  M^- = M - I;  Gamma_ij = prod_{tau=j+1..i} gamma_tau for i >= j, else 0;  Gamma^- = Gamma - I;
Gamma^sh_ij = prod_{tau=j+1..i-1} gamma_tau for i > j, else 0 (the decay seen by a read that comes before the write's
own decay).
"""

from __future__ import annotations

from sympy import Basic, Expr, S, Symbol, sympify

from derivations.language.errors import ShapeError
from derivations.language.expressions import Eye, Ones, ScalarNode, Shape, Statement, shape_text
from derivations.language.printing import text_of


class CausalMask(Statement):
    """M: ones on and below the diagonal."""

    def __new__(cls, size: Expr) -> CausalMask:
        return Basic.__new__(cls, sympify(size))

    shape = property(lambda self: (self.args[0], self.args[0]))


class StrictMask(CausalMask):
    """M^-: ones below the diagonal."""


def _column(gates: Statement) -> Statement:
    if gates.shape[1] != 1:
        raise ShapeError(f"a decay needs a column of gates, {text_of(gates)} is {shape_text(gates.shape)}")
    return gates


class OfGates(Statement):
    """Something that is made of the cumulative products of one column of gates."""

    def __new__(cls, gates: Statement) -> OfGates:
        return Basic.__new__(cls, _column(gates))

    gates = property(lambda self: self.args[0])

    @property
    def shape(self) -> Shape:
        return self.args[0].shape[0], self.args[0].shape[0]


class Decay(OfGates):
    """Gamma: the decay from position j to position i, with ones on the diagonal."""


class StrictDecay(OfGates):
    """Gamma^- = Gamma - I."""


class ShiftedDecay(OfGates):
    """Gamma^sh: as Gamma^-, without the gate of row i itself."""


class CumulativeProduct(OfGates):
    """The column of gamma_1 ... gamma_i."""

    shape = property(lambda self: self.args[0].shape)


class RemainingProduct(OfGates):
    """The column of gamma_{i+1} ... gamma_n: the last row of Gamma."""

    shape = property(lambda self: self.args[0].shape)


class TotalProduct(ScalarNode):
    """The scalar gamma_1 ... gamma_n."""

    def __new__(cls, gates: Statement) -> TotalProduct:
        return Basic.__new__(cls, _column(gates))


def constant(value: Expr, length: Expr) -> Statement:
    """The same gate at every token, as a column."""
    return sympify(value) * Ones(length, S.One)


class TokenSum(Statement):
    """The sum of a matrix expression over the positions `index` = lower .. upper (empty if upper < lower)."""

    def __new__(cls, summand: Statement, index: Symbol, lower: Expr, upper: Expr) -> TokenSum:
        return Basic.__new__(cls, summand, index, sympify(lower), sympify(upper))

    @property
    def shape(self) -> Shape:
        return self.args[0].shape


class GateProduct(ScalarNode):
    """The product of a scalar expression over positions lower .. upper (one if empty)."""

    def __new__(cls, factor: Expr, index: Symbol, lower: Expr, upper: Expr) -> GateProduct:
        return Basic.__new__(cls, sympify(factor), index, sympify(lower), sympify(upper))


def eye(size: Expr) -> Eye:
    """The identity matrix."""
    return Eye(size)
