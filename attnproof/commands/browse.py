"""`attnproof list`, `show` and `new`: what there is, what it says, and a start of your own."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from attnproof.catalogue import Catalogue, load_catalogue
from attnproof.checking import Settings
from attnproof.commands.group import attnproof, end, with_folders, with_rungs
from attnproof.commands.output import print_table, table
from attnproof.proof_sheets import PROOF, proof_lines
from attnproof.sheets import derivation_lines, entry_lines
from attnproof.templates import write
from attnproof.verification import QUICK, run
from numerics.proofs.ladder import Report


@attnproof.command("list", short_help="List the derivations.")
@click.option("--identities", is_flag=True, help="List the ids of identities and facts, one a line.")
@with_folders
@click.pass_context
def list_(ctx: click.Context, identities: bool, folders: tuple[str, ...]) -> None:
    """List the derivations: name, title, numbers of identities and facts, forms.

    \b
    Examples:
      attnproof list
      attnproof list --identities --derivations my_systems
    """
    catalogue = load_catalogue(folders)
    if identities:
        for entry in catalogue.entries():
            click.echo(entry.id)
    else:
        print_table(_overview(catalogue))
    end(ctx, catalogue.broken)


def _overview(catalogue: Catalogue) -> Table:
    overview = table("derivation", "title", "identities", "facts", "forms")
    for name, derivation in catalogue.derivations.items():
        counts = [str(len(statements)) for statements in (derivation.identities, derivation.facts)]
        overview.add_row(name, Text(derivation.title), *counts, Text(", ".join(derivation.forms)))
    return overview


@attnproof.command(short_help="Show formulas, sources and evidence.")
@click.argument("name")
@click.option("--latex/--no-latex", default=True, show_default=True, help="Whether formulas are also shown in LaTeX.")
@click.option(
    "--evidence/--no-evidence", default=True, show_default=True, help="Whether the identities are checked on the spot."
)
@click.option("--proof", is_flag=True, help="Show the proofs for every length, step by step.")
@with_rungs(f"Climb this rung for the evidence, instead of {', '.join(QUICK)}")
@with_folders
@click.pass_context
def show(
    ctx: click.Context,
    name: str,
    latex: bool,
    evidence: bool,
    proof: bool,
    rungs: tuple[str, ...],
    folders: tuple[str, ...],
) -> None:
    """Show a derivation, or identities and facts by an id or pattern: formulas, assumptions, sources, evidence,
    and counterexamples.

    \b
    Examples:
      attnproof show gated_deltanet
      attnproof show gated_deltanet.printed_recurrence --rung exact --rung field
      attnproof show gated_deltanet.recurrent_is_matrix --proof
      attnproof show 'gated_deltanet.*' --no-latex --no-evidence
    """
    if proof and not evidence:
        raise click.UsageError("--proof shows evidence: leave out --no-evidence.")
    catalogue = load_catalogue(folders)
    derivation = catalogue.derivations.get(name)
    entries = [] if derivation and not derivation.statements else catalogue.select([name])
    decided = catalogue.decided()
    reports: dict[str, Report] = {}
    if evidence:
        found = run(catalogue, entries, Settings(rungs=(*(rungs or QUICK), *([PROOF] if proof else []))), claims=())
        reports = {report.id: report for report in found.reports}
    if derivation is not None:
        lines = derivation_lines(derivation, reports, latex, decided)
    else:
        lines = [line for entry in entries for line in entry_lines(entry, reports.get(entry.id), latex, decided)]
    if proof:
        lines += [line for entry in entries for line in proof_lines(entry, reports[entry.id])]
    click.echo("\n".join(lines))
    end(ctx, catalogue.broken)


@attnproof.command(short_help="Start a derivation of your own.")
@click.argument("name")
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where to write; by default the current folder.",
)
def new(name: str, folder: Path) -> None:
    """Start a derivation of your own: NAME.py, which verifies as it is, and test_NAME.py.

    \b
    Examples:
      attnproof new my_system
      attnproof new my_system --out my_systems
    """
    module, test = write(name, folder, load_catalogue())
    click.echo(f"wrote {module} and {test}. Now type:")
    click.echo(f"  attnproof verify {name} --derivations {folder}")
