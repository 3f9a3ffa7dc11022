"""`attnproof mutants`: planted errors, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from attnproof.catalogue import all_folders, load_catalogue
from attnproof.checking import Settings
from attnproof.commands.group import attnproof, processes, with_folders, with_jobs
from attnproof.commands.output import print_table, progress, table
from attnproof.statuses import UNEXPECTED
from attnproof.verification import run
from derivations.language.statements import Identity
from numerics.proofs.ladder import Report

COUNTED = ("mutants", "refuted", "equivalent", "holes")


@attnproof.command(short_help="Plant small errors in each statement, and count those that are refuted.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@with_jobs
@with_folders
@click.pass_context
def mutants(ctx: click.Context, names: tuple[str, ...], jobs: int | None, folders: tuple[str, ...]) -> None:
    """Plant small errors in each identity, one at a time: each has to be refuted, or proved to change nothing.

    A hole is a planted error that was neither; the exit status is then 1.

    \b
    Examples:
      attnproof mutants
      attnproof mutants gated_deltanet
    """
    places = tuple(map(str, all_folders(folders)))
    catalogue = load_catalogue(places)
    entries = [entry for entry in catalogue.select(names) if _is_planted_in(entry.statement)]
    with progress(len(entries)) as done:
        settings = Settings(places, ("mutants",))
        found = run(catalogue, entries, settings, processes(jobs, len(entries)), done, ())
    click.echo()
    print_table(_fates(found.reports))
    counts = [_details(report) for report in found.reports]
    totals = {key: sum(_number(count.get(key)) for count in counts) for key in COUNTED}
    click.echo(
        f"\n{totals['mutants']} planted errors in {len(entries)} identities: {totals['refuted']} refuted, "
        f"{totals['equivalent']} proved equivalent, {totals['holes']} holes ({found.seconds:.1f} s)"
    )
    for report in found.reports:
        for hole in _details(report).get("holes", ()):
            click.echo(f"hole in {report.id}: {hole}")
    ctx.exit(0 if not totals["holes"] and found.ok else UNEXPECTED)


def _is_planted_in(statement: Any) -> bool:
    return isinstance(statement, Identity) and statement.expected == "holds"


def _details(report: Report) -> dict[str, Any]:
    return next((e.details for e in report.evidence if e.rung == "mutants"), {})


def _number(value: Any) -> int:
    return value if isinstance(value, int) else len(value or ())


def _fates(reports: Sequence[Report]) -> Table:
    rows = table("identity", *COUNTED)
    for report in reports:
        found = _details(report)
        counts = [str(_number(found.get(key))) for key in COUNTED]
        rows.add_row(Text(report.id), *counts)
    return rows
