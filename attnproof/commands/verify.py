"""`attnproof verify`: check identities, facts and claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from attnproof.catalogue import all_folders, load_catalogue
from attnproof.checking import Settings
from attnproof.commands.group import attnproof, processes, save, with_folders, with_jobs, with_json, with_rungs
from attnproof.commands.output import print_table, progress, table, verdict_text
from attnproof.readable import cell
from attnproof.statuses import UNEXPECTED
from attnproof.verification import Verification, run, write_json
from numerics.proofs.ladder import RUNGS, USUAL, Report


@attnproof.command(short_help="Check identities.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@with_rungs("Climb this rung only (and typed, and exact where no other compares the sides)")
@with_jobs
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where random inputs start.")
@click.option("--length", type=click.IntRange(min=2), help="How many tokens the field rung takes; 521 by default.")
@with_json("Write a record here.")
@with_folders
@click.pass_context
def verify(
    ctx: click.Context,
    names: tuple[str, ...],
    rungs: tuple[str, ...],
    jobs: int | None,
    seed: int,
    length: int | None,
    json_file: Path | None,
    folders: tuple[str, ...],
) -> None:
    """Check identities and facts, and exit with 0 only if every verdict is the expected one.

    NAME is a derivation, an identity or fact, or a pattern; without names everything is checked. The claims of
    documents that these decide get their verdicts too.

    \b
    Examples:
      attnproof verify gated_deltanet
      attnproof verify gated_deltanet.gamma_rewrite --rung exact
      attnproof verify 'delta*' '*.recurrent_is_chunkwise' --jobs 4
      attnproof verify --derivations my_systems --json record.json
      attnproof verify deltanet --rung field --length 4096
    """
    places = tuple(map(str, all_folders(folders)))
    catalogue = load_catalogue(places)
    entries = catalogue.select(names)
    settings = Settings(places, rungs or USUAL, seed, length)
    with progress(len(entries)) as done:
        found = run(catalogue, entries, settings, processes(jobs, len(entries)), done)
    _show_results(found)
    if json_file is not None:
        save(lambda: write_json(found.as_json(), json_file), json_file)
    ctx.exit(0 if found.ok else UNEXPECTED)


def _show_results(found: Verification) -> None:
    click.echo()
    print_table(_results(found.reports))
    click.echo(f"\n{found} ({found.seconds:.1f} s)")


def _results(reports: Sequence[Report]) -> Table:
    climbed = [rung for rung in RUNGS if any(e.rung == rung for report in reports for e in report.evidence)]
    results = table("identity", "expected", "verdict", *climbed, "seconds")
    for report in reports:
        cells: dict[str, str] = {e.rung: cell(e) for e in report.evidence}
        verdict = verdict_text(report.verdict, report.ok)
        rungs = [cells.get(rung, "-") for rung in climbed]
        results.add_row(Text(report.id), report.expected, verdict, *rungs, f"{report.seconds:.1f}")
    return results
