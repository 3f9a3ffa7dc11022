"""`attnproof docs`: the pages, made from the statements and from evidence."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from attnproof.catalogue import Catalogue
from attnproof.checking import Settings
from attnproof.commands.group import UsageProblem, attnproof, checked, end, loaded, processes, with_folders, with_jobs

if TYPE_CHECKING:
    from attnproof.pages.record import Record

LIBRARIES = ("jinja2", "latex2mathml", "matplotlib", "igraph")
"""What pages are made with; the rest of attnproof needs none of them."""


@attnproof.command(short_help="Write the pages: a site of all systems, claims and costs.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("docs/site"), show_default=True, help="The folder to write."
)
@click.option(
    "--evidence",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A record of `attnproof verify --json`; without one everything is checked first.",
)
@click.option(
    "--identities",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the page for GitHub into this file as well.",
)
@click.option("--check", is_flag=True, help="Write nothing, but fail where the page for GitHub isn't up to date.")
@with_jobs
@with_folders
@click.pass_context
def docs(
    ctx: click.Context,
    out: Path,
    evidence: Path | None,
    identities: Path | None,
    check: bool,
    jobs: int | None,
    folders: tuple[str, ...],
) -> None:
    """Write the pages: a site that is read from the file system, without a network, and a page for GitHub.

    Everything on them is computed from the statements and from evidence. The exit status is 0 only if every verdict is
    the expected one; the pages are written all the same, and say what isn't.

    \b
    Examples:
      attnproof docs
      attnproof verify --json record.json && attnproof docs --evidence record.json --out site
      attnproof docs --evidence record.json --identities docs/identities.md --check
    """
    if check and identities is None:
        raise UsageProblem("--check compares the page for GitHub: name it with --identities")
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise UsageProblem(f"the pages are made with {', '.join(missing)}: pip install 'attnproof[docs]'")
    places, catalogue = loaded(folders)
    record = _record(catalogue, places, evidence, jobs)
    up_to_date = _identities(catalogue, record, identities, check) if identities else True
    ok = check or _site(catalogue, record, places, out, jobs)
    end(ctx, catalogue.broken, up_to_date and ok)


def _record(catalogue: Catalogue, places: tuple[str, ...], evidence: Path | None, jobs: int | None) -> Record:
    """The evidence: from a file, or from checking everything now."""
    from attnproof.pages.record import RecordError, from_json, read

    if evidence is None:
        return from_json(checked(catalogue, catalogue.entries(), Settings(places), jobs).as_json())
    try:
        return read(evidence)
    except RecordError as error:
        raise UsageProblem(str(error)) from error


def _site(catalogue: Catalogue, record: Record, places: tuple[str, ...], out: Path, jobs: int | None) -> bool:
    """Writes the site, and says whether every verdict on it is the expected one."""
    from attnproof.pages.site import SiteError, build, write

    begun = perf_counter()
    site = build(catalogue, record, places, processes(jobs, len(catalogue.derivations)), out)
    try:
        count = write(site.pages(), out)
    except SiteError as error:
        raise UsageProblem(str(error)) from error
    click.echo(f"wrote {count} files in {perf_counter() - begun:.1f} s: {out / 'index.html'}")
    for one in site.all_shown:
        if not one.ok:
            click.echo(f"{one.id}: {one.verdict}, expected: {one.expected}")
    return site.ok


def _identities(catalogue: Catalogue, record: Record, path: Path, check: bool) -> bool:
    """Writes the page for GitHub, or says where the one that is there isn't up to date."""
    from attnproof.pages.identities import page

    made = page(catalogue, record.reports)
    if not check:
        try:
            path.write_text(made, encoding="utf-8")
        except OSError as error:
            raise UsageProblem(f"can't write {path}: {error.strerror}. Choose another file for --identities") from error
        click.echo(f"wrote {path}")
        return True
    there = path.read_text(encoding="utf-8") if path.exists() else ""
    for number, (line, now) in enumerate(zip(there.splitlines(), made.splitlines(), strict=False), start=1):
        if line != now:
            click.echo(f"{path}:{number} isn't up to date\n  there: {line}\n  now:   {now}")
            return False
    if there != made:
        click.echo(f"{path} isn't up to date: it has {len(there.splitlines())} lines, now {len(made.splitlines())}")
    return there == made
