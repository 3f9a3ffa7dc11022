"""Ways of calling that the oracle must take as they are, and honest orders of operations that it must not refute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from oracle_kernels import BLOCK
from oracle_kernels import gated_deltanet as of_fla
from torch import Tensor

import attnproof
from attnproof.implementation_cases import called
from attnproof.oracle import gradient_tolerances
from attnproof.oracle.calls import causality
from attnproof.oracle.conventions import WrongConvention, convention_of, parameters
from attnproof.oracle.gradients import gradient_gaps
from attnproof.oracle.subject import Subject
from attnproof.oracle.trials import Trial
from gpu.torch_kernels import linear_attention


def in_parallel(q: Tensor, k: Tensor, v: Tensor, g: Tensor, fault: bool = False) -> Tensor:
    """Decayed attention as one matrix: exp of differences of cumulated logarithms, whose backward sums from the end."""
    q, k = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k))
    sums = g.cumsum(1)
    between = (sums[:, :, None] - sums[:, None]).permute(0, 3, 1, 2)
    kept = torch.ones(q.shape[1], q.shape[1]).tril().bool()
    scores = torch.einsum("bihk,bjhk->bhij", q, k) * between.masked_fill(~kept, -torch.inf).exp()
    return torch.einsum("bhij,bjhv->bihv", scores * 1.001 if fault else scores, v)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cumulated_logarithms_are_honest(dtype: str) -> None:
    """Their rounding is that of the sums, and so is that of the derivative by a gate."""
    options = {"dtype": dtype, "chunk_size": 16, "effort": "quick"}
    report = attnproof.check_kernel(in_parallel, "decay", "fla", **options)
    assert report.ok, str(report)
    assert max(x.ratio for x in report.findings) < 0.6
    assert not attnproof.check_kernel(in_parallel, "decay", "fla", **options, constants={"fault": True}).ok


def test_a_sum_term_by_term_in_powers_of_two_is_honest() -> None:
    """As kernels cumulate the gates of a block: each partial sum is rounded, and the factor 1 / log 2 is too."""

    def kernel(q: Any, k: Any, v: Any, g: Any, initial_state: Any) -> Any:
        q, k = (np.repeat(x, v.shape[2] // x.shape[2], axis=2) for x in (q, k))
        sums = np.add.accumulate(g, axis=1, dtype=np.float32) * np.float32(1.4426950216)
        later = np.tril(np.ones((g.shape[1], g.shape[1]), bool))[None, :, :, None]
        decay = np.where(later, np.exp2(np.where(later, sums[:, :, None] - sums[:, None], 0)), 0)
        scores = np.einsum("bihk,bjhk->bijh", q, k) * decay
        read = np.einsum("bihk,bhkv->bihv", q, initial_state) * np.exp2(sums)[..., None]
        last = np.exp2(sums[:, -1])[..., None, None] * initial_state
        written = np.einsum("bjhk,bjhv,bjh->bhkv", k, v, np.exp2(sums[:, -1:] - sums))
        return np.einsum("bijh,bjhv->bihv", scores, v) + read, last + written

    ratios = []
    for seed in range(8):
        case = attnproof.Case(67, seed=seed, set_to=(("V", 0.0),), chunk_size=64)  # what decays is all there is
        subject = Subject(kernel, convention_of(kernel, "decay", "fla"), "numpy", "float32", "float32")
        trial = Trial(subject, case)
        ratios += [gap.ratio for gap in trial.gaps(subject.call(trial.arguments))]
    assert max(ratios) < 0.5, ratios


def test_a_kernel_that_takes_anything_besides_what_it_names() -> None:
    inner = of_fla()

    def kernel(q: Any, k: Any, v: Any, g: Any, beta: Any, initial_state: Any = None, **others: Any) -> Any:
        return inner(q, k, v, g, beta, 1.0, initial_state)

    assert list(parameters(kernel) or ()) == ["q", "k", "v", "g", "beta", "initial_state"]
    assert attnproof.check_kernel(kernel, "gated_deltanet", "fla", chunk_size=BLOCK, effort="quick").ok
    with pytest.raises(WrongConvention, match="needs beta"):
        convention_of(lambda q, k, v, g, **others: None, "gated_deltanet", "fla")
    assert parameters(lambda **others: None) is None


def test_as_many_query_heads_as_value_heads() -> None:
    inner = of_fla()

    def kernel(q: Any, k: Any, v: Any, g: Any, beta: Any, state: Any) -> Any:
        assert q.shape[2] == v.shape[2]
        assert 0 <= beta.min() <= beta.max() <= 1
        return inner(q, k, v, g, beta, 1.0, state)

    layout = {"q": "b t h k", "k": "b t h k", "v": "b t h v", "g": attnproof.log("b t h"), "beta": "b t h"}
    layout |= {"state": "n h k v", "returns": {"O": "b t h v", "S": "n h k v"}}
    report = attnproof.check_kernel(kernel, "gated_deltanet", layout, chunk_size=BLOCK, effort="quick")
    assert report.ok, str(report)


def test_a_rate_needs_a_step_and_an_argument_an_input() -> None:
    with pytest.raises(WrongConvention, match="gated_deltanet has none"):
        convention_of(of_fla(), "gated_deltanet", "mamba-ssm")
    layout = {"q": "b t h k", "k": "b t h k", "v": attnproof.linear("b t g v", stands_for="W")}
    with pytest.raises(WrongConvention, match="linear_attention has no input W; it has Q, K, V, S"):
        convention_of(lambda q, k, v: None, "linear_attention", layout)


def test_a_kernel_without_a_state_is_named_too() -> None:
    def delta_rule(q: Tensor, k: Tensor, v: Tensor, fault: str = "") -> Tensor:
        """Linear attention that corrects what it has written."""
        q, k = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k))
        state, rows = v.new_zeros(v.shape[0], v.shape[2], k.shape[-1], v.shape[-1]), []
        for t in range(v.shape[1]):
            error = v[:, t] - (state * k[:, t, ..., None]).sum(-2)
            state = state + k[:, t, ..., None] * error[..., None, :]
            rows.append((state * q[:, t, ..., None]).sum(-2))
        return torch.stack(rows, 1)

    layout = {"q": "b t h k", "k": "b t h k", "v": "b t g v", "returns": {"O": "b t g v"}}
    report = attnproof.check_kernel(delta_rule, "linear_attention", layout, chunk_size=BLOCK, effort="quick")
    assert report.diagnosis.startswith("it computes PaTH attention with W = K: S_t = S_{t-1} (I - w_t w_tᵀ)")


def test_what_is_returned_besides_is_let_be() -> None:
    def kernel(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        return in_parallel(q, k, v, g), g

    layout = {"q": "b t h k", "k": "b t h k", "v": "b t g v", "g": attnproof.log("b t g"), "returns": {"O": "b t g v"}}
    report = attnproof.check_kernel(kernel, "decay", layout, chunk_size=BLOCK)
    assert report.ok, str(report)
    assert "exact" in {x.check for x in report.findings if x.verdict == "holds"}


def test_a_scalar_is_no_output() -> None:
    report = attnproof.check_kernel(
        lambda q, k, v: np.float32(0),
        "linear_attention",
        {"q": "b t h k", "k": "b t h k", "v": "b t g v", "returns": {"O": "b t g v"}},
        library="numpy",
        chunk_size=BLOCK,
    )
    assert "O has the shape ()" in str(report)


def test_what_was_not_tested_is_not_called_wrong() -> None:
    """Only the last tokens' gates are strong enough to show, and nothing is refuted."""
    report = attnproof.check_kernel(
        in_parallel, "decay", "fla", case=attnproof.Case(3, set_to=(("V", 0.0),)), chunk_size=BLOCK
    )
    assert not report.ok
    assert "isn't shown to compute" in str(report)


@pytest.mark.parametrize("strongest", [1.0, 20.0])
def test_what_reads_before_the_gate_by_cumulated_logarithms_is_honest(strongest: float) -> None:
    """Comba's p is read through exp(g_1 + ... + g_t - g_t); its derivative is off by that factor's error."""

    def comba(q: Tensor, k: Tensor, v: Tensor, p: Tensor, g: Tensor, beta: Tensor, state: Tensor) -> Any:
        q, k, p = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k, p))
        sums, rows = g.cumsum(1), []
        for t in range(v.shape[1]):
            before = (sums[:, t] - g[:, t] - (sums[:, t - 1] if t else 0)).exp()[..., None]
            fade = (sums[:, t] - (sums[:, t - 1] if t else 0)).exp()[..., None, None]
            error = v[:, t] - before * (state * p[:, t, ..., None]).sum(-2)
            state = fade * state + k[:, t, ..., None] * (beta[:, t, :, None] * error)[..., None, :]
            rows.append((state * q[:, t, ..., None]).sum(-2))
        return torch.stack(rows, 1), state

    layout = {"q": "b t h k", "k": "b t h k", "p": "b t h k", "v": "b t g v", "g": attnproof.log("b t g")}
    layout |= {"beta": "b t g", "state": "n g k v", "returns": {"O": "b t g v", "S": "n g k v"}}
    subject = Subject(comba, convention_of(comba, "comba", layout), "torch", "float32", "float32")
    case = attnproof.Case(67, batch=2, groups=1, chunk_size=64, strongest=strongest)
    gaps = [gradient_gaps(subject, replace(case, seed=seed), "output and state") for seed in range(6)]
    assert max(x.ratio for found in gaps for x in found.values()) < 0.4, gaps


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_states_come_in_the_precision_of_sums(dtype: str) -> None:
    def kernel(q: Tensor, k: Tensor, v: Tensor, initial_state: Tensor) -> Any:
        assert (str(q.dtype), initial_state.dtype) == (f"torch.{dtype}", torch.float32)
        return linear_attention.recurrent(q, k, v, initial_state)

    report = attnproof.check_kernel(kernel, "linear_attention", "fla", dtype=dtype, chunk_size=BLOCK, effort="quick")
    assert report.ok, str(report)


def test_a_state_in_a_narrow_precision_is_taken_at_its_word() -> None:
    def kernel(q: Tensor, k: Tensor, v: Tensor, initial_state: Tensor) -> Any:
        assert initial_state.dtype == torch.bfloat16
        return linear_attention.recurrent(q, k, v, initial_state)

    options = {"dtype": "bfloat16", "accumulation": "bfloat16", "chunk_size": BLOCK, "effort": "quick"}
    report = attnproof.check_kernel(kernel, "linear_attention", "fla", **options)
    assert report.ok, str(report)


def measured_rounding(chunk_size: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> tuple[float, int]:
    """The tolerance of Gated DeltaNet's dk for a loss on the state, and in which blocks it was measured."""
    used: list[int] = []
    monkeypatch.setattr(
        gradient_tolerances, "called", lambda *x, **options: used.append(options["chunk_size"]) or called(*x, **options)
    )
    kernel = of_fla()
    subject = Subject(kernel, convention_of(kernel, "gated_deltanet", "fla"), "torch", dtype, "float32")
    trial = Trial(subject, attnproof.Case(67, groups=1, chunk_size=chunk_size))
    cotangents = {"S": np.ones(trial.values["S"].shape)}
    return float(np.median(gradient_tolerances.measured(trial, cotangents)["K"])), used[0]


def test_rounding_is_measured_in_blocks_of_the_kernels_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all is summed up in one block, what a loss on the last state gives is the difference of larger terms."""
    (long, used), (short, _) = (measured_rounding(size, "float32", monkeypatch) for size in (48, 4))
    assert used == 64
    assert long > 2 * short


def test_what_passes_hand_on_is_rounded_to_the_inputs_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    (wide, _), (narrow, _) = (measured_rounding(64, dtype, monkeypatch) for dtype in ("float32", "bfloat16"))
    assert 2**14 < narrow / wide < 2**18


class FromRoundedOutput(torch.autograd.Function):
    """Forgetting attention of one head whose backward pass takes do^T o from the output as it was returned."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
        q, k, value, g = (x[:, :, 0].float() for x in (q, k, v, g[..., None]))
        sums = g.cumsum(1)
        later = torch.ones(q.shape[1], q.shape[1]).triu(1).bool()
        weights = (q @ k.mT + sums - sums.mT).masked_fill(later, -torch.inf).softmax(-1)
        output = (weights @ value)[:, :, None].to(v.dtype)
        ctx.save_for_backward(q, k, value, weights, output)
        return output

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, ...]:
        q, k, v, weights, output = ctx.saved_tensors
        own = cotangent[:, :, 0].float()
        scores = weights * (own @ v.mT - (own * output[:, :, 0].float()).sum(-1, keepdim=True))
        sums = scores.sum(-1) - scores.sum(-2)
        gate = sums.flip(1).cumsum(1).flip(1)[:, :, None]
        found = (scores @ k, scores.mT @ q, weights.mT @ own)
        return *(x[:, :, None].to(output.dtype) for x in found), gate.to(output.dtype)


def test_scores_cancelled_with_a_rounded_output_are_honest() -> None:
    def kernel(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
        return FromRoundedOutput.apply(q, k, v, g)

    subject = Subject(kernel, convention_of(kernel, "forgetting_attention", "fla"), "torch", "float16", "float32")
    case = attnproof.Case(67, groups=1, chunk_size=64, strongest=20.0, with_state=False)
    gaps = [gradient_gaps(subject, replace(case, seed=seed), "output") for seed in range(6)]
    assert max(x.ratio for found in gaps for x in found.values()) < 0.6, gaps
    assert all(x.tested for found in gaps for x in found.values())


@pytest.mark.parametrize("from_the_end", [False, True])
def test_strong_gates_behind_weak_ones_change_no_earlier_token(from_the_end: bool) -> None:
    """Summed up from the end, weak gates drown in the strong ones behind them, which is no honest rounding."""

    def kernel(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
        q, k = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k))
        sums = g.cumsum(1) - (g.sum(1, keepdim=True) if from_the_end else 0)
        between = (sums[:, :, None] - sums[:, None]).permute(0, 3, 1, 2)
        later = torch.ones(q.shape[1], q.shape[1]).triu(1).bool()
        scores = torch.einsum("bihk,bjhk->bhij", q, k) * between.masked_fill(later, -torch.inf).exp()
        return torch.einsum("bhij,bjhv->bihv", scores, v)

    subject = Subject(kernel, convention_of(kernel, "decay", "fla"), "torch", "float32", "float32")
    found = causality(subject, attnproof.Case(1, chunk_size=64, with_state=False))
    assert found.verdict == ("refuted" if from_the_end else "holds"), found
    if from_the_end:
        assert "log gates down to -0.01" in found.message
        assert "changes with the tokens from 96 on" in found.message
