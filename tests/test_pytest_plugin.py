"""The pytest plugin: in a suite that uses it a kernel fails with the report; in any other it is hardly there."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from attnproof import load_catalogue
from attnproof.oracle import judging

pytest_plugins = ["pytester"]
# what is loaded before a suite runs in this process is kept afterwards, and NumPy can't be loaded a second time
assert load_catalogue()
assert judging.EFFORTS
ROOT = Path(__file__).parent.parent
Result = pytest.RunResult
Run = Callable[..., Result]

KERNELS = """
import numpy as np
from attnproof import Case

def attention(q, k, v):
    scores = np.tril(np.einsum("bthk,bshk->bhts", *(np.repeat(x, v.shape[2] // x.shape[2], 2) for x in (q, k))))
    return np.einsum("bhts,bshv->bthv", scores, v)

def zeros(q, k, v):
    return 0 * v

LAYOUT = {"q": "b t h k", "k": "b t h k", "v": "b t g v", "returns": {"O": "b t g v"}}
OPTIONS = {"layout": LAYOUT, "library": "numpy", "chunk_size": 4, "case": Case(3, with_state=False)}
"""
"""Kernels for a suite; one input is enough, since what is tried with a kernel isn't the plugin's."""
HEAD = "import pytest\nfrom kernels import *\nlinear = pytest.mark.attnproof('linear_attention', **OPTIONS)\n"


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Runs a suite with the plugin, as it is where attnproof is installed."""
    pytester.syspathinsert()
    pytester.makepyfile(kernels=KERNELS)

    def runs(suite: str, *arguments: str) -> Result:
        pytester.makepyfile(test_suite=HEAD + suite)
        options = ("-p", "attnproof_pytest", "-p", "no:cacheprovider", "--attnproof-effort=quick")
        return pytester.runpytest_inprocess(*options, *arguments)

    return runs


def test_a_marked_test_returns_its_kernel(run: Run) -> None:
    result = run("@linear\ndef test_right():\n    return attention\n@linear\ndef test_wrong():\n    return zeros\n")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "attnproof: fixture check_kernel, marker attnproof (effort=quick)",
            "*_ test_wrong _*",
            "zeros doesn't compute *",
            "  the output is zero",
            "  smallest input: n = 1, *",
            "  this input: WRONG, *",
            "  again: attnproof.check_kernel(*",
            "2 kernels held against statements: 1 right, 1 not",
        ]
    )
    failure = result.stdout.str().split("= FAILURES =")[1].split("\n==")[0]
    assert "Traceback" not in failure
    assert ".py" not in failure


def test_the_fixture_shows_the_line_that_called_it(run: Run) -> None:
    suite = """
    def test_both(check_kernel):
        assert check_kernel(attention, "linear_attention", **OPTIONS).ok
        check_kernel(zeros, "linear_attention", **OPTIONS)
    """
    result = run("if True:" + suite)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([">*check_kernel(zeros*", "E*zeros doesn't compute*", "E*smallest input*"])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")
    result.stdout.no_fnmatch_line("*judging.py*")


def test_a_list_makes_a_test_of_each_value(run: Run) -> None:
    suite = """
@pytest.mark.attnproof("linear_attention", **{**OPTIONS, "dtype": ["float64", "float32"], "chunk_size": [4]})
@pytest.mark.parametrize("wrong", [False, True])
def test_kernel(wrong):
    return zeros if wrong else attention
"""
    result = run(suite, "-v")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*test_kernel?4-float64-False? PASSED*", "*test_kernel?4-float32-True? FAILED*"])
    result.stdout.fnmatch_lines(["4 kernels held *: 2 right, 2 not"])


def test_a_class_may_be_marked_and_fixtures_are_given(run: Run) -> None:
    suite = """
@pytest.fixture
def wrong():
    return zeros
@linear
class TestKernels:
    def test_right(self):
        return attention
    def test_wrong(self, wrong):
        return wrong
"""
    run(suite).assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ("@linear\ndef test_it():\n    pass", "*returns the kernel, and not None*"),
        ("@pytest.mark.attnproof\ndef test_it():\n    return attention", "*the marker names a derivation*"),
        ("@linear\n@linear\ndef test_it():\n    return attention", "*is marked attnproof twice*"),
        ("@pytest.mark.attnproof('gla', layout='flax')\ndef test_it():\n    return attention", "*no layout is named*"),
        ("@pytest.mark.attnproof('gla')\ndef test_it():\n    return attention", "WrongConvention: *needs log_gate*"),
        ("@pytest.mark.attnproof('gla', effort='slow')\ndef test_it():\n    return attention", "*no effort is named*"),
        ("@pytest.mark.attnproof('gla', dtipe=1)\ndef test_it():\n    return attention", "TypeError: *'dtipe'*"),
        ("def test_it(check_kernel):\n    check_kernel(attention, 'gla', 'flax')", "E *WrongConvention: no layout is*"),
    ],
)
def test_a_wrong_use_is_a_failure_that_says_what_to_change(suite: str, said: str, run: Run) -> None:
    result = run(suite)
    assert result.ret != 0
    result.stdout.fnmatch_lines([said])
    for inside in ("*During handling*", "*conventions.py*", "*pytest_plugin.py*"):
        result.stdout.no_fnmatch_line(inside)


STUBS = """
import sys, types
class Report:
    def __init__(self, kernel): self.kernel = kernel.__name__
    ok = property(lambda self: self.kernel == "attention")
    def __str__(self): return f"{self.kernel} is wrong"
    def as_json(self): return {"kernel": self.kernel, "ok": self.ok, "worst": float("inf"), "checks": CHECKS}
CHECKS = [{"check": "split", "verdict": "skipped", "message": "no state {}"},
    {"check": "keys", "verdict": "vacuous", "message": ""}]
STUBS = {
    "judging": {"check_kernel": lambda kernel, derivation, **options: Report(kernel)},
    "checks": {"EFFORTS": ["quick"]},
    "conventions": {"WrongConvention": ValueError},
}
for name, values in STUBS.items():
    sys.modules[f"attnproof.oracle.{name}"] = types.ModuleType(name)
    vars(sys.modules[f"attnproof.oracle.{name}"]).update(values)
"""
"""An oracle that answers at once: what becomes of the answer is the same."""


def test_the_record_is_in_the_junit_file_and_comes_back_from_other_processes(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(STUBS)
    marked = (
        "def attention(): pass\ndef zeros(): pass\n@pytest.mark.attnproof('gla')\ndef test_right(): return attention\n"
    )
    pytester.makepyfile(f"import pytest\n{marked}\ndef test_wrong(check_kernel): check_kernel(zeros, 'gla')")
    options = ["--attnproof-effort=quick", "--attnproof-seed=3", "-p", "no:hypothesispytest", "-p", "no:anyio"]
    result = pytester.runpytest_subprocess("-p", "attnproof_pytest", "-n", "1", "--junitxml=r.xml", *options)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "2 kernels held against statements: 1 right, 1 not",
            "split skipped for 2 kernels, *::test_right first: no state {}",
            "keys vacuous for 2 kernels, *::test_right first: no input was sharp enough to count",
        ]
    )
    found = ElementTree.parse(pytester.path / "r.xml").iter("property")
    records = [json.loads(x.attrib["value"]) for x in found if x.attrib["name"] == "attnproof"]
    expected = {"effort": "quick", "seed": 3, "worst": "Infinity"}
    assert [x | expected | {"checks": 0} for x in records] == [
        {"kernel": kernel, "ok": kernel == "attention", "checks": 0} | expected for kernel in ("attention", "zeros")
    ]


def test_a_kernel_with_which_nothing_could_be_tried_fails(run: Run) -> None:
    suite = """
from attnproof.oracle import judging
from attnproof.oracle.findings import Finding
@pytest.mark.attnproof("linear_attention", **{**OPTIONS, "case": None})
def test_nothing(monkeypatch):
    checks = (lambda subject, case: Finding("gradients", "skipped", message="none"),)
    monkeypatch.setitem(judging.EFFORTS, "quick", checks)
    return attention
"""
    result = run(suite)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["gradients skipped for 1 kernel, test_suite.py::test_nothing first: none"])


def test_settings_come_from_the_ini_file_and_the_command_line_goes_first(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nattnproof_effort = quick\nattnproof_seed = 7\n")
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_inprocess("-p", "attnproof_pytest", "--attnproof-seed=8", "--attnproof-device=cpu")
    result.stdout.fnmatch_lines(["attnproof: * (effort=quick, seed=8, device=cpu)"])
    for seed in ("x", "-1"):
        pytester.makeini(f"[pytest]\nattnproof_seed = {seed}\n")
        result = pytester.runpytest_inprocess("-p", "attnproof_pytest")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: attnproof_seed is a number from 0 on, and not {seed}"])


HEAVY = ("attnproof", "derivations", "gpu", "hypothesis", "numerics", "numpy", "sympy", "torch")


def test_a_suite_without_it_loads_nothing_and_may_have_packages_of_the_same_names(pytester: pytest.Pytester) -> None:
    pytester.mkpydir("gpu")
    pytester.makepyfile(test_other="from gpu import __file__ as found\ndef test_it(): assert 'test_a_suite' in found")
    pytester.makeconftest(
        f"import sys\ndef pytest_unconfigure(): print('loaded:', sorted(set(sys.modules) & set({HEAVY})))"
    )
    plain = ("-p", "attnproof_pytest", "-p", "no:hypothesispytest", "-p", "no:anyio", "--strict-markers")
    result = pytester.runpytest_subprocess(*plain)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["loaded: ['gpu']"])
    pytester.makepyfile(test_other="def test_it(check_kernel): check_kernel(print, 'gla')")
    result = pytester.runpytest_subprocess(*plain)
    result.stdout.fnmatch_lines(["E*ImportError: attnproof needs its own package 'gpu' at *"])


def test_it_is_registered_with_pytest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"attnproof_pytest": "attnproof_pytest"}
    [plugin] = project["entry-points"]["pytest11"].values()
    assert import_module(plugin).check_kernel


def test_the_marker_is_known(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("-p", "attnproof_pytest", "--markers", "--fixtures")
    result.stdout.fnmatch_lines(["@pytest.mark.attnproof(derivation, layout=..., dtype=..., *"])
