"""Words in a normal form: products of letters, reduced until only knowing the letters would say more.

Diagonal matrices commute, a square letter meets its inverse, D_x 1 is x, and whatever stands between two sides of size
one is a scalar.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from numerics.free_ring.entrywise import entrywise, factors
from numerics.free_ring.letters import DIAGONAL, ONE_SIZE, ONES, Letter, Word, diagonals_sorted, text_of, transposed
from numerics.free_ring.scalars import ONE, Atom, Scalar, of_atom


@lru_cache(maxsize=200_000)
def normal(word: Word, rows: str, columns: str) -> tuple[Scalar, Word]:
    """The normal form of a product of shape rows x columns: a scalar, and what is left of the word."""
    word = _collected(word)
    pieces = _pieces(word)
    if len(pieces) == 1 and not (rows == columns == ONE_SIZE and word):
        return ONE, word
    first = 0 if rows == ONE_SIZE else 1
    last = len(pieces) if columns == ONE_SIZE else len(pieces) - 1
    factor = ONE
    for piece in pieces[first:last]:
        factor = factor * scalar_of(piece)
    outer = (pieces[0] if first else ()) + (pieces[-1] if last < len(pieces) else ())
    return factor, outer


def scalar_of(word: Word) -> Scalar:
    """A 1 x 1 product as a scalar, which is its own transpose."""
    word = _of_columns(word)
    word = min(word, transposed(word))
    return of_atom(Atom(f"({text_of(word)})", word))


def _of_columns(word: Word) -> Word:
    """x^T D_y z is the sum of the entries of x . y . z, in whatever order these columns were written."""
    first, last, between = word[0], word[-1], word[1:-1]
    if len(word) < 2 or any(letter.kind != DIAGONAL or letter.power != 1 for letter in between):
        return word
    columns = [*factors((first.T,)), *factors((last,))]
    columns += [(letter.inside[0][0], Fraction(1)) for letter in between if letter.inside]
    if len(columns) < 3 or any(letter.kind == ONES for letter in (first, last)):
        return word
    (lowest, power), *rest = sorted(columns)
    if power != 1:
        return word
    named = tuple(letter for letter in between if not letter.inside)
    return (*transposed(lowest), *named, *entrywise(rest, last.rows, ONE_SIZE))


def _pieces(word: Word) -> list[Word]:
    """The word, cut wherever two letters meet at a side of size one."""
    cuts = [index + 1 for index, (left, _) in enumerate(pairwise(word)) if left.columns == ONE_SIZE]
    return [word[start:stop] for start, stop in pairwise([0, *cuts, len(word)])]


def _collected(word: Word) -> Word:
    """Diagonal letters in order, powers merged, D_x 1 as x."""
    while True:
        merged = _applied(_powers_merged(diagonals_sorted(word)))
        if merged == word:
            return word
        word = merged


def _powers_merged(word: Iterable[Letter]) -> Word:
    out: list[Letter] = []
    for letter in word:
        square = letter.rows == letter.columns
        if out and square and out[-1].base == letter.base and out[-1].transposed == letter.transposed:
            power = out.pop().power + letter.power
            if power:
                out.append(letter.to_the(power))
        else:
            out.append(letter)
    return tuple(out)


def _applied(word: Word) -> Word:
    """D_x 1 = x and D_x y = x . y, where x is more than a gate; likewise on the left of a row."""
    for index, letter in enumerate(word):
        if letter.kind != DIAGONAL or not letter.inside or letter.power != 1:
            continue
        right = _past_diagonals(word, index, 1)
        if right < len(word) and word[right].columns == ONE_SIZE:
            column = _times_column(letter, (word[right],))
            return word[:index] + word[index + 1 : right] + column + word[right + 1 :]
        left = _past_diagonals(word, index, -1)
        if left >= 0 and word[left].rows == ONE_SIZE:
            row = transposed(_times_column(letter, (word[left].T,)))
            return word[:left] + row + word[left + 1 : index] + word[index + 1 :]
    return word


def _past_diagonals(word: Word, index: int, step: int) -> int:
    """The nearest place that has no diagonal letter."""
    index += step
    while 0 <= index < len(word) and word[index].kind == DIAGONAL:
        index += step
    return index


def _times_column(diagonal: Letter, column: Word) -> Word:
    [(own, _)] = diagonal.inside
    if column[0].kind == ONES:
        return own
    return entrywise([(own, Fraction(1)), (column, Fraction(1))], diagonal.rows, ONE_SIZE)
