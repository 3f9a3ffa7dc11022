"""Assumptions: what an identity asks of its inputs. Inputs are drawn from them, and each one is shown to be needed.

`assume(eta[t] >= 0)` holds for every token t; `assume(Eq(norm_squared(W[t]), 2))` is a relation between the entries
of a token; `invertible(H)` asks that a matrix has an inverse.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Basic, Eq, Ge, Gt, Le, Lt, Ne, Rel, Symbol
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom

from derivations.language.errors import StatementError
from derivations.language.expressions import Diagonal, Ones, ScalarOf, Statement, Sum, diag
from derivations.language.forms import free_inputs, sequence_of
from derivations.language.printing import Printer, Style
from derivations.language.symbols import GateToken, Named, Token, t

SIGNS = {Ge: (">=", r"\ge"), Gt: (">", ">"), Le: ("<=", r"\le"), Lt: ("<", "<"), Eq: ("=", "="), Ne: ("!=", r"\ne")}


@dataclass(frozen=True)
class Assumption:
    """A relation that the inputs fulfil at every token, or a matrix that has to be invertible.

    `needed_because` says in words what fails without it; that it does fail is computed.
    """

    condition: Relational | Statement
    needed_because: str = ""

    def subjects(self) -> set[Basic]:
        """The inputs that the condition speaks about."""
        return {sequence_of(x) for x in free_inputs(self.condition)}

    def write(self, style: Style) -> str:
        """The condition in the given style."""
        printer = Printer(style)
        if isinstance(self.condition, Diagonal):
            column = printer(self.condition.args[0])
            return f"{column} != 0 everywhere" if style.hadamard == " ⊙ " else rf"{column} \ne 0\ \text{{everywhere}}"
        if isinstance(self.condition, Statement):
            return (
                f"{printer(self.condition)} invertible"
                if style.hadamard == " ⊙ "
                else rf"{printer(self.condition)}\ \text{{invertible}}"
            )
        sign = SIGNS[type(self.condition)][0 if style.hadamard == " ⊙ " else 1]
        return f"{printer(self.condition.lhs)} {sign} {printer(self.condition.rhs)}"

    def __str__(self) -> str:
        from derivations.language.printing import TEXT

        return self.write(TEXT)

    @property
    def norm_of(self) -> tuple[Token, Basic] | None:
        """(w_t, c) where the condition is |w_t|^2 = c."""
        condition = self.condition
        if isinstance(condition, Eq) and isinstance(condition.lhs, ScalarOf):
            token = condition.lhs.args[0].args[-1]
            if isinstance(token, Token) and condition.lhs == ScalarOf(token.T @ token):
                return token, condition.rhs
        return None

    @property
    def circle_of(self) -> tuple[Named, Named] | None:
        """(C, S) where the condition is C . C + S . S = 1, entry by entry."""
        condition = self.condition
        if isinstance(condition, Eq) and isinstance(condition.rhs, Ones) and isinstance(condition.lhs, Sum):
            squares = [term.args[0] for term in condition.lhs.args]
            if condition.lhs == _sum_of_squares(*squares):
                return squares[0], squares[1]
        return None

    @property
    def sign_of(self) -> tuple[GateToken | Symbol, str] | None:
        """(gate token or scalar, ">=" or ">") where the condition is a sign."""
        condition = self.condition
        if isinstance(condition, Ge | Gt) and condition.rhs == 0 and isinstance(condition.lhs, GateToken | Symbol):
            return condition.lhs, ">=" if isinstance(condition, Ge) else ">"
        return None


def assume(condition: Rel, needed_because: str = "") -> Assumption:
    """A relation that holds at every token t."""
    if isinstance(condition, BooleanAtom | bool):
        raise StatementError(f"this assumption is {condition} whatever the inputs are: it says nothing about them")
    for token in condition.atoms(Token, GateToken):
        if token.index != t:
            raise StatementError(f"an assumption is stated at position t, {token} is at {token.index}")
    return Assumption(condition, needed_because)


def on_unit_circle(cosine: Named, sine: Named, needed_because: str = "") -> Assumption:
    """Each entry of `cosine` and that of `sine` at the same place are the cosine and the sine of one angle."""
    return Assumption(Eq(_sum_of_squares(cosine, sine), Ones(*cosine.shape), evaluate=False), needed_because)


def _sum_of_squares(*matrices: Statement) -> Statement:
    return Sum(*(x.hadamard(x) for x in matrices))


def nonzero(column: Statement, needed_because: str = "") -> Assumption:
    """No entry of a column is zero, at any token."""
    return Assumption(diag(column), needed_because)


def invertible(matrix: Statement, needed_because: str = "") -> Assumption:
    """The matrix has an inverse."""
    return Assumption(matrix, needed_because)
