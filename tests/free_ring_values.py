"""Numbers for the free ring: what a polynomial in letters is, once each letter is a matrix of float64.

The letters of inputs get the rows of drawn sequences; every other letter says by its text and its attributes what it
stands for, and is computed here in plain NumPy: masks and decays by their definitions, token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from numerics.free_ring.blocks import Block
from numerics.free_ring.functions import INVERTED
from numerics.free_ring.letters import DIAGONAL, ONES, Letter, Word
from numerics.free_ring.polynomials import Polynomial
from numerics.free_ring.scalars import Atom, Scalar

Array = np.ndarray


class NotInterpreted(Exception):
    """A letter whose text doesn't say what it is made of."""


class Values:
    """A matrix for each letter.

    Args:
        sizes: a number for each size: {"n": 3, "d_k": 2, "1": 1}.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self.known: dict[str, Array] = {}

    def name(self, block: Block, value: Array) -> None:
        """Gives the letters of an input's blocks their rows and columns of its value.

        Raises:
            NotInterpreted: a size is made of others.
        """
        if {*block.rows, *block.columns} - self.sizes.keys():
            raise NotInterpreted(f"{block.rows} x {block.columns}")
        row = 0
        for height, entries in zip(block.rows, block.entries, strict=True):
            column = 0
            for width, entry in zip(block.columns, entries, strict=True):
                part = value[row : row + self.sizes[height], column : column + self.sizes[width]]
                self._name_letter(entry, part)
                column += self.sizes[width]
            row += self.sizes[height]

    def _name_letter(self, entry: Polynomial, part: Array) -> None:
        if not entry.terms:
            return
        [(word, scalar)] = entry.terms.items()
        letters = [letter for letter in word if letter.kind != ONES]
        if not letters:
            [((atom, _),)] = scalar.terms
            self.known[str(atom)] = part
            return
        [letter] = letters
        if letter.kind == DIAGONAL:
            part = np.diag(part.ravel())
        self.known[letter.base] = part.T if letter.transposed else part

    def block(self, block: Block) -> Array:
        """A block matrix as one array."""
        return np.block([[self.polynomial(entry) for entry in row] for row in block.entries])

    def polynomial(self, p: Polynomial) -> Array:
        total = np.zeros((self.sizes[p.rows], self.sizes[p.columns]))
        for word, scalar in p.terms.items():
            total = total + self.scalar(scalar) * self.word(word, p.rows)
        return total

    def word(self, word: Word, rows: str) -> Array:
        product = np.eye(self.sizes[rows])
        for letter in word:
            product = product @ self.letter(letter)
        return product

    def letter(self, letter: Letter) -> Array:
        if letter.kind == ONES:
            return np.ones((self.sizes[letter.rows], self.sizes[letter.columns]))
        upright = letter.T if letter.transposed else letter
        value = self._upright(upright)
        return value.T if letter.transposed else value

    def _upright(self, letter: Letter) -> Array:
        base = self._base(letter)
        if letter.power == 1:
            return base
        if letter.kind == DIAGONAL:
            return np.diag(np.diag(base) ** float(letter.power))
        return np.linalg.matrix_power(np.linalg.inv(base) if letter.power < 0 else base, abs(int(letter.power)))

    def _base(self, letter: Letter) -> Array:
        if letter.base in self.known:
            return self.known[letter.base]
        if letter.base in INVERTED:
            return self.polynomial(INVERTED[letter.base])
        if letter.inside and letter.kind == DIAGONAL:
            return np.diag(self.word(letter.inside[0][0], letter.rows).ravel())
        if letter.inside:
            rows = letter.columns if letter.transposed else letter.rows
            parts = [self.word(word, rows) ** float(power) for word, power in letter.inside]
            return np.prod(parts, axis=0)
        return self._of_positions(letter)

    def _of_positions(self, letter: Letter) -> Array:
        """Masks and products of gates."""
        n = self.sizes[letter.rows]
        if letter.base.startswith("exp("):
            exponent = self._read(letter.base[len("exp(") : -1])
            return np.exp(np.diag(exponent)) * np.eye(n) if letter.kind == DIAGONAL else np.exp(exponent)
        if letter.base in ("M", "M⁻"):
            return np.tril(np.ones((n, n)), 0 if letter.base == "M" else -1)
        kind, _, name = letter.base.removesuffix(")").partition("(")
        if kind not in PRODUCTS:
            raise NotInterpreted(letter.base)
        gates = self._gates(name)
        value = PRODUCTS[kind](gates)
        return np.diag(value.ravel()) if letter.kind == DIAGONAL else value

    def _gates(self, name: str) -> Array:
        """Gates by name: n x 1, or n x d where each channel has its own."""
        gates: Array = np.ones(())
        for one in name.removesuffix(" 1").split(" ") if not name.startswith(("[", "exp")) else [name]:
            if one not in self.known:
                raise NotInterpreted(name)
            value = self.known[one]
            square = value.shape[0] == value.shape[1] and not np.any(value - np.diag(np.diag(value)))
            own = np.diag(value)[:, None] if square and value.size > 1 else value
            gates = gates * own
        return np.broadcast_to(gates, (self.sizes["n"], gates.shape[-1])) if gates.shape[0] == 1 else gates

    def _read(self, text: str) -> Array:
        """A product as it is written in the text of an exponential: inputs, transposes, inner products, numbers."""
        product: Array = np.ones((1, 1))
        for one in _split(text):
            value = self._read_one(one)
            product = product * value if 1 in (product.size, value.size) else product @ value
        return product

    def _read_one(self, text: str) -> Array:
        if text.startswith("(") and text.endswith(")"):
            return self._read(text[1:-1])
        if text.endswith("ᵀ"):
            return self._read_one(text[:-1]).T
        if text in self.known:
            return self.known[text]
        if text in ("M", "M⁻"):
            return self._upright(Letter(text, "n", "n"))
        if text.lstrip("-").replace("/", "").isdigit():
            return np.full((1, 1), float(Fraction(text)))
        raise NotInterpreted(text)

    def scalar(self, scalar: Scalar) -> float:
        return sum(
            float(value) * float(np.prod([self._atom(atom) ** float(power) for atom, power in monomial]))
            for monomial, value in scalar.terms.items()
        )

    def _atom(self, atom: Atom) -> float:
        if atom.denominator is not None:
            return 1 / self.scalar(atom.denominator)
        if atom.startswith("("):
            return float(self.word(atom.word, atom.word[0].rows).item())
        if atom.startswith("tr("):
            return float(np.trace(self.word(atom.word, atom.word[0].rows)))
        if str(atom) in self.known:
            return float(self.known[str(atom)].item())
        if atom.startswith("exp("):
            return float(np.exp(self._read(atom[len("exp(") : -1])).item())
        if atom.startswith("total("):
            return float(np.prod(self._gates(atom[len("total(") : -1])))
        raise NotInterpreted(str(atom))


def _split(text: str) -> list[str]:
    """The factors of a product: at spaces outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == " " and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _decay(gates: Array, shift: int) -> Array:
    """The product of the gates j + 1 .. i - shift, for i > j."""
    n = len(gates)
    return np.array([[np.prod(gates[j + 1 : i + 1 - shift]) if i > j else 0.0 for j in range(n)] for i in range(n)])


PRODUCTS: dict[str, Callable[[Array], Array]] = {
    "Γ": lambda gates: _decay(gates, 0) + np.eye(len(gates)),
    "Γ⁻": lambda gates: _decay(gates, 0),
    "Γˢʰ": lambda gates: _decay(gates, 1),
    "cum": lambda gates: np.cumprod(gates, axis=0),
    "rem": lambda gates: np.array([np.prod(gates[k + 1 :], axis=0) for k in range(len(gates))]),
    "before": lambda gates: np.array([np.prod(gates[:k], axis=0) for k in range(len(gates))]),
    "total": lambda gates: np.prod(gates, axis=0),
}


def numbers(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Drawn inputs with the leading dimension of one taken off."""
    return {x: value if isinstance(value, int) else value[0] for x, value in values.items()}
