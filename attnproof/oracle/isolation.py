"""A kernel in a process of its own: one that hangs or crashes is a verdict, and not the end of the run.

The process keeps a journal, a line of JSON for each thing that is done, so that what was found before a crash isn't
lost and a line that was cut off is nothing. What the kernel prints is read and dropped but for its end. At the end the
whole process group is killed, whatever the kernel has started.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic
from typing import IO, Any

TAIL, SHOWN = 4096, 200
"""How many bytes of what the process printed are kept, and how many characters of its last line are shown."""
LOOK, GRACE, TO_TELL = 0.05, 5.0, 1.0
"""Seconds: between looks at the journal; to end in, once the record is there; to say where it hangs."""
GIGABYTE = 2**30
PROGRAM = """
import sys; sys.path.insert(0, "")
from attnproof.oracle.isolation import enter
enter({folder!r}, {gigabytes!r})
sys.argv[1:] = {arguments!r}
from attnproof.cli import main
main()
"""
FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
OUR_OWN = re.compile(r'^  File ".*attnproof.oracle.', re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A check that the process has done."""

    id: str
    verdict: str
    seconds: float


@dataclass(frozen=True)
class Isolated:
    """What became of the process.

    Attributes:
        record: what it found; None where it didn't come to its end.
        message: why there is no record.
        checks: the records of the checks that it had done.
        usage: what was wrong with how it was called; "" where nothing was.
    """

    record: dict[str, Any] | None
    message: str = ""
    checks: tuple[dict[str, Any], ...] = ()
    usage: str = ""


def in_its_own_process(
    arguments: Sequence[str],
    seconds: float,
    gigabytes: float | None = None,
    done: Callable[[Step], None] = lambda step: None,
) -> Isolated:
    """Runs `attnproof check` with these arguments in another process.

    Args:
        arguments: of the command, without --isolate and --json; `--journal FILE` is added.
        seconds: after which it is ended.
        gigabytes: of memory that it may allocate (on Linux, RLIMIT_DATA); no limit where None.
        done: called with each check as it is done.
    """
    with TemporaryDirectory() as folder:
        own = [*arguments, "--journal", str(Path(folder) / "journal")]
        program = PROGRAM.format(folder=folder, gigabytes=gigabytes, arguments=own)
        return watched([sys.executable, "-c", program], Path(folder), seconds, done)


def enter(folder: str, gigabytes: float | None) -> None:
    """What the process does first: its limits, and where it says what it was doing when it is stopped."""
    if gigabytes:
        import resource  # there is none on Windows

        limit = int(gigabytes * GIGABYTE)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))  # of address space CUDA reserves any amount
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it isn't to live on where we are killed
    stack = (Path(folder) / "stack").open("w", encoding="utf-8")
    faulthandler.enable(stack, all_threads=False)
    faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
    STACKS.append(stack)


STACKS: list[IO[str]] = []
"""Files that the fault handler writes into; a file that is let go is closed."""


def note(journal: Path | None, entry: Mapping[str, Any]) -> None:
    """Appends an entry to the journal, where there is one. It is opened anew: a kernel may close what is open."""
    if journal is not None:
        with journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, default=str) + "\n")


def entries(journal: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal; one that was cut off is left out."""
    with suppress(FileNotFoundError):
        return [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines(True) if line[-1] == "\n"]
    return []


def watched(program: Sequence[str], folder: Path, seconds: float, done: Callable[[Step], None]) -> Isolated:
    """Runs a program that calls `enter` and keeps a journal in the folder, and ends it with all that it started."""
    process = subprocess.Popen(
        program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    tail = Tail(process)
    try:
        in_time = _followed(process, folder / "journal", seconds, done)
        if not in_time:
            _tell(process, folder / "stack")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    found = entries(folder / "journal")
    why = _ended_with(code, tail.last_line()) if in_time else f"it was not done after {seconds:g} s"
    return _outcome(found, f"{why}{_stage(found)}{_place(folder / 'stack')}")


def _followed(process: subprocess.Popen[bytes], journal: Path, seconds: float, done: Callable[[Step], None]) -> bool:
    """Passes on each check that is done; whether the process came to its end, or to its record, in time."""
    seen, end, recorded = 0, monotonic() + seconds, False
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK)
        found = entries(journal)
        for entry in found[seen:]:
            if "check" in entry:
                done(Step(entry["check"]["check"], entry["check"]["verdict"], entry["seconds"]))
            if "record" in entry and not recorded:  # a thread that never ends is no reason to wait
                end, recorded = min(end, monotonic() + GRACE), True
        seen = len(found)
        if process.returncode is not None or monotonic() > end:
            return process.returncode is not None or recorded


def _tell(process: subprocess.Popen[bytes], stack: Path) -> None:
    """Lets the process write down where it is; one that doesn't is killed all the same."""
    end = monotonic() + TO_TELL
    if stack.exists() and hasattr(signal, "SIGUSR1"):
        process.send_signal(signal.SIGUSR1)
        while monotonic() < end and not stack.read_text(encoding="utf-8", errors="replace").endswith("\n"):
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK)


class Tail:
    """Reads what a process prints, so that it doesn't wait for a reader, and keeps the end of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._kept, self._pipe = b"", process.stdout
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while chunk := os.read(self._pipe.fileno(), 2**16):
            self._kept = (self._kept + chunk)[-TAIL:]

    def last_line(self) -> str:
        """The last line that isn't empty, what can't be shown left out."""
        self._thread.join(TO_TELL)  # a process of another session may keep the pipe open
        lines = [line.strip() for line in self._kept.decode(errors="replace").splitlines() if line.strip()]
        shown = "".join(x for x in lines[-1] if x.isprintable()) if lines else ""
        return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]} ..."


def _ended_with(code: int, last_line: str) -> str:
    if code >= 0:
        return f"its process ended with {code}" + (f": {last_line}" if last_line else "")
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    why = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{why}"


def _stage(found: Sequence[Mapping[str, Any]]) -> str:
    """How far the process had come."""
    names = [x["check"]["check"] for x in found if "check" in x]
    if names:
        return f", after the check {names[-1]!r}"
    return "" if any("imported" in x for x in found) else ", while it was imported"


def _place(stack: Path) -> str:
    """Where it was, from a stack with the innermost call first: in the file that has the kernel."""
    text = stack.read_text(encoding="utf-8", errors="replace") if stack.exists() else ""
    calls = list(_calls(text))
    if not calls:
        return ""
    file, line, function = next(call for call in calls if call[0] == calls[-1][0])
    return f", in {function} ({Path(file).name}, line {line})"


def _calls(text: str) -> Iterator[tuple[str, str, str]]:
    """The calls of a stack inside the kernel: those within the oracle's."""
    ours = OUR_OWN.search(text)
    if ours is not None:
        yield from FRAME.findall(text[: ours.start()])


def _outcome(found: Sequence[Mapping[str, Any]], message: str) -> Isolated:
    for entry in found:
        if "usage" in entry:
            return Isolated(None, usage=entry["usage"])
        if "record" in entry:
            return Isolated(entry["record"])
    return Isolated(None, message, tuple(x["check"] for x in found if "check" in x))
