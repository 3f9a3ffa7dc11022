"""One thread for each process: the matrices are small, and threads that wait for one another cost more than they do.

Measured on 2 cores that others use too: the field and floats rungs take a third of the time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_thread_each() -> Iterator[None]:
    """The environment in which NumPy and Torch use one thread, if they are imported here or in a process that starts
    here. A number of threads that the user has set stays.
    """
    unset = [name for name in VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "1"))
    try:
        yield
    finally:
        for name in unset:
            del os.environ[name]
