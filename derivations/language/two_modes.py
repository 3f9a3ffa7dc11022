r"""The two modes of differentiation of a recurrence, as two sides of one identity.

    <dO, O'> + <dS_n, S_n'> = sum over the inputs x of <dx, x'>

for every direction x' of the inputs, where O' and S_n' are the derivatives of the outputs along it (forward mode), and
dx are the cotangents of a backward pass (reverse mode). Both sides are linear in x', so that the identity holds for all
directions exactly where every entry of every dx is the derivative. What the inputs are the left side reads off the
recurrence, and the right side off the backward pass, so that one that was forgotten shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from sympy import Basic, S, Symbol

from derivations.language.adjoint import Adjoint, cotangent_of, cotangent_of_output, given_to, inputs_of
from derivations.language.expressions import Shape
from derivations.language.forms import Form, Recurrence
from derivations.language.printing import Printer, Style
from derivations.language.symbols import Named

ONE_NUMBER: Shape = (S.One, S.One)
CHANGE_OF_LOSS = Symbol("Ldot")
"""The derivative of L = <dO, O> + <dS_n, S_n> along a direction, which both sides are."""


@cache
def direction(x: Basic) -> Basic:
    """x', written as x with a dot: a small change of the input x is a small multiple of it."""
    base, *index = str(x).split("_", 1)
    name = "_".join([f"{base}dot", *index])
    return type(x)(name, *x.shape) if isinstance(x, Named) else Symbol(name)


def _pairing(style: Style, left: str, right: str) -> str:
    return rf"\langle {left}, {right} \rangle" if "\\" in style.brackets else f"<{left}, {right}>"


@dataclass(frozen=True)
class ForwardMode(Form):
    """<dO, O'> + <dS_n, S_n'> for a direction of the inputs, 1 x 1."""

    recurrence: Recurrence
    shape: Shape = ONE_NUMBER

    def expressions(self) -> dict[str, Basic]:
        return self.recurrence.expressions()

    def with_expressions(self, changed: Mapping[str, Basic]) -> ForwardMode:
        return replace(self, recurrence=self.recurrence.with_expressions(changed))

    def symbols(self) -> set[Basic]:
        return given_to(self.recurrence) | set(map(direction, inputs_of(self.recurrence)))

    def lines(self, style: Style) -> list[tuple[str, str]]:
        write = Printer(style)
        last = lambda x: style.subscript(write(x), "n")
        parts = [_pairing(style, write(cotangent_of_output(self.recurrence)), write(Symbol("Odot")))]
        parts += [_pairing(style, last(cotangent_of(x)), last(direction(x))) for x in self.recurrence.states]
        return [*self.recurrence.lines(style), (write(CHANGE_OF_LOSS), " + ".join(parts))]


@dataclass(frozen=True)
class ReverseMode(Form):
    """The sum of <dx, x'> over the inputs x, 1 x 1, with the cotangents dx of a backward pass."""

    adjoint: Adjoint
    shape: Shape = ONE_NUMBER

    def expressions(self) -> dict[str, Basic]:
        return self.adjoint.expressions()

    def with_expressions(self, changed: Mapping[str, Basic]) -> ReverseMode:
        return replace(self, adjoint=self.adjoint.with_expressions(changed))

    def symbols(self) -> set[Basic]:
        return given_to(self.adjoint.recurrence) | set(map(direction, self.adjoint.inputs))

    def lines(self, style: Style) -> list[tuple[str, str]]:
        write = Printer(style)
        parts = [_pairing(style, f"d{write(x)}", write(direction(x))) for x in self.adjoint.inputs]
        return [*self.adjoint.lines(style), (write(CHANGE_OF_LOSS), " + ".join(parts))]
