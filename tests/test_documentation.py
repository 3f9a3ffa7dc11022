"""The documents: their code runs and prints what they say, and the numbers and paths in them are those of the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import attnproof
from numerics.algebras.finite_field import PRIME
from numerics.proofs import backward, counterexample, exact, field, floats, tolerances

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
BLOCK = re.compile(r"<!-- (file|output): (.+?) -->\n```\w*\n(.*?)```", re.DOTALL)
PROGRAMS = {
    "attnproof": [sys.executable, "-m", "attnproof"],
    "python": [sys.executable],
    "pytest": [sys.executable, "-m", "pytest"],
}


class Output(NamedTuple):
    """A command that a document shows, and what it says that the command prints."""

    document: str
    command: str
    printed: str


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str, kind: str) -> list[tuple[str, str]]:
    return [(name, text) for found, name, text in BLOCK.findall(text_of(document)) if found == kind]


OUTPUTS = [Output(document, *block) for document in DOCUMENTS for block in blocks(document, "output")]


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: f"{output.document}: {output.command}")
def test_what_is_shown_is_what_is_printed(output: Output, tmp_path: Path) -> None:
    for name, code in blocks(output.document, "file"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code, encoding="utf-8")
    program, *arguments = output.command.split()
    done = subprocess.run([*PROGRAMS[program], *arguments], cwd=tmp_path, capture_output=True, text=True)
    printed = iter(lines_of(done.stdout))
    for line in lines_of(output.printed):
        assert line in printed, f"{line!r} isn't printed, or not there:\n{done.stdout}\n{done.stderr}"


def lines_of(text: str) -> list[str]:
    """Without what differs from machine to machine: seconds, errors in tolerances, the width of columns."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [re.sub(r"\b\d+\.\d+\b", "#", line) for line in lines if line]


def test_a_line_that_is_not_printed_would_be_found() -> None:
    real = "a.b  holds  holds  2^-87  0.13 tol  4.5\nc.d  holds  refuted  1.0\n"
    assert lines_of("a.b holds holds 2^-87 0.50 tol 9.9") == lines_of(real)[:1]
    assert lines_of("a.b holds holds 2^-86 0.13 tol 4.5")[0] not in lines_of(real)
    assert lines_of("c.d holds holds 1.0")[0] not in lines_of(real)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_document_shows_files_and_outputs(document: str) -> None:
    assert blocks(document, "file")
    assert blocks(document, "output")
    assert text_of(document).count("```python") == len(blocks(document, "file")), "an example that nothing runs"


def test_the_language_page_runs(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", text_of("docs/language.md"), re.DOTALL)
    (tmp_path / "page.py").write_text("\n".join(code), encoding="utf-8")
    found = attnproof.verify("decayed", derivations=[tmp_path], rungs=["exact"])
    assert found.ok, str(found)
    assert len(found.reports) == 6  # with the backward pass of its recurrence


def test_the_table_in_the_readme_is_about_identities_that_there_are() -> None:
    (table,) = re.findall(r"<!-- shown: .+? -->\n```\n(.*?)```", text_of("README.md"), re.DOTALL)
    rows = [line.split()[:3] for line in table.splitlines() if "." in line.split(" ")[0]]
    expected = {entry.id: entry.identity.expected for entry in attnproof.load_catalogue().select(["gated_deltanet"])}
    assert {name: stated for name, stated, _ in rows} == expected
    assert all(verdict == stated for _, stated, verdict in rows)


def sizes(*found: Any) -> str:
    return ", ".join(f"({s.n}, {s.d_k}, {s.d_v})" for s in found)


@pytest.mark.parametrize(
    "stated",
    [
        f"are {sizes(*exact.SMALL)} and {sizes(exact.LARGEST)}",
        f"n = {exact.CARRIED[0].n} with blocks of {' and of '.join(str(s.chunk) for s in exact.CARRIED)} tokens",
        f"with tokens on spheres {sizes(exact.ON_SPHERES)}",
        f"with a backward pass on a side {sizes(exact.WITH_COTANGENTS)}",
        f"are {sizes(*backward.SMALL[:-1])} and {sizes(backward.SMALL[-1])}, with divisions",
        f"with divisions {sizes(*backward.SMALL_QUOTIENTS[:-1])} and {sizes(backward.SMALL_QUOTIENTS[-1])}",
        f"field: at n = {backward.LONG.n}, modulo p",
        f"tried {backward.LONG_QUOTIENTS.n} times",
        f"the field at n = {field.WITH_STATES_KEPT.n}, d_k = {field.WITH_STATES_KEPT.d_k}, d_v = "
        f"{field.WITH_STATES_KEPT.d_v}",
        f"at each token {sizes(exact.DIVIDED_STATES[0])} and {sizes(exact.DIVIDED_STATES[1])}",
        f"at its {'four' if len(exact.SMALL) == 4 else '?'} smallest sizes",
        f"p = 2^{PRIME.bit_length()} - 1",
        f"n = {field.PRODUCTION.n}, d_k = {field.PRODUCTION.d_k}, d_v = {field.PRODUCTION.d_v} with blocks of 64",
        f"below 2^-{field.ERROR_BITS}",
        f"is tried at n = {field.WHERE_REFUTED.n}",
        f"in turn at n = {floats.CASES[0][0].n} and n = {floats.CASES[1][0].n}",
        f"is tried at n = {floats.WHERE_REFUTED[0][0].n}",
        f"The tolerance is {tolerances.MARGIN:.0f} of them",
        f"n = {counterexample.LONGEST} and dimensions of {counterexample.WIDEST}",
    ],
)
def test_the_numbers_of_the_evidence_page_are_those_of_the_code(stated: str) -> None:
    assert stated in " ".join(text_of("docs/evidence.md").split())


PAGES = [str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("document", [*DOCUMENTS, *PAGES, "benchmarks/README.md"])
def test_paths_lead_somewhere(document: str) -> None:
    text = text_of(document)
    links = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    named = re.findall(r"`((?:attnproof|benchmarks|derivations|docs|examples|gpu|numerics|tests)/[\w/.]*)`", text)
    for path in links:
        assert ((ROOT / document).parent / path).exists(), path
    for path in named:
        assert (ROOT / path).exists(), path
