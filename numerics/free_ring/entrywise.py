"""Entrywise products as letters: K . B^-1 is one letter, whichever order and brackets it was written in."""

from __future__ import annotations

from fractions import Fraction

from derivations.language.errors import UndefinedValue
from numerics.free_ring.letters import DIAGONAL, PLAIN, Letter, Word, text_of, transposed

MASKS = ("M⁻", "M")
"""Zeros and ones: a power of them is themselves, and the strict one has the zeros of the other."""


def entrywise(given: list[tuple[Word, Fraction]], rows: str, columns: str) -> Word:
    """The entrywise product of powers of words as one letter, in an orientation that its transpose shares."""
    exponents: dict[Word, Fraction] = {}
    for word, exponent in given:
        for inner, own in factors(word):
            exponents[inner] = exponents.get(inner, Fraction(0)) + own * exponent
    exponents = _without_masks(exponents)
    if len(exponents) == 1 and next(iter(exponents.values())) == 1:
        return next(iter(exponents))
    upright = _text(exponents)
    flipped = {transposed(word): exponent for word, exponent in exponents.items()}
    if _text(flipped) < upright:
        return (_letter(flipped, columns, rows).T,)
    return (_letter(exponents, rows, columns),)


def _letter(exponents: dict[Word, Fraction], rows: str, columns: str) -> Letter:
    return Letter(_text(exponents), rows, columns, PLAIN, inside=tuple(sorted(exponents.items())))


def factors(word: Word) -> list[tuple[Word, Fraction]]:
    """What an entrywise product is made of; any other word is its own factor."""
    if len(word) != 1 or not word[0].inside or word[0].kind == DIAGONAL or word[0].power != 1:
        return [(word, Fraction(1))]
    return [(transposed(inner) if word[0].transposed else inner, own) for inner, own in word[0].inside]


def _without_masks(exponents: dict[Word, Fraction]) -> dict[Word, Fraction]:
    kept = {word: exponent for word, exponent in exponents.items() if exponent}
    for word in list(kept):
        base, flipped = (word[0].base, word[0].transposed) if len(word) == 1 else ("", False)
        if kept[word] < 0 and (base in MASKS or base.startswith("Γ")):
            raise UndefinedValue("it divides by the zeros of a mask")
        if base not in MASKS:
            continue
        kept[word] = Fraction(1)
        others = {w[0].base for w in kept if len(w) == 1 and w[0].transposed == flipped and w != word}
        if base == "M" and any(other == "M⁻" or other.startswith("Γ") for other in others):
            del kept[word]
    return kept


def _text(exponents: dict[Word, Fraction]) -> str:
    pieces = []
    for word in sorted(exponents):
        text = text_of(word) if len(word) == 1 else f"({text_of(word)})"
        pieces.append(text if exponents[word] == 1 else f"{text}^{exponents[word]}")
    return f"[{' ⊙ '.join(pieces)}]"
