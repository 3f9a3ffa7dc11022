"""The docstring of an emitted function: its equations, their sources, and the layouts of arguments and results."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from attnproof.emitting.arguments import OUTPUT, Arguments
from attnproof.emitting.layouts import Layout
from attnproof.emitting.lines import INDENT, WIDTH
from derivations.language.forms import Chunkwise, Closed, Recurrence, TokenRows, recurrence_or_none
from derivations.language.statements import Derivation

KINDS = (
    (Chunkwise, "block by block"),
    (Recurrence, "token by token"),
    (Closed, "as one matrix expression"),
    (TokenRows, "each row as a sum over tokens"),
)
WHICH = {"log": "natural logarithms", "log2": "logarithms to base 2"}
BLOCKS = "In the equations, sequences, gates and masks stand for those of one block, states for those before it."


def docstring(derivation: Derivation, form_name: str, arguments: Arguments, equations: Sequence[str]) -> list[str]:
    """The lines of the docstring, indented.

    Args:
        derivation, form_name: what the function computes.
        arguments: what it is called with.
        equations: what its lines carry out.
    """
    lines = _lines(derivation, form_name, arguments, equations)
    return [f'{INDENT}"""{_quoted(next(lines))}', *map(_quoted, lines), f'{INDENT}"""']


def _lines(derivation: Derivation, form_name: str, arguments: Arguments, equations: Sequence[str]) -> Iterator[str]:
    form = derivation.forms[form_name]
    inner = recurrence_or_none(form)
    goes_by_block = isinstance(inner, Chunkwise)
    kind = next((words for known, words in KINDS if isinstance(form, known)), f"the form {form_name!r}")
    yield f"{derivation.title}, {kind}."
    yield ""
    if goes_by_block:
        yield from (*_wrapped(BLOCKS, INDENT, INDENT), "")
    for number, equation in enumerate(equations, 1):
        yield from _wrapped(f"({number}) {equation}", 2 * INDENT, 3 * INDENT + "  ")
    yield ""
    for source in derivation.sources:
        yield from _wrapped(f"Source: {source}.", INDENT, 2 * INDENT)
    yield from ([""] if derivation.sources else [])
    yield f"{INDENT}Args:"
    yield from _described(arguments, "zero" if inner is None or inner.initial is None else "as in the equations")
    if goes_by_block:
        yield f"{2 * INDENT}chunk_size: how many tokens a block has; the last one may be shorter."
    yield ""
    yield f"{INDENT}Returns:"
    yield from _wrapped(_results(arguments), 2 * INDENT, 2 * INDENT)


def _quoted(line: str) -> str:
    """A line of the docstring, in which nothing ends it and no backslash is an escape."""
    return line.replace("\\", "\\\\").replace('"', '\\"')


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _described(arguments: Arguments, default: str) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    for name in arguments.inputs:
        layout = arguments.layouts[name]
        logs = "" if layout.scale == "linear" else f", {WHICH[layout.scale]} of {name}"
        alike.setdefault(f"{_shape(layout)}{logs}", []).append(arguments.passed(name))
    for text, names in alike.items():
        yield f"{2 * INDENT}{', '.join(names)}: {text}."
    for name, state in arguments.states.items():
        shape = _shape(arguments.layout_of(state))
        yield f"{2 * INDENT}{name}: {shape}, {state} before the first token; by default {default}."


def _results(arguments: Arguments) -> str:
    states = [f"{x} {_shape(arguments.layout_of(x))}" for x in arguments.states.values()]
    after = f", and after the last token {', '.join(states)}" if states else ""
    return f"o {_shape(arguments.layouts[OUTPUT])}{after}."


def _shape(layout: Layout) -> str:
    return f"({', '.join(layout.words)})" if layout.words else "a number"
