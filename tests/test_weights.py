"""The weight of an exponent is a bound: an exponential is a product of no more units than it says.

A unit is the exponential of one product of inputs, or of one inner product of two. At widths of one these are the
monomials of the exponent, multiplied out here by SymPy: the weight is held against the sum of the absolute values of
their coefficients. And where exponentials have been added, multiplied and divided, the degree in inputs and units is
held against the bound that follows from the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from plain_python import Matrix, minus, plus, product, table, times, transpose
from sympy import Poly, Symbol

from derivations.language import (
    Chunkwise,
    Closed,
    Form,
    Gamma,
    Identity,
    K,
    M,
    M_strict,
    NoMeaning,
    Ones,
    Q,
    Recurrence,
    S,
    Statement,
    TokenRows,
    TokenSum,
    V,
    beta,
    block,
    d_k,
    d_v,
    diag,
    exp,
    eye,
    gamma,
    j,
    k,
    log,
    n,
    q,
    reciprocal,
    scalar,
    softmax,
    t,
    trace,
    v,
)
from derivations.language.symbols import Named
from numerics.algebras.degrees import Degrees
from numerics.algebras.polynomials import NewExponents, Polynomials, RationalFunction
from numerics.algebras.weights import Weight, Weights, degree_of_exponential
from numerics.algebras.with_exponents import WithExponents
from numerics.evaluate import evaluate
from numerics.inputs import Sizes, symbolic_inputs
from numerics.proofs.field import gap_degree
from numerics.run import run


class Symbols:
    """Matrices of SymPy's symbols, of width one: `x.K` is n x 1."""

    def __init__(self, length: int) -> None:
        self.n = length

    def __getattr__(self, name: str) -> Matrix:
        return [[Symbol(f"{name}_{a}")] for a in range(self.n)]

    def ones(self) -> Matrix:
        return table(self.n, self.n, lambda a, b: int(a >= b))

    def column(self, name: str) -> list[Any]:
        return [row[0] for row in getattr(self, name)]


@dataclass(frozen=True)
class Item:
    """An exponent, what it is (of the last token, where it is one token's), and its weight by hand."""

    exponent: Statement
    meaning: Callable[[Symbols], Matrix]
    weight: Callable[[int], int]


TABLE = {
    "scores": Item(Q @ K.T, lambda x: product(x.Q, transpose(x.K)), lambda n: 1),
    "scores of doubled queries": Item(2 * Q @ K.T, lambda x: times(2, product(x.Q, transpose(x.K))), lambda n: 2),
    "difference of scores": Item(
        Q @ K.T - K @ K.T, lambda x: minus(product(x.Q, transpose(x.K)), product(x.K, transpose(x.K))), lambda n: 2
    ),
    "product of sums": Item(
        (Q + 3 * K) @ (Q - K).T,
        lambda x: product(plus(x.Q, times(3, x.K)), transpose(minus(x.Q, x.K))),
        lambda n: 8,
    ),
    "cumulative sums": Item(M @ gamma, lambda x: product(x.ones(), x.gamma), lambda n: n),
    "differences of cumulative sums": Item(
        (M @ gamma) @ Ones(1, n) - Ones(n, 1) @ (M @ gamma).T,
        lambda x: table(x.n, x.n, lambda a, b: sum(x.column("gamma")[: a + 1]) - sum(x.column("gamma")[: b + 1])),
        lambda n: 2 * n,
    ),
    "cumulative sums of cumulative sums": Item(
        M @ (M @ gamma), lambda x: product(x.ones(), x.ones(), x.gamma), lambda n: n * n
    ),
    "cumulative sum, squared": Item(
        (M @ gamma).hadamard(M @ gamma), lambda x: [[e[0] ** 2] for e in product(x.ones(), x.gamma)], lambda n: n * n
    ),
    "scaled by gates": Item(
        diag(gamma) @ Q, lambda x: [[g * e] for g, e in zip(x.column("gamma"), x.column("Q"), strict=True)], lambda n: 1
    ),
    "sum over tokens": Item(
        TokenSum(gamma[j] * K[j] - 2 * k, j, 1, t),
        lambda x: [[sum(g * e for g, e in zip(x.column("gamma"), x.column("K"), strict=True)) - 2 * x.n * x.K[-1][0]]],
        lambda n: 3 * n,
    ),
    "sum of products over tokens": Item(
        TokenSum(K[j] @ (K[j].T @ q), j, 1, t),
        lambda x: [[sum(e * e for e in x.column("K")) * x.Q[-1][0]]],
        lambda n: n,
    ),
    "blocks": Item(block([[Q, 2 * K]]).T, lambda x: [x.column("Q"), times(2, [x.column("K")])[0]], lambda n: 2),
    "blocks in a sum over tokens": Item(
        TokenSum(block([[q], [K[j]]]), j, 1, t),
        lambda x: [[x.n * x.Q[-1][0]], [sum(x.column("K"))]],
        lambda n: n,
    ),
    "trace": Item(
        trace(Q @ K.T) * Ones(1, 1),
        lambda x: [[sum(a * b for a, b in zip(x.column("Q"), x.column("K"), strict=True))]],
        lambda n: n,
    ),
    "powers": Item(gamma[t] ** 3 * q, lambda x: [[x.gamma[-1][0] ** 3 * x.Q[-1][0]]], lambda n: 1),
}


def norm(entry: Any) -> int:
    """The sum of the absolute values of the coefficients, multiplied out."""
    symbols = sorted(getattr(entry, "free_symbols", ()), key=str)
    return sum(map(abs, Poly(entry, *symbols).coeffs())) if symbols else 0


def weight_of(e: Statement, length: int, width: int = 1) -> Weight:
    env: dict[Any, Any] = {n: length, d_k: width, d_v: width, t: length - 1}
    for symbol in e.atoms(Named):
        rows, columns = (int(side.xreplace(dict(list(env.items())[:3]))) for side in symbol.shape)
        env[symbol] = Weight(1, rows, columns)
    return evaluate(e, env, Weights())


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("item", TABLE.values(), ids=TABLE.keys())
def test_weights_are_bounds(item: Item, length: int) -> None:
    found, expanded = weight_of(item.exponent, length), item.meaning(Symbols(length))
    assert found.size >= max(norm(entry) for row in expanded for entry in row)
    assert found.size == item.weight(length)
    assert found.shape == (len(expanded), len(expanded[0]))


@pytest.mark.parametrize("width", [2, 50])
def test_an_inner_product_is_one_unit_however_wide_it_is(width: int) -> None:
    assert weight_of(Q @ K.T, 3, width).size == 1
    assert weight_of(scalar(k.T @ q) * v, 3, width).size == 1
    assert weight_of(Q @ Ones(d_k, 1), 3, width).size == width  # a sum of inputs is as many units


# degrees

FORMS: dict[str, Form] = {
    "scores": Closed(exp(Q @ K.T) @ V),
    "inverted scores": Closed(exp(-2 * Q @ K.T) @ V - V),
    "softmax": Closed(softmax(Q @ K.T) @ V),
    "causal softmax": Closed(softmax(Q @ K.T + log(M)) @ V),
    "a logarithm": Closed(exp(Q - log(K))),
    "cumulative sums": Closed(diag(exp(M @ gamma)) @ V + diag(exp(-(M @ gamma))) @ V),
    "decay by sums": Closed(exp((M @ gamma) @ Ones(1, n) - Ones(n, 1) @ (M @ gamma).T).hadamard(M) @ V),
    "token by token": TokenRows(
        TokenSum(exp(scalar(K[j].T @ q)) * V[j], j, 1, t)
        / scalar(TokenSum(exp(scalar(K[j].T @ q)) * Ones(1, 1), j, 1, t))
    ),
    "sum in an exponent": TokenRows(exp(TokenSum(block([[q], [K[j]]]), j, 1, t))),
    "recurrence": Recurrence(S, update=exp(gamma[t]) * S + v @ k.T, readout=S @ q),
    "recurrence that divides": Recurrence(S, update=S / exp(gamma[t]) + exp(v) @ k.T, readout=exp(-gamma[t]) * S @ q),
    "blocks": Chunkwise(
        S,
        update=exp(scalar(Ones(1, n) @ gamma)) * S + V.T @ diag(exp(-(M @ gamma))) @ K,
        readout=diag(exp(M @ gamma)) @ Q @ S.T,
    ),
    "substituted": Closed(exp(M @ gamma)).substitute({gamma[t]: gamma[t] * beta[t] + 2 * beta[t]}),
    "system in an exponent": Closed(exp((eye(n) + (Q @ K.T).hadamard(M_strict)).I @ V)),
    "exponential in a system": Closed((eye(n) + exp(Q @ K.T).hadamard(M - eye(n))).I @ V),
}


def bounded(form: Form, sizes: Sizes) -> tuple[list[Any], list[Any], Polynomials]:
    """The values in polynomials, and the degrees that follow from the weights."""
    identity = Identity("x", form, form, carries=bool(form.states))
    exponents: tuple[Any, ...] = ()
    while True:
        inputs = symbolic_inputs(identity, sizes, exponents)
        try:
            outcome = run(form, inputs.env, inputs.algebra)
            break
        except NewExponents as found:
            exponents += found.monomials
    degrees = Degrees()
    both = WithExponents(degrees, Weights(), degree_of_exponential)
    env = dict(sizes.environment(identity))
    for x in identity.inputs():
        shape = inputs.env[x].shape
        env[x] = both.lift(degrees.value(*shape), Weight(1, *shape))
    bound = run(form, env, both)
    values, bounds = [outcome.output, *outcome.states], [bound.output, *bound.states]
    return values, [b.value.flat() for b in bounds], inputs.algebra


def extent(polynomial: Any, inputs: int) -> int:
    """How many zeros it may have in one of its generators: the inputs together, or one unit, which is never zero."""
    terms = [tuple(map(int, powers)) for powers in polynomial.to_dict()]
    spans = [max(powers) - min(powers) for powers in list(zip(*terms, strict=True))[inputs:]]
    return max([*(sum(powers[:inputs]) for powers in terms), *spans], default=0)


@pytest.mark.parametrize("sizes", [Sizes(1, 1, 1), Sizes(2, 1, 1, chunk=1), Sizes(3, 1, 1)], ids=str)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_degrees_are_bounds(form: Form, sizes: Sizes) -> None:
    """Numerators and denominators in lowest terms."""
    values, bounds, algebra = bounded(form, sizes)
    inputs = sum(not name.startswith("exp(") for name in algebra.generators)
    for value, bound in zip(values, bounds, strict=True):
        for number, row in enumerate(value):
            own = bound.by_row[number] if bound.by_row else bound
            for entry in row:
                lowest = (
                    entry.cancelled() if isinstance(entry, RationalFunction) else RationalFunction(entry, 1 + 0 * entry)
                )
                assert extent(lowest.numerator, inputs) <= own.numerator
                assert extent(lowest.denominator, inputs) <= own.denominator.degree


def test_an_exponential_and_its_inverse_have_twice_as_many_zeros() -> None:
    """e^x + e^-x = 3 has two solutions e^x."""
    identity = Identity("x", Closed(exp(gamma) + exp(-gamma)), Closed(3 * Ones(n, 1)))
    assert gap_degree(identity, Sizes(2, 1, 1)) >= 2


# what an exponent isn't made of

REFUSED = {
    "reciprocal": reciprocal(Q),
    "division": q / gamma[t],
    "system": (eye(n) + Q @ K.T).I @ V,
    "decay": Gamma @ V,
}


@pytest.mark.parametrize("e", REFUSED.values(), ids=REFUSED.keys())
def test_refusals(e: Statement) -> None:
    with pytest.raises(NoMeaning, match="sums and products"):
        weight_of(e, 3)


def test_exponentials_of_exponentials_have_no_degree() -> None:
    both = WithExponents(Degrees(), Weights(), degree_of_exponential)
    env = {n: 2, d_k: 1, Q: both.lift(Degrees().value(2, 1), Weight(1, 2, 1))}
    assert run(Closed(exp(Q)), env, both).output.value.numerator == 2
    with pytest.raises(NoMeaning, match="sums and products"):
        assert run(Closed(exp(exp(Q))), env, both).output.value is None  # it is computed when it is read
