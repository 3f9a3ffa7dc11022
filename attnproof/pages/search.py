"""The search index: a script that sets one variable, since a page that is opened as a file can't fetch anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from attnproof.catalogue import Catalogue
from attnproof.claims import ClaimReport
from attnproof.pages.statements import Shown
from derivations.language.forms import Form
from derivations.language.statements import Derivation

Item = dict[str, str]
"""What is found: its kind, its name, what it says, and its address from the site's root."""


def index(catalogue: Catalogue, shown: Iterable[Shown], claims: Sequence[ClaimReport]) -> str:
    """The index of systems, symbols, statements and claims as JavaScript."""
    items = [*_systems(catalogue), *_symbols(catalogue), *_statements(shown), *_claims(claims)]
    text = json.dumps(items, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f"window.ATTNPROOF_INDEX = {text};\n"


def _systems(catalogue: Catalogue) -> Iterator[Item]:
    for name, derivation in catalogue.derivations.items():
        text = f"{name} {derivation.summary}"
        yield _item("system", derivation.title, text, f"systems/{name}.html")


def _symbols(catalogue: Catalogue) -> Iterator[Item]:
    """Each symbol once, with the systems whose forms read it."""
    users: dict[str, list[Derivation]] = {}
    for derivation in catalogue.derivations.values():
        for symbol in symbols_of(derivation.forms.values()):
            users.setdefault(symbol, []).append(derivation)
    for symbol, owners in sorted(users.items()):
        titles = ", ".join(owner.title for owner in owners)
        yield _item("symbol", symbol, titles, "notation.html#symbols")


def symbols_of(forms: Iterable[Form]) -> list[str]:
    """The names of everything that forms read or carry."""
    return sorted({str(x) for form in forms for x in (*form.symbols(), *form.states)})


def _statements(shown: Iterable[Shown]) -> Iterator[Item]:
    for statement in shown:
        yield _item(statement.kind, statement.id, statement.says, statement.address)


def _claims(claims: Iterable[ClaimReport]) -> Iterator[Item]:
    for report in claims:
        yield _item("claim", report.claim.id, report.claim.says, f"ledger.html#{report.claim.id}")


def _item(kind: str, name: str, text: str, address: str) -> Item:
    return {"kind": kind, "name": name, "text": text, "address": address}
