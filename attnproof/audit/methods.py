"""A method called without its object: what it looks up in the object is taken from the class, and nothing is set."""

from __future__ import annotations

import sys
from typing import Any


class Methods:
    """Stands for the object of a method that needs nothing but other methods of its class."""

    def __init__(self, method: Any) -> None:
        self._class = getattr(sys.modules[method.__module__], method.__qualname__.split(".")[0])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._class, name).__get__(self)
