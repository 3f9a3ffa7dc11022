"""Importing attnproof finds its own packages or says which other one is in the way, and loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import numerics

OWN = Path(numerics.__path__[0]).parent


def run(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    head = f"import sys; sys.path[:0] = {[str(p) for p in path]!r}\n"
    return subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["derivations", "numerics", "gpu"])
def test_another_package_that_is_found_first_is_named_with_both_paths(name, tmp_path):
    other = tmp_path / name / "__init__.py"
    other.parent.mkdir()
    other.write_text("raise SystemExit('the other package was run')")
    found = run("import attnproof", tmp_path)
    assert found.returncode == 1
    assert f"ImportError: attnproof needs its own package '{name}' at {OWN / name / '__init__.py'}" in found.stderr
    assert f"Python finds {other} first" in found.stderr
    assert "Rename or move the other one" in found.stderr


def test_a_package_that_was_imported_earlier_is_found_too(tmp_path):
    (tmp_path / "gpu.py").write_text("")
    found = run("import gpu; sys.path.pop(0)\nimport attnproof", tmp_path)
    assert f"Python finds {tmp_path / 'gpu.py'} first" in found.stderr


def test_a_package_that_is_not_there_is_named():
    found = run("sys.modules['gpu'] = type(sys)('gpu')\nimport attnproof")
    assert "'gpu'" in found.stderr
    assert "Python finds none" in found.stderr


def test_importing_loads_neither_torch_nor_sympy():
    found = run("import attnproof; print(sorted({'torch', 'sympy', 'numpy'} & set(sys.modules)))", OWN)
    assert found.stdout == "[]\n"


def test_verifying_without_the_floats_rung_does_not_load_torch():
    code = "import attnproof; attnproof.verify('linear_attention', rungs=['exact']); print('torch' in sys.modules)"
    assert run(code, OWN).stdout == "False\n"


def test_every_name_of_the_api_is_there():
    code = (
        "import attnproof; [getattr(attnproof, x) for x in attnproof.__all__]; from attnproof import *; print(verify)"
    )
    assert run(code, OWN).stdout.startswith("<function verify")
