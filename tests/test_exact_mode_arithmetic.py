"""Arithmetic modulo p and modulo p - 1 on tensors against Python's integers, and solvers against python-flint."""

from __future__ import annotations

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from derivations.language.errors import UndefinedValue  # noqa: E402
from gpu.exact_mode import modular, systems  # noqa: E402

PRIME = 2**31 - 1
EXTREME = st.sampled_from([0, 1, 2, 2**16, 2**30, PRIME - 2, PRIME - 1])
RESIDUES = st.one_of(EXTREME, st.integers(0, PRIME - 1))
SEEDS = st.integers(0, 2**32 - 1)
MODULI = pytest.mark.parametrize("modulus", [PRIME, PRIME - 1])


def drawn(seed: int, *shape: int, below: int = PRIME) -> torch.Tensor:
    """Residues, most of them at random, and some of them the largest and the smallest."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, below, shape)
    special = rng.choice([0, 1, below - 1], shape)
    return torch.tensor(np.where(rng.random(shape) < 0.2, special, values))


@given(st.lists(st.tuples(RESIDUES, RESIDUES), min_size=1, max_size=20), st.booleans())
@MODULI
def test_products(modulus: int, pairs: list[tuple[int, int]], many: bool) -> None:
    """Small tensors and large ones are reduced in different ways."""
    pairs = [(a % modulus, b % modulus) for a, b in pairs] * (modular.LARGE // len(pairs) + 1 if many else 1)
    a, b = (torch.tensor(x) for x in zip(*pairs, strict=True))
    assert modular.product(a, b, modulus).tolist() == [x * y % modulus for x, y in pairs]


@given(SEEDS, st.integers(1, 5), st.one_of(st.integers(0, 70), st.sampled_from([2**11, 2**13 + 1])))
@MODULI
def test_matrix_products(modulus: int, seed: int, rows: int, inner: int) -> None:
    a, b = drawn(seed, 2, rows, inner, below=modulus), drawn(seed + 1, inner, 3, below=modulus)
    exact = np.matmul(a.numpy().astype(object), b.numpy().astype(object)) % modulus
    expected = exact if inner else np.zeros((2, rows, 3), dtype=object)
    assert modular.matmul(a, b, modulus).tolist() == expected.tolist()


def test_the_largest_residues_in_the_longest_sums() -> None:
    """Here a sum of pieces comes closest to 2^53."""
    for inner in (1, 2, 63, 64, 65, 2**11, 2**11 + 1, 2**17):
        a = torch.full((1, inner), PRIME - 1)
        assert modular.matmul(a, a.mT).item() == inner * (PRIME - 1) ** 2 % PRIME
    with pytest.raises(UndefinedValue, match="too long"):
        modular.matmul(torch.zeros(1, 2**22, dtype=torch.int64), torch.zeros(2**22, 1, dtype=torch.int64))


@given(st.lists(RESIDUES, min_size=1, max_size=8), st.integers(0, 2**33))
def test_powers_and_inverses(values: list[int], exponent: int) -> None:
    base = torch.tensor(values)
    assert modular.power(base, exponent).tolist() == [pow(x, exponent, PRIME) for x in values]
    units = [x or 1 for x in values]
    assert modular.inverse(torch.tensor(units)).tolist() == [pow(x, -1, PRIME) for x in units]


@given(st.lists(st.tuples(RESIDUES, st.integers(0, PRIME - 2)), min_size=1, max_size=8))
def test_exponents_entry_by_entry(pairs: list[tuple[int, int]]) -> None:
    base, exponents = (torch.tensor(x) for x in zip(*pairs, strict=True))
    assert modular.powers(base, exponents).tolist() == [pow(x, e, PRIME) for x, e in pairs]
    assert modular.exponential(exponents).tolist() == [pow(7, e, PRIME) for _, e in pairs]


def test_the_generator_generates_all_units() -> None:
    assert modular.GENERATOR == 7
    for factor in (2, 3, 7, 11, 31, 151, 331):
        assert (PRIME - 1) % factor == 0
        assert pow(7, (PRIME - 1) // factor, PRIME) != 1
    assert PRIME - 1 == 2 * 3**2 * 7 * 11 * 31 * 151 * 331


def test_division_by_zero() -> None:
    with pytest.raises(UndefinedValue, match="division by zero"):
        modular.inverse(torch.tensor([1, 0]))


def by_flint(a: np.ndarray, b: np.ndarray) -> list[list[int]]:
    left, right = (flint.nmod_mat(*x.shape, x.ravel().tolist(), PRIME) for x in (a, b))
    return [[int(x) for x in row] for row in left.solve(right).tolist()]


@given(SEEDS, st.integers(1, 70), st.booleans(), st.booleans())
def test_triangular_systems(seed: int, size: int, upper: bool, unit: bool) -> None:
    """What lies outside the triangle isn't read, nor the diagonal where it counts as ones."""
    a, b = drawn(seed, 2, size, size), drawn(seed + 1, size, 2)
    a.diagonal(dim1=-2, dim2=-1).clamp_(min=1)
    read = a.triu() if upper else a.tril()
    if unit:
        read = read - torch.diag_embed(read.diagonal(dim1=-2, dim2=-1)) + torch.eye(size, dtype=torch.int64)
    found = systems.solve_triangular(a, b, upper, unit)
    assert found.tolist() == [by_flint(each.numpy(), b.numpy()) for each in read]


@given(SEEDS, st.integers(1, 12), st.booleans())
def test_general_systems(seed: int, size: int, transposed: bool) -> None:
    """With zeros where elimination without exchanges would need a pivot."""
    rng = np.random.default_rng(seed)
    a = np.stack([rng.permutation(np.triu(drawn(seed + k, size, size).clamp(min=1).numpy())) for k in range(2)])
    b = drawn(seed + 2, 2, size, 3)
    lu, pivots = systems.factorise(torch.tensor(a))
    found = systems.solve_factorised(lu, pivots, b, transposed)
    expected = [by_flint(x.T if transposed else x, y) for x, y in zip(a, b.numpy(), strict=True)]
    assert found.tolist() == expected


def test_factors_are_those_of_the_matrix() -> None:
    a = drawn(3, 5, 5)
    a[0, 0] = 0
    lu, pivots = systems.factorise(a)
    lower, upper = lu.tril(-1) + torch.eye(5, dtype=torch.int64), lu.triu()
    for k, other in enumerate((pivots - 1).tolist()):
        a[[k, other]] = a[[other, k]]
    assert torch.equal(modular.matmul(lower, upper), a)
    assert pivots[0] > 1


def test_a_singular_matrix() -> None:
    with pytest.raises(UndefinedValue, match="singular"):
        systems.factorise(torch.tensor([[[1, 2], [3, 6]]]))
