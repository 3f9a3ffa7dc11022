"""exp is exp in floats, 2^x in the rationals, 7^x modulo p, and a generator for each monomial among polynomials.

Each item of the table is a statement next to what it means in plain Python, with the exponential left open. Inputs are
integers, so that an exponent is one of Python's integers whatever the number system is.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import array_api_compat.numpy
import array_api_compat.torch
import numpy as np
import pytest
import torch
from hypothesis import assume as suppose
from hypothesis import given
from hypothesis import strategies as st
from plain_python import Matrix, apply, dot, entrywise, outer, plus, product, product_of, table, times, transpose
from sympy import factorint, preorder_traversal

from derivations.language import (
    Chunkwise,
    Closed,
    CumulativeProduct,
    Eq,
    Form,
    Identity,
    K,
    M,
    M_strict,
    NoMeaning,
    Ones,
    Parameter,
    Q,
    Rational,
    Recurrence,
    RowProducts,
    S,
    State,
    Toeplitz,
    TokenRows,
    TokenSum,
    V,
    assume,
    beta,
    block,
    d_k,
    d_v,
    diag,
    eta,
    exp,
    eye,
    gamma,
    j,
    k,
    log,
    n,
    norm_squared,
    normalised,
    on_unit_circle,
    q,
    reciprocal,
    scalar,
    softmax,
    sqrt,
    t,
    trace,
    v,
)
from derivations.language import Sequence as Tokens
from derivations.language.expressions import Exponential, Logarithm, ScalarExponential
from derivations.language.symbols import Named
from numerics.algebras.finite_field import FiniteField
from numerics.algebras.floats import Floats
from numerics.algebras.objects import matrix_of
from numerics.algebras.polynomials import NewExponents, Polynomials, RationalFunction
from numerics.algebras.rationals import Rationals
from numerics.algebras.rounding_noise import RoundingNoise
from numerics.algebras.with_exponents import Exponents, PowersOfAGenerator, WithExponents
from numerics.evaluate import CHUNK, RULES
from numerics.evidence import Counterexample
from numerics.inputs import Sizes
from numerics.proofs import exact, field
from numerics.proofs.counterexample import smallest
from numerics.run import run

P = 2**31 - 1
B, U = Tokens("B", n, d_k), Tokens("U", n, d_v)
"""The entries of B are positive: their logarithm is taken."""

Number = Any
Exp = Callable[[int], Number]


@dataclass(frozen=True)
class Point:
    """Sizes and integers. `x.K` is the matrix of K, as a list of rows."""

    n: int
    d_k: int
    d_v: int
    C: int
    entries: dict[str, Matrix]

    def __getattr__(self, name: str) -> Matrix:
        return self.entries[name]

    def column(self, name: str) -> list[int]:
        return [row[0] for row in self.entries[name]]


@dataclass(frozen=True)
class Item:
    """A form and what its output is, given the exponential of an integer."""

    form: Form
    meaning: Callable[[Point, Exp], Matrix]


def scores(x: Point) -> Matrix:
    return product(x.Q, transpose(x.K))


def of_each(function: Callable[[Any], Any], a: Matrix) -> Matrix:
    return [[function(entry) for entry in row] for row in a]


def mean_of_values(x: Point, exp: Exp, causal: bool) -> Matrix:
    """sum_j e^(q_i k_j) v_j / sum_j e^(q_i k_j), over all j or those up to i."""
    rows = []
    for a in range(x.n):
        seen = range(a + 1 if causal else x.n)
        weights = [exp(dot(x.Q[a], x.K[m])) for m in seen]
        rows.append(
            [sum(w * x.V[m][b] for w, m in zip(weights, seen, strict=True)) / sum(weights) for b in range(x.d_v)]
        )
    return rows


def faded_writes(x: Point, exp: Exp) -> Matrix:
    """S <- e^gamma S + e^v k^T, read after the write."""
    state, rows = table(x.d_v, x.d_k, lambda a, b: 0), []
    for a in range(x.n):
        state = plus(times(exp(x.gamma[a][0]), state), outer([exp(e) for e in x.V[a]], x.K[a]))
        rows.append(apply(state, x.Q[a]))
    return rows


def faded_blocks(x: Point, exp: Exp) -> Matrix:
    """A block reads the state before it with e^(gamma_1 + ... + gamma_i), gammas of its own."""
    state, rows = table(x.d_v, x.d_k, lambda a, b: 0), []
    for first in range(0, x.n, x.C):
        tokens = range(first, min(first + x.C, x.n))
        gates = [x.gamma[a][0] for a in tokens]
        for place, a in enumerate(tokens):
            rows.append(times(exp(sum(gates[: place + 1])), [apply(state, x.Q[a])])[0])
        state = plus(times(exp(sum(gates)), state), *(outer(x.V[a], x.K[a]) for a in tokens))
    return rows


def substituted(x: Point, exp: Exp) -> Matrix:
    """exp of U with u_i = v_i - sum_{j < i} (q_i^T k_j) u_j."""
    rows: Matrix = []
    for a in range(x.n):
        earlier = [times(dot(x.Q[a], x.K[m]), [rows[m]])[0] for m in range(a)]
        rows.append([x.V[a][b] - sum(row[b] for row in earlier) for b in range(x.d_v)])
    return of_each(exp, rows)


TABLE = {
    "unit triangular system": Item(Closed(exp((eye(n) + (Q @ K.T).hadamard(M_strict)).I @ V)), substituted),
    "inner products": Item(Closed(exp(Q @ K.T)), lambda x, exp: of_each(exp, scores(x))),
    "sums and multiples": Item(
        Closed(exp(Q - 3 * K + Q.hadamard(K)) - exp(-Q)),
        lambda x, exp: table(
            x.n,
            x.d_k,
            lambda a, b: exp(x.Q[a][b] - 3 * x.K[a][b] + x.Q[a][b] * x.K[a][b]) - exp(-x.Q[a][b]),
        ),
    ),
    "scalars": Item(
        TokenRows(exp(scalar(k.T @ q)) * v + exp(1 - 2 * gamma[t] ** 2) * v + exp(trace(k @ k.T)) * v),
        lambda x, exp: [
            [
                (exp(dot(x.K[a], x.Q[a])) + exp(1 - 2 * x.gamma[a][0] ** 2) + exp(dot(x.K[a], x.K[a]))) * e
                for e in x.V[a]
            ]
            for a in range(x.n)
        ],
    ),
    "exponent and value": Item(
        TokenRows(gamma[t] * exp(gamma[t]) * v),
        lambda x, exp: [[x.gamma[a][0] * exp(x.gamma[a][0]) * e for e in x.V[a]] for a in range(x.n)],
    ),
    "cumulative sums": Item(
        Closed(diag(exp(M @ gamma)) @ V - exp(Ones(n, n) @ V)),
        lambda x, exp: table(
            x.n,
            x.d_v,
            lambda a, b: exp(sum(x.column("gamma")[: a + 1])) * x.V[a][b] - exp(sum(row[b] for row in x.V)),
        ),
    ),
    "products of gates": Item(
        Closed(exp(CumulativeProduct(gamma))),
        lambda x, exp: [[exp(math.prod(x.column("gamma")[: a + 1]))] for a in range(x.n)],
    ),
    "sum over tokens": Item(
        TokenRows(exp(TokenSum(gamma[j] * K[j], j, 1, t) - 2 * k)),
        lambda x, exp: table(
            x.n,
            x.d_k,
            lambda a, b: exp(sum(x.gamma[m][0] * x.K[m][b] for m in range(a + 1)) - 2 * x.K[a][b]),
        ),
    ),
    "diagonals, transposes, blocks": Item(
        Closed(exp((block([[diag(gamma) @ Q, V]])).T)),
        lambda x, exp: transpose([[exp(e) for e in times(x.gamma[a][0], [x.Q[a]])[0] + x.V[a]] for a in range(x.n)]),
    ),
    "row products": Item(
        Closed(exp(RowProducts(Q, V))),
        lambda x, exp: [[exp(e * f) for e in x.Q[a] for f in x.V[a]] for a in range(x.n)],
    ),
    "convolution": Item(
        Closed(exp(Toeplitz(gamma))),
        lambda x, exp: table(x.n, x.n, lambda a, b: exp(x.gamma[a - b][0] if a >= b else 0)),
    ),
    "mask as a logarithm": Item(
        Closed(exp(Q @ K.T + log(M)) @ V),
        lambda x, exp: table(x.n, x.d_v, lambda a, b: sum(exp(dot(x.Q[a], x.K[m])) * x.V[m][b] for m in range(a + 1))),
    ),
    "logarithms of inputs": Item(
        Closed(exp(Q - log(B)) + exp(2 * log(B))),
        lambda x, exp: table(x.n, x.d_k, lambda a, b: exp(x.Q[a][b]) / x.B[a][b] + x.B[a][b] ** 2),
    ),
    "softmax": Item(Closed(softmax(Q @ K.T) @ V), lambda x, exp: mean_of_values(x, exp, causal=False)),
    "causal softmax": Item(Closed(softmax(Q @ K.T + log(M)) @ V), lambda x, exp: mean_of_values(x, exp, causal=True)),
    "mask, then normalised": Item(
        Closed(normalised(exp(Q @ K.T).hadamard(M)) @ V), lambda x, exp: mean_of_values(x, exp, causal=True)
    ),
    "causal softmax token by token": Item(
        TokenRows(
            TokenSum(exp(scalar(K[j].T @ q)) * V[j], j, 1, t)
            / scalar(TokenSum(exp(scalar(K[j].T @ q)) * Ones(1, 1), j, 1, t))
        ),
        lambda x, exp: mean_of_values(x, exp, causal=True),
    ),
    "recurrence": Item(Recurrence(S, update=exp(gamma[t]) * S + exp(v) @ k.T, readout=S @ q), faded_writes),
    "blocks of tokens": Item(
        Chunkwise(S, update=exp(scalar(Ones(1, n) @ gamma)) * S + V.T @ K, readout=diag(exp(M @ gamma)) @ Q @ S.T),
        faded_blocks,
    ),
    "substituted": Item(
        Closed(exp(Q @ K.T) @ V).substitute({k: -k, v: gamma[t] * v}),
        lambda x, exp: product(
            of_each(exp, times(-1, scores(x))), [times(g, [e])[0] for (g,), e in zip(x.gamma, x.V, strict=True)]
        ),
    ),
    "defined": Item(
        Closed(exp(U)).where(U[t], gamma[t] * v - 2 * v),
        lambda x, exp: table(x.n, x.d_v, lambda a, b: exp((x.gamma[a][0] - 2) * x.V[a][b])),
    ),
}
every_item = pytest.mark.parametrize("item", TABLE.values(), ids=TABLE.keys())


def shape_at(symbol: Any, x: tuple[int, int, int]) -> tuple[int, int]:
    rows, columns = (int(side.xreplace(dict(zip((n, d_k, d_v), x, strict=True)))) for side in symbol.shape)
    return rows, columns


def inputs_of(form: Form) -> list[Named]:
    return sorted(form.symbols(), key=str)


def point(form: Form, sizes: tuple[int, int, int], chunk: int, seed: int, largest: int = 2) -> Point:
    """Integers up to `largest` in absolute value."""
    rng = random.Random(seed)
    entries = {}
    for symbol in inputs_of(form):
        rows, columns = shape_at(symbol, sizes)
        least = 1 if symbol == B else -largest
        entries[str(symbol)] = [[rng.randint(least, largest) for _ in range(columns)] for _ in range(rows)]
    return Point(*sizes, chunk, entries)


def environment(form: Form, x: Point, entry: Callable[[Matrix], Any]) -> dict[Any, Any]:
    dimensions = {n: x.n, d_k: x.d_k, d_v: x.d_v, CHUNK: x.C}
    return dimensions | {symbol: entry(x.entries[str(symbol)]) for symbol in inputs_of(form)}


points = st.tuples(
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2)), st.integers(1, 3), st.integers(0, 2**32 - 1)
)

# floats

FLOATS = {
    "numpy": Floats(array_api_compat.numpy, np.float64),
    "torch": Floats(array_api_compat.torch, torch.float64),
    "noise": RoundingNoise(2.0**-53, np.random.default_rng(0)),
}


@pytest.mark.parametrize("algebra", FLOATS.values(), ids=FLOATS.keys())
@every_item
@given(drawn=points)
def test_floats(item: Item, algebra: Floats, drawn: Any) -> None:
    """Two points at once, along a leading dimension."""
    both = [point(item.form, *drawn[:2], drawn[2] + number) for number in range(2)]
    env = environment(item.form, both[0], lambda rows: None)
    env |= {
        symbol: algebra.asarray([[[float(e) for e in row] for row in x.entries[str(symbol)]] for x in both])
        for symbol in inputs_of(item.form)
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.asarray(run(item.form, env, algebra).output)
    expected = np.array([item.meaning(x, math.exp) for x in both], dtype=float)
    tolerance = 1e-9 * (1 + abs(expected).max())
    np.testing.assert_allclose(np.broadcast_to(found, expected.shape), expected, rtol=1e-9, atol=tolerance)


@pytest.mark.parametrize("algebra", FLOATS.values(), ids=FLOATS.keys())
def test_the_exponential_of_log_zero_is_zero(algebra: Floats) -> None:
    """Not a small number, and not nan."""
    env = {n: 3, d_k: 1, Q: algebra.asarray([[1.0], [2.0], [700.0]]), K: algebra.asarray([[1.0], [-1.0], [1.0]])}
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.asarray(run(Closed(exp(Q @ K.T + log(M))), env, algebra).output)
    assert [[e == 0 for e in row] for row in found.tolist()] == [[a < b for b in range(3)] for a in range(3)]
    assert np.isfinite(found).all()


# rationals


@every_item
@given(drawn=points)
def test_rationals(item: Item, drawn: Any) -> None:
    x = point(item.form, *drawn)
    env = environment(item.form, x, lambda rows: matrix_of(of_each(Fraction, rows)))
    try:
        found = run(item.form, env, Rationals()).output.tolist()
    except NoMeaning:
        suppose(False)  # a power too long to be read
    assert found == item.meaning(x, lambda e: Fraction(2) ** e)


@pytest.mark.parametrize("exponent", [Fraction(1, 2), Fraction(-3, 7), Fraction(65), Fraction(-65)])
def test_powers_that_the_rationals_refuse(exponent: Fraction) -> None:
    with pytest.raises(NoMeaning, match="isn't rational, or too long"):
        Rationals().exponential(matrix_of([[exponent]]))


# modulo p: inputs are integers of any size


@dataclass(frozen=True)
class Residue:
    """Arithmetic modulo p on Python's integers."""

    value: int

    def __add__(self, other: Any) -> Residue:
        return Residue((self.value + as_residue(other).value) % P)

    def __mul__(self, other: Any) -> Residue:
        return Residue(self.value * as_residue(other).value % P)

    def __sub__(self, other: Any) -> Residue:
        return Residue((self.value - as_residue(other).value) % P)

    def __truediv__(self, other: Any) -> Residue:
        if as_residue(other).value == 0:
            raise ZeroDivisionError
        return Residue(self.value * pow(as_residue(other).value, P - 2, P) % P)

    __radd__, __rmul__ = __add__, __mul__


def as_residue(number: Any) -> Residue:
    return number if isinstance(number, Residue) else Residue(number % P)


FIELD = WithExponents(FiniteField(), Exponents(), PowersOfAGenerator())


def lifted(rows: Any, algebra: WithExponents = FIELD) -> Any:
    """Integers modulo p and modulo p - 1."""
    modulo = lambda m: np.array(rows, dtype=object) % m
    return algebra.lift(modulo(P).astype(np.int64), modulo(P - 1).astype(np.int64))


@every_item
@given(drawn=points, trials=st.integers(1, 3), largest=st.sampled_from([2, P - 1, P, 10**12]))
def test_residues(item: Item, drawn: Any, trials: int, largest: int) -> None:
    drawn_points = [point(item.form, *drawn[:2], drawn[2] + number, largest) for number in range(trials)]
    env = environment(item.form, drawn_points[0], lambda rows: None)
    for symbol in inputs_of(item.form):
        env[symbol] = lifted([x.entries[str(symbol)] for x in drawn_points])
    try:
        expected = [item.meaning(x, lambda e: Residue(pow(7, e, P))) for x in drawn_points]
    except ZeroDivisionError:
        suppose(False)
    found = run(item.form, env, FIELD).output.value
    whole = np.broadcast_to(found, (trials, *found.shape[-2:])).tolist()
    assert whole == [of_each(lambda e: as_residue(e).value, rows) for rows in expected]


def test_powers_of_the_generator() -> None:
    exponents = [
        0,
        1,
        2,
        2**16 - 1,
        2**16,
        2**16 + 1,
        (P - 1) // 2,
        P - 3,
        P - 2,
        *random.Random(0).sample(range(P - 1), 50),
    ]
    assert PowersOfAGenerator()(np.array([exponents])).tolist() == [[pow(7, e, P) for e in exponents]]
    assert all(pow(7, (P - 1) // prime, P) != 1 for prime in factorint(P - 1)), "7 generates fewer than all units"


@given(
    st.lists(st.sampled_from([0, 1, 2**16, 2**30, P - 3, P - 2]) | st.integers(0, P - 2), min_size=1, max_size=70),
    st.integers(0, 9),
)
def test_products_of_exponents(column: list[int], shift: int) -> None:
    """Exponents are integers modulo p - 1, which isn't a prime."""
    array = np.array([column], dtype=np.int64)
    row = column[shift % len(column) :] + column[: shift % len(column)]
    found = Exponents().matmul(np.array([row], dtype=np.int64), Exponents().transpose(array))
    assert found.tolist() == [[dot(row, column) % (P - 1)]]
    negated = Exponents().subtract(Exponents().negate(array), Exponents().multiply(array, array))
    assert negated.tolist() == [[(-e - e * e) % (P - 1) for e in column]]


# polynomials


def with_generators(form: Form, sizes: tuple[int, int, int], chunk: int = 2) -> tuple[Polynomials, Any]:
    """The ring with a generator for each monomial that stands in an exponent, and the output."""
    x = point(form, sizes, chunk, 0)
    name = lambda symbol, a, b: f"{symbol}_{a}_{b}"
    places = [(s, a, b) for s in inputs_of(form) for a, row in enumerate(x.entries[str(s)]) for b in range(len(row))]
    exponents: list[Any] = []
    while len(exponents) == len(set(exponents)):  # nothing that is known is asked for again
        algebra = Polynomials([name(*place) for place in places], exponents)
        env = environment(form, x, lambda rows: None)
        for s in inputs_of(form):
            rows, columns = shape_at(s, sizes)
            env[s] = matrix_of([[algebra.generator(name(s, a, b)) for b in range(columns)] for a in range(rows)])
        try:
            return algebra, run(form, env, algebra).output
        except NewExponents as found:
            exponents += found.monomials
    raise AssertionError(f"a generator was asked for twice: {exponents}")


def value_of(name: str, x: Point) -> Fraction:
    """A generator at a point: an input, or exp(input*input**2) as a power of two."""
    if not name.startswith("exp("):
        symbol, a, b = name.rsplit("_", 2)
        return Fraction(x.entries[symbol][int(a)][int(b)])
    factors = re.findall(r"(\w+?)(?:\*\*(\d+))?(?:\*|$)", name[4:-1])
    monomial = product_of([Fraction(1) if base == "1" else value_of(base, x) ** int(e or 1) for base, e in factors])
    return Fraction(2) ** int(monomial)


def at_point(entry: Any, values: Sequence[Fraction]) -> Fraction:
    if isinstance(entry, RationalFunction):
        return at_point(entry.numerator, values) / at_point(entry.denominator, values)
    total = Fraction(0)
    for powers, coefficient in entry.to_dict().items():
        own = [value ** int(power) for value, power in zip(values, powers, strict=True)]
        total += Fraction(int(coefficient.p), int(coefficient.q)) * product_of(own)
    return total


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 2, 1), (3, 1, 2)])
@every_item
def test_polynomials_specialise(item: Item, sizes: tuple[int, int, int]) -> None:
    """With exp(m) put to 2^m at a point the value is the one there."""
    algebra, output = with_generators(item.form, sizes)
    for seed in range(3):
        x = point(item.form, sizes, 2, seed)
        values = [value_of(name, x) for name in algebra.generators]
        found = [[at_point(entry, values) for entry in row] for row in output]
        assert found == item.meaning(x, lambda e: Fraction(2) ** e)


def test_generators_of_monomials() -> None:
    """exp(2 a b - 3 a) is E_ab^2 / E_a^3."""
    algebra, output = with_generators(Closed(exp(2 * gamma.hadamard(beta) - 3 * gamma)), (1, 1, 1))
    assert set(algebra.generators) == {"gamma_0_0", "beta_0_0", "exp(beta_0_0*gamma_0_0)", "exp(gamma_0_0)"}
    both, one = (algebra.generator(f"exp({monomial})") for monomial in ("beta_0_0*gamma_0_0", "gamma_0_0"))
    assert output[0, 0] == RationalFunction(both**2, one**3)
    assert sorted(algebra.inputs_of("exp(beta_0_0*gamma_0_0)")) == ["beta_0_0", "gamma_0_0"]
    assert algebra.inputs_of("exp(gamma_0_0)") == algebra.inputs_of("gamma_0_0") == ["gamma_0_0"]


# what has no exponential

FRACTIONS = {
    "reciprocal": Closed(exp(reciprocal(Q))),
    "quotient": TokenRows(exp(1 / gamma[t]) * v),
    "half": Closed(exp(Q / 2)),
    "half in a bracket": TokenRows(exp(gamma[t] * Rational(1, 2) + 1) * v),
    "inverse": Closed(exp((M + Q @ K.T).I)),
    "system": Closed(exp((M + Q @ K.T).I @ V)),
    "exponential": Closed(exp(exp(Q))),
    "exponential times an input": Closed(exp(exp(Q).hadamard(K))),
    "square root": TokenRows(exp(sqrt(norm_squared(k))) * v),
    "half of a logarithm": Closed(exp(Q + Rational(1, 2) * log(B))),
    "logarithm in a product": Closed(exp(Q @ log(B).T)),
    "logarithm alone": Closed(log(B) + Q),
}
refused = pytest.mark.parametrize("form", FRACTIONS.values(), ids=FRACTIONS.keys())


@refused
def test_residues_refuse(form: Form) -> None:
    x = point(form, (2, 2, 1), 1, 5, largest=10**6)
    with pytest.raises(NoMeaning):
        assert run(form, environment(form, x, lifted), FIELD).output.value is None  # it is computed when it is read


@refused
def test_polynomials_refuse(form: Form) -> None:
    with pytest.raises(NoMeaning):
        with_generators(form, (2, 2, 1))


def test_values_may_be_what_exponents_may_not() -> None:
    """Exponents are looked at only where an exponential asks for them."""
    form = Closed((M + Q @ K.T).I @ exp(V / Rational(1)) / 2)
    x = point(form, (2, 2, 1), 1, 0, largest=10**6)
    assert run(form, environment(form, x, lifted), FIELD).output.value.shape == (2, 1)


def test_exponents_that_are_made_of_many_tokens() -> None:
    """Values and exponents wait until they are asked for, though not for one another without end."""
    z, one, length = State("z", 1, 1), Ones(1, 1), 600
    form = Recurrence(z, update=z + gamma[t] * one, readout=z).final(exp(z))
    x = point(form, (length, 1, 1), 1, 0, largest=10**9)
    found = run(form, environment(form, x, lifted), FIELD).output.value
    assert found.tolist() == [[pow(7, sum(x.column("gamma")), P)]]


# identities

W, r = Parameter("W", n), State("r", d_v, d_k)
all_keys = Closed(softmax(Q @ K.T) @ V)
keys_so_far = Closed(softmax(Q @ K.T + log(M)) @ V)
row_by_row = TABLE["causal softmax token by token"].form
TRUE = {
    "a sum in the exponent": Identity("x", Closed(exp(Q + K)), Closed(exp(Q).hadamard(exp(K)))),
    "a logarithm subtracted": Identity("x", Closed(exp(Q - log(exp(K)))), Closed(exp(Q).hadamard(reciprocal(exp(K))))),
    "a shift of each row": Identity("x", all_keys, Closed(softmax(Q @ K.T - gamma @ Ones(1, n)) @ V)),
    "masks inside and outside": Identity("x", keys_so_far, TABLE["mask, then normalised"].form),
    "token by token": Identity("x", keys_so_far, row_by_row),
    "gates as sums of logarithms": Identity(
        "x",
        Recurrence(S, update=exp(gamma[t]) * S + v @ k.T, readout=S @ q),
        Closed((Q @ K.T).hadamard(exp((M @ gamma) @ Ones(1, n) - Ones(n, 1) @ (M @ gamma).T)).hadamard(M) @ V),
        carries=False,
    ),
    "scores of numbers": Identity("x", Closed(exp(0 * Q + Ones(n, d_k))), Closed(exp(Ones(n, 1)) @ Ones(1, d_k))),
}
FALSE = {
    "all keys, not those so far": (
        Identity("x", all_keys, keys_so_far, expected="refuted"),
        lambda x, exp: mean_of_values(x, exp, causal=False),
        lambda x, exp: mean_of_values(x, exp, causal=True),
    ),
    "masked after the softmax": (
        Identity("x", keys_so_far, Closed(softmax(Q @ K.T).hadamard(M) @ V), expected="refuted"),
        lambda x, exp: mean_of_values(x, exp, causal=True),
        lambda x, exp: product(
            entrywise(
                [times(1 / sum(row), [row])[0] for row in of_each(exp, scores(x))],
                table(x.n, x.n, lambda a, b: int(a >= b)),
            ),
            x.V,
        ),
    ),
    "a sum that stops one token early": (
        Identity("x", Closed(exp(M @ gamma)), Closed(exp(M_strict @ gamma)), expected="refuted"),
        lambda x, exp: [[exp(sum(x.column("gamma")[: a + 1]))] for a in range(x.n)],
        lambda x, exp: [[exp(sum(x.column("gamma")[:a]))] for a in range(x.n)],
    ),
    "a sign in the exponent": (
        Identity("x", TokenRows(exp(scalar(k.T @ q)) * v), TokenRows(exp(-scalar(k.T @ q)) * v), expected="refuted"),
        lambda x, exp: [times(exp(dot(x.K[a], x.Q[a])), [x.V[a]])[0] for a in range(x.n)],
        lambda x, exp: [times(exp(-dot(x.K[a], x.Q[a])), [x.V[a]])[0] for a in range(x.n)],
    ),
    "columns normalised": (
        Identity("x", all_keys, Closed(normalised(exp(K @ Q.T)).T @ V), expected="refuted"),
        lambda x, exp: mean_of_values(x, exp, causal=False),
        lambda x, exp: product(
            transpose([times(1 / sum(row), [row])[0] for row in of_each(exp, transpose(scores(x)))]), x.V
        ),
    ),
}
SIZES = Sizes(7, 8, 3, chunk=2)


@pytest.mark.parametrize("identity", TRUE.values(), ids=TRUE.keys())
def test_true_identities(identity: Identity) -> None:
    assert exact.check(identity).verdict == "holds"
    evidence = field.check(identity, sizes=SIZES)
    assert evidence.verdict == "holds", evidence.message


@pytest.mark.parametrize(("identity", "left", "right"), FALSE.values(), ids=FALSE.keys())
def test_false_identities(identity: Identity, left: Any, right: Any) -> None:
    """Refuted by either rung, with numbers that can be checked by hand: exp(x) is 2^x there."""
    assert exact.check(identity).verdict == "refuted"
    assert field.check(identity, sizes=SIZES).verdict == "refuted"
    found = smallest(identity)
    assert found is not None
    entries = {name: of_each(Fraction, rows) for name, rows in found.inputs.items()}
    x = Point(*(found.sizes.get(d, 1) for d in ("n", "d_k", "d_v")), 1, entries)
    power = lambda e: Fraction(2) ** int(e)
    assert of_each(Fraction, found.left) == left(x, power)
    assert of_each(Fraction, found.right) == right(x, power)
    row, column = (place - 1 for place in found.entry)
    assert gap_at(found, entries) == Fraction(found.left[row][column]) - Fraction(found.right[row][column]) != 0


def gap_at(found: Counterexample, entries: dict[str, Matrix]) -> Fraction:
    """The gap, with 2^x for exp(x). Widths are one in all of these, so that entries are named k_1, k_2, ..."""
    names = {}
    for symbol, rows in entries.items():
        name = symbol if symbol == "gamma" else symbol.lower()
        names |= {f"{name}_{place}": row[0] for place, row in enumerate(rows, start=1)}
    names["exp"] = lambda e: Fraction(2) ** int(e)
    return eval(found.gap, {"__builtins__": {}}, names)


def test_a_pair_after_the_gap_may_have_new_exponents() -> None:
    """The outputs of the first token differ before the state of the second one is an exponential."""
    sums = TokenSum(V[j], j, 1, n)
    left = Recurrence(S, update=S + exp(v) @ k.T, readout=sums)
    right = Recurrence(r, update=r + exp(v) @ k.T, readout=v)
    identity = Identity("x", left, right, matching={S: r}, expected="refuted")
    assert exact.check(identity).verdict == "refuted"
    found = smallest(identity)
    assert found is not None
    assert found.sizes["n"] == 2


@pytest.mark.parametrize(("sign", "expected"), [(1, "holds"), (-1, "refuted")])
def test_states_are_matched_through_exponentials(sign: int, expected: str) -> None:
    """A state that fades by exp(eta_t), against one that is kept at the scale of all gates so far."""
    faded, kept, total = State("a", d_v, 1), State("b", d_v, 1), State("p", 1, 1)
    left = Recurrence(faded, update=exp(eta[t]) * faded + v, readout=faded)
    moved = (kept + exp(-scalar(total) - eta[t]) * v, total + eta[t] * Ones(1, 1))
    right = Recurrence((kept, total), update=moved, readout=exp(scalar(total)) * kept)
    identity = Identity("x", left, right, matching={faded: exp(sign * scalar(total)) * kept}, expected=expected)
    assert exact.check(identity).verdict == expected
    found = field.check(identity, sizes=SIZES)
    assert found.verdict == expected
    assert sign < 0 or found.details["error_bound"] < 2.0**-60


C, sine, on_sphere = Parameter("C", n, d_k), Parameter("sine", n, d_k), Tokens("W", n, d_k)
BUILT_IN = {
    "a sphere": Identity(
        "x",
        TokenRows(exp(norm_squared(on_sphere[t])) * v),
        TokenRows(exp(1) * v),
        assumptions=(assume(Eq(norm_squared(on_sphere[t]), 1)),),
    ),
    "a circle": Identity(
        "x",
        Closed(exp(C.hadamard(C) + sine.hadamard(sine))),
        Closed(exp(Ones(n, d_k))),
        assumptions=(on_unit_circle(C, sine),),
    ),
    "a square": Identity(
        "x",
        TokenRows(exp(norm_squared(sqrt(eta[t]) * k)) * v),
        TokenRows(exp(eta[t] * norm_squared(k)) * v),
        assumptions=(assume(eta[t] >= 0),),
    ),
    "a value": Identity(
        "x",
        TokenRows(exp(gamma[t]) * v),
        TokenRows(exp(beta[t] * eta[t]) * v),
        assumptions=(assume(Eq(gamma[t], beta[t] * eta[t])),),
    ),
}


@pytest.mark.parametrize("identity", BUILT_IN.values(), ids=BUILT_IN.keys())
def test_assumptions_hold_for_exponents_too(identity: Identity) -> None:
    """What is fulfilled modulo p isn't fulfilled modulo p - 1 by itself: nothing that is true may be refuted."""
    assert exact.check(identity).verdict == "holds"
    assert field.check(identity, sizes=SIZES).verdict in ("holds", "unknown")


def test_the_table_is_complete() -> None:
    """Every kind of exponential and logarithm occurs."""
    parts = [e for item in TABLE.values() for e in item.form.expressions().values()]
    nodes: set[type] = {type(a) for e in parts for a in preorder_traversal(e)}
    assert {Exponential, ScalarExponential, Logarithm} <= nodes & set(RULES)
