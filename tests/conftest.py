"""Hypothesis profiles, one test per identity and rung, and a user's folder of derivations.

A test that takes `entry` runs once for each identity of the catalogue, with the identity's id, and one that takes
`fact_entry` once for each fact: `pytest -k deltanet` picks a system, `pytest --derivations DIR` adds a folder of
one's own. A new derivation gets its tests with no edit.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    # the suite runs in one process per core, and small products on several threads wait for one another; has to be set
    # before NumPy or Torch is imported
    os.environ.setdefault(variable, "1")

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from attnproof.catalogue import Catalogue, Entry, load_catalogue
from derivations.language.facts import Fact
from derivations.language.statements import Identity

# draws at which a statement divides by zero are drawn again, and by chance these may be many; none at all still fails
SUPPRESSED = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("quick", max_examples=12, deadline=None, print_blob=True, suppress_health_check=SUPPRESSED)
settings.register_profile("deep", parent=settings.get_profile("quick"), max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

HEAD = "from attnproof.language import *\n"

SMALL = (
    HEAD
    + """
{name} = Derivation("{name}", title="Small", summary="", forms={{}}, identities=[
    Identity("transposed", Closed(Q @ K.T), Closed((K @ Q.T).T), says="A product transposed twice."),
    Identity("masked", Closed(Q @ K.T), Closed((Q @ K.T).hadamard(M)), expected="refuted"),
])
"""
)
"""A module with one identity that holds and one that is refuted."""

Write = Callable[..., Path]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--derivations", action="append", default=[], metavar="DIR", help="a folder of derivations to test as well"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture, kind in (("entry", Identity), ("fact_entry", Fact)):
        if fixture in metafunc.fixturenames:
            entries = [e for e in _catalogue(metafunc.config).entries() if isinstance(e.statement, kind)]
            metafunc.parametrize(fixture, entries, ids=[entry.id for entry in entries])


def _catalogue(config: pytest.Config) -> Catalogue:
    catalogue = load_catalogue(config.getoption("--derivations"))
    if catalogue.broken:
        raise pytest.UsageError("; ".join(map(str, catalogue.broken)))
    return catalogue


@pytest.fixture
def holding(entry: Entry) -> Entry:
    """The entry, where it is expected to hold: a formula that is known to be wrong isn't falsified further."""
    if entry.identity.expected != "holds":
        pytest.skip("expected to be refuted: it is a planted error itself")
    return entry


@pytest.fixture(autouse=True)
def _no_other_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTNPROOF_DERIVATIONS", raising=False)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """write("name", text): a module in the user's folder; without text one with two small identities."""

    def module(name: str, text: str | None = None, folder: str = "mine") -> Path:
        path = tmp_path / folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(SMALL.format(name=name) if text is None else HEAD + text)
        return path

    return module
