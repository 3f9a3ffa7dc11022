"""Records: what is read back is what was written, and a verdict is computed again, not copied."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest
from pages_site import catalogue, record, record_json

from attnproof.checking import unfinished
from attnproof.pages.record import RecordError, from_json, read
from attnproof.verification import Verification, write_json


def test_reports_survive_being_written_and_read():
    written = record_json()["identities"]
    kinds = {one.get("kind", "identity") for one in written}
    assert kinds == {"identity", "fact", "backward"}
    assert [report.as_json() for report in record().reports.values()] == written


def test_a_check_that_broke_off_stays_unfinished():
    entry = catalogue().select(["deltanet.*"])[0]
    report = unfinished(entry, "the process that checked it died")
    found = Verification((entry,), (report,), (), 0, 1.0).as_json()
    assert from_json(found).reports[entry.id] == report


def test_a_verdict_that_was_changed_by_hand_is_not_believed():
    changed = deepcopy(record_json())
    refuted = next(one for one in changed["identities"] if one["verdict"] == "refuted")
    refuted["verdict"], refuted["ok"] = "holds", True
    assert from_json(changed).reports[refuted["id"]].verdict == "refuted"


def test_a_record_that_is_not_finite_is_read(tmp_path: Path):
    changed = deepcopy(record_json())
    changed["identities"][0]["evidence"].append(
        {"rung": "floats", "verdict": "holds", "sizes": [], "seconds": 0.1, "error_over_tolerance": {"a": float("inf")}}
    )
    write_json(changed, tmp_path / "record.json")
    report = read(tmp_path / "record.json").reports[changed["identities"][0]["id"]]
    assert report.evidence[-1].details["error_over_tolerance"] == {"a": "inf"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"identities": [{}], "version": "1"}',
        '{"identities": 1, "version": "1", "seed": 0, "seconds": 1}',
    ],
)
def test_another_file_is_refused_with_what_to_do(text: str, tmp_path: Path):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=r"isn't a record.*attnproof verify --json"):
        read(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(RecordError, match=r"can't read .*nothing\.json"):
        read(tmp_path / "nothing.json")


def test_what_a_record_says_nothing_about_is_known():
    missing = record().missing(catalogue())
    assert "deltanet.recurrent_is_matrix" in missing
    assert "gated_deltanet.gamma_rewrite" not in missing
    assert json.dumps(record_json())  # the whole record is JSON
