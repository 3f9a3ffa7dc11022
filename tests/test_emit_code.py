"""Emitted code stands alone and reads like code: a linter's defaults, one import, lines that fit, and its equations."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_emit_values import DERIVATIONS, FORMS, emitted, function_of, names_in_signature

from attnproof.emitting import TARGETS, emit
from attnproof.emitting.lines import WIDTH
from derivations.language import Closed, Derivation, Sequence, Source, V, d_v, n

MODULES = {"torch": "torch", "numpy": "numpy", "jax": "jax.numpy"}


@cache
def sources() -> dict[str, str]:
    """Every form for every library, by a name for a file."""
    return {f"{name}.{form}.{target}": emitted(name, form, target) for name, form in FORMS for target in TARGETS}


def test_the_linter_has_nothing_to_say(tmp_path: Path) -> None:
    for name, source in sources().items():
        (tmp_path / f"{name.replace('.', '_')}.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--quiet", str(tmp_path)]
    pytest.importorskip("ruff", reason="ruff isn't installed")
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[:2000]


@pytest.mark.parametrize("target", TARGETS)
def test_the_library_alone_is_imported(target: str) -> None:
    imported = set()
    for name, source in sources().items():
        if name.endswith(target):
            for node in ast.walk(ast.parse(source)):
                assert not isinstance(node, ast.ImportFrom), name
                if isinstance(node, ast.Import):
                    imported |= {alias.name for alias in node.names}
    assert imported == {MODULES[target]}


def test_lines_fit_and_what_is_called_is_there() -> None:
    for name, source in sources().items():
        long = [line for line in source.splitlines() if len(line) > WIDTH and "Source" not in line]
        assert not long, (name, long)
        functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
        assert all(ast.get_docstring(function) for function in functions), name
        own = {function.name for function in functions}
        called = {
            x.func.id for x in ast.walk(ast.parse(source)) if isinstance(x, ast.Call) if isinstance(x.func, ast.Name)
        }
        assert called <= own | {"range", "sum", "reversed"}, name
        assert own - called == {functions[-1].name}, f"{name}: a helper that nothing calls"


def test_every_equation_has_its_line() -> None:
    for name, source in sources().items():
        docstring = ast.get_docstring([x for x in ast.parse(source).body if isinstance(x, ast.FunctionDef)][-1])
        assert docstring is not None
        numbers = re.findall(r"^ *(\(\d+\)) ", docstring, re.MULTILINE)
        body = source.split('"""')[-1]
        assert numbers, name
        for number in numbers:
            assert f"# {number}" in body, f"{name}: no line carries out {number}"


def test_the_same_code_comes_out_twice() -> None:
    again = {
        f"{name}.{form}.{target}": emit(DERIVATIONS[name], form, target)
        for name, form in FORMS[::14]
        for target in TARGETS
    }
    assert again.items() <= sources().items()


def test_it_runs_where_attnproof_is_not_there() -> None:
    call = """
import sys
import numpy as np
rng = np.random.default_rng(0)
q, k, v = rng.normal(size=(3, 1, 5, 2, 4))
o, state = gated_deltanet_recurrence(q, k, v, *rng.random((2, 1, 5, 2)))
assert o.shape == (1, 5, 2, 4) and state.shape == (1, 2, 4, 4) and np.isfinite(o).all()
own = {"attnproof", "derivations", "numerics", "gpu", "sympy"} & sys.modules.keys()
assert not own, own
"""
    source = emit(DERIVATIONS["gated_deltanet"], "recurrence", "numpy") + call
    found = subprocess.run([sys.executable, "-I", "-c", source], capture_output=True, text=True, check=False, cwd="/")
    assert found.returncode == 0, found.stderr


def test_no_text_of_a_derivation_ends_the_docstring(tmp_path: Path) -> None:
    harmful = f'"""; open({str(tmp_path / "harmed")!r}, "w"); """ \\gamma " \\'
    stated = Derivation("mine", harmful, "", {f"a {harmful}": Closed(V)}, [], [Source(harmful, harmful)])
    source = emit(stated, f"a {harmful}", "numpy")
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(source, "emitted", "exec"), names)
    assert not (tmp_path / "harmed").exists()
    assert "\\gamma" in next(x for key, x in names.items() if key.startswith("mine")).__doc__


def test_odd_names_become_names_of_python() -> None:
    odd = {name: Sequence(name, n, d_v) for name in ("S'", "lambda", "2x", "a b", "np", "O", "token", "x-y", "q", "Q")}
    total = sum(list(odd.values())[1:], start=odd["S'"])
    source = emit(Derivation("mine", "Mine", "", {"only": Closed(total)}, []), "only", "numpy")
    assert len(set(names_in_signature(source))) == len(odd)
    given = {name: np.full((1, 2, 1, 3), float(2**k)) for k, name in enumerate(names_in_signature(source))}
    assert (function_of(source)(**given) == 2 ** len(odd) - 1).all()
