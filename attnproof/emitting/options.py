"""What the commands that work with one form of a derivation ask for: its name, the form, and layouts."""

from __future__ import annotations

from collections.abc import Callable

import click

from attnproof.catalogue import Catalogue, CatalogueError
from derivations.language.statements import Derivation

Command = Callable[..., None]


def with_form(command: Command) -> Command:
    """The option --form."""
    return click.option("--form", default="recurrence", show_default=True, help="Which of its forms.")(command)


def with_layouts(command: Command) -> Command:
    """The option --layout."""
    text = "The order of an array's dimensions: 'q=b h t k', 'gamma=log(b t h)'; may be repeated."
    return click.option("--layout", "layouts", multiple=True, metavar="NAME=WORDS", help=text)(command)


def derivation_named(catalogue: Catalogue, name: str) -> Derivation:
    """A derivation that has forms.

    Raises:
        CatalogueError: there is none of this name, or it states no form.
    """
    derivation = catalogue.derivations.get(name)
    if derivation is None:
        owner = catalogue.select([name])[0].derivation.name
        raise CatalogueError(f"{name} isn't a derivation; it belongs to {owner}")
    if not derivation.forms:
        raise CatalogueError(f"{name} states no form; `attnproof list` shows which derivations do")
    return derivation
