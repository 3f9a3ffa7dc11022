"""`attnproof emit`: reference code to take away."""

from __future__ import annotations

from pathlib import Path

import click

from attnproof.catalogue import load_catalogue
from attnproof.commands.group import UsageProblem, attnproof, end, with_folders
from attnproof.emitting import TARGETS, LayoutError, NotEmittable, emit
from attnproof.emitting.options import derivation_named, with_form, with_layouts
from attnproof.vectors.files import replaced


@attnproof.command("emit", short_help="Print a form as code that stands alone.")
@click.argument("name")
@click.option("--target", type=click.Choice(list(TARGETS)), required=True, help="The array library.")
@with_form
@with_layouts
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead.")
@with_folders
@click.pass_context
def emit_(
    ctx: click.Context,
    name: str,
    target: str,
    form: str,
    layouts: tuple[str, ...],
    out: Path | None,
    folders: tuple[str, ...],
) -> None:
    """Print a form of a derivation as a function of an array library, which needs nothing of attnproof.

    It is the statement, line by line: a reference, not a fast kernel. The library's autograd gives the backward pass.
    Arrays are `b t h k`, states `b h k v`, gates linear, unless --layout says otherwise.

    \b
    Examples:
      attnproof emit gated_deltanet --target torch
      attnproof emit gated_deltanet --target numpy --form chunkwise --out reference.py
      attnproof emit gla --target jax --layout 'alpha=log(b t h k)' --layout 'S=b h v k'
    """
    catalogue = load_catalogue(folders)
    try:
        code = emit(derivation_named(catalogue, name), form, target, layouts)
    except (NotEmittable, LayoutError) as error:
        raise UsageProblem(f"can't emit {name}, form {form!r}: {error}") from error
    if out is None:
        click.echo(code, nl=False)
    else:
        _save(out, code)
    end(ctx, catalogue.broken)


def _save(out: Path, code: str) -> None:
    try:
        with replaced(out) as unfinished:
            unfinished.write_text(code, encoding="utf-8")
    except OSError as error:
        raise UsageProblem(f"can't write {out}: {error.strerror}. Choose another file for --out") from error
    click.echo(f"wrote {out}")
