"""Which derivations there are: attnproof's own, those in folders of the user's, and those that packages register.

A module that can't be loaded doesn't stop the others. It is kept as a `BrokenModule`, with the line that raised.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from traceback import walk_tb
from types import ModuleType
from typing import Any

import derivations
from derivations.language.claims import Claim, Document
from derivations.language.facts import Fact
from derivations.language.places import Place
from derivations.language.statements import Backward, Derivation, Identity, Reduction, compared_in

VARIABLE = "ATTNPROOF_DERIVATIONS"
"""The environment variable with more folders of derivations, separated as in PATH."""
GROUP = "attnproof.derivations"
"""The entry point group under which a package registers a module of derivations, or one Derivation."""
NOT_DERIVATIONS = ("_", "test_", "conftest.")
"""How the names of files begin that are left alone in a folder of derivations."""


class CatalogueError(Exception):
    """A folder that isn't there, or a name that nothing has; the message says what there is."""


@dataclass(frozen=True)
class BrokenModule:
    """A module that gave no derivation: its file, the line that raised, and what was raised."""

    file: str
    line: int
    error: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.error}"

    def as_json(self) -> dict[str, Any]:
        """The record of `verify --json`."""
        return {"file": self.file, "line": self.line, "error": self.error}


@dataclass(frozen=True)
class Entry:
    """One identity, fact or backward pass, with the derivation that it belongs to."""

    derivation: Derivation
    statement: Identity | Fact | Backward

    @property
    def id(self) -> str:
        return f"{self.derivation.name}.{self.statement.name}"

    @property
    def identity(self) -> Identity:
        """The statement, where it is an identity; of a backward pass that of its two modes.

        Raises:
            TypeError: it is a fact.
        """
        if isinstance(self.statement, Fact):
            raise TypeError(f"{self.id} is a fact, not an identity")
        return compared_in(self.statement)


@dataclass(frozen=True)
class Catalogue:
    """Every derivation and document by name, in the order in which they were found, and the modules that are broken."""

    derivations: Mapping[str, Derivation]
    broken: tuple[BrokenModule, ...] = ()
    documents: Mapping[str, Document] = field(default_factory=dict)

    def entries(self) -> list[Entry]:
        """Every identity, fact and backward pass, in order."""
        return [Entry(owner, statement) for owner in self.derivations.values() for statement in owner.statements]

    def claims(self) -> list[Claim]:
        """Every claim of every document, in order."""
        return [claim for document in self.documents.values() for claim in document.claims]

    def decided(self) -> dict[str, list[str]]:
        """For each identity and fact the ids of the claims that rest on it."""
        found: dict[str, list[str]] = {}
        for claim in self.claims():
            for name in claim.deciders:
                found.setdefault(name, []).append(claim.id)
        return found

    def reductions(self) -> list[tuple[Entry, Reduction]]:
        """The identities that make one system a special case of another."""
        return [(entry, entry.statement) for entry in self.entries() if isinstance(entry.statement, Reduction)]

    def select(self, names: Iterable[str] = ()) -> list[Entry]:
        """The identities and facts that the names select, in the catalogue's order; all of them without names.

        Args:
            names: derivations ("deltanet"), identities ("gated_deltanet.gamma_rewrite"), or patterns of either with
                `*`, `?` and `[...]`.

        Raises:
            CatalogueError: a name selects nothing.
        """
        entries, chosen, names = self.entries(), set(), tuple(names)
        for name in names:
            found = {e.id for e in entries if fnmatchcase(e.derivation.name, name) or fnmatchcase(e.id, name)}
            if not found:
                raise CatalogueError(self._nothing_named(name))
            chosen |= found
        return [e for e in entries if e.id in chosen or not names]

    def select_claims(self, ids: Iterable[str] = ()) -> list[Claim]:
        """The claims with these ids, or patterns of ids; all of them without ids.

        Raises:
            CatalogueError: an id selects nothing.
        """
        ids, claims = tuple(ids), self.claims()
        for pattern in ids:
            if not any(fnmatchcase(claim.id, pattern) for claim in claims):
                documents = (f"{x.name} ({x.claims[0].id} to {x.claims[-1].id})" for x in self.documents.values())
                raise CatalogueError(f"no claim has the id {pattern!r}. There are: {', '.join(documents) or 'none'}")
        return [claim for claim in claims if not ids or any(fnmatchcase(claim.id, pattern) for pattern in ids)]

    def _nothing_named(self, name: str) -> str:
        if name in self.derivations:
            return f"{name} has no identities"
        owner = self.derivations.get(name.split(".")[0])
        known = list(self.derivations) if owner is None else [f"{owner.name}.{x.name}" for x in owner.statements]
        close = get_close_matches(name, [*self.derivations, *(e.id for e in self.entries())])
        suggestion = f" Did you mean {' or '.join(close)}?" if close else ""
        broken = f" Modules that can't be loaded: {'; '.join(map(str, self.broken))}" if self.broken else ""
        return f"no derivation or identity is named {name!r}.{suggestion} There are: {', '.join(known)}.{broken}"


def load_catalogue(folders: Iterable[str | Path] = ()) -> Catalogue:
    """Imports every module of derivations: attnproof's own, then those in `folders`, then those in the folders of
    ATTNPROOF_DERIVATIONS, then those that installed packages register.

    Raises:
        CatalogueError: a folder isn't there, or a module that is being loaded asks for the catalogue.
    """
    if _LOADING:
        raise CatalogueError(
            "a module of derivations asks for the catalogue while it is loaded; "
            "keep scripts that call attnproof outside the folders of derivations"
        )
    _LOADING.append(True)
    try:
        return _loaded(folders)
    finally:
        _LOADING.clear()


_LOADING: list[bool] = []
"""Not empty while modules are loaded."""


def _loaded(folders: Iterable[str | Path]) -> Catalogue:
    found = _Found()
    for name, file in _own_modules():
        found.load(file, partial(import_module, name))
    for folder in all_folders(folders):
        with _importable(folder):
            for path in sorted(folder.glob("*.py")):
                if not path.name.startswith(NOT_DERIVATIONS):
                    found.load(str(path), partial(_module_at, path))
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        found.load(_file_of(point), partial(_registered, point))
    found.check_names()
    return Catalogue(found.derivations, tuple(found.broken), found.documents)


def all_folders(folders: Iterable[str | Path] = ()) -> list[Path]:
    """The given folders and those of ATTNPROOF_DERIVATIONS, absolute and once each.

    Raises:
        CatalogueError: one of them isn't there.
    """
    given = [Path(folder) for folder in folders]
    for folder in given:
        if not folder.is_dir():
            raise CatalogueError(f"no folder {folder} to look for derivations in")
    listed = [Path(folder) for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]
    for folder in listed:
        if not folder.is_dir():
            raise CatalogueError(f"{VARIABLE} names {folder}, which isn't a folder")
    return list(dict.fromkeys(folder.resolve() for folder in (*given, *listed)))


@dataclass
class _Found:
    """What the modules that were loaded so far have given."""

    derivations: dict[str, Derivation] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    broken: list[BrokenModule] = field(default_factory=list)

    def load(self, file: str, load: Callable[[], ModuleType | Derivation]) -> None:
        """Takes up the derivations of one module, or notes that it is broken."""
        try:
            loaded = load()
        except (Exception, SystemExit) as error:
            self.broken.append(broken_by(error, file))
            return
        values = vars(loaded).values() if isinstance(loaded, ModuleType) else [loaded]
        for value in values:
            if isinstance(value, Derivation):
                self._add(value, self.derivations, file)
            elif isinstance(value, Document):
                self._add(value, self.documents, file)

    def _add(self, found: Any, known: dict[str, Any], file: str) -> None:
        name, place = found.name, found.place
        first = known.setdefault(name, found)
        kind = type(found).__name__.lower()
        first_module = self.modules.setdefault(f"{kind} {name}", file)
        if first is found or (first.place == place and first_module != file):
            return  # the same statement again, where one module of a folder imports another
        error = f"a second {kind} is named {name!r}; the first is at {first.place}. Rename one of them"
        self.broken.append(BrokenModule(place.file, place.line, error))

    def check_names(self) -> None:
        """Notes claims of two documents under one id, and reductions of systems that aren't there."""
        owners: dict[str, str] = {}
        for document in self.documents.values():
            for claim in document.claims:
                if owners.setdefault(claim.id, document.name) != document.name:
                    self._note(claim.source, f"{owners[claim.id]} has a claim {claim.id} as well")
        for derivation in self.derivations.values():
            for reduction in derivation.identities:
                if isinstance(reduction, Reduction):
                    for name in {reduction.general, reduction.special} - self.derivations.keys():
                        error = f"the reduction {reduction.name!r} names {name!r}, and there is no such derivation"
                        self._note(reduction.place, error)

    def _note(self, place: Place, error: str) -> None:
        self.broken.append(BrokenModule(place.file, place.line, error))


def broken_by(error: BaseException, file: str) -> BrokenModule:
    """Where in a file an exception comes from: the deepest of its lines on the way, or the line that doesn't parse."""
    what = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if isinstance(error, SyntaxError) and error.filename == file:
        return BrokenModule(file, error.lineno or 1, f"SyntaxError: {error.msg}")
    lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return BrokenModule(file, lines[-1] if lines else 1, what)


def _own_modules() -> list[tuple[str, str]]:
    """The modules of derivations, then those of the ledger, which name what decides their claims."""
    root = Path(derivations.__path__[0])
    found = []
    for package, folder in (("derivations", root), ("derivations.ledger", root / "ledger")):
        names = sorted(m.name for m in iter_modules([str(folder)]) if not m.ispkg and not m.name.startswith("_"))
        found += [(f"{package}.{name}", str(folder / f"{name}.py")) for name in names]
    return found


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """The folder's modules can import one another; afterwards sys.path and the modules' plain names are as before."""
    path, modules = list(sys.path), set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).is_relative_to(folder) and not name.startswith(_prefix(folder)):
                del sys.modules[name]


def _prefix(folder: Path) -> str:
    """Files of the same name in two folders are two modules."""
    return f"_attnproof_{sha256(str(folder).encode()).hexdigest()[:12]}_"


def _module_at(path: Path) -> ModuleType:
    name = f"{_prefix(path.parent)}{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _file_of(point: EntryPoint) -> str:
    try:
        spec = find_spec(point.module)
    except (ImportError, ValueError):
        spec = None
    return spec.origin if spec is not None and spec.origin else f"entry point {point.name} = {point.value}"


def _registered(point: EntryPoint) -> ModuleType | Derivation:
    loaded = point.load()
    if not isinstance(loaded, ModuleType | Derivation):
        kind = type(loaded).__name__
        raise TypeError(f"the entry point {point.name} = {point.value} is a {kind}, not a module or a Derivation")
    return loaded
