"""The how-to for kernel authors: its kernels are judged as it says, its commands exist and print what it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import torch
import yaml
from click.testing import CliRunner

import attnproof
from attnproof.commands import attnproof as group

pytest_plugins = ["pytester"]
# what is loaded before a suite runs in this process is kept afterwards
assert attnproof.load_catalogue()
assert attnproof.check_kernel
ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "kernel_authors.md").read_text(encoding="utf-8")
BLOCK = r"<!-- {}: (.+?) -->\n```\w*\n(.*?)```"
FILES = dict(re.findall(BLOCK.format("file"), TEXT, re.DOTALL))
RUNS = dict(re.findall(BLOCK.format("runs"), TEXT, re.DOTALL))
OUTPUTS = dict(re.findall(BLOCK.format("output"), TEXT, re.DOTALL))
[WORKFLOW] = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's files, on Python's path."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_kernels", raising=False)
    return tmp_path


def check_shown(command: str, printed: str) -> None:
    """Each line that the page shows is printed, in this order; numbers with a point differ from machine to machine."""
    out = iter(lines_of(printed))
    for line in lines_of(OUTPUTS[command]):
        assert line in out, f"{line!r} isn't printed, or not there:\n{printed}"


def lines_of(text: str) -> list[str]:
    lines = (re.sub(r"[\d.]+e[-+]\d+|\d+\.\d+", "#", " ".join(line.split())) for line in text.splitlines())
    return [line for line in lines if line]


def test_all_code_of_the_page_is_run() -> None:
    assert TEXT.count("```python") == len(FILES) + len(RUNS)
    assert len(OUTPUTS) == 4


@pytest.mark.parametrize("command", [x for x in OUTPUTS if x.startswith("attnproof") and "triton" not in x])
def test_a_command_prints_what_is_shown(command: str, files: Path) -> None:
    done = CliRunner().invoke(group, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    check_shown(command, done.output)


def test_the_suite_prints_what_is_shown(files: Path, pytester: pytest.Pytester) -> None:
    [command] = [x for x in OUTPUTS if x.startswith("pytest")]
    for name in FILES:
        (pytester.path / name).write_text(FILES[name], encoding="utf-8")
    found = pytester.runpytest_inprocess("-p", "attnproof_pytest", *shlex.split(command)[1:])
    found.assert_outcomes(passed=2, failed=1)
    check_shown(command, found.stdout.str())


needs_kernels = pytest.mark.skipif(
    not (find_spec("triton") and find_spec("fla")), reason="Triton and fla-core aren't installed: attnproof[audit]"
)


@needs_kernels
def test_a_triton_kernel_is_judged_by_a_command() -> None:
    [command] = [x for x in OUTPUTS if "triton" in x]
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_shown(command, done.stdout)


@needs_kernels
def test_a_triton_kernel_is_judged_from_python() -> None:
    assert subprocess.run([sys.executable, "-c", RUNS["triton"]], check=False).returncode == 0


def launch(q: Any, k: Any, v: Any, g: Any, beta: Any, initial_state: Any, output: Any, state: Any) -> None:
    """A binding that writes into what it is given."""
    from my_kernels import gated_delta_rule  # the page's own

    with torch.no_grad():
        found = gated_delta_rule(q, k, v, g, beta, 1.0, initial_state, True)
    output.copy_(found[0])
    state.copy_(found[1])


@pytest.mark.parametrize("name", [*(x for x in RUNS if x != "triton"), "check_it.py"])
def test_its_kernels_are_right(name: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the reader's extension, on a CPU; at the effort that is quick."""
    extension = types.ModuleType("my_extension")
    monkeypatch.setattr(extension, "launch", launch, raising=False)
    monkeypatch.setitem(sys.modules, "my_extension", extension)
    reports: list[attnproof.KernelReport] = []
    real = attnproof.check_kernel

    def check(*arguments: Any, **options: Any) -> attnproof.KernelReport:
        quick = {"chunk_size": 8, **options, "effort": "quick", "device": "cpu"}
        one = attnproof.Case(7, chunk_size=4) if name == "jax" else None  # JAX compiles for each length
        reports.append(real(*arguments, **quick, case=one))
        return reports[-1]

    monkeypatch.setattr(attnproof, "check_kernel", check)
    exec({**FILES, **RUNS}[name], {"__name__": "page"})
    assert [x.ok for x in reports] == [True], str(reports)
    gradients = [x.verdict for x in reports[0].findings if x.check == "gradients"]
    assert gradients == {"cuda": ["skipped"], "jax": []}.get(name, ["holds"])


def test_the_workflow_is_one_and_its_commands_are_there() -> None:
    workflow = yaml.safe_load(WORKFLOW)
    assert workflow[True] == ["push", "pull_request"]  # YAML 1.1 reads `on` as true, and GitHub doesn't
    steps = workflow["jobs"]["check"]["steps"]
    commands = [shlex.split(step["run"]) for step in steps if "run" in step]
    assert [x[0] for x in commands] == ["pip", "pytest", "attnproof"]
    for command in commands:
        {"pip": check_pip, "pytest": check_pytest, "attnproof": check_attnproof}[command[0]](command[1:])


def check_pip(arguments: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert arguments[:2] == ["install", "attnproof[torch]"]
    assert "torch" in project["optional-dependencies"]


def check_pytest(arguments: list[str]) -> None:
    assert arguments == ["--attnproof-effort=quick", "--junitxml=kernels.xml", "test_kernels.py"]
    assert "pytest --attnproof-effort=quick test_kernels.py" in OUTPUTS  # and that is run above


def check_attnproof(arguments: list[str]) -> None:
    name, *options = arguments
    context = group.commands[name].make_context(name, [*options])
    assert context.params["kernel"] == "my_kernels:gated_delta_rule"
    assert context.params["isolate"]


@pytest.mark.parametrize("line", re.findall(r"^    (attnproof .+)$", TEXT, re.MULTILINE))
def test_a_command_that_is_shown_alone_is_there(line: str) -> None:
    name, *options = shlex.split(line)[1:]
    assert group.commands[name].make_context(name, options).params["seconds"] == 300


def test_an_option_that_is_not_there_would_be_found() -> None:
    with pytest.raises(click.NoSuchOption):
        check_attnproof(["check", "my_kernels:gated_delta_rule", "--as", "gla", "--isolated-run"])


@pytest.mark.parametrize("option", re.findall(r"`(--attnproof-\w+)`", TEXT))
def test_the_plugins_options_are_there(option: str, pytester: pytest.Pytester) -> None:
    assert pytester.parseconfig("-p", "attnproof_pytest", f"{option}=0").getoption(option) in ("0", 0)
