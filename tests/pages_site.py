"""A site for tests: the whole catalogue, with evidence for a few systems and none for the others."""

from __future__ import annotations

from functools import cache
from typing import Any

from attnproof.catalogue import Catalogue, load_catalogue
from attnproof.checking import Settings
from attnproof.pages.costs import sheet
from attnproof.pages.record import Record, from_json
from attnproof.pages.site import Site
from attnproof.verification import run

CHECKED = ("gated_deltanet", "cope", "family")
"""Forms, refutations, backward passes and claims; facts; the map."""
COUNTED = ("alibi", "gated_deltanet")


@cache
def catalogue() -> Catalogue:
    return load_catalogue()


@cache
def record_json() -> dict[str, Any]:
    """The record of a verification of the systems in CHECKED."""
    found = catalogue()
    rungs = ("typed", "exact", "every-length", "assumptions")
    return run(found, found.select(CHECKED), Settings(rungs=rungs)).as_json()


@cache
def record() -> Record:
    return from_json(record_json())


@cache
def site() -> Site:
    sheets = {name: sheet(catalogue().derivations[name]) for name in COUNTED}
    return Site(catalogue(), record(), sheets)


@cache
def pages() -> dict[str, str]:
    """Every file of the site."""
    return dict(site().pages())
