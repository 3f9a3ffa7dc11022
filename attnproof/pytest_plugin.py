"""A test's kernel held against a statement, for the pytest plugin: it fails with the report, and not with a traceback.

The hooks are in `attnproof_pytest`; this is loaded by the first test that holds a kernel. Each report is kept as a
JSON record in the test's user properties, so that it is in a JUnit file and comes back from other processes.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from attnproof.oracle.report import KernelReport

PROPERTY = "attnproof"


def held(item: pytest.Item, kernel: Callable[..., Any], *arguments: Any, **options: Any) -> KernelReport:
    """The report of a kernel that is right.

    Args:
        item: the test, which keeps the record.
        kernel: what is held against a statement.
        arguments: of `attnproof.check_kernel`, as are the options.

    Raises:
        AssertionError: it isn't right, or nothing was tried that could fail; the message is the report.
        WrongConvention: the layout doesn't fit the kernel's signature.
        TypeError, ValueError: `attnproof.check_kernel` has no such option, or no such effort.
    """
    __tracebackhide__ = True
    report = _judged(item, kernel, *arguments, **options)
    if isinstance(report, Exception):
        raise report.with_traceback(None)
    if not report.ok:
        raise AssertionError(str(report))
    return report


def held_or_failed(item: pytest.Item, kernel: Any, *arguments: Any, **options: Any) -> None:
    """The same for a marked test, of which no line has gone wrong: it fails with the report alone."""
    __tracebackhide__ = True
    if not callable(kernel):
        pytest.fail(f"a test that is marked attnproof returns the kernel, and not {kernel!r}", pytrace=False)
    report = _judged(item, kernel, *arguments, **options)
    if isinstance(report, Exception):
        pytest.fail(f"{type(report).__name__}: {report}", pytrace=False)
    if not report.ok:
        pytest.fail(str(report), pytrace=False)


def _judged(item: pytest.Item, kernel: Callable[..., Any], *arguments: Any, **options: Any) -> KernelReport | Exception:
    """The report, or what is wrong with the call. An error of any other kind is our own, and keeps its traceback."""
    from attnproof.oracle.checks import EFFORTS
    from attnproof.oracle.conventions import WrongConvention
    from attnproof.oracle.judging import check_kernel

    try:
        inspect.signature(check_kernel).bind(kernel, *arguments, **options)
    except TypeError as error:
        return error
    if options.get("effort", "usual") not in EFFORTS:
        return ValueError(f"no effort is named {options['effort']!r}; there are: {', '.join(EFFORTS)}")
    try:
        report = check_kernel(kernel, *arguments, **options)
    except WrongConvention as error:
        return error
    settings = {key: value for key, value in options.items() if isinstance(value, str | int | float)}
    item.user_properties.append((PROPERTY, _written(settings | report.as_json())))
    return report


def _written(record: Mapping[str, Any]) -> str:
    """One line of JSON; what JSON has no number for, an infinite error, becomes a word."""
    return json.dumps(json.loads(json.dumps(record, default=str), parse_constant=str), ensure_ascii=False)


def summary(records: Sequence[tuple[str, str]]) -> Iterator[str]:
    """How many kernels were held, and what couldn't be tried. A check that was skipped is no pass.

    Args:
        records: the id of each test, and the record that it has kept.
    """
    read = [(test, json.loads(record)) for test, record in records]
    right = sum(record["ok"] for _, record in read)
    yield f"{_counted(len(read))} held against statements: {right} right, {len(read) - right} not"
    untried: dict[tuple[str, str], list[str]] = {}
    for test, record in read:
        for x in record["checks"]:
            if x["verdict"] in ("skipped", "vacuous"):
                reason = x["message"] or "no input was sharp enough to count"
                untried.setdefault((f"{x['check']} {x['verdict']}", reason), []).append(test)
    for (what, reason), tests in untried.items():
        yield f"{what} for {_counted(len(tests))}, {tests[0]} first: {reason}"


def _counted(kernels: int) -> str:
    return f"{kernels} kernel{'s' * (kernels != 1)}"
