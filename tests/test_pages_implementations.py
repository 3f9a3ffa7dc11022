"""What was measured on a device is shown as it was recorded, and that nothing was measured is said.

The records here are made up, in folders of their own: no such device was there.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pages_site import pages, site

from attnproof.device_evidence import sources
from attnproof.pages.site import ROOT

NOTHING = "nothing was measured, so nothing is shown"
PAGES = ("implementations.html", "systems/gated_deltanet.html")


def made_up(**changed: Any) -> dict[str, Any]:
    """A record of one implementation on a device that doesn't exist."""
    one = {
        "implementation": "torch.gated_deltanet.chunkwise",
        "dtype": "float32",
        "tokens": [1, 65],
        "errors": [{"O": 0.25, "S": 0.125}, {"O": 0.5, "S": 0.0625}],
        "seconds": 0.0025,
        "failure": None,
        "passes": True,
    }
    return {"device": "Made-up GPU", "sources": sources(), "implementations": [one | changed]}


def shown(record: dict[str, Any], folder: Path) -> list[str]:
    """The pages that have implementations, with this record."""
    (folder / "made-up-gpu.json").write_text(json.dumps(record))
    found = dict(replace(site(), records=folder).pages())
    return [found[name] for name in PAGES]


@pytest.mark.skipif((ROOT / "docs" / "evidence").exists(), reason="there are records in docs/evidence")
@pytest.mark.parametrize("name", PAGES)
def test_that_there_is_no_record_is_said(name: str) -> None:
    assert NOTHING in pages()[name]
    assert "within tolerance" not in pages()[name]


def test_a_record_is_shown(tmp_path: Path) -> None:
    for page in shown(made_up(), tmp_path):
        assert "Made-up GPU, float32: 0.50, within tolerance, 2.5 ms<br>" in page
        assert NOTHING not in page


def test_a_failure_is_shown_as_one(tmp_path: Path) -> None:
    for page in shown(made_up(errors=[], seconds=None, failure="RuntimeError: out of memory", passes=False), tmp_path):
        assert "Made-up GPU, float32: RuntimeError: out of memory<br>" in page
        assert "within tolerance" not in page


def test_what_is_off_is_shown_as_off(tmp_path: Path) -> None:
    errors = [{"O": 0.25, "S": 0.125}, {"O": "inf", "S": 0.0625}]
    for page in shown(made_up(errors=errors, passes=False), tmp_path):
        assert "Made-up GPU, float32: inf, over tolerance" in page


def test_a_record_of_other_code_says_so(tmp_path: Path) -> None:
    for page in shown(made_up() | {"sources": "of another commit"}, tmp_path):
        assert "within tolerance, 2.5 ms, of other code than is here<br>" in page
