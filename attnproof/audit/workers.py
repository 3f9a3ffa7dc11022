"""Subjects in processes of their own: one that hangs or crashes is a verdict, and not the end of the run.

A process goes on from subject to subject, since importing the libraries takes longer than most audits, and
`attnproof.oracle.isolation` would start one for each. Where one doesn't answer in time or dies, another takes its
place.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from attnproof.audit.judging import Effort, audited, not_run
from attnproof.audit.table import subject
from attnproof.threads import one_thread_each

SPAWN = get_context("spawn")
PATIENCE = 5.0
"""Seconds that a process has to end before it is killed."""


@dataclass(frozen=True)
class Settings:
    """What every process is told.

    Attributes:
        seconds: that one subject may take, the import of its library among them.
    """

    effort: Effort = "quick"
    backward: bool = True
    seed: int = 0
    seconds: float = 120.0


class Worker:
    """A process that audits one subject after another."""

    def __init__(self, settings: Settings, target: Callable[[Connection, Settings], None] | None = None) -> None:
        self.settings = settings
        self.connection, other_end = SPAWN.Pipe()
        self.process = SPAWN.Process(target=target or serve, args=(other_end, settings), daemon=True)
        with one_thread_each():
            self.process.start()
        other_end.close()

    def audit(self, name: str) -> dict[str, Any] | str:
        """The record of a subject, or why there is none."""
        with suppress(OSError):
            self.connection.send(name)
        try:
            if not self.connection.poll(self.settings.seconds):
                return f"it was not done after {self.settings.seconds:g} s"
            record: dict[str, Any] = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(PATIENCE)
            return f"its process ended with {_ending(self.process.exitcode)}"
        return record

    def end(self) -> None:
        """Ends the process, whatever it is at."""
        self.connection.close()
        self.process.terminate()
        self.process.join(PATIENCE)
        self.process.kill()
        self.process.join()


def serve(connection: Connection, settings: Settings) -> None:
    """What a process does: the records of the names that it is sent, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the first process's business
    with suppress(EOFError, OSError):
        while True:
            one = subject(connection.recv())
            connection.send(audited(one, settings.effort, settings.backward, settings.seed))


def audit_all(names: Sequence[str], settings: Settings, jobs: int) -> Iterator[dict[str, Any]]:
    """The records as they come, from so many processes."""
    free: SimpleQueue[Worker] = SimpleQueue()
    workers = [Worker(settings) for _ in range(min(jobs, len(names)))]
    for worker in workers:
        free.put(worker)

    def one(name: str) -> dict[str, Any]:
        worker = free.get()
        record = worker.audit(name)
        if isinstance(record, str):
            worker.end()
            worker = Worker(settings)
            workers.append(worker)
            record = not_run(subject(name), record)
        free.put(worker)
        return record

    with ThreadPoolExecutor(max(len(workers), 1)) as threads:
        try:
            for done in as_completed([threads.submit(one, name) for name in names]):
                yield done.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.end()


def _ending(status: int | None) -> str:
    return signal.Signals(-status).name if status is not None and status < 0 else f"exit status {status}"
