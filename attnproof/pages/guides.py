"""The guides: the Markdown files of `docs/` as pages, where they are at hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

from attnproof.pages.wording import words

TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)


@dataclass(frozen=True)
class Guide:
    """A guide: its name, its title, and its text as HTML."""

    name: str
    title: str
    body: Markup


def found(docs: Path) -> list[Guide]:
    """The guides that are in a folder, in the order of the words."""
    return [_guide(name, docs / f"{name}.md") for name in words()["guides"] if (docs / f"{name}.md").is_file()]


def _guide(name: str, path: Path) -> Guide:
    made = MarkdownIt("commonmark", {"html": False}).enable("table").render(_plain(path.read_text(encoding="utf-8")))
    wide = TABLE.sub(r'<div class="wide" tabindex="0"><table>\1</table></div>', made)
    return Guide(name, words()["guides"][name], Markup(wide.replace("<pre>", '<pre tabindex="0">')))


def _plain(text: str) -> str:
    """Without comments, and with links to other guides alone: other files aren't part of the site."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", _link, text)


def _link(found: re.Match[str]) -> str:
    text, target = found.groups()
    if target.removesuffix(".md") in words()["guides"]:
        return f"[{text}]({target.removesuffix('.md')}.html)"
    return found[0] if "://" in target else text
