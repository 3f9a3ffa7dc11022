"""What pytest loads of attnproof in every suite where it is installed: options, a marker, a fixture.

It must cost nothing where it isn't used. It is a package of its own since importing anything of `attnproof` checks
that no other package is named `gpu`, `numerics` or `derivations`: a suite that has one of its own and doesn't use
attnproof is none of our business. Everything else is imported by the first test that holds a kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any

import pytest

MARKER = "attnproof"
SETTINGS = {
    "effort": "how much is tried with a kernel, as for `attnproof check`",
    "seed": "where inputs are drawn from",
    "device": "where the arrays lie, such as cuda",
}
"""What a suite, or a run of it, may choose for all kernels: --attnproof-effort, or attnproof_effort in the ini file."""
DESCRIPTION = (
    f"{MARKER}(derivation, layout=..., dtype=..., **options): the test returns a kernel, which is held against the "
    "statement of a derivation. Options are those of attnproof.check_kernel; a list of values makes a test of each."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The settings, for the command line and for the ini file."""
    group = parser.getgroup(MARKER, "attnproof: kernels held against statements")
    for name, text in SETTINGS.items():
        group.addoption(f"--{MARKER}-{name}", metavar=name.upper(), help=text)
        parser.addini(f"{MARKER}_{name}", text, default=None)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, and refuses a seed that is none."""
    config.addinivalue_line("markers", DESCRIPTION)
    chosen(config)


def pytest_report_header(config: pytest.Config) -> str:
    """That it is there, and what was chosen."""
    settings = ", ".join(f"{name}={value}" for name, value in chosen(config).items())
    return f"attnproof: fixture check_kernel, marker attnproof{f' ({settings})' if settings else ''}"


def chosen(config: pytest.Config) -> dict[str, Any]:
    """The settings that were given; the command line goes before the ini file.

    Raises:
        UsageError: a seed is no number from 0 on.
    """
    found = {name: config.getoption(f"{MARKER}_{name}") for name in SETTINGS}
    given = {name: config.getini(f"{MARKER}_{name}") if value is None else value for name, value in found.items()}
    seed = str(given["seed"] or 0)
    if not seed.isdecimal():
        raise pytest.UsageError(f"{MARKER}_seed is a number from 0 on, and not {seed}")
    return {name: int(seed) if name == "seed" else value for name, value in given.items() if value not in (None, "")}


@pytest.fixture
def check_kernel(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`attnproof.check_kernel` with the settings of the run; a kernel that isn't right fails the test with the report.

    def test_kernel(check_kernel):
        check_kernel(my_kernel, "gated_deltanet", layout="fla", dtype="bfloat16")
    """

    def check(kernel: Callable[..., Any], derivation: str, *arguments: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        from attnproof.pytest_plugin import held

        return held(request.node, kernel, derivation, *arguments, **{**chosen(request.config), **options})

    return check


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of each value, where the marker has a list of them."""
    marker = _marker(metafunc.definition)
    for name, values in marker.kwargs.items() if marker else ():
        if isinstance(values, list):
            metafunc.fixturenames.append(_parameter(name))
            metafunc.parametrize(_parameter(name), values, ids=list(map(str, values)))


def _marker(item: pytest.Item) -> pytest.Mark | None:
    """The marker of a test, its own or that of its class or module."""
    if len([x for x in item.own_markers if x.name == MARKER]) > 1:
        pytest.fail(f"{item.name} is marked {MARKER} twice: write a test for each", pytrace=False)
    marker = item.get_closest_marker(MARKER)
    if marker is not None and not (marker.args and isinstance(marker.args[0], str)):
        pytest.fail(f"{item.name}: the marker names a derivation, {MARKER}('gated_deltanet', ...)", pytrace=False)
    return marker


def _parameter(name: str) -> str:
    return f"{MARKER}_{name}"


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Holds what a marked test returns against the statement."""
    marker = _marker(pyfuncitem)
    if marker is None:
        return (yield)
    function = pyfuncitem.obj
    pyfuncitem.obj = _holding(pyfuncitem, function, marker)
    try:
        return (yield)
    finally:
        pyfuncitem.obj = function


def _holding(item: pytest.Function, function: Callable[..., Any], marker: pytest.Mark) -> Callable[..., None]:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    options = {name: params.get(_parameter(name), value) for name, value in marker.kwargs.items()}

    @functools.wraps(function)
    def test(**arguments: Any) -> None:
        __tracebackhide__ = True
        kernel = function(**arguments)
        from attnproof.pytest_plugin import held_or_failed

        held_or_failed(item, kernel, *marker.args, **{**chosen(item.config), **options})

    return test


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many kernels were held against a statement, and what couldn't be tried with them."""
    reports = [x for kind in ("passed", "failed") for x in terminalreporter.getreports(kind)]
    records = [(x.nodeid, value) for x in reports for name, value in _properties(x) if name == MARKER]
    if records:
        from attnproof.pytest_plugin import summary

        terminalreporter.section(MARKER)
        for line in summary(records):
            terminalreporter.write_line(line)


def _properties(report: Any) -> list[tuple[str, Any]]:
    return report.user_properties if getattr(report, "when", "") == "call" else []
