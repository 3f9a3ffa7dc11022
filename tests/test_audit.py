"""The audit: its table is well formed, its adapters repair nothing, and its page says what its record has."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from attnproof import Case
from attnproof.audit import SUBJECTS, audited, check, derivatives, subject
from attnproof.audit.inner_loss import InnerLoss
from attnproof.audit.markdown import markdown
from attnproof.audit.record import as_expected, read
from attnproof.audit.stated import Input, Stated
from attnproof.audit.subjects import Expected, Kernel, Subject
from attnproof.audit.table import libraries
from attnproof.audit.workers import Settings, Worker
from attnproof.catalogue import load_catalogue
from attnproof.commands import attnproof as command
from attnproof.oracle.conventions import convention_of

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "docs" / "audit.json"
NAMES = [x.name for x in SUBJECTS]
SHORT = Case(20, with_state=True, chunk_size=16)


def runnable(name: str) -> Subject:
    one = subject(name)
    if one.library.misses:
        pytest.skip(f"{one.library.misses}: pip install 'attnproof[audit]'")
    return one


def recorded() -> dict[str, Any]:
    found = read(RECORD)
    assert found is not None
    return found


@pytest.mark.parametrize("one", SUBJECTS, ids=NAMES)
def test_the_table_is_well_formed(one: Subject) -> None:
    assert one.name.startswith(f"{one.library.name}.")
    assert NAMES.count(one.name) == 1
    assert re.fullmatch(rf"{one.library.package}(\.\w+)*:\w+(\.\w+)*", one.home)
    assert one.derivation in load_catalogue().derivations
    assert bool(one.expected.checks) == bool(one.expected.says)
    assert one.called
    if one.same_source:
        assert len({home.split(":")[1] for home in (one.home, *one.same_source)}) == 1


def test_the_extra_has_the_versions_of_the_table() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["audit"]
    pinned = {f"{x.name}=={x.pinned}" for x in libraries()} | {f"triton=={x.triton}" for x in libraries() if x.triton}
    assert {x.partition(";")[0] for x in extra if "==" in x} == pinned


def test_the_table_needs_no_library() -> None:
    code = "import sys, attnproof.audit.table; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", [x.name for x in SUBJECTS if not x.library.triton])
def test_every_subject_runs(name: str) -> None:
    """One input of 20 tokens, on which those that compute another formula fail."""
    one = runnable(name)
    another = one.expected.also is None or "derivative of the loss" in one.expected.checks
    assert verdict(one) == ("refuted" if another else "holds")


def test_every_triton_kernel_runs() -> None:
    """In another process, where they are interpreted; on this input all are right."""
    names = [x.name for x in SUBJECTS if x.library.triton]
    runnable(names[0])
    code = (
        "import sys; from tests.test_audit import verdict, subject; print(*[verdict(subject(x)) for x in sys.argv[1:]])"
    )
    words = [sys.executable, "-W", "ignore", "-c", code, *names]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    found = dict(zip(names, done.stdout.split(), strict=False))
    assert found == dict.fromkeys(names, "holds"), done.stderr


def verdict(one: Subject) -> str:
    """What one input of 20 tokens shows."""
    if isinstance(one, InnerLoss):
        return next(one.findings()).verdict
    if isinstance(one, Stated):
        return one.compared("this input", [Input(20, one.takes_state)]).verdict
    state = convention_of(one.kernel(), one.derivation, one.layout, one.constants).state
    return check(one, case=replace(SHORT, with_state=state is not None)).findings[0].verdict


def with_error(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Kernel], Kernel]:
    return lambda function: lambda **arguments: function(**arguments | change(arguments))


PLANTED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "fla-core.gated_delta_rule.recurrent": lambda a: {"beta": a["beta"] * 1.001},
    "fla-core.forgetting_attn": lambda a: {"g": 0 * a["g"]},
    "transformers.mamba2.chunk_scan": lambda a: {"initial_states": None},
    "opengdn.reference": lambda a: {"k": a["k"].flip(1)},
    "fla-core.mesa_net.exact": lambda a: {"K": a["K"] * 1.001},
    "transformers.minimax.lightning_attention": lambda a: {"V": a["V"].roll(1, 1)},
    "fla-core.ttt_linear": lambda a: {"step": a["step"] * 1.001},
}


@pytest.mark.parametrize("name", PLANTED)
def test_an_error_in_an_adapter_turns_the_verdict(name: str) -> None:
    one = runnable(name)
    wrong = replace(one, adapter=lambda function: with_error(PLANTED[name])(one.adapter(function)))
    found = audited(wrong, "quick", backward=False)
    assert (found["verdict"], found["expected"]) == ("finding", False)
    assert found["smallest_input"]


def test_what_is_said_of_a_finding_has_to_be_confirmed() -> None:
    one = runnable("fla-core.comba.recurrent")
    assert one.expected.instead is not None
    unconfirmed = replace(one.expected, instead=replace(one.expected.instead, adapter=one.adapter))
    assert not audited(replace(one, expected=unconfirmed), "quick", backward=False)["expected"]


def test_a_missing_finding_is_unexpected() -> None:
    one = runnable("fla-core.linear_attn.recurrent")
    found = audited(replace(one, expected=Expected(frozenset({"lengths"}), "It is wrong.")), "quick", backward=False)
    assert (found["verdict"], found["expected"]) == ("agrees", False)


def test_another_source_is_found() -> None:
    one = runnable("transformers.rwkv.linear_attention")
    other = subject("transformers.mamba.selective_scan").home
    found = audited(replace(one, same_source=(other,)))
    assert (found["verdict"], found["expected"]) == ("finding", False)
    assert other in found["checks"][-1]["message"]


@pytest.mark.parametrize(("pinned", "why"), [("0.0.1", "0.0.1 is what is audited"), (None, "isn't installed")])
def test_a_library_that_is_not_there_is_shown(pinned: str | None, why: str) -> None:
    one = runnable("opengdn.reference")
    own = {"pinned": pinned} if pinned else {"name": "no-such-library"}
    found = audited(replace(one, library=replace(one.library, **own)))
    assert (found["verdict"], found["expected"]) == ("not run", False)
    assert why in found["why"]


def test_derivatives_that_are_not_finite_are_found() -> None:
    wrong, right = (derivatives(runnable(f"fla-core.kda.{x}"), 8, 20.0, "output and state", width=1) for x in WAYS)
    assert set(wrong.not_finite) == {"q", "k", "g", "beta"}
    assert right.ratio < 1


WAYS = ("chunk", "recurrent")


def serve_and_die(connection: Connection, settings: Settings) -> None:
    connection.recv()
    os.kill(os.getpid(), signal.SIGKILL)


def serve_and_sleep(connection: Connection, settings: Settings) -> None:
    connection.recv()
    time.sleep(60)


@pytest.mark.parametrize(("target", "why"), [(serve_and_die, "SIGKILL"), (serve_and_sleep, "not done after 0.5 s")])
def test_a_process_that_dies_or_hangs_is_a_verdict(target: Any, why: str) -> None:
    worker = Worker(Settings(seconds=30 if target is serve_and_die else 0.5), target)
    try:
        assert why in str(worker.audit("opengdn.reference"))
    finally:
        worker.end()


def test_the_page_is_that_of_the_record() -> None:
    assert (ROOT / "docs" / "audit.md").read_text(encoding="utf-8") == markdown(recorded())


def test_the_record_has_the_subjects_of_the_table() -> None:
    found = recorded()
    assert [x["name"] for x in found["subjects"]] == sorted(NAMES)
    assert as_expected(found)
    for one in found["subjects"]:
        known = subject(one["name"])
        assert (one["version"], one["home"], one["called"]) == (known.library.pinned, known.home, known.called)
        assert one["finding"] == (known.expected.says if one["verdict"] == "finding" else "")
        assert one["replay"] or one["verdict"] != "finding"


@pytest.mark.parametrize("name", ["fla-core.comba.recurrent", "opengdn.chunkwise", "accelerated-scan.reference"])
def test_a_replay_shows_the_finding(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runnable(name)
    [one] = [x for x in recorded()["subjects"] if x["name"] == name]
    exec(one["replay"], {})
    assert re.search("WRONG|not finite", capsys.readouterr().out)


def test_the_command_takes_a_record(tmp_path: Path) -> None:
    page = tmp_path / "audit.md"
    done = CliRunner().invoke(command, ["audit", "--record", str(RECORD), "--markdown", str(page)])
    assert done.exit_code == 0, done.output
    assert page.read_text(encoding="utf-8") == markdown(recorded())
    assert "0 unexpected" in done.output
    assert "fla-core.comba.recurrent: It decays the state before it predicts" in done.output


def test_the_command_fails_where_something_is_unexpected(tmp_path: Path) -> None:
    changed = recorded()
    changed["subjects"][0] |= {"verdict": "not run", "expected": False, "why": "it isn't installed", "checks": []}
    (tmp_path / "record.json").write_text(json.dumps(changed))
    done = CliRunner().invoke(command, ["audit", "--record", str(tmp_path / "record.json")])
    assert done.exit_code == 1
    assert "it isn't installed" in done.output
    assert "pip install 'attnproof[audit]'" in done.output


def test_an_unknown_name_lists_the_known_ones() -> None:
    done = CliRunner().invoke(command, ["audit", "fla-core.combo"])
    assert done.exit_code == 2
    assert "fla-core.comba.recurrent" in done.output
