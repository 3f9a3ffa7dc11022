"""How fast the Torch implementations are, beside transformers' reference functions of Gated DeltaNet, in one run.

    python benchmarks/torch_kernels.py [--device cpu] [--threads 2] [--rounds 9] [--json FILE] [--quick]

It needs torch and transformers: pip install 'attnproof[audit]'. In each round everything is timed once, one after the
other, each right after a call of its own that isn't counted: what runs first behind a loop of small operations, which
leaves the other threads asleep, would pay for waking them (10 to 20 ms on two virtual cores). A time is the median over
the rounds, and a ratio the median of the rounds' ratios. Memory is how far the process
grows above its inputs, output and states included, each measured in a process of its own (Linux; on a device, what
Torch's allocator counts).
"""

from __future__ import annotations

import argparse
import ctypes
import inspect
import json
import math
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from attnproof import exact
from gpu.registry import Argument, Implementation
from gpu.torch_kernels import gated_deltanet
from gpu.torch_kernels.declared import IMPLEMENTATIONS

Call = Callable[[], Any]
SIZES = {"b": 1, "n": 1, "t": 4096, "h": 4, "g": 4, "k": 128, "v": 128, "p": 64}
LENGTHS = tuple(1024 * 2**power for power in range(8))
OURS, THEIRS, THEIR_LOOP = (
    "gated_deltanet.chunkwise",
    "transformers' chunk function",
    "transformers' recurrent function",
)


def drawn(arguments: Sequence[Argument], sizes: dict[str, int], dtype: torch.dtype, device: str) -> dict[str, Tensor]:
    """Random arguments: keys of length one, log gates between -0.1 and 0, strengths between 0 and 1."""
    generator = torch.Generator().manual_seed(0)
    given = {}
    for x in arguments:
        shape = [sizes[letter] for letter in x.layout.split()]
        if x.optional:
            continue
        uniform, normal = torch.rand(shape, generator=generator), torch.randn(shape, generator=generator)
        if x.scale == "log":
            value = -0.1 * uniform
        elif x.layout == "b t h k":
            value = torch.nn.functional.normalize(uniform if "phi" in x.stands_for else normal, dim=-1)
        else:
            value = normal if x.layout == "b t g v" else uniform
        given[x.name] = value.to(device, dtype)
    return given


def differentiated(function: Callable[..., Any], given: dict[str, Tensor]) -> Call:
    """A call of a function and of its backward pass."""
    inputs = {name: x.clone().requires_grad_() for name, x in given.items()}

    def call() -> Any:
        results = function(**inputs)
        output = results[0] if isinstance(results, tuple) else results
        return torch.autograd.grad(output, list(inputs.values()), torch.ones_like(output), allow_unused=True)

    return call


def undifferentiated(function: Callable[..., Any], given: dict[str, Tensor]) -> Call:
    """A call of a function alone."""

    def call() -> Any:
        with torch.no_grad():
            return function(**given)

    return call


def of_transformers(name: str) -> Callable[..., Any]:
    """A reference function of Qwen3-Next under the names of our arguments, without the decorator that swaps it."""
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

    function = inspect.unwrap(getattr(qwen3_next, name))

    def call(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, beta: Tensor) -> Any:
        return function(q, k, v, log_gate, beta, initial_state=None, output_final_state=True)

    return call


def contenders(device: str, tokens: int, backward: bool) -> dict[str, Call]:
    """What is compared for Gated DeltaNet, by name."""
    arguments = next(x.arguments for x in IMPLEMENTATIONS if x.name == f"torch.{OURS}")
    of = {dtype: drawn(arguments, {**SIZES, "t": tokens}, dtype, device) for dtype in (torch.float32, torch.float64)}
    way = differentiated if backward else undifferentiated
    calls = {
        OURS: way(gated_deltanet.chunkwise, of[torch.float32]),
        f"{OURS} in float64": way(gated_deltanet.chunkwise, of[torch.float64]),
        THEIRS: way(of_transformers("torch_chunk_gated_delta_rule"), of[torch.float32]),
    }
    if not backward:
        calls[THEIR_LOOP] = way(of_transformers("torch_recurrent_gated_delta_rule"), of[torch.float32])
    return calls


def seconds(call: Call, device: str) -> float:
    """Of one call; a device has finished what was queued."""
    begun = perf_counter()
    call()
    if device != "cpu":
        torch.cuda.synchronize()
    return perf_counter() - begun


def in_rounds(calls: dict[str, Call], rounds: int, device: str) -> dict[str, list[float]]:
    """Seconds of each call in each round, each after one that isn't counted."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seconds(call, device)
            times[name].append(seconds(call, device))
    return times


def compared(device: str, tokens: int, rounds: int, backward: bool) -> list[dict[str, Any]]:
    """For each contender its median time, and the median ratio to ours in float32."""
    times = in_rounds(contenders(device, tokens, backward), rounds, device)
    way = "forward and backward" if backward else "forward"
    return [
        {
            "what": name,
            "way": way,
            "tokens": tokens,
            "seconds": median(own),
            "times ours": median(x / y for x, y in zip(own, times[OURS], strict=True)),
            "growth in MiB": growth(name, device, tokens, backward),
        }
        for name, own in times.items()
    ]


def growth(name: str, device: str, tokens: int, backward: bool) -> float:
    """MiB by which a process grows above its inputs in one call of a contender."""
    words = ["--one", name, "--device", device, "--tokens", str(tokens), *(["--backward"] if backward else [])]
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=True)
    return float(done.stdout)


def grown(name: str, device: str, tokens: int, backward: bool) -> float:
    """The same in this process."""
    call = contenders(device, tokens, backward)[name]
    contenders(device, 64, backward)[name]()  # what is loaded or compiled once
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back, so that taking it again counts
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    begun = _status("VmRSS")
    call()
    return (_status("VmHWM") - begun) / 2**10


def _status(field: str) -> int:
    """KiB of this process, of Linux's own record."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def scaling(device: str, lengths: Sequence[int], rounds: int) -> dict[str, Any]:
    """The forward pass of Gated DeltaNet by length, and the slope of a line through the logarithms."""
    arguments = next(x.arguments for x in IMPLEMENTATIONS if x.name == f"torch.{OURS}")
    calls = {}
    for tokens in lengths:
        sizes = {**SIZES, "t": tokens, "h": 1, "g": 1}
        given = drawn(arguments, sizes, torch.float32, device)
        calls[str(tokens)] = undifferentiated(gated_deltanet.chunkwise, given)
    times = {name: median(own) for name, own in in_rounds(calls, rounds, device).items()}
    x, y = [math.log(int(name)) for name in times], [math.log(time) for time in times.values()]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    rise = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return {"seconds": times, "slope": rise / sum((a - mean_x) ** 2 for a in x)}


def one_by_one(device: str, tokens: int, rounds: int) -> list[dict[str, Any]]:
    """Every implementation that works on chunks or blocks: forward, and forward and backward."""
    rows = []
    for x in IMPLEMENTATIONS:
        if x.home.endswith(":recurrent"):
            continue
        calls = _both_ways(x, device, tokens)
        times = {way: median(own) for way, own in in_rounds(calls, rounds, device).items()}
        rows.append({"what": x.name, "tokens": tokens, **{f"{way} seconds": time for way, time in times.items()}})
    return rows


def _both_ways(implementation: Implementation, device: str, tokens: int) -> dict[str, Call]:
    options = {"steps": 20} if implementation.home.endswith(":conjugate_gradients") else {}
    function = implementation.load()
    given = drawn(implementation.arguments, {**SIZES, "t": tokens, "k": 64, "v": 64, "p": 32}, torch.float32, device)
    bound = lambda **tensors: function(**tensors, **options)
    return {"forward": undifferentiated(bound, given), "both": differentiated(bound, given)}


def exact_mode(tokens: int, width: int, rounds: int) -> dict[str, Any]:
    """Gated DeltaNet by chunks in exact mode, forward and backward, in one head."""
    arguments = next(x.arguments for x in IMPLEMENTATIONS if x.name == f"torch.{OURS}")
    sizes = {**SIZES, "t": tokens, "h": 1, "g": 1, "k": width, "v": width}
    given = drawn(arguments, sizes, torch.float32, "cpu")
    call = lambda: exact(gated_deltanet.chunkwise, *given.values(), log=["log_gate"])
    return {"tokens": tokens, "width": width, "seconds": median(in_rounds({OURS: call}, rounds, "cpu")[OURS])}


def machine(device: str) -> dict[str, Any]:
    """What it runs on."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cpu": names[0].split(":")[1].strip() if names else platform.processor(),
        "threads": torch.get_num_threads(),
        "device": device if device == "cpu" else torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def show(record: dict[str, Any]) -> None:
    """Prints the tables."""
    print(", ".join(f"{name} {value}" for name, value in record["machine"].items()))
    print(f"\nGated DeltaNet, b = 1, h = {SIZES['h']}, d_k = d_v = {SIZES['k']}")
    print(f"{'':<42}{'way':<22}{'seconds':>9}{'times ours':>12}{'MiB':>8}")
    for row in record["compared"]:
        numbers = f"{row['seconds']:>9.4f}{row['times ours']:>12.2f}{row['growth in MiB']:>8.0f}"
        print(f"{row['what']:<42}{row['way']:<22}{numbers}")
    print("\nby length, one head: " + ", ".join(f"{n}: {s:.4f} s" for n, s in record["scaling"]["seconds"].items()))
    print(f"slope in logarithms: {record['scaling']['slope']:.3f}")
    run = record["exact mode"]
    sizes = f"n = {run['tokens']}, d_k = d_v = {run['width']}"
    print(f"exact mode, {sizes}, forward and backward: {run['seconds']:.2f} s")
    print(f"\n{'d_k = d_v = 64':<42}{'tokens':>8}{'forward':>10}{'with backward':>15}")
    for row in record["one by one"]:
        print(f"{row['what']:<42}{row['tokens']:>8}{row['forward seconds']:>10.4f}{row['both seconds']:>15.4f}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints tables and writes JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="short sequences, to see that it runs")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--tokens", type=int, default=SIZES["t"], help=argparse.SUPPRESS)
    parser.add_argument("--backward", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.one:
        print(grown(options.one, options.device, options.tokens, options.backward))
        return
    tokens, rounds = (256, 1) if options.quick else (SIZES["t"], options.rounds)
    record = {
        "machine": machine(options.device),
        "compared": [x for way in (False, True) for x in compared(options.device, tokens, rounds, way)],
        "scaling": scaling(options.device, LENGTHS[:2] if options.quick else LENGTHS, min(rounds, 3)),
        "exact mode": exact_mode(*((16, 4) if options.quick else (256, 32)), min(rounds, 3)),
        "one by one": one_by_one(options.device, min(tokens, 2048), min(rounds, 3)),
    }
    show(record)
    if options.json:
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
