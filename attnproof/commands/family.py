"""`attnproof family`: which system is a special case of which."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from attnproof.checking import Settings
from attnproof.commands.group import attnproof, checked, loaded, save, with_folders, with_jobs, with_json
from attnproof.commands.output import print_table, table, verdict_text
from attnproof.family import Edge, graph, systems
from attnproof.readable import counted
from attnproof.statuses import UNEXPECTED
from attnproof.verification import QUICK


@attnproof.command(short_help="Show which system is a special case of which.")
@with_jobs
@with_json("Write the graph here: systems and reductions.")
@with_folders
@click.pass_context
def family(ctx: click.Context, jobs: int | None, json_file: Path | None, folders: tuple[str, ...]) -> None:
    """Show the reductions between systems, each an identity that is checked on the spot.

    \b
    Examples:
      attnproof family
      attnproof family --json family.json
    """
    places, catalogue = loaded(folders)
    entries = [entry for entry, _ in catalogue.reductions()]
    found = checked(catalogue, entries, Settings(places, QUICK), jobs, ())
    edges = graph(catalogue, found.reports)
    joined = systems(catalogue, edges)
    click.echo()
    print_table(_reductions(edges))
    reductions, between = counted(len(edges), "reduction", "reductions"), counted(len(joined), "system", "systems")
    click.echo(f"\n{reductions} between {between}")
    click.echo(f"{found} ({found.seconds:.1f} s)")
    save({"ok": found.ok, "systems": joined, "reductions": [edge.as_json() for edge in edges]}, json_file)
    ctx.exit(0 if found.ok else UNEXPECTED)


def _reductions(edges: list[Edge]) -> Table:
    rows = table("general", "special", "condition", "identity", "verdict")
    for edge in edges:
        verdict = verdict_text(edge.report.verdict, edge.report.ok)
        rows.add_row(edge.general, edge.special, Text(edge.condition), Text(edge.report.id), verdict)
    return rows
