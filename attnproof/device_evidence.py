"""Runs every implementation of `gpu.registry` on this machine's GPU and records how far each is from its statement.

    python -m attnproof.device_evidence [--out docs/evidence]

The record, <device>.json, has the device, its driver, the versions, and for each implementation and precision the
errors in units of their tolerance and the median time of a larger call. It is written when all has been measured. The
exit status is 1 where there is no device, or where something failed or is over its tolerance.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import gpu
from attnproof.implementation_cases import Case, called, drawn, errors_over_tolerance
from attnproof.oracle.arrays import Library, array, on_host
from gpu.registry import Implementation, implementations

PACKAGES = ("attnproof", "array-api-compat", "cupy", "cupy-cuda12x", "cupy-cuda13x", "numpy", "torch", "triton")
QUADRATIC = ("deltaformer", "forgetting_attention", "path_attention", "path_fox")
"""What may be an n x n matrix in its statement: it is judged on shorter sequences."""
REPEATS = 5

CASES = (
    Case(1, seed=1),
    Case(65, seed=2, heads=2, key_width=32, value_width=24, chunk_size=64),
    Case(20, "large keys", seed=3),
    Case(200, "repeated keys", strongest=20.0, seed=4, with_state=False, key_width=16, value_width=40),
    Case(1000, strongest=0.05, seed=5, groups=1, key_width=32, value_width=32, chunk_size=64),
)
TIMED = Case(4096, strongest=0.1, heads=8, groups=1, key_width=128, value_width=128, chunk_size=64)


@dataclass(frozen=True)
class OnDevice:
    """How arrays come to a device and back.

    Attributes:
        library: whose arrays.
        device: "cuda" or "cpu".
    """

    library: Library
    device: str = "cpu"

    def convert(self, x: np.ndarray, dtype: str) -> Any:
        """A float64 NumPy array on the device, in a precision."""
        return array(x, self.library, dtype, self.device)

    def back(self, x: Any) -> np.ndarray:
        """An array of the device as a float64 NumPy array."""
        return on_host(x)

    def synchronise(self) -> None:
        """Waits until the device has nothing left to do."""
        if self.device != "cpu":
            cuda = import_module(self.library).cuda
            cuda.synchronize() if self.library == "torch" else cuda.Device().synchronize()


@dataclass(frozen=True)
class Device:
    """A device, and the libraries that compute on it, by the name that `gpu.registry` has for each."""

    name: str
    driver: str
    libraries: dict[str, OnDevice]


def find_device() -> Device | None:
    """The first GPU that Torch or CuPy finds."""
    libraries: dict[str, OnDevice] = {}
    if find_spec("torch") and import_module("torch").cuda.is_available():
        libraries["torch"] = OnDevice("torch", "cuda")
    if find_spec("cupy") and import_module("cupy").cuda.is_available():
        libraries["cupy"] = libraries["array_api"] = OnDevice("cupy", "cuda")
    return Device(*_name_and_driver(), libraries) if libraries else None


def _name_and_driver() -> tuple[str, str]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "unknown GPU", "unknown"
    query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    first = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    name, driver = first.split(", ")
    return name, driver


@dataclass(frozen=True)
class Measured:
    """What one implementation did in one precision.

    Attributes:
        tokens: the length of each case, as it was judged.
        errors: for each case the largest error in units of its tolerance, by the name of what is returned.
        seconds: the median time of a call on `TIMED`; None where it failed.
        failure: what stopped it.
    """

    implementation: str
    dtype: str
    tokens: list[int]
    errors: list[dict[str, float]]
    seconds: float | None
    failure: str | None = None

    @property
    def passes(self) -> bool:
        """Whether it ran, and all errors are within tolerance; NaN isn't."""
        return self.failure is None and all(ratio <= 1 for errors in self.errors for ratio in errors.values())

    def as_json(self) -> dict[str, Any]:
        """Its fields; what isn't finite is spelled out, since JSON has no number for it."""
        errors = [{name: x if isfinite(x) else str(x) for name, x in case.items()} for case in self.errors]
        return asdict(self) | {"errors": errors, "passes": self.passes}


def measure(
    implementation: Implementation, dtype: str, library: OnDevice, cases: Sequence[Case], timed: Case
) -> Measured:
    """Errors in each case and the time of one more. An exception is recorded, and doesn't stop the others."""
    judged = [_judged(implementation, case) for case in cases]
    lengths = [case.tokens for case in judged]
    try:
        errors = [_errors(implementation, dtype, library, case) for case in judged]
        seconds = _seconds(implementation, dtype, library, timed)
        return Measured(implementation.name, dtype, lengths, errors, seconds)
    except Exception as error:
        return Measured(implementation.name, dtype, lengths, [], None, f"{type(error).__name__}: {error}")


def _judged(implementation: Implementation, case: Case) -> Case:
    shorter = min(case.tokens, 300) if implementation.derivation in QUADRATIC else case.tokens
    return Case(**asdict(case) | {"tokens": shorter})


def _errors(implementation: Implementation, dtype: str, library: OnDevice, case: Case) -> dict[str, float]:
    arguments = drawn(implementation, case, dtype)
    returned = called(implementation, arguments, lambda x: library.convert(x, dtype), **_options(implementation, case))
    values = [library.back(x) for x in returned]
    return errors_over_tolerance(implementation, values, arguments, case, dtype)


def _options(implementation: Implementation, case: Case) -> dict[str, Any]:
    return {"chunk_size": case.chunk_size} if "chunk_size" in implementation.options else {}


def _seconds(implementation: Implementation, dtype: str, library: OnDevice, case: Case) -> float:
    function = implementation.load()
    arguments = {name: library.convert(x, dtype) for name, x in drawn(implementation, case, dtype).items()}

    def once() -> float:
        library.synchronise()
        start = perf_counter()
        function(**arguments, **_options(implementation, case))
        library.synchronise()
        return perf_counter() - start

    once()  # compiles
    return median(once() for _ in range(REPEATS))


def measurements(
    device: Device, chosen: Sequence[Implementation], cases: Sequence[Case], timed: Case
) -> Iterator[Measured]:
    """Every implementation that a library of the device can run, in each of its precisions."""
    for implementation in chosen:
        if implementation.library in device.libraries:
            for dtype in implementation.dtypes:
                yield measure(implementation, dtype, device.libraries[implementation.library], cases, timed)


def record(device: Device, found: Sequence[Measured], cases: Sequence[Case], timed: Case) -> dict[str, Any]:
    """What is written: everything that is needed to read the figures, and to measure them again."""
    return {
        "device": device.name,
        "driver": device.driver,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": dict(_versions()),
        "sources": sources(),
        "cases": [asdict(case) for case in cases],
        "timed": asdict(timed),
        "implementations": [x.as_json() for x in found],
    }


def sources() -> str:
    """A digest of the implementations' code, by which a record of other code is recognised."""
    digest = hashlib.sha256()
    for path in sorted(Path(gpu.__file__).parent.rglob("*")):
        if path.suffix in (".py", ".cu"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


def write(content: dict[str, Any], folder: Path) -> Path:
    """<device>.json, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (re.sub(r"[^a-z0-9]+", "-", content["device"].lower()).strip("-") + ".json")
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".part", delete=False) as part:
        json.dump(content, part, indent=1)
        part.write("\n")
    os.replace(part.name, path)
    return path


def line(x: Measured) -> str:
    """One row of the table that is printed."""
    if x.failure is not None:
        return f"{x.implementation:<50} {x.dtype:<9} failed: {x.failure}"
    largest = max((ratio for errors in x.errors for ratio in errors.values()), default=0.0)
    return f"{x.implementation:<50} {x.dtype:<9} {largest:8.2f} tol {1e3 * (x.seconds or 0):10.3f} ms"


def main(arguments: Sequence[str] | None = None, find: Callable[[], Device | None] = find_device) -> int:
    """Measures, prints a line for each implementation and writes the record.

    Args:
        arguments: the command line.
        find: how a device is found.
    """
    parser = argparse.ArgumentParser(prog="attnproof.device_evidence", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/evidence"), help="the folder of the records")
    options = parser.parse_args(arguments)
    device = find()
    if device is None:
        print(
            "there is no GPU that Torch or CuPy can use: nothing was measured, and no record is written",
            file=sys.stderr,
        )
        return 1
    found = []
    for measured in measurements(device, implementations(), CASES, TIMED):
        print(line(measured), flush=True)
        found.append(measured)
    print(f"written to {write(record(device, found, CASES, TIMED), options.out)}")
    return 0 if found and all(x.passes for x in found) else 1


if __name__ == "__main__":
    sys.exit(main())
