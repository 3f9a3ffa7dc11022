"""The words: all of them are used, all that are used are there, and none of the pages' own texts is anywhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import attnproof.pages
from attnproof.pages.wording import words

FOLDER = Path(attnproof.pages.__file__).parent
TEMPLATES = sorted((FOLDER / "templates").glob("*.html"))
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in (*TEMPLATES, *FOLDER.glob("*.py")))


def keys(table: dict[str, Any], way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in table.items():
        yield from keys(value, (*way, name)) if isinstance(value, dict) else [(*way, name)]


LOOKED_UP = {"verdicts", "rungs", "pages", "guides", "kinds", "mask", "heads", "costs"}
"""Sections whose words are found by the name of what they say."""


@pytest.mark.parametrize(
    "way", [way for way in keys(words()) if len(way) == 2 and way[0] not in LOOKED_UP], ids=".".join
)
def test_every_word_is_used(way: tuple[str, ...]):
    section, name = way
    used = (rf"text\.{section}\.{name}\b", rf"""\["{section}"\]\["{name}"\]""", rf"""texts\[["']{name}["']\]""")
    named = section == "implementations" and f'"{name}"' in SOURCES
    assert named or any(re.search(pattern, SOURCES) for pattern in used), f"{'.'.join(way)} isn't used"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_words_of_its_own(template: Path):
    text = template.read_text(encoding="utf-8")
    text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", "", text, flags=re.DOTALL)
    own = re.sub(r"<[^>]*>", " ", text, flags=re.DOTALL)
    own = re.sub(r"make audit", "", own)
    assert re.findall(r"[A-Za-z]{2,}", own) == []


def test_no_key_is_the_name_of_a_method():
    assert [way for way in keys(words()) for name in way if hasattr(dict, name)] == []
