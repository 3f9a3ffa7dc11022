"""Products of gates as letters: decays between tokens of the past, and up to, before and after each of them.

Where no gate is zero a decay is a quotient of cumulative products, Gamma = D_b M D_b^-1; else it is a letter.
"""

from __future__ import annotations

from fractions import Fraction

from numerics.free_ring import scalars
from numerics.free_ring.blocks import all_ones
from numerics.free_ring.functions import (
    cumulative_word,
    diagonal,
    entrywise_power,
    gates_name,
    powers,
    total_of_gates,
)
from numerics.free_ring.letters import DIAGONAL, ONE_SIZE, Letter, Word, ones
from numerics.free_ring.polynomials import Polynomial, diagonal_of, hadamard


class Decays:
    """Products of gates of the past: of a column D_gamma 1, or of a matrix with a gate for each channel.

    Args:
        invertible: names of gates that aren't zero.
    """

    def __init__(self, invertible: frozenset[str]) -> None:
        self.invertible = invertible

    def past_decay(self, gates: Polynomial, name: str, strict: bool, shift: int) -> Polynomial:
        run = self._invertible_run(gates)
        if run is None:
            return Polynomial.of(Letter(f"{name}({gates_name(gates)})", gates.rows, gates.rows))
        if _are_ones(gates):
            return Polynomial.of(Letter("M⁻" if strict else "M", gates.rows, gates.rows))
        cumulative = cumulative_word(gates)
        mask = Polynomial.of(
            *cumulative, Letter("M⁻" if strict else "M", gates.rows, gates.rows), *powers(cumulative, Fraction(-1))
        )
        return diagonal(entrywise_power(gates, Fraction(-1))) @ mask if shift else mask

    def _invertible_run(self, gates: Polynomial) -> Word | None:
        """The diagonal letters of a column of gates none of which is zero."""
        if len(gates.terms) != 1 or gates.columns != ONE_SIZE:
            return None
        [(word, scalar)] = gates.terms.items()
        run = diagonal_of(word, gates.rows)
        if run is None or list(scalar.terms.values()) != [1]:
            return None
        constant = [atom for atom, _ in next(iter(scalar.terms))]
        nonzero = all(map(self._is_nonzero, run)) and all(atom.startswith("exp(") for atom in constant)
        return run if nonzero else None

    def _is_nonzero(self, letter: Letter) -> bool:
        """Whether no gate is zero: by assumption, or as an exponential."""
        return letter.base in self.invertible or _is_exponential(letter)

    def total(self, gates: Polynomial) -> Polynomial:
        """The product of all gates of the past, as a row."""
        if _are_ones(gates):
            return all_ones((ONE_SIZE,), (gates.columns,)).single
        if gates.columns == ONE_SIZE:
            return Polynomial.scalar(total_of_gates(gates))
        size, name = gates.columns, f"total({gates_name(gates)})"
        return Polynomial.of(*(letter.T for letter in ones(size)), Letter(name, size, size, DIAGONAL))

    def cumulative(self, gates: Polynomial) -> Polynomial:
        if _are_ones(gates):
            return gates
        if gates.columns == ONE_SIZE:
            return Polynomial.of(*cumulative_word(gates), *ones(gates.rows))
        return Polynomial.of(Letter(f"cum({gates_name(gates)})", gates.rows, gates.columns))

    def remaining(self, gates: Polynomial) -> Polynomial:
        """The products of the gates after each token of the past: the last row of Gamma, as a column."""
        if _are_ones(gates):
            return gates
        if gates.columns == ONE_SIZE:
            if self._invertible_run(gates) is None:
                return Polynomial.of(
                    Letter(f"rem({gates_name(gates)})", gates.rows, gates.rows, DIAGONAL), *ones(gates.rows)
                )
            total = self.total(gates).value
            return Polynomial.of(*powers(cumulative_word(gates), Fraction(-1)), *ones(gates.rows)).times(total)
        if self._is_invertible_matrix(gates):
            to_one = entrywise_power(self.cumulative(gates), Fraction(-1))
            return hadamard(to_one, Polynomial.of(*ones(gates.rows)) @ self.total(gates))
        return Polynomial.of(Letter(f"rem({gates_name(gates)})", gates.rows, gates.columns))

    def _is_invertible_matrix(self, gates: Polynomial) -> bool:
        [word] = gates.terms if len(gates.terms) == 1 else [()]
        return len(word) == 1 and word[0].base in self.invertible and gates.terms[word] == scalars.ONE

    def preceding(self, gates: Polynomial) -> Polynomial:
        """The products of the gates before each token of the past."""
        if _are_ones(gates):
            return gates
        if self._invertible_run(gates) is not None or self._is_invertible_matrix(gates):
            return hadamard(self.cumulative(gates), entrywise_power(gates, Fraction(-1)))
        name = f"before({gates_name(gates)})"
        if gates.columns == ONE_SIZE:
            return Polynomial.of(Letter(name, gates.rows, gates.rows, DIAGONAL), *ones(gates.rows))
        return Polynomial.of(Letter(name, gates.rows, gates.columns))


def _are_ones(gates: Polynomial) -> bool:
    return gates == all_ones((gates.rows,), (gates.columns,)).single


def _is_exponential(letter: Letter) -> bool:
    """exp of something, or a product of such: never zero."""
    inside = [word for word, _ in letter.inside]
    if inside:
        return all(len(word) == 1 and _is_exponential(word[0]) for word in inside)
    return letter.base.startswith("exp(")
