"""Judging a result file: each array against the expected one, entry by entry, in units of its tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnproof.emitting.arguments import OUTPUT
from attnproof.emitting.layouts import parse_layout
from attnproof.vectors.files import VectorError, read, read_group, read_manifest
from attnproof.vectors.making import EXPECTED, FORMAT, GRADIENT, TOLERANCE

WORDS = {"b": "batch", "h": "head", "t": "token", "T": "second token", "k": "key channel", "v": "value channel"}


@dataclass(frozen=True)
class Judged:
    """One array that was judged.

    Args:
        name: which.
        ratio: the largest error, in units of its tolerance; infinite where a number isn't finite.
        outside: how many entries are outside, and of how many.
        worst: where the largest error is, in words.
        value, expected: what stands there, and what should.
    """

    name: str
    ratio: float
    outside: tuple[int, int]
    worst: str
    value: float
    expected: float

    @property
    def ok(self) -> bool:
        return self.ratio <= 1


@dataclass(frozen=True)
class Verdict:
    """What is said of a result file."""

    judged: tuple[Judged, ...]
    missing: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether everything was there, and all of it within its tolerance."""
        return bool(self.judged) and not self.missing and all(one.ok for one in self.judged)


def judge(result: Path, folder: Path, forward: bool = False) -> Verdict:
    """Judges a result file against a folder of vectors.

    Args:
        result: a safetensors or npz file with arrays of the names in the folder's `expected`.
        folder: what `attnproof vectors` wrote.
        forward: only outputs and final states are asked for.

    Raises:
        VectorError: a file is missing or damaged, or an array has another name or shape.
    """
    manifest = read_manifest(folder)
    if manifest.get("format") != FORMAT:
        raise VectorError(f"{folder} has format {manifest.get('format')}; this version reads format {FORMAT}")
    expected, tolerance = (read_group(folder, group, manifest) for group in (EXPECTED, TOLERANCE))
    given = read(result)
    unknown = sorted(given.keys() - expected.keys())
    if unknown:
        raise VectorError(f"{result} has {', '.join(unknown)}; the names are {', '.join(sorted(expected))}")
    wanted = [name for name in expected if not (forward and name.startswith(GRADIENT))]
    present = sorted(given, key=lambda name: (name.startswith(GRADIENT), name != OUTPUT, name))
    judged = [_judged(name, given[name], expected, tolerance, manifest) for name in present]
    return Verdict(tuple(judged), tuple(name for name in wanted if name not in given))


def _judged(
    name: str,
    value: np.ndarray,
    expected: Mapping[str, np.ndarray],
    tolerance: Mapping[str, np.ndarray],
    manifest: Mapping[str, Any],
) -> Judged:
    wanted, allowed = expected[name], tolerance[name]
    if value.shape != wanted.shape:
        raise VectorError(f"{name} has the shape {value.shape}; expected is {wanted.shape}")
    error = abs(value - wanted)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error == 0, 0.0, error / allowed)
    ratio = np.where(np.isfinite(value), ratio, np.inf)
    place = np.unravel_index(np.argmax(ratio), ratio.shape)
    outside = int((ratio > 1).sum()), ratio.size
    return Judged(name, float(ratio[place]), outside, _in_words(name, place, manifest), value[place], wanted[place])


def _in_words(name: str, place: tuple[Any, ...], manifest: Mapping[str, Any]) -> str:
    """A place: "batch 0, token 17, head 1, value channel 3", counted from 0."""
    written = manifest["layouts"].get(name.removeprefix(GRADIENT), "")
    words = parse_layout(written).words or tuple(f"dimension {axis}" for axis in range(len(place)))
    return ", ".join(f"{WORDS.get(word, word)} {index}" for word, index in zip(words, place, strict=True))
