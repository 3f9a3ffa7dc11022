"""The body of a function while it is written: its lines, and the equations that they carry out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

WIDTH = 100
INDENT = "    "


@dataclass
class Body:
    """Lines of code and numbered equations.

    Args:
        lines: the code, indented.
        equations: what the docstring says, in the order of the code.
        depth: how far the next line is indented.
    """

    lines: list[str] = field(default_factory=list)
    equations: list[str] = field(default_factory=list)
    depth: int = 1

    def add(self, line: str, comment: str = "") -> None:
        """One statement; one that is too long is broken at its sums."""
        whole = f"{INDENT * self.depth}{line}"
        end = f"  # {comment}" if comment else ""
        self.lines += [whole + end] if len(whole + end) <= WIDTH else _broken(whole, end)

    def equation(self, text: str) -> str:
        """Notes an equation for the docstring; its number is the comment of the line that carries it out."""
        if text not in self.equations:
            self.equations.append(text)
        return f"({self.equations.index(text) + 1})"

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """What is written inside is the body of a loop."""
        self.add(head)
        self.depth += 1
        yield
        self.depth -= 1


SIGNS = (" + ", " - ")
FACTORS = (" / ", " * ", " @ ")


def _broken(line: str, end: str) -> list[str]:
    """A long line over several: a sum in brackets, a term a line; else what stands in the longest brackets."""
    indent = " " * (len(line) - len(line.lstrip()))
    left, equals, right = line.partition(" = ")
    head, inside, tail = _longest_brackets(line)
    if equals and (len(_split(right, SIGNS)) > 1 or _leaves_too_much(indent, head, tail)):
        head, inside, tail = f"{left} = (", right, ")"
    if not inside:
        return [line + end]
    lines, arguments = [f"{head}{end}"], _split(inside, (", ",))
    comma = "," if len(arguments) > 1 else ""
    for argument in arguments:
        lines += _fitted(argument.removesuffix(","), f"{indent}{INDENT}", comma)
    return [*lines, f"{indent}{tail}"]


def _fitted(text: str, indent: str, end: str) -> list[str]:
    """What stands in brackets on a line; if it is too long, its terms on a line each, and these broken again."""
    whole = f"{indent}{text}"
    if len(whole + end) <= WIDTH:
        return [whole + end]
    head, _, tail = _longest_brackets(whole)
    separators = (SIGNS, (" for ",), *([FACTORS] if _leaves_too_much(indent, head, tail) else []))
    parts = next((found for signs in separators if len(found := _split(text, signs)) > 1), [])
    lines = [line for part in parts for line in _fitted(part, indent, "")] or _broken(whole, "")
    return [*lines[:-1], lines[-1] + end]


def _leaves_too_much(indent: str, head: str, tail: str) -> bool:
    """Whether a line is still too long in front of its longest brackets, or behind them."""
    return max(len(head), len(indent + tail)) > WIDTH


def _longest_brackets(line: str) -> tuple[str, str, str]:
    """What is before, inside and behind the longest of the outermost brackets."""
    depth, start, found = 0, 0, ("", "", "")
    for k, letter in enumerate(line):
        if letter in "([":
            start = k if depth == 0 else start
            depth += 1
        elif letter in ")]":
            depth -= 1
            if depth == 0 and k - start > len(found[1]) + 1:
                found = line[: start + 1], line[start + 1 : k], line[k:]
    return found


def _split(text: str, separators: tuple[str, ...]) -> list[str]:
    """The parts of a text between separators outside of all brackets; a sign stays with the term that it precedes."""
    depth, starts = 0, [0]
    for k, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and text.startswith(separators, k):
            starts.append(k + 1)
    ends = [*(start - 1 for start in starts[1:]), len(text)]
    return [text[start : stop + 1].strip() for start, stop in zip(starts, ends, strict=True)]
