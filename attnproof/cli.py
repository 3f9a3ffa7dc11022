"""The command `attnproof`: an interrupt ends it without a traceback, from the first import on."""

from __future__ import annotations

import io
import sys

from attnproof.statuses import INTERRUPTED
from attnproof.threads import one_thread_each


def main() -> None:
    """Runs the command line on `sys.argv` and exits: 0 as expected, 1 not so, 2 wrong usage, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for a terminal without Greek letters
    try:
        with one_thread_each():
            from attnproof.commands import attnproof

            attnproof(prog_name="attnproof")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
