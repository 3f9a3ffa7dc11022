"""`attnproof emit`: prints, or writes a file whole; what is wrong is one line and status 2."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from test_documentation import blocks, text_of
from test_emit_planted import PLANTED_IN
from test_emit_values import FORMS

from attnproof.commands import attnproof
from attnproof.vectors.files import replaced
from numerics.proofs.tolerances import MARGIN


def emitted(*arguments: str) -> Result:
    return CliRunner().invoke(attnproof, ["emit", *arguments])


def test_it_prints_code() -> None:
    found = emitted("gla", "--target", "torch", "--layout", "alpha=log(b t h k)")
    assert found.exit_code == 0, found.output
    assert "S_t = S_{t-1} Diag(alpha_t) + v_t k_tᵀ" in found.stdout
    assert "torch.exp(log_alpha" in found.stdout
    assert ast.get_docstring([x for x in ast.parse(found.stdout).body if isinstance(x, ast.FunctionDef)][-1])


def test_the_page_shows_what_is_printed() -> None:
    ((command, shown),) = blocks("docs/emit_and_vectors.md", "output")
    printed = emitted(*shlex.split(command)[2:]).stdout
    assert shown.strip()
    assert shown in printed


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    page = text_of("docs/emit_and_vectors.md")
    assert "more than 140" in page
    assert len(FORMS) > 140
    assert f"of the code of {('sixteen' if len(PLANTED_IN) == 16 else len(PLANTED_IN))} of them" in " ".join(
        page.split()
    )
    assert ("twelve standard deviations" in page) == (MARGIN == 12)


def test_it_writes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "reference.py"
    found = emitted("gla", "--target", "numpy", "--form", "chunkwise", "--out", str(path))
    assert found.exit_code == 0, found.output
    assert path.read_text(encoding="utf-8") == emitted("gla", "--target", "numpy", "--form", "chunkwise").stdout


def test_a_derivation_of_ones_own(write) -> None:
    form = "Recurrence(S, S + beta[t] * v @ k.T, S @ q)"
    text = f'mine = Derivation("mine", "Mine", "", {{"recurrence": {form}}}, [])'
    found = emitted("mine", "--target", "jax", "--derivations", str(write("mine", text).parent))
    assert found.exit_code == 0, found.output
    assert "S = S + beta_t * v_t @ k_t.mT  # (1)" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gated_deltanett", "--target", "torch"], "Did you mean gated_deltanet"),
        (["deltanet.recurrent_is_matrix", "--target", "torch"], "isn't a derivation"),
        (["errata", "--target", "torch"], "states no form"),
        (["gla", "--target", "torch", "--form", "nothing"], "its forms are: recurrence, full_gate"),
        (["decay", "--target", "torch", "--form", "associative_scan"], "the form Algorithm"),
        (["gla", "--target", "torch", "--layout", "q=b t"], "isn't a layout of q"),
        (["gla", "--target", "mlx"], "'mlx' is not one of"),
        (["gla", "--target", "torch", "--out", "no/such/folder.py"], "can't write"),
    ],
)
def test_wrong_usage_is_status_2_and_one_line(arguments: list[str], says: str) -> None:
    found = emitted(*arguments)
    assert found.exit_code == 2, found.output
    assert says in found.stderr


def _interrupted(path: Path) -> None:
    with replaced(path) as unfinished:
        unfinished.write_text("half")
        raise KeyboardInterrupt


def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "reference.py"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        _interrupted(path)
    assert [x.name for x in tmp_path.iterdir()] == ["reference.py"]
    assert path.read_text() == "old"
