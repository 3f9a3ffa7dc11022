"""`docs/identities.md`: every system with its forms and identities as one page for GitHub, with GitHub's mathematics.

It has nothing that differs between machines: verdicts, and the reach of the exact rungs. What it states can be compared
without evidence; what it says of evidence begins each line with EVIDENCE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attnproof.catalogue import Catalogue, Entry
from attnproof.pages.statements import NOT_CHECKED
from attnproof.pages.wording import words
from attnproof.readable import cell, counterexample_lines
from derivations.language.forms import Form, latex_lines
from derivations.language.printing import TEXT
from derivations.language.statements import Derivation, Identity
from numerics.proofs.ladder import Report

EVIDENCE = "> "
"""How a line begins that depends on evidence."""
EXACT_RUNGS = ("exact", "field", "every-length")


def page(catalogue: Catalogue, reports: Mapping[str, Report]) -> str:
    """The page as Markdown."""
    texts = words()["identities"]
    lines = [f"# {texts['title']}", "", texts["lead"], ""]
    for derivation in catalogue.derivations.values():
        lines += _system(derivation, reports)
    return "\n".join(lines)


def stated(text: str) -> list[str]:
    """The lines of a page that depend on statements alone."""
    return [line for line in text.splitlines() if not line.startswith(EVIDENCE)]


def _system(derivation: Derivation, reports: Mapping[str, Report]) -> Iterator[str]:
    if not derivation.identities:
        return
    yield from (f"## {_escaped(derivation.title)}", "", _escaped(derivation.summary), "")
    for name, form in derivation.forms.items():
        yield from (f"**{_escaped(name)}**", "", *_mathematics(form))
    for identity in derivation.identities:
        yield from _identity(Entry(derivation, identity), identity, reports)


def _identity(entry: Entry, identity: Identity, reports: Mapping[str, Report]) -> Iterator[str]:
    yield from (f"### `{entry.id}`", "")
    if identity.says:
        yield from (_escaped(identity.says), "")
    for side in (identity.left, identity.right):
        known = next((name for name, form in entry.derivation.forms.items() if form is side), "")
        yield from [f"*{_escaped(known)}*", ""] if known else _mathematics(side)
    if identity.assumptions:
        yield from (f"Assuming {', '.join(f'`{a.write(TEXT)}`' for a in identity.assumptions)}.", "")
    yield from (*_evidence(identity, reports.get(entry.id)), "")


def _evidence(identity: Identity, report: Report | None) -> Iterator[str]:
    if report is None:
        yield f"{EVIDENCE}**{NOT_CHECKED}**"
        return
    reached = (f"{e.rung} {cell(e)}" for e in report.evidence if e.rung in EXACT_RUNGS and e.verdict == "holds")
    yield f"{EVIDENCE}{', '.join([f'**{report.verdict}**', *reached])}"
    if report.counterexample is not None:
        for line in counterexample_lines(identity, report.counterexample):
            yield f"{EVIDENCE}<br>`{line.strip()}`"


def _mathematics(form: Form) -> Iterator[str]:
    r"""Each line a block of its own. GitHub refuses \operatorname, and Markdown would take \\ for a backslash."""
    for line in latex_lines(form):
        known = line.replace(r"\operatorname", r"\mathrm").replace(">=", r"\ge").replace(r"\\", r"\cr")
        yield from ("$$", known, "$$", "")


def _escaped(text: str) -> str:
    """Text without Markdown's and HTML's signs."""
    return re.sub(r"([\\`*_\[\]<>#|$])", r"\\\1", text)
