"""How long `attnproof verify` takes from a cold start, and which rungs the time goes to.

python benchmarks/verify_speed.py [--jobs N]... [--derivations DIR]... [NAME]...
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

COMMAND = (sys.executable, "-m", "attnproof")
JOBS = (1, 2)


def timed(*arguments: str) -> float:
    """Seconds of one run of the command in a process of its own.

    Raises:
        SystemExit: it ended with an exit status other than 0.
    """
    begun = perf_counter()
    done = subprocess.run([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nattnproof {' '.join(arguments)} ended with {done.returncode}")
    return perf_counter() - begun


def by_rung(record: dict[str, Any]) -> dict[str, list[tuple[float, str]]]:
    """For each rung the seconds of every identity that climbed it."""
    seconds: dict[str, list[tuple[float, str]]] = {}
    for identity in record["identities"]:
        for evidence in identity["evidence"]:
            seconds.setdefault(evidence["rung"], []).append((evidence["seconds"], identity["id"]))
    return seconds


def print_rungs(record: dict[str, Any]) -> None:
    """Total, median and slowest identity of each rung."""
    print(f"{'rung':<13}{'identities':>10}{'total':>10}{'median':>10}{'slowest':>10}")
    for rung, times in by_rung(record).items():
        slowest, name = max(times)
        numbers = [f"{x:.3f} s" for x in (sum(s for s, _ in times), median(s for s, _ in times), slowest)]
        print(f"{rung:<13}{len(times):>10}" + "".join(f"{number:>10}" for number in numbers) + f"  {name}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the times of the command, then those of the rungs as the run with the fewest processes recorded them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="what is verified; everything by default")
    parser.add_argument("--jobs", type=int, action="append", help="how many processes; may be repeated")
    parser.add_argument("--derivations", action="append", default=[], metavar="DIR")
    options = parser.parse_args(arguments)
    folders = [part for folder in options.derivations for part in ("--derivations", folder)]
    print(f"attnproof list: {timed('list', *folders):.2f} s")
    with TemporaryDirectory() as folder:
        records = {jobs: Path(folder) / f"{jobs}.json" for jobs in sorted(set(options.jobs or JOBS))}
        for jobs, path in records.items():
            seconds = timed("verify", *options.names, "--jobs", str(jobs), "--json", str(path), *folders)
            count = len(json.loads(path.read_text())["identities"])
            print(f"attnproof verify --jobs {jobs}: {seconds:.2f} s for {count} identities", flush=True)
        print()
        print_rungs(json.loads(next(iter(records.values())).read_text()))


if __name__ == "__main__":
    main()
