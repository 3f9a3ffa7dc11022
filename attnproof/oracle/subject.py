"""The kernel that is judged: called with arrays of its own library, watched for what a call must not do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnproof.implementation_cases import UNIT_ROUNDOFF
from attnproof.oracle.conventions import Convention


class Misbehaved(Exception):
    """A call did something that no kernel may do; the message says what."""


@dataclass(frozen=True)
class Subject:
    """A kernel, how it is called, and on which arrays.

    Attributes:
        library: "torch" or "numpy".
        dtype: the precision of its inputs, a key of UNIT_ROUNDOFF.
        device: where Torch's arrays lie.
    """

    kernel: Callable[..., Any]
    convention: Convention
    library: str
    dtype: str
    device: str = "cpu"

    @property
    def unit_roundoff(self) -> float:
        return UNIT_ROUNDOFF[self.dtype]

    def array(self, value: np.ndarray) -> Any:
        """A float64 array in the kernel's library and precision."""
        if self.library == "numpy":
            return value.astype(self.dtype)
        import torch

        return torch.tensor(value, dtype=getattr(torch, self.dtype), device=self.device)

    def call(self, arguments: Mapping[str, np.ndarray], **options: Any) -> dict[str, np.ndarray]:
        """What the kernel returns, by the names of the statement, as float64.

        Raises:
            Misbehaved: it raised, or returned something else than it should, or wrote into its inputs.
        """
        given = {name: self.array(value) for name, value in arguments.items()}
        before = {name: on_host(x).copy() for name, x in given.items()}
        returned = self.returned(given, **options)
        changed = [name for name, x in given.items() if not np.array_equal(on_host(x), before[name], equal_nan=True)]
        if changed:
            raise Misbehaved(f"it has written into {' and '.join(changed)}")
        return {name: on_host(x) for name, x in returned.items()}

    def returned(self, given: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """The kernel's own arrays, by the names of the statement.

        Raises:
            Misbehaved: it raised, or returned too little, or what isn't an array.
        """
        try:
            found = self.kernel(**given, **{**self.convention.constants, **options})
        except (Exception, SystemExit) as error:
            raise Misbehaved(f"it raised {type(error).__name__}: {error}") from error
        values = list(found) if isinstance(found, Sequence) else [found]
        names = [name for name, _ in self.convention.returns]
        if len(values) < len(names):
            raise Misbehaved(f"it returned {len(values)} value(s) where {', '.join(names)} were expected")
        for name, value in zip(names, values, strict=False):
            if not hasattr(value, "shape"):
                raise Misbehaved(f"it returned {type(value).__name__} for {name}")
        return dict(zip(names, values, strict=False))


def on_host(x: Any) -> np.ndarray:
    """A float64 copy in NumPy's memory."""
    if hasattr(x, "detach"):
        x = x.detach().to("cpu").double().numpy()
    return np.array(x, np.float64)


def has_torch() -> bool:
    """Whether Torch is installed."""
    from importlib.util import find_spec

    return find_spec("torch") is not None
