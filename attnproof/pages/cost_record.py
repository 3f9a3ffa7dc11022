"""Counted costs as a file of the site: what is counted once isn't counted again until its sources change.

Counting takes most of the time that pages take. `static/costs.json` has what the last site in this folder was made
with, and a digest of everything that the counts follow from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attnproof.pages.charts import Chart
from attnproof.pages.costs import CostSheet, Table
from attnproof.pages.statements import ROOT

FILE = "static/costs.json"
"""Where a site has its record of costs."""
SOURCES = ("derivations/**/*.py", "numerics/**/*.py", "attnproof/cost_sheets.py", "attnproof/pages/*.py")
LIBRARIES = ("sympy", "matplotlib", "latex2mathml")


def digest(folders: Iterable[str] = ()) -> str:
    """What identifies the code that counts and draws, and the statements that are counted.

    Args:
        folders: the user's folders of derivations.
    """
    files = [path for pattern in SOURCES for path in sorted(ROOT.glob(pattern))]
    files += [path for folder in folders for path in sorted(Path(folder).glob("*.py"))]
    found = sha256(" ".join(version(library) for library in LIBRARIES).encode())
    for path in (*files, Path(__file__).parent / "en.toml"):
        found.update(path.read_bytes())
    return found.hexdigest()


def written(sheets: Mapping[str, CostSheet], made_from: str) -> str:
    """The record as JSON.

    Args:
        sheets: by derivation.
        made_from: the digest.
    """
    record = {"made_from": made_from, "sheets": {name: asdict(sheet) for name, sheet in sheets.items()}}
    return json.dumps(_marked(record), ensure_ascii=False, separators=(",", ":"))


def _marked(value: Any) -> Any:
    """HTML says that it is, so that everything else is still escaped when it is read back."""
    if isinstance(value, Markup):
        return {"html": str(value)}
    if isinstance(value, dict):
        return {name: _marked(one) for name, one in value.items()}
    return [_marked(one) for one in value] if isinstance(value, list | tuple) else value


def read(site: Path, made_from: str) -> dict[str, CostSheet] | None:
    """The sheets of a site that is there; none where it has none, or they were made from something else.

    Args:
        site: the site's folder.
        made_from: the digest.
    """
    try:
        record = json.loads((site / FILE).read_text(encoding="utf-8"))
        if record["made_from"] != made_from:
            return None
        return {name: _sheet(sheet) for name, sheet in record["sheets"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sheet(found: Mapping[str, Any]) -> CostSheet:
    tables = (Table(x["caption"], tuple(x["heads"]), tuple(map(_cells, x["rows"]))) for x in found["tables"])
    chart = Chart(Markup(found["chart"]["svg"]["html"]), found["chart"]["says"]) if found["chart"] else None
    totals = tuple(tuple(row) for row in found["totals"])
    return CostSheet(tuple(tables), totals, tuple(found["best"]), tuple(found["missing"]), chart)


def _cells(row: Sequence[Any]) -> tuple[str | Markup, ...]:
    return tuple(Markup(cell["html"]) if isinstance(cell, dict) else cell for cell in row)
