"""How fast and how exact kernels are on a GPU: ours, fla-core's in Triton, a loop in Torch, and the device's limits.

    python -m benchmarks.device_kernels [--tokens 4096] [--rounds 9] [--json FILE] [--on-cpu]

In one run, for each system: our chunkwise implementation in Torch and fla-core's, both on the same bfloat16 numbers;
the fused recurrent kernel in CuPy and our loop over tokens in Torch, both in float32. Each timed call follows an
uncounted one of its own. A time is the median over the rounds, and a ratio the median of the rounds' ratios.

An error is the root of the mean square of output and states minus the statement's, over that of the statement's, in
float64 on the numbers that the kernel got, of up to 512 tokens. A bandwidth is the bytes of inputs and outputs over
the time, and a rate the operations in matrix products of the statement's chunkwise form over it: the least that a
kernel has to move, and not what it does. Each is shown as a share of what a copy and a product of large matrices reach
on the device.

--on-cpu runs the same on small inputs without a GPU, by Triton's interpreter: its times say nothing.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from operator import add, matmul
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from attnproof.audit import subject
from attnproof.device_evidence import Device, OnDevice, find_device
from attnproof.implementation_cases import Arrays, Case, as_stated, drawn, environment, named, statement
from attnproof.oracle.conventions import convention_of
from attnproof.triton_on_cpu import interpret_triton
from benchmarks.torch_kernels import in_rounds
from derivations.language.forms import Form
from derivations.language.symbols import d_k, d_v, n
from gpu.registry import Implementation, implementations
from numerics.algebras.floats import numpy_float64
from numerics.costs.system import MATRIX, costs_of
from numerics.evaluate import CHUNK
from numerics.run import run

THEIRS = {
    "linear_attention": "fla-core.chunk_linear_attn",
    "decay": "fla-core.chunk_simple_gla",
    "gla": "fla-core.chunk_gla",
    "deltanet": "fla-core.chunk_delta_rule",
    "gated_deltanet": "fla-core.chunk_gated_delta_rule",
    "kda": "fla-core.chunk_kda",
    "comba": "fla-core.chunk_comba",
    "rwkv6": "fla-core.chunk_rwkv6",
}
"""The kernels of fla-core that take our arguments under other names, by derivation."""
BLOCK = 64
JUDGED = 512
"""Tokens on which errors are measured: the statement is evaluated token by token."""
SLOWEST, LEAST_SPEEDUP = 2.0, 50.0
"""Goals: our chunkwise implementation takes at most so many times what fla-core's does; the fused kernel is so many
times as fast as the loop."""


@dataclass(frozen=True)
class Contender:
    """What is compared.

    Attributes:
        name: for the table.
        dtype: of its inputs; states are float32.
        library: how its arrays come to the device.
        call: of arrays by the names of `implementation`, what is returned.
        implementation: whose arguments and layouts it has.
    """

    name: str
    dtype: str
    library: OnDevice
    call: Callable[[Mapping[str, Any]], Sequence[Any]]
    implementation: Implementation

    def arrays(self, arguments: Arrays) -> dict[str, Any]:
        """The arguments on the device."""
        states = {x.name for x in self.implementation.arguments if x.layout.startswith("n ")}
        return {
            name: self.library.convert(x, "float32" if name in states else self.dtype) for name, x in arguments.items()
        }

    def returned(self, arrays: Mapping[str, Any]) -> Sequence[Any]:
        """Output and states, in the order of `implementation`."""
        return [x for x in self.call(arrays) if x is not None][: len(self.implementation.returns)]


def contenders(derivation: str, device: Device, narrow: str) -> Iterator[Contender]:
    """Those that the device's libraries run: first our own in Torch, by which the others are measured."""
    known = {x.name: x for x in implementations(derivation)}
    chunkwise = known[f"torch.{derivation}.chunkwise"]
    torch = device.libraries["torch"]
    in_blocks = partial(_ours, chunkwise, chunk_size=BLOCK)
    yield Contender(chunkwise.name, narrow, torch, in_blocks, chunkwise)
    if find_spec("fla") and find_spec("triton"):
        yield Contender(THEIRS[derivation], narrow, torch, _theirs(derivation, chunkwise), chunkwise)
    fused = next((x for name, x in known.items() if name.startswith("cupy.")), None)
    if fused is not None and "cupy" in device.libraries:
        yield Contender(fused.name, "float32", device.libraries["cupy"], partial(_ours, fused), fused)
    loop = known.get(f"torch.{derivation}.recurrent")
    if loop is not None:
        yield Contender(loop.name, "float32", torch, partial(_ours, loop), loop)


def _ours(implementation: Implementation, arrays: Mapping[str, Any], **options: Any) -> Sequence[Any]:
    returned = implementation.load()(**arrays, **options)
    return returned if isinstance(returned, tuple | list) else (returned,)


def _theirs(derivation: str, ours: Implementation) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """A kernel of fla-core with our names. Queries have as many heads as values here, so that it needs no adapter."""
    audited = subject(THEIRS[derivation])
    module, _, name = audited.home.partition(":")
    function = inspect.unwrap(getattr(import_module(module), name))
    convention = convention_of(function, derivation, audited.layout, audited.constants)
    names = {x.stands_for: x.name for x in convention.arguments}
    renamed = {x.name: names[x.stands_for] for x in ours.arguments}

    def call(arrays: Mapping[str, Any]) -> Sequence[Any]:
        given = {renamed[name]: x for name, x in arrays.items()}
        returned: Sequence[Any] = function(**given, **convention.constants)
        return returned

    return call


@dataclass(frozen=True)
class Limits:
    """What the device reaches: bytes a second in a copy, and operations a second in a product, by precision."""

    bandwidth: float
    rates: Mapping[str, float]


def limits(library: OnDevice, dtypes: Sequence[str], size: int, rounds: int) -> Limits:
    """Measured with square matrices of `size` rows."""
    square = np.random.default_rng(0).normal(size=(size, size))
    rates, bandwidth = {}, 0.0
    for dtype in dtypes:
        x = library.convert(square, dtype)
        times = in_rounds({"product": partial(matmul, x, x), "copy": partial(add, x, 0)}, rounds, library.device)
        rates[dtype] = 2 * size**3 / median(times["product"])
        bandwidth = max(bandwidth, 2 * x.nbytes / median(times["copy"]))
    return Limits(bandwidth, rates)


def compared(derivation: str, device: Device, case: Case, narrow: str, reached: Limits, rounds: int) -> list[Any]:
    """A row for each contender; one that raises is a row that says so, and the others go on."""
    rows: list[dict[str, Any]] = []
    running: dict[str, Callable[[], Any]] = {}
    for x in contenders(derivation, device, narrow):
        row = {"derivation": derivation, "what": x.name, "dtype": x.dtype, "tokens": case.tokens}
        arrays = x.arrays(drawn(x.implementation, case, x.dtype))
        try:
            row["bytes"] = sum(a.nbytes for a in (*arrays.values(), *x.returned(arrays)))
            row["error"] = relative_error(x, replace(case, tokens=min(case.tokens, JUDGED)))
        except Exception as error:  # whatever a library's kernel raises on this device
            rows.append(row | {"failure": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"})
            continue
        running[x.name] = partial(x.call, arrays)
        rows.append(row)
    times = in_rounds(running, rounds, device.libraries["torch"].device)
    first = times.get(rows[0]["what"])
    return [row | _measured(row, times.get(row["what"]), first, case, reached) for row in rows]


def _measured(
    row: Mapping[str, Any], own: list[float] | None, first: list[float] | None, case: Case, reached: Limits
) -> dict[str, Any]:
    if own is None:
        return {}
    seconds = median(own)
    products = case.batch * case.heads * case.groups * operations(row["derivation"], case)
    return {
        "seconds": seconds,
        "times ours": None if first is None else median(x / y for x, y in zip(own, first, strict=True)),
        "of the bandwidth": row["bytes"] / seconds / reached.bandwidth,
        "of the matrix rate": products / seconds / reached.rates[row["dtype"]],
    }


def operations(derivation: str, case: Case) -> float:
    """In matrix products of the statement's chunkwise form, for one head."""
    form: Form = import_module(f"derivations.{derivation}").chunkwise
    counted = costs_of("chunkwise", form, case.chunk_size).sequence.total(MATRIX)
    if counted is None:
        return float("nan")
    sizes = {n: case.tokens, d_k: case.key_width, d_v: case.value_width, CHUNK: case.chunk_size}
    return float(counted.subs(sizes))


def relative_error(contender: Contender, case: Case) -> float:
    """Of output and states together, against the statement."""
    implementation = contender.implementation
    form, symbols = statement(implementation), named(implementation)
    arguments = drawn(implementation, case, contender.dtype)
    returned = contender.returned(contender.arrays(arguments))
    outcome = run(form, environment(implementation, arguments, case), numpy_float64())
    wanted = dict(zip(["O", *map(str, form.states)], (outcome.output, *outcome.states), strict=True))
    squares, size = 0.0, 0.0
    for (name, layout), value in zip(implementation.returns, returned, strict=True):
        found = as_stated(contender.library.back(value), layout, symbols[name], case.sizes(implementation))
        squares += float(((found - wanted[name]) ** 2).mean())
        size += float((wanted[name] ** 2).mean())
    return float(np.sqrt(squares / size))


def goals(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What was aimed at, and whether it was reached; where a side is missing, nothing is said."""
    for derivation in dict.fromkeys(row["derivation"] for row in rows):
        own = [row for row in rows if row["derivation"] == derivation and "seconds" in row]
        ours = next((x for x in own if x["what"] == f"torch.{derivation}.chunkwise"), None)
        theirs = next((x for x in own if x["what"] == THEIRS[derivation]), None)
        fused = next((x for x in own if x["what"].startswith("cupy.")), None)
        loop = next((x for x in own if x["what"] == f"torch.{derivation}.recurrent"), None)
        if ours and theirs:
            ratio = 1 / theirs["times ours"]
            yield _goal(derivation, f"{ratio:.2f} times fla-core's time (at most {SLOWEST:g})", ratio <= SLOWEST)
            errors = f"error {ours['error']:.1e}, fla-core's {theirs['error']:.1e} (no larger)"
            yield _goal(derivation, errors, ours["error"] <= theirs["error"])
        if fused and loop:
            speedup = loop["seconds"] / fused["seconds"]
            said = f"the fused kernel is {speedup:.0f} times as fast as the loop (at least {LEAST_SPEEDUP:g})"
            yield _goal(derivation, said, speedup >= LEAST_SPEEDUP)


def _goal(derivation: str, said: str, reached: bool) -> str:
    return f"{derivation}: {said}: {'reached' if reached else 'not reached'}"


def on_cpu() -> Device:
    """What a machine without a GPU has in the place of one."""
    return Device("no GPU", "none", {"torch": OnDevice("torch")})


def record(device: Device, case: Case, narrow: str, derivations: Sequence[str], size: int, rounds: int) -> Any:
    """Everything that is measured, as JSON has it."""
    import torch

    reached = limits(device.libraries["torch"], (narrow, "float32"), size, rounds)
    rows = []
    for name in derivations:
        own = compared(name, device, case, narrow, reached, rounds)
        print("\n".join(map(line, own)), flush=True)
        rows += own
    return {
        "device": device.name,
        "driver": device.driver,
        "torch": torch.__version__,
        "heads": case.heads * case.groups,
        "widths": [case.key_width, case.value_width],
        "limits": {"bytes a second": reached.bandwidth, "operations a second": dict(reached.rates)},
        "compared": rows,
    }


def line(row: Mapping[str, Any]) -> str:
    """A row of the table."""
    if "failure" in row:
        return f"{row['what']:<40}{row['dtype']:<10}failed: {row['failure']}"
    ratio = "" if row["times ours"] is None else f"{row['times ours']:.2f}"
    shares = f"{row['of the bandwidth']:>11.1%}{row['of the matrix rate']:>11.1%}"
    return f"{row['what']:<40}{row['dtype']:<10}{1e3 * row['seconds']:>10.3f}{ratio:>11}{row['error']:>10.1e}{shares}"


HEAD = f"{'':<40}{'':<10}{'ms':>10}{'times ours':>11}{'error':>10}{'bandwidth':>11}{'products':>11}"


def main(arguments: Sequence[str] | None = None, find: Callable[[], Device | None] = find_device) -> int:
    """Measures, prints a table and writes JSON; 1 where there is no GPU."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--on-cpu", action="store_true", help="small inputs without a GPU, to see that it runs")
    options = parser.parse_args(arguments)
    device = on_cpu() if options.on_cpu else find()
    if device is None or "torch" not in device.libraries:
        print("there is no GPU that Torch can use: nothing was measured (--on-cpu shows that it runs)", file=sys.stderr)
        return 1
    case = Case(options.tokens, strongest=0.1, heads=16, groups=1, key_width=128, value_width=128, chunk_size=BLOCK)
    narrow, derivations, size, rounds = "bfloat16", list(THEIRS), 8192, options.rounds
    if options.on_cpu:
        if find_spec("triton"):
            interpret_triton()
        case = Case(70, strongest=0.1, heads=2, groups=1, key_width=16, value_width=16, chunk_size=BLOCK)
        narrow, derivations, size, rounds = "float16", ["gated_deltanet", "gla"], 64, 1
    print(f"{device.name}, {case.tokens} tokens, {case.heads} heads, d_k = d_v = {case.key_width}\n{HEAD}")
    content = record(device, case, narrow, derivations, size, rounds)
    if not options.on_cpu:
        content["goals"] = list(goals(content["compared"]))
        print("\n".join(content["goals"]))
    if options.json:
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
