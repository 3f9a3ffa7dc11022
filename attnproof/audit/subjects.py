"""What is audited: a public function of a library at a pinned version, how it is called, and what it should compute."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from attnproof.oracle.conventions import Layout
from attnproof.triton_on_cpu import interpret_triton

Kernel = Callable[..., Any]
Adapter = Callable[[Any], Kernel]
"""Makes a kernel that the oracle can call of what a library has: renames, moves axes, and computes nothing else."""


@dataclass(frozen=True)
class Library:
    """A distribution of the package index.

    Attributes:
        name: of the distribution.
        package: what is imported.
        pinned: the version that is audited.
        by_file: whether modules are loaded from their files, since importing the package needs what isn't there.
        triton: the version of Triton whose interpreter runs its kernels; None for a library that needs none.
    """

    name: str
    package: str
    pinned: str
    by_file: bool = False
    triton: str | None = None

    @property
    def misses(self) -> str:
        """Why it can't be audited, in words; empty where it can."""
        wanted = {self.name: self.pinned} | ({"triton": self.triton} if self.triton else {})
        for name, pinned in wanted.items():
            installed = installed_version(name)
            if installed is None:
                return f"{name} {pinned} isn't installed"
            if installed != pinned:
                return f"{name} {installed} is installed, and {pinned} is what is audited"
        return ""

    def load(self, home: str, needs: tuple[str, ...] = ()) -> Any:
        """What "module:name" is, without the decorator that swaps in another kernel where one is installed.

        Args:
            home: its place.
            needs: modules of the same library that it imports.

        Raises:
            ImportError, AttributeError: it isn't there.
        """
        module, _, name = home.partition(":")
        if self.triton:
            interpret_triton()
        if self.by_file:
            for needed in needs:
                sys.modules.setdefault(needed, self._from_file(needed))
            found: Any = self._from_file(module)
        else:
            found = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return inspect.unwrap(found) if callable(found) else found

    def _from_file(self, module: str) -> ModuleType:
        package = find_spec(self.package)
        if package is None or not package.submodule_search_locations:
            raise ImportError(f"no package {self.package}")
        inside = module.removeprefix(f"{self.package}.").split(".")
        file = Path(package.submodule_search_locations[0], *inside).with_suffix(".py")
        spec = spec_from_file_location(module, file)
        if spec is None or spec.loader is None or not file.exists():
            raise ImportError(f"no file {'/'.join(inside)}.py in {self.package}")
        loaded = module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded


def installed_version(name: str) -> str | None:
    """Of a distribution; None where it isn't installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def as_it_is(function: Any) -> Kernel:
    """No adapter."""
    kernel: Kernel = function
    return kernel


@dataclass(frozen=True)
class Instead:
    """What a function that fails computes, as something that can be checked: with this adapter it must hold.

    Attributes:
        adapter: calls it so that it should compute the system after all.
        says: what that shows.
    """

    adapter: Adapter
    says: str


@dataclass(frozen=True)
class Expected:
    """What is known to be found.

    Attributes:
        checks: the checks that fail, as far as they are tried.
        says: what it is, in words for a reader who knows neither side.
        instead: confirms the words.
        also: the checks that may fail besides; None for any, since the whole formula is another one.
    """

    checks: frozenset[str]
    says: str
    instead: Instead | None = None
    also: frozenset[str] | None = frozenset()

    def fits(self, failed: set[str], tried: set[str]) -> bool:
        """Whether what failed, of what was tried, is what is known."""
        known = self.checks & tried
        return known <= failed and (self.also is None or failed <= known | self.also)


NOTHING = Expected(frozenset(), "")


def another_formula(says: str, instead: Instead | None = None) -> Expected:
    """Of a function that computes another formula: these checks fail at any rate, and others as well."""
    return Expected(frozenset({"lengths", "no initial state", "gradients in norm"}), says, instead, also=None)


@dataclass(frozen=True)
class Subject:
    """One public function.

    Attributes:
        name: "fla-core.comba.recurrent".
        library: where it comes from.
        home: "module:function".
        derivation: the system of the catalogue that it should compute.
        layout: as for `attnproof.check_kernel`, of what the adapter makes.
        adapter: makes a kernel of the function.
        called: in words, what the adapter does.
        constants: other arguments.
        chunk_size: its blocks, or the oracle's where it has none.
        arrays: "torch", or "numpy" for a function that has no backward pass.
        dtype: the precision of its inputs.
        needs: modules of the library that it imports, where they are loaded from files.
        same_source: other places whose source is the same to the letter; checked.
        expected: what is found.
    """

    name: str
    library: Library
    home: str
    derivation: str
    layout: Layout = "fla"
    adapter: Adapter = as_it_is
    called: str = "as it is"
    constants: Mapping[str, Any] = field(default_factory=dict)
    chunk_size: int = 16
    arrays: str = "torch"
    dtype: str = "float32"
    needs: tuple[str, ...] = ()
    same_source: tuple[str, ...] = ()
    expected: Expected = NOTHING

    @property
    def confirmation(self) -> str:
        """What is said where a finding's words were confirmed."""
        return self.expected.instead.says if self.expected.instead else ""

    def load(self) -> Any:
        """The public function."""
        return self.library.load(self.home, self.needs)

    def kernel(self) -> Kernel:
        """What the oracle calls."""
        return self.adapter(self.load())

    def differing(self) -> list[str]:
        """Those of `same_source` whose source is another one."""
        own = _without_decorators(self.load())
        return [home for home in self.same_source if _without_decorators(self.library.load(home)) != own]


def _without_decorators(function: Any) -> str:
    source = inspect.getsource(function)
    return source[source.index("def ") :]
