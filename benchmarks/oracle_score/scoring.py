"""Runs the oracle and the other checks over faults and honest implementations, a task for each kernel and precision."""

from __future__ import annotations

import math
import multiprocessing
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import torch

import attnproof
from attnproof.oracle.report import KernelReport
from benchmarks.oracle_score.faults import CORES, FAULTS, Fault
from benchmarks.oracle_score.honest import Honest, honest
from benchmarks.oracle_score.kernels.frame import kernel_of
from benchmarks.oracle_score.other_checks import passed
from benchmarks.oracle_score.reach import over_tolerance

CHUNK_SIZE = 16
RUNS = 1000
PRECISIONS = ("float32", "bfloat16")
Task = tuple[str, str, str, int]
"""What is run: "fault" or "honest", its id, the precision, and the seed."""


@dataclass(frozen=True)
class FaultResult:
    """What was made of one fault in one precision.

    Attributes:
        over_tolerance: its error in tolerances of bfloat16.
        caught: whether a check of the oracle refuted it.
        checks: the checks that did.
        diagnosis: what the report says that the kernel computes.
        others: by other check, whether that one caught it.
    """

    id: str
    dtype: str
    caught: bool
    checks: tuple[str, ...]
    diagnosis: str
    others: dict[str, bool]
    over_tolerance: float | None = None


@dataclass(frozen=True)
class HonestResult:
    """What was made of one run of an honest implementation.

    Attributes:
        verdict: "holds", "refuted", or "vacuous" where no input was sharp enough for some check.
        ratio: the largest error over tolerance.
        replay: where it was refuted, how to run that again.
        others: by other check, whether it raised a false alarm; empty where the check can't call the kernel.
    """

    id: str
    dtype: str
    seed: int
    verdict: str
    ratio: float
    replay: str = ""
    others: dict[str, bool] = field(default_factory=dict)


Result = FaultResult | HonestResult


def tasks(pattern: str = "", quick: bool = False) -> list[Task]:
    """All tasks: each fault in both precisions, and RUNS runs spread over the honest implementations.

    Args:
        pattern: only what has this in its id.
        quick: each twentieth fault and implementation, once.
    """
    faults = [x for x in FAULTS if pattern in x.id][:: 20 if quick else 1]
    pairs = [(x, dtype) for x in honest() for dtype in x.dtypes]
    chosen = [(x, dtype) for x, dtype in pairs if pattern in x.id][:: 20 if quick else 1]
    found: list[Task] = [("fault", x.id, dtype, 0) for x in faults for dtype in PRECISIONS]
    runs = [(*chosen[k % len(chosen)], k // len(chosen)) for k in range(_runs(chosen, pairs, quick))]
    return found + [("honest", x.id, dtype, seed) for x, dtype, seed in runs]


def _runs(chosen: Sequence[Any], pairs: Sequence[Any], quick: bool) -> int:
    """As many for each implementation as in the whole score."""
    return len(chosen) if quick else RUNS * len(chosen) // len(pairs)


def done(task: Task) -> Result:
    """Runs one task."""
    kind, name, dtype, seed = task
    if kind == "fault":
        return judged_fault(next(x for x in FAULTS if x.id == name), dtype)
    return judged_honest(next(x for x in honest() if x.id == name), dtype, seed)


def judged_fault(fault: Fault, dtype: str) -> FaultResult:
    """The oracle at its usual effort, and the other checks, each on a kernel of its own."""
    checks, diagnosis = _refuting(fault, dtype)
    others = {name: not right for name, right in passed(fault.kernel(), fault.system, dtype).items()}
    reach = over_tolerance(fault) if dtype == "bfloat16" else None
    return FaultResult(fault.id, dtype, bool(checks), checks, diagnosis, others, reach)


def _refuting(fault: Fault, dtype: str) -> tuple[tuple[str, ...], str]:
    """The checks that refute it, and the diagnosis. A check that refutes the right kernel too catches nothing."""
    try:
        report = attnproof.check_kernel(fault.kernel(), fault.system, layout="fla", dtype=dtype, chunk_size=CHUNK_SIZE)
    except Exception as error:  # the oracle's own failure is no verdict, and must not end the score
        return (), f"check_kernel raised {type(error).__name__}: {error}"
    checks = [x.check for x in report.findings if x.verdict == "refuted" or (fault.note and fault.note in x.message)]
    wrong = _refuted_without_fault(fault.system, dtype)
    return tuple(x for x in checks if x not in wrong), report.diagnosis


@cache
def _refuted_without_fault(system: str, dtype: str) -> frozenset[str]:
    kernel = kernel_of(system, CORES[system])
    report = attnproof.check_kernel(kernel, system, layout="fla", dtype=dtype, chunk_size=CHUNK_SIZE)
    return frozenset(x.check for x in report.findings if x.verdict == "refuted")


def judged_honest(implementation: Honest, dtype: str, seed: int) -> HonestResult:
    """The oracle at quick effort, or for own kernels with the first seed at usual effort; and the other checks."""
    x = implementation
    verdict, ratio, replay = _verdict(x, dtype, seed)
    others = {}
    if isinstance(x.layout, str) and x.layout in NAMES:
        results = passed(lambda **given: x.make()(**given, **x.constants), x.system, dtype, NAMES[x.layout], seed)
        others = {name: not right for name, right in results.items()}
    return HonestResult(x.id, dtype, seed, verdict, ratio, replay, others)


def _verdict(x: Honest, dtype: str, seed: int) -> tuple[str, float, str]:
    """What the oracle says, its largest error over tolerance, and where it refuted how to run that again."""
    effort: Literal["quick", "usual"] = "usual" if x.name == "own" and not seed else "quick"
    try:
        report = attnproof.check_kernel(
            x.make(),
            x.system,
            layout=x.layout,
            dtype=dtype,
            chunk_size=CHUNK_SIZE,
            effort=effort,
            seed=seed,
            constants=x.constants,
            library=x.library,
        )
    except Exception as error:
        return "refuted", math.inf, f"dtype={dtype!r}, seed={seed}: check_kernel raised {type(error).__name__}: {error}"
    ratio = max((finding.ratio for finding in report.findings), default=0.0)
    if any(finding.verdict == "refuted" for finding in report.findings):
        return "refuted", ratio, _replay(report, dtype, seed)
    return "holds" if report.ok else "vacuous", ratio, ""


NAMES = {"fla": "kernel", "attnproof": "registry"}
"""By layout, which names of arguments a kernel has."""


def _replay(report: KernelReport, dtype: str, seed: int) -> str:
    messages = "; ".join(f"{x.check}: {x.message}" for x in report.findings if x.verdict == "refuted")
    return f"dtype={dtype!r}, seed={seed}: {messages}; again: {report.replay}"


def run(chosen: Sequence[Task], jobs: int, seen: Callable[[Task, Result], None]) -> list[Result]:
    """Runs all tasks in processes of their own, and tells of each result as it comes.

    Raises:
        KeyboardInterrupt: no more tasks are begun then.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, initializer=_begin) as pool:
        futures = {pool.submit(done, task): task for task in chosen}
        try:
            return list(_collected(futures, seen))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _collected(futures: dict[Any, Task], seen: Callable[[Task, Result], None]) -> Iterator[Result]:
    for future in as_completed(futures):
        result = future.result()
        seen(futures[future], result)
        yield result


def _begin() -> None:
    """One thread for each process, which the first one stops; logarithms of masked zeros are no news."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", RuntimeWarning)
