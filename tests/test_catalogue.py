"""Derivations are found wherever they may be, and selected by name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import derivations
from attnproof.catalogue import VARIABLE, CatalogueError, load_catalogue

ROOT = Path(derivations.__path__[0])
OWN = {path.stem for path in (*ROOT.glob("*.py"), *ROOT.glob("ledger/*.py")) if not path.stem.startswith("_")}


def test_every_own_module_is_loaded_and_gives_a_derivation():
    catalogue = load_catalogue()
    assert catalogue.broken == ()
    assert {Path(d.place.file).stem for d in catalogue.derivations.values()} == OWN
    assert list(catalogue.documents) == ["document_000", "document_001", "document_003", "errata"]


def test_a_folder_is_searched_and_sys_path_is_as_before(write):
    folder = write("mine").parent
    before = list(sys.path)
    catalogue = load_catalogue([folder])
    assert sys.path == before
    assert catalogue.derivations["mine"].place.file == str(folder / "mine.py")
    assert [e.id for e in catalogue.entries()][-2:] == ["mine.transposed", "mine.masked"]


def test_the_environment_variable_lists_folders(write, monkeypatch):
    first, second = write("one", folder="a").parent, write("two", folder="b").parent
    monkeypatch.setenv(VARIABLE, f"{first}{os.pathsep}{second}")
    assert list(load_catalogue().derivations)[-2:] == ["one", "two"]


def test_a_folder_that_is_named_twice_is_searched_once(write, monkeypatch):
    folder = write("mine").parent
    monkeypatch.setenv(VARIABLE, str(folder))
    assert load_catalogue([folder, f"{folder}/"]).broken == ()


def test_files_of_the_same_name_in_two_folders_are_two_modules(write):
    first = write("system", 'a = Derivation("a", "A", "", {}, [])', folder="one").parent
    second = write("system", 'b = Derivation("b", "B", "", {}, [])', folder="two").parent
    assert list(load_catalogue([first, second]).derivations)[-2:] == ["a", "b"]


def test_modules_of_a_folder_import_one_another_and_leave_no_plain_names(write):
    write("helper", "product = Closed(Q @ K.T)")
    write("shared")
    folder = write(
        "uses", "from helper import product\nfrom shared import shared\n" + "u = Derivation('u', '', '', {}, [])"
    ).parent
    catalogue = load_catalogue([folder])
    assert catalogue.broken == ()
    assert {"shared", "u"} <= set(catalogue.derivations)
    assert not {"helper", "shared", "uses"} & set(sys.modules)


def test_tests_and_private_modules_are_left_alone(write):
    for name in ("test_mine", "_mine", "conftest"):
        write(name, "raise RuntimeError")
    assert load_catalogue([write("mine").parent]).broken == ()


@pytest.mark.parametrize("missing", ["argument", "variable"])
def test_a_folder_that_is_not_there_is_an_error(missing, tmp_path, monkeypatch):
    folder = tmp_path / "nowhere"
    if missing == "variable":
        monkeypatch.setenv(VARIABLE, str(folder))
    with pytest.raises(CatalogueError, match=str(folder)):
        load_catalogue([folder] if missing == "argument" else [])


def test_installed_packages_register_modules_and_derivations(write, tmp_path, monkeypatch):
    path = write("installed", 'x = Derivation("x", "X", "", {}, [])\ny = Derivation("y", "Y", "", {}, [])', "site")
    write("one", 'z = Derivation("z", "Z", "", {}, [])\nnumber = 3', "site")
    info = path.parent / "somebodys-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[attnproof.derivations]\na = installed\nb = one:z\nc = one:number\nd = missing_module\n"
    )
    monkeypatch.syspath_prepend(path.parent)
    catalogue = load_catalogue()
    assert list(catalogue.derivations)[-3:] == ["x", "y", "z"]
    number, missing = catalogue.broken
    assert number.file == str(path.parent / "one.py")
    assert "c = one:number is a int" in number.error
    assert "missing_module" in missing.error


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["mine"], ["mine.transposed", "mine.masked"]),
        (["mine.masked"], ["mine.masked"]),
        (["mine.masked", "mine"], ["mine.transposed", "mine.masked"]),
        (["min?"], ["mine.transposed", "mine.masked"]),
        (["mine.m*", "mine.[m]asked"], ["mine.masked"]),
    ],
)
def test_names_select_derivations_and_identities_in_the_catalogues_order(write, names, expected):
    catalogue = load_catalogue([write("mine").parent])
    assert [entry.id for entry in catalogue.select(names)] == expected


def test_without_names_everything_is_selected(write):
    catalogue = load_catalogue([write("mine").parent])
    assert catalogue.select() == catalogue.entries()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mime", r"'mime'.*Did you mean mine\?.*gated_deltanet"),
        ("mine.maskd", r"Did you mean mine\.masked.*There are: mine\.transposed, mine\.masked\."),
        ("zzz*", r"There are: .*mine"),
    ],
)
def test_an_unknown_name_gets_suggestions_and_what_there_is(write, name, said):
    catalogue = load_catalogue([write("mine").parent])
    with pytest.raises(CatalogueError, match=said):
        catalogue.select([name])


def test_an_unknown_name_is_told_which_modules_are_broken(write):
    path = write("mine", "1 / 0")
    with pytest.raises(CatalogueError, match=rf"{path}:2: ZeroDivisionError"):
        load_catalogue([path.parent]).select(["mine"])
