"""Checking identities in several processes.

Each worker has a pipe of its own and gets one identity at a time, so that where a worker dies it is known which
identity it was checking; another worker takes its place and the others go on.
"""

from __future__ import annotations

import gc
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait

from attnproof.catalogue import Entry, load_catalogue
from attnproof.checking import Settings, check, unfinished
from attnproof.processes import PipedProcess, serve
from derivations.language.expressions import Inverted
from derivations.language.facts import Fact
from derivations.language.forms import Form
from numerics.proofs.ladder import Report


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


class Worker(PipedProcess):
    """A process that checks one identity after another, and the identity that it is at."""

    def __init__(self, settings: Settings, entry: Entry) -> None:
        super().__init__(_check_each, settings)
        self.died = False
        self.give(entry)

    def give(self, entry: Entry) -> None:
        """The next identity."""
        self.entry = entry
        self.send(entry.id)

    def report(self) -> Report:
        """The report of the identity it is at; waits for it."""
        try:
            report: Report = self.receive()
        except (EOFError, OSError):
            self.died = True
            return unfinished(self.entry, f"the process that checked it died ({self.how_it_ended()})")
        return report


def _check_each(connection: Connection, settings: Settings) -> None:
    """What a worker does: the reports of the ids that it is sent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from here on, while the catalogue is loaded
    entries = {entry.id: entry for entry in load_catalogue(settings.folders).entries()}
    gc.freeze()  # what is loaded by now stays: the collector needn't look through SymPy again and again
    serve(connection, lambda id_: check(entries[id_], settings))


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
