"""Files of arrays: safetensors and npz, each written whole or not at all, and read without running anything in them.

No pickle: npz files are read with `allow_pickle=False`, and safetensors files hold nothing but numbers.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

Arrays = Mapping[str, np.ndarray]
MANIFEST = "manifest.json"
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""The floating types of safetensors, and how their bytes are read."""


class VectorError(Exception):
    """A folder or a file that can't be used; the message says what is wrong with it and what to do."""


def has_safetensors() -> bool:
    """Whether the library is installed (the extra `vectors`)."""
    return find_spec("safetensors") is not None


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A place to write to; at the end it takes the path's place, and if anything interrupts it is removed."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        if unfinished.is_dir():
            shutil.rmtree(unfinished)
        unfinished.unlink(missing_ok=True)


def write_folder(folder: Path, groups: Mapping[str, Arrays], manifest: Mapping[str, Any]) -> list[str]:
    """Writes each group of arrays as safetensors, where that is installed, and as npz; then the manifest.

    Returns:
        The names of the files.

    Raises:
        VectorError: the folder has something in it, or can't be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise VectorError(f"{folder} isn't an empty folder: choose another one for --out")
    try:
        with replaced(folder) as unfinished:
            unfinished.mkdir()
            names = [name for group, arrays in groups.items() for name in _write_group(unfinished / group, arrays)]
            sums = {name: sum_of(unfinished / name) for name in names}
            text = json.dumps({**manifest, "sha256": sums}, indent=2, ensure_ascii=False)
            (unfinished / MANIFEST).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise VectorError(f"can't write {folder}: {error.strerror}. Choose another folder for --out") from error
    return [*names, MANIFEST]


def _write_group(stem: Path, arrays: Arrays) -> list[str]:
    packed = stem.with_suffix(".npz")
    np.savez(packed, allow_pickle=False, **{name: arrays[name] for name in sorted(arrays)})
    if not has_safetensors():
        return [packed.name]
    from safetensors.numpy import save

    plain = stem.with_suffix(".safetensors")
    plain.write_bytes(save({name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}))
    return [plain.name, packed.name]


def sum_of(path: Path) -> str:
    """The SHA-256 of a file."""
    return sha256(path.read_bytes()).hexdigest()


def read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors or npz file by name, in float64.

    Raises:
        VectorError: it isn't such a file, or it is damaged.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise VectorError(f"can't read {path}: {error.strerror}") from error
    if path.suffix == ".npz":
        return _read_npz(path)
    if path.suffix == ".safetensors":
        return _read_safetensors(path, data)
    raise VectorError(f"{path} is neither .safetensors nor .npz")


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except (ValueError, OSError, EOFError, BadZipFile, KeyError) as error:
        raise VectorError(f"{path} is damaged, or holds objects and not numbers: {error}") from error
    for name, value in arrays.items():
        if value.dtype.kind != "f":
            raise VectorError(f"{name} in {path} is {value.dtype}: write floating point numbers")
    return {name: value.astype(np.float64) for name, value in arrays.items()}


def _read_safetensors(path: Path, data: bytes) -> dict[str, np.ndarray]:
    if not has_safetensors():
        raise VectorError(f"{path} needs the library safetensors (pip install 'attnproof[vectors]'); or write an .npz")
    from safetensors import SafetensorError, deserialize

    try:
        return {name: _as_float64(name, spec, path) for name, spec in deserialize(data)}
    except SafetensorError as error:
        raise VectorError(f"{path} is damaged: {error}") from error


def _as_float64(name: str, spec: Mapping[str, Any], path: Path) -> np.ndarray:
    if spec["dtype"] not in DTYPES:
        raise VectorError(f"{name} in {path} is {spec['dtype']}: write one of {', '.join(DTYPES)}")
    value = np.frombuffer(bytes(spec["data"]), dtype=DTYPES[spec["dtype"]]).reshape(spec["shape"])
    if spec["dtype"] == "BF16":  # the upper half of a float32
        value = (value.astype("<u4") << 16).view("<f4")
    return value.astype(np.float64)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of vectors.

    Raises:
        VectorError: there is none, or it can't be read.
    """
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise VectorError(f"{folder} has no {MANIFEST}: name the folder that `attnproof vectors` wrote") from error
    except (OSError, ValueError) as error:
        raise VectorError(f"{folder / MANIFEST} can't be read: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("sha256"), dict):
        raise VectorError(f"{folder / MANIFEST} isn't a manifest of attnproof")
    return found


def read_group(folder: Path, group: str, manifest: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """A group of arrays, once its file is seen to be the one that was written.

    Raises:
        VectorError: the file is missing, or has changed since.
    """
    path = folder / f"{group}.npz"  # always written
    arrays = read(path)
    if sum_of(path) != manifest["sha256"].get(path.name):
        raise VectorError(f"{path} isn't the file that was written: its SHA-256 differs. Write the vectors again")
    return arrays
