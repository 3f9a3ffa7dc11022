"""Costs on pages: the numbers are those of `attnproof cost`, and old counts are taken over only while they hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from markupsafe import Markup
from pages_site import COUNTED, catalogue, site

from attnproof.commands import attnproof
from attnproof.pages import cost_record, costs
from attnproof.pages.cost_record import FILE, digest, read, written
from attnproof.pages.mathematics import mathml


def printed(name: str) -> str:
    return CliRunner().invoke(attnproof, ["cost", name]).stdout


def test_the_numbers_are_those_of_the_command():
    sheet, lines = site().cost_sheets["gated_deltanet"], printed("gated_deltanet").splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("At n = "))
    table = lines[start + 3 : lines.index("", start + 3)]
    rows = {line.split()[0]: line.split()[1:] for line in table}
    for form, operations, weighted, one_more_token, kept in sheet.totals:
        assert [operations, weighted, one_more_token, kept] == [rows[form][k] for k in (0, 1, 4, 5)]
    for line in sheet.best:
        assert line in lines


def test_the_polynomials_are_those_of_the_command():
    sheet, text = site().cost_sheets["gated_deltanet"], printed("gated_deltanet")
    operations = sheet.tables[0]
    assert [table.caption for table in sheet.tables] == ["operations", "kept", "token", "crossovers"]
    assert operations.heads == ("form", "multiplications", "additions")
    row = next(row for row in operations.rows if row[0] == "error_form")
    assert "5 n d_k d_v + n d_v" in text
    assert row[1] == mathml("5 n d_k d_v + n d_v")
    crossing = next(row for row in sheet.tables[-1].rows if row[0] == "error_form / matrix")
    assert crossing[1:] == tuple(f"error form from n = {length}" for length in (182, 146, 721, 18))


def test_another_process_counts_the_same():
    name = COUNTED[0]
    alone = replace(catalogue(), derivations={name: catalogue().derivations[name]})
    assert costs.sheets(alone, (), 2) == {name: site().cost_sheets[name]}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_text(written(site().cost_sheets, "a digest"), encoding="utf-8")
    return tmp_path


def test_what_was_counted_is_read_back(old: Path):
    found = read(old, "a digest")
    assert found == site().cost_sheets
    cell = found["gated_deltanet"].tables[0].rows[0][1]
    assert isinstance(cell, Markup)
    assert not isinstance(found["gated_deltanet"].tables[0].rows[0][0], Markup)


def test_what_was_counted_from_something_else_is_not(old: Path):
    assert read(old, "another digest") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"made_from": "a digest", "sheets": {"x": {}}}'])
def test_a_broken_record_is_counted_again(text: str, old: Path):
    (old / FILE).write_text(text)
    assert read(old, "a digest") is None


def test_there_may_be_no_record(tmp_path: Path):
    assert read(tmp_path, "a digest") is None


def test_text_of_a_user_in_it_stays_text(old: Path):
    record = json.loads((old / FILE).read_text())
    record["sheets"]["gated_deltanet"]["missing"] = ["<script>"]
    (old / FILE).write_text(json.dumps(record))
    made = replace(site(), cost_sheets=read(old, "a digest") or {})
    assert "&lt;script&gt;" in made.text("systems/gated_deltanet.html")


def test_the_digest_follows_statements_and_code(write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = write("mine")
    before = digest([str(path.parent)])
    assert before == digest([str(path.parent)])
    path.write_text(path.read_text() + "\n# changed\n")
    assert before != digest([str(path.parent)])
    without = digest()
    (tmp_path / "numerics").mkdir()
    (tmp_path / "numerics" / "evaluate.py").write_text("changed")
    monkeypatch.setattr(cost_record, "ROOT", tmp_path)
    assert without != digest()
