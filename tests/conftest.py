"""A user's folder of derivations, empty at first, and an environment that names no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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
