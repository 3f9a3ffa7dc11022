"""`attnproof mutants`: planted errors, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click
from rich.table import Table
from rich.text import Text

from attnproof.checking import Settings
from attnproof.commands.group import UsageProblem, attnproof, checked, loaded, with_folders, with_jobs
from attnproof.commands.output import print_table, table
from attnproof.readable import counted
from attnproof.statuses import UNEXPECTED
from derivations.language.facts import Fact
from derivations.language.statements import Backward, Identity
from numerics.proofs.ladder import Report

COUNTED = ("mutants", "refuted", "equivalent", "holes")


@attnproof.command(short_help="Plant small errors, and count those that are found.")
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
    places, catalogue = loaded(folders)
    entries = [entry for entry in catalogue.select(names) if _is_planted_in(entry.statement)]
    if not entries:
        raise UsageProblem("errors are planted in identities that are expected to hold; none of these is one")
    found = checked(catalogue, entries, Settings(places, ("mutants",)), jobs, ())
    planted = [Planted.of(report) for report in found.reports]
    click.echo()
    print_table(_fates(planted))
    total = {kind: sum(getattr(one, kind) for one in planted) for kind in COUNTED}
    click.echo(
        f"\n{counted(total['mutants'], 'planted error', 'planted errors')} in "
        f"{counted(len(entries), 'identity', 'identities')}: {total['refuted']} refuted, "
        f"{total['equivalent']} proved equivalent, {counted(total['holes'], 'hole', 'holes')}"
    )
    click.echo(f"{found} ({found.seconds:.1f} s)")
    ctx.exit(0 if found.ok else UNEXPECTED)


def _is_planted_in(statement: Identity | Fact | Backward) -> bool:
    return not isinstance(statement, Fact) and statement.expected == "holds"


@dataclass(frozen=True)
class Planted:
    """How many errors were planted in an identity, and what became of them."""

    id: str
    mutants: int
    refuted: int
    equivalent: int
    holes: int

    @classmethod
    def of(cls, report: Report) -> Planted:
        """What the mutants rung found."""
        found = next((e.details for e in report.evidence if e.rung == "mutants"), {})
        equivalent, holes = (len(found.get(kind, ())) for kind in ("equivalent", "holes"))
        return cls(report.id, found.get("mutants", 0), found.get("refuted", 0), equivalent, holes)


def _fates(planted: Sequence[Planted]) -> Table:
    rows = table("identity", *COUNTED, numbers=COUNTED)
    for one in planted:
        rows.add_row(Text(one.id), *(str(getattr(one, kind)) for kind in COUNTED))
    return rows
