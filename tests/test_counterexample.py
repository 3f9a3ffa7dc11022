"""The counterexample that is shown is the smallest: fewest tokens, then dimensions, then changed entries.

Each false identity of the table comes with both of its sides in plain Python. With them all smaller sizes are searched,
and at the size that was found all points with fewer entries that aren't one; the stored values and the gap are computed
again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any

import pytest
from plain_python import (
    Matrix,
    apply,
    decay,
    dot,
    inverse,
    minus,
    outer,
    plus,
    shifted_decay,
    table,
    times,
    transpose,
    unit,
)
from plain_python import product as matrix_product
from sympy import Rational, Symbol, parse_expr, simplify

from derivations.gated_deltanet import gated_deltanet
from derivations.language import (
    Chunkwise,
    Closed,
    Eq,
    Gamma,
    Gate,
    I,
    Identity,
    K,
    M,
    Parameter,
    Q,
    Recurrence,
    S,
    Sequence,
    State,
    TokenRows,
    Transport,
    V,
    assume,
    beta,
    d_k,
    d_v,
    diag,
    eta,
    eye,
    gamma,
    i,
    j,
    k,
    n,
    norm_squared,
    q,
    s,
    sqrt,
    t,
    v,
)
from derivations.language.symbols import Named
from numerics.evidence import Counterexample
from numerics.inputs import label
from numerics.proofs.counterexample import sizes_in_order, smallest

SIMPLEST = [Fraction(1, 2), Fraction(2), Fraction(0), Fraction(-1), Fraction(3)]


class Point(dict[str, Matrix]):
    """The inputs by name, and the size of a block as C."""

    chunk = 1

    def gates(self, name: str) -> list[Any]:
        return [row[0] for row in self[name]]


Side = Callable[[Point], list[Matrix]]
"""What is compared, in order: the output, then the final states."""


@dataclass(frozen=True)
class Falsehood:
    """A false identity, both sides in plain Python, and the size of its smallest counterexample."""

    identity: Identity
    left: Side
    right: Side
    sizes: tuple[int, int, int, int]
    changed: int | None
    compared: str = "output"
    searchable: bool = True


def run(
    x: Point, update: Callable[[int, Matrix], Matrix], read: Callable[[int, Matrix], Any], start: Matrix
) -> list[Matrix]:
    state, rows = start, []
    for a in range(len(x["V"])):
        state = update(a, state)
        rows.append(read(a, state))
    return [rows, state]


def zero_state(x: Point) -> Matrix:
    return table(len(x["V"][0]), len(x["K"][0]), lambda a, b: Fraction(0))


def write(x: Point, a: int) -> Matrix:
    return outer(x["V"][a], x["K"][a])


def reads(x: Point) -> Callable[[int, Matrix], Any]:
    return lambda a, state: apply(state, x["Q"][a])


def masked(x: Point, weight: Callable[[int, int], Any]) -> list[Matrix]:
    length = len(x["V"])
    entry = lambda a, b: sum(weight(a, m) * dot(x["Q"][a], x["K"][m]) * x["V"][m][b] for m in range(length))
    return [table(length, len(x["V"][0]), entry)]


def linear(x: Point, start: Matrix | None = None) -> list[Matrix]:
    return run(x, lambda a, state: plus(state, write(x, a)), reads(x), start or zero_state(x))


def gamma_inside(x: Point) -> list[Matrix]:
    """(Q K^T . Gamma) (I + K K^T . Gamma^-)^-1 V, the inverse from its cofactors."""
    g, size = x.gates("gamma"), len(x["V"])
    system = table(
        size, size, lambda a, b: dot(x["K"][a], x["K"][b]) * decay(g, a, b) if a > b else Fraction(int(a == b))
    )
    scores = table(size, size, lambda a, b: dot(x["Q"][a], x["K"][b]) * decay(g, a, b))
    return [matrix_product(scores, inverse(system), x["V"])]


def predicting_first(x: Point) -> list[Matrix]:
    """gamma S + (v - S k) k^T."""

    def update(a: int, state: Matrix) -> Matrix:
        error = [value - guess for value, guess in zip(x["V"][a], apply(state, x["K"][a]), strict=True)]
        return plus(times(x["gamma"][a][0], state), outer(error, x["K"][a]))

    return run(x, update, reads(x), zero_state(x))[:1]


def dropped(x: Point) -> list[Matrix]:
    """Blocks that read the state of the block before them and nothing older."""
    state, rows = x["S"], []
    length, size = len(x["V"]), x.chunk
    for first in range(0, length, size):
        here = range(first, min(first + size, length))
        for a in here:
            own = plus(
                [apply(state, x["Q"][a])],
                *([[dot(x["Q"][a], x["K"][m]) * e for e in x["V"][m]]] for m in here if m <= a),
            )
            rows += own
        state = plus(*(write(x, m) for m in here))
    return [rows, state]


def transported(x: Point, ascending: bool) -> list[Matrix]:
    def entry(a: int, b: int) -> Any:
        if a < b:
            return Fraction(0)
        order = range(b + 1, a + 1) if ascending else range(a, b, -1)
        between = unit(len(x["W"][0]))
        for m in order:
            between = matrix_product(between, minus(unit(len(between)), outer(x["W"][m], x["W"][m])))
        return dot(x["Q"][a], apply(between, x["K"][b]))

    size = len(x["W"])
    return [table(size, size, entry)]


W = Sequence("W", n, d_k)
P = State("P", d_v, d_k)
a_gate, b_gate, c_gate, d_gate = (Gate(name) for name in "abcd")
A = Parameter("A", d_k, d_k)
factor = eye(d_k) - W[s] @ W[s].T
plain = Recurrence(S, update=S + v @ k.T, readout=S @ q)
forgets_what_is_older = Chunkwise(S, update=V.T @ K, readout=Q @ S.T + (Q @ K.T).hadamard(M) @ V)


def two_factors(x: Point, zero: bool) -> list[Matrix]:
    """The output differs where a != b and c != d, the state where beta != gamma."""
    own = [
        [Fraction(0) if zero else (g - b) * (c - d) * e for e in row]
        for g, b, c, d, row in zip(x.gates("a"), x.gates("b"), x.gates("c"), x.gates("d"), x["V"], strict=True)
    ]
    name = "gamma" if zero else "beta"
    fade = lambda m, state: plus(times(x[name][m][0], state), write(x, m))
    state = run(x, fade, lambda m, state: None, x["S"])[1]
    return [own, state]


TABLE = {
    "Gated DeltaNet as printed": Falsehood(
        gated_deltanet.identity("printed_recurrence"), gamma_inside, predicting_first, (2, 1, 1, 1), 1
    ),
    "causal and not": Falsehood(
        Identity("x", plain, Closed(Q @ (K.T @ V))),
        lambda x: linear(x)[:1],
        lambda x: masked(x, lambda a, b: 1),
        (2, 1, 1, 1),
        0,
    ),
    "mask without its diagonal": Falsehood(
        Identity("x", Closed((Q @ K.T).hadamard(M) @ V), Closed((Q @ K.T).hadamard(M - I) @ V)),
        lambda x: masked(x, lambda a, b: int(a >= b)),
        lambda x: masked(x, lambda a, b: int(a > b)),
        (1, 1, 1, 1),
        0,
    ),
    "a token's own gate": Falsehood(
        Identity("x", Closed((Q @ K.T).hadamard(Gamma) @ V), Closed((Q @ K.T).hadamard(Gamma) @ diag(gamma) @ V)),
        lambda x: masked(x, lambda a, b: decay(x.gates("gamma"), a, b)),
        lambda x: masked(x, lambda a, b: decay(x.gates("gamma"), a, b) * x["gamma"][b][0]),
        (1, 1, 1, 1),
        1,
    ),
    "gate of the row left out": Falsehood(
        Identity(
            "x",
            Recurrence(S, update=gamma[t] * S + v @ k.T, readout=S @ q),
            Recurrence(S, update=gamma[t] * S + v @ k.T, readout=gamma[t] * S @ q),
            carries=False,
        ),
        lambda x: masked(x, lambda a, b: decay(x.gates("gamma"), a, b)),
        lambda x: masked(x, lambda a, b: decay(x.gates("gamma"), a, b) * x["gamma"][a][0]),
        (1, 1, 1, 1),
        1,
    ),
    "shifted decay": Falsehood(
        Identity("x", Closed((Q @ K.T).hadamard(Gamma - I) @ V), TokenRows(0 * v)),
        lambda x: masked(x, lambda a, b: decay(x.gates("gamma"), a, b) - int(a == b)),
        lambda x: masked(x, lambda a, b: 0 * shifted_decay(x.gates("gamma"), a, b)),
        (2, 1, 1, 1),
        0,
    ),
    "order of the factors": Falsehood(
        Identity("x", Transport(Q[i], factor, K[j]), Transport(Q[i], factor, K[j], order="ascending")),
        lambda x: transported(x, ascending=False),
        lambda x: transported(x, ascending=True),
        (3, 2, 1, 1),
        2,
    ),
    "a matrix and its transpose": Falsehood(
        Identity("x", Closed(Q @ A), Closed(Q @ A.T)),
        lambda x: [matrix_product(x["Q"], x["A"])],
        lambda x: [matrix_product(x["Q"], transpose(x["A"]))],
        (1, 2, 1, 1),
        1,
    ),
    "dropped carry": Falsehood(
        Identity("x", plain, forgets_what_is_older, carries=False),
        lambda x: linear(x)[:1],
        lambda x: dropped(Point(x, S=zero_state(x)))[:1],
        (3, 1, 1, 1),
        0,
    ),
    "dropped carry from any state": Falsehood(
        Identity("x", plain, forgets_what_is_older),
        lambda x: linear(x, x["S"]),
        dropped,
        (1, 1, 1, 1),
        0,
        compared="final S",
    ),
    "the state differs where the output doesn't yet": Falsehood(
        Identity(
            "x",
            Recurrence(S, beta[t] * S + v @ k.T, (a_gate[t] - b_gate[t]) * (c_gate[t] - d_gate[t]) * v),
            Recurrence(S, gamma[t] * S + v @ k.T, 0 * v),
        ),
        lambda x: two_factors(x, zero=False),
        lambda x: two_factors(x, zero=True),
        (1, 1, 1, 1),
        1,
        compared="final S",
    ),
    "positive gates": Falsehood(
        Identity("x", TokenRows(sqrt(eta[t]) * v), TokenRows(eta[t] * v), assumptions=(assume(eta[t] > 0),)),
        lambda x: [[[root(g) * e for e in row] for g, row in zip(x.gates("eta"), x["V"], strict=True)]],
        lambda x: [[[g * e for e in row] for g, row in zip(x.gates("eta"), x["V"], strict=True)]],
        (1, 1, 1, 1),
        1,
        searchable=False,
    ),
    "on a sphere": Falsehood(
        Identity(
            "x",
            TokenRows(norm_squared(W[t]) * W[t]),
            TokenRows(3 * W[t]),
            assumptions=(assume(Eq(norm_squared(W[t]), 2)),),
        ),
        lambda x: [[[dot(row, row) * e for e in row] for row in x["W"]]],
        lambda x: [[[3 * e for e in row] for row in x["W"]]],
        (1, 2, 1, 1),
        None,  # on a sphere the entries can't all be one
        searchable=False,
    ),
    "divided": Falsehood(
        Identity("x", TokenRows(v / gamma[t]), TokenRows(gamma[t] * v)),
        lambda x: [[[e / g for e in row] for g, row in zip(x.gates("gamma"), x["V"], strict=True)]],
        lambda x: [[[g * e for e in row] for g, row in zip(x.gates("gamma"), x["V"], strict=True)]],
        (1, 1, 1, 1),
        1,
    ),
}
every = pytest.mark.parametrize("name", TABLE)


def root(square: Fraction) -> Fraction:
    return next(p for p in (Fraction(m, d) for d in (1, 2, 3) for m in range(10)) if p * p == square)


@cache
def found_for(name: str) -> Counterexample:
    found = smallest(TABLE[name].identity)
    assert found is not None
    return found


def point_of(found: Counterexample) -> Point:
    x = Point({name: [[Fraction(e) for e in row] for row in rows] for name, rows in found.inputs.items()})
    x.chunk = found.sizes.get("C", 1)
    return x


def entries_of(name: str) -> list[Fraction]:
    return [Fraction(e) for rows in found_for(name).inputs.values() for row in rows for e in row]


@every
def test_sizes(name: str) -> None:
    sizes, expected = found_for(name).sizes, TABLE[name].sizes
    assert (sizes["n"], sizes["d_k"], sizes["d_v"], sizes.get("C", 1)) == expected


@pytest.mark.parametrize("name", [name for name, item in TABLE.items() if item.changed is not None])
def test_how_many_entries_are_not_one(name: str) -> None:
    assert sum(e != 1 for e in entries_of(name)) == TABLE[name].changed


@every
def test_stored_values(name: str) -> None:
    """Both sides again, from their definitions; everything before what is compared agrees."""
    item, found = TABLE[name], found_for(name)
    x = point_of(found)
    left, right = item.left(x), item.right(x)
    place = next(number for number, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)
    assert found.compared == item.compared
    assert [[Fraction(e) for e in row] for row in found.left] == left[place]
    assert [[Fraction(e) for e in row] for row in found.right] == right[place]
    row, column = found.entry
    differing = [(a + 1, b + 1) for a, r in enumerate(left[place]) for b, e in enumerate(r) if e != right[place][a][b]]
    assert (row, column) == differing[0]


@every
def test_gap(name: str) -> None:
    """The gap is written in SymPy's syntax in the names of the entries, and is left - right there."""
    found = found_for(name)
    values: dict[str, Any] = {}
    symbols = {str(x): x for x in TABLE[name].identity.inputs()}
    for symbol, rows in found.inputs.items():
        for a, row in enumerate(rows):
            for b, e in enumerate(row):
                entry = label(symbols[symbol], a, b, (len(rows), len(row)))
                values[entry] = Rational(e)
                values[f"sqrt_{entry}"] = Rational(e) ** Rational(1, 2)
    gap = parse_expr(found.gap, local_dict={entry: Symbol(entry) for entry in values})
    row, column = (x - 1 for x in found.entry)
    expected = Rational(found.left[row][column]) - Rational(found.right[row][column])
    assert {str(x) for x in gap.free_symbols} <= set(values)
    assert gap.subs({Symbol(entry): value for entry, value in values.items()}) == expected
    assert expected != 0


searchable = pytest.mark.parametrize("name", [name for name, item in TABLE.items() if item.searchable])


def shapes(identity: Identity, sizes: tuple[int, int, int, int]) -> dict[str, tuple[int, int]]:
    known = dict(zip((n, d_k, d_v), sizes, strict=False))
    return {
        str(x): tuple(int(side.xreplace(known)) for side in x.shape) for x in identity.inputs() if isinstance(x, Named)
    }


def sizes_before(last: tuple[int, int, int, int], chunked: bool) -> Iterator[tuple[int, int, int, int]]:
    """Tokens first, then the sum of the dimensions, then the larger of them."""
    for length in range(1, last[0] + 1):
        widths = sorted(product(range(1, 4), repeat=2), key=lambda w: (sum(w), max(w), w))
        for width in widths:
            for chunk in (1, 2) if chunked and length > 1 else (1,):
                if (length, *width, chunk) == last:
                    return
                yield length, *width, chunk


def differs(item: Falsehood, x: Point) -> bool:
    try:
        return item.left(x) != item.right(x)
    except ZeroDivisionError:
        return False


@searchable
def test_no_smaller_size_has_one(name: str) -> None:
    """Small fractions at random: a polynomial that isn't zero would show."""
    item, rng = TABLE[name], random.Random(0)
    for sizes in sizes_before(item.sizes, chunked=isinstance(item.identity.right, Chunkwise)):
        for _ in range(4):
            x = Point(
                {
                    symbol: [
                        [Fraction(rng.randint(-9, 9), rng.randint(1, 5)) for _ in range(columns)] for _ in range(rows)
                    ]
                    for symbol, (rows, columns) in shapes(item.identity, sizes).items()
                }
            )
            x.chunk = sizes[3]
            assert not differs(item, x), f"at {sizes}: {x}"


@searchable
def test_no_point_with_fewer_changes_has_one(name: str) -> None:
    item = TABLE[name]
    places = [
        (symbol, a, b)
        for symbol, (rows, columns) in shapes(item.identity, item.sizes).items()
        for a in range(rows)
        for b in range(columns)
    ]
    for count in range(item.changed or 0):
        for chosen in combinations(places, count):
            for values in product(SIMPLEST, repeat=count):
                x = Point(
                    {
                        symbol: [[Fraction(1)] * columns for _ in range(rows)]
                        for symbol, (rows, columns) in shapes(item.identity, item.sizes).items()
                    }
                )
                for (symbol, a, b), value in zip(chosen, values, strict=True):
                    x[symbol][a][b] = value
                x.chunk = item.sizes[3]
                assert not differs(item, x), f"{chosen} = {values}"


def test_the_document_s_own_formula() -> None:
    """Gated DeltaNet as document 000 prints it: the numbers that a reader can check by hand."""
    found = found_for("Gated DeltaNet as printed")
    assert found.sizes == {"n": 2, "d_k": 1, "d_v": 1}
    assert found.inputs["gamma"] == [["1"], ["1/2"]]
    assert {e for name, rows in found.inputs.items() if name != "gamma" for row in rows for e in row} == {"1"}
    assert found.left == [["1"], ["1"]]
    assert found.right == [["1"], ["1/2"]]
    assert found.entry == (2, 1)
    assert found.gap == "(1 - gamma_2)*k_1*k_2**2*q_2*v_1"


def test_the_gap_of_a_matched_state_is_that_of_its_token() -> None:
    """States are compared after each token: the gap is that of the token at which they differ."""
    left = Recurrence(S, update=S + v @ k.T, readout=(beta[t] - gamma[t]) * v)
    right = Recurrence(P, update=P + v @ k.T, readout=(beta[t] - gamma[t]) * v)
    assert smallest(Identity("x", left, right, matching={S: P})) is None
    c = Symbol("c", real=True)
    left = Recurrence(S, update=S + c ** (t - 1) * v @ k.T, readout=c ** (t - 1) * (beta[t] - gamma[t]) * v)
    found = smallest(Identity("x", left, right, matching={S: P}))
    assert found is not None
    assert found.compared == "S"
    assert found.sizes["n"] == 2
    assert (found.left, found.right) == ([["5/2"]], [["3"]])
    assert found.gap == "(c - 1)*k_2*v_2"


def test_sizes_in_order() -> None:
    """Tokens, then the sum of the dimensions, then the larger of them; a chunk of two where there are two tokens."""
    order = [(sizes.n, sizes.d_k, sizes.d_v, sizes.chunk) for sizes in sizes_in_order(chunked=True)]
    widths = [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (2, 3), (3, 2), (3, 3)]
    assert order[:9] == [(1, *width, 1) for width in widths]
    assert order[9:13] == [(2, 1, 1, 1), (2, 1, 1, 2), (2, 1, 2, 1), (2, 1, 2, 2)]
    assert [(sizes.n, sizes.chunk) for sizes in sizes_in_order(chunked=False)][::9] == [(m, 1) for m in range(1, 6)]


def test_a_gap_is_in_lowest_terms() -> None:
    """gamma v / gamma - 2 v is -v."""
    found = smallest(Identity("x", Closed(diag(gamma).I @ (diag(gamma) @ V)), Closed(2 * V)))
    assert found is not None
    assert parse_expr(found.gap) == -Symbol("v_1")
    assert "gamma" not in found.gap
    found = smallest(Identity("x", Closed(diag(gamma).I @ (diag(gamma) @ diag(beta).I @ V)), Closed(V)))
    assert found is not None
    assert "gamma" not in found.gap
    b, value = Symbol("beta_1"), Symbol("v_1")
    assert simplify(parse_expr(found.gap) - (1 - b) * value / b) == 0


def test_equal_sides_have_none() -> None:
    assert smallest(Identity("x", plain, Closed((Q @ K.T).hadamard(M) @ V))) is None
