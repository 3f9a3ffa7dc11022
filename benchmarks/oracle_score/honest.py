"""Honest implementations: the same systems in other orders, chunk sizes and libraries. None may ever be refuted.

Here are the score's own kernels without a fault, the implementations of `gpu.torch_kernels`, the code that
`attnproof emit` writes for PyTorch and for NumPy, and transformers' functions where transformers is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial, wraps
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from typing import Any, Literal

from torch import Tensor

from attnproof.catalogue import load_catalogue
from attnproof.emitting import emit
from attnproof.emitting.arguments import arguments_of
from benchmarks.oracle_score.faults import CORES
from benchmarks.oracle_score.kernels import decay, delta_rules
from benchmarks.oracle_score.kernels.frame import Kernel, kernel_of
from gpu.registry import Argument, implementations
from gpu.torch_kernels.signatures import ARGUMENTS

Layout = str | Mapping[str, str | Argument]
Library = Literal["torch", "numpy"]
NARROW = ("float32", "bfloat16")
FULL = ("float64", "float32")


@dataclass(frozen=True)
class Honest:
    """One implementation that is right.

    Attributes:
        system: the name of the derivation.
        name: "own chunks of 16", "torch chunkwise 64", "emitted torch recurrence".
        make: makes the kernel.
        layout, constants, library: how `attnproof.check_kernel` calls it.
        dtypes: precisions of its inputs.
    """

    system: str
    name: str
    make: Callable[[], Kernel]
    layout: Layout
    dtypes: tuple[str, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    library: Library = "torch"

    @property
    def id(self) -> str:
        """`system: name`."""
        return f"{self.system}: {self.name}"


@cache
def honest() -> tuple[Honest, ...]:
    """All of them."""
    return (*_own(), *_registered(), *_emitted(), *_of_transformers())


def _own() -> Iterator[Honest]:
    for system, core in CORES.items():
        yield Honest(system, "own", partial(kernel_of, system, core), "fla", ("float64", *NARROW, "float16"))
    differences = partial(kernel_of, "decay", decay.decay, "decays from differences of sums")
    yield Honest("decay", "own, decays from differences of sums", differences, "fla", NARROW)
    yield Honest("deltanet", "own, inverse by powers", _by_powers, "fla", NARROW)


def _by_powers() -> Kernel:
    """DeltaNet whose systems are solved by products, (I - L)(I + L^2)(I + L^4)(I + L^8), exact for 16 tokens."""
    return kernel_of("deltanet", delta_rules.deltanet, "all powers of the inverse")


def _registered() -> Iterator[Honest]:
    for x in implementations(library="torch"):
        if x.derivation not in CORES:
            continue
        options = [dict(zip(x.options, values, strict=True)) for values in product(*x.options.values())]
        for chosen in options:
            suffix = "".join(f" {value}" for value in chosen.values())
            way = x.name.rsplit(".", 1)[1]
            yield Honest(x.derivation, f"torch {way}{suffix}", x.load, "attnproof", NARROW, chosen)


RECURRENCES = ("recurrence", "error_form", "transition", "full_gate", "recurrence_with_beta", "one_by_one")
BLOCKS = ("chunkwise", "chunkwise_with_beta")
MATRICES = ("matrix", "decayed")
DIVIDES = ("gla", "kda", "rwkv6", "rwkv7")
"""Whose forms of blocks and matrices divide by products of gates, so that they are no kernels for strong gates."""
LEFT_OUT = (("path_attention", "recurrence"), ("path_attention", "chunkwise"), ("forgetting_attention", "recurrence"))
"""Forms that are of other systems: without beta, and of a single query."""


def _emitted() -> Iterator[Honest]:
    for system in CORES:
        if system == "retnet":  # the statement has one pair of channels
            continue
        names = [x for x in load_catalogue().derivations[system].forms if (system, x) not in LEFT_OUT]
        for name in names:
            chosen = name in RECURRENCES or (name in (*BLOCKS, *MATRICES) and system not in DIVIDES)
            if chosen and _gives_the_output(system, name):
                yield _emitted_form(system, name, "torch")
        if system in RUNS_IN_NUMPY:
            yield _emitted_form(system, "recurrence", "numpy")


RUNS_IN_NUMPY = ("linear_attention", "decay", "gla", "deltanet", "gated_deltanet", "kda", "rwkv7")


def _gives_the_output(system: str, form: str) -> bool:
    """Whether it is the output, and not the scores alone."""
    rows, columns = load_catalogue().derivations[system].forms[form].shape
    return bool(rows != columns)


def _emitted_form(system: str, form: str, library: Library) -> Honest:
    statement = load_catalogue().derivations[system].forms[form]
    known = arguments_of(statement)
    named = {str(symbol): name for name, symbol in {**known.inputs, **known.states}.items()}
    by_symbol = {x.stands_for: x for x in ARGUMENTS[system]}
    layout: dict[str, Any] = {
        named[symbol]: replace(x, name="", scale="linear", layout=x.layout.replace("g", "h"))
        for symbol, x in by_symbol.items()
        if symbol in named
    }
    states = {str(x): by_symbol[str(x)].layout.replace("g", "h") for x in known.states.values()}
    layout["returns"] = {"O": "b t h v", **states}
    make = partial(_executed, system, form, library)
    constants = {"chunk_size": 16} if form in BLOCKS else {}
    return Honest(system, f"emitted {library} {form}", make, layout, FULL, constants, library)


def _executed(system: str, form: str, library: str) -> Kernel:
    """The emitted function."""
    module: dict[str, Any] = {}
    exec(emit(load_catalogue().derivations[system], form, library), module)
    function: Kernel = module[f"{system}_{form}"]

    @wraps(function)
    def kernel(**given: Any) -> Any:
        """With its states beside the output, and not as a tuple of their own."""
        found = function(**given)
        several = isinstance(found, tuple) and isinstance(found[1], tuple)
        return (found[0], *found[1]) if several else found

    return kernel


def _of_transformers() -> Iterator[Honest]:
    if find_spec("transformers") is None:
        return
    for way in ("chunk", "recurrent"):
        yield Honest("gated_deltanet", f"transformers {way}", partial(_qwen3_next, way), "transformers", NARROW)


def _qwen3_next(way: str) -> Kernel:
    """Qwen3-Next's function; its own signature has **kwargs, in which a wrong name would be lost."""
    module = import_module("transformers.models.qwen3_next.modeling_qwen3_next")
    function = getattr(module, f"torch_{way}_gated_delta_rule")
    function = getattr(function, "__wrapped__", function)

    def kernel(
        query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, initial_state: Tensor | None = None
    ) -> Any:
        return function(query, key, value, g, beta, initial_state=initial_state, output_final_state=True)

    return kernel
