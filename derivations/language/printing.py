r"""Statements as LaTeX and as plain text, in the order in which they were written.

The matrix product binds tighter than the Hadamard product, and that tighter than +. Readers differ on the first, so a
product inside a Hadamard product is bracketed all the same: \left(Q K^{\top}\right) \odot M.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sympy import Add, Basic, Expr, Mul, Symbol, latex, preorder_traversal, sstr

SUM, HADAMARD, PRODUCT, ATOM = range(4)
RAISED = (
    "Transposed",
    "Inverted",
    "StrictMask",
    "StrictDecay",
    "ShiftedDecay",
    "CumulativeProduct",
    "PrecedingProduct",
    "RemainingProduct",
)
"""What is written with a superscript of its own."""
FUNCTIONS = ("Diagonal", "TraceOf", "Exponential", "ScalarExponential", "Logarithm", "Toeplitz")
"""What is written as a name and an argument in brackets."""


@dataclass(frozen=True)
class Style:
    """How one output language writes the operations."""

    scalar: Callable[[Basic], str]
    brackets: str
    hadamard: str
    transposed: str
    inverse: str
    subscript: Callable[[str, str], str]
    constants: Mapping[str, str]
    of_gates: Callable[[str, str], str]
    over: str
    row_products: str
    blocks: tuple[str, str, str]
    """What stands around a matrix of blocks, between its columns, and between its rows."""
    big: Callable[[str, str, str, str, str], str]


def _latex_subscript(name: str, index: str) -> str:
    return f"{{{name}}}_{{{index}}}" if "_" in name else f"{name}_{{{index}}}"  # TeX refuses a second subscript


def _text_subscript(name: str, index: str) -> str:
    return f"{name}_{index}" if index.isalnum() else f"{name}_{{{index}}}"


LATEX = Style(
    scalar=lambda e: latex(e, parenthesize_super=False),
    brackets=r"\left({}\right)",
    hadamard=r" \odot ",
    transposed=r"{}^{{\top}}",
    inverse=r"{}^{{-1}}",
    subscript=_latex_subscript,
    constants={
        "Eye": "I",
        "Zeros": "0",
        "Ones": r"\mathbf{1}",
        "CausalMask": "M",
        "StrictMask": "M^{-}",
        "Decay": r"\Gamma",
        "StrictDecay": r"\Gamma^{-}",
        "ShiftedDecay": r"\Gamma^{\mathrm{sh}}",
        "CumulativeProduct": r"\Pi^{\le}",
        "PrecedingProduct": r"\Pi^{<}",
        "RemainingProduct": r"\Pi^{>}",
        "TotalProduct": r"\Pi",
        "TotalProducts": r"\Pi",
        "Diagonal": r"\operatorname{Diag}",
        "TraceOf": r"\operatorname{tr}",
        "Exponential": r"\exp",
        "ScalarExponential": r"\exp",
        "Logarithm": r"\log",
        "Toeplitz": r"\operatorname{Toeplitz}",
    },
    of_gates=lambda symbol, gates: rf"{symbol}_{{{gates}}}",
    over=r" \oslash ",
    row_products=r" \bullet ",
    blocks=(r"\begin{{bmatrix}} {} \end{{bmatrix}}", " & ", r" \\ "),
    big=lambda symbol, index, lower, upper, body: rf"\{symbol}_{{{index}={lower}}}^{{{upper}}} {body}",
)

TEXT = Style(
    scalar=lambda e: sstr(e),
    brackets="({})",
    hadamard=" ⊙ ",
    transposed="{}ᵀ",
    inverse="{}⁻¹",
    subscript=_text_subscript,
    constants={
        "Eye": "I",
        "Zeros": "0",
        "Ones": "𝟏",
        "CausalMask": "M",
        "StrictMask": "M⁻",
        "Decay": "Γ",
        "StrictDecay": "Γ⁻",
        "ShiftedDecay": "Γˢʰ",
        "CumulativeProduct": "Π≤",
        "PrecedingProduct": "Π<",
        "RemainingProduct": "Π>",
        "TotalProduct": "Π",
        "TotalProducts": "Π",
        "Diagonal": "Diag",
        "TraceOf": "tr",
        "Exponential": "exp",
        "ScalarExponential": "exp",
        "Logarithm": "log",
        "Toeplitz": "Toeplitz",
    },
    of_gates=lambda symbol, gates: f"{symbol}[{gates}]",
    over=" ⊘ ",
    row_products=" • ",
    blocks=("[{}]", ", ", "; "),
    big=lambda symbol, index, lower, upper, body: (
        f"{ {'sum': 'Σ', 'prod': 'Π'}[symbol] }_{{{index}={lower}..{upper}}} {body}"
    ),
)


@dataclass
class Printer:
    """Prints in one style; `names` replaces symbols (S by S_{t-1}, a sequence by its block)."""

    style: Style
    names: Mapping[Basic, str] = field(default_factory=dict)

    def __call__(self, e: Basic) -> str:
        return self.at_least(e, SUM)

    def at_least(self, e: Basic, level: int) -> str:
        """`e`, in brackets if it binds less tightly than `level`."""
        text, own = self.parts(e)
        return text if own >= level else self.style.brackets.format(text)

    def parts(self, e: Basic) -> tuple[str, int]:
        if e in self.names:
            return self.names[e], ATOM
        rule = getattr(self, f"_{type(e).__name__}", None)
        if rule is not None:
            return rule(e)
        constant = self.style.constants.get(type(e).__name__)
        if constant is not None:
            return self._constant(constant, e), ATOM
        if hasattr(e, "sequence"):
            return self.style.subscript(self._token_name(e), self.style.scalar(e.index)), ATOM
        if isinstance(getattr(e, "shape", None), tuple) and e.args and isinstance(e.args[0], Symbol):
            return self.style.scalar(e.args[0]), ATOM
        return self._scalar(e)

    def _token_name(self, token: Any) -> str:
        name = str(token.sequence.args[0])
        return self.style.scalar(Symbol(name.lower() if type(token).__name__ == "Token" else name))

    def _constant(self, symbol: str, e: Basic) -> str:
        """Masks are written bare; the decays too, as long as their gate is the usual gamma."""
        argument = e.args[0] if e.args else None
        if type(e).__name__ in FUNCTIONS:
            return symbol + self.style.brackets.format(self(argument))
        if hasattr(e, "gates") or type(e).__name__ in ("TotalProduct", "TotalProducts"):
            return symbol if str(argument) == "gamma" else self.style.of_gates(symbol, self(argument))
        return symbol

    def _scalar(self, e: Basic) -> tuple[str, int]:
        e = e.xreplace(self._renamed(e)) if self.names else e
        if isinstance(e, Mul) and any(isinstance(a, Expr) and hasattr(a, "sequence") for a in e.args):
            coefficient, rest = e.as_coeff_Mul()
            if coefficient != 1 and coefficient == -1:
                return f"-{self.at_least(rest, PRODUCT)}", SUM
        return self.style.scalar(e), (SUM if isinstance(e, Add) or _is_negative(e) else PRODUCT)

    def _renamed(self, e: Basic) -> dict[Basic, Symbol]:
        """The scalars inside `e` that read a renamed symbol, as symbols that SymPy prints as they are."""
        inside = e.atoms(
            *{
                type(a)
                for a in preorder_traversal(e)
                if type(a).__name__ in ("ScalarOf", "TraceOf", "ScalarExponential")
            }
        )
        return {a: Symbol(self.at_least(a, ATOM)) for a in inside if any(a.has(x) for x in self.names)}

    def _Product(self, e: Any) -> tuple[str, int]:
        last = len(e.args) - 1
        factors = [self._factor(a, leftmost=k == 0, rightmost=k == last) for k, a in enumerate(e.args)]
        return " ".join(factors), PRODUCT

    def _factor(self, e: Any, leftmost: bool, rightmost: bool) -> str:
        text, own = self.parts(e)
        open_ended = type(e).__name__ == "TokenSum" and not rightmost
        nested = type(e).__name__ in ("Scaled", "Product") and not leftmost
        return self.style.brackets.format(text) if own < PRODUCT or open_ended or nested else text

    def _Scaled(self, e: Any) -> tuple[str, int]:
        factor, matrix = e.args
        inner = self.at_least(matrix, PRODUCT)
        if factor == -1:
            return f"-{inner}", SUM
        if _is_negative(factor):
            return f"{self(factor)} {inner}", SUM
        level = ATOM if type(factor).__name__ == "ScalarOf" else PRODUCT  # (k^T k) S: no product of three matrices
        return f"{self.at_least(factor, level)} {inner}", PRODUCT

    def _Sum(self, e: Any) -> tuple[str, int]:
        out = self(e.args[0])
        for term in e.args[1:]:
            text = self(term)
            out += f" - {text[1:].lstrip()}" if text.startswith("-") else f" + {text}"
        return out, SUM

    def _Hadamard(self, e: Any) -> tuple[str, int]:
        out = self.at_least(e.args[0], ATOM)
        for factor in e.args[1:]:
            divides = type(factor).__name__ == "Reciprocal"
            operation = self.style.over if divides else self.style.hadamard
            out += operation + self.at_least(factor.args[0] if divides else factor, ATOM)
        return out, HADAMARD

    def _Reciprocal(self, e: Any) -> tuple[str, int]:
        return f"{self.style.constants['Ones']}{self.style.over}{self.at_least(e.args[0], ATOM)}", HADAMARD

    def _RowProducts(self, e: Any) -> tuple[str, int]:
        return self.style.row_products.join(self.at_least(a, ATOM) for a in e.args), HADAMARD

    def _Below(self, e: Any) -> tuple[str, int]:
        around, between_columns, between_rows = self.style.blocks
        rows = [row.args if type(row).__name__ == "Beside" else (row,) for row in e.args]
        return around.format(between_rows.join(between_columns.join(map(self, row)) for row in rows)), ATOM

    def _Beside(self, e: Any) -> tuple[str, int]:
        around, between_columns, _ = self.style.blocks
        return around.format(between_columns.join(map(self, e.args))), ATOM

    def _Transposed(self, e: Any) -> tuple[str, int]:
        return self.style.transposed.format(self._base(e.args[0])), ATOM

    def _Inverted(self, e: Any) -> tuple[str, int]:
        return self.style.inverse.format(self._base(e.args[0])), ATOM

    def _base(self, e: Basic) -> str:
        """What a superscript is put on. It may not have one already: TeX refuses a second, and M⁻ᵀ would be misread."""
        text, own = self.parts(e)
        return self.style.brackets.format(text) if own < ATOM or type(e).__name__ in RAISED else text

    def _ScalarOf(self, e: Any) -> tuple[str, int]:
        text, own = self.parts(e.args[0])
        return (text, own) if own >= PRODUCT else (self.style.brackets.format(text), ATOM)

    def _TokenSum(self, e: Any) -> tuple[str, int]:
        return self._big("sum", e)

    def _GateProduct(self, e: Any) -> tuple[str, int]:
        return self._big("prod", e)[0], SUM  # bracketed wherever something follows that it could be thought to multiply

    def _big(self, symbol: str, e: Any) -> tuple[str, int]:
        body, index, lower, upper = e.args[:4]
        write = self.style.scalar
        return self.style.big(symbol, write(index), write(lower), write(upper), self.at_least(body, PRODUCT)), PRODUCT


def _is_negative(e: Expr) -> bool:
    """Whether a scalar is written with a minus sign in front of all of it; 1 - gamma isn't."""
    return not isinstance(e, Add) and bool(e.as_coeff_Mul()[0].is_negative)


def latex_of(e: Basic, names: Mapping[Basic, str] | None = None) -> str:
    """LaTeX of a statement; `names` replaces symbols."""
    return Printer(LATEX, names or {})(e)


def text_of(e: Basic, names: Mapping[Basic, str] | None = None) -> str:
    """Plain text of a statement; `names` replaces symbols."""
    return Printer(TEXT, names or {})(e)


def factor_of(style: Style, e: Basic) -> str:
    """A scalar as SymPy's printers put it into others: in brackets wherever it is more than a name."""
    return Printer(style).at_least(e, ATOM)
