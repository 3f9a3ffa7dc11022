"""The API reference: signatures and docstrings of what `attnproof` exports, and of the language of statements."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import attnproof
import derivations.language as language
from attnproof.pages.statements import without_folders

SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):\s*$")
ENTRY = re.compile(r"^ {4}(\S[^:]*): (.*)$")


@dataclass(frozen=True)
class Section:
    """Arguments, attributes or errors: pairs of a name and what is said of it."""

    name: str
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Described:
    """One name of the API: its signature, the paragraphs of its docstring, and its sections."""

    name: str
    kind: str
    signature: str
    paragraphs: tuple[str, ...]
    sections: tuple[Section, ...]
    methods: tuple[Described, ...] = ()


@dataclass(frozen=True)
class Module:
    """What one module gives to others, and the names whose libraries aren't installed."""

    name: str
    paragraphs: tuple[str, ...]
    names: tuple[Described, ...]
    unavailable: tuple[str, ...]


def modules() -> list[Module]:
    """The two modules that are imported from: attnproof and its language."""
    exported = [name for name in attnproof.__all__ if name != "__version__"]
    spoken = [name for name, value in sorted(vars(language).items()) if _has_words(value)]
    return [_module("attnproof", exported), _module("attnproof.language", spoken)]


def _has_words(value: Any) -> bool:
    own = str(getattr(value, "__module__", "")).startswith("derivations.language")
    return own and (inspect.isclass(value) or inspect.isfunction(value))


def _module(name: str, exported: Iterable[str]) -> Module:
    module = import_module(name)
    described, unavailable = [], []
    for own in exported:
        try:
            described.append(describe(own, getattr(module, own)))
        except ImportError as error:
            unavailable.append(f"{own}: {error}")
    paragraphs, _ = parsed(inspect.getdoc(module) or "")
    return Module(name, paragraphs, tuple(described), tuple(unavailable))


def describe(name: str, value: Any) -> Described:
    """What is said of a class or function."""
    paragraphs, sections = parsed(inspect.getdoc(value) or "")
    kind = "class" if inspect.isclass(value) else "function"
    methods = tuple(_methods(value)) if inspect.isclass(value) else ()
    return Described(name, kind, _signature(value), paragraphs, sections, methods)


def _signature(value: Any) -> str:
    try:
        return without_folders(str(inspect.signature(value)).replace("'", ""))
    except (TypeError, ValueError):
        return ""


def _methods(value: type) -> Iterator[Described]:
    """The public methods and properties that a class documents itself."""
    for name, member in vars(value).items():
        target = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and inspect.isfunction(target) and target.__doc__:
            paragraphs, sections = parsed(inspect.cleandoc(target.__doc__))
            shown = "" if isinstance(member, property) else _signature(target)
            yield Described(name, "method", shown, paragraphs, sections)


def parsed(text: str) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """The paragraphs of a docstring, and its sections."""
    paragraphs: list[str] = []
    sections: list[Section] = []
    for block in re.split(r"\n\s*\n", text):
        first, *others = block.splitlines() or [""]
        found = SECTION.match(first)
        if found:
            sections.append(Section(found[1], tuple(_entries(others))))
        elif block.strip():
            paragraphs.append(block)
    return tuple(paragraphs), tuple(sections)


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """name: what it is, over several lines where the others are indented further."""
    name, said = "", ""
    for line in lines:
        found = ENTRY.match(line)
        if found:
            if name or said:
                yield name, said
            name, said = found[1], found[2]
        else:
            said = f"{said} {line.strip()}".strip()
    if name or said:
        yield name, said
