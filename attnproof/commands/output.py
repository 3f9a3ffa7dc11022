"""What commands print: progress, and tables that are whole wherever they go."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text


class Step(Protocol):
    """Something that has been done: a report, or a finding."""

    @property
    def id(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def seconds(self) -> float: ...


WIDE = 1000
"""Columns of an output that isn't a terminal: nothing is cut off or folded."""


@contextmanager
def progress(total: int) -> Iterator[Callable[[Step], None]]:
    """What is called with each step as it is done: a bar on a terminal, a line for each elsewhere."""
    if not sys.stdout.isatty():
        finished = iter(range(1, total + 1))
        yield lambda step: click.echo(
            f"{next(finished):>{len(str(total))}}/{total} {step.id}: {step.verdict} in {step.seconds:.1f} s"
        )
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda step: bar.update(task, advance=1, description=step.id)


def table(*heads: str, numbers: Sequence[str] = ("seconds",)) -> Table:
    """An empty table with these columns; numbers stand flush right."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in heads:
        made.add_column(head, overflow="fold", justify="right" if head in numbers else "left")
    return made


def print_table(table: Table) -> None:
    """Prints a table: folded to a terminal's width, else whole."""
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
        return
    console = Console(width=WIDE, highlight=False, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def verdict_text(verdict: str, ok: bool) -> Text:
    """A verdict, coloured where colours are."""
    return Text(verdict, style="green" if ok else "bold red")
