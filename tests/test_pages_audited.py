"""The pages list the kernels audited, from the record and from nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pages_site import site

from attnproof.pages.audited import all_audited

PAGE = "implementations.html"


def test_every_subject_of_the_record_is_listed():
    subjects = all_audited(site().audit)
    text = site().text(PAGE)
    assert len(subjects) > 40
    assert text.count('<th scope="row"><code>') == len(subjects)
    assert all(f"{x.library} {x.version}" in text for x in subjects)
    assert text.count("✗ finding") == sum(x.verdict == "finding" for x in subjects) > 0
    assert 'href="guides/audit.html"' in text


def test_a_verdict_is_that_of_the_record(tmp_path: Path):
    record = json.loads(site().audit.read_text(encoding="utf-8"))
    one = next(x for x in record["subjects"] if x["verdict"] == "agrees")
    record["subjects"] = [one | {"verdict": "finding", "finding": "a <new> finding", "why": ""}]
    (tmp_path / "audit.json").write_text(json.dumps(record))
    text = replace(site(), audit=tmp_path / "audit.json").text(PAGE)
    assert "a &lt;new&gt; finding" in text
    assert text.count("✗ finding") == 1


def test_a_site_without_a_record_says_so(tmp_path: Path):
    text = replace(site(), audit=tmp_path / "nothing.json").text(PAGE)
    assert "No record of an audit is in this installation" in text
    assert "✗ finding" not in text
