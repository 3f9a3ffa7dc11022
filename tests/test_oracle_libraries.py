"""The oracle on arrays of other libraries, and on Mamba's way of giving gates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from oracle_kernels import BLOCK

import attnproof
from attnproof.oracle.arrays import LIBRARIES, array, on_host, precision_of
from attnproof.oracle.conventions import convention_of
from attnproof.oracle.findings import Finding
from attnproof.oracle.gradients import few_gradients
from attnproof.oracle.subject import Subject

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")


def in_jax(fault: str = "") -> Any:
    """Gated DeltaNet as a scan over the tokens."""

    def kernel(q: Any, k: Any, v: Any, g: Any, beta: Any, initial_state: Any = None) -> Any:
        heads = v.shape[2] // q.shape[2]
        wide = [jnp.repeat(x, heads, axis=2).astype(jnp.float32) for x in (q, k)]
        rest = [x.astype(jnp.float32) for x in (v, g, beta)]
        state = jnp.zeros((v.shape[0], v.shape[2], k.shape[-1], v.shape[-1]), jnp.float32)
        state = state if initial_state is None else initial_state.astype(jnp.float32)

        def step(state: Any, row: Any) -> Any:
            q, k, v, g, beta = row
            state = state * jnp.exp(jax.lax.stop_gradient(g) if fault == "gate detached" else g)[..., None, None]
            error = v - (state * k[..., None]).sum(-2)
            state = state + k[..., None] * (beta[..., None] * error)[..., None, :]
            return state, (state * q[..., None]).sum(-2)

        last, rows = jax.lax.scan(step, state, [jnp.moveaxis(x, 1, 0) for x in (*wide, *rest)])
        output = jnp.moveaxis(rows, 0, 1).astype(v.dtype)
        return output, 2 * last if fault == "state twice" else last

    return kernel


def in_jax_checked(fault: str = "", **options: Any) -> attnproof.KernelReport:
    """One input: each length is compiled anew."""
    settings = {"layout": "fla", "library": "jax", "case": attnproof.Case(11), **options}
    return attnproof.check_kernel(in_jax(fault), "gated_deltanet", **settings)


def gradients_in_jax(fault: str = "") -> Finding:
    kernel = in_jax(fault)
    return few_gradients(
        Subject(kernel, convention_of(kernel, "gated_deltanet", "fla"), "jax", "float32", "float32"),
        attnproof.Case(5, chunk_size=2),
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_right_kernel_on_jax_arrays(dtype: str) -> None:
    report = in_jax_checked(dtype=dtype)
    assert report.ok, str(report)


def test_gradients_on_jax_arrays() -> None:
    found = gradients_in_jax()
    assert found.verdict == "holds", found.message
    wrong = gradients_in_jax("gate detached")
    assert "dg by" in wrong.message
    assert "(it is zero)" in wrong.message


def test_a_fault_on_jax_arrays() -> None:
    report = in_jax_checked("state twice")
    assert not report.ok
    assert "the final S is off" in str(report)


def test_float64_of_jax_must_be_switched_on() -> None:
    if jax.config.jax_enable_x64:
        pytest.skip("it is on")
    with pytest.raises(ValueError, match="jax_enable_x64"):
        in_jax_checked(dtype="float64")


def test_what_a_library_does_not_have_is_said() -> None:
    with pytest.raises(ValueError, match="numpy has no bfloat16"):
        attnproof.check_kernel(in_jax(), "gated_deltanet", "fla", library="numpy", dtype="bfloat16")
    with pytest.raises(ValueError, match="no library is named 'tinygrad'"):
        attnproof.check_kernel(in_jax(), "gated_deltanet", "fla", library="tinygrad")  # type: ignore[arg-type]


@pytest.mark.parametrize("library", [x for x in LIBRARIES if x != "cupy"])
def test_values_come_back_as_they_went(library: Any) -> None:
    values = np.array([[1.0, -2.5], [0.0, 3.0]])
    there = array(values, library, "float32")
    assert precision_of(there) == "float32"
    assert np.array_equal(on_host(there), values)


def of_mamba(fault: str = "") -> Any:
    """Mamba-2's scan under the names and layouts of its authors."""

    def mamba_chunk_scan(
        x: Any, dt: Any, A: Any, B: Any, C: Any, chunk_size: int, initial_states: Any = None, return_final_states=False
    ) -> Any:
        groups = x.shape[2] // B.shape[2]
        B, C = (y.repeat_interleave(groups, 2) for y in (B, C))
        state = x.new_zeros(x.shape[0], x.shape[2], x.shape[-1], B.shape[-1])
        state, rows = state if initial_states is None else initial_states, []
        for t in range(x.shape[1]):
            gate = torch.exp(A.detach() * dt[:, t] if fault == "rate detached" else A * dt[:, t])
            if fault == "step counted twice":
                gate = gate * torch.exp(A * dt[:, t])
            write = x[:, t] if fault == "no step" else x[:, t] * dt[:, t, :, None]
            state = gate[..., None, None] * state + write[..., None] * B[:, t, :, None, :]
            rows.append((state * C[:, t, :, None, :]).sum(-1))
        return torch.stack(rows, 1), state

    return mamba_chunk_scan


def of_mamba_checked(fault: str = "") -> attnproof.KernelReport:
    return attnproof.check_kernel(of_mamba(fault), "mamba2", "mamba-ssm", chunk_size=BLOCK, effort="quick")


def test_mambas_own_convention() -> None:
    report = of_mamba_checked()
    assert report.ok, str(report)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("no step", "the output is off"),
        ("step counted twice", "factor a_t twice"),
        ("rate detached", r"dA by .* \(it is zero\)"),
    ],
)
def test_faults_in_mambas_convention(fault: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        of_mamba_checked(fault).raise_if_wrong()
