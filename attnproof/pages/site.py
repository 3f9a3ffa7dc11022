"""The site: which pages there are, what each is given, and how they are written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from attnproof.catalogue import Catalogue
from attnproof.claims import ClaimReport, decide_all
from attnproof.family import Edge, graph
from attnproof.pages import (
    api_reference,
    audited,
    charts,
    cost_record,
    costs,
    family_map,
    guides,
    implementations,
    notation,
    search,
    snippets,
)
from attnproof.pages.mathematics import mathml
from attnproof.pages.record import Record
from attnproof.pages.statements import NOT_CHECKED, ROOT, Shower, Shown, address, forms_of
from attnproof.pages.wording import words
from attnproof.readable import counted
from derivations.language.claims import EXPECTED
from derivations.language.statements import Derivation
from numerics.proofs.ladder import RUNGS

MARK = ".attnproof-site"
"""A file by which a folder is known to be a site that may be replaced."""
TOP = ("index", "ledger", "family", "costs", "implementations", "notation", "evidence", "api")
STATIC = ("style.css", "site.js", "search_index.js", "costs.json")
SIGNS = {
    "holds": "✓",
    "holds under assumptions": "✓",
    "refuted": "✗",
    "empirical": "○",
    "unknown": "?",
    "vacuous": "∅",
    NOT_CHECKED: "–",
}
"""A verdict is never told by its colour alone."""


class SiteError(Exception):
    """A folder that can't be written to; the message says what to change."""


@dataclass(frozen=True)
class System:
    """One derivation with everything that its page shows."""

    derivation: Derivation
    shown: tuple[Shown, ...]

    def of_kind(self, kind: str) -> list[Shown]:
        """Its identities, facts or backward passes, those apart that are expected to be refuted."""
        return [one for one in self.shown if one.kind == kind and not (kind == "identity" and one.is_refuted)]

    @property
    def refuted(self) -> list[Shown]:
        """The identities that are false, or expected to be."""
        return [one for one in self.shown if one.kind == "identity" and one.is_refuted]

    @property
    def unexpected(self) -> list[Shown]:
        """What hasn't the verdict that it is expected to have."""
        return [one for one in self.shown if not one.ok]

    def count(self, verdict: str) -> int:
        """How many statements are as expected, with this verdict."""
        return sum(one.ok and one.verdict == verdict for one in self.shown)

    @property
    def proved(self) -> int:
        """How many identities have a proof for every length."""
        return sum(rung.rung == "every-length" and rung.verdict == "holds" for one in self.shown for rung in one.rungs)


@dataclass(frozen=True)
class Site:
    """Everything that the pages are made of.

    Args:
        catalogue: the statements.
        record: the evidence.
        cost_sheets: by derivation.
        costs_from: a digest of what the costs were counted from.
        records: the folder of what was measured on devices.
        docs: the folder of the guides, which needn't be there.
        audit: the record of the audit, which needn't be there.
    """

    catalogue: Catalogue
    record: Record
    cost_sheets: Mapping[str, costs.CostSheet]
    costs_from: str = ""
    records: Path = ROOT / "docs" / "evidence"
    docs: Path = ROOT / "docs"
    audit: Path = ROOT / "docs" / "audit.json"

    @cached_property
    def systems(self) -> dict[str, System]:
        """Every derivation, shown."""
        shower = Shower(self.catalogue, self.record.reports)
        shown: dict[str, list[Shown]] = {name: [] for name in self.catalogue.derivations}
        for entry in self.catalogue.entries():
            shown[entry.derivation.name].append(shower.show(entry))
        return {name: System(derivation, tuple(shown[name])) for name, derivation in self.catalogue.derivations.items()}

    @cached_property
    def claims(self) -> tuple[ClaimReport, ...]:
        """Every claim with its verdict."""
        return decide_all(self.catalogue.claims(), list(self.record.reports.values()))

    @cached_property
    def edges(self) -> list[Edge]:
        """The reductions."""
        return graph(self.catalogue, list(self.record.reports.values()))

    @cached_property
    def fast(self) -> list[implementations.Fast]:
        """The implementations with what was measured."""
        return implementations.all_fast(self.records)

    @cached_property
    def all_shown(self) -> list[Shown]:
        """Every statement."""
        return [one for system in self.systems.values() for one in system.shown]

    @property
    def ok(self) -> bool:
        """Whether every verdict is the expected one."""
        return all(one.ok for one in self.all_shown) and all(report.ok for report in self.claims)

    def pages(self) -> Iterator[tuple[str, str]]:
        """The address of each file from the site's root, and its text."""
        return ((address, self.text(address)) for address in self.addresses())

    def addresses(self) -> list[str]:
        """Every file of the site."""
        systems = [f"systems/{name}.html" for name in self.catalogue.derivations]
        texts = [f"guides/{guide.name}.html" for guide in guides.found(self.docs)]
        return [*(f"{name}.html" for name in TOP), *systems, *texts, *(f"static/{name}" for name in STATIC)]

    def text(self, address: str) -> str:
        """One file by its address from the site's root."""
        folder, _, file = address.rpartition("/")
        name = file.removesuffix(".html")
        if folder == "systems":
            return self._render("system", "../", name, **self._system(self.systems[name]))
        if folder == "guides":
            guide = next(guide for guide in guides.found(self.docs) if guide.name == name)
            return self._render("guide", "../", name, guide=guide)
        if address == cost_record.FILE:
            return cost_record.written(self.cost_sheets, self.costs_from)
        if file == "search_index.js":
            return search.index(self.catalogue, self.all_shown, self.claims)
        if folder == "static":
            return files(__package__).joinpath("static", file).read_text(encoding="utf-8")
        return self._render(name, "", name, **getattr(self, f"_{name}")())

    @cached_property
    def _environment(self) -> Environment:
        made = Environment(
            loader=PackageLoader("attnproof.pages"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        made.globals.update(text=words(), top=TOP, signs=SIGNS, mathml=mathml, counted=counted, setting=costs.SETTING)
        made.globals.update(titles={name: one.title for name, one in self.catalogue.derivations.items()})
        made.globals.update(guide_names=[guide.name for guide in guides.found(self.docs)])
        made.globals.update(owner_of=_owner_of, arxiv=notation.web_address, addresses=self._addresses)
        made.globals.update(footer=self._footer, missing=len(self.record.missing(self.catalogue)))
        return made

    @cached_property
    def _addresses(self) -> dict[str, str]:
        return {entry.id: address(entry) for entry in self.catalogue.entries()}

    @cached_property
    def _footer(self) -> str:
        made = {"recorded": self.record.version, "seed": self.record.seed, "minutes": self._minutes}
        text: str = words()["site"]["footer"].format(version=version("attnproof"), **made)
        return text

    @property
    def _minutes(self) -> int:
        return max(1, round(self.record.seconds / 60))

    def _render(self, template: str, root: str, page: str, **given: Any) -> str:
        return self._environment.get_template(f"{template}.html").render(root=root, page=page, **given)

    def _index(self) -> dict[str, Any]:
        by_title = sorted(self.systems.values(), key=lambda system: system.derivation.title.lower())
        return {
            "systems": [system for system in by_title if system.derivation.forms],
            "others": [system for system in by_title if not system.derivation.forms],
            "shown": self.all_shown,
            "claims": self.claims,
            "documents": self.catalogue.documents.values(),
            "verdicts": EXPECTED,
        }

    def _ledger(self) -> dict[str, Any]:
        reports = iter(self.claims)
        documents = [(x, [next(reports) for _ in x.claims]) for x in self.catalogue.documents.values()]
        return {"documents": documents, "verdicts": (*EXPECTED, "unknown"), "says": self._says}

    @cached_property
    def _says(self) -> dict[str, str]:
        return {one.id: one.says for one in self.all_shown}

    def _family(self) -> dict[str, Any]:
        drawn = family_map.draw(self.edges, {name: one.title for name, one in self.catalogue.derivations.items()})
        joined = {node.name for node in drawn.nodes}
        alone = [x for x in self.catalogue.derivations.values() if x.forms and x.name not in joined]
        return {"drawn": drawn, "edges": self.edges, "alone": alone}

    def _costs(self) -> dict[str, Any]:
        return {"sheets": self.cost_sheets, "totals": costs.TOTALS}

    def _implementations(self) -> dict[str, Any]:
        return {"fast": self.fast, "audited": audited.all_audited(self.audit)}

    def _notation(self) -> dict[str, Any]:
        return {
            "masks": charts.masks(),
            "gates": ", ".join(map(str, charts.GATES)),
            "symbols": notation.symbols(self.catalogue.derivations.values()),
        }

    def _evidence(self) -> dict[str, Any]:
        counts = {verdict: sum(one.verdict == verdict for one in self.all_shown) for verdict in SIGNS}
        return {"counts": counts, "rungs": RUNGS, "record": self.record, "minutes": self._minutes}

    def _api(self) -> dict[str, Any]:
        return {"modules": api_reference.modules()}

    def _system(self, system: System) -> dict[str, Any]:
        own = system.derivation
        fast = [x for x in self.fast if x.declared.derivation == own.name]
        form, code = snippets.reference_code(own)
        return {
            "system": system,
            "derivation": own,
            "forms": forms_of(own),
            "symbols": notation.symbols([own]),
            "sheet": self.cost_sheets.get(own.name),
            "fast": fast,
            "errors": charts.error_curves(own.name, implementations.lines(fast)),
            "edges": [edge for edge in self.edges if own.name in (edge.general, edge.special)],
            "check": snippets.check(own, fast),
            "snippet": snippets.oracle(own),
            "code_of": form,
            "code": code,
        }


def _owner_of(id_: str) -> str:
    return id_.split(".")[0]


def write(pages: Iterator[tuple[str, str]], folder: Path) -> int:
    """Writes a site into a folder, the whole of it or nothing, and returns how many files it has.

    Raises:
        SiteError: the folder holds something else, or can't be written to.
    """
    if folder.exists() and not (folder / MARK).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SiteError(f"{folder} holds something that isn't a site of attnproof: choose an empty folder with --out")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".site-", dir=folder.parent) as made:
            count = _write_all(pages, Path(made) / "site")
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(Path(made) / "site", folder)
    except OSError as error:
        raise SiteError(f"can't write {folder}: {error.strerror}. Choose another --out") from error
    return count


def _write_all(pages: Iterator[tuple[str, str]], root: Path) -> int:
    count = 0
    for name, text in pages:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        count += 1
    (root / MARK).touch()
    return count


def build(catalogue: Catalogue, record: Record, folders: Sequence[str], jobs: int, old: Path) -> Site:
    """The site of a catalogue and a record of evidence.

    Args:
        catalogue: the statements.
        record: the evidence.
        folders: the user's folders of derivations.
        jobs: how many processes count costs.
        old: a site from which counts are taken over, as long as nothing that they follow from has changed.
    """
    made_from = cost_record.digest(folders)
    counted_before = cost_record.read(old, made_from)
    return Site(catalogue, record, counted_before or costs.sheets(catalogue, folders, jobs), made_from)
