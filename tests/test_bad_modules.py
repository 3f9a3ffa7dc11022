"""Bad input from a user's folder: each is named with file and line, and the other modules still run."""

from __future__ import annotations

import pytest

import attnproof

IDENTITY = """
wrong = Derivation("wrong", title="Wrong", summary="", forms={{}}, identities=[
    Identity("statement", {sides}),
])
"""
BROKEN = {
    "a product that doesn't fit": (
        "x = 1\nclosed = Closed(Q @ K @ V)",
        3,
        "ShapeError: can't multiply Q (n x d_k) by K (n x d_k): d_k columns against n rows",
    ),
    "a sum that doesn't fit": (
        "closed = Closed(Q + V)",
        2,
        "ShapeError: can't add Q (n x d_k) and V (n x d_v)",
    ),
    "the inverse of a matrix that isn't square": (
        "def form():\n    return Closed(Q.I @ V)\nclosed = form()",
        3,
        "ShapeError: can't invert Q (n x d_k): it isn't square",
    ),
    "sides of two shapes": (
        'identity = Identity("x", Closed(Q), Closed(V))',
        2,
        "ShapeError: can't compare the two sides of 'x': left (n x d_k) and right (n x d_v)",
    ),
    "an exception": ("values = {}\nvalues['a']", 3, "KeyError: 'a'"),
    "an exit": ("import sys\nsys.exit(3)", 3, "SystemExit: 3"),
    "an import that isn't there": ("import no_such_module", 2, "ModuleNotFoundError: No module named 'no_such_module'"),
    "a syntax error": ("\nx = (1,\ny = 2", 3, "SyntaxError: '(' was never closed"),
    "two identities of one name": (
        'same = Identity("x", Closed(Q), Closed(K))\nd = Derivation("d", "", "", {}, [same, same])',
        3,
        "StatementError: d has two identities with the name 'x'",
    ),
    "an assumption that says nothing": (
        "assume(gamma[t] ** 2 >= -1)",
        2,
        "StatementError: this assumption is True whatever the inputs are: it says nothing about them",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_module_that_cannot_be_loaded_is_named_with_its_line(write, case):
    text, line, error = BROKEN[case]
    write("good")
    path = write("bad", text)
    found = attnproof.verify("good", rungs=["exact"], derivations=[path.parent])
    assert [report.ok for report in found.reports] == [True, True]
    (broken,) = found.broken
    assert (broken.file, broken.line) == (str(path), line)
    assert broken.error == error
    assert not found.ok


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        ("Closed(Q @ K.T), Closed(Q @ K.T)", "the two sides are the same statement"),
        (
            "Closed(Q @ K.T), Closed((K @ Q.T).T), assumptions=(assume(gamma[t] > 1), assume(gamma[t] < 0))",
            "no input fulfils gamma_t > 1 and gamma_t < 0",
        ),
    ],
)
def test_a_statement_that_shows_nothing_is_vacuous(write, sides, said):
    path = write("wrong", IDENTITY.format(sides=sides))
    write("good")
    found = attnproof.verify("good", "wrong", rungs=["exact"], derivations=[path.parent])
    *good, wrong = found.reports
    assert [report.ok for report in good] == [True, True]
    assert (wrong.verdict, wrong.ok, found.ok) == ("vacuous", False, False)
    assert f"{path}:4: {said}" in found.why(wrong)


def test_one_object_on_both_sides_is_vacuous(write):
    path = write("wrong", "form = Closed(Q @ K.T)" + IDENTITY.format(sides="form, form"))
    (report,) = attnproof.verify("wrong", rungs=["exact"], derivations=[path.parent]).reports
    assert report.verdict == "vacuous"


def test_a_second_derivation_of_the_same_name_is_named_with_the_first(write):
    first = write("a", 'one = Derivation("same", "A", "", {}, [])')
    second = write("b", '\ntwo = Derivation("same", "B", "", {}, [])')
    write("good")
    found = attnproof.verify("good", rungs=["exact"], derivations=[first.parent])
    (broken,) = found.broken
    assert str(broken).startswith(f"{second}:3: ")
    assert f"'same'; the first is at {first}:2" in broken.error
    assert [report.ok for report in found.reports] == [True, True]


def test_a_name_of_attnproofs_own_is_taken(write):
    path = write("mine", 'mine = Derivation("gated_deltanet", "Mine", "", {}, [])')
    (broken,) = attnproof.load_catalogue([path.parent]).broken
    assert broken.file == str(path)
    assert "gated_deltanet.py" in broken.error


def test_two_derivations_of_one_name_from_one_line_are_two(write):
    path = write("mine", 'x, y = [Derivation("twice", "", "", {}, []) for _ in range(2)]')
    (broken,) = attnproof.load_catalogue([path.parent]).broken
    assert (broken.file, broken.line) == (str(path), 2)


def test_a_check_that_raises_is_unknown_and_says_where(write):
    text = "def raises(algebra, Q, K):\n    raise LookupError('nothing')\n"
    path = write("wrong", text + IDENTITY.format(sides="Closed(Q @ K.T), Algorithm(raises, (Q, K))"))
    write("good")
    found = attnproof.verify("good", "wrong", rungs=["exact"], derivations=[path.parent])
    *good, wrong = found.reports
    assert [report.ok for report in good] == [True, True]
    assert wrong.verdict == "unknown"
    assert f"{path}:6: the check raised LookupError: nothing (at {path}:3)" in found.why(wrong)


def test_a_script_in_the_folder_that_verifies_it_is_told_to_move(write):
    path = write("script", "import attnproof\nattnproof.verify(derivations=['.'])\n")
    write("good")
    catalogue = attnproof.load_catalogue([path.parent])
    assert "good" in catalogue.derivations
    (broken,) = catalogue.broken
    assert broken.file == str(path)
    assert "outside the folders of derivations" in broken.error
