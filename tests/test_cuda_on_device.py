"""CuPy on a GPU: the chunkwise functions and the fused kernels against their statements."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from attnproof.implementation_cases import Case, called, drawn, errors_over_tolerance
from gpu.cupy_kernels.declared import IMPLEMENTATIONS, RECURRENT
from gpu.cupy_kernels.exchange import from_torch, to_torch
from gpu.registry import Implementation


def why_not() -> str | None:
    """What is missing."""
    if find_spec("cupy") is None:
        return "CuPy isn't installed: pip install 'attnproof[cuda]'"
    import cupy

    return None if cupy.cuda.is_available() else "there is no CUDA device"


MISSING = why_not()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]


def worst(implementation: Implementation, case: Case, dtype: str) -> float:
    """The largest error in units of its tolerance."""
    import cupy

    arguments = drawn(implementation, case, dtype)
    returned = called(implementation, arguments, lambda x: cupy.asarray(x, dtype=dtype))
    values = [cupy.asnumpy(x).astype(np.float64) for x in returned]
    return max(errors_over_tolerance(implementation, values, arguments, case, dtype).values())


CASES = (
    Case(1),
    Case(257, heads=2, key_width=10, value_width=70, chunk_size=64),
    Case(200, "repeated keys", strongest=20.0, with_state=False, chunk_size=64),
)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=lambda x: x.name)
def test_it_computes_its_statement(implementation: Implementation) -> None:
    tried = [(case, dtype) for case in CASES for dtype in implementation.dtypes]
    assert [x for x in tried if not worst(implementation, *x) <= 1] == []


def test_a_wide_state_takes_more_shared_memory_than_a_kernel_has_unasked() -> None:
    implementation = next(x for x in RECURRENT if x.derivation == "gated_deltanet")
    assert worst(implementation, Case(40, key_width=256, value_width=33), "float32") <= 1


def test_torch_and_cupy_share_their_memory() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("Torch has no CUDA device")
    tensor = torch.arange(5.0, device="cuda")
    array: Any = from_torch(tensor)
    assert array.data.ptr == tensor.data_ptr()
    assert to_torch(array).data_ptr() == tensor.data_ptr()
