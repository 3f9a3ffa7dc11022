"""Checking identities in several processes.

Each worker has a pipe of its own and gets one identity at a time, so that where a worker dies it is known which
identity it was checking; another worker takes its place and the others go on.
"""

from __future__ import annotations

import gc
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait

from attnproof.catalogue import Entry, load_catalogue
from attnproof.checking import Settings, check, unfinished
from attnproof.threads import one_thread_each
from derivations.language.expressions import Inverted
from derivations.language.facts import Fact
from derivations.language.forms import Form
from numerics.proofs.ladder import Report

SPAWN = get_context("spawn")
PATIENCE = 5.0
"""Seconds that a worker has to end before it is killed."""


def check_all(entries: Sequence[Entry], settings: Settings, jobs: int) -> Iterator[Report]:
    """The reports of all identities as they come, from this process where `jobs` is 1, else from so many others.

    Closing the iterator, or an interrupt, ends the other processes.
    """
    if jobs == 1:
        yield from (check(entry, settings) for entry in entries)
        return
    waiting = deque(sorted(entries, key=_cost, reverse=True))
    busy: list[Worker] = []
    try:
        for _ in range(min(jobs, len(waiting))):
            busy.append(Worker(settings, _next(waiting, None, busy)))
        while busy:
            ready = wait([worker.connection for worker in busy])
            for worker in [w for w in busy if w.connection in ready]:
                report = worker.report()
                if not waiting or worker.died:
                    busy.remove(worker)
                    worker.end()
                if waiting and worker.died:
                    busy.append(Worker(settings, _next(waiting, None, busy)))
                elif waiting:
                    worker.give(_next(waiting, worker, busy))
                yield report
    finally:
        for worker in busy:
            worker.end()


class Worker:
    """A process that checks one identity after another, and the identity that it is at."""

    def __init__(self, settings: Settings, entry: Entry) -> None:
        self.connection, other_end = SPAWN.Pipe()
        self.process = SPAWN.Process(target=serve, args=(other_end, settings), daemon=True)
        self.died = False
        with one_thread_each(), _interrupts_kept_back():
            self.process.start()
        other_end.close()
        self.give(entry)

    def give(self, entry: Entry) -> None:
        """The next identity. Where the worker has died meanwhile, `report` finds out."""
        self.entry = entry
        with suppress(OSError):
            self.connection.send(entry.id)

    def report(self) -> Report:
        """The report of the identity it is at; waits for it."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.died = True
            self.process.join(PATIENCE)
            return unfinished(self.entry, f"the process that checked it died ({_ending(self.process.exitcode)})")

    def end(self) -> None:
        """Ends the process, whatever it is at."""
        self.connection.close()
        self.process.terminate()
        self.process.join(PATIENCE)
        self.process.kill()
        self.process.join()


def serve(connection: Connection, settings: Settings) -> None:
    """What a worker does: the reports of the ids that it is sent, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the first process's business
    entries = {entry.id: entry for entry in load_catalogue(settings.folders).entries()}
    gc.freeze()  # what is loaded by now stays: the collector needn't look through SymPy again and again
    with suppress(EOFError, OSError):
        while True:
            connection.send(check(entries[connection.recv()], settings))


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        return signal.Signals(-status).name
    return f"exit status {status}"


@contextmanager
def _interrupts_kept_back() -> Iterator[None]:
    """A process that starts meanwhile doesn't see Ctrl-C, not even before its first line runs; this one sees it
    afterwards.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # its own start would let interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _next(waiting: deque[Entry], worker: Worker | None, busy: Sequence[Worker]) -> Entry:
    """An identity of the system that the worker is at, since it remembers the forms that it ran in the field;
    else of a system that no other worker is at; else the one that takes longest.
    """
    own = worker.entry.derivation.name if worker else None
    others = {other.entry.derivation.name for other in busy if other is not worker}
    by_preference = (lambda name: name == own, lambda name: name not in others, lambda name: True)
    chosen = next(entry for fits in by_preference for entry in waiting if fits(entry.derivation.name))
    waiting.remove(chosen)
    return chosen


def _cost(entry: Entry) -> tuple[bool, int]:
    """What takes longest starts first: identities that hold are checked at large sizes, and inverses cost most."""
    if isinstance(entry.statement, Fact):
        return False, 0
    identity = entry.identity
    return identity.expected == "holds", _inverses(identity.left) + _inverses(identity.right)


def _inverses(form: Form) -> int:
    return sum(len(e.atoms(Inverted)) for e in form.expressions().values())
