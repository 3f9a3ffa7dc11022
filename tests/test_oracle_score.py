"""The oracle's score: faults are faults, honest implementations are right, and the page is what was measured."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import attnproof
from attnproof.implementation_cases import Case
from benchmarks.oracle_score import record as records
from benchmarks.oracle_score.__main__ import PAGE, RECORD, main
from benchmarks.oracle_score.faults import CORES, FAULTS, KINDS, Fault
from benchmarks.oracle_score.honest import Honest, honest
from benchmarks.oracle_score.kernels.frame import kernel_of
from benchmarks.oracle_score.other_checks import passed
from benchmarks.oracle_score.page import page
from benchmarks.oracle_score.probes import apart, differs
from benchmarks.oracle_score.scoring import RUNS, FaultResult, HonestResult, tasks

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
CASES_OF_PUBLIC_CODE = (
    "fla 1142", "fla 1140", "fla 459", "fla 875", "fla 47", "fla 77", "mamba 352", "fla 906", "vllm 22034",
    "vllm 40956", "vllm 23279", "transformers 34817", "47246", "NVlabs/GatedDeltaNet 13", "fla 885",
    "attention-gym 475", "transformers 48455", "flashinfer 5032", "attention-gym 394", "fla 1242", "fla 1272",
    "fla 103", "sgl-kernel-npu 640",
)  # fmt: skip
IMPORTED = "transformers"
"""Importing it takes seconds."""
THROUGH_THE_ORACLE = (
    "gated_deltanet: M in the place of Gamma",
    "decay: fold of dg behind the last token",
    "decay: carry fades from the chunk's start, not the sequence's",
    "gated_deltanet: initial state updated in place",
)


def test_the_tables_are_as_large_as_promised() -> None:
    assert len(FAULTS) >= 60
    assert len({x.system for x in FAULTS}) >= 12
    assert len({x.id for x in honest()}) >= 40
    assert max(Counter(x.id for x in (*FAULTS, *honest())).values()) == 1
    assert {x.kind for x in FAULTS} == set(KINDS)


def test_faults_of_public_code_are_among_them() -> None:
    sources = " ".join(x.source for x in FAULTS)
    assert [x for x in CASES_OF_PUBLIC_CODE if x not in sources] == []


def test_formula_faults_say_what_a_diagnosis_must_contain() -> None:
    assert [x.id for x in FAULTS if x.kind == "formula" and not x.says] == []
    assert {x.kind for x in FAULTS if x.says} == {"formula", "state"}


def test_the_runs_are_as_many_as_promised() -> None:
    chosen = tasks()
    assert Counter(kind for kind, *_ in chosen) == {"fault": 2 * len(FAULTS), "honest": RUNS}
    assert len(set(chosen)) == len(chosen)
    assert {name for kind, name, *_ in chosen if kind == "honest"} == {x.id for x in honest()}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda x: x.id)
def test_each_fault_shows_beside_the_right_kernel(fault: Fault) -> None:
    assert differs(fault)


def test_a_right_kernel_is_no_fault() -> None:
    """The probes see nothing where there is nothing: a fault whose name no kernel knows."""
    assert [kind for kind in KINDS if differs(Fault("gated_deltanet", "nothing at all", kind))] == []


def test_what_differs_is_measured_against_the_largest_entry() -> None:
    x = torch.tensor([1.0, 100.0])
    assert apart(x, x) == 0
    assert apart(x + torch.tensor([0.1, 0.0]), x) == pytest.approx(1e-3, rel=1e-4)
    assert apart(x / 0, x) == float("inf")
    assert apart(x[:1], x) == float("inf")


@pytest.mark.parametrize("implementation", [x for x in honest() if DEEP or IMPORTED not in x.name], ids=lambda x: x.id)
def test_each_honest_implementation_is_right_on_a_small_input(implementation: Honest) -> None:
    x, dtype = implementation, "float32"
    case = Case(5, key_width=3, value_width=2, groups=1)
    report = attnproof.check_kernel(
        x.make(), x.system, x.layout, dtype=dtype, case=case, constants=x.constants, library=x.library
    )
    assert report.ok, str(report)


@pytest.mark.parametrize("name", THROUGH_THE_ORACLE)
def test_some_faults_are_caught(name: str) -> None:
    [fault] = [x for x in FAULTS if x.id == name]
    report = attnproof.check_kernel(fault.kernel(), fault.system, layout="fla", chunk_size=16, effort="quick")
    assert "refuted" in {x.verdict for x in report.findings}, str(report)


def test_other_checks_pass_a_right_kernel_and_not_zeros() -> None:
    right = kernel_of("gated_deltanet", CORES["gated_deltanet"])
    assert set(passed(right, "gated_deltanet", "float32").values()) == {True}
    zeros = passed(lambda **given: [0 * x for x in right(**given)], "gated_deltanet", "float32")
    assert set(zeros.values()) == {False}


def _record(caught: bool, verdict: str, over_tolerance: float = 10.0, diagnosis: str = "") -> dict[str, Any]:
    fault = next(x for x in FAULTS if x.kind == "formula")
    others = dict.fromkeys(records.OTHERS, False)
    rows = [
        FaultResult(fault.id, "float32", True, ("lengths",), diagnosis, others),
        FaultResult(fault.id, "bfloat16", caught, (), diagnosis, others, over_tolerance),
        HonestResult(honest()[0].id, "float32", 0, verdict, 0.5, "again: ..." * (verdict == "refuted"), others),
    ]
    return records.record_of(rows, {"torch": "0"})


def test_what_is_missed_or_refuted_fails() -> None:
    assert not records.failed(_record(True, "holds"))
    assert records.failed(_record(False, "holds"))
    assert not records.failed(_record(False, "holds", over_tolerance=1.9))
    assert records.failed(_record(True, "refuted"))
    assert "**missed**" in page(_record(False, "holds"))
    assert "False alarms" in page(_record(True, "refuted"))


def test_a_diagnosis_names_a_fault_by_its_words() -> None:
    fault = next(x for x in FAULTS if x.kind == "formula")
    assert records.scored(_record(True, "holds", diagnosis=f"it is {fault.says[0]}"))[0].named
    assert records.scored(_record(True, "holds"))[0].named is False


def test_a_record_survives_being_written(tmp_path: Path) -> None:
    own = _record(True, "holds", over_tolerance=float("inf"))
    records.written(tmp_path / "record.json", records.dumped(own))
    assert json.loads((tmp_path / "record.json").read_text()) == json.loads(json.dumps(own))
    assert [x.name for x in tmp_path.iterdir()] == ["record.json"]


def test_the_page_is_what_the_record_gives() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(json.loads(RECORD.read_text(encoding="utf-8")))


def test_the_record_is_of_all_faults_and_runs() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert {(row["id"], row["dtype"]) for row in record["faults"]} == {
        (name, dtype) for kind, name, dtype, _ in tasks() if kind == "fault"
    }
    assert len(record["honest"]) == RUNS


@pytest.mark.skipif(not DEEP, reason="a process for each core is started")
def test_the_command_judges_what_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "record.json"
    assert main(["--only", "linear_attention: q scaled", "--jobs", "1", "--json", str(file)]) == 0
    assert "1 of 1 planted faults in 1 systems are caught in float32" in " ".join(capsys.readouterr().out.split())
    assert len(json.loads(file.read_text())["faults"]) == 2


def test_wrong_usage_says_what_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "no such kernel"])
    assert "nothing has 'no such kernel' in its name" in capsys.readouterr().err
