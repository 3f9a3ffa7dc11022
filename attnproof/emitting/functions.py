"""One form of a derivation as a function that stands alone: its arguments in a layout, its docstring, its body."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from sympy import Basic

from attnproof.emitting.arguments import OUTPUT, Arguments, arguments_of
from attnproof.emitting.docstrings import docstring
from attnproof.emitting.expressions import NotEmittable, Writer
from attnproof.emitting.forms import Begin, Scope, write_form
from attnproof.emitting.helpers import HELPERS, helper_texts
from attnproof.emitting.layouts import Layout, axes_to, canonical
from attnproof.emitting.lines import INDENT, Body
from attnproof.emitting.names import Names
from attnproof.emitting.shared import names_in_module
from attnproof.emitting.targets import LIKE, TARGETS, Target
from derivations.language.adjoint import shape_of_input
from derivations.language.forms import Chunkwise, recurrence_or_none
from derivations.language.printing import text_of
from derivations.language.statements import Derivation
from derivations.language.symbols import State

LOGARITHMS = {"log": "exp", "log2": "exp2"}


def emit(derivation: Derivation, form_name: str, target: str, layouts: Sequence[str] = ()) -> str:
    """A module of source code with one function, which computes a form and needs the target library alone.

    Args:
        derivation: the system.
        form_name: which of its forms.
        target: one of TARGETS.
        layouts: "q=b t h k", "gamma=log(b t h)", "S=b h v k", "o=b t h v".

    Raises:
        NotEmittable: there is no such form, or a part of it has no rule.
        LayoutError: a layout doesn't fit.
    """
    if form_name not in derivation.forms:
        known = ", ".join(derivation.forms) or "none"
        raise NotEmittable(f"{derivation.name} has no form {form_name!r}; its forms are: {known}")
    form, library, names = derivation.forms[form_name], TARGETS[target], Names(HELPERS)
    arguments = arguments_of(form, layouts, names)
    called, symbols = arguments.called, list(arguments.inputs.values())
    if not symbols:
        raise NotEmittable(f"the form {form_name!r} reads no input")
    dimensions = names.of_dimensions([*symbols, *form.states])
    write = Writer(library, {**{x: called[x] for x in symbols}, **dimensions})
    body = Body()
    scope = Scope(body, write, names, _authors(derivation), _begins(arguments))
    write_form(form, OUTPUT, scope.within({x: called[x] for x in form.states}))
    prelude = Body()
    for line in (*_prepared(arguments, library), *_sizes(arguments, write, dimensions)):
        prelude.add(line)
    if LIKE in write.used:
        prelude.add(library.like(called[symbols[0]]))
    body.lines[:0] = prelude.lines
    body.add(_returned(arguments, library))
    return _module(derivation, form_name, arguments, body, write)


def _authors(derivation: Derivation) -> dict[Basic, str]:
    """The names that the module which states the derivation gives to expressions."""
    module = next((m for m in sys.modules.values() if getattr(m, "__file__", None) == derivation.place.file), None)
    return names_in_module({} if module is None else vars(module))


def _prepared(arguments: Arguments, target: Target) -> list[str]:
    """The lines that bring every argument into (batch, heads, rows, columns), those alike together."""
    alike: dict[str, list[str]] = {}
    for name, symbol in arguments.inputs.items():
        layout = arguments.layouts[name]
        moved = as_matrix("{}", layout, symbol, target)
        text = moved if layout.scale == "linear" else target.call(LOGARITHMS[layout.scale], moved)
        if text != "{}":
            alike.setdefault(text, []).append(name)
    lines = []
    for text, names in alike.items():
        passed = ", ".join(map(arguments.passed, names))
        right = f"({text.format('x')} for x in ({passed}))" if len(names) > 1 else text.format(passed)
        lines.append(f"{', '.join(names)} = {right}")
    return lines


def as_matrix(text: str, layout: Layout, symbol: Basic, target: Target) -> str:
    """Code that brings an array from its layout into (batch, heads, rows, columns)."""
    wanted = canonical(symbol)
    moved = target.reordered(text, axes_to(layout.words, wanted))
    places = [":" if word in layout.words else "None" for word in wanted]
    return moved + _indexed(places)


def from_matrix(text: str, layout: Layout, symbol: Basic, target: Target) -> str:
    """Code that brings (batch, heads, rows, columns) into a layout."""
    words = canonical(symbol)
    kept = text + _indexed([":" if word in layout.words else "0" for word in words])
    return target.reordered(kept, axes_to([word for word in words if word in layout.words], layout.words))


def _indexed(places: Sequence[str]) -> str:
    """An index that takes or adds dimensions, as short as it can be written."""
    first = next((k for k, place in enumerate(places) if place != ":"), None)
    if first is None:
        return ""
    if all(place != ":" for place in places[first:]):
        return f"[..., {', '.join(places[first:])}]"
    last = max(k for k, place in enumerate(places) if place != ":")
    return f"[{', '.join(places[: last + 1])}]"


def _sizes(arguments: Arguments, write: Writer, dimensions: Mapping[Basic, str]) -> list[str]:
    """The lines that read the sizes that are used off the arguments' shapes."""
    missing = [name for name in ("batch", "heads", *dimensions.values()) if name in write.used]
    lines = []
    while missing:
        best, found = max(
            ((name, _found(arguments, name, missing, dimensions)) for name in arguments.inputs),
            key=lambda item: sum(x != "_" for x in item[1]),
        )
        taken = [x for x in found if x != "_"]
        if not taken:
            raise NotEmittable(f"no argument has the size {missing[0]}")
        one = f"{best}.shape[{found.index(taken[0]) - 4}]"
        lines.append(f"{taken[0]} = {one}" if len(taken) == 1 else f"{', '.join(found)} = {best}.shape")
        missing = [x for x in missing if x not in taken]
    return lines


def _found(arguments: Arguments, name: str, missing: Sequence[str], dimensions: Mapping[Basic, str]) -> list[str]:
    """Which of the missing sizes an argument's four dimensions are; "_" for the others."""
    words = arguments.layouts[name].words
    batch = ["batch" if "b" in words else "_", "heads" if "h" in words else "_"]
    sides = [dimensions.get(side, "_") for side in shape_of_input(arguments.inputs[name])]
    found: list[str] = []
    for size in (*batch, *sides):
        found.append(size if size in missing and size not in found else "_")
    return found


def _begins(arguments: Arguments) -> Begin:
    """What begins a state: with what is passed, where it is an argument, or else with its own first value."""
    passed: dict[Basic, str] = {x: name for name, x in arguments.states.items()}

    def begin(scope: Scope, state: State, initial: Basic | None) -> None:
        name, write = scope.write.names[state], scope.write
        if initial is None:
            write.used.update(("batch", "heads"))
            sizes = ["batch", "heads", *(write.number(side) for side in state.shape)]
            first, comment = write.constant("zeros", sizes), ""
        else:
            first, comment = write(initial), scope.body.equation(f"{state}_0 = {text_of(initial)}")
        if state not in passed:
            scope.body.add(f"{name} = {first}", comment)
            return
        scope.body.add(f"if {passed[state]} is None:")
        scope.body.add(f"{INDENT}{name} = {first}", comment)
        scope.body.add("else:")
        given = as_matrix(passed[state], arguments.layout_of(state), state, write.target)
        scope.body.add(f"{INDENT}{name} = {given}")

    return begin


def _returned(arguments: Arguments, target: Target) -> str:
    values = [from_matrix(OUTPUT, arguments.layouts[OUTPUT], arguments.output, target)]
    called = arguments.called
    states = [from_matrix(called[x], arguments.layout_of(x), x, target) for x in arguments.states.values()]
    values += [f"({', '.join(states)})"] if len(states) > 1 else states
    return f"return {', '.join(values)}"


def _module(derivation: Derivation, form_name: str, arguments: Arguments, body: Body, write: Writer) -> str:
    head = (
        f"# Generated by attnproof {version('attnproof')} from its statement of {derivation.name}, form {form_name!r}."
    )
    helpers = helper_texts(write.helpers, write.target)
    inner = recurrence_or_none(derivation.forms[form_name])
    blocks = ["chunk_size=64"] if isinstance(inner, Chunkwise) else []
    signature = [*map(arguments.passed, arguments.inputs), *(f"{name}=None" for name in arguments.states), *blocks]
    opening = Body(depth=0)
    name = re.sub(r"\W", "_", f"{derivation.name}_{form_name}")
    opening.add(f"def {name}({', '.join(signature)}):")
    said = docstring(derivation, form_name, arguments, body.equations)
    parts = [*helpers, "\n".join([*opening.lines, *said, *body.lines])]
    calls = any(f"{write.target.module}." in part for part in parts)  # a few formulas call no function
    return "\n\n\n".join([f"{head}\n\n{write.target.imported}" if calls else head, *parts]) + "\n"
