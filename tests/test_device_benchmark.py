"""The comparison on a GPU: its logic, with what a CPU has in the place of one."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from attnproof.implementation_cases import Case
from benchmarks import device_kernels
from benchmarks.device_kernels import THEIRS, compared, contenders, goals, limits, main, on_cpu, operations
from gpu.torch_kernels import gated_deltanet

CASE = Case(70, strongest=0.1, heads=2, groups=1, key_width=8, value_width=6, chunk_size=64)
DEVICE = on_cpu()


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """fla-core isn't installed: its kernels would need the interpreter in this process."""
    monkeypatch.setattr(device_kernels, "find_spec", lambda name: None)


def rows(derivation: str = "gated_deltanet", dtype: str = "bfloat16") -> list[dict[str, Any]]:
    reached = limits(DEVICE.libraries["torch"], (dtype, "float32"), 64, 1)
    return compared(derivation, DEVICE, CASE, dtype, reached, 1)


@pytest.mark.parametrize("derivation", THEIRS)
def test_each_system_is_measured(derivation: str, without_kernels: None) -> None:
    ours, loop = rows(derivation)
    assert (ours["what"], loop["what"]) == (f"torch.{derivation}.chunkwise", f"torch.{derivation}.recurrent")
    assert 1e-4 < ours["error"] < 2**-7
    assert loop["error"] < 1e-6
    assert ours["times ours"] == 1
    assert ours["of the bandwidth"] > 0
    assert ours["of the matrix rate"] > 0


def test_bytes_are_those_of_inputs_and_outputs(without_kernels: None) -> None:
    ours, _ = rows()
    vectors = 70 * 2 * (8 + 8 + 6 + 1 + 1 + 6)
    assert ours["bytes"] == 2 * vectors + 2 * 4 * (2 * 8 * 6)


def test_operations_are_those_of_matrix_products() -> None:
    """Of Gated DeltaNet's chunkwise form: K K^T, Q K^T and the products with T and with the state."""
    n, c, k, v = 4096, 64, 128, 128
    case = replace(CASE, tokens=n, key_width=k, value_width=v)
    assert operations("gated_deltanet", case) == pytest.approx(2 * n * (3 * c * k + 2 * c * v + 4 * k * v), rel=0.2)


def test_what_is_wrong_has_an_error(without_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    right = gated_deltanet.chunkwise
    wrong = lambda beta, **arrays: right(beta=1.1 * beta, **arrays)
    monkeypatch.setattr(gated_deltanet, "chunkwise", wrong)
    assert rows()[0]["error"] > 0.01


def test_what_raises_is_a_row_and_the_others_go_on(without_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**arrays: Any) -> Any:
        raise RuntimeError("out of\nmemory")

    monkeypatch.setattr(gated_deltanet, "chunkwise", broken)
    failed, loop = rows()
    assert failed["failure"] == "RuntimeError: out of memory"
    assert "seconds" not in failed
    assert loop["times ours"] is None
    assert "failed: RuntimeError" in device_kernels.line(failed)
    assert list(goals([failed, loop])) == []


def row(what: str, seconds: float, ratio: float, error: float) -> dict[str, Any]:
    return {"derivation": "gla", "what": what, "seconds": seconds, "times ours": ratio, "error": error}


def test_goals_are_judged() -> None:
    ours, loop = row("torch.gla.chunkwise", 3.0, 1.0, 2e-3), row("torch.gla.recurrent", 60.0, 20.0, 1e-7)
    fused = row("cupy.gla.recurrent", 1.0, 1 / 3, 1e-7)
    said = list(goals([ours, row("fla-core.chunk_gla", 1.0, 1 / 3, 3e-3), fused, loop]))
    assert [x.rsplit(": ", 1)[1] for x in said] == ["not reached", "reached", "reached"]
    assert said[0] == "gla: 3.00 times fla-core's time (at most 2): not reached"
    assert [x.rsplit(": ", 1)[1] for x in goals([ours, row("fla-core.chunk_gla", 2.0, 0.6, 1e-3)])] == [
        "reached",
        "not reached",
    ]


def test_without_a_gpu_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], find=lambda: None) == 1
    assert "nothing was measured" in capsys.readouterr().err


@pytest.mark.skipif(not (find_spec("fla") and find_spec("triton")), reason="fla-core and Triton aren't installed")
def test_the_program_runs_with_the_kernels_of_fla(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "benchmarks.device_kernels", "--on-cpu", "--json", str(tmp_path / "record.json")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "record.json").read_text())
    theirs = [x for x in found["compared"] if x["what"].startswith("fla-core.")]
    assert [x["what"] for x in theirs] == ["fla-core.chunk_gated_delta_rule", "fla-core.chunk_gla"]
    assert all(1e-5 < x["error"] < 2**-10 for x in theirs)
    assert "goals" not in found


def test_the_fused_kernel_takes_part_where_there_is_cupy(without_kernels: None) -> None:
    device = replace(DEVICE, libraries={**DEVICE.libraries, "cupy": DEVICE.libraries["torch"]})
    names = [x.name for x in contenders("gla", device, "float16")]
    assert names == ["torch.gla.chunkwise", "cupy.gla.recurrent", "torch.gla.recurrent"]
