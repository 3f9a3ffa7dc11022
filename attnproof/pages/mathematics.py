r"""LaTeX as MathML, which browsers draw by themselves: no script, no font and no network.

A long equation is cut before its outermost signs and brackets, so that a narrow window can wrap it:
O = | ((Q K^T) . Gamma) | (I + ...)^-1 V.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from xml.etree import ElementTree

from latex2mathml.converter import convert
from markupsafe import Markup

OPENING = re.compile(r"\\left|\\begin|\{")
CLOSING = re.compile(r"\\right|\\end|\}")
SIGNS = (r"[-+=]", r"\\leftarrow", r"\\odot", r"\\oslash", r"\\bullet")
BREAK = re.compile(rf" (?=(?:{'|'.join(SIGNS)}) )|{''.join(f'(?<!{sign})' for sign in SIGNS)} (?=\\left\()")
"""Where an equation may be cut, outside of all brackets: before a sign, and before a factor in brackets."""
ELEMENTS = re.compile(
    r"math|m(row|[ion]|text|space|su[bp]|subsup|under|over|underover|frac|sqrt|root|table|t[rd]|style)"
)
"""What may stand in a page. A link in the name of somebody's symbol may not."""
ATTRIBUTES = {"form": None, "displaystyle": None, "scriptlevel": None, "stretchy": "false", "mathvariant": "normal"}
"""Attributes that aren't HTML's defaults, and the value for which alone they are kept."""
BOLD = str.maketrans("0123456789", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗")
INFIX = frozenset("-+−=←⊙⊘∙•")
NAMES = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|phi|chi|psi|omega"
    "|Gamma|Delta|Theta|Lambda|Pi|Sigma|Phi|Psi|Omega|exp|log|sqrt"
)
"""Names that stand for a letter or a function in SymPy's text."""


def equation(latex: str) -> Markup:
    """An equation as pieces of MathML with places to break between them, in display style."""
    pieces = (mathml(piece, displayed=True) for piece in cut(latex))
    return Markup("<wbr>").join(pieces)


def mathml(latex: str, displayed: bool = False) -> Markup:
    """One piece of mathematics; what can't be converted is shown as LaTeX."""
    return _converted(latex, displayed)


def cut(latex: str) -> Iterator[str]:
    """The pieces of an equation, in order; together they are the equation."""
    start = 0
    for place in BREAK.finditer(latex):
        before = latex[: place.start()]
        if len(OPENING.findall(before)) == len(CLOSING.findall(before)):
            yield latex[start : place.start()]
            start = place.end()
    yield latex[start:]


@cache
def _converted(latex: str, displayed: bool) -> Markup:
    written = latex.replace(">=", r"\ge ")
    try:
        return Markup(_slimmed(convert(written, display="block" if displayed else "inline")))
    except Exception:  # the names of a user's module may be anything
        return Markup("<code>{}</code>").format(latex)


def _slimmed(found: str) -> str:
    """Without what HTML assumes anyway. Signs at the start of a piece are spaced as between two terms."""
    root = ElementTree.fromstring(found)
    displayed = root.get("display") == "block"
    for element in root.iter():
        element.tag = _local(element.tag)
        _mend(element)
    if displayed:
        root.set("displaystyle", "true")
    first = next(root.iterfind("mrow/*"), root)
    if first.tag == "mo" and first.text in INFIX:
        first.set("form", "infix")
    return ElementTree.tostring(root, encoding="unicode")


def _local(tag: str) -> str:
    """A tag without its namespace.

    Raises:
        ValueError: it may not stand in a page.
    """
    name = tag.rpartition("}")[2]
    if not ELEMENTS.fullmatch(name):
        raise ValueError(f"no mathematics: {name}")
    return name


def _mend(element: ElementTree.Element) -> None:
    """Browsers draw no bold digits on their own: they become characters that are bold. Diag is a name, and no sign."""
    if element.tag == "mo" and len(element.text or "") > 1:
        element.tag = "mi"
    if element.get("mathvariant") == "bold":
        element.text = (element.text or "").translate(BOLD)
    kept = {name: value for name, value in element.attrib.items() if ATTRIBUTES.get(name, "") in (None, value)}
    element.attrib.clear()
    element.attrib.update(kept)


def from_text(text: str) -> str:
    """LaTeX of a polynomial as `readable` writes it: (1 - gamma_2) k_1 k_2^2 is (1 - \\gamma_{2}) k_{1} k_{2}^{2}."""
    text = re.sub(r"\^(\d+)", r"^{\1}", text)
    return re.sub(r"[A-Za-z]\w*", _symbol, text)


def _symbol(name: re.Match[str]) -> str:
    head, *indices = name[0].split("_")
    letter = f"\\{head}" if NAMES.fullmatch(head) else head if len(head) == 1 else rf"\mathrm{{{head}}}"
    return letter + (f"_{{{','.join(indices)}}}" if indices else "")


def matrix(rows: list[list[str]]) -> str:
    """LaTeX of a matrix of exact numbers."""
    lines = " \\\\ ".join(" & ".join(map(_number, row)) for row in rows)
    return rf"\begin{{pmatrix}} {lines} \end{{pmatrix}}"


def _number(text: str) -> str:
    above, _, below = text.partition("/")
    return rf"\tfrac{{{above}}}{{{below}}}" if below else text
