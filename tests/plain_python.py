"""What the statements mean, once more, in plain Python: lists of fractions, and loops over the definitions.

Nothing here is shared with `numerics`: no array, no walk, no algebra. Matrices are lists of rows, rows are lists of
numbers, and positions are counted from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

Matrix = list[list[Any]]


def dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return sum(x * y for x, y in zip(a, b, strict=True))


def table(rows: int, columns: int, entry: Any) -> Matrix:
    """The matrix with entry(i, j)."""
    return [[entry(i, j) for j in range(columns)] for i in range(rows)]


def transpose(a: Matrix) -> Matrix:
    return [list(column) for column in zip(*a, strict=True)]


def product(*factors: Matrix) -> Matrix:
    """A matrix product, entry by entry as the sum over the inner index."""
    result = factors[0]
    for factor in factors[1:]:
        columns = transpose(factor)
        result = [[dot(row, column) for column in columns] for row in result]
    return result


def plus(*terms: Matrix) -> Matrix:
    return [[sum(entries) for entries in zip(*rows, strict=True)] for rows in zip(*terms, strict=True)]


def times(factor: Any, a: Matrix) -> Matrix:
    return [[factor * entry for entry in row] for row in a]


def minus(a: Matrix, b: Matrix) -> Matrix:
    return plus(a, times(-1, b))


def entrywise(a: Matrix, b: Matrix) -> Matrix:
    return [[x * y for x, y in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]


def unit(size: int) -> Matrix:
    return table(size, size, lambda i, j: Fraction(int(i == j)))


def outer(a: Sequence[Any], b: Sequence[Any]) -> Matrix:
    return [[x * y for y in b] for x in a]


def apply(a: Matrix, x: Sequence[Any]) -> list[Any]:
    return [dot(row, x) for row in a]


def product_of(numbers: Sequence[Any]) -> Any:
    result: Any = Fraction(1)
    for number in numbers:
        result = result * number
    return result


def sign_of(order: Sequence[int]) -> int:
    swaps = sum(a > b for k, a in enumerate(order) for b in order[k + 1 :])
    return -1 if swaps % 2 else 1


def determinant(a: Matrix) -> Any:
    """Leibniz: the sum over all permutations."""
    size = range(len(a))
    return sum(
        (sign_of(order) * product_of([a[i][order[i]] for i in size]) for order in permutations(size)), Fraction(0)
    )


def inverse(a: Matrix) -> Matrix:
    """The matrix of cofactors over the determinant; ZeroDivisionError where a is singular."""
    size = len(a)

    def cofactor(i: int, j: int) -> Any:
        rest = [[a[r][c] for c in range(size) if c != j] for r in range(size) if r != i]
        return (-1) ** (i + j) * determinant(rest)

    whole = Fraction(1) / determinant(a)
    return table(size, size, lambda i, j: whole * cofactor(j, i))


def decay(gates: Sequence[Any], i: int, j: int) -> Any:
    """Gamma_ij: the gates after j up to i; zero above the diagonal."""
    return product_of(gates[j + 1 : i + 1]) if i >= j else Fraction(0)


def shifted_decay(gates: Sequence[Any], i: int, j: int) -> Any:
    """Gamma^sh_ij: the gates after j and before i; zero on and above the diagonal."""
    return product_of(gates[j + 1 : i]) if i > j else Fraction(0)
