"""The files of golden vectors: reproducible bit for bit, whole or not there, and nothing in them is run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from test_emit_values import DERIVATIONS

from attnproof.commands import attnproof
from attnproof.vectors import EXPECTED, INPUTS, TOLERANCE, Shape, VectorError, Vectors, files, judge, make, write_folder
from attnproof.vectors.files import MANIFEST, read, sum_of

SMALL = Shape(tokens=5, d_k=3, d_v=2, chunk=2)
SIZES = ["--tokens", "5", "--d-k", "3", "--d-v", "2"]


@cache
def made(name: str = "gated_deltanet", form: str = "recurrence", seed: int = 0) -> Vectors:
    return make(DERIVATIONS[name], form, SMALL, seed)


def written(folder: Path, vectors: Vectors) -> Path:
    groups = {INPUTS: vectors.inputs, EXPECTED: vectors.expected, TOLERANCE: vectors.tolerance}
    write_folder(folder, groups, vectors.manifest)
    return folder


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return written(tmp_path / "golden", made())


def vectors(*arguments: str | Path) -> Result:
    return CliRunner().invoke(attnproof, ["vectors", *map(str, arguments)])


def test_the_same_seed_gives_the_same_bytes(golden: Path, tmp_path: Path) -> None:
    again = written(tmp_path / "again", make(DERIVATIONS["gated_deltanet"], "recurrence", SMALL, 0))
    names = sorted(x.name for x in golden.iterdir())
    assert names == sorted(x.name for x in again.iterdir())
    for name in names:
        assert (golden / name).read_bytes() == (again / name).read_bytes(), name
    other = written(tmp_path / "other", made(seed=1))
    assert sum_of(other / "inputs.npz") != sum_of(golden / "inputs.npz")


def test_both_kinds_of_file_hold_the_same(golden: Path) -> None:
    pytest.importorskip("safetensors")
    for group in (INPUTS, EXPECTED, TOLERANCE):
        packed, plain = read(golden / f"{group}.npz"), read(golden / f"{group}.safetensors")
        assert packed.keys() == plain.keys()
        for name, value in packed.items():
            np.testing.assert_array_equal(value, plain[name])


def test_the_manifest_says_what_was_written(golden: Path) -> None:
    found = json.loads((golden / MANIFEST).read_text(encoding="utf-8"))
    assert found["format"] == 1
    assert (found["derivation"], found["form"], found["seed"], found["dtype"]) == (
        "gated_deltanet",
        "recurrence",
        0,
        "float32",
    )
    assert found["equations"][1] == "o_t = S_t q_t"
    assert found["layouts"]["initial_state"] == "b h k v"
    assert {"attnproof", "numpy", "sympy", "python"} <= found["versions"].keys()
    assert found["sha256"] == {x.name: sum_of(x) for x in golden.iterdir() if x.name != MANIFEST}


def test_inputs_are_numbers_of_the_precision() -> None:
    half = make(DERIVATIONS["gla"], "recurrence", SMALL, 0, "bfloat16").inputs
    for name, value in half.items():
        assert value.dtype == np.float32
        assert not (value.view(np.uint32) & 0xFFFF).any(), f"{name} has bits that bfloat16 hasn't"
    assert all(
        value.dtype == np.float16
        for value in make(DERIVATIONS["gla"], "recurrence", SMALL, 0, "float16").inputs.values()
    )


def test_every_entry_has_a_tolerance_and_gradients_are_explained() -> None:
    for name, form in (("gated_deltanet", "recurrence"), ("gated_deltanet", "chunkwise"), ("mesanet", "rls")):
        found = made(name, form)
        assert {key: x.shape for key, x in found.expected.items()} == {
            key: x.shape for key, x in found.tolerance.items()
        }
        assert all((x > 0).all() for x in found.tolerance.values())
        assert any(key.startswith("grad_") for key in found.expected) != bool(found.manifest["no_gradients_because"])


def test_a_form_with_a_beginning_of_its_own_is_given_no_initial_state() -> None:
    found = made("ttt_linear", "primal")
    assert "initial_state" not in found.inputs
    assert "grad_S_0" in found.expected


def test_a_square_state_is_drawn_as_a_sum_of_squares() -> None:
    value = made("mesanet").inputs["initial_H"].astype(np.float64)
    assert np.linalg.eigvalsh((value + value.swapaxes(-1, -2)) / 2).min() > -1e-6
    np.testing.assert_allclose(value, value.swapaxes(-1, -2), atol=1e-6)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("how", [lambda x: x[: len(x) // 2], lambda x: b"", lambda x: b"\xff" * 100])
def test_a_damaged_result_is_a_clear_error(
    golden: Path, tmp_path: Path, suffix: str, how: Callable[[bytes], bytes]
) -> None:
    if suffix == ".safetensors":
        pytest.importorskip("safetensors")
    path = tmp_path / f"mine{suffix}"
    path.write_bytes(how((golden / f"expected{suffix}").read_bytes()))
    with pytest.raises(VectorError, match="damaged"):
        judge(path, golden)


@pytest.mark.parametrize("group", [EXPECTED, TOLERANCE])
def test_vectors_that_have_changed_judge_nothing(golden: Path, group: str) -> None:
    path = golden / f"{group}.npz"
    arrays = dict(np.load(path))
    arrays["o"] = arrays["o"] * 2
    np.savez(path, **arrays)
    with pytest.raises(VectorError, match="SHA-256 differs"):
        judge(golden / "inputs.npz", golden)


def test_objects_are_refused_and_not_loaded(golden: Path, tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "harmed"),)

    np.savez(tmp_path / "mine.npz", o=np.array([Harmful()], dtype=object))
    with pytest.raises(VectorError, match="objects and not numbers"):
        judge(tmp_path / "mine.npz", golden)
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ({"o": np.zeros((2, 5, 2, 3))}, "expected is"),
        ({"O": np.zeros((2, 5, 2, 2))}, "the names are"),
        ({"o": np.zeros((2, 5, 2, 2), dtype=int)}, "floating point"),
    ],
)
def test_what_does_not_fit_is_a_clear_error(
    golden: Path, tmp_path: Path, results: dict[str, np.ndarray], says: str
) -> None:
    np.savez(tmp_path / "mine.npz", **results)
    with pytest.raises(VectorError, match=says):
        judge(tmp_path / "mine.npz", golden)


def test_bfloat16_and_float16_results_are_read(golden: Path, tmp_path: Path) -> None:
    torch, saving = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
    for dtype in (torch.bfloat16, torch.float16):
        value = torch.tensor([1.5, -0.375, 3.0e-5, 0.1], dtype=dtype)
        saving.save_file({"x": value}, str(tmp_path / "x.safetensors"))
        np.testing.assert_array_equal(read(tmp_path / "x.safetensors")["x"], value.to(torch.float64).numpy())


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(path: Path) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "sum_of", interrupt)
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path / "golden", made())
    assert not list(tmp_path.iterdir())


def test_without_safetensors_there_is_npz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "has_safetensors", lambda: False)
    folder = written(tmp_path / "golden", made())
    assert sorted(x.name for x in folder.iterdir()) == ["expected.npz", "inputs.npz", MANIFEST, "tolerance.npz"]
    assert judge(folder / "expected.npz", folder).ok
    (tmp_path / "mine.safetensors").write_bytes(b"")
    with pytest.raises(VectorError, match="needs the library safetensors"):
        judge(tmp_path / "mine.safetensors", folder)


def test_the_command_writes_and_judges(tmp_path: Path) -> None:
    folder = tmp_path / "golden"
    found = vectors("gla", "--out", folder, *SIZES, "--layout", "alpha=log(b t h k)")
    assert found.exit_code == 0, found.output
    assert "grad_log_alpha" in found.stdout
    assert vectors("--verify", folder / "expected.npz").exit_code == 0
    results = dict(np.load(folder / "expected.npz"))
    np.savez(tmp_path / "forward.npz", o=results["o"], final_state=results["final_state"])
    assert vectors("--verify", tmp_path / "forward.npz", "--against", folder, "--forward").exit_code == 0
    missing = vectors("--verify", tmp_path / "forward.npz", "--against", folder)
    assert missing.exit_code == 1
    assert "missing: grad_initial_state" in missing.stdout
    np.savez(tmp_path / "wrong.npz", **{**results, "o": results["o"] + 1})
    wrong = vectors("--verify", tmp_path / "wrong.npz", "--against", folder)
    assert wrong.exit_code == 1
    assert "7 within" not in wrong.stdout
    assert "1 outside" in wrong.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name a derivation and --out"),
        (["gla"], "name a derivation and --out"),
        (["nothing", "--out", "x"], "no derivation or identity is named"),
        (["gla", "--out", "x", "--form", "nothing"], "no form 'nothing' to evaluate"),
        (["decay", "--out", "x", "--form", "associative_scan"], "to evaluate"),
        (["gla", "--out", "x", "--layout", "q=b"], "isn't a layout of q"),
        (["gla", "--out", ".", "--tokens", "2"], "isn't an empty folder"),
        (["gla", "--out", "no/such/folder", "--tokens", "2"], "can't write"),
        (["gla", "--out", "x", "--tokens", "0"], "--tokens"),
        (["--verify", "no.npz"], "has no manifest.json"),
    ],
)
def test_wrong_usage_is_status_2(arguments: list[str], says: str) -> None:
    found = vectors(*arguments)
    assert found.exit_code == 2, found.output
    assert says in " ".join(found.stderr.split())


def test_a_file_of_a_later_format_is_refused(golden: Path) -> None:
    found = json.loads((golden / MANIFEST).read_text(encoding="utf-8"))
    (golden / MANIFEST).write_text(json.dumps({**found, "format": 2}), encoding="utf-8")
    with pytest.raises(VectorError, match="reads format 1"):
        judge(golden / "expected.npz", golden)
    (golden / MANIFEST).write_text("{", encoding="utf-8")
    with pytest.raises(VectorError, match="can't be read"):
        judge(golden / "expected.npz", golden)
