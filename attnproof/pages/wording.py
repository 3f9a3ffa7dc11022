"""The words of the pages: one file for each language, read once. `en.toml` is the one that others are made from."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def words(language: str = "en") -> dict[str, Any]:
    """All texts of the pages in a language, by section and name."""
    return tomllib.loads(files(__package__).joinpath(f"{language}.toml").read_text(encoding="utf-8"))
