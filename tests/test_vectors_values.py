"""Golden vectors judge kernels rightly: honest ones pass in each precision, forward and backward; planted errors don't.

The kernels are emitted code with PyTorch's autograd, which shares nothing with the derived backward pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_emit_values import DERIVATIONS, function_of

from attnproof.emitting import emit
from attnproof.vectors import EXPECTED, INPUTS, TOLERANCE, Shape, Vectors, judge, make, write_folder
from derivations.language.forms import Chunkwise, Recurrence

torch = pytest.importorskip("torch")

SMALL = Shape(tokens=7, d_k=4, d_v=3, chunk=4)
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
RECURRENCES = [
    (name, form)
    for name, derivation in DERIVATIONS.items()
    for form, statement in derivation.forms.items()
    if isinstance(statement, Recurrence) and not isinstance(statement, Chunkwise)
    if DEEP or form in ("recurrence", "rls", "primal", "streaming", "trigonometric", "complex_decay", "zero_order_hold")
]
LOGARITHMS = {"gated_deltanet": "gamma=log(b t h)", "gla": "alpha=log2(b t h k)", "kda": "alpha=log(b h t k)"}
Arrays = dict[str, np.ndarray]


@cache
def vectors(name: str, form: str, dtype: str = "float32", seed: int = 0, layouts: tuple[str, ...] = ()) -> Vectors:
    return make(DERIVATIONS[name], form, SMALL, seed, dtype, layouts)


def written(made: Vectors, folder: Path) -> Path:
    write_folder(folder, {INPUTS: made.inputs, EXPECTED: made.expected, TOLERANCE: made.tolerance}, made.manifest)
    return folder


def computed(made: Vectors, dtype: Any, source: str | None = None) -> Arrays:
    """What emitted Torch code returns for the inputs in some precision, and the gradients of its autograd."""
    name, form = made.manifest["derivation"], made.manifest["form"]
    layouts = [f"{key.removeprefix('log_').removeprefix('log2_')}={x}" for key, x in made.manifest["layouts"].items()]
    kept = [text for text in layouts if not text.startswith(("initial_", "final_"))]
    function = function_of(source or emit(DERIVATIONS[name], form, "torch", kept))
    tensors = {key: torch.from_numpy(value.copy()).to(dtype) for key, value in made.inputs.items()}
    given_ = {key: value.requires_grad_() for key, value in tensors.items() if not key.startswith("grad_")}
    output, states = function(**given_)
    states = states if isinstance(states, tuple) else (states,)
    results = dict(zip([key for key in made.expected if not key.startswith("grad_")], (output, *states), strict=True))
    torch.autograd.backward(list(results.values()), [tensors[f"grad_{key}"] for key in results])
    for key, value in given_.items():
        results[f"grad_{key}"] = torch.zeros_like(value) if value.grad is None else value.grad
    return {key: value.detach().to(torch.float64).numpy() for key, value in results.items() if key in made.expected}


def saved(results: Arrays, path: Path) -> Path:
    np.savez(path, allow_pickle=False, **results)
    return path


@pytest.mark.parametrize(("name", "form"), RECURRENCES)
def test_an_honest_kernel_in_float32_passes(name: str, form: str, tmp_path: Path) -> None:
    made = vectors(
        name, form, "float32", layouts=(LOGARITHMS[name],) if name in LOGARITHMS and form == "recurrence" else ()
    )
    verdict = judge(saved(computed(made, torch.float32), tmp_path / "mine.npz"), written(made, tmp_path / "golden"))
    assert verdict.ok, [one for one in verdict.judged if not one.ok]
    assert {one.name for one in verdict.judged} == made.expected.keys()


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("name", ["linear_attention", "gated_deltanet", "kda", "rwkv7", "mamba2"])
def test_so_does_one_in_another_precision(name: str, dtype: str, tmp_path: Path) -> None:
    made = vectors(name, "recurrence", dtype)
    results = computed(made, getattr(torch, dtype))
    assert judge(saved(results, tmp_path / "mine.npz"), written(made, tmp_path / "golden")).ok


FAULTS: dict[str, Callable[[Arrays], Any]] = {
    "one entry off by a thousandth of the largest": lambda x: _add(x["o"], 1e-3),
    "a row of zeros": lambda x: x["o"].__setitem__((0, 4, 1), 0),
    "the last token of one head": lambda x: _add(x["o"][1, -1, 0], 1e-4),
    "rows in another order": lambda x: x.__setitem__("o", x["o"][:, ::-1]),
    "not a number": lambda x: x["o"].__setitem__((0, 0, 0, 0), np.nan),
    "heads exchanged in the final state": lambda x: x.__setitem__("final_state", x["final_state"][:, ::-1]),
    "a gradient without its last token": lambda x: x["grad_v"].__setitem__((slice(None), -1), 0),
    "a gradient's sign": lambda x: x.__setitem__("grad_q", -x["grad_q"]),
    "a gradient twice as large": lambda x: x.__setitem__("grad_initial_state", 2 * x["grad_initial_state"]),
    "an array is missing": lambda x: x.pop("grad_k"),
}


def _add(values: np.ndarray, share: float) -> None:
    values.flat[values.size // 2] += share * abs(values).max()


@pytest.mark.parametrize("name", ["gated_deltanet", "gla", "kda", "longhorn"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_error_is_found(fault: str, name: str, tmp_path: Path) -> None:
    made = vectors(name, "recurrence")
    results = {key: value.copy() for key, value in made.expected.items()}
    golden = written(made, tmp_path / "golden")
    assert judge(saved(results, tmp_path / "right.npz"), golden).ok
    FAULTS[fault](results)
    assert not judge(saved(results, tmp_path / "wrong.npz"), golden).ok


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("v_t - gamma_t * S @ k_t", "v_t - S @ k_t"),
        ("gamma_t * S + beta_t", "S + beta_t"),
        ("S @ q_t", "S @ k_t"),
        ("S = initial_state.mT", "S = 0 * initial_state.mT"),
        ("+ beta_t * (v_t", "+ beta_t * beta_t * (v_t"),
    ],
)
def test_a_kernel_with_another_formula_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    made = vectors("gated_deltanet", "error_form")
    source = emit(DERIVATIONS["gated_deltanet"], "error_form", "torch")
    assert right in source
    results = computed(made, torch.float32, source.replace(right, wrong))
    assert not judge(saved(results, tmp_path / "mine.npz"), written(made, tmp_path / "golden")).ok


def test_the_worst_element_is_the_one_that_is_wrong(tmp_path: Path) -> None:
    made = vectors("gated_deltanet", "recurrence")
    results = {key: value.copy() for key, value in made.expected.items()}
    results["o"][1, 5, 0, 2] += 1
    results["final_state"][0, 1, 3, 2] -= 1
    verdict = judge(saved(results, tmp_path / "mine.npz"), written(made, tmp_path / "golden"))
    worst = {one.name: one.worst for one in verdict.judged if not one.ok}
    assert worst == {
        "o": "batch 1, token 5, head 0, value channel 2",
        "final_state": "batch 0, head 1, key channel 3, value channel 2",
    }


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100 if DEEP else 4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_honest_kernels_pass_on_other_inputs(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("vectors")
    made = make(DERIVATIONS["gated_deltanet"], "recurrence", SMALL, seed)
    assert judge(saved(computed(made, torch.float32), folder / "mine.npz"), written(made, folder / "golden")).ok


def test_a_gradient_of_a_shared_input_is_the_sum_over_what_shares_it() -> None:
    layouts = ("k=b t k", "beta=t")
    made = vectors("gated_deltanet", "recurrence", "float64", 0, layouts)
    assert made.inputs["k"].shape == (SMALL.batch, SMALL.tokens, SMALL.d_k)
    assert made.expected["grad_beta"].shape == (SMALL.tokens,)
    results = computed(made, torch.float64)
    for name, value in made.expected.items():
        assert np.all(abs(results[name] - value) <= made.tolerance[name]), name
