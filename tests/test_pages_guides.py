"""The tutorial's module verifies and prints what is shown, and guides become pages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import attnproof
from attnproof.pages import guides

DOCS = Path(__file__).parent.parent / "docs"
OURS = ("tutorial", "kernel_authors")


def text_of(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def write_files(folder: Path) -> None:
    for name, code in re.findall(r"<!-- file: (.+?) -->\n```python\n(.*?)```", text_of("tutorial"), re.DOTALL):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code, encoding="utf-8")


def lines_of(text: str) -> list[str]:
    """Without what differs from machine to machine: seconds, and errors in tolerances."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [re.sub(r"\b\d+\.\d+\b", "#", line) for line in lines if line]


@pytest.mark.parametrize(
    ("command", "printed"),
    re.findall(r"<!-- output: attnproof (.+?) -->\n```\n(.*?)```", text_of("tutorial"), re.DOTALL),
    ids=lambda text: text.split("\n")[0][:40],
)
def test_the_tutorial_prints_what_it_shows(command: str, printed: str, tmp_path: Path):
    write_files(tmp_path)
    call = [sys.executable, "-m", "attnproof", *command.split()]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
    out = iter(lines_of(done.stdout))
    for line in lines_of(printed):
        assert line in out, f"{line!r} isn't printed, or not there:\n{done.stdout}\n{done.stderr}"


def test_the_tutorials_refutation_is_needed(tmp_path: Path):
    write_files(tmp_path)
    module = tmp_path / "my_systems" / "fade_after.py"
    module.write_text(module.read_text().replace('expected="refuted",\n', ""))
    found = attnproof.verify("fade_after", derivations=[tmp_path / "my_systems"], rungs=["exact"])
    assert not found.ok


@pytest.mark.parametrize("name", OURS)
def test_paths_lead_somewhere(name: str):
    text = text_of(name)
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert "://" in target or (DOCS / target).exists(), target


def test_guides_become_pages(tmp_path: Path):
    (tmp_path / "tutorial.md").write_text(
        "# A\n\n<!-- file: x.py -->\n<script>x</script> [b](costs.md) [c](../README.md)\n\n| a |\n|---|\n| b |\n"
    )
    (found,) = guides.found(tmp_path)
    assert found.name == "tutorial"
    assert "<h1>A</h1>" in found.body
    assert "<!--" not in found.body
    assert "&lt;script&gt;" in found.body
    assert '<a href="costs.html">b</a>' in found.body
    assert "README" not in found.body
    assert '<div class="wide" tabindex="0"><table>' in found.body
