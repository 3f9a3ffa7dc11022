"""The reference functions of transformers' Qwen3-Next compute Gated DeltaNet, and planted errors in them are found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch isn't installed: pip install 'attnproof[audit]'")
pytest.importorskip("transformers", reason="transformers isn't installed: pip install 'attnproof[audit]'")

SCRIPT = Path(__file__).parent.parent / "examples" / "check_transformers.py"


def _loaded(path: Path) -> Any:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)  # dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


example = _loaded(SCRIPT)

every_length = pytest.mark.parametrize("tokens", example.LENGTHS)
every_kernel = pytest.mark.parametrize("name", ["recurrent", "chunked"])


@pytest.fixture(scope="module")
def kernels() -> Iterator[dict[str, Any]]:
    return example.kernels()


@every_length
@every_kernel
@pytest.mark.parametrize("decay", example.DECAYS)
@pytest.mark.parametrize("with_state", [False, True], ids=["from zero", "from a state"])
def test_computes_equation_10_and_nothing_else(
    kernels: Any, name: str, tokens: int, decay: str, with_state: bool
) -> None:
    errors = example.errors_over_tolerance(kernels[name], example.draw(tokens, decay, with_state, seed=0), seed=0)
    for statement, ratio in errors.items():
        expected = example.expected_verdict(statement, tokens, with_state)
        assert example.verdict(ratio) == expected, f"{statement}: off by {ratio:.3g} tolerances"


def test_only_one_token_from_zero_leaves_the_two_recurrences_equal() -> None:
    verdicts = {(tokens, s): example.expected_verdict("predicts first", tokens, s) for tokens in (1, 2) for s in (0, 1)}
    assert [case for case, verdict in verdicts.items() if verdict == "agrees"] == [(1, 0)]


def _without_the_state(function: Any) -> Any:
    return lambda *arrays, initial_state=None, **options: function(*arrays, initial_state=None, **options)


def _gates_late_by_one(function: Any) -> Any:
    return lambda q, k, v, g, beta, **options: function(q, k, v, g.roll(1, dims=1), beta, **options)


def _heads_mixed_up(function: Any) -> Any:
    return lambda q, k, v, g, beta, **options: function(q, k, v, g, beta.flip(2), **options)


def _last_token_dropped(function: Any) -> Any:
    def shortened(*arrays: Any, **options: Any) -> Any:
        output, state = function(*arrays, **options)
        output[:, -1] = 0
        return output, state

    return shortened


def _slightly_off(function: Any) -> Any:
    return lambda q, k, v, g, beta, **options: function(q, k, v * (1 + 1e-4), g, beta, **options)


@every_kernel
@pytest.mark.parametrize(
    "error", [_without_the_state, _gates_late_by_one, _heads_mixed_up, _last_token_dropped, _slightly_off]
)
def test_a_planted_error_is_found(kernels: Any, name: str, error: Any) -> None:
    wrong = replace(kernels[name], function=error(kernels[name].function))
    inputs = example.draw(65, "slow", True, seed=0)
    assert example.errors_over_tolerance(wrong, inputs, seed=0)["eq. 10"] > 1


def test_the_script_prints_a_table_and_ends_well(
    kernels: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example, "LENGTHS", (1, 3))
    assert example.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "all as expected"
    assert len(lines) == 2 + 2 * len(kernels) * 2 * len(example.STATEMENTS)
