"""docs/identities.md: what it states is what derivations/ states, and no text of theirs changes how it looks."""

from __future__ import annotations

from pathlib import Path

from pages_site import catalogue, record

from attnproof.catalogue import load_catalogue
from attnproof.pages.identities import EVIDENCE, page, stated

COMMITTED = Path(__file__).parent.parent / "docs" / "identities.md"
HOSTILE = """
hostile = Derivation(
    "hostile", title="<b>|`x`", summary="# $$ [a](b)", forms={}, identities=[
        Identity("same", Closed(Q @ K.T), Closed((K @ Q.T).T), says="<script>*a*_b_"),
    ],
)
"""


def test_the_committed_page_states_what_the_modules_state():
    made = page(catalogue(), {})
    assert stated(COMMITTED.read_text(encoding="utf-8")) == stated(made), (
        "docs/identities.md isn't up to date: attnproof docs --identities docs/identities.md"
    )


def test_a_changed_statement_would_be_seen():
    text = page(catalogue(), {})
    assert stated(text.replace(r"\Gamma^{-}", r"\Gamma", 1)) != stated(text)


def test_evidence_is_apart_from_statements():
    without, with_evidence = page(catalogue(), {}), page(catalogue(), record().reports)
    assert stated(without) == stated(with_evidence)
    lines = [line for line in with_evidence.splitlines() if line.startswith(EVIDENCE)]
    assert f"{EVIDENCE}**holds**, exact n <= 6, every-length every n" in lines
    assert f"{EVIDENCE}<br>`refuted by n = 2, d_k = 1, d_v = 1: gamma_2 = 1/2, everything else 1`" in lines
    assert without.count("**not checked**") == sum(len(x.identities) for x in catalogue().derivations.values())


def test_nothing_on_it_differs_from_machine_to_machine():
    committed = COMMITTED.read_text(encoding="utf-8")
    assert " tol" not in committed
    assert "floats" not in [line.split(" ")[0] for line in committed.split(", ")]


def test_mathematics_is_githubs():
    made = page(catalogue(), {})
    assert made.count("$$") % 2 == 0
    assert "operatorname" not in made
    assert ">=" not in [line for line in made.splitlines() if "\\left" in line]


def test_text_of_a_module_stays_text(write):
    found = load_catalogue([write("hostile", HOSTILE).parent])
    made = page(found, {})
    assert r"## \<b\>\|\`x\`" in made
    assert r"\<script\>\*a\*\_b\_" in made
    assert r"\# \$\$ \[a\](b)" in made
