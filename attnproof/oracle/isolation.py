"""A kernel in a process of its own: one that hangs or crashes is a verdict, and not the end of the run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SHOWN = 2000
"""How much of what the process printed last is kept."""
LIMITED = """
import resource, runpy, sys
if {memory}: resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
sys.argv = ["attnproof", *{arguments!r}]
runpy.run_module("attnproof", run_name="__main__")
"""
GIGABYTE = 2**30


@dataclass(frozen=True)
class Isolated:
    """What became of the process: the record that it wrote, or why there is none."""

    record: dict[str, Any] | None
    message: str = ""


def in_its_own_process(arguments: Sequence[str], seconds: float, gigabytes: float | None = None) -> Isolated:
    """Runs `attnproof check` with these arguments in another process.

    Args:
        arguments: of the command, without --isolate and --json.
        seconds: after which it is ended.
        gigabytes: of address space that it may take; no limit where None.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "record.json"
        memory = int(gigabytes * GIGABYTE) if gigabytes else 0
        code = LIMITED.format(memory=memory, arguments=[*arguments, "--json", str(file)])
        try:
            done = subprocess.run(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Isolated(None, f"it was not done after {seconds:g} s")
        if file.exists():
            return Isolated(json.loads(file.read_text(encoding="utf-8")))
        return Isolated(None, _why(done))


def _why(done: subprocess.CompletedProcess[bytes]) -> str:
    """Why there is no record."""
    printed = done.stderr[-SHOWN:].decode(errors="replace").strip()
    last = printed.splitlines()[-1] if printed else ""
    if done.returncode < 0:
        return f"its process was ended by {signal.Signals(-done.returncode).name}"
    return f"its process ended with {done.returncode}" + (f": {last}" if last else "")
