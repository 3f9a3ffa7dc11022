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


def _column(gates: Statement, needed: str = "a decay needs a column of gates") -> Statement:
    if gates.shape[1] != 1:
        raise ShapeError(f"{needed}, {text_of(gates)} is {shape_text(gates.shape)}")
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


class OverTokens(OfGates):
    """Products over the tokens of a column of gates, or of each column of an n x d matrix of gates."""

    def __new__(cls, gates: Statement) -> OverTokens:
        return Basic.__new__(cls, gates)

    shape = property(lambda self: self.args[0].shape)


class CumulativeProduct(OverTokens):
    """The rows gamma_1 ... gamma_i."""


class PrecedingProduct(OverTokens):
    """The rows gamma_1 ... gamma_{i-1}: how far a carried state has faded before token i."""


class RemainingProduct(OverTokens):
    """The rows gamma_{i+1} ... gamma_n: the last row of Gamma."""


class TotalProduct(ScalarNode):
    """The scalar gamma_1 ... gamma_n."""

    def __new__(cls, gates: Statement) -> TotalProduct:
        return Basic.__new__(cls, _column(gates))


class TotalProducts(Statement):
    """alpha_1 ... alpha_n of an n x d matrix of gates, as a column: one product for each channel."""

    def __new__(cls, gates: Statement) -> TotalProducts:
        return Basic.__new__(cls, gates)

    shape = property(lambda self: (self.args[0].shape[1], S.One))


class Toeplitz(Statement):
    """The convolution with a column c: entry (i, j) is c_{i-j+1} for i >= j, else 0."""

    def __new__(cls, column: Statement) -> Toeplitz:
        return Basic.__new__(cls, _column(column, "a convolution needs a column"))

    shape = property(lambda self: (self.args[0].shape[0], self.args[0].shape[0]))


def total(gates: Statement) -> Expr | Statement:
    """The product of the gates of all tokens: a scalar for a column, a column for a matrix of gates."""
    return TotalProduct(gates) if gates.shape[1] == 1 else TotalProducts(gates)


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
