"""The fused kernels without a device: the same source as C++, block by block, against the statements.

What is tested is all but the hardware: indices, layouts, the update rules, what the threads of a block share, and how
the Python side passes arguments. A C++ compiler is needed.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_cases import cases

from attnproof.implementation_cases import Case, called, drawn, errors_over_tolerance
from gpu.cupy_kernels import recurrent
from gpu.cupy_kernels.declared import RECURRENT
from gpu.registry import Implementation

COMPILER = shutil.which("c++") or shutil.which("g++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

EXAMPLES = max(settings().max_examples // 5, 1)
Launch = Callable[[str, int, int, Sequence[Any]], None]
each_system = pytest.mark.parametrize("implementation", RECURRENT, ids=lambda x: x.derivation)


def compiled(folder: Path, changes: dict[str, str] | None = None) -> ctypes.CDLL:
    """The kernels as a library, with some text of their source changed."""
    assert COMPILER is not None
    code = recurrent.source()
    for old, new in (changes or {}).items():
        assert code.count(old) == 1, f"{old!r} stands {code.count(old)} times in the source"
        code = code.replace(old, new)
    (folder / "recurrent.cu").write_text(code)
    main = folder / "on_host.cpp"
    main.write_text(files("gpu.cupy_kernels").joinpath("cuda/on_host.cpp").read_text())
    options = ["-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([COMPILER, *options, "-o", str(folder / "kernels.so"), str(main)], check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(tmp_path_factory.mktemp("kernels"))


def on_host(library: ctypes.CDLL, backwards: bool = False) -> Launch:
    """Takes the place of `recurrent.launch`."""

    def launch(kernel: str, blocks: int, shared: int, arguments: Sequence[Any]) -> None:
        passed = [
            ctypes.c_int(int(x)) if isinstance(x, np.int32) else ctypes.c_void_p(None if x is None else x.ctypes.data)
            for x in arguments
        ]
        function = getattr(library, kernel)
        function.restype = ctypes.c_bool
        assert function(ctypes.c_bool(backwards), blocks, shared, *passed), "a block left its shared memory"

    return launch


def returned(implementation: Implementation, arguments: dict[str, np.ndarray], dtype: str, launch: Launch) -> list[Any]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recurrent, "launch", launch)
        return called(implementation, arguments, lambda x: x.astype(dtype))


def worst(implementation: Implementation, case: Case, dtype: str, launch: Launch) -> float:
    """The largest error in units of its tolerance."""
    arguments = drawn(implementation, case, dtype)
    values = [x.astype(np.float64) for x in returned(implementation, arguments, dtype, launch)]
    return max(errors_over_tolerance(implementation, values, arguments, case, dtype).values())


def longest(family: str) -> int:
    """Errors of large keys grow exponentially."""
    return 24 if family == "large keys" else 300


@each_system
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases(longest, (40, 70), batches=2))
def test_it_computes_its_statement(implementation: Implementation, kernels: ctypes.CDLL, case: Case) -> None:
    assert worst(implementation, case, "float64", on_host(kernels)) <= 1


@each_system
def test_float32_is_rounded_once(implementation: Implementation, kernels: ctypes.CDLL) -> None:
    """Sums are in float64: on the same inputs the float32 kernel returns the other one's results, rounded."""
    arguments = drawn(implementation, Case(50, heads=2, value_width=35), "float32")
    single, double = (returned(implementation, arguments, dtype, on_host(kernels)) for dtype in ("float32", "float64"))
    if implementation.derivation == "feature_maps":  # the quotient is taken of rounded sums
        single, double = single[1:], double[1:]
    assert all(np.array_equal(x, y.astype(np.float32)) for x, y in zip(single, double, strict=True))


@each_system
def test_threads_dont_race(implementation: Implementation, kernels: ctypes.CDLL) -> None:
    """Between two barriers no thread reads what another one writes: backwards they return the same bits."""
    arguments = drawn(implementation, Case(20, key_width=9, value_width=35), "float64")
    orders = [
        returned(implementation, arguments, "float64", on_host(kernels, backwards)) for backwards in (False, True)
    ]
    assert all(np.array_equal(x, y) for x, y in zip(*orders, strict=True))


@each_system
def test_later_tokens_dont_change_earlier_rows(implementation: Implementation, kernels: ctypes.CDLL) -> None:
    arguments = drawn(implementation, Case(30), "float32")
    tokens = [x.name for x in implementation.arguments if " t " in x.layout]
    changed = arguments | {
        name: arguments[name]
        * np.where(np.arange(30) < 17, 1, 0.5)[(None, slice(None), *[None] * (arguments[name].ndim - 2))]
        for name in tokens
    }
    before, after = (returned(implementation, x, "float32", on_host(kernels))[0] for x in (arguments, changed))
    assert np.array_equal(before[:, :17], after[:, :17])
    assert not np.array_equal(before[:, 17:], after[:, 17:])


def chosen(derivation: str) -> Implementation:
    return next(x for x in RECURRENT if x.derivation == derivation)


PLANTED = {
    "predicted before the decay": (
        "row.predict *= row.fade;\n    }\n};\n\nstruct Kda",
        "}\n};\n\nstruct Kda",
        "gated_deltanet",
    ),
    "turned the other way": (
        "row.cosine * lower - row.sine * upper",
        "row.cosine * lower + row.sine * upper",
        "retnet",
    ),
    "the first slice's columns": ("% sizes.value_heads;", "% sizes.value_heads; first_column = 0;", "decay"),
}


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_found(error: str, tmp_path: Path) -> None:
    old, new, name = PLANTED[error]
    case = Case(12, strongest=0.5, value_width=35)
    assert not worst(chosen(name), case, "float64", on_host(compiled(tmp_path, {old: new}))) <= 100


def test_a_planted_race_is_found(tmp_path: Path) -> None:
    """One buffer for the rows of this token and of the next one."""
    library = compiled(
        tmp_path,
        {
            "shared.rows[t % 2 * sizes.key_width + i] = row;": "shared.rows[i] = row;",
            "shared.rows + t % 2 * sizes.key_width": "shared.rows + 0 * t",
        },
    )
    arguments = drawn(chosen("deltanet"), Case(20, key_width=9), "float64")
    orders = [
        returned(chosen("deltanet"), arguments, "float64", on_host(library, backwards)) for backwards in (False, True)
    ]
    assert not np.array_equal(orders[0][0], orders[1][0])


def test_too_little_shared_memory_is_noticed(kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    enough = recurrent.shared_bytes
    monkeypatch.setattr(recurrent, "shared_bytes", lambda key_width: enough(key_width) - 80)
    with pytest.raises(AssertionError, match="left its shared memory"):
        returned(chosen("decay"), drawn(chosen("decay"), Case(3), "float64"), "float64", on_host(kernels))


def test_arguments_are_those_of_the_chunkwise_function() -> None:
    for implementation in RECURRENT:
        if implementation.derivation != "feature_maps":
            assert list(implementation.load().signature().parameters) == [x.name for x in implementation.arguments]
    with pytest.raises(TypeError, match="missing a required argument: 'v'"):
        chosen("decay").load()(1, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": np.ones((1, 3, 2, 1))}, "beta has the layout 'b t g'"),
        ({"k": np.ones((1, 3, 1, 5))}, "k has the layout 'b t h k'"),
        ({}, "the fused kernels take CuPy arrays"),
    ],
)
def test_arguments_that_dont_fit_are_refused(change: dict[str, Any], message: str) -> None:
    arguments = drawn(chosen("gated_deltanet"), Case(3), "float64")
    with pytest.raises(ValueError, match=message):
        chosen("gated_deltanet").load()(**arguments | change)


class FakeKernel:
    """Keeps what it is launched with."""

    def __call__(self, *launched: Any, shared_mem: int) -> None:
        self.launched, self.shared = launched, shared_mem


class FakeDevice:
    """With an H100's shared memory."""

    attributes: ClassVar = {"MaxSharedMemoryPerBlockOptin": 232448}

    def __enter__(self) -> None: ...

    def __exit__(self, *reason: Any) -> None: ...


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    """CuPy without a device: arrays that are NumPy's, and a kernel that doesn't run."""
    kernel = FakeKernel()
    module = SimpleNamespace(get_function=lambda name: kernel)
    monkeypatch.setattr(recurrent, "_module", lambda: module)
    monkeypatch.setattr(recurrent, "is_cupy_array", lambda x: True)
    return kernel


def on_fake_device(shape: tuple[int, ...]) -> Any:
    return SimpleNamespace(shape=shape, device=FakeDevice())


def test_a_launch_passes_numbers_pointers_and_null(fake: FakeKernel) -> None:
    array = on_fake_device((1,))
    recurrent.launch("decay_float32", 6, 1000, [np.int32(3), array, None])
    grid, block, passed = fake.launched
    assert (grid, block, fake.shared) == ((6,), (256,), 1000)
    assert passed[0] == 3
    assert passed[1] is array
    assert passed[2] == 0
    assert passed[2].nbytes == ctypes.sizeof(ctypes.c_void_p)
    assert fake.max_dynamic_shared_size_bytes == 1000  # type: ignore[attr-defined]


def test_a_state_that_is_too_wide_is_refused(fake: FakeKernel) -> None:
    assert recurrent.shared_bytes(512) < FakeDevice.attributes["MaxSharedMemoryPerBlockOptin"]
    with pytest.raises(
        ValueError, match=r"d_k is too large: a block needs \d+ bytes of shared memory, the device has 2324"
    ):
        recurrent.launch("decay_float32", 1, recurrent.shared_bytes(640), [on_fake_device((1,))])


def test_half_precision_is_refused() -> None:
    arguments = drawn(chosen("decay"), Case(3), "float64")
    with pytest.raises(ValueError, match="float32 or float64, not float16"):
        chosen("decay").load()(**{name: x.astype("float16") for name, x in arguments.items()})
