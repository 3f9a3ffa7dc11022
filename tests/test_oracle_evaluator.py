"""Kernels that cheat or break: each gets the verdict that it deserves, in the check that is there for it.

Kernels that hang, crash or end the process are in test_oracle_isolation.py.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import attnproof

Array = np.ndarray
Values = tuple[Array, Array]
Kernel = Callable[..., Any]
CHUNK = 4


def right(q: Array, k: Array, v: Array, initial_state: Array | None = None) -> Values:
    """Linear attention in float32, on query and value heads that are as many or grouped."""
    q, k = (np.repeat(x, v.shape[2] // x.shape[2], axis=2) for x in (q, k))
    written = np.einsum("bthk,bthv->bthkv", k, v).cumsum(1, dtype=v.dtype)
    states = written if initial_state is None else written + initial_state[:, None]
    last = states[:, -1] if v.shape[1] else np.array(initial_state)
    return np.einsum("bthk,bthkv->bthv", q, states), last.copy()


def judged(kernel: Kernel, effort: str = "usual") -> attnproof.KernelReport:
    return attnproof.check_kernel(
        kernel, "linear_attention", layout="fla", library="numpy", chunk_size=CHUNK, effort=effort
    )


def changed(change: Callable[[Values, dict[str, Array]], Any]) -> Kernel:
    """The right kernel, with something done to what it returns."""

    def kernel(q: Array, k: Array, v: Array, initial_state: Array | None = None) -> Any:
        given = {"q": q, "k": k, "v": v}
        return change(right(q, k, v, initial_state), given)

    return kernel


def with_a_cache() -> Kernel:
    """What was returned for inputs of this shape before, whatever the inputs are now."""
    known: dict[Any, Values] = {}

    def kernel(q: Array, k: Array, v: Array, initial_state: Array | None = None) -> Values:
        shape = (q.shape, v.shape, initial_state is None)
        found = known.setdefault(shape, right(q, k, v, initial_state))
        return found[0].copy(), found[1].copy()

    return kernel


def with_one_buffer() -> Kernel:
    """The right values, in a buffer that the next call writes into."""
    buffers: dict[Any, Array] = {}

    def kernel(q: Array, k: Array, v: Array, initial_state: Array | None = None) -> Values:
        output, last = right(q, k, v, initial_state)
        buffer = buffers.setdefault(output.shape, np.zeros_like(output))
        buffer[...] = output
        return buffer, last

    return kernel


def with_a_counter(every: int) -> Kernel:
    """Wrong in each n-th call."""
    calls = iter(range(1, 10**9))
    return changed(lambda values, given: (values[0] * (1 + (next(calls) % every == 0)), values[1]))


def at_random() -> Kernel:
    rng = random.Random(0)
    return changed(lambda values, given: (values[0] * (1 + 1e-3 * rng.random()), values[1]))


def from_unwritten_memory(q: Array, k: Array, v: Array, initial_state: Array | None = None) -> Values:
    output, last = right(q, k, v, initial_state)
    found = np.empty_like(output)
    found[:, :-1] = output[:, :-1]
    return found, last


def overwritten(name: str) -> Kernel:
    def change(values: Values, given: dict[str, Array]) -> Values:
        given[name][...] = 0
        return values

    return changed(change)


def raising(error: BaseException) -> Kernel:
    def change(values: Values, given: dict[str, Array]) -> Values:
        raise error

    return changed(change)


BROKEN: dict[str, tuple[Kernel, str, str]] = {
    "zeros": (changed(lambda x, _: (0 * x[0], 0 * x[1])), "lengths", "is off by"),
    "a cached output": (with_a_cache(), "memory", "called again"),
    "one buffer for all outputs": (with_one_buffer(), "memory", "a later call changes the O that an earlier one"),
    "unwritten memory": (from_unwritten_memory, "memory", "O isn't finite"),
    "wrong now and then": (with_a_counter(7), "drawn inputs", ""),
    "random": (at_random(), "repeated calls", "O is another one in a second call"),
    "NaN": (changed(lambda x, _: (x[0] * np.nan, x[1])), "lengths", "O isn't finite"),
    "NaN in the last state": (changed(lambda x, _: (x[0], x[1] * np.nan)), "lengths", "S isn't finite"),
    "infinity": (changed(lambda x, _: (x[0] + np.inf, x[1])), "lengths", "O isn't finite"),
    "wrong dtype": (changed(lambda x, _: (x[0].astype(np.float16), x[1])), "lengths", "O comes back in float16"),
    "integers": (changed(lambda x, _: (x[0].astype(np.int64), x[1])), "lengths", "O comes back in int64"),
    "wrong shape": (changed(lambda x, _: (x[0].swapaxes(1, 2), x[1])), "lengths", "O has the shape"),
    "too short": (changed(lambda x, _: (x[0][:, 1:], x[1])), "lengths", "O has the shape"),
    "no dimensions": (changed(lambda x, _: (np.float32(1), x[1])), "lengths", "O has the shape ()"),
    "no last state": (changed(lambda x, _: x[0]), "lengths", "1 value(s) where O, S were expected"),
    "None": (changed(lambda x, _: None), "lengths", "1 value(s) where O, S were expected"),
    "None for a state": (changed(lambda x, _: (x[0], None)), "lengths", "it returned NoneType for S"),
    "lists": (changed(lambda x, _: (x[0].tolist(), x[1])), "lengths", "it returned list for O"),
    "an input in the output's place": (changed(lambda x, given: (given["v"], x[1])), "lengths", ""),
    "overwritten q": (overwritten("q"), "lengths", "it has written into q"),
    "overwritten v": (overwritten("v"), "lengths", "it has written into v"),
    "an exception": (raising(RuntimeError("no such kernel")), "lengths", "it raised RuntimeError: no such kernel"),
    "SystemExit": (raising(SystemExit(0)), "lengths", "it raised SystemExit: 0"),
    "out of memory": (raising(MemoryError("too large")), "lengths", "it raised MemoryError: too large"),
    "a recursion without end": (raising(RecursionError("too deep")), "lengths", "it raised RecursionError"),
}
"""The kernel, a check that has to refute it, and what that has to say."""


@pytest.mark.parametrize("name", BROKEN)
def test_each_gets_its_verdict(name: str) -> None:
    kernel, check, said = BROKEN[name]
    report = judged(kernel, "quick" if check in ("lengths", "memory") else "usual")
    messages = {x.check: x.message for x in report.findings if x.verdict == "refuted"}
    assert not report.ok
    assert check in messages, str(report)
    assert said in messages[check]
    with pytest.raises(AssertionError, match="doesn't compute Linear attention"):
        report.raise_if_wrong()


@pytest.mark.parametrize("name", ["wrong shape", "too short", "no last state", "None", "lists"])
def test_no_check_is_broken_by_what_a_kernel_returns(name: str) -> None:
    """Each comes to a verdict of its own: none lets an exception out, and none holds but what needs no output."""
    report = judged(BROKEN[name][0])
    holds = {x.check for x in report.findings if x.verdict == "holds"}
    assert holds <= {"zero tokens"}


def test_the_right_kernel_is_right() -> None:
    report = judged(right)
    assert report.ok, str(report)


def test_an_output_of_zeros_is_named() -> None:
    assert judged(changed(lambda x, _: (0 * x[0], x[1])), "quick").diagnosis == "the output is zero"


def test_an_interrupt_is_no_verdict() -> None:
    with pytest.raises(KeyboardInterrupt):
        judged(raising(KeyboardInterrupt()))


def test_megabytes_that_a_kernel_prints_are_not_in_the_report(capfd: pytest.CaptureFixture[str]) -> None:
    def prints(q: Array, k: Array, v: Array, initial_state: Array | None = None) -> Values:
        sys.stdout.write("noise " * 20000)
        return right(q, k, v, initial_state)

    report = judged(prints, "quick")
    assert report.ok
    assert len(capfd.readouterr().out) > 10**6
    assert "noise" not in f"{report}{report.as_json()}"


def test_an_exception_with_megabytes_of_text_does_not_drown_the_report() -> None:
    report = judged(raising(RuntimeError("noise " * 10**6)), "quick")
    assert not report.ok
    assert len(str(report)) < 10**4
