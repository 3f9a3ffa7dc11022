"""The command group: its options, and what becomes of errors and interrupts.

Exit statuses: 0 where everything is as expected, 1 where something isn't, 2 for wrong usage, 130 when interrupted.
`list` and `show` judge no verdicts; they end with 1 where a module is broken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from attnproof.catalogue import (
    VARIABLE,
    BrokenModule,
    Catalogue,
    CatalogueError,
    Entry,
    all_folders,
    load_catalogue,
)
from attnproof.checking import Settings
from attnproof.commands.output import progress
from attnproof.statuses import INTERRUPTED, UNEXPECTED
from attnproof.templates import TemplateError
from attnproof.verification import Verification, run, write_json
from derivations.language.claims import Claim
from numerics.proofs.ladder import RUNGS


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
      attnproof claims S0-58                what a document says, and what is true of it
      attnproof family                      which system is a special case of which
      attnproof mutants gated_deltanet      which planted errors are found
      attnproof cost linear_attention       what each form costs, as polynomials
      attnproof audit                       which public implementations compute what they should
      attnproof docs                        write the pages: all systems, claims and costs
      attnproof emit gla --target torch     reference code to take away
      attnproof vectors gla --out golden    golden vectors for a kernel in another language
      attnproof identify my_kernels:kernel  which system a kernel computes
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


def with_jobs(command: Callable[..., None]) -> Callable[..., None]:
    """The option --jobs."""
    return click.option("--jobs", type=click.IntRange(min=1), help="How many processes; one per core by default.")(
        command
    )


def with_json(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option --json."""
    return click.option(
        "--json", "json_file", type=click.Path(dir_okay=False), callback=_json_file, metavar="FILE", help=text
    )


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


def processes(jobs: int | None, entries: int) -> int:
    """How many processes check so many entries."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(jobs or own, max(entries, 1))


def loaded(folders: tuple[str, ...]) -> tuple[tuple[str, ...], Catalogue]:
    """The folders of derivations, as every process is told them, and the catalogue."""
    places = tuple(map(str, all_folders(folders)))
    return places, load_catalogue(places)


def checked(
    catalogue: Catalogue,
    entries: Sequence[Entry],
    settings: Settings,
    jobs: int | None,
    claims: Sequence[Claim] | None = None,
) -> Verification:
    """Checks entries, showing how far it has come."""
    with progress(len(entries)) as done:
        return run(catalogue, entries, settings, processes(jobs, len(entries)), done, claims)


def save(record: Mapping[str, Any], json_file: Path | None) -> None:
    """Writes a record, where a file was named; one that can't be written is a problem of usage."""
    if json_file is None:
        return
    try:
        write_json(record, json_file)
    except OSError as error:
        raise UsageProblem(f"can't write {json_file}: {error.strerror}. Choose another file for --json") from error


def end(ctx: click.Context, broken: tuple[BrokenModule, ...], ok: bool = True) -> None:
    """Says which modules are broken; the exit status says it too, and whether verdicts are as expected."""
    for module in broken:
        click.echo(f"broken module: {module}", err=True)
    ctx.exit(0 if ok and not broken else UNEXPECTED)
