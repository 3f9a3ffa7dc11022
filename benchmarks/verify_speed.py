"""How long `attnproof verify` takes from a cold start, and which rungs the time goes to.

python benchmarks/verify_speed.py [--jobs N]... [--derivations DIR]... [--json FILE] [NAME]...
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


def rungs_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Total, median and slowest identity of each rung."""
    return [
        {
            "rung": rung,
            "identities": len(times),
            "total": sum(seconds for seconds, _ in times),
            "median": median(seconds for seconds, _ in times),
            "slowest": max(times)[0],
            "slowest identity": max(times)[1],
        }
        for rung, times in by_rung(record).items()
    ]


def print_rungs(rungs: Sequence[dict[str, Any]]) -> None:
    """One line for each rung."""
    print(f"{'rung':<13}{'identities':>10}{'total':>10}{'median':>10}{'slowest':>10}")
    for row in rungs:
        numbers = "".join(f"{row[name]:>8.3f} s" for name in ("total", "median", "slowest"))
        print(f"{row['rung']:<13}{row['identities']:>10}{numbers}  {row['slowest identity']}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the times of the command, then those of the rungs as the run with the fewest processes recorded them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="what is verified; everything by default")
    parser.add_argument("--jobs", type=int, action="append", help="how many processes; may be repeated")
    parser.add_argument("--derivations", action="append", default=[], metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the same numbers")
    options = parser.parse_args(arguments)
    folders = [part for folder in options.derivations for part in ("--derivations", folder)]
    measured: dict[str, Any] = {"list": timed("list", *folders), "verify": {}}
    print(f"attnproof list: {measured['list']:.2f} s")
    with TemporaryDirectory() as folder:
        records = {jobs: Path(folder) / f"{jobs}.json" for jobs in sorted(set(options.jobs or JOBS))}
        for jobs, path in records.items():
            seconds = timed("verify", *options.names, "--jobs", str(jobs), "--json", str(path), *folders)
            count = len(json.loads(path.read_text())["identities"])
            measured["verify"][jobs] = {"seconds": seconds, "identities": count}
            print(f"attnproof verify --jobs {jobs}: {seconds:.2f} s for {count} identities", flush=True)
        print()
        measured["rungs"] = rungs_of(json.loads(next(iter(records.values())).read_text()))
    print_rungs(measured["rungs"])
    if options.json:
        options.json.write_text(json.dumps(measured, indent=2) + "\n")


if __name__ == "__main__":
    main()
