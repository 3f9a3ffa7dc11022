r"""The recurrences token by token, each in one fused CUDA kernel that computes in float64 (`cuda/recurrent.cu`).

They are the oracle for very long sequences: the order of operations is that of the statements, memory is that of inputs
and outputs, and one launch takes all tokens. Each takes the arguments of the chunkwise function of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from inspect import Parameter, Signature
from typing import Any

import numpy as np
from array_api_compat import device, is_cupy_array

from gpu.cupy_kernels.layouts import Layout
from gpu.cupy_kernels.linear_attention import with_normaliser

Array = Any
OPTIONS = ("-std=c++17",)
COLUMNS, THREADS = 32, 256
"""Columns of a state in a block, and threads of a block, as in the source."""
LAYOUTS = {
    "queries": "b t h k",
    "keys": "b t h k",
    "others": "b t h k",
    "values": "b t g v",
    "log_gates": "b t g",
    "strengths": "b t g",
    "cosines": "b t h p",
    "sines": "b t h p",
    "bonus": "g k",
    "initial_state": "b g k v",
}
"""The inputs of every kernel, in order; those that a system doesn't have are null."""


def source() -> str:
    """The CUDA source of all kernels."""
    return files("gpu.cupy_kernels").joinpath("cuda/recurrent.cu").read_text()


@cache
def _module() -> Any:
    """The compiled kernels, by NVRTC for the device at hand."""
    import cupy

    return cupy.RawModule(code=source(), options=OPTIONS)


def shared_bytes(key_width: int) -> int:
    """The shared memory of a block: the state, partial sums, two rows of values, and twice 8 numbers for each row."""
    return 8 * (COLUMNS * key_width + 2 * THREADS + 2 * COLUMNS + 2 * 8 * key_width)


def launch(kernel: str, blocks: int, shared: int, arguments: Sequence[Any]) -> None:
    """Starts a kernel on the device of its arguments, on the current stream.

    Args:
        kernel: its name in the source.
        blocks: how many of them.
        shared: bytes of shared memory a block.
        arguments: int32 numbers, then CuPy arrays, None for null.

    Raises:
        ValueError: an argument isn't a CuPy array, or a state doesn't fit into the device's shared memory.
    """
    arrays = [x for x in arguments if x is not None and not isinstance(x, np.int32)]
    if not all(map(is_cupy_array, arrays)):
        raise ValueError("the fused kernels take CuPy arrays: convert the arguments with cupy.asarray or from_dlpack")
    home = arrays[0].device
    most = home.attributes["MaxSharedMemoryPerBlockOptin"]
    if shared > most:
        raise ValueError(f"d_k is too large: a block needs {shared} bytes of shared memory, the device has {most}")
    with home:
        function = _module().get_function(kernel)
        function.max_dynamic_shared_size_bytes = shared
        passed = [np.uintp(0) if x is None else x for x in arguments]
        function((blocks,), (THREADS,), tuple(passed), shared_mem=shared)


@dataclass(frozen=True)
class FusedRecurrence:
    """One system's kernel, to be called like its chunkwise function, with its arguments by position or by name.

    Returns the output "b t g v" and the final state "b g k v".

    Attributes:
        kernel: its name in the source, without the precision.
        inputs: the arguments' names, in order, each with the kernel's name for it.
        by_channel: the kernel's names of gates that are "b t g k".
    """

    kernel: str
    inputs: dict[str, str]
    by_channel: tuple[str, ...] = ()

    def __call__(self, *positional: Array, **named: Array) -> tuple[Array, Array]:
        """Runs the kernel.

        Raises:
            TypeError: an argument is missing, or is none of its arguments.
            ValueError: an argument has another layout or dtype, or isn't on a device.
        """
        given = self.signature().bind(*positional, **named).arguments
        arrays = {slot: given.get(name) for name, slot in self.inputs.items()}
        layout = Layout.of(arrays["queries"], arrays["keys"], arrays["values"], chunk_size=1)
        layout = layout.with_pairs() if "cosines" in arrays else layout
        for name, x in given.items():
            slot = self.inputs[name]
            if x is not None or slot != "initial_state":
                layout.check(name, x, "b t g k" if slot in self.by_channel else LAYOUTS[slot])
        return self._run(layout, arrays)

    def signature(self) -> Signature:
        """The arguments, the initial state optional."""
        defaults = {"initial_state": None}
        return Signature(
            [
                Parameter(x, Parameter.POSITIONAL_OR_KEYWORD, default=defaults.get(x, Parameter.empty))
                for x in self.inputs
            ]
        )

    def _run(self, layout: Layout, arrays: dict[str, Array]) -> tuple[Array, Array]:
        xp, sizes, precision = layout.xp, layout.sizes, str(layout.like.dtype)
        if precision not in ("float32", "float64"):
            raise ValueError(f"the fused kernels take float32 or float64, not {precision}: convert the arguments")
        shapes = (tuple(sizes[x] for x in form) for form in ("btgv", "bgkv"))
        output, state = (xp.empty(shape, dtype=layout.like.dtype, device=device(layout.like)) for shape in shapes)
        numbers = [np.int32(sizes[x]) for x in "thgkv"]
        passed = [None if arrays.get(slot) is None else xp.ascontiguousarray(arrays[slot]) for slot in LAYOUTS]
        blocks = sizes["b"] * sizes["g"] * -(-sizes["v"] // COLUMNS)
        launch(f"{self.kernel}_{precision}", blocks, shared_bytes(sizes["k"]), [*numbers, *passed, output, state])
        return output, state


def _fused(kernel: str, *by_channel: str, **inputs: str) -> FusedRecurrence:
    return FusedRecurrence(kernel, inputs | {"initial_state": "initial_state"}, by_channel)


_READ_AND_WRITE = {"q": "queries", "k": "keys"}
_RECEPTANCE = {"r": "queries", "k": "keys"}
_GATES = {"v": "values", "log_gate": "log_gates"}

linear_attention = _fused("linear_attention", **_READ_AND_WRITE, v="values")
normalised_linear_attention = partial(with_normaliser, linear_attention)
decayed_attention = _fused("decayed_attention", **_READ_AND_WRITE, **_GATES)
mamba2 = _fused("mamba2", C="queries", B="keys", x="values", step="strengths", log_a="log_gates")
retnet = _fused("retnet", **_READ_AND_WRITE, **_GATES, cosine="cosines", sine="sines")
gla = _fused("gla", "log_gates", **_READ_AND_WRITE, **_GATES)
rwkv6 = _fused("rwkv6", "log_gates", **_RECEPTANCE, **_GATES, bonus="bonus")
deltanet = _fused("deltanet", **_READ_AND_WRITE, v="values", eta="strengths")
gated_deltanet = _fused("gated_deltanet", **_READ_AND_WRITE, **_GATES, beta="strengths")
kda = _fused("kda", "log_gates", **_READ_AND_WRITE, **_GATES, beta="strengths")
comba = _fused("comba", **_READ_AND_WRITE, p="others", **_GATES, beta="strengths")
rwkv7 = _fused("rwkv7", "log_gates", "strengths", **_RECEPTANCE, kappa="others", **_GATES, a="strengths")
path_attention = _fused("path_attention", **_READ_AND_WRITE, w="others", v="values", beta="strengths")
