"""The walk over a form that writes it as the lines of a function: a loop over tokens or blocks, or one expression."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, field, replace
from typing import Any

from sympy import Basic, sympify

from attnproof.emitting.expressions import NotEmittable, Writer
from attnproof.emitting.lines import INDENT, Body
from attnproof.emitting.names import Names
from attnproof.emitting.shared import MASKS, as_symbol, named, parts_to_name
from derivations.language.adjoint import written
from derivations.language.forms import (
    Chunkwise,
    Closed,
    Defined,
    Form,
    Recurrence,
    Substituted,
    TokenRows,
    Transport,
    sequence_of,
)
from derivations.language.printing import TEXT, Printer
from derivations.language.symbols import GateToken, Named, Sequence, State, Token, i, j, n, s, t

Begin = Callable[["Scope", State, Basic | None], None]
"""Writes the lines that give a state its first value: zeros, or an expression, or what the caller passes."""


@dataclass(frozen=True)
class Scope:
    """Where lines are written, and what has a name there.

    Args:
        body: the lines so far.
        write: writes expressions.
        names: every name that was given out.
        authors: the names that the module of the derivation gives to expressions.
        begin: begins a state.
        said: how symbols are written in the docstring.
        stand_ins: what stands there for the parts that have a name.
    """

    body: Body
    write: Writer
    names: Names
    authors: Mapping[Basic, str]
    begin: Begin
    said: Mapping[Basic, str] = field(default_factory=dict)
    stand_ins: Mapping[Basic, Basic] = field(default_factory=dict)

    def within(self, names: Mapping[Basic, str], said: Mapping[Basic, str] | None = None, **changes: Any) -> Scope:
        """An inner scope, where more has a name."""
        return replace(self, write=self.write.within(names, **changes), said={**self.said, **(said or {})})

    def line(self, name: str, left: str, e: Basic) -> None:
        """`name = e`, and the equation in the docstring."""
        code = self.write(e)
        shown = Printer(TEXT, self.said)(e.xreplace(dict(self.stand_ins)))
        sign = "" if left.endswith("<-") else " ="
        self.body.add(f"{name} = {code}", self.body.equation(f"{left}{sign} {shown}"))

    def with_parts(self, parts: Many[Basic]) -> Scope:
        """A line for each part, and the scope in which they have these names."""
        scope = self
        for e, name in named(parts, self.names, self.authors).items():
            if isinstance(e, MASKS):
                scope.body.add(f"{name} = {scope.write(e)}")
                scope = scope.within({e: name})
            else:
                scope.line(name, name, e)
                scope = replace(scope.within({e: name}), stand_ins={**scope.stand_ins, e: as_symbol(e, name)})
        return scope


def write_form(form: Form, result: str, scope: Scope, left: str = "") -> None:
    """Writes the lines that compute a form.

    Args:
        form: what is computed.
        result: the name of its output in the code.
        scope: where the lines go.
        left: the left side of the output's equation, where it isn't the form's own.

    Raises:
        NotEmittable: it, or a part of it, can't be written as code.
    """
    match form:
        case Closed():
            inner = scope.with_parts(parts_to_name([form.expression], scope.write.names))
            inner.line(result, left or form.name, form.expression)
        case TokenRows():
            _rows(form.row, None, result, scope, left or f"{form.name}_t")
        case Transport():
            _transport(form, result, scope)
        case Chunkwise():
            _chunkwise(form, result, scope)
        case Recurrence():
            _recurrence(form, result, scope, left or "o_t")
        case Substituted():
            write_form(form.form, result, _substituted(form, scope), left)
        case Defined():
            write_form(form.form, result, _defined(form, scope), left)
        case _:
            raise NotEmittable(f"there is no rule that writes the form {type(form).__name__} as code")


def _tokens(formulas: Iterable[Basic], scope: Scope, index: Any = t, name: str = "t") -> Scope:
    """Writes the line that takes one token of each sequence; in the scope it has a name."""
    read: set[Any] = {x for e in formulas for x in e.atoms(Token, GateToken)}
    found = sorted((x for x in read if x.index == index), key=_order(scope))
    sequences = [scope.write(x.sequence) for x in found]
    own = {x: scope.names.again(x, f"{y.rstrip('_')}_{name}") for x, y in zip(found, sequences, strict=True)}
    if found:
        scope.write.helpers.add("token")
        taken = (
            f"(token(x, {name}) for x in ({', '.join(sequences)}))"
            if len(found) > 1
            else f"token({sequences[0]}, {name})"
        )
        scope.body.add(f"{', '.join(own.values())} = {taken}")
    return scope.within(own, shifts={**scope.write.shifts, index: name})


def _order(scope: Scope) -> Callable[[Any], tuple[int, str]]:
    """As the arguments stand in the signature."""
    known = list(scope.write.names)
    return lambda x: (known.index(x.sequence), str(x)) if x.sequence in known else (len(known), str(x))


def _constants(formulas: Many[Any], scope: Scope) -> Scope:
    """The masks that are the same in every turn of a loop, in front of it."""
    parts = [e for e in parts_to_name(formulas, scope.write.names) if isinstance(e, MASKS) and not e.atoms(Named)]
    return scope.with_parts(parts)


def _recurrence(form: Recurrence, result: str, scope: Scope, left: str) -> None:
    after = form.read == "after"
    moved: dict[Basic, Basic] = {x: written(x) for x in form.states} if after else {}
    readout = form.readout.xreplace(moved)
    formulas = [*form.updates, readout]
    states = _begun(form, scope)
    scope = _constants(formulas, scope.within(states | {moved[x]: name for x, name in states.items() if after}))
    outputs, output = _list_for(result, scope), _row_of(result, scope)
    with scope.body.block(f"for t in range({scope.write.number(n)}):"):
        inner = _tokens(formulas, scope.within({}, _said_states(form.states)))
        inner, later = _parts_of_step(formulas, moved, inner)
        if not after:
            inner.line(output, left, readout)
        _updates(form, states, "t", inner)
        if after:
            inner.with_parts(later).line(output, left, readout)
        scope.body.add(f"{outputs}.append({output})")
    _stacked(result, outputs, scope)


def _begun(form: Recurrence, scope: Scope) -> dict[Basic, str]:
    """Writes the first value of each state, and gives its name."""
    states: dict[Basic, str] = {
        x: scope.write.names[x] if x in scope.write.names else scope.names.again(x, str(x)) for x in form.states
    }
    inner = scope.within(states)
    for k, x in enumerate(form.states):
        inner.begin(inner, x, None if form.initial is None else form.initial[k])
    return states


def _parts_of_step(formulas: Many[Basic], moved: Mapping[Basic, Basic], scope: Scope) -> tuple[Scope, list[Basic]]:
    """Names what can be computed before the update; the rest reads the new states."""
    parts = parts_to_name(formulas, scope.write.names)
    later = [e for e in parts if any(e.has(x) for x in moved.values())]
    return scope.with_parts([e for e in parts if e not in later]), later


def _said_states(states: Iterable[State]) -> dict[Basic, str]:
    plain = Printer(TEXT)
    before: dict[Basic, str] = {x: TEXT.subscript(plain(x), "t-1") for x in states}
    return before | {written(x): TEXT.subscript(plain(x), "t") for x in states}


def _updates(form: Recurrence, states: Mapping[Basic, str], index: str, scope: Scope) -> None:
    """The new states; one that a later update still reads gets its new value at the end."""
    waiting: dict[str, str] = {}
    for k, (state, update) in enumerate(zip(form.states, form.updates, strict=True)):
        still_read = any(later.has(state) for later in form.updates[k + 1 :])
        name = states[state]
        if still_read:
            waiting[name] = scope.names.new(f"next_{name}")
        left = TEXT.subscript(str(state), index) if index == "t" else f"{state} after the block"
        scope.line(waiting.get(name, name), left, update)
    if waiting:
        scope.body.add(f"{', '.join(waiting)} = {', '.join(waiting.values())}")


def _list_for(result: str, scope: Scope) -> str:
    """The empty list that rows or blocks of the output are put into."""
    name = "outputs" if result == "o" else scope.names.new(f"{result.rstrip('_')}_columns")
    scope.body.add(f"{name} = []")
    return name


def _row_of(result: str, scope: Scope) -> str:
    return "o_t" if result == "o" else scope.names.new(f"{result.rstrip('_')}_t")


def _stacked(result: str, columns: str, scope: Scope) -> None:
    scope.write.helpers.add("rows")
    scope.body.add(f"{result} = rows({columns})")


def _chunkwise(form: Chunkwise, result: str, scope: Scope) -> None:
    formulas = [*form.updates, form.readout]
    if form.read == "after":
        raise NotEmittable("a chunkwise form that reads the state after the block is not written as code")
    states = _begun(form, scope)
    scope = _constants([e for e in formulas if not e.has(n)], scope.within(states))
    outputs = _list_for(result, scope)
    with scope.body.block(f"for first in range(0, {scope.write.number(n)}, chunk_size):"):
        inner, size = _block(formulas, scope)
        place = len(scope.body.lines)
        inner = inner.with_parts(parts_to_name(formulas, inner.write.names))
        inner.line("o_i", "O of the block", form.readout)
        _updates(form, states, "block", inner)
        scope.body.add(f"{outputs}.append(o_i)")
    if "size" in scope.write.used:
        scope.body.lines.insert(place, size)
    target = scope.write.target
    scope.body.add(f"{result} = {target.call(target.concatenated, outputs, target.along(-2))}")


def _block(formulas: Many[Basic], scope: Scope) -> tuple[Scope, str]:
    """Takes the rows of one block from every sequence; in the scope the sequences' names mean the block. Also the line
    that reads its size, for where that is used.
    """
    found = sorted({x for e in formulas for x in e.atoms(Named) if x.shape[0] == n}, key=list(scope.write.names).index)
    whole = [scope.write(x) for x in found]
    own: dict[Basic, str] = {x: scope.names.new(f"{name}_i") for x, name in zip(found, whole, strict=True)}
    cut = "x[:, :, first : first + chunk_size]"
    if len(found) > 1:
        scope.body.add(f"{', '.join(own.values())} = ({cut} for x in ({', '.join(whole)}))")
    else:
        scope.body.add(f"{own[found[0]]} = {whole[0]}{cut[1:]}")
    line = f"{INDENT * scope.body.depth}size = {own[found[0]]}.shape[-2]"
    return scope.within({**own, n: "size"}), line


def _rows(row: Basic, defined: Basic | None, result: str, scope: Scope, left: str) -> None:
    """Row by row; a row may read the earlier rows of the sequence that is defined."""
    scope = _constants([row], scope)
    outputs = _list_for(result, scope)
    with scope.body.block(f"for t in range({scope.write.number(n)}):"):
        columns = scope.write.columns | ({} if defined is None else {defined: outputs})
        inner = _tokens([row], scope.within({}, columns=columns))
        inner = inner.with_parts(parts_to_name([row], inner.write.names))
        name = _row_of(result, scope)
        inner.line(name, left, row)
        scope.body.add(f"{outputs}.append({name})")
    _stacked(result, outputs, scope)


def _defined(form: Defined, scope: Scope) -> Scope:
    """Writes the definition; in the scope the sequence is known."""
    sequence = sequence_of(form.defined)
    name = scope.names.of_symbols([sequence])[sequence]
    if isinstance(form.definition, Form):
        by_row = isinstance(form.definition, Recurrence) and isinstance(sequence, Sequence)
        write_form(form.definition, name, scope, Printer(TEXT)(sequence[t] if by_row else sequence))
    elif isinstance(form.defined, Token | GateToken):
        _rows(form.definition, sequence, name, scope, Printer(TEXT)(form.defined))
    else:
        inner = scope.with_parts(parts_to_name([form.definition], scope.write.names))
        inner.line(name, str(form.defined), form.definition)
    return scope.within({sequence: name})


def _substituted(form: Substituted, scope: Scope) -> Scope:
    """Writes the values that take the inputs' places, all of them from the old ones."""
    new: dict[Basic, str] = {}
    for key, value in form.mapping.items():
        sequence = sequence_of(key)
        name = scope.names.of_symbols([sequence])[sequence]
        left = f"{Printer(TEXT)(key)} <-"
        if isinstance(value, Form):
            write_form(value, name, scope, left)
        elif isinstance(key, Token | GateToken):
            _rows(value, None, name, scope, left)
        else:
            e = sympify(value)
            scope = _constants([e], scope)
            scope.with_parts(parts_to_name([e], scope.write.names)).line(name, left, e)
        new[sequence] = name
    return scope.within(new)


def _transport(form: Transport, result: str, scope: Scope) -> None:
    """Row i from its last entry to its first: q_i^T, then q_i^T F_i, then q_i^T F_i F_{i-1}, each times a key."""
    if form.order == "ascending":
        raise NotEmittable("a transport in ascending order is not written as code")
    scope = _constants(list(form.expressions().values()), scope)
    (equation,) = form.lines(TEXT)
    number = scope.body.equation(" = ".join(equation))
    scope.write.used.update(("batch", "heads"))
    zero = scope.write.constant("zeros", ["batch", "heads", "1", "1"])
    outputs, length = _list_for(result, scope), scope.write.number(n)
    with scope.body.block(f"for i in range({length}):"):
        inner = _tokens([form.left], scope, i, "i")
        scope.body.add(f"left = {inner.write.at_least(form.left, 3)}.mT")
        scope.body.add(f"entries = [{zero}] * ({length} - 1 - i)  # above the diagonal")
        with scope.body.block("for j in reversed(range(i + 1)):"):
            factor = form.factor.xreplace({s: j})
            step = _tokens([form.right, factor], scope, j, "j")
            scope.body.add(f"entries.append(left @ {step.write.at_least(form.right, 3)})", number)
            scope.body.add(f"left = left @ {step.write.at_least(factor, 3)}")
        joined = scope.write.target.call(scope.write.target.concatenated, "entries[::-1]", scope.write.target.along(-1))
        scope.body.add(f"{outputs}.append({joined}.mT)")
    _stacked(result, outputs, scope)
