"""The pytest plugin: in a suite that uses it a kernel fails with the report; in any other it is hardly there."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from attnproof.oracle import judging

pytest_plugins = ["pytester"]
assert judging.EFFORTS  # loaded here already: suites that run in this process couldn't load NumPy a second time
ROOT = Path(__file__).parent.parent
Result = pytest.RunResult
Run = Callable[..., Result]

KERNELS = """
import numpy as np

def attention(q, k, v):
    scores = np.tril(np.einsum("bthk,bshk->bhts", *(np.repeat(x, v.shape[2] // x.shape[2], 2) for x in (q, k))))
    return np.einsum("bhts,bshv->bthv", scores, v)

def looks_ahead(q, k, v):
    return attention(q, k, v) + 1e-3 * v[:, ::-1]

LAYOUT = {"q": "b t h k", "k": "b t h k", "v": "b t g v", "returns": {"O": "b t g v"}}
OPTIONS = {"layout": LAYOUT, "library": "numpy", "chunk_size": 4}
"""
HEAD = "import pytest\nfrom kernels import *\nlinear = pytest.mark.attnproof('linear_attention', **OPTIONS)\n"


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Runs a suite with the plugin, as it is where attnproof is installed."""
    pytester.syspathinsert()
    pytester.makepyfile(kernels=KERNELS)

    def runs(suite: str, *arguments: str, effort: str = "quick", **options: bool) -> Result:
        pytester.makepyfile(test_suite=HEAD + suite)
        run_it = pytester.runpytest_subprocess if options.get("apart") else pytester.runpytest_inprocess
        found: Result = run_it(
            "-p", "attnproof_pytest", "-p", "no:cacheprovider", f"--attnproof-effort={effort}", *arguments
        )
        return found

    return runs


def test_a_marked_test_returns_its_kernel(run: Run) -> None:
    result = run(
        "@linear\ndef test_right():\n    return attention\n@linear\ndef test_wrong():\n    return looks_ahead\n"
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "attnproof: fixture check_kernel, marker attnproof (effort=quick)",
            "*_ test_wrong _*",
            "looks_ahead doesn't compute *",
            "  smallest input: n = 1, *",
            "  lengths: WRONG, *",
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
        check_kernel(looks_ahead, "linear_attention", **OPTIONS)
    """
    result = run("if True:" + suite)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([">*check_kernel(looks_ahead*", "E*looks_ahead doesn't compute*", "E*smallest input*"])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")
    result.stdout.no_fnmatch_line("*judging.py*")


def test_a_list_makes_a_test_of_each_value(run: Run) -> None:
    suite = """
@pytest.mark.attnproof("linear_attention", **{**OPTIONS, "dtype": ["float64", "float32"], "chunk_size": [4, 6]})
@pytest.mark.parametrize("wrong", [False, True])
def test_kernel(wrong):
    return looks_ahead if wrong else attention
"""
    result = run(suite, "-v")
    result.assert_outcomes(passed=4, failed=4)
    result.stdout.fnmatch_lines(["*test_kernel?4-float64-False? PASSED*", "*test_kernel?6-float32-True? FAILED*"])
    result.stdout.fnmatch_lines(["8 kernels held *: 4 right, 4 not", "gradients skipped for 8 kernels, * first: *"])


def test_a_class_may_be_marked_and_fixtures_are_given(run: Run) -> None:
    suite = """
@pytest.fixture
def wrong():
    return looks_ahead
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
        ("@pytest.mark.attnproof('gla', dtipe=1)\ndef test_it():\n    return attention", "TypeError: *'dtipe'*"),
        ("def test_it(check_kernel):\n    check_kernel(attention, 'gla', 'flax')", "E *WrongConvention: no layout is*"),
    ],
)
def test_a_wrong_use_is_a_failure_that_says_what_to_change(suite: str, said: str, run: Run) -> None:
    result = run(suite)
    assert result.ret != 0
    result.stdout.fnmatch_lines([said])
    result.stdout.no_fnmatch_line("*During handling*")


def test_what_could_not_be_tried_is_listed_and_nothing_at_all_is_no_pass(run: Run) -> None:
    suite = """
from attnproof.oracle import judging
from attnproof.oracle.findings import Finding
@linear
def test_in_part():
    return attention
@linear
def test_nothing(monkeypatch):
    checks = (lambda subject, case: Finding("gradients", "skipped", message="none"),)
    monkeypatch.setitem(judging.EFFORTS, "quick", checks)
    return attention
"""
    result = run(suite)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["gradients skipped for 1 kernel, test_suite.py::test_in_part first: *", "gradients skipped * first: none"]
    )


def test_the_record_is_in_the_junit_file_and_comes_back_from_other_processes(
    run: Run, pytester: pytest.Pytester
) -> None:
    suite = "@linear\ndef test_right():\n    return attention\n@linear\ndef test_wrong():\n    return looks_ahead\n"
    result = run(suite, "-p", "xdist", "-n", "1", "--junitxml=r.xml", "--attnproof-seed=3", apart=True)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["2 kernels held against statements: 1 right, 1 not"])
    found = ElementTree.parse(pytester.path / "r.xml").iter("property")
    records = [json.loads(x.attrib["value"]) for x in found if x.attrib["name"] == "attnproof"]
    assert {(x["kernel"], x["ok"], x["seed"], x["effort"]) for x in records} == {
        ("attention", True, 3, "quick"),
        ("looks_ahead", False, 3, "quick"),
    }


def test_settings_come_from_the_ini_file_and_the_command_line_goes_first(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nattnproof_effort = quick\nattnproof_seed = 7\n")
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_inprocess("-p", "attnproof_pytest", "--attnproof-seed=8", "--attnproof-device=cpu")
    result.stdout.fnmatch_lines(["attnproof: * (effort=quick, seed=8, device=cpu)"])
    for ini, said in (
        ("seed = x", "attnproof_seed: invalid literal*"),
        ("effort = slow", "no effort is named 'slow'*"),
    ):
        pytester.makeini(f"[pytest]\nattnproof_{ini}\n")
        assert pytester.runpytest_inprocess("-p", "attnproof_pytest").ret == pytest.ExitCode.USAGE_ERROR
        result = pytester.runpytest_inprocess("-p", "attnproof_pytest")
        result.stderr.fnmatch_lines([f"ERROR: {said}"])


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
