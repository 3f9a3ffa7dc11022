"""The record of a device: NumPy and Torch on the CPU stand in for one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

from attnproof import device_evidence
from attnproof.device_evidence import Device, OnDevice, find_device, main, measurements, record, write
from attnproof.implementation_cases import Case
from gpu.cupy_kernels import decays
from gpu.cupy_kernels.declared import CHUNKWISE
from gpu.registry import Implementation, implementations

CASES, TIMED = (Case(9), Case(30, seed=1)), Case(12)
NUMPY, TORCH = OnDevice("numpy"), OnDevice("torch")
STAND_IN = Device("Stand-in GPU (80 GB)", "1.2.3", {"array_api": NUMPY})


def chosen(*derivations: str) -> list[Implementation]:
    return [x for x in CHUNKWISE if x.derivation in derivations]


@pytest.mark.parametrize("library", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_each_precision_is_measured_in_each_case(library: OnDevice) -> None:
    device = replace(STAND_IN, libraries={"array_api": library})
    found = list(measurements(device, chosen("decay", "mesanet"), CASES, TIMED))
    assert [(x.implementation, x.dtype) for x in found] == [
        (f"array_api.{name}.chunkwise", dtype) for name in ("decay", "mesanet") for dtype in ("float64", "float32")
    ]
    assert [len(x.errors) for x in found] == [2, 2, 2, 2]
    assert [list(x.errors[0]) for x in found[1:3]] == [["O", "S"], ["O", "G", "H"]]
    assert all(x.passes and x.seconds is not None and x.seconds > 0 for x in found)


CPU = Device("CPU", "none", {"array_api": NUMPY, "torch": TORCH})
MANY = settings().max_examples > 100
"""Whether there is time for long sequences: `make test-deep`."""
EVERY = [(x, dtype) for x in implementations() if not x.needs_device for dtype in x.dtypes]


@pytest.mark.parametrize(("implementation", "dtype"), EVERY, ids=lambda x: getattr(x, "name", x))
def test_every_implementation_passes_where_the_cpu_stands_in(implementation: Implementation, dtype: str) -> None:
    """In the cases of the record; the long ones only where there is time."""
    judged = [x for x in device_evidence.CASES if MANY or x.tokens <= 20]
    assert len(judged) >= 2
    found = device_evidence.measure(implementation, dtype, CPU.libraries[implementation.library], judged, TIMED)
    assert found.passes, found


def test_what_the_device_cant_run_isnt_measured() -> None:
    assert list(measurements(replace(STAND_IN, libraries={"cupy": NUMPY}), chosen("decay"), CASES, TIMED)) == []


def test_a_wrong_one_doesnt_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decays, "faded_state", lambda gates, state, chunk: state)
    (double, single) = measurements(STAND_IN, chosen("decay"), CASES, TIMED)
    assert not double.passes
    assert not single.passes
    assert double.failure is None


def test_one_that_breaks_is_recorded_and_the_others_go_on() -> None:
    broken = replace(chosen("decay")[0], home="gpu.cupy_kernels.decay:missing")
    found = list(measurements(STAND_IN, [broken, *chosen("gla")], CASES, TIMED))
    assert "has no attribute 'missing'" in str(found[0].failure)
    assert [x.passes for x in found] == [False, False, True, True]


class Nowhere(OnDevice):
    """What comes back is NaN."""

    def back(self, x: Any) -> np.ndarray:
        return super().back(x) * np.nan


def test_nan_doesnt_pass_and_is_spelled_out(tmp_path: Path) -> None:
    (found, _) = measurements(
        replace(STAND_IN, libraries={"array_api": Nowhere("numpy")}), chosen("decay"), CASES, TIMED
    )
    assert not found.passes
    written = json.loads(write(record(STAND_IN, [found], CASES, TIMED), tmp_path).read_text(), parse_constant=refused)
    assert written["implementations"][0]["errors"][0] == {"O": "nan", "S": "nan"}


def refused(constant: str) -> Any:
    raise AssertionError(f"{constant} isn't JSON")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One implementation, in small cases."""
    monkeypatch.setattr(device_evidence, "implementations", lambda: chosen("decay"))
    monkeypatch.setattr(device_evidence, "CASES", CASES)
    monkeypatch.setattr(device_evidence, "TIMED", TIMED)


def test_the_record_is_written_under_the_devices_name(
    small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "evidence")], find=lambda: STAND_IN) == 0
    (path,) = (tmp_path / "evidence").iterdir()
    assert path.name == "stand-in-gpu-80-gb.json"
    written = json.loads(path.read_text())
    assert (written["device"], written["driver"]) == ("Stand-in GPU (80 GB)", "1.2.3")
    assert written["versions"]["numpy"] == np.__version__
    assert [x["dtype"] for x in written["implementations"]] == ["float64", "float32"]
    assert len(written["cases"]) == len(written["implementations"][0]["errors"]) == 2
    assert "array_api.decay.chunkwise" in capsys.readouterr().out


def test_a_record_of_errors_is_written_too_and_fails(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decays, "faded_state", lambda gates, state, chunk: state)
    assert main(["--out", str(tmp_path)], find=lambda: STAND_IN) == 1
    (path,) = tmp_path.iterdir()
    assert [x["passes"] for x in json.loads(path.read_text())["implementations"]] == [False, False]


def test_nothing_is_left_where_measuring_stops(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(device_evidence, "measure", stopped)
    with pytest.raises(KeyboardInterrupt):
        main(["--out", str(tmp_path)], find=lambda: STAND_IN)
    assert list(tmp_path.iterdir()) == []


def test_without_a_device_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path / "evidence")], find=lambda: None) == 1
    assert "there is no GPU that Torch or CuPy can use: nothing was measured" in capsys.readouterr().err
    assert not (tmp_path / "evidence").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_this_machine_has_no_device() -> None:
    assert find_device() is None


def test_the_digest_is_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "__init__.py").write_text("a = 1\n")
    monkeypatch.setattr(device_evidence.gpu, "__file__", str(tmp_path / "__init__.py"))
    before = device_evidence.sources()
    (tmp_path / "__init__.py").write_text("a = 2\n")
    assert before != device_evidence.sources() != device_evidence.sources()[:-1]
