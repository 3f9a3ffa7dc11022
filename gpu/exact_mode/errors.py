"""What exact mode says of an operator that it can't carry out: which one it is, why, and the line that called it."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch
from torch._ops import OpOverload

from derivations.language.errors import NoMeaning, UndefinedValue

TORCH, HERE = Path(torch.__file__).parent, Path(__file__).parent
RUNNER = HERE / "running.py"
LONGEST_LINE = 100
SPELLED = {"_local_scalar_dense": "item", "_to_copy": "to", "_safe_softmax": "softmax"}
"""Operators whose name in Torch isn't the one that they are called by."""


class NoExactMeaning(Exception):
    """An operator has no meaning in exact arithmetic; the message names it and the line of user code that called it.

    Attributes:
        operator: its name, "rsqrt".
        reason: why it has none.
        place: "kernel.py:12 (in forward): y = torch.rsqrt(x)", or what is being differentiated.
    """

    # no TypeError, as NoMeaning is: Torch takes one in `x > 0` to mean that nobody knows how to compare x and 0
    def __init__(self, operator: str, reason: str, place: str) -> None:
        super().__init__(f"{operator} has no exact meaning: {reason}\n  called at {place}")
        self.operator, self.reason, self.place = operator, reason, place


class UndefinedHere(UndefinedValue):
    """A division by zero or a singular matrix, with the operator and the line of user code that called it.

    Attributes:
        operator, reason, place: as those of NoExactMeaning.
    """

    def __init__(self, operator: str, reason: str, place: str) -> None:
        super().__init__(f"{operator}: {reason}\n  called at {place}")
        self.operator, self.reason, self.place = operator, reason, place


def name_of(func: OpOverload) -> str:
    """The name of an operator, as it is in Torch."""
    return str(func._schema.name).removeprefix("aten::")


@contextmanager
def explained(func: OpOverload) -> Iterator[None]:
    """Errors within are raised with the name of the operator and the line that called it.

    Where Torch defines one operator by others, it is the outermost one: that is the one that was called.
    """
    try:
        yield
    except (NoExactMeaning, UndefinedHere) as error:
        raise type(error)(_said(func), error.reason, error.place) from None
    except NoMeaning as error:
        raise NoExactMeaning(_said(func), str(error), calling_line()) from None
    except UndefinedValue as error:
        raise UndefinedHere(_said(func), str(error), calling_line()) from None


def _said(func: OpOverload) -> str:
    """The name that users know it by."""
    name = name_of(func)
    return SPELLED.get(name, name.removeprefix("_"))


def calling_line() -> str:
    """The line of user code that is being run: the innermost one outside Torch and outside exact mode.

    Autograd's own formulas are called by no line; there it is the operation that is being differentiated.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path == RUNNER:
            break
        if not _is_ours(path):
            return _shown(frame)
        frame = frame.f_back
    node = differentiated()
    return f"the backward pass of {node}" if node else "an unknown line"


def _is_ours(path: Path) -> bool:
    library = Path(contextmanager.__code__.co_filename).parent  # contextlib is between the two
    return TORCH in path.parents or HERE in path.parents or path.parent == library


def _shown(frame: FrameType) -> str:
    path = frame.f_code.co_filename
    line = linecache.getline(path, frame.f_lineno).strip()
    line = line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}..."
    where = f"{Path(path).name}:{frame.f_lineno} (in {frame.f_code.co_name})"
    return f"{where}: {line}" if line else where


def differentiated() -> str:
    """The name of the autograd node that is running ("CumprodBackward0"), or nothing outside a backward pass."""
    node = torch._C._current_autograd_node()
    return str(node.name()) if node is not None else ""
