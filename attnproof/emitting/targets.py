"""The array libraries that reference code is emitted for: what each calls the few operations that the code needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LIKE = "like"
"""The name of what constants take from the inputs."""


@dataclass(frozen=True)
class Target:
    """An array library.

    Args:
        name: what the user calls it, and what is imported.
        module: the name under which the code knows it.
        imported: the line that imports it.
        axis, keep: how the arguments for a dimension, and for keeping it, are called.
        concatenated: the function that joins arrays.
        permuted: the method that reorders dimensions.
        has_device: whether constants have to be put on a device.
    """

    name: str
    module: str
    imported: str
    axis: str = "axis"
    keep: str = "keepdims"
    concatenated: str = "concatenate"
    permuted: str = "transpose"
    has_device: bool = False

    def call(self, function: str, *arguments: str) -> str:
        """A call of a function of the library."""
        return f"{self.module}.{function}({', '.join(arguments)})"

    def along(self, axis: int, keep: bool = False) -> str:
        """The arguments that name a dimension."""
        return f"{self.axis}={axis}" + (f", {self.keep}=True" if keep else "")

    def made(self, function: str, sizes: Sequence[str]) -> str:
        """A call of `zeros`, `ones` or `eye`, with the precision of the inputs."""
        shape = ", ".join(sizes)
        return self.call(function, shape if function == "eye" else f"({shape})", f"**{LIKE}")

    def lower(self, size: str, below: int) -> str:
        """Ones on and below the diagonal that lies so far below the main one."""
        return self.call("tril", self.made("ones", [size, size]), *([str(-below)] if below else []))

    def like(self, array: str) -> str:
        """What constants take from an array: its precision, and its device where there are several."""
        device = f', "device": {array}.device' if self.has_device else ""
        return f'{LIKE} = {{"dtype": {array}.dtype{device}}}'

    def solved(self, matrix: str, right: str, lower: bool, unit: bool) -> str:
        """The solution of a linear system; a triangular one by substitution, where the library has it."""
        if self.has_device and lower:
            return self.call("linalg.solve_triangular", matrix, right, "upper=False", *(["unitriangular=True"] * unit))
        return self.call("linalg.solve", matrix, right)

    def reordered(self, text: str, axes: Sequence[int]) -> str:
        """An array with its dimensions in another order."""
        moved = [axis for place, axis in enumerate(axes) if axis != place]
        if not moved:
            return text
        if len(moved) == 2:
            last_two = sorted(moved) == [len(axes) - 2, len(axes) - 1]
            return f"{text}.mT" if last_two else f"{text}.swapaxes({min(moved)}, {max(moved)})"
        return f"{text}.{self.permuted}({', '.join(map(str, axes))})"

    def helper(self, text: str) -> str:
        """A function that is written for NumPy, in this library's words."""
        words = {"np.concatenate": f"np.{self.concatenated}", "axis=": f"{self.axis}=", "keepdims=": f"{self.keep}="}
        for written, own in {**words, "np.": f"{self.module}."}.items():
            text = text.replace(written, own)
        return text


TARGETS = {
    "torch": Target("torch", "torch", "import torch", "dim", "keepdim", "cat", "permute", has_device=True),
    "numpy": Target("numpy", "np", "import numpy as np"),
    "jax": Target("jax", "jnp", "import jax.numpy as jnp"),
}
"""By the name on the command line."""
