"""Letters: matrices without a value, and the words that are their products."""

from __future__ import annotations

from fractions import Fraction
from itertools import groupby

ONE_SIZE, PAST = "1", "n"
"""The size of a single token or column, and that of the block of all tokens so far."""
Word = tuple["Letter", ...]
Factors = tuple[tuple[Word, Fraction], ...]

PLAIN, DIAGONAL, ONES = "plain", "diagonal", "ones"


class Letter(str):
    """A matrix without a value, identified by its text.

    Attributes:
        base: the text without power and transposition.
        rows, columns: the sizes, names of dimensions or "1".
        kind: "diagonal" letters commute with one another, "ones" is a column of ones.
        power: of a square letter.
        transposed: whether it is the transpose of its base.
        inside: what the letter is made of, with exponents: the factors of an entrywise product, the column of a
            diagonal letter.
    """

    __slots__ = ("base", "columns", "inside", "kind", "power", "rows", "transposed")
    base: str
    rows: str
    columns: str
    kind: str
    power: Fraction
    transposed: bool
    inside: Factors

    def __new__(
        cls,
        base: str,
        rows: str,
        columns: str,
        kind: str = PLAIN,
        power: Fraction = Fraction(1),
        transposed: bool = False,
        inside: Factors = (),
    ) -> Letter:
        text = f"{base}{'' if power == 1 else _superscript(power)}{'ᵀ' if transposed else ''}"
        letter = super().__new__(cls, text)
        letter.base, letter.rows, letter.columns, letter.kind = base, rows, columns, kind
        letter.power, letter.transposed, letter.inside = power, transposed, inside
        return letter

    @property
    def T(self) -> Letter:
        """The transpose."""
        if self.kind == DIAGONAL:
            return self
        return Letter(self.base, self.columns, self.rows, self.kind, self.power, not self.transposed, self.inside)

    def to_the(self, power: Fraction) -> Letter:
        """The same letter to another power."""
        return Letter(self.base, self.rows, self.columns, self.kind, power, self.transposed, self.inside)


def _superscript(power: Fraction) -> str:
    digits = str.maketrans("0123456789-/", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᐟ")
    return str(power).translate(digits)


def transposed(word: Word) -> Word:
    """The transpose of a product."""
    return diagonals_sorted(tuple(letter.T for letter in reversed(word)))


def text_of(word: Word) -> str:
    """The letters beside one another; nothing for the identity."""
    return " ".join(word)


def ones(size: str) -> Word:
    """The column of ones; at size one it is the number one."""
    return () if size == ONE_SIZE else (Letter(f"1_{size}", size, ONE_SIZE, ONES),)


def diagonals_sorted(word: Word) -> Word:
    """Diagonal letters beside one another in a fixed order, since they commute."""
    out: list[Letter] = []
    for is_diagonal, letters in groupby(word, key=lambda letter: letter.kind == DIAGONAL):
        run = list(letters)
        out += sorted(run, key=lambda letter: letter.base) if is_diagonal else run
    return tuple(out)
