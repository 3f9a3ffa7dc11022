"""Subjects in processes of their own: one that hangs or crashes is a verdict, and not the end of the run.

A process goes on from subject to subject, since importing the libraries takes longer than most audits, and
`attnproof.oracle.isolation` would start one for each. Where one doesn't answer in time or dies, another takes its
place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from attnproof.audit.judging import Effort, audited, not_run
from attnproof.audit.table import subject
from attnproof.processes import PipedProcess, serve
from attnproof.triton_on_cpu import interpret_triton


@dataclass(frozen=True)
class Settings:
    """What every process is told.

    Attributes:
        seconds: that one subject may take, the import of its library among them.
    """

    effort: Effort = "quick"
    backward: bool = True
    seed: int = 0
    seconds: float = 600.0


class Worker(PipedProcess):
    """A process that audits one subject after another."""

    def __init__(self, settings: Settings, target: Callable[[Connection, Settings], None] | None = None) -> None:
        self.settings = settings
        super().__init__(target or _audit_each, settings)

    def audit(self, name: str) -> dict[str, Any] | str:
        """The record of a subject, or why there is none."""
        self.send(name)
        try:
            if not self.connection.poll(self.settings.seconds):
                return f"it was not done after {self.settings.seconds:g} s"
            record: dict[str, Any] = self.receive()
        except (EOFError, OSError):
            return f"its process ended with {self.how_it_ended()}"
        return record


def _audit_each(connection: Connection, settings: Settings) -> None:
    """What a process does: the records of the names that it is sent. What libraries warn of isn't shown.

    Triton is imported first, to be interpreted: several libraries import it for themselves.
    """
    warnings.simplefilter("ignore")
    if find_spec("triton"):
        interpret_triton()
    serve(connection, lambda name: audited(subject(name), settings.effort, settings.backward, settings.seed))


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
