"""Each check of the oracle finds the fault that it is there for, and the others of its effort don't have to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle_kernels import BLOCK
from oracle_kernels import gated_deltanet as of_fla
from torch import Tensor

import attnproof
from attnproof.implementation_cases import Case
from attnproof.oracle import calls, values
from attnproof.oracle.checks import EFFORTS
from attnproof.oracle.conventions import convention_of
from attnproof.oracle.coverage import coverage
from attnproof.oracle.exactness import exact
from attnproof.oracle.gradients import gradients
from attnproof.oracle.subject import Subject
from gpu.torch_kernels.gated_deltanet import chunkwise

Kernel = Callable[..., Any]
CASE = Case(2 * BLOCK + 3, chunk_size=BLOCK)
CHECKS = {
    "packed sequences": calls.packed,
    "memory": calls.memory,
    "repeated calls": calls.repeated,
    "causality": calls.causality,
    "zero tokens": calls.no_tokens,
    "scale": values.scale,
    "gradients": gradients,
    "exact": exact,
}


def judged(kernel: Kernel, **options: Any) -> attnproof.KernelReport:
    settings = {"layout": "attnproof", "chunk_size": BLOCK, **options}
    return attnproof.check_kernel(kernel, "gated_deltanet", **settings)


def refuted(report: attnproof.KernelReport) -> dict[str, str]:
    return {x.check: x.message for x in report.findings if x.verdict == "refuted"}


def changed(change: Callable[[Tensor, Tensor], tuple[Any, Any]]) -> Kernel:
    """The right kernel, with what it returns changed."""

    def kernel(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        log_gate: Tensor,
        beta: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Any:
        return change(*chunkwise(q, k, v, log_gate, beta, initial_state, cu_seqlens=cu_seqlens, chunk_size=BLOCK))

    return kernel


def test_a_right_kernel_passes_every_check_of_every_effort() -> None:
    kernel = changed(lambda output, state: (output, state))
    for effort in ("quick", "usual"):
        report = judged(kernel, effort=effort)
        assert report.ok, str(report)
        assert {x.verdict for x in report.findings} == {"holds"}
        assert len(report.findings) == len(EFFORTS[effort]) + 1


def offsets_ignored(
    q: Any, k: Any, v: Any, log_gate: Any, beta: Any, initial_state: Any = None, cu_seqlens: Any = None
):
    state = None if initial_state is None else initial_state[: q.shape[0]]
    output, last = chunkwise(q, k, v, log_gate, beta, state)
    sequences = q.shape[0] if cu_seqlens is None else len(cu_seqlens) - 1
    return output, last.expand(sequences, -1, -1, -1) if len(last) != sequences else last


def empty_sequence_loses_its_state(
    q: Any, k: Any, v: Any, log_gate: Any, beta: Any, initial_state: Any = None, cu_seqlens: Any = None
) -> Any:
    output, last = chunkwise(q, k, v, log_gate, beta, initial_state, cu_seqlens=cu_seqlens)
    if cu_seqlens is not None:
        last = last * (cu_seqlens.diff() > 0)[:, None, None, None]
    return output, last


class Cached:
    """Writes what it returns into memory that it keeps."""

    def __init__(self) -> None:
        self.buffers: dict[Any, Tensor] = {}

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, beta: Tensor, initial_state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        output, state = chunkwise(q, k, v, log_gate, beta, initial_state)
        buffer = self.buffers.setdefault(output.shape, torch.empty_like(output))
        with torch.no_grad():
            buffer.copy_(output)
        return (output if output.requires_grad else buffer), state


def answers_once(q: Any, k: Any, v: Any, log_gate: Any, beta: Any, initial_state: Any = None) -> Any:
    """Computes once for each shape, and returns that again."""
    own = (q.shape, v.shape, initial_state is None, q.requires_grad)
    if own not in answers_once.known:
        answers_once.known[own] = chunkwise(q, k, v, log_gate, beta, initial_state)
    return tuple(x.clone() for x in answers_once.known[own])


def unwritten_rows(output: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Adds a part that isn't written, times zero."""
    return output + 0 * torch.empty_like(output), state


def scale_on_everything(
    q: Any, k: Any, v: Any, log_gate: Any, beta: Any, scale: float = 1.0, initial_state: Any = None
) -> Any:
    output, state = chunkwise(q, k, v, log_gate, beta, initial_state)
    return output * scale, state * scale


def state_after_no_tokens(output: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    return output, state if output.shape[1] else 0 * state


def divides_by_beta(q: Any, k: Any, v: Any, log_gate: Any, beta: Any, initial_state: Any = None) -> Any:
    """Its gradient by beta is 0 times infinity at zero."""
    return chunkwise(q, k, v, log_gate, beta.log().exp(), initial_state)


class NeedsContiguous(torch.autograd.Function):
    """A backward pass that reads its cotangent's memory as if it were contiguous."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        flat = torch.frombuffer(bytearray(cotangent.untyped_storage().tolist()), dtype=cotangent.dtype)
        return flat.expand(cotangent.numel()).view(cotangent.shape).clone() if flat.numel() == 1 else cotangent * 0


def future_mean(output: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    return output + 1e-3 * output.mean(dim=1, keepdim=True), state


def contiguous_only(q: Any, k: Any, v: Any, log_gate: Any, beta: Any, initial_state: Any = None) -> Any:
    """Reads v's memory without its strides."""
    if not v.is_contiguous():
        v = v.as_strided(v.shape, torch.empty(v.shape).stride())
    return chunkwise(q, k, v, log_gate, beta, initial_state)


def counts_calls(q: Any, k: Any, v: Any, log_gate: Any, beta: Any, initial_state: Any = None) -> Any:
    counts_calls.calls += 1
    output, state = chunkwise(q, k, v, log_gate, beta, initial_state)
    return output * (1 + 1e-7 * (counts_calls.calls % 2)), state


FAULTS = {
    "offsets ignored": (offsets_ignored, "packed sequences", "packed sequences of 0, 9, 1"),
    "an empty sequence loses its state": (empty_sequence_loses_its_state, "packed sequences", "isn't the initial one"),
    "a buffer that is kept": (Cached(), "memory", "a later call changes the O"),
    "an answer that is kept": (answers_once, "memory", "called again"),
    "memory that isn't written": (changed(unwritten_rows), "memory", "isn't finite"),
    "the scale of the state": (scale_on_everything, "scale", "scale = 0.5: the final S"),
    "the state without tokens": (changed(state_after_no_tokens), "zero tokens", "isn't the initial one"),
    "a division by beta": (divides_by_beta, "gradients", "beta = 0"),
    "the future's mean": (changed(future_mean), "causality", "changes with the tokens from"),
    "strides ignored": (contiguous_only, "repeated calls", "that aren't contiguous"),
    "another answer": (counts_calls, "repeated calls", "is another one in a second call"),
    "wrong by one part in a thousand million": (
        changed(lambda output, state: (output * 1.000000001, state)),
        "exact",
        "modulo 2^31 - 1",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_by_its_check(fault: str) -> None:
    kernel, check, said = FAULTS[fault]
    answers_once.known, counts_calls.calls = {}, 0
    convention = convention_of(kernel, "gated_deltanet", constants={"scale": 1.0} if "scale" in fault else None)
    found = CHECKS[check](Subject(kernel, convention, "torch", "float32", "float32"), CASE)
    assert found.verdict == "refuted"
    assert said in found.message


def test_a_cotangent_that_is_expanded() -> None:
    kernel = changed(lambda output, state: (NeedsContiguous.apply(output), state))
    found = gradients(Subject(kernel, convention_of(kernel, "gated_deltanet"), "torch", "float32", "float32"), CASE)
    assert found.verdict == "refuted"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda output, state: (output.double(), state), "O comes back in float64, its inputs are float32"),
        (lambda output, state: (output.long(), state), "O comes back in int64"),
        (lambda output, state: (output, state.bfloat16()), "S comes back in bfloat16"),
        (lambda output, state: (output[:, 1:], state), "O has the shape"),
        (lambda output, state: (output, None), "it returned NoneType for S"),
        (lambda output, state: output, r"it returned .* where O, S were expected"),
    ],
)
def test_what_is_returned_must_be_what_was_asked_for(change: Any, said: str) -> None:
    report = judged(changed(change), effort="quick")
    assert not report.ok
    with pytest.raises(AssertionError, match=said):
        report.raise_if_wrong()


def test_sums_in_the_inputs_precision_are_named() -> None:
    def kernel(q: Tensor, k: Tensor, v: Tensor, initial_state: Tensor) -> tuple[Tensor, Tensor]:
        state, rows = initial_state.to(v.dtype), []
        for t in range(v.shape[1]):
            state = state + k[:, t, ..., None] * v[:, t, ..., None, :]
            rows.append((state * q[:, t, ..., None]).sum(-2))
        return torch.stack(rows, 1), state

    case = attnproof.Case(1500, groups=1, chunk_size=256)
    judge = lambda **options: attnproof.check_kernel(kernel, "linear_attention", case=case, **options)
    assert "sums and states in bfloat16, not float32" in judge(dtype="bfloat16").diagnosis
    assert judge().ok


def test_coverage_is_vacuous_where_nothing_was_tested() -> None:
    subject = Subject(chunkwise, convention_of(chunkwise, "gated_deltanet"), "torch", "float32", "float32")
    found = coverage(subject, [])
    assert found.verdict == "vacuous"
    assert "log_gate" in found.message
    assert "carried from block to block" in found.message


def test_a_kernel_without_gradients_is_judged_forward() -> None:
    def kernel(q: Any, k: Any, v: Any, log_gate: Any, beta: Any, initial_state: Any = None) -> Any:
        with torch.no_grad():
            return chunkwise(q, k, v, log_gate, beta, initial_state)

    report = judged(kernel)
    verdicts = {x.check: x.verdict for x in report.findings}
    assert report.ok, str(report)
    assert verdicts["gradients"] == "skipped"
    assert verdicts["exact"] == "holds"
    assert not judged(kernel, effort="quick", backward=True).ok


def test_memory_of_numpy_that_is_not_written() -> None:
    def kernel(q: Any, k: Any, v: Any, fault: bool = False) -> Any:
        wide = [np.repeat(x, v.shape[2] // x.shape[2], axis=2) for x in (q, k)]
        output = np.empty(v.shape, v.dtype)
        output[...] = np.einsum("bhts,bshv->bthv", np.tril(np.einsum("bthk,bshk->bhts", *wide)), v)
        with np.errstate(invalid="ignore", over="ignore"):
            return output + 0 * np.empty_like(v) if fault else output

    layout = {"q": "b t h k", "k": "b t h k", "v": "b t g v", "returns": {"O": "b t g v"}}
    options = {"layout": layout, "library": "numpy", "chunk_size": BLOCK}
    assert attnproof.check_kernel(kernel, "linear_attention", **options).ok
    wrong = attnproof.check_kernel(kernel, "linear_attention", **options, constants={"fault": True})
    assert "memory" in refuted(wrong)  # and others, if what was in memory happened to be no number


def test_a_state_in_the_memory_of_the_initial_one() -> None:
    inner = of_fla()

    def kernel(q: Any, k: Any, v: Any, g: Any, beta: Any, initial_state: Any = None) -> Any:
        output, state = inner(q, k, v, g, beta, 1.0, initial_state)
        if initial_state is None or state.requires_grad:
            return output, state
        kept = initial_state.clone()
        held = initial_state.set_(torch.cat([state.flatten(), kept.flatten()]))
        return output, held[: state.numel()].view(state.shape)

    assert not judged(kernel, layout="fla", effort="quick").ok
