"""`attnproof docs`: what it writes, what it says, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from attnproof.catalogue import Catalogue, load_catalogue
from attnproof.checking import Settings
from attnproof.commands import attnproof, docs
from attnproof.pages.site import MARK
from attnproof.verification import run, write_json

WRONG = 'wrong = Derivation("wrong", "", "", {}, [Identity("masked", Closed(Q @ K.T), Closed((Q @ K.T).hadamard(M)))])'


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(attnproof, ["docs", *(str(argument) for argument in arguments)])


@pytest.fixture
def small(write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with one small system; the command sees no other, and costs little."""
    folder = write("mine").parent

    def loaded(folders: tuple[str, ...]) -> tuple[tuple[str, ...], Catalogue]:
        found = load_catalogue(folders or [folder])
        chosen = {name: x for name, x in found.derivations.items() if name in ("mine", "wrong")}
        return (), Catalogue(chosen, found.broken)

    monkeypatch.setattr(docs, "loaded", loaded)
    monkeypatch.chdir(tmp_path)
    return folder


def record_of(folder: Path, path: Path) -> Path:
    found = load_catalogue([folder])
    entries = [entry for entry in found.entries() if entry.derivation.name in ("mine", "wrong")]
    write_json(run(found, entries, Settings(rungs=("exact",))).as_json(), path)
    return path


def test_without_evidence_everything_is_checked_first(small: Path, tmp_path: Path):
    found = call("--jobs", "1")
    assert found.exit_code == 0, found.output
    assert "1/2 mine.transposed: holds" in found.stdout
    assert (tmp_path / "docs" / "site" / "index.html").exists()
    assert "exact" in (tmp_path / "docs" / "site" / "systems" / "mine.html").read_text()


def test_with_evidence_nothing_is_checked(small: Path, tmp_path: Path):
    record = record_of(small, tmp_path / "record.json")
    found = call("--jobs", "1", "--evidence", record, "--out", "site")
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("wrote ")
    assert "site/index.html" in found.stdout
    assert (tmp_path / "site" / MARK).exists()


def test_an_unexpected_verdict_is_status_1_and_the_pages_say_so(small: Path, write, tmp_path: Path):
    write("wrong", WRONG)
    record = record_of(small, tmp_path / "record.json")
    found = call("--jobs", "1", "--evidence", record, "--out", "site")
    assert found.exit_code == 1
    assert "wrong.masked: refuted, expected: holds" in found.stdout
    assert "Not as expected" in (tmp_path / "site" / "systems" / "wrong.html").read_text()


def test_evidence_of_nothing_is_status_1(small: Path, tmp_path: Path):
    record = record_of(small, tmp_path / "record.json")
    written = json.loads(record.read_text())
    record.write_text(json.dumps(written | {"identities": []}))
    assert call("--jobs", "1", "--evidence", record, "--out", "site").exit_code == 1


def test_the_page_for_github_is_written_and_checked(small: Path, tmp_path: Path):
    record = record_of(small, tmp_path / "record.json")
    page = tmp_path / "identities.md"
    check = ("--evidence", record, "--identities", page, "--check")
    assert call(*check).exit_code == 1
    assert call("--jobs", "1", "--evidence", record, "--identities", page, "--out", "site").exit_code == 0
    assert call(*check).exit_code == 0
    page.write_text(page.read_text().replace("transposed twice", "transposed once"))
    found = call(*check)
    assert found.exit_code == 1
    assert "isn't up to date" in found.stdout
    assert "there: A product transposed once." in found.stdout


def test_a_folder_of_something_else_is_left_alone(small: Path, tmp_path: Path):
    record = record_of(small, tmp_path / "record.json")
    found = call("--jobs", "1", "--evidence", record, "--out", small)
    assert found.exit_code == 2
    assert "holds something that isn't a site of attnproof" in found.stderr
    assert (small / "mine.py").exists()


def test_a_file_that_is_no_record_is_wrong_usage(small: Path, tmp_path: Path):
    (tmp_path / "record.json").write_text("{}")
    found = call("--evidence", tmp_path / "record.json")
    assert found.exit_code == 2
    assert "attnproof verify --json" in found.stderr


def test_a_check_names_a_page():
    found = call("--check")
    assert found.exit_code == 2
    assert "--identities" in found.stderr


def test_missing_libraries_are_named(small: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(docs, "LIBRARIES", ("jinja2", "a_library_that_is_not_there"))
    found = call("--jobs", "1")
    assert found.exit_code == 2
    assert "a_library_that_is_not_there: pip install 'attnproof[docs]'" in found.stderr
