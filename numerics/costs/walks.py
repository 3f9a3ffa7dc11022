"""A form walked with sizes alone, and every number that is read off that walk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sympy import Basic, Symbol

from derivations.language.forms import Form
from derivations.language.symbols import Named, n
from numerics.algebras.counting import Counting, Sized
from numerics.costs.chain import longest_chain
from numerics.costs.last_row import LastRow, last_row
from numerics.costs.memory import live_numbers
from numerics.evaluate import CHUNK
from numerics.inputs import shape_of
from numerics.run import run


@dataclass(frozen=True)
class Walk:
    """What was counted at one choice of sizes."""

    algebra: Counting
    output: Sized
    states: tuple[Sized, ...]
    sequences: frozenset[int]
    """Which inputs have a row for each token, by their places in the trace."""

    def number(self, quantity: str) -> int:
        """What was counted under a name: one that `Counting.quantity` has, or one of these.

        "longest chain" is the number of steps on it; "row multiplications", "row additions", "row exponentials" and
        "row divisions" are for the last row alone; "row kept" are the numbers of the sequences that are read further
        back for it.
        """
        if quantity == "longest chain":
            return longest_chain(self.algebra.operations, (self.output.made_by, *self._final))
        if quantity == "row kept":
            return sum(self.algebra.operations[k].size for k in self.last_row.kept if k in self.sequences)
        if quantity.startswith("row "):
            return getattr(self.last_row.work, quantity.removeprefix("row "))
        return self.algebra.quantity(quantity, self.output)

    @cached_property
    def live(self) -> list[int]:
        """How many numbers are alive after each operation."""
        return live_numbers(self.algebra.operations, self.output.made_by, self._final)

    @cached_property
    def last_row(self) -> LastRow:
        """What the last row of the output takes by itself."""
        return last_row(self.algebra.operations, self.output.made_by)

    @property
    def _final(self) -> tuple[int, ...]:
        return tuple(state.made_by for state in self.states)


def walk(form: Form, sizes: Mapping[Symbol, int]) -> Walk:
    """Walks a form.

    Args:
        form: what is evaluated, from any initial state.
        sizes: a value for each dimension; the size of a block, C, is n where it isn't given.

    Raises:
        NoMeaning: the form has no count, a logarithm for example.
    """
    algebra = Counting()
    env: dict[Any, Any] = {CHUNK: sizes[n], **sizes}
    sequences = set()
    for x in sorted(form.symbols() | set(form.states), key=str):
        env[x] = algebra.given(*shape_of(x, env))
        if _is_sequence(x):
            sequences.add(env[x].made_by)
    outcome = run(form, env, algebra)
    return Walk(algebra, outcome.output, outcome.states, frozenset(sequences))


def _is_sequence(x: Basic) -> bool:
    return isinstance(x, Named) and x.shape[0] == n
