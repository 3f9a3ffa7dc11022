"""`attnproof claims`: what documents say, and what is true of it."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from attnproof.checking import Settings
from attnproof.claim_sheets import claim_lines
from attnproof.claims import ClaimReport, claims_summary, why_claim
from attnproof.commands.group import (
    UsageProblem,
    attnproof,
    checked,
    end,
    loaded,
    save,
    with_folders,
    with_jobs,
    with_json,
)
from attnproof.commands.output import print_table, table, verdict_text
from attnproof.verification import QUICK
from derivations.language.claims import EXPECTED, Claim


@attnproof.command(short_help="Show what documents claim, and what is true of it.")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--verdict", type=click.Choice((*EXPECTED, "unknown")), help="Only claims with this verdict.")
@click.option(
    "--evidence/--no-evidence",
    default=True,
    show_default=True,
    help="Whether what decides them is checked on the spot.",
)
@with_jobs
@with_json("Write the verdicts here.")
@with_folders
@click.pass_context
def claims(
    ctx: click.Context,
    ids: tuple[str, ...],
    verdict: str | None,
    evidence: bool,
    jobs: int | None,
    json_file: Path | None,
    folders: tuple[str, ...],
) -> None:
    """Show the claims of documents with their verdicts, computed from the identities and facts that decide them.

    Without ids every claim is a line; an ID, or a pattern of ids, shows what a claim says, what decides it, what it has
    to assume, and the counterexample and the correction where it is false. `attnproof verify` climbs more rungs.

    \b
    Examples:
      attnproof claims
      attnproof claims S0-58
      attnproof claims --verdict refuted
      attnproof claims 'S1-*' --no-evidence
    """
    if not evidence and (verdict or json_file):
        raise UsageProblem("without evidence there are no verdicts to choose or to write")
    places, catalogue = loaded(folders)
    chosen = catalogue.select_claims(ids)
    if not evidence:
        print_table(_unchecked(chosen))
        end(ctx, catalogue.broken)
    wanted = {name for claim in chosen for name in claim.deciders}
    entries = [entry for entry in catalogue.entries() if entry.id in wanted]
    found = checked(catalogue, entries, Settings(places, QUICK), jobs, chosen)
    reports = [report for report in found.claims if verdict in (None, report.verdict)]
    click.echo()
    if ids:
        click.echo("\n".join(line for report in reports for line in [*claim_lines(report, found), ""]))
    else:
        print_table(_verdicts(reports))
        click.echo()
    click.echo(claims_summary(reports))
    ok = all(report.ok for report in found.claims)
    save({"ok": ok, "claims": [report.as_json() for report in reports]}, json_file)
    for line in (line for report in found.claims if report not in reports for line in why_claim(report)):
        click.echo(line)
    end(ctx, catalogue.broken, ok)


def _verdicts(reports: list[ClaimReport]) -> Table:
    rows = table("claim", "expected", "verdict", "decided by", "says")
    for report in reports:
        by = ", ".join(decider.id for decider in report.decided_by) or "-"
        verdict = verdict_text(report.verdict, report.ok)
        rows.add_row(report.claim.id, report.claim.expected, verdict, Text(by), Text(report.claim.says))
    return rows


def _unchecked(chosen: list[Claim]) -> Table:
    rows = table("claim", "expected", "decided by", "says")
    for claim in chosen:
        rows.add_row(claim.id, claim.expected, Text(", ".join(claim.deciders) or "-"), Text(claim.says))
    return rows
