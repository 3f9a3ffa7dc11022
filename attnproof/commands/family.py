"""`attnproof family`: which system is a special case of which."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from attnproof.catalogue import all_folders, load_catalogue
from attnproof.checking import Settings
from attnproof.commands.group import attnproof, processes, save, with_folders, with_jobs, with_json
from attnproof.commands.output import print_table, progress, table, verdict_text
from attnproof.family import Edge, graph, lines_of_systems
from attnproof.statuses import UNEXPECTED
from attnproof.verification import QUICK, run, write_json


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
    places = tuple(map(str, all_folders(folders)))
    catalogue = load_catalogue(places)
    entries = [entry for entry, _ in catalogue.reductions()]
    with progress(len(entries)) as done:
        settings = Settings(places, QUICK)
        found = run(catalogue, entries, settings, processes(jobs, len(entries)), done, ())
    edges = graph(catalogue, found.reports)
    if json_file is not None:
        record = {"systems": lines_of_systems(catalogue, edges), "reductions": [edge.as_json() for edge in edges]}
        save(lambda: write_json(record, json_file), json_file)
    click.echo()
    print_table(_reductions(edges))
    systems = {name for edge in edges for name in (edge.general, edge.special)}
    click.echo(f"\n{len(edges)} reductions between {len(systems)} systems; {found}")
    ctx.exit(0 if found.ok else UNEXPECTED)


def _reductions(edges: list[Edge]) -> Table:
    rows = table("general", "special", "condition", "identity", "verdict")
    for edge in edges:
        verdict = verdict_text(edge.report.verdict, edge.report.ok)
        rows.add_row(edge.general, edge.special, Text(edge.condition), Text(edge.report.id), verdict)
    return rows
