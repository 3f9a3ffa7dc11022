"""The oracle's score: planted faults that must be caught, and honest implementations that must not be refuted.

    python -m benchmarks.oracle_score [--only PATTERN] [--quick] [--jobs 2] [--json FILE] [--write]

It needs torch; transformers' functions are among the honest ones where it is installed. The exit status is 1 if a fault
is missed in float32, or in bfloat16 though it is larger than bfloat16's own error, or if an honest one is refuted.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.oracle_score.page import page
from benchmarks.oracle_score.record import dumped, failed, false_alarms, record_of, scored, totals, written
from benchmarks.oracle_score.scoring import HonestResult, Result, Task, run, tasks

HERE = Path(__file__).parent
RECORD, PAGE = HERE / "record.json", HERE.parent.parent / "docs" / "oracle_score.md"
PACKAGES = ("torch", "transformers", "numpy")


def main(argv: list[str] | None = None) -> int:
    """Runs the command; the exit status."""
    arguments = _parser().parse_args(argv)
    if arguments.write and (arguments.only or arguments.quick):
        _parser().error("--write is for the whole score: leave out --only and --quick")
    chosen = tasks(arguments.only, arguments.quick)
    if not chosen:
        _parser().error(f"nothing has {arguments.only!r} in its name")
    console = Console()
    try:
        results = _with_progress(chosen, arguments.jobs, console)
    except KeyboardInterrupt:
        console.print("stopped; nothing was written")
        return 130
    record = record_of(results, _versions())
    if arguments.json:
        written(arguments.json, dumped(record))
    if arguments.write:
        written(RECORD, dumped(record))
        written(PAGE, page(record))
    _say(record, console)
    return int(failed(record))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.oracle_score", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="PATTERN", help="what has this in its name, 'kda: '")
    parser.add_argument("--quick", action="store_true", help="a few of each")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record there")
    parser.add_argument("--write", action="store_true", help="write the record and docs/oracle_score.md")
    return parser


def _with_progress(chosen: list[Task], jobs: int, console: Console) -> list[Result]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("judged", total=len(chosen))

        def seen(task: Task, result: Result) -> None:
            progress.advance(bar)
            finished = int(progress.tasks[0].completed)
            if not console.is_terminal and finished % 50 == 0:
                progress.print(f"{finished} of {len(chosen)} judged")
            if isinstance(result, HonestResult) and result.replay:
                progress.print(f"FALSE ALARM {result.id}: {result.replay}", markup=False, soft_wrap=True)
            elif not isinstance(result, HonestResult) and not result.caught:
                progress.print(f"not caught in {result.dtype}: {result.id}", markup=False, soft_wrap=True)

        return run(chosen, jobs, seen)


def _say(record: dict[str, object], console: Console) -> None:
    for x in scored(record):
        word = f"MISSED in {' and '.join(x.missed)}" if x.missed else "caught"
        named = {None: "", True: ", named", False: ", not named"}[x.named]
        console.print(f"{x.fault.id} ({x.fault.kind}): {word}{named}", markup=False, highlight=False, soft_wrap=True)
    for row in false_alarms(record):
        console.print(f"FALSE ALARM {row['id']}: {row['replay']}", markup=False, highlight=False, soft_wrap=True)
    for line in totals(record):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _versions() -> dict[str, str]:
    return {name: x for name in PACKAGES if (x := _version(name))}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
