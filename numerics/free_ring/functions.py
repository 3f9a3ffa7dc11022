"""What isn't a product: inverses, reciprocals, exponentials and traces of polynomials over words, as letters."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce

from derivations.language.errors import NoMeaning, UndefinedValue
from numerics.free_ring import scalars
from numerics.free_ring.entrywise import entrywise
from numerics.free_ring.letters import DIAGONAL, ONE_SIZE, ONES, Letter, Word, ones, text_of, transposed
from numerics.free_ring.polynomials import Polynomial, diagonal_of, diagonal_or_letter, hadamard
from numerics.free_ring.scalars import Atom, Monomial, Scalar, of_atom


def scalar_power(value: Scalar, exponent: Fraction) -> Scalar:
    """A power of a scalar.

    Raises:
        UndefinedValue: zero has no reciprocal.
        NoMeaning: a sum has no root.
    """
    try:
        return value.power(exponent)
    except ZeroDivisionError as error:
        raise UndefinedValue("it divides by zero") from error
    except ValueError as error:
        raise NoMeaning(f"growing history: {error}") from error


def entrywise_power(p: Polynomial, exponent: Fraction) -> Polynomial:
    """Each entry to a power: of a scalar, or of a matrix that is one word."""
    if p.rows == p.columns == ONE_SIZE:
        return Polynomial.scalar(scalar_power(p.value, exponent))
    if not p:
        raise UndefinedValue("it divides by zero")
    if len(p.terms) != 1:
        return Polynomial.of(*entrywise([((Letter(f"({p})", p.rows, p.columns),), exponent)], p.rows, p.columns))
    [(word, scalar)] = p.terms.items()
    return _word_to_the(word, exponent, p).times(scalar_power(scalar, exponent))


def _word_to_the(word: Word, exponent: Fraction, p: Polynomial) -> Polynomial:
    if all(letter.kind == ONES for letter in word):
        return Polynomial.of(*word)
    if p.columns == ONE_SIZE and (run := diagonal_of(word, p.rows)) is not None:
        return Polynomial.of(*powers(run, exponent), word[-1])
    if p.rows == ONE_SIZE and (run := diagonal_of(transposed(word), p.columns)) is not None:
        return Polynomial.of(word[0], *powers(run, exponent))
    return Polynomial.of(*entrywise([(word, exponent)], p.rows, p.columns))


def powers(run: Word, exponent: Fraction) -> Word:
    """A power of a product of diagonal letters."""
    return tuple(letter.to_the(letter.power * exponent) for letter in run)


def inverse(p: Polynomial) -> Polynomial:
    """The inverse of a square matrix: letter by letter where it is one word of square letters, by Sherman and Morrison
    where a term is a column times a row, and else a letter of its own.
    """
    if p.rows == ONE_SIZE:
        return Polynomial.scalar(scalar_power(p.value, Fraction(-1)))
    if len(p.terms) == 1:
        [(word, scalar)] = p.terms.items()
        if all(letter.rows == letter.columns for letter in word):
            turned = tuple(letter.to_the(-letter.power) for letter in reversed(word))
            own = Polynomial.of(*turned) if turned else Polynomial.identity(p.rows)
            return own.times(scalar_power(scalar, Fraction(-1)))
    rank_one = [word for word in p.terms if any(letter.columns == ONE_SIZE for letter in word)]
    if rank_one and len(rank_one) < len(p.terms):
        return _with_rank_one(p, rank_one[0])
    outer = next((word for word in sorted(p.terms) if word and all(x.kind == DIAGONAL for x in word)), None)
    if outer is not None and any(letter.power < 0 for letter in outer) and () not in p.terms:
        return _with_diagonal_outside(p, outer)
    return _inverse_letter(p)


def _with_diagonal_outside(p: Polynomial, run: Word) -> Polynomial:
    """(c D + X)^-1 = (I + D^-1 X / c)^-1 D^-1 / c."""
    scale = scalar_power(p.terms[run], Fraction(-1))
    out = Polynomial.of(*powers(run, Fraction(-1))).times(scale)
    return _inverse_letter(out @ p) @ out


def _with_rank_one(p: Polynomial, word: Word) -> Polynomial:
    """(A + c x y^T)^-1 = A^-1 - A^-1 x y^T A^-1 / (1 / c + y^T A^-1 x)."""
    scalar = p.terms[word]
    cut = next(k + 1 for k, letter in enumerate(word) if letter.columns == ONE_SIZE)
    x, y = Polynomial.of(*word[:cut]), Polynomial.of(*word[cut:])
    rest = inverse(Polynomial(p.rows, p.columns, {w: c for w, c in p.terms.items() if w != word}))
    below = scalars.ONE + (y @ rest @ x).value * scalar
    correction = (rest @ x @ y @ rest).times(scalar * scalar_power(below, Fraction(-1)))
    return rest - correction


INVERTED: dict[str, Polynomial] = {}
"""What the letter of an inverse is the inverse of, by its text."""


def _inverse_letter(p: Polynomial) -> Polynomial:
    upright, turned = str(p), str(p.T)
    letter = Letter(f"({min(upright, turned)})", p.rows, p.columns, power=Fraction(-1))
    INVERTED[letter.base] = p if upright <= turned else p.T
    return Polynomial.of(letter if upright <= turned else letter.T)


def diagonal(column: Polynomial) -> Polynomial:
    """D_x of a column."""
    size = column.rows
    out = Polynomial(size, size)
    for word, scalar in column.terms.items():
        run = diagonal_or_letter(word, size)
        out = out + (Polynomial.of(*run) if run else Polynomial.identity(size)).times(scalar)
    return out


def trace(p: Polynomial) -> Scalar:
    """The trace: of a column times a row it is their inner product."""
    if p.rows == ONE_SIZE:
        return p.value
    total = scalars.ZERO
    for word, scalar in p.terms.items():
        total = total + scalar * _trace_of_word(word, p.rows)
    return total


def _trace_of_word(word: Word, size: str) -> Scalar:
    for k, letter in enumerate(word):
        if letter.columns == ONE_SIZE:
            return Polynomial.of(*word[k + 1 :], *word[: k + 1]).value
    if not word:
        return Polynomial.of(*(letter.T for letter in ones(size)), *ones(size)).value
    turns = [turned[k:] + turned[:k] for turned in (word, transposed(word)) for k in range(len(word))]
    return of_atom(Atom(f"tr({text_of(min(turns))})", min(turns)))


MASK = "M"
"""The causal mask: a sum over the tokens so far."""


def exponential(p: Polynomial) -> Polynomial:
    """The exponential of each entry: a product with one factor for each term."""
    if p.rows == p.columns == ONE_SIZE:
        return Polynomial.scalar(_exponential_of_scalar(p.value))
    factors = [_exponential_of_word(word, scalar, p) for word, scalar in p.terms.items()]
    whole = ones(p.rows) + tuple(letter.T for letter in ones(p.columns))
    return reduce(hadamard, factors, Polynomial.of(*whole))


def _exponential_of_scalar(value: Scalar) -> Scalar:
    total = scalars.ONE
    for monomial, coefficient in value.terms.items():
        summed = _summed_over_past(monomial)
        if summed is not None:
            total = total * total_of_gates(exponential(summed.times(scalars.number(coefficient))))
            continue
        text = str(Scalar({monomial: Fraction(1)}))
        word = tuple(letter for atom, _ in monomial for letter in atom.word)
        total = total * Scalar({((Atom(f"exp({text})", word), coefficient),): Fraction(1)})
    return total


def _summed_over_past(monomial: Monomial) -> Polynomial | None:
    """x where a monomial is 1^T x, the sum of a column."""
    sums = [
        (atom, power)
        for atom, power in monomial
        if len(atom.word) > 1 and ONES in {atom.word[0].kind, atom.word[-1].kind}
    ]
    if len(sums) != 1 or sums[0][1] != 1:
        return None
    word = sums[0][0].word if sums[0][0].word[0].kind == ONES else transposed(sums[0][0].word)
    rest = tuple(x for x in monomial if x != sums[0])
    return Polynomial.of(*word[1:]).times(Scalar({rest: Fraction(1)}))


def gates_name(gates: Polynomial) -> str:
    """How the products of a column of gates, or of a matrix of them, are named."""
    [word] = gates.terms if len(gates.terms) == 1 else [()]
    run = diagonal_of(word, gates.rows) if word and gates.columns == ONE_SIZE else None
    return text_of(run) if run and gates.terms[word] == scalars.ONE else str(gates)


def cumulative_word(gates: Polynomial) -> Word:
    """The diagonal matrix of the products of a column of gates up to each token."""
    return tuple(
        Letter(f"cum({name})", gates.rows, gates.rows, DIAGONAL, power) for name, power in _named_powers(gates)
    )


def total_of_gates(gates: Polynomial) -> Scalar:
    """The product of all of a column of gates."""
    return Scalar({tuple(sorted((Atom(f"total({name})"), power) for name, power in _named_powers(gates))): Fraction(1)})


def _named_powers(gates: Polynomial) -> list[tuple[str, Fraction]]:
    """A column of gates as powers of gates with a name: what is true of gates is true of their products."""
    [word] = gates.terms if len(gates.terms) == 1 else [()]
    run = diagonal_of(word, gates.rows) if word else None
    if run is not None and list(gates.terms[word].terms.values()) == [1]:
        [constant] = gates.terms[word].terms
        return [(letter.base, letter.power) for letter in run] + [(f"{atom} 1", power) for atom, power in constant]
    return [(gates_name(gates), Fraction(1))]


def _exponential_of_word(word: Word, scalar: Scalar, p: Polynomial) -> Polynomial:
    """exp of a scalar times a word; what is constant along a side stays so, and sums of exponents are products."""
    if all(letter.kind == ONES for letter in word):
        return Polynomial.of(*word).times(_exponential_of_scalar(scalar))
    if p.columns == ONE_SIZE and word[0] == MASK:
        rest = word[1:]
        gates = _exponential_of_word(rest, scalar, p)
        return Polynomial.of(*cumulative_word(gates), *ones(p.rows))
    cut = next((k + 1 for k, letter in enumerate(word[:-1]) if letter.columns == ONE_SIZE), 0)
    for own, rows, columns in ((word[:cut], p.rows, ONE_SIZE), (word[cut:], ONE_SIZE, p.columns)):
        rest = word[cut:] if columns == ONE_SIZE else word[:cut]
        if cut and all(letter.kind == ONES for letter in rest):
            inner = _exponential_of_word(own, scalar, Polynomial(rows, columns))
            constant = Polynomial.of(*rest)
            return inner @ constant if columns == ONE_SIZE else constant @ inner
    run = diagonal_of(word, p.rows) if p.columns == ONE_SIZE else None
    if run:
        return _exponential_of_gates(run, scalar, p.rows)
    if p.rows == ONE_SIZE:
        return _exponential_of_word(transposed(word), scalar, Polynomial(p.columns, p.rows)).T
    out = None
    for monomial, coefficient in scalar.terms.items():
        factor = Polynomial.of(*_exponential_letter(word, Scalar({monomial: Fraction(1)}), coefficient, p))
        out = factor if out is None else hadamard(out, factor)
    assert out is not None
    return out


def _exponential_of_gates(run: Word, scalar: Scalar, size: str) -> Polynomial:
    """exp of a column of gates is a column of gates."""
    made = []
    for monomial, coefficient in scalar.terms.items():
        scale = f"{Scalar({monomial: Fraction(1)})} " if monomial else ""
        made.append(Letter(f"exp({scale}{text_of(run)})", size, size, DIAGONAL, coefficient))
    return Polynomial.of(*made, *ones(size))


def _exponential_letter(word: Word, scalar: Scalar, coefficient: Fraction, p: Polynomial) -> Word:
    upright, turned = text_of(word), text_of(transposed(word))
    scale = "" if scalar == scalars.ONE else f"{scalar} "
    flipped = turned < upright
    rows, columns = (p.columns, p.rows) if flipped else p.shape
    letter = Letter(f"exp({scale}{min(upright, turned)})", rows, columns)
    return entrywise([((letter.T if flipped else letter,), coefficient)], p.rows, p.columns)
