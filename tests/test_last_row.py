"""What one more token takes: the steps of a recurrence counted by hand, and the last row of any other form.

Whatever the last row is said not to read may be anything: the row doesn't change.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Integer, expand

from derivations import decay, deltanet, linear_attention, softmax_attention
from derivations.language import (
    Closed,
    Form,
    Gamma,
    K,
    M,
    Parameter,
    Q,
    Sequence,
    TokenRows,
    TokenSum,
    V,
    beta,
    d_k,
    d_v,
    diag,
    exp,
    gamma,
    j,
    k,
    n,
    normalised,
    q,
    t,
    v,
)
from numerics.algebras.objects import matrix_of
from numerics.algebras.rationals import Rationals
from numerics.costs.system import costs_of
from numerics.costs.walks import walk
from numerics.inputs import shape_of
from numerics.run import run

A, U = Sequence("A", n, n), Sequence("U", n, d_k)
W = Parameter("W", d_k, d_k)
ROW = {"multiplications": n * (d_k + d_v), "kept": n * (d_k + d_v)}

BY_HAND: dict[str, tuple[Form, dict[str, Any]]] = {
    "recurrence: a write and a read": (
        linear_attention.recurrence,
        {"multiplications": 2 * d_k * d_v, "kept": d_k * d_v},
    ),
    "its additions": (linear_attention.recurrence, {"additions": d_k * d_v + d_v * (d_k - 1)}),
    "faded": (decay.recurrence, {"multiplications": 3 * d_k * d_v, "kept": d_k * d_v}),
    "blocks of one token: a score and its value besides": (
        linear_attention.chunkwise,
        {"multiplications": 2 * d_k * d_v + d_k + d_v, "kept": d_k * d_v},
    ),
    "matrix: a row of scores, and of their products with V": (linear_attention.matrix, ROW),
    "component sum": (linear_attention.component_sum, ROW),
    "decay: a row of Gamma, and of its product with the scores": (
        Closed((Q @ K.T).hadamard(Gamma) @ V),
        {"multiplications": n * (d_k + d_v) + 2 * n - 2, "kept": n * (d_k + d_v) + n},
    ),
    "softmax: a row of exponentials": (softmax_attention.matrix, {"exponentials": n, "divisions": 1}),
    "exponentials of keys that aren't kept": (Closed(exp(Q) @ exp(K).T), {"exponentials": n * d_k + d_k}),
    "a projection of the query alone": (Closed(U @ K.T).where(U, Q @ W), {"multiplications": n * d_k + d_k**2}),
    "a triangular system takes all of it": (
        Closed(A.hadamard(M).I @ V),
        {"multiplications": n * (n - 1) / 2 * d_v + n * d_v, "divisions": n},
    ),
    "a diagonal one goes by rows": (Closed(diag(beta).I @ V), {"multiplications": d_v, "divisions": 1}),
    "a transpose takes all of it": (Closed((K @ Q.T).T), {"multiplications": n**2 * d_k}),
    "each token by itself": (Closed(Q.hadamard(K)), {"multiplications": d_k, "kept": 0}),
    "a token of a sum": (TokenRows(gamma[t] * v + TokenSum(V[j], j, 1, t)), {"multiplications": d_v, "kept": n * d_v}),
}


@pytest.mark.parametrize(("form", "stated"), BY_HAND.values(), ids=BY_HAND.keys())
def test_one_more_token_by_hand(form: Form, stated: dict[str, Any]) -> None:
    token = costs_of("form", form, chunk=2).token
    assert not token.missing
    assert {quantity: token.found[quantity] for quantity in stated} == {x: (expand(p),) for x, p in stated.items()}


def test_an_output_without_rows_for_tokens_has_no_last_one() -> None:
    token = costs_of("final", linear_attention.recurrence.final(), chunk=2).token
    assert not token.found
    assert "no row for each token" in token.missing["multiplications"]


WITHOUT_STATES = {
    "matrix": linear_attention.matrix,
    "component sum": linear_attention.component_sum,
    "no mask": linear_attention.noncausal_state,
    "decay": decay.matrix,
    "a system": deltanet.matrix,
    "each token by itself": Closed(Q.hadamard(K)),
    "a gate of the last token": Closed(diag(beta) @ (Q @ K.T).hadamard(M) @ V),
    "two gates": TokenRows(gamma[t] * v + TokenSum(beta[j] * V[j], j, 1, t)),
    "normalised": Closed(normalised(A) @ V).where(A, (Q @ K.T).hadamard(Q @ K.T).hadamard(M)),
    "a query and a key": TokenRows(v @ (k.T @ q)),
    "the first token besides": TokenRows(v + V[Integer(1)]),
}
LENGTH = 5


@pytest.mark.parametrize("form", WITHOUT_STATES.values(), ids=WITHOUT_STATES.keys())
@given(st.integers(0, 2**32))
def test_the_last_row_reads_the_inputs_that_it_is_said_to_read(form: Form, seed: int) -> None:
    """Other earlier rows of a sequence change it where the sequence is kept, and nowhere else."""
    sizes, rng = {n: LENGTH, d_k: 2, d_v: 3}, random.Random(seed)
    symbols = sorted(form.symbols(), key=str)
    kept = {symbols[place] for place in walk(form, sizes).last_row.kept}
    inputs = {x: drawn(shape_of(x, sizes), rng) for x in symbols}
    before = run(form, {**sizes, **inputs}, Rationals()).output[-1].tolist()
    for x in symbols:
        earlier, last = drawn((LENGTH - 1, inputs[x].shape[1]), rng), inputs[x][-1:]
        changed = {**inputs, x: matrix_of([*earlier.tolist(), *last.tolist()])}
        after = run(form, {**sizes, **changed}, Rationals()).output[-1].tolist()
        assert (after != before) == (x in kept)


def drawn(shape: tuple[int, int], rng: random.Random) -> Any:
    """Fractions of which hardly two are the same."""
    return matrix_of([[Fraction(rng.randint(1, 999), 7) for _ in range(shape[1])] for _ in range(shape[0])])
