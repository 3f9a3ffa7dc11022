"""Symbols: what each stands for, its shape, and the systems that use it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from markupsafe import Markup
from sympy import Basic

from attnproof.pages.mathematics import mathml
from derivations.language.printing import latex_of
from derivations.language.statements import Derivation, Source
from derivations.language.symbols import Named


@dataclass
class Symbol:
    """A symbol: its name, how it is written, its kind and shape, and the derivations that use it."""

    name: str
    written: Markup
    kind: str
    shape: Markup
    users: list[Derivation] = field(default_factory=list)


def symbols(derivations: Iterable[Derivation]) -> list[Symbol]:
    """Every symbol that the forms read or carry, by name, kind and shape."""
    found: dict[tuple[str, str, str], Symbol] = {}
    for derivation in derivations:
        for x in {x for form in derivation.forms.values() for x in (*form.symbols(), *form.states)}:
            made = _symbol(x)
            own = found.setdefault((made.name, made.kind, str(made.shape)), made)
            own.users.append(derivation)
    return [found[key] for key in sorted(found, key=lambda key: (key[0].lower(), *key))]


def _symbol(x: Basic) -> Symbol:
    shape = f"{latex_of(x.shape[0])} \\times {latex_of(x.shape[1])}" if isinstance(x, Named) else "1 \\times 1"
    return Symbol(str(x), mathml(latex_of(x)), KINDS.get(type(x).__name__, "scalar"), mathml(shape))


KINDS = {
    "Sequence": "sequence",
    "ChannelGate": "gate for each channel",
    "Gate": "gate",
    "State": "state",
    "Parameter": "parameter",
    "Named": "matrix",
}


def web_address(source: Source) -> str:
    """Where a source is on the web; nothing where it says no such place."""
    if source.url.startswith("arXiv:"):
        return f"https://arxiv.org/abs/{source.url.removeprefix('arXiv:')}"
    return source.url if source.url.startswith(("https://", "http://")) else ""
