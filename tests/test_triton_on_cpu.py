"""Triton kernels without a GPU: what Triton's interpreter lacks is there, and what can't be had is an error."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton isn't installed")
KERNELS = '''"""Linear attention token by token, with what interpreters stumble over."""

import torch
import triton
import triton.language as tl

gather = tl.gather


@triton.autotune(configs=[triton.Config({"UNUSED": n}) for n in (1, 2)], key=["T"])
@triton.jit
def linear_attention_kernel(q, k, v, o, s, T, D: tl.constexpr, UNUSED: tl.constexpr):
    channel = tl.arange(0, D)
    head = tl.program_id(0).to(tl.int64)
    state = tl.zeros([D, D], dtype=tl.float32)
    for t in range(T):
        row = (head * T + t.to(tl.int64)) * D + channel
        state += tl.load(k + row)[:, None] * tl.load(v + row)[None, :]
        read = tl.sum(tl.load(q + row)[:, None] * state, axis=0)
        tl.store(o + row, gather(read, channel, axis=0) WRONG)
    tl.store(s + head * D * D + channel[:, None] * D + channel[None, :], state)


def linear_attention(q, k, v):
    (b, t, h, d), g = q.shape, v.shape[2]
    wide = triton.next_power_of_2(max(d, v.shape[3]))
    q, k = (x.repeat_interleave(g // h, dim=2) for x in (q, k))
    q, k, v = (torch.nn.functional.pad(x, (0, wide - x.shape[3])).transpose(1, 2).contiguous() for x in (q, k, v))
    o, s = torch.empty_like(v), v.new_empty(b, g, wide, wide)
    linear_attention_kernel[(b * g,)](q, k, v, o, s, t, wide)
    return o.transpose(1, 2), s
'''
CROPPED = """

def cropped(q, k, v):
    output, state = linear_attention(q, k, v)
    return output[..., : v.shape[3]], state[..., : q.shape[3], : v.shape[3]]
"""
CHECK = ("check", "kernels:cropped", "--as", "linear_attention", "--effort", "quick", "--chunk-size", "4")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "attnproof", *words], cwd=folder, capture_output=True, text=True)


def written(folder: Path, wrong: str = "") -> Path:
    (folder / "kernels.py").write_text(KERNELS.replace(" WRONG", wrong) + CROPPED)
    return folder


@needs_triton
def test_a_right_kernel_computes_its_system(tmp_path: Path) -> None:
    done = run(written(tmp_path), *CHECK, "--triton-on-cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cropped computes Linear attention in float32" in done.stdout


@needs_triton
@pytest.mark.parametrize("isolate", [[], ["--isolate"]], ids=["here", "isolated"])
def test_a_wrong_kernel_is_refuted(tmp_path: Path, isolate: list[str]) -> None:
    done = run(written(tmp_path, " * 1.001"), *CHECK, "--triton-on-cpu", *isolate)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "cropped doesn't compute Linear attention" in done.stdout


@needs_triton
def test_it_is_identified(tmp_path: Path) -> None:
    done = run(written(tmp_path), "identify", "kernels:cropped", "--chunk-size", "4", "--triton-on-cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cropped computes Linear attention" in done.stdout


@needs_triton
def test_the_interpreter_alone_stumbles(tmp_path: Path) -> None:
    """Or else nothing would have to be completed."""
    call = "import torch, kernels; x = torch.ones(1, 3, 1, 4); kernels.linear_attention(x, x, x)"
    code = f"import os; os.environ['TRITON_INTERPRET'] = '1'; {call}"
    alone = subprocess.run([sys.executable, "-c", code], cwd=written(tmp_path), capture_output=True, text=True)
    assert alone.returncode == 1
    completed = f"import attnproof; attnproof.interpret_triton(); attnproof.interpret_triton(); {call}"
    assert subprocess.run([sys.executable, "-c", completed], cwd=tmp_path, check=False).returncode == 0


@needs_triton
def test_a_loop_in_the_module_counts_in_integers(tmp_path: Path) -> None:
    code = (
        "import attnproof; attnproof.interpret_triton(); import torch, kernels; x = torch.ones(1, 3, 1, 4); "
        "kernels.linear_attention(x, x, x); print([type(i).__name__ for i in kernels.counted()])"
    )
    (written(tmp_path) / "kernels.py").open("a").write("\n\ndef counted():\n    return [i for i in range(2)]\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "['int', 'int']\n"


@needs_triton
def test_it_has_to_come_first() -> None:
    code = "import triton, attnproof; attnproof.interpret_triton()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "RuntimeError: Triton has been imported already" in done.stderr


def test_without_triton_it_is_an_error_that_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import attnproof, attnproof.triton_on_cpu as it; it.find_spec = lambda name: None; "
        "attnproof.interpret_triton()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: Triton isn't installed: pip install 'attnproof[triton]'" in done.stderr


def test_bfloat16_is_refused(tmp_path: Path) -> None:
    done = run(written(tmp_path), *CHECK, "--dtype", "bfloat16", "--triton-on-cpu")
    assert done.returncode == 2
    assert "Triton's interpreter computes wrong values in bfloat16: choose --dtype float16" in done.stderr


@needs_triton
@pytest.mark.parametrize("isolate", [[], ["--isolate"]], ids=["here", "isolated"])
def test_without_the_option_it_is_named(tmp_path: Path, isolate: list[str]) -> None:
    done = run(written(tmp_path), *CHECK, *isolate)
    assert done.returncode == 1
    assert "a Triton kernel needs --device cuda, or --triton-on-cpu where there is no GPU" in done.stderr
