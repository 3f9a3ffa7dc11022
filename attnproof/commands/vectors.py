"""`attnproof vectors`: golden vectors for kernels in other languages, and a judge of their results."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from attnproof.catalogue import load_catalogue
from attnproof.commands.group import UsageProblem, attnproof, end, with_folders
from attnproof.commands.output import print_table, table
from attnproof.emitting import LayoutError
from attnproof.emitting.options import derivation_named, with_form, with_layouts
from attnproof.implementation_cases import UNIT_ROUNDOFF
from attnproof.statuses import UNEXPECTED
from attnproof.vectors import (
    EXPECTED,
    INPUTS,
    TOLERANCE,
    Shape,
    VectorError,
    Vectors,
    Verdict,
    judge,
    make,
    write_folder,
)
from attnproof.vectors.files import has_safetensors
from numerics.inputs import CannotDraw

SIZE = click.IntRange(min=1)
FOLDER = click.Path(file_okay=False, path_type=Path)


@attnproof.command(short_help="Write golden vectors, or judge a result file.")
@click.argument("name", required=False)
@click.option("--out", type=FOLDER, help="The folder to write; it may not have anything in it.")
@with_form
@with_layouts
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where inputs start.")
@click.option("--dtype", type=click.Choice(list(UNIT_ROUNDOFF)), default="float32", show_default=True)
@click.option("--tokens", type=SIZE, default=Shape.tokens, show_default=True, help="How many tokens a sequence has.")
@click.option("--d-k", type=SIZE, default=Shape.d_k, show_default=True, help="The width of queries and keys.")
@click.option("--d-v", type=SIZE, default=Shape.d_v, show_default=True, help="The width of values.")
@click.option("--batch", type=SIZE, default=Shape.batch, show_default=True, help="How many sequences.")
@click.option("--heads", type=SIZE, default=Shape.heads, show_default=True, help="How many heads.")
@click.option("--chunk", type=SIZE, default=Shape.chunk, show_default=True, help="The blocks of a chunkwise form.")
@click.option("--verify", "result", type=click.Path(dir_okay=False, path_type=Path), help="Judge this result file.")
@click.option("--against", type=FOLDER, help="The folder of vectors; by default that of the result file.")
@click.option("--forward", is_flag=True, help="With --verify: gradients aren't asked for.")
@with_folders
@click.pass_context
def vectors(
    ctx: click.Context,
    name: str | None,
    out: Path | None,
    form: str,
    layouts: tuple[str, ...],
    seed: int,
    dtype: str,
    result: Path | None,
    against: Path | None,
    forward: bool,
    folders: tuple[str, ...],
    **sizes: int,
) -> None:
    """Write golden vectors of a derivation: inputs, outputs, final states, gradients, and a tolerance for each entry.

    Everything is in safetensors (with the extra `vectors`) and in npz, with a manifest. A kernel reads `inputs`, writes
    a file with the names of `expected`, and --verify says whether it is within `tolerance`.

    \b
    Examples:
      attnproof vectors gated_deltanet --out golden
      attnproof vectors gla --out golden --dtype bfloat16 --layout 'alpha=log(b t h k)'
      attnproof vectors --verify mine.safetensors --against golden
    """
    if result is not None:
        ctx.exit(_verified(result, against or result.parent, forward))
    if name is None or out is None:
        raise click.UsageError("name a derivation and --out, or a result file with --verify.")
    catalogue = load_catalogue(folders)
    derivation = derivation_named(catalogue, name)
    try:
        _write(make(derivation, form, Shape(**sizes), seed, dtype, layouts), out)
    except (VectorError, LayoutError, CannotDraw) as error:
        raise UsageProblem(str(error)) from error
    end(ctx, catalogue.broken)


def _write(made: Vectors, out: Path) -> None:
    """Writes the files, and says what is in them and what isn't."""
    groups = {INPUTS: made.inputs, EXPECTED: made.expected, TOLERANCE: made.tolerance}
    files = write_folder(out, groups, made.manifest)
    click.echo(f"wrote {', '.join(files)} to {out}: {', '.join(made.expected)}")
    if made.manifest["no_gradients_because"]:
        click.echo(f"no gradients: {made.manifest['no_gradients_because']}")
    if not has_safetensors():
        click.echo("no safetensors: install attnproof[vectors] for them")


def _verified(result: Path, folder: Path, forward: bool) -> int:
    """Prints the verdict of a result file, and gives the exit status."""
    try:
        verdict = judge(result, folder, forward)
    except VectorError as error:
        raise UsageProblem(str(error)) from error
    _print(verdict)
    return 0 if verdict.ok else UNEXPECTED


def _print(verdict: Verdict) -> None:
    rows = table("array", "verdict", "error / tolerance", "outside", "worst at", "is", "should be")
    for one in verdict.judged:
        cells = (f"{one.ratio:.3g}", f"{one.outside[0]} of {one.outside[1]}", one.worst, f"{one.value:.8g}")
        state = "within" if one.ok else "outside"
        rows.add_row(*map(Text, (one.name, state, *cells, f"{one.expected:.8g}")))
    print_table(rows)
    outside = sum(not one.ok for one in verdict.judged)
    missing = f"; missing: {', '.join(verdict.missing)}" if verdict.missing else ""
    click.echo(f"\n{len(verdict.judged) - outside} within, {outside} outside{missing}")
