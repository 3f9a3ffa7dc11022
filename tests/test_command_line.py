"""The commands: what they print, what they write, and the exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from attnproof.commands import attnproof
from numerics.proofs.ladder import RUNGS

COMMAND = [sys.executable, "-m", "attnproof"]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(attnproof, [str(argument) for argument in arguments])


def rows(output: str, first_head: str) -> list[list[str]]:
    """The lines of the table with this first head."""
    lines = output.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith(first_head))
    return [line.split() for line in lines[start + 1 : lines.index("", start)]]


def test_as_expected_is_status_0(write):
    folder = write("mine").parent
    found = run("verify", "mine", "--rung", "exact", "--jobs", "1", "--derivations", folder)
    assert found.exit_code == 0
    assert rows(found.stdout, "identity") == [
        ["mine.transposed", "holds", "holds", "holds", "n", "<=", "6", "0.0"],
        ["mine.masked", "refuted", "refuted", "holds", "refuted", "0.0"],
    ]
    assert "2 identities: 1 holds, 1 refuted as expected, 0 unexpected (" in found.stdout


def test_each_identity_is_a_line_as_it_comes(write):
    found = run("verify", "mine", "--rung", "exact", "--jobs", "1", "--derivations", write("mine").parent)
    assert found.stdout.splitlines()[:2] == [
        "1/2 mine.transposed: holds in 0.0 s",
        "2/2 mine.masked: refuted in 0.0 s",
    ]


def test_an_unexpected_verdict_is_status_1_with_its_counterexample(write):
    text = 'd = Derivation("d", "", "", {}, [Identity("masked", Closed(Q @ K.T), Closed((Q @ K.T).hadamard(M)))])'
    path = write("d", text)
    found = run("verify", "d", "--rung", "exact", "--jobs", "1", "--derivations", path.parent)
    assert found.exit_code == 1
    assert found.stdout.splitlines()[-7:-1] == [
        f"d.masked: refuted, expected: holds ({path}:2)",
        "  exact: the sides differ at n = 2: output, row 1, column 2",
        "  refuted by n = 2, d_k = 1, d_v = 1: everything 1",
        "    left  1  1    right  1  0",
        "          1  1           1  1",
        "    gap in row 1, column 2: k_2 q_1",
    ]


def test_a_broken_module_is_status_1(write):
    write("mine")
    path = write("broken", "1 / 0")
    for command in (["verify", "mine", "--rung", "exact", "--jobs", "1"], ["list"], ["show", "mine"]):
        found = run(*command, "--derivations", path.parent)
        assert found.exit_code == 1
        assert f"broken module: {path}:2: ZeroDivisionError: division by zero" in found.output
        assert "mine" in found.stdout


def test_nothing_to_check_is_not_a_success(write):
    path = write("empty", 'empty = Derivation("empty", "", "", {}, [])')
    found = run("verify", "empty", "--derivations", path.parent)
    assert found.exit_code == 2
    assert found.stderr == "Error: empty has no identities\n"


def test_long_names_are_not_cut_off(write):
    name = "a_very_long_name" * 12
    found = run("verify", name, "--rung", "exact", "--jobs", "1", "--derivations", write(name).parent)
    assert [row[0] for row in rows(found.stdout, "identity")] == [f"{name}.transposed", f"{name}.masked"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verify", "gated_deltnet"], "Did you mean gated_deltanet"),
        (["verify", "--rung", "exactly"], "exactly"),
        (["verify", "--jobs", "0"], "--jobs"),
        (["verify", "--length", "1"], "--length"),
        (["verify", "--json", "/nowhere/record.json"], "/nowhere isn't a folder that can be written to"),
        (["verify", "--derivations", "/nowhere"], "/nowhere"),
        (["show", "nothing"], "no derivation or identity is named 'nothing'"),
        (["proof"], "proof"),
    ],
)
def test_wrong_usage_is_status_2(arguments, said):
    found = run(*arguments)
    assert found.exit_code == 2
    assert said in found.stderr
    assert found.stdout == ""


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_record_is_json_in_the_catalogues_order(write, tmp_path, jobs):
    write("bad", "1 / 0")
    path, record = write("mine"), tmp_path / "record.json"
    run(
        "verify",
        "mine",
        "--rung",
        "exact",
        "--seed",
        "7",
        "--jobs",
        jobs,
        "--json",
        record,
        "--derivations",
        path.parent,
    )
    written = json.loads(record.read_text())
    assert list(written) == ["version", "seconds", "ok", "seed", "identities", "claims", "broken"]
    assert (written["version"], written["ok"], written["seed"]) == ("0.1.0", False, 7)
    assert written["broken"] == [
        {"file": str(path.parent / "bad.py"), "line": 2, "error": "ZeroDivisionError: division by zero"}
    ]
    transposed, masked = written["identities"]
    assert {key: transposed[key] for key in transposed if key != "evidence"} == {
        "id": "mine.transposed",
        "expected": "holds",
        "verdict": "holds",
        "ok": True,
        "counterexample": None,
    }
    assert [(e["rung"], e["verdict"]) for e in transposed["evidence"]] == [("typed", "holds"), ("exact", "holds")]
    assert (masked["id"], masked["verdict"], masked["ok"]) == ("mine.masked", "refuted", True)
    assert masked["counterexample"] == {
        "sizes": {"n": 2, "d_k": 1, "d_v": 1},
        "inputs": {"K": [["1"], ["1"]], "Q": [["1"], ["1"]]},
        "compared": "output",
        "left": [["1", "1"], ["1", "1"]],
        "right": [["1", "0"], ["1", "1"]],
        "gap": "k_2*q_1",
        "entry": [1, 2],
    }
    assert set(os.listdir(tmp_path)) == {"mine", "record.json"}


def test_the_field_rung_takes_the_length_that_is_asked_for(write, tmp_path):
    folder, record = write("mine").parent, tmp_path / "record.json"
    arguments = ["--rung", "field", "--length", 97, "--jobs", 1, "--json", record, "--derivations", folder]
    assert run("verify", "mine.transposed", *arguments).exit_code == 0
    (identity,) = json.loads(record.read_text())["identities"]
    assert {e["rung"]: e["sizes"][0]["n"] for e in identity["evidence"]} == {"typed": 7, "field": 97}


def test_a_worker_that_dies_costs_one_identity(write, tmp_path):
    text = """
import os
def dies(algebra, Q, K):
    os._exit(9)
dying = Derivation("dying", "", "", {}, [
    Identity("dies", Closed(Q @ K.T), Algorithm(dies, (Q, K))),
    Identity("dies_too", Closed(Q @ K.T), Algorithm(dies, (Q, K))),
])
"""
    path, record = write("dying", text), tmp_path / "record.json"
    write("mine")
    found = run(
        "verify", "dying", "mine", "--rung", "exact", "--jobs", 2, "--json", record, "--derivations", path.parent
    )
    assert found.exit_code == 1
    verdicts = {x["id"]: (x["verdict"], x["ok"]) for x in json.loads(record.read_text())["identities"]}
    assert verdicts == {
        "dying.dies": ("unknown", False),
        "dying.dies_too": ("unknown", False),
        "mine.transposed": ("holds", True),
        "mine.masked": ("refuted", True),
    }
    assert f"{path}:7: the process that checked it died (exit status 9)" in found.stdout


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_ends_it_at_once_and_leaves_the_record_as_it_was(write, tmp_path, jobs):
    text = f"""
import time
from pathlib import Path
def sleeps(algebra, Q, K):
    Path({str(tmp_path)!r}, "begun").touch()
    time.sleep(60)
slow = Derivation("slow", "", "", {{}}, [
    Identity("a", Closed(Q @ K.T), Algorithm(sleeps, (Q, K))),
    Identity("b", Closed(Q @ K.T), Algorithm(sleeps, (Q, K))),
])
"""
    path, record = write("slow", text), tmp_path / "record.json"
    record.write_text("the old one")
    arguments = ["verify", "slow", "--derivations", str(path.parent), "--json", str(record), "--jobs", str(jobs)]
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--rung", "exact"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for(lambda: (tmp_path / "begun").exists())
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends Ctrl-C to the whole group
    begun = time.monotonic()
    _, errors = process.communicate(timeout=20)
    assert time.monotonic() - begun < 5
    assert (process.returncode, errors) == (130, "interrupted\n")
    assert record.read_text() == "the old one"
    assert {x.name for x in tmp_path.iterdir()} == {"mine", "begun", "record.json"}
    wait_for(lambda: not group_is_alive(process.pid))


def wait_for(happened, seconds=20.0):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it didn't happen"
        time.sleep(0.02)


def group_is_alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_list_shows_derivations_and_identities(write):
    folder = write("mine").parent
    assert ["mine", "Small", "2", "0"] in rows(run("list", "--derivations", folder).stdout + "\n", "derivation")
    ids = run("list", "--identities", "--derivations", folder).stdout.split()
    assert ids[-2:] == ["mine.transposed", "mine.masked"]
    assert "gated_deltanet.gamma_rewrite" in ids


def test_show_writes_the_whole_sheet_of_a_derivation():
    shown = run("show", "gated_deltanet").stdout
    for part in (
        "Gated DeltaNet (gated_deltanet)",
        "gated_deltanet.py:",
        "    S_t = gamma_t S_{t-1} (I - beta_t k_t k_tᵀ) + beta_t v_t k_tᵀ\n",
        r"    LaTeX  S_{t} = \gamma_{t} S_{t-1} \left(I - \beta_{t} k_{t} k_{t}^{\top}\right)",
        "  gated_deltanet.gamma_rewrite\n",
        "    decides: S0-57\n",
        "    left: recurrence\n    right: matrix\n",
        "gamma_t > 0, since the reparametrisation divides by gamma",
        "    verdict: holds (as expected)\n    evidence: typed holds, exact holds (n <= ",
        "assumptions holds (1 needed)",
        "      gap in row 2: (1 - gamma_2) k_1 k_2^2 q_2 v_1\n",
        "arXiv:2412.06464",
    ):
        assert part in shown


def test_show_of_one_identity_without_latex_and_evidence():
    shown = run("show", "gated_deltanet.printed_recurrence", "--no-latex", "--no-evidence").stdout
    assert "o_t = S_t q_t" in shown
    assert "LaTeX" not in shown
    assert "verdict" not in shown
    assert "gamma_rewrite" not in shown


def test_show_of_a_derivation_with_facts_says_how_each_is_decided_and_what_that_showed(write):
    text = """
small = Derivation("small", "", "", {}, [], facts=[
    Fact("thirds", Printed(Rational(2, 3), "0.667"), says="Two thirds, to three digits."),
    Fact("open", Computed(lambda: Finding(None, "nobody knows"), method="by hand")),
])
document = Document("doc", "A document", [
    Claim("Z-1", "It is 0.667.", "line 1", "holds", by="small.thirds"),
    Claim("Z-2", "It is nearly 0.667.", "line 2", "holds", by="small.thirds"),
])
"""
    path = write("small", text)
    shown = run("show", "small", "--derivations", path.parent).stdout.splitlines()
    start = shown.index("  small.thirds")
    assert [line.strip() for line in shown[start : start + 15]] == [
        "small.thirds",
        "Two thirds, to three digits.",
        "expected: holds",
        "decided by: arithmetic",
        "decides: Z-1, Z-2",
        f"stated in: {path}:4",
        "verdict: holds (as expected)",
        "shown: 0.666667, printed as 0.667",
        "",
        "small.open",
        "expected: holds",
        "decided by: by hand",
        f"stated in: {path}:5",
        "verdict: unknown (not as expected)",
        "shown: nobody knows",
    ]


def test_new_writes_a_derivation_that_verifies_and_a_test_that_passes(tmp_path):
    folder = tmp_path / "made"
    made = run("new", "my_system", "--out", folder)
    assert made.exit_code == 0
    assert f"attnproof verify my_system --derivations {folder}" in made.stdout
    assert len((folder / "my_system.py").read_text().splitlines()) <= 32
    checked = run("verify", "my_system", "--derivations", folder, "--rung", "exact", "--jobs", "1")
    assert checked.exit_code == 0
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", folder], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "1 passed" in tested.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my-system", "letters, digits and underscores"),
        ("class", "letters, digits and underscores"),
        ("test_system", "are left alone"),
        ("gated_deltanet", "is taken"),
        ("json", "a Python module already"),
        ("there", "isn't overwritten"),
    ],
)
def test_new_refuses_a_name_that_cannot_be_used(tmp_path, name, said):
    (tmp_path / "test_there.py").write_text("mine")
    found = run("new", name, "--out", tmp_path)
    assert found.exit_code == 2
    assert said in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert {x.name: x.read_text() for x in tmp_path.iterdir()} == {"test_there.py": "mine"}


@pytest.mark.parametrize("command", [[], ["verify"], ["list"], ["show"], ["claims"], ["family"], ["mutants"], ["new"]])
def test_each_command_has_help_with_examples(command):
    for option in ("-h", "--help"):
        found = run(*command, option)
        assert found.exit_code == 0
        assert "Examples:\n" in found.stdout


def test_every_rung_can_be_asked_for():
    assert f"[{'|'.join(RUNGS)}]" in run("verify", "--help").stdout


def test_the_version_is_printed():
    assert run("--version").stdout == "attnproof 0.1.0\n"


def test_output_without_greek_letters_is_escaped():
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    shown = subprocess.run(
        [*COMMAND, "show", "linear_attention.recurrent_is_matrix", "--no-evidence"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0
    assert r"O = ((Q K\u1d40) \u2299 M) V" in shown.stdout
