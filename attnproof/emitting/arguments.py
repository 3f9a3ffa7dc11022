"""What an emitted function is called with and what it returns: names and layouts of arguments, states and output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sympy import Basic

from attnproof.emitting.helpers import HELPERS
from attnproof.emitting.layouts import Layout, chosen
from attnproof.emitting.names import Names, in_order, is_dimension
from derivations.language.forms import Form
from derivations.language.symbols import Sequence as TokenSequence
from derivations.language.symbols import State

OUTPUT = "o"


@dataclass(frozen=True)
class Arguments:
    """What the function is called with, and what it returns.

    Args:
        inputs: the symbol of each argument, by the name that it has in the formulas.
        states: the symbol of each state, by the name of its initial value.
        output: a symbol of the output's shape.
        called: what each symbol is called in the formulas.
        layouts: by the names in `inputs` and of the states, and of the output.
    """

    inputs: dict[str, Basic]
    states: dict[str, State]
    output: Basic
    called: Mapping[Basic, str]
    layouts: Mapping[str, Layout]

    def layout_of(self, state: State) -> Layout:
        """The layout of a state."""
        return self.layouts[self.called[state]]

    def passed(self, name: str) -> str:
        """The argument's name in the signature: a logarithm says that it is one."""
        scale = self.layouts[name].scale
        return name if scale == "linear" else f"{scale}_{name}"


def arguments_of(form: Form, layouts: Sequence[str] = (), names: Names | None = None) -> Arguments:
    """What a form is called with in code, and in which layouts.

    Raises:
        LayoutError: a layout doesn't fit.
    """
    symbols = in_order(x for x in form.symbols() if not is_dimension(x))
    called = (names or Names(HELPERS)).of_symbols([*symbols, *form.states])
    alone = len(form.states) == 1
    states = {"initial_state" if alone else f"initial_{called[x]}": x for x in form.states}
    inputs, output = {called[x]: x for x in symbols}, TokenSequence("output", *form.shape)
    known: dict[str, Basic] = {**inputs, **{called[x]: x for x in form.states}, OUTPUT: output}
    return Arguments(inputs, states, output, called, chosen(known, layouts))
