"""MathML: every formula of the catalogue is converted, pieces are whole, and no name of a user's is more than text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages_site import catalogue

from attnproof.pages.mathematics import ATTRIBUTES, ELEMENTS, cut, equation, from_text, mathml, matrix
from derivations.language.forms import equations, latex_lines
from derivations.language.printing import LATEX
from derivations.language.statements import Derivation


class Elements(HTMLParser):
    """The elements and attributes of a text, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag != "wbr":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def all_lines(derivation: Derivation) -> list[str]:
    sides = [side for identity in derivation.identities for side in (identity.left, identity.right)]
    lines = [line for form in (*derivation.forms.values(), *sides) for line in latex_lines(form)]
    return lines + [line for one in derivation.backward for line in equations(one.adjoint.lines(LATEX))]


@pytest.mark.parametrize("name", catalogue().derivations)
def test_every_formula_is_converted(name: str):
    for line in all_lines(catalogue().derivations[name]):
        assert "<code>" not in equation(line), line
        assert " ".join(cut(line)) == line


@pytest.mark.parametrize("name", ["gated_deltanet", "mesanet", "family"])
def test_pieces_are_whole(name: str):
    for line in all_lines(catalogue().derivations[name]):
        for piece in cut(line):
            assert piece.count("{") == piece.count("}")
            assert piece.count(r"\left") - piece.count(r"\leftarrow") == piece.count(r"\right")
            assert piece.count(r"\begin") == piece.count(r"\end")


def test_an_equation_is_cut_outside_of_brackets_alone():
    line = r"O = \left(A + B\right) \left(C - D\right) V - \left(E + F\right)"
    assert list(cut(line)) == ["O", r"= \left(A + B\right)", r"\left(C - D\right) V", r"- \left(E + F\right)"]


PIECES = [*"ab<>&\"'=/ {}\\_^$#%()1;:.-", "script", r"\href{javascript:x}{y}", r"\left(", r"\right)", "&#x3c;"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_no_name_is_more_than_mathematics_or_text(name: str):
    found = Elements(equation(name))
    assert not found.open
    for tag, attributes in found.found:
        assert tag in ("wbr", "code") or ELEMENTS.fullmatch(tag)
        assert set(attributes) <= set(ATTRIBUTES)


def test_a_link_in_a_name_is_dropped():
    assert "javascript" not in mathml(r"\href{javascript:alert(1)}{x}")


def test_an_element_that_may_not_stand_in_a_page_is_shown_as_latex():
    assert mathml(r"\boxed{x}") == r"<code>\boxed{x}</code>"


def test_what_is_no_mathematics_is_shown_as_it_is():
    assert mathml("a & <b>") == "<code>a &amp; &lt;b&gt;</code>"


def test_sums_ones_and_names_are_drawn_as_such():
    assert "<munderover>" in mathml(r"\sum_{j=1}^{t} x", displayed=True)
    assert "𝟏" in mathml(r"\mathbf{1}")
    assert "<mi>Diag</mi>" in mathml(r"\operatorname{Diag}\left(x\right)")
    assert "≥" in mathml("i >= j")


def test_numbers_of_a_counterexample_are_a_matrix():
    found = Elements(mathml(matrix([["1", "-1/2"], ["3", "0"]])))
    assert [tag for tag, _ in found.found].count("mtd") == 4
    assert "mfrac" in [tag for tag, _ in found.found]


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("(1 - gamma_2) k_1 k_2^2", r"(1 - \gamma_{2}) k_{1} k_{2}^{2}"),
        ("x^10", "x^{10}"),
        ("phi_K_12", r"\phi_{K,12}"),
        ("exp(beta)", r"\exp(\beta)"),
        ("ab_1", r"\mathrm{ab}_{1}"),
    ],
)
def test_polynomials_become_latex(text: str, latex: str):
    assert from_text(text) == latex
