"""What statements speak about: sequences and their tokens, gates, states, parameters, positions.

A sequence K is the n x d matrix whose rows are tokens; `K[t]` is the token k_t as a column. A gate gamma is a
sequence of scalars; `gamma[t]` is the scalar gamma_t, and the gate by itself is the n x 1 column.
"""

from __future__ import annotations

from typing import Any

from sympy import Basic, Expr, MatrixSymbol, S, Symbol, sympify

from derivations.language.expressions import ScalarNode, Shape, Statement, dimension

n, d_k, d_v = dimension("n"), dimension("d_k"), dimension("d_v")
"""The length of a sequence, the width of queries and keys, the width of values."""


def position(name: str) -> Symbol:
    """A position in a sequence, counted from 1."""
    return Symbol(name, integer=True)


t, i, j, s, tau = (position(name) for name in ("t", "i", "j", "s", "tau"))
"""Positions: t is the current token, i and j a row and a column, s and tau run."""


class Named(Statement, MatrixSymbol):
    """A matrix with a name."""

    def __new__(cls, name: str, rows: Expr, columns: Expr = S.One) -> Named:
        return Basic.__new__(cls, _as_symbol(name), sympify(rows), sympify(columns))

    shape = property(lambda self: (self.args[1], self.args[2]))


def _as_symbol(name: Any) -> Symbol:
    return name if isinstance(name, Symbol) else Symbol(str(name))


class Sequence(Named):
    """A sequence of tokens, n x d: one row a token."""

    def __getitem__(self, index: Any) -> Any:
        return Token(self, index) if isinstance(index, Expr) else super().__getitem__(index)


class ChannelGate(Sequence):
    """A gate for each channel, n x d: `alpha[t]` is the column of the gates of token t."""


class Gate(Named):
    """A sequence of scalars, n x 1."""

    def __new__(cls, name: str, rows: Expr = n, columns: Expr = S.One) -> Gate:
        return super().__new__(cls, name, rows, columns)

    def __getitem__(self, index: Any) -> Any:
        return GateToken(self, index) if isinstance(index, Expr) else super().__getitem__(index)


class State(Named):
    """A matrix that a recurrence carries from one token to the next."""


class Parameter(Named):
    """A matrix or column that is the same for all tokens."""


class Token(Statement):
    """One token of a sequence, as a column."""

    def __new__(cls, sequence: Sequence, index: Expr) -> Token:
        return Basic.__new__(cls, sequence, sympify(index))

    sequence = property(lambda self: self.args[0])
    index = property(lambda self: self.args[1])

    @property
    def shape(self) -> Shape:
        return self.args[0].shape[1], S.One


class GateToken(ScalarNode):
    """One scalar of a gate."""

    def __new__(cls, gate: Gate, index: Expr) -> GateToken:
        return Basic.__new__(cls, gate, sympify(index))

    sequence = property(lambda self: self.args[0])
    index = property(lambda self: self.args[1])
