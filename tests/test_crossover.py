"""From which length on a form is the cheaper one, and which size of a block is best: against trying them all."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Integer, Rational, sqrt

from derivations import decay, linear_attention
from derivations.language import n
from numerics.costs.best_chunk import best_chunk
from numerics.costs.comparison import Setting, best_chunks, crossovers
from numerics.costs.crossover import cheaper_from
from numerics.costs.system import costs_of
from numerics.evaluate import CHUNK as C

FAR = 200
"""Beyond every root of a polynomial whose coefficients are these."""
coefficients = st.lists(st.integers(-20, 20), min_size=1, max_size=4)


def value(factors: list[int], length: Any) -> Any:
    return sum(factor * length**power for power, factor in enumerate(factors))


@given(coefficients, coefficients)
def test_a_crossover_is_where_trying_all_lengths_finds_it(first: list[int], second: list[int]) -> None:
    less = [value(first, length) < value(second, length) for length in range(1, FAR)]
    found = cheaper_from(value(first, n) / Integer(2), value(second, n) / Integer(2))
    if found is None:
        assert not less[-1]
    else:
        assert all(less[found - 1 :])
        assert found == 1 or not less[found - 2]


def test_equal_costs_have_no_crossover() -> None:
    assert cheaper_from(n**2 + 1, n**2 + 1) is None
    assert cheaper_from(n**2, n**2 + 1) == 1


positive = st.integers(1, 3000)


@given(positive, positive, st.integers(0, 3), st.integers(2, 70))
def test_no_size_of_a_block_is_better(linear: int, inverse: int, square: int, length: int) -> None:
    time = Rational(linear, 7) * C + inverse / C + square * C**2 + 5
    at = lambda size: Fraction(linear, 7) * size + Fraction(inverse, size) + square * size**2 + 5
    found = best_chunk(time, length)
    assert all(found.time <= at(size) for size in range(2, length + 1))
    powers = [size for size in (2, 4, 8, 16, 32, 64) if size <= length]
    assert found.time_there == min(map(at, powers)) == at(found.power_of_two)
    assert 2 <= found.exact <= length


def test_the_best_size_at_the_ends() -> None:
    assert best_chunk(1 / C, 100).exact == 100
    assert best_chunk(1 / C, 100).power_of_two == 64
    assert best_chunk(C, 100).exact == best_chunk(C, 100).power_of_two == 2
    assert best_chunk(Integer(5), 100).time == 5


def test_no_best_size_where_operations_are_no_polynomial_in_it() -> None:
    costs = [costs_of("chunkwise", form, 4) for form in (decay.retention_chunkwise, linear_attention.matrix)]
    assert best_chunks(costs, Setting(chunk=4)) == {}


FORMS = [linear_attention.linear_attention.forms[name] for name in ("recurrence", "matrix", "chunkwise")]


@pytest.mark.parametrize(("d_k", "d_v", "chunk"), [(4, 4, 2), (3, 5, 4), (8, 2, 3)])
def test_crossovers_of_linear_attention(d_k: int, d_v: int, chunk: int) -> None:
    """2 n d_k d_v against n^2 (d_k + d_v) and 2 n d_k d_v + n C (d_k + d_v); a token against a row of n."""
    costs = [
        costs_of(name, form, chunk) for name, form in zip(("recurrence", "matrix", "chunkwise"), FORMS, strict=True)
    ]
    found = {(x.forms, x.compared): x for x in crossovers(costs, Setting(d_k, d_v, chunk))}
    taken = {
        "recurrence": lambda length: 2 * length * d_k * d_v,
        "matrix": lambda length: length**2 * (d_k + d_v),
        "chunkwise": lambda length: length * (2 * d_k * d_v + chunk * (d_k + d_v)),
    }
    for forms in (("recurrence", "matrix"), ("recurrence", "chunkwise"), ("matrix", "chunkwise")):
        crossover = found[forms, "multiplications"]
        (other,) = set(forms) - {crossover.cheaper}
        less = [taken[str(crossover.cheaper)](x) < taken[other](x) for x in range(1, FAR)]
        assert crossover.length == (FAR - less[::-1].index(False) if False in less else 1)
    row = lambda length: length * (d_k + d_v) + length * (d_k - 1) + (length - 1) * d_v
    step = 2 * d_k * d_v + d_k * d_v + d_v * (d_k - 1)
    token = found[("recurrence", "matrix"), "operations of one token"]
    assert token.cheaper == "recurrence"
    assert token.length == next(x for x in range(1, FAR) if row(x) > step)


def test_the_best_block_of_linear_attention() -> None:
    """With d_k = d_v = d, of long sequences: n d^2 / C additions of states against 4 n C d in products of matrices."""
    width, ratio = 128, 16
    (found,) = best_chunks([costs_of("chunkwise", FORMS[2], 64)], Setting(width, width, 64, 4096, ratio)).values()
    scores = Rational(4 * width - 1, ratio)  # the first of d_k terms isn't added to anything
    assert found.exact == sqrt(width**2 * (1 - Rational(1, ratio)) / scores)
    assert found.power_of_two == 16
