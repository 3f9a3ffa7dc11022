"""Costs are exact polynomials in n, C, d_k and d_v, at sizes that they weren't fitted to; what is none says so."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from sympy import expand

from attnproof.catalogue import load_catalogue
from derivations import decay, feature_maps, linear_attention
from derivations.language import (
    Closed,
    Form,
    K,
    M,
    M_strict,
    NoMeaning,
    Parameter,
    Q,
    Recurrence,
    S,
    Symbol,
    V,
    d_k,
    d_v,
    gamma,
    k,
    n,
    q,
    t,
    v,
)
from numerics.costs.forms import CountedForm, has_blocks, widths_of
from numerics.costs.polynomials import fitted, through
from numerics.costs.system import OPERATIONS, Costs, costs_of
from numerics.costs.walks import walk
from numerics.evaluate import CHUNK as C

Sizes = dict[Any, int]


def product_of(rows: int, inner: int, columns: int) -> Counter[str]:
    """What the loops of a matrix product do."""
    done: Counter[str] = Counter()
    for _ in range(rows):
        for _ in range(columns):
            for term in range(inner):
                done["multiplications"] += 1
                done["additions"] += term > 0
    return done


def sum_of(rows: int, columns: int) -> Counter[str]:
    return Counter(additions=sum(1 for _ in range(rows) for _ in range(columns)))


def recurrence(x: Sizes) -> Counter[str]:
    done: Counter[str] = Counter()
    for _ in range(x[n]):
        done += product_of(x[d_v], 1, x[d_k]) + sum_of(x[d_v], x[d_k])  # S + v k^T
        done += product_of(x[d_v], x[d_k], 1)  # S q
    return done


def matrix(x: Sizes) -> Counter[str]:
    return product_of(x[n], x[d_k], x[n]) + product_of(x[n], x[n], x[d_v])


def chunkwise(x: Sizes) -> Counter[str]:
    done: Counter[str] = Counter()
    for _ in range(0, x[n], x[C]):
        done += product_of(x[d_v], x[C], x[d_k]) + sum_of(x[d_v], x[d_k])  # S + V^T K
        done += product_of(x[C], x[d_k], x[d_v]) + matrix({**x, n: x[C]}) + sum_of(x[C], x[d_v])  # Q S^T + ...
    return done


LOOPS = {"recurrence": recurrence, "matrix": matrix, "chunkwise": chunkwise}


@pytest.mark.parametrize("sizes", [(12, 4, 3, 5), (15, 3, 7, 2), (14, 7, 2, 9), (20, 10, 5, 5)], ids=str)
@pytest.mark.parametrize("name", LOOPS)
def test_linear_attention_takes_what_loops_take(name: str, sizes: tuple[int, ...]) -> None:
    x = dict(zip((n, C, d_k, d_v), sizes, strict=True))
    counted = costs_of(name, linear_attention.linear_attention.forms[name], chunk=2).sequence
    done = LOOPS[name](x)
    assert {kind: counted.found[kind][0].subs(x) for kind in OPERATIONS} == {kind: done[kind] for kind in OPERATIONS}
    assert not counted.missing


r = Symbol("r", integer=True, positive=True)
W = Parameter("W", r, d_k)
in_blocks = linear_attention.chunkwise

BY_HAND = {
    "blocks": (in_blocks, "multiplications", 2 * n * d_k * d_v + n * C * (d_k + d_v)),
    "of these in products of matrices": (in_blocks, "matrix multiplications", 2 * n * d_k * d_v + n * C * (d_k + d_v)),
    "a matrix and a column": (Closed((Q @ K.T) @ gamma), "matrix multiplications", 0),  # from the right: K^T gamma
    "three matrices": (Closed(Q @ K.T @ V), "matrix multiplications", 2 * n * d_k * d_v),
    "a column and a row": (Closed(gamma @ gamma.T), "matrix multiplications", 0),
    "tokens": (linear_attention.recurrence, "matrix multiplications", 0),
    "additions in products of matrices": (Closed(Q @ K.T), "matrix additions", n**2 * (d_k - 1)),
    "a state kept for each block": (in_blocks, "saved for backward", n * (2 * d_k + d_v + C) + n * d_k * d_v / C),
    "substitution in each block": (
        linear_attention.chunkwise.with_expressions({"readout": (Q @ K.T).hadamard(M).I @ V}),
        "divisions",
        n,
    ),
    "a dimension of the user's own": (Closed(Q @ W.T), "multiplications", n * r * d_k),
}


@pytest.mark.parametrize(("form", "quantity", "stated"), BY_HAND.values(), ids=BY_HAND.keys())
def test_polynomials_by_hand(form: Form, quantity: str, stated: Any) -> None:
    assert CountedForm(form).count(quantity) == (expand(stated),)


@pytest.mark.parametrize("chunk", [2, 5])
@pytest.mark.parametrize("quantity", [*OPERATIONS, "saved for backward", "longest chain"])
def test_a_fixed_block_is_the_polynomial_in_c_at_that_size(quantity: str, chunk: int) -> None:
    (general,) = CountedForm(decay.chunkwise).count(quantity)
    assert CountedForm(decay.chunkwise, chunk=chunk).count(quantity) == (general.subs(C, chunk),)


def test_what_is_a_polynomial_at_one_size_of_a_block_alone_says_so() -> None:
    """gamma^C by squaring is none in C."""
    counted = costs_of("chunkwise", decay.retention_chunkwise, chunk=8).sequence
    assert "multiplications" in counted.only_at_chunk
    assert "additions" not in counted.only_at_chunk
    assert C not in counted.found["multiplications"][0].free_symbols
    x = {n: 32, d_k: 5, d_v: 3}
    at_eight = walk(decay.retention_chunkwise, {**x, C: 8}).number("multiplications")
    assert counted.found["multiplications"][0].subs(x) == at_eight


# what is no polynomial, and never a wrong one


PLANTED = {
    "a power by squaring": lambda a, b: a.bit_length() * b,
    "n log n": lambda a, b: a * (a - 1).bit_length(),
    "one more beyond the grid": lambda a, b: a * b + (a > 10),
    "one less beyond the grid": lambda a, b: a * b - (b > 10),
    "the greater of two": lambda a, b: max(a, b),
    "a degree too high": lambda a, b: a**4 + b,
    "ragged": lambda a, b: a % 5,
}


@pytest.mark.parametrize("count", PLANTED.values(), ids=PLANTED.keys())
def test_no_polynomial_is_made_up(count: Any) -> None:
    with pytest.raises(NoMeaning, match="isn't a polynomial"):
        fitted(lambda point: count(*point), {n: range(4, 8), d_k: range(2, 6)}, [(11, 7), (9, 14), (40, 6)])


def test_a_term_that_vanishes_on_the_axes_of_the_grid_is_found() -> None:
    """The degree is read off lines through one corner, away from where factors such as d - 1 are zero."""
    planted = (n - 1) ** 2 * (d_k - 1) * (d_v - 1) / 2 + 3
    axes = {n: range(1, 5), d_k: range(1, 5), d_v: range(1, 4)}
    found = through(lambda point: planted.subs(dict(zip(axes, point, strict=True))), axes)
    assert expand(found - planted) == 0


def test_what_is_not_counted_says_why() -> None:
    scan = costs_of("scan", decay.decay.forms["associative_scan"], chunk=4).sequence
    assert "isn't a polynomial" in scan.missing["multiplications"]
    assert scan.operations is None
    assert scan.weighted(16) is None
    assert scan.found["exponentials"] == (0,)


def test_weights_are_those_of_products_of_matrices() -> None:
    zero = dict.fromkeys(("exponentials", "divisions"), (0 * n,))
    matrices = {"matrix multiplications": (6 * n,), "matrix additions": (2 * n,)}
    counted = Costs({"multiplications": (7 * n,), "additions": (5 * n,), **zero, **matrices}, {})
    assert counted.operations == 12 * n
    assert counted.weighted(4) == 8 * n / 4 + 4 * n


# the catalogue


DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
FORMS = {f"{d.name}.{name}": form for d in load_catalogue().derivations.values() for name, form in d.forms.items()}
NO_POLYNOMIAL = {"decay.associative_scan", "rg_lru.associative_scan", "decay.retention_chunkwise"}
"""n log n for the scans, and a power of a gate by repeated squaring."""
BLOCKS_AT_ONCE = {"decay.chunkwise", "feature_maps.chunkwise", "softmax_attention.chunkwise", "lact.momentum"}
"""Of the forms with blocks, which take the longest, those that are always counted."""
COUNTED = [x for x in sorted(FORMS.keys() - NO_POLYNOMIAL) if DEEP or not has_blocks(FORMS[x]) or x in BLOCKS_AT_ONCE]


@pytest.mark.parametrize("name", COUNTED)
def test_every_form_is_counted_at_further_sizes(name: str) -> None:
    """Multiplications alone where it has to be fast; also at n = 1, where matrices are rows."""
    form, counted = FORMS[name], CountedForm(FORMS[name])
    for quantity in OPERATIONS if DEEP else OPERATIONS[:1]:
        (polynomial,) = counted.count(quantity)
        for blocks, chunk, width in ((1, 1, 2), (2, 5, 3), (3, 2, 9)):
            x = {**dict.fromkeys(widths_of(form), width), n: blocks * chunk, C: chunk, d_v: width + 1}
            assert polynomial.subs(x) == walk(form, x).number(quantity), (quantity, x)


@pytest.mark.parametrize("name", sorted(NO_POLYNOMIAL))
def test_the_other_forms_have_no_polynomial(name: str) -> None:
    with pytest.raises(NoMeaning, match="isn't a polynomial in these"):
        CountedForm(FORMS[name]).count("multiplications")


def test_blocks_are_found_wherever_they_are() -> None:
    assert has_blocks(in_blocks)
    assert has_blocks(in_blocks.substitute({V: 2 * V}))
    assert has_blocks(in_blocks.final())
    assert has_blocks(Closed(V).where(V, in_blocks))
    assert not has_blocks(Recurrence(S, update=S + v @ k.T, readout=S @ q).substitute({V[t]: 2 * V[t]}))
    assert not has_blocks(Closed((Q @ K.T).hadamard(M_strict) @ V))
    assert has_blocks(feature_maps.feature_maps.forms["chunkwise"])
