"""Polynomials over words: matrices of one shape whose letters don't commute, with commuting scalars as coefficients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from numerics.free_ring import letters, scalars
from numerics.free_ring.entrywise import entrywise
from numerics.free_ring.letters import DIAGONAL, ONE_SIZE, Letter, Word, transposed
from numerics.free_ring.scalars import Scalar, cleared
from numerics.free_ring.words import normal


class Polynomial:
    """A sum of words of shape rows x columns, each with a scalar."""

    __slots__ = ("columns", "rows", "terms")

    def __init__(self, rows: str, columns: str, terms: Mapping[Word, Scalar] | None = None) -> None:
        self.rows, self.columns = rows, columns
        self.terms = {word: scalar for word, scalar in (terms or {}).items() if scalar}

    @classmethod
    def of(cls, *word: Letter) -> Polynomial:
        """A product of letters."""
        return cls(word[0].rows, word[-1].columns)._plus_word(word, scalars.ONE)

    @classmethod
    def scalar(cls, value: Scalar) -> Polynomial:
        """A 1 x 1 matrix."""
        return cls(ONE_SIZE, ONE_SIZE, {(): value})

    @classmethod
    def identity(cls, size: str) -> Polynomial:
        """The identity matrix of a size."""
        return cls(size, size, {(): scalars.ONE})

    def _plus_word(self, word: Word, scalar: Scalar) -> Polynomial:
        factor, rest = normal(word, self.rows, self.columns)
        terms = dict(self.terms)
        terms[rest] = terms.get(rest, scalars.ZERO) + scalar * factor
        return Polynomial(self.rows, self.columns, terms)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.shape == other.shape and self.terms == other.terms

    def __hash__(self) -> int:
        return hash((self.shape, frozenset(self.terms.items())))

    @property
    def shape(self) -> tuple[str, str]:
        return self.rows, self.columns

    @property
    def value(self) -> Scalar:
        """The scalar that a 1 x 1 matrix is."""
        return self.terms.get((), scalars.ZERO)

    @property
    def is_zero(self) -> bool:
        """Whether it is zero, wherever its reciprocals have a value."""
        return not any(cleared(list(self.terms.values())))

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for word, scalar in other.terms.items():
            terms[word] = terms.get(word, scalars.ZERO) + scalar
        return Polynomial(self.rows, self.columns, terms)

    def __neg__(self) -> Polynomial:
        return Polynomial(self.rows, self.columns, {word: -scalar for word, scalar in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __matmul__(self, other: Polynomial) -> Polynomial:
        return self._pairwise(other, other.columns, lambda left, right: (scalars.ONE, left + right))

    def _pairwise(
        self, other: Polynomial, columns: str, combine: Callable[[Word, Word], tuple[Scalar, Word]]
    ) -> Polynomial:
        terms: dict[Word, Scalar] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                own, word = combine(left, right)
                factor, rest = normal(word, self.rows, columns)
                terms[rest] = terms.get(rest, scalars.ZERO) + a * b * own * factor
        return Polynomial(self.rows, columns, terms)

    def times(self, scalar: Scalar) -> Polynomial:
        """Scaled."""
        return Polynomial(self.rows, self.columns, {word: own * scalar for word, own in self.terms.items()})

    @property
    def T(self) -> Polynomial:
        """The transpose."""
        terms: dict[Word, Scalar] = {}
        for word, scalar in self.terms.items():
            factor, rest = normal(transposed(word), self.columns, self.rows)
            terms[rest] = terms.get(rest, scalars.ZERO) + scalar * factor
        return Polynomial(self.columns, self.rows, terms)

    def mapped(self, change: Callable[[Word], Word]) -> Polynomial:
        """Each word changed, its scalar kept."""
        out = Polynomial(self.rows, self.columns)
        for word, scalar in self.terms.items():
            out = out._plus_word(change(word), scalar)
        return out

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        pieces = [_term(word, scalar) for word, scalar in sorted(self.terms.items(), key=lambda item: str(item[0]))]
        return " + ".join(pieces).replace("+ -", "- ")


def _term(word: Word, scalar: Scalar) -> str:
    text = letters.text_of(word) or ("" if scalar != scalars.ONE else "I")
    if scalar == scalars.ONE:
        return text
    if scalar == -scalars.ONE:
        return f"-{text or 'I'}"
    own = f"({scalar})" if len(scalar.terms) > 1 and text else str(scalar)
    return f"{own} {text}".strip()


def hadamard(a: Polynomial, b: Polynomial) -> Polynomial:
    """The entrywise product of two matrices of one shape."""
    rows, columns = a.shape
    return a._pairwise(b, columns, lambda left, right: _words_together(left, right, rows, columns))


def _words_together(left: Word, right: Word, rows: str, columns: str) -> tuple[Scalar, Word]:
    for own, other in ((left, right), (right, left)):
        outer = _of_rank_one(own, rows, columns)
        if outer is not None:
            return scalars.ONE, (*outer[0], *other, *outer[1])
    (before_left, left, after_left), (before_right, right, after_right) = _stripped(left), _stripped(right)
    letter = entrywise([(left, Fraction(1)), (right, Fraction(1))], rows, columns)
    return scalars.ONE, (*before_left, *before_right, *letter, *after_left, *after_right)


def _of_rank_one(word: Word, rows: str, columns: str) -> tuple[Word, Word] | None:
    """Diagonal words D, E with (x y^T) . Y = D Y E, for a word x y^T; a column is x alone, a row y^T."""
    if rows == ONE_SIZE or columns == ONE_SIZE:
        if columns == ONE_SIZE:
            diagonal = diagonal_of(word, rows)
            return None if diagonal is None else (diagonal, ())
        diagonal = diagonal_of(transposed(word), columns)
        return None if diagonal is None else ((), diagonal)
    cut = next((k + 1 for k, letter in enumerate(word[:-1]) if letter.columns == ONE_SIZE), 0)
    if not cut:
        return None
    column, row = word[:cut], word[cut:]
    return diagonal_or_letter(column, rows), diagonal_or_letter(transposed(row), columns)


def diagonal_of(column: Word, size: str) -> Word | None:
    """D with D 1 = column, where the column is made of diagonal letters alone."""
    if size == ONE_SIZE:
        return () if not column else None
    run, last = column[:-1], column[-1]
    return run if last.kind == letters.ONES and all(letter.kind == DIAGONAL for letter in run) else None


def diagonal_or_letter(column: Word, size: str) -> Word:
    """D with D 1 = column: a letter of its own where the column has no diagonal letters."""
    found = diagonal_of(column, size)
    if found is not None:
        return found
    run: list[Letter] = []
    while column[0].kind == DIAGONAL:
        run, column = [*run, column[0]], column[1:]
    return (*run, Letter(f"Diag({letters.text_of(column)})", size, size, DIAGONAL, inside=((column, Fraction(1)),)))


def _stripped(word: Word) -> tuple[Word, Word, Word]:
    """Diagonal letters on the left, the rest, diagonal letters on the right."""
    start, stop = 0, len(word)
    while start < stop and word[start].kind == DIAGONAL:
        start += 1
    while stop > start and word[stop - 1].kind == DIAGONAL:
        stop -= 1
    return word[:start], word[start:stop], word[stop:]
