"""`attnproof verify`: check identities, facts and claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from attnproof.checking import Settings
from attnproof.commands.group import attnproof, checked, loaded, save, with_folders, with_jobs, with_json, with_rungs
from attnproof.commands.output import print_table, table, verdict_text
from attnproof.readable import cell
from attnproof.statuses import UNEXPECTED
from attnproof.verification import Verification
from numerics.proofs.field import PRODUCTION, WHERE_REFUTED
from numerics.proofs.ladder import RUNGS, USUAL, Report

LENGTH = (
    f"How many tokens the field rung takes, {PRODUCTION.n} by default; "
    f"where a refutation is expected it is {WHERE_REFUTED.n} always."
)


@attnproof.command(short_help="Check identities, facts and claims.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@with_rungs("Climb this rung only (and typed, and exact where no other compares the sides)")
@with_jobs
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where random inputs start.")
@click.option("--length", type=click.IntRange(min=2), help=LENGTH)
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
    documents that these decide get their verdicts too, unless --rung leaves out what they need.

    \b
    Examples:
      attnproof verify gated_deltanet
      attnproof verify gated_deltanet.gamma_rewrite --rung exact
      attnproof verify 'delta*' '*.recurrent_is_chunkwise' --jobs 4
      attnproof verify --derivations my_systems --json record.json
      attnproof verify deltanet --rung field --length 4096
    """
    places, catalogue = loaded(folders)
    found = checked(catalogue, catalogue.select(names), Settings(places, rungs or USUAL, seed, length), jobs)
    _show_results(found)
    save(found.as_json(), json_file)
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
