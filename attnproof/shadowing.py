"""attnproof's own packages must be the ones that Python finds: runs before anything else of attnproof is imported.

`derivations`, `numerics` and `gpu` are names that other code uses too. Where another one is found first, importing
attnproof stops with both paths, instead of failing later somewhere inside that other package.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("derivations", "numerics", "gpu")
ROOT = Path(__file__).resolve().parent.parent


def check(root: Path = ROOT) -> None:
    """Compares where Python finds each package with where it has to be, beside attnproof's own folder.

    Raises:
        ImportError: another package of the same name is found first, or none is; the message names both paths.
    """
    for name in PACKAGES:
        expected, found = root / name / "__init__.py", _found(name)
        if found is None or found.resolve() != expected:
            raise ImportError(
                f"attnproof needs its own package {name!r} at {expected}, but Python finds "
                f"{found or 'none'}{' first' if found else ''}. "
                "Rename or move the other one, or take its folder off sys.path (PYTHONPATH, the current folder), "
                "or install attnproof into an environment of its own.",
                name=name,
            )


def _found(name: str) -> Path | None:
    """The file of a package, or the folder of one without `__init__.py`; nothing of it is run."""
    loaded = sys.modules.get(name)
    spec = find_spec(name) if loaded is None else loaded.__spec__
    if spec is None:
        return None
    if spec.origin is not None:
        return Path(spec.origin)
    folders = list(spec.submodule_search_locations or ())
    return Path(folders[0]) if folders else None
