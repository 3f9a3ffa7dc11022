"""The registry of fast implementations: which derivation each computes, in which layout, precision and library.

Everything that uses implementations (tests, the oracle, benchmarks, pages) finds them here. Loading the registry
imports neither Torch nor CuPy: an implementation's own library is imported by `load`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

Library = Literal["torch", "array_api", "cupy"]
Scale = Literal["linear", "log", "log2", "rate"]


@dataclass(frozen=True)
class Argument:
    """One array argument.

    Attributes:
        name: the parameter's name.
        stands_for: the input of the statement, as it is written there: "Q", "gamma", "S" for an initial state.
        layout: its dimensions, "b t h k": b batch, t tokens, h query heads, g value heads, k d_k, v d_v.
        scale: "log" where the statement's input is the exponential of the argument, "log2" where it is a power of two,
            "rate" where it is the exponential of the argument times the step size Delta.
        optional: whether it may be None.
        scaled: whether the callable multiplies it by d_k^-1/2 before it does anything else.
    """

    name: str
    stands_for: str
    layout: str
    scale: Scale = "linear"
    optional: bool = False
    scaled: bool = False


@dataclass(frozen=True)
class Implementation:
    """One callable and what it promises.

    Attributes:
        name: "torch.gated_deltanet.chunkwise": library, derivation, way.
        derivation: the name of the derivation that it computes.
        form: the form of that derivation whose result it has, and whose order of operations it follows.
        orders: other forms in whose order it may compute, where `form` isn't stated in its own.
        home: "module:function".
        library: what its arrays are.
        arguments: its array arguments, in order.
        returns: layouts of what it returns: the output, then each final state, named as in the statement.
        dtypes: precisions of the arguments that it takes. Narrow ones are computed with in float32, and so are states.
        needs_device: whether it runs on a GPU only.
        rational: whether it has an exact meaning in a finite field: no exponentials but those of log gates.
        options: other keyword arguments that change how it computes and not what, with values to try.
        packed: whether it takes `cu_seqlens`.
        causal_bit_for_bit: whether earlier rows don't change by a bit when later tokens do.
    """

    name: str
    derivation: str
    form: str
    home: str
    library: Library
    arguments: tuple[Argument, ...]
    returns: tuple[tuple[str, str], ...]
    dtypes: tuple[str, ...]
    needs_device: bool = False
    rational: bool = True
    orders: tuple[str, ...] = ()
    options: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    packed: bool = False
    causal_bit_for_bit: bool = False

    def load(self) -> Callable[..., Any]:
        """The callable; imports its library."""
        module, function = self.home.split(":")
        loaded: Callable[..., Any] = getattr(import_module(module), function)
        return loaded


def implementations(derivation: str | None = None, library: Library | None = None) -> list[Implementation]:
    """All implementations, or those of one derivation or library, by name."""
    found: list[Implementation] = []
    for module in ("gpu.torch_kernels.declared", "gpu.cupy_kernels.declared"):
        found += import_module(module).IMPLEMENTATIONS
    chosen = [x for x in found if derivation in (None, x.derivation) and library in (None, x.library)]
    return sorted(chosen, key=lambda x: x.name)
