"""`attnproof identify`: each kernel is what it is, in its own way of calling; a wrong one is named by what differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from oracle_kernels import BLOCK, FAULTS, gated_deltanet
from torch import Tensor

import attnproof
from attnproof.commands import attnproof as command
from attnproof.oracle.conventions import WrongConvention
from attnproof.oracle.identifying import SYSTEMS
from gpu.torch_kernels.deltanet import recurrent as deltanet
from gpu.torch_kernels.gated_deltanet import recurrent


def identified(kernel: Callable[..., Any], **options: Any) -> attnproof.Identification:
    return attnproof.identify(kernel, **{"chunk_size": BLOCK, **options})


def names(found: attnproof.Identification) -> list[str]:
    return [x.convention.derivation for x in found.matches]


@pytest.mark.parametrize("derivation", SYSTEMS)
def test_every_implementation_is_identified_as_itself(derivation: str) -> None:
    module = import_module(f"gpu.torch_kernels.{derivation}")
    found = identified(getattr(module, "chunkwise", None) or module.blockwise)
    assert names(found) == [derivation]
    assert found.ok
    [match] = found.matches
    assert match.inputs >= 2
    assert 0 < match.sharpness < 1e-3
    assert match.layout == "attnproof"
    assert set(found.unfit) | {x.convention.derivation for x in found.readings} == set(SYSTEMS)
    assert str(found).startswith(f"{found.kernel} computes {match.title} (")


EXPECTED = {
    "": ("gated_deltanet", "log gates, states n g k v, queries as they are"),
    "scaled": ("gated_deltanet", "log gates, states n g k v, queries scaled by d_k^-1/2"),
    "gate read as linear": ("gated_deltanet", "gates as they are, states n g k v, queries as they are"),
}
"""Which are a system of the catalogue, called in another way."""


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_a_fault_is_another_way_of_calling_or_another_system_or_named(fault: str) -> None:
    found = identified(gated_deltanet(fault))
    if fault in EXPECTED:
        assert [(x.convention.derivation, x.how) for x in found.matches] == [EXPECTED[fault]]
        return
    assert not found.matches
    assert FAULTS[fault] in found.differs
    assert found.ok == (fault == "decay after the error")
    assert found.of == ("comba" if found.ok else "gated_deltanet" if found.differs else "")
    word = "nearest is Gated DeltaNet, but" if found.differs and not found.ok else "computes"
    assert word in str(found).splitlines()[0]


def linear_gate(q: Tensor, k: Tensor, v: Tensor, alpha: Tensor, beta: Tensor, state: Tensor | None = None) -> Any:
    output, last = recurrent(q, k, v, alpha.log(), beta, None if state is None else state.mT)
    return output, last.mT


def scaled(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: float | None = None) -> Any:
    return recurrent(q * (q.shape[-1] ** -0.5 if scale is None else scale), k, v, g, beta)


def with_more(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, **others: Any) -> Any:
    assert not others
    return scaled(query, key, value, g, beta)


def output_alone(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, h0: Tensor | None = None) -> Any:
    return recurrent(query, key, value, g * np.log(2), beta, h0)[0]


@pytest.mark.parametrize(
    ("kernel", "how", "layout"),
    [
        (linear_gate, "gates as they are, states n g v k, queries as they are", "flashinfer"),
        (scaled, "log gates, queries as they are", "fla"),
        (with_more, "log gates, queries scaled by d_k^-1/2", "transformers"),
        (output_alone, "gates as exponents of two, states n g k v, queries as they are, last states not returned", ""),
    ],
)
def test_it_finds_out_how_a_kernel_is_called(kernel: Callable[..., Any], how: str, layout: str) -> None:
    found = identified(kernel)
    assert [(x.convention.derivation, x.how, x.layout) for x in found.matches] == [("gated_deltanet", how, layout)]


def flattened(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, initial_state: Tensor | None = None) -> Any:
    output, last = recurrent(q, k, v, g, beta, initial_state)
    return output, last.flatten(2)


def test_a_last_state_of_another_shape_is_not_taken_for_none() -> None:
    found = identified(flattened)
    assert not found.ok
    assert "S has the shape" in str(found)


def test_a_layout_that_is_named_is_tried_first_and_others_too() -> None:
    found = identified(linear_gate, layout="fla")
    assert found.matches[0].how.startswith("gates as they are, states n g v k")
    layout = {"q": "b t h k", "k": "b t h k", "v": "b t g v", "beta": "b t g", "state": "n g v k"}
    found = identified(linear_gate, layout=layout | {"alpha": attnproof.linear("b t g", "gamma")})
    assert names(found) == ["gated_deltanet"]
    assert "kda" not in {x.convention.derivation for x in found.readings}


def both(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None = None) -> Any:
    return deltanet(q, k, v, beta) if g is None else recurrent(q, k, v, g, beta)


def test_where_two_systems_agree_it_says_which_input_tells_them_apart() -> None:
    found = identified(both)
    assert names(found) == ["gated_deltanet", "deltanet"]
    text = "what tells them apart is g, which only one of them is given (it is the first with gamma = 1)"
    assert text in str(found)


def test_a_kernel_that_is_none_of_them() -> None:
    found = identified(lambda q, k, v, g: torch.sin(v) + q.mean() * v)
    assert not found.ok
    assert {x.convention.derivation for x in found.readings} == {"decay", "gla", "forgetting_attention"}
    assert "computes none of the 3 systems that fit its signature" in str(found)
    assert "off by" in str(found)


def test_a_kernel_that_no_system_fits_says_why() -> None:
    found = identified(lambda image, kernel: None)
    assert not found.ok
    assert set(found.unfit) == set(SYSTEMS)
    assert str(found).startswith("no system fits the signature of")
    assert "comba: needs q (q or query or Q or queries); k " in str(found)
    with pytest.raises(WrongConvention, match="by place only"):
        identified(lambda q, k, v, /: None)


KERNELS = """
import numpy as np
def attention(q, k, v, initial_state=None):
    written = np.einsum("bthk,bthv->bthkv", k, v).cumsum(1)
    states = written if initial_state is None else written + initial_state[:, None]
    return np.einsum("bthk,bthkv->bthv", q, states), states[:, -1]
def negative(q, k, v, initial_state=None):
    output, last = attention(q, k, v, initial_state)
    return -output, last
"""


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("attention", 0, "attention computes Linear attention ("),
        ("negative", 1, "negative computes none of them; the nearest is Linear attention, but"),
        ("missing", 2, "can't import computed:missing"),
    ],
)
def test_the_command(name: str, status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "computed.py").write_text(KERNELS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "answer.json"
    arguments = ["identify", f"computed:{name}", "--library", "numpy", "--chunk-size", "4", "--json", str(file)]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == status, done.output
    assert said in done.output
    if status != 2:
        record = json.loads(file.read_text(encoding="utf-8"))
        assert record["ok"] == (status == 0)
        assert record["identified_as"] == (["linear_attention"] if record["ok"] else [])
        assert "nothing is passed" in record["unfit"]["gla"] or "needs log_gate" in record["unfit"]["gla"]
