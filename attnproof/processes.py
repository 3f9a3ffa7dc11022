"""Processes that answer one message after another through a pipe, for work that may hang or end its process.

A process is told of its end by the pipe: it goes on until that closes. Ctrl-C is the business of the process that
started it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from attnproof.threads import one_thread_each

SPAWN = get_context("spawn")
PATIENCE = 5.0
"""Seconds that a process has to end before it is killed."""


class PipedProcess:
    """A process, and this end of its pipe.

    Args:
        target: what it runs, with the other end of the pipe as its first argument; see `serve`.
        arguments: the others.
    """

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self.connection, other_end = SPAWN.Pipe()
        self.process = SPAWN.Process(target=target, args=(other_end, *arguments), daemon=True)
        with one_thread_each(), _interrupts_kept_back():
            self.process.start()
        other_end.close()

    def send(self, message: Any) -> None:
        """The next message. Where the process has ended meanwhile, `receive` finds out."""
        with suppress(OSError):
            self.connection.send(message)

    def receive(self) -> Any:
        """The next answer; waits for it.

        Raises:
            EOFError, OSError: the process has ended.
        """
        return self.connection.recv()

    def how_it_ended(self) -> str:
        """In words; waits for the end."""
        self.process.join(PATIENCE)
        status = self.process.exitcode
        return signal.Signals(-status).name if status is not None and status < 0 else f"exit status {status}"

    def end(self) -> None:
        """Ends the process, whatever it is at."""
        self.connection.close()
        self.process.terminate()
        self.process.join(PATIENCE)
        self.process.kill()
        self.process.join()


def serve(connection: Connection, answer: Callable[[Any], Any]) -> None:
    """What a process does: the answers to what it is sent, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        while True:
            connection.send(answer(connection.recv()))


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
