"""Arrays of the libraries that kernels are written for: from float64 values of NumPy, and back.

NumPy, Torch, JAX and CuPy are known. Each is imported when a kernel of its own is judged.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np

from attnproof.implementation_cases import UNIT_ROUNDOFF
from attnproof.oracle.conventions import WrongConvention

Library = Literal["torch", "numpy", "jax", "cupy"]
LIBRARIES: tuple[Library, ...] = get_args(Library)
WITHOUT_BFLOAT16 = ("numpy", "cupy")


def usual_library() -> Library:
    """Torch's arrays where Torch is installed."""
    return "torch" if find_spec("torch") is not None else "numpy"


def check(library: str, dtype: str) -> None:
    """Whether a library can be had here, and has a precision.

    Raises:
        WrongConvention: no; the message says what to change.
    """
    if library not in LIBRARIES:
        raise WrongConvention(f"no library is named {library!r}; there are: {', '.join(LIBRARIES)}")
    if dtype not in UNIT_ROUNDOFF:
        raise WrongConvention(f"no precision is named {dtype!r}; there are: {', '.join(UNIT_ROUNDOFF)}")
    if find_spec(library) is None:
        raise WrongConvention(f"{library} isn't installed: pip install {library}, or name another library")
    if library in WITHOUT_BFLOAT16 and dtype == "bfloat16":
        raise WrongConvention(f"{library} has no bfloat16: judge the kernel in float32, or on arrays of torch or jax")
    if library == "jax" and dtype == "float64" and not import_module("jax").config.jax_enable_x64:
        raise WrongConvention("JAX computes in float32: jax.config.update('jax_enable_x64', True) gives it float64")


def array(value: np.ndarray, library: Library, dtype: str, device: str = "cpu") -> Any:
    """A new array with these values."""
    match library:
        case "numpy":
            return value.astype(dtype)
        case "torch":
            torch = import_module("torch")
            return torch.tensor(value, dtype=getattr(torch, dtype), device=device)
        case "jax":
            return import_module("jax.numpy").array(value, dtype=dtype)
        case "cupy":
            return import_module("cupy").asarray(value, dtype=dtype)


def integers(values: list[int], library: Library, device: str = "cpu") -> Any:
    """A new array of 64-bit integers (of 32 bits, where JAX has no others)."""
    found = np.array(values, np.int64)
    match library:
        case "numpy":
            return found
        case "torch":
            return import_module("torch").tensor(found, device=device)
        case "jax":
            return import_module("jax.numpy").array(found)
        case "cupy":
            return import_module("cupy").asarray(found)


def on_host(x: Any) -> np.ndarray:
    """A float64 copy in NumPy's memory."""
    if hasattr(x, "detach"):  # Torch's
        x = x.detach().to("cpu").double().numpy()
    elif hasattr(x, "get") and hasattr(x, "device"):  # CuPy's
        x = x.get()
    return np.array(x, np.float64)


def precision_of(x: Any) -> str:
    """The name of an array's dtype, "float32"."""
    return str(x.dtype).removeprefix("torch.")


def with_gaps(x: Any) -> Any:
    """The same values where every second place in memory is another's; JAX's arrays have no such layout."""
    match library_of(x):
        case "torch":
            return x.repeat_interleave(2, dim=-1)[..., ::2]
        case "jax":
            return x
    return x.repeat(2, axis=-1)[..., ::2]


def library_of(x: Any) -> str:
    """The library that an array belongs to."""
    return type(x).__module__.partition(".")[0].removesuffix("lib")


def memory_of(x: Any) -> tuple[int, int] | None:
    """Where an array's memory begins and ends; None where arrays can't be written into."""
    match library_of(x):
        case "torch":
            storage = x.untyped_storage()
            return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
        case "numpy" if isinstance(x, np.ndarray):  # and no scalar
            base = x
            while isinstance(base.base, np.ndarray):
                base = base.base
            return base.ctypes.data, base.ctypes.data + base.nbytes
        case "cupy":
            return x.data.mem.ptr, x.data.mem.ptr + x.data.mem.size
    return None
