"""The commands `verify`, `list`, `show` and `new`.

Exit statuses: 0 where everything is as expected, 1 where something isn't, 2 for wrong usage, 130 when interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from attnproof.catalogue import VARIABLE, BrokenModule, Catalogue, CatalogueError, all_folders, load_catalogue
from attnproof.checking import Settings
from attnproof.readable import cell
from attnproof.sheets import derivation_lines, entry_lines
from attnproof.statuses import INTERRUPTED, UNEXPECTED
from attnproof.templates import TemplateError, write
from attnproof.verification import Verification, run, write_json
from numerics.proofs.ladder import RUNGS, USUAL, Report

WIDE = 1000
"""Columns of an output that isn't a terminal: nothing is cut off or folded."""
QUICK = ("typed", "exact", "assumptions")
"""The rungs that `show` climbs: they take a moment, even where the full ladder takes minutes."""


class UsageProblem(click.ClickException):
    """One line on stderr that says what to change, and exit status 2."""

    exit_code = 2


class Commands(click.Group):
    """The group: what a user can mend becomes one line, and an interrupt becomes an exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (CatalogueError, TemplateError) as error:
            raise UsageProblem(str(error)) from error
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="attnproof", message="%(prog)s %(version)s")
def attnproof() -> None:
    """Checks formulas of linear attention: proves them, or shows the smallest input on which they are false.

    \b
    Examples:
      attnproof list                        which derivations there are
      attnproof show gated_deltanet         their formulas, sources and evidence
      attnproof verify                      check everything
      attnproof new my_system               start a derivation of your own
    """


def with_folders(command: Callable[..., None]) -> Callable[..., None]:
    """The option --derivations."""
    return click.option(
        "--derivations",
        "folders",
        multiple=True,
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
        help=f"A folder with more modules of derivations; may be repeated. ({VARIABLE} lists such folders too.)",
    )(command)


def with_rungs(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option --rung."""
    return click.option("--rung", "rungs", multiple=True, type=click.Choice(RUNGS), help=f"{text}; may be repeated.")


def _json_file(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Path | None:
    """Refuses a file that couldn't be written, before hours of work and not after them."""
    if value is None:
        return None
    folder = Path(value).absolute().parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise click.BadParameter(f"{folder} isn't a folder that can be written to", ctx, parameter)
    return Path(value)


@attnproof.command(short_help="Check identities.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@with_rungs("Climb this rung only (and typed, and exact where no other compares the sides)")
@click.option("--jobs", type=click.IntRange(min=1), help="How many processes; one per core by default.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where random inputs start.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False), callback=_json_file, help="Write a record here.")
@with_folders
@click.pass_context
def verify(
    ctx: click.Context,
    names: tuple[str, ...],
    rungs: tuple[str, ...],
    jobs: int | None,
    seed: int,
    json_file: Path | None,
    folders: tuple[str, ...],
) -> None:
    """Check identities, and exit with 0 only if every verdict is the expected one.

    NAME is a derivation, an identity, or a pattern; without names everything is checked.

    \b
    Examples:
      attnproof verify gated_deltanet
      attnproof verify gated_deltanet.gamma_rewrite --rung exact
      attnproof verify 'delta*' '*.recurrent_is_chunkwise' --jobs 4
      attnproof verify --derivations my_systems --json record.json
    """
    places = tuple(map(str, all_folders(folders)))
    catalogue = load_catalogue(places)
    entries = catalogue.select(names)
    settings = Settings(places, rungs or USUAL, seed)
    jobs = min(jobs or os.cpu_count() or 1, max(len(entries), 1))
    with _progress(len(entries)) as done:
        found = run(catalogue, entries, settings, jobs, done)
    _show_results(found)
    if json_file is not None:
        _save(found, json_file)
    ctx.exit(0 if found.ok else UNEXPECTED)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Report], None]]:
    """What is called with each report as it comes: a bar on a terminal, a line for each elsewhere."""
    if not sys.stdout.isatty():
        finished = iter(range(1, total + 1))
        yield lambda report: click.echo(
            f"{next(finished):>{len(str(total))}}/{total} {report.id}: {report.verdict} in {report.seconds:.1f} s"
        )
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda report: bar.update(task, advance=1, description=report.id)


def _show_results(found: Verification) -> None:
    click.echo()
    _print(_results(found.reports))
    click.echo(f"\n{found} ({found.seconds:.1f} s)")


def _results(reports: Sequence[Report]) -> Table:
    climbed = [rung for rung in RUNGS if any(e.rung == rung for report in reports for e in report.evidence)]
    table = _table("identity", "expected", "verdict", *climbed, "seconds")
    for report in reports:
        cells: dict[str, str] = {e.rung: cell(e) for e in report.evidence}
        verdict = Text(report.verdict, style="green" if report.ok else "bold red")
        rungs = [cells.get(rung, "-") for rung in climbed]
        table.add_row(Text(report.id), report.expected, verdict, *rungs, f"{report.seconds:.1f}")
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in heads:
        table.add_column(head, overflow="fold", justify="right" if head == "seconds" else "left")
    return table


def _print(table: Table) -> None:
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
        return
    console = Console(width=WIDE, highlight=False, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def _save(found: Verification, json_file: Path) -> None:
    try:
        write_json(found, json_file)
    except OSError as error:
        raise UsageProblem(f"can't write {json_file}: {error.strerror}. Choose another file for --json") from error


def _end(ctx: click.Context, broken: tuple[BrokenModule, ...]) -> None:
    """Says which modules are broken; the exit status says it too."""
    for module in broken:
        click.echo(f"broken module: {module}", err=True)
    ctx.exit(UNEXPECTED if broken else 0)


@attnproof.command("list", short_help="List the derivations.")
@click.option("--identities", is_flag=True, help="List the identities' ids, one a line.")
@with_folders
@click.pass_context
def list_(ctx: click.Context, identities: bool, folders: tuple[str, ...]) -> None:
    """List the derivations: name, title, number of identities, forms.

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
        _print(_overview(catalogue))
    _end(ctx, catalogue.broken)


def _overview(catalogue: Catalogue) -> Table:
    table = _table("derivation", "title", "identities", "forms")
    for name, derivation in catalogue.derivations.items():
        table.add_row(name, Text(derivation.title), str(len(derivation.identities)), Text(", ".join(derivation.forms)))
    return table


@attnproof.command(short_help="Show formulas, sources and evidence.")
@click.argument("name")
@click.option("--latex/--no-latex", default=True, show_default=True, help="Whether formulas are also shown in LaTeX.")
@click.option("--evidence/--no-evidence", default=True, help="Whether the identities are checked on the spot.")
@with_rungs(f"Climb this rung for the evidence, instead of {', '.join(QUICK)}")
@with_folders
@click.pass_context
def show(
    ctx: click.Context, name: str, latex: bool, evidence: bool, rungs: tuple[str, ...], folders: tuple[str, ...]
) -> None:
    """Show a derivation, or one identity: formulas, assumptions, sources, evidence, and counterexamples.

    \b
    Examples:
      attnproof show gated_deltanet
      attnproof show gated_deltanet.printed_recurrence --rung exact --rung field
      attnproof show 'gated_deltanet.*' --no-latex --no-evidence
    """
    catalogue = load_catalogue(folders)
    derivation = catalogue.derivations.get(name)
    entries = [] if derivation and not derivation.identities else catalogue.select([name])
    reports: dict[str, Report] = {}
    if evidence:
        found = run(catalogue, entries, Settings(rungs=rungs or QUICK))
        reports = {report.id: report for report in found.reports}
    if derivation is not None:
        lines = derivation_lines(derivation, reports, latex)
    else:
        lines = [line for entry in entries for line in entry_lines(entry, reports.get(entry.id), latex)]
    click.echo("\n".join(lines))
    _end(ctx, catalogue.broken)


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
