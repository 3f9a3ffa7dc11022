"""The oracle: right kernels pass, each fault is found and named, and conventions fit or say why they don't."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from oracle_kernels import BLOCK, FAULTS
from oracle_kernels import gated_deltanet as kernel

import attnproof
from attnproof.commands import attnproof as command
from attnproof.implementation_cases import Case
from attnproof.oracle.conventions import WrongConvention, convention_of
from attnproof.oracle.subject import Subject
from attnproof.oracle.values import lengths
from gpu.registry import implementations
from gpu.torch_kernels import comba, deltanet, gated_deltanet, gla, kda


def checked(function: Callable[..., Any], derivation: str = "gated_deltanet", **options: Any) -> attnproof.KernelReport:
    return attnproof.check_kernel(function, derivation, **{"layout": "fla", "chunk_size": BLOCK, **options})


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_a_right_kernel_passes(dtype: str) -> None:
    report = checked(kernel(), dtype=dtype)
    assert report.ok, str(report)
    assert {x.check for x in report.findings} >= {"lengths", "split", "causality", "gradients", "gate sweep"}
    assert max(x.ratio for x in report.findings) < 0.6


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_found_and_named(fault: str) -> None:
    report = checked(kernel(fault), effort="quick")
    assert not report.ok
    assert FAULTS[fault] in report.diagnosis
    assert bool(report.diagnosis) == bool(FAULTS[fault])
    with pytest.raises(AssertionError, match="doesn't compute Gated DeltaNet"):
        report.raise_if_wrong()


def test_a_gradient_that_is_cut_off_is_found_alone() -> None:
    report = checked(kernel("gate detached"), effort="quick")
    verdicts = {x.check: x.verdict for x in report.findings}
    assert {check for check, verdict in verdicts.items() if verdict == "refuted"} == {"gradients"}
    assert "wrong only in: gradients" in report.begins
    [message] = [x.message for x in report.findings if x.verdict == "refuted"]
    assert "dg by" in message
    assert "dv" in message.split(";")[-1]


@pytest.mark.parametrize(
    ("module", "derivation", "way"),
    [
        (gated_deltanet, "gated_deltanet", "chunkwise"),
        (comba, "comba", "chunkwise"),
        (gla, "gla", "chunkwise"),
        (kda, "kda", "recurrent"),
        (deltanet, "deltanet", "chunkwise"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_own_implementations_pass(module: Any, derivation: str, way: str) -> None:
    report = checked(getattr(module, way), derivation, layout="attnproof", effort="quick")
    assert report.ok, str(report)


def test_a_kernel_on_numpy_arrays() -> None:
    def linear(q: Any, k: Any, v: Any) -> Any:
        wide = [np.repeat(x, v.shape[2] // x.shape[2], axis=2) for x in (q, k)]
        scores = np.tril(np.einsum("bthk,bshk->bhts", *wide))
        return np.einsum("bhts,bshv->bthv", scores, v)

    layout = {"q": "b t h k", "k": "b t h k", "v": "b t g v", "returns": {"O": "b t g v"}}
    report = attnproof.check_kernel(linear, "linear_attention", layout, library="numpy", chunk_size=BLOCK)
    assert report.ok, str(report)
    skipped = {x.check for x in report.findings if x.verdict == "skipped"}
    assert skipped == {"gate sweep", "limits", "split", "packed sequences", "gradients", "exact"}


@pytest.mark.parametrize(
    ("scale", "given", "state"),
    [("linear", torch.log, "n g v k"), ("log2", lambda x: x * np.log(2), "n g k v")],
)
def test_other_scales_and_layouts(scale: str, given: Callable[[Any], Any], state: str) -> None:
    inner = kernel()

    def other(q: Any, k: Any, v: Any, a: Any, beta: Any, h0: Any = None) -> Any:
        turned = state == "n g v k"
        output, last = inner(q, k, v, given(a), beta, initial_state=h0.mT if turned and h0 is not None else h0)
        return output, last.mT if turned else last

    of_scale = getattr(attnproof, scale)
    layout = {"q": "b t h k", "k": "b t h k", "v": "b t g v", "beta": "b t g", "h0": state}
    layout |= {"a": of_scale("b t g", stands_for="gamma")}
    assert checked(other, layout=layout, effort="quick").ok
    assert not checked(other, layout=layout | {"h0": "n g k v" if state == "n g v k" else "n g v k"}, effort="quick").ok


def test_a_preset_that_does_not_fit_shows_both_sides() -> None:
    with pytest.raises(WrongConvention, match=r"needs log_gate .* and the kernel has q, k, v, beta"):
        convention_of(lambda q, k, v, beta: None, "gated_deltanet", "fla")
    with pytest.raises(WrongConvention, match="nothing is passed for window: it has"):
        convention_of(lambda q, k, v, g, beta, window: None, "gated_deltanet", "fla")
    with pytest.raises(WrongConvention, match="no layout is named 'flax'; there are: "):
        convention_of(kernel(), "gated_deltanet", "flax")
    with pytest.raises(WrongConvention, match="no convention is known for 'nothing'"):
        convention_of(kernel(), "nothing", "fla")


def test_arguments_are_passed_by_name_whatever_their_order() -> None:
    inner = kernel()
    assert checked(
        lambda beta, g, v, k, q, initial_state=None: inner(q, k, v, g, beta, 1.0, initial_state), effort="quick"
    ).ok


def test_the_replayed_input_fails_again() -> None:
    wrong = kernel("no beta")
    report = checked(wrong, effort="quick")
    assert report.smallest.startswith("n = 1, d_k = 1, d_v = 1")
    case = eval(report.replay.split("case=")[1][:-1], {"attnproof": attnproof})
    assert not checked(wrong, case=case).ok
    assert checked(kernel(), case=case).ok


BROKEN = """
import sys
from oracle_kernels import gated_deltanet
right, wrong = gated_deltanet(), gated_deltanet("no beta")
def exits(q, k, v, g, beta): sys.exit(0)
"""


@pytest.mark.parametrize(
    ("name", "isolate", "status", "said"),
    [
        ("right", True, 0, "computes Gated DeltaNet"),
        ("wrong", False, 1, "beta isn't used: it is one"),
        ("exits", False, 1, "it raised SystemExit"),
        ("missing", False, 2, "can't import broken:missing"),
    ],
)
def test_the_command(
    name: str, isolate: bool, status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN, encoding="utf-8")
    paths = f"{tmp_path}{os.pathsep}{Path(__file__).parent}"
    monkeypatch.setenv("PYTHONPATH", paths)
    for path in reversed(paths.split(os.pathsep)):
        monkeypatch.syspath_prepend(path)
    arguments = ["check", f"broken:{name}", "--as", "gated_deltanet", "--layout", "fla", "--effort", "quick"]
    arguments += ["--chunk-size", "16", "--json", str(tmp_path / "r.json")]
    arguments += ["--isolate"] if isolate else []
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == status, done.output
    assert said in done.output
    if status != 2:
        assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["ok"] == (status == 0)


REGISTERED = sorted({x.derivation for x in implementations(library="torch")})


@pytest.mark.parametrize("derivation", REGISTERED)
def test_the_registry_holds_up_to_the_oracle(derivation: str) -> None:
    """Forward values of every system's own implementation, with its own arguments as the convention."""
    module = import_module(f"gpu.torch_kernels.{derivation}")
    function = getattr(module, "chunkwise", None) or module.blockwise
    subject = Subject(function, convention_of(function, derivation), "torch", "float64", "float64")
    found = lengths(subject, Case(2 * BLOCK, chunk_size=BLOCK, with_state=subject.convention.state is not None))
    assert found.verdict == "holds", found.message
