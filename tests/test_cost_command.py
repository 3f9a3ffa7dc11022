"""`attnproof cost`: polynomials side by side, what follows from them, and what isn't counted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sympy import sympify
from test_documentation import blocks, lines_of, text_of

from attnproof.catalogue import load_catalogue
from attnproof.commands import attnproof
from attnproof.cost_sheets import polynomial_text
from derivations.language import d_k, d_v, n
from numerics.costs.best_chunk import SMALLEST
from numerics.costs.comparison import Setting
from numerics.costs.forms import BLOCKS, FIRST, FURTHER
from numerics.evaluate import CHUNK as C

OWN = """
r = Symbol("r", integer=True, positive=True)
W = Parameter("W", r, d_k)
mine = Derivation("mine", "Mine", "", {
    "projected": Closed(Q @ W.T),
    "logarithm": Closed(log(Q)),
    "broken": Algorithm(lambda algebra, Q: Q.no_such_thing, inputs=(Q,)),
}, [])
only_facts = Derivation("only_facts", "Only facts", "", {}, [], facts=[Fact("one", Equal(1, 1))])
"""


def cost(*arguments: str) -> Result:
    return CliRunner().invoke(attnproof, ["cost", *arguments])


def cells(found: Result, head: str) -> dict[str, list[str]]:
    """The rows of the first table whose header begins so."""
    lines = found.stdout.splitlines()
    start = next(k for k, line in enumerate(lines) if line.split()[: len(head.split())] == head.split())
    rows = lines[start + 1 : lines.index("", start) if "" in lines[start:] else None]
    return {row.split("  ")[0]: [cell.strip() for cell in row.split("  ")[1:] if cell.strip()] for row in rows}


def pair(found: Result, other: str) -> list[str]:
    """The line that compares the recurrence with another form."""
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in found.stdout.splitlines()]
    return next(line for line in lines if line[:2] == ["recurrence", other])


def test_polynomials_stand_side_by_side() -> None:
    found = cost("linear_attention")
    assert found.exit_code == 0, found.output
    counted = cells(found, "form multiplications additions")
    assert counted["recurrence"][:2] == ["2 n d_k d_v", "2 n d_k d_v - n d_v"]
    assert counted["matrix"][0] == "n^2 d_k + n^2 d_v"
    assert counted["chunkwise"][0] == "n C d_k + n C d_v + 2 n d_k d_v"
    kept = cells(found, "form saved for backward")
    assert kept["chunkwise"][1:] == ["3 d_k d_v (greatest of 3)", "n / C + 2"]
    assert cells(found, "form from its")["recurrence"] == [
        "states",
        "2 d_k d_v",
        "2 d_k d_v - d_v",
        "d_k d_v",
    ]
    assert "n tokens, no exponentials, no divisions\n" in found.stdout
    assert "n tokens, no divisions\n" not in cost("softmax_attention").stdout
    lengths = [cell.removeprefix("recurrence from n = ") for cell in pair(found, "matrix")[2:]]
    assert lengths == ["129", "129", "2049", "129"]  # products of matrices are 16 times as fast
    assert "chunkwise: C = 21.9, of the powers of two C = 16; C = 64 takes 1.14 times as long" in found.stdout
    assert "not counted" not in found.stdout


def test_sizes_change_what_follows_and_not_the_polynomials() -> None:
    one, other = (
        cost("linear_attention"),
        cost("linear_attention", "--d-k", "8", "--d-v", "8", "--chunk", "4", "--ratio", "1"),
    )
    head = "form multiplications additions"
    assert cells(one, head) == cells(other, head)
    assert "At n = 4096, d_k = 8, d_v = 8, C = 4; weighted: 1 / 1" in other.stdout
    assert pair(other, "matrix")[2:] == ["recurrence from n = 9"] * 4
    numbers = cells(other, "form operations weighted")["recurrence"]
    assert numbers[0] == numbers[1] == f"{2 * 4096 * 64 + 4096 * (64 + 56):,}"


def test_a_folder_of_ones_own_and_what_is_not_counted(write, tmp_path: Path) -> None:
    folder, record = str(write("mine", OWN).parent), tmp_path / "cost.json"
    found = cost("mine", "--derivations", folder, "--d-k", "5", "--json", str(record))
    assert found.exit_code == 0, found.output
    assert cells(found, "form multiplications additions")["projected"][0] == "n d_k r"
    assert "d_k = 5, d_v = 128, C = 64, r = 5" in found.stdout
    assert "not counted: logarithm, multiplications" in found.stdout
    assert "counting has no logarithm" in found.stdout
    assert "no attribute 'no_such_thing'" in found.stdout
    projected, logarithm, _ = json.loads(record.read_text())["forms"]
    assert projected["sequence"]["greatest_of"]["multiplications"] == ["d_k*n*r"]
    assert not projected["sequence"]["not_counted"]
    assert "no logarithm" in logarithm["sequence"]["not_counted"]["peak memory"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["linear_atention"], "Did you mean linear_attention"),
        (["deltanet.recurrent_is_matrix"], "isn't a derivation"),
        (["only_facts"], "states no form"),
        (["linear_attention", "--chunk", "1"], "--chunk"),
        (["linear_attention", "--ratio", "0"], "--ratio"),
        (["linear_attention", "--json", "no/such/folder.json"], "isn't a folder that can be written to"),
    ],
)
def test_wrong_usage_is_status_2_and_one_line(arguments: list[str], says: str, write) -> None:
    folder = str(write("mine", OWN).parent)
    found = cost(*arguments, "--derivations", folder)
    assert found.exit_code == 2
    assert says in found.stderr


def test_nothing_counted_is_status_1(write) -> None:
    text = 'mine = Derivation("mine", "", "", {"logarithm": Closed(log(Q))}, [])'
    found = cost("mine", "--derivations", str(write("mine", text).parent))
    assert found.exit_code == 1
    assert "not counted: logarithm" in found.stdout


def test_a_broken_module_is_status_1(write) -> None:
    write("broken", "raise ValueError('no')")
    found = cost("linear_attention", "--derivations", str(write("mine", OWN).parent))
    assert found.exit_code == 1
    assert "broken module" in found.stderr


@pytest.mark.parametrize(
    "written",
    [
        "2*n*d_k*d_v - n*d_v",
        "n**2/2 - n/2 + 1",
        "n*d_k*d_v/C + n*C",
        "-n/(2*C)",
        "0",
        "-3",
        "2*d_k**3/3",
        "C**2*d_v + 1/C",
    ],
)
def test_a_polynomial_is_written_as_by_hand(written: str) -> None:
    names = {"n": n, "d_k": d_k, "d_v": d_v, "C": C}
    stated = sympify(written, names)
    text = polynomial_text(stated)
    assert "*" not in text
    again = text.replace("^", "**").replace(" / ", "/")
    for sign in "+-":
        again = again.replace(f" {sign} ", sign)
    assert sympify(again.replace(" ", "*"), names) == stated


def test_the_page_shows_what_is_printed() -> None:
    ((command, shown),) = blocks("docs/costs.md", "output")
    assert lines_of(shown) == lines_of(cost(*command.split()[2:]).stdout)


@pytest.mark.parametrize(
    "stated",
    [
        f"from n = {FIRST[n]} on, or from three blocks of three tokens",
        f"with n = {max(FURTHER[n])}, or {FURTHER[BLOCKS][-1] * FURTHER[C][-1]} in {FURTHER[BLOCKS][-1]} blocks",
        f"; {Setting().ratio} isn't measured on any",
        f"between {SMALLEST} and n",
    ],
)
def test_the_numbers_of_the_page_are_those_of_the_code(stated: str) -> None:
    assert FIRST[BLOCKS] == FIRST[C] == 3
    assert stated in " ".join(text_of("docs/costs.md").split())


DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
QUICK = ["alibi", "cope", "decay", "rg_lru", "rope", "s4"]
NAMES = [name for name, derivation in load_catalogue().derivations.items() if derivation.forms]


@pytest.mark.parametrize("name", NAMES if DEEP else QUICK)
def test_every_derivation_has_costs_or_says_why_not(name: str, tmp_path: Path) -> None:
    record = tmp_path / "cost.json"
    found = cost(name, "--chunk", "4", "--length", "64", "--json", str(record))
    assert found.exit_code == 0, found.output
    forms = json.loads(record.read_text())["forms"]
    assert [form["form"] for form in forms] == list(load_catalogue().derivations[name].forms)
    for form in forms:
        for part in ("sequence", "token"):
            for quantity, reason in form[part]["not_counted"].items():
                assert reason
                assert reason in found.stdout
                assert quantity not in form[part]["greatest_of"]
