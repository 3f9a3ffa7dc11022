"""`attnproof audit`: hold public implementations against the statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from attnproof.commands.group import UsageProblem, attnproof, processes, save, with_jobs, with_json
from attnproof.commands.output import print_table, progress, table, verdict_text
from attnproof.statuses import UNEXPECTED

if TYPE_CHECKING:
    from attnproof.audit.workers import Settings

INSTALL = "pip install 'attnproof[audit]'"


@dataclass(frozen=True)
class Done:
    """One subject, for the progress bar."""

    id: str
    verdict: str
    seconds: float


@attnproof.command(short_help="Hold public implementations against the statements.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--effort", type=click.Choice(["quick", "usual"]), default="quick", show_default=True)
@click.option("--backward", is_flag=True, help="Derivatives with strong gates too.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where inputs start.")
@click.option("--seconds", type=click.FloatRange(min=1), default=600, show_default=True, help="That one may take.")
@with_jobs
@with_json("Write the record here.")
@click.option("--markdown", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the page here.")
@click.option("--record", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Run nothing: take this.")
@click.pass_context
def audit(
    ctx: click.Context,
    names: tuple[str, ...],
    jobs: int | None,
    json_file: Path | None,
    page: Path | None,
    record: Path | None,
    **options: Any,
) -> None:
    """Hold public implementations, at pinned versions, against the statements of the systems that they compute.

    Each runs in another process with a time limit. NAME is a subject, or how the names of several begin. One whose
    library isn't installed, or in another version, is shown as not run. The exit status is 0 if what is found is what
    is known, 1 if not.

    \b
    Examples:
      attnproof audit
      attnproof audit fla-core.comba --effort usual --backward
      attnproof audit --record docs/audit.json --markdown docs/audit.md
    """
    from attnproof.audit import record as records
    from attnproof.audit.markdown import markdown
    from attnproof.audit.workers import Settings

    recorded = records.read(record) if record else _run(_chosen(names), Settings(**options), jobs)
    assert recorded is not None
    _print(recorded["subjects"])
    save(recorded, json_file)
    if page is not None:
        _write(page, markdown(recorded))
    ctx.exit(0 if records.as_expected(recorded) else UNEXPECTED)


def _write(page: Path, text: str) -> None:
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageProblem(f"can't write {page}: {error.strerror}. Choose another file for --markdown") from error


def _chosen(names: Sequence[str]) -> list[str]:
    """The subjects that are meant; all where none is named."""
    from attnproof.audit.table import SUBJECTS

    known = [x.name for x in SUBJECTS]
    for name in names:
        if not any(_is_meant(one, name) for one in known):
            raise UsageProblem(f"no subject is {name!r} or begins with it; there are: {', '.join(known)}")
    return [one for one in known if not names or any(_is_meant(one, name) for name in names)]


def _is_meant(one: str, name: str) -> bool:
    return one == name or one.startswith(f"{name}.")


def _run(names: list[str], settings: Settings, jobs: int | None) -> dict[str, Any]:
    from attnproof.audit.record import record
    from attnproof.audit.workers import audit_all

    found = []
    with progress(len(names)) as done:
        for one in audit_all(names, settings, processes(jobs, len(names))):
            found.append(one)
            done(Done(one["name"], one["verdict"], one["seconds"]))
    return record(found, settings)


def _print(subjects: Sequence[Mapping[str, Any]]) -> None:
    rows = table("subject", "version", "as", "checks", "error / tolerance", "verdict", "seconds")
    for x in subjects:
        holding = [c for c in x["checks"] if c["verdict"] == "holds"]
        tried = sum(c["verdict"] != "skipped" for c in x["checks"])
        error = max((c["error_over_tolerance"] for c in holding), default=0.0)
        cells = (x["name"], x["version"], x["derivation"], f"{len(holding)} of {tried} hold", f"{error:.2g}")
        rows.add_row(*map(Text, cells), verdict_text(x["verdict"], x["expected"]), Text(f"{x['seconds']:.1f}"))
    print_table(rows)
    for x in subjects:
        for line in _said(x):
            click.echo(line)
    verdicts = [x["verdict"] for x in subjects]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("agrees", "finding", "unclear", "not run"))
    unexpected = sum(not x["expected"] for x in subjects)
    click.echo(f"\n{len(subjects)} subjects: {counts}; {unexpected} unexpected")
    if "not run" in verdicts:
        click.echo(f"to run those that aren't: {INSTALL}", err=True)


def _said(x: Mapping[str, Any]) -> list[str]:
    """What is to be said of a subject below the table."""
    if x["verdict"] == "not run":
        return [f"\n{x['name']}: {x['why']}"]
    if x["verdict"] == "agrees" and x["expected"]:
        return []
    failed = [c for c in x["checks"] if c["verdict"] in ("refuted", "vacuous")]
    known = " ".join(filter(None, (x["finding"], x["confirmed"]))) or "not what is expected"
    lines = [f"\n{x['name']}: {known}", *(f"  {c['check']}: {c['message'] or c['verdict']}" for c in failed[:3])]
    return [*lines, f"  smallest input: {x['smallest_input']}"] if x["smallest_input"] else lines
