"""The derivative of a statement along a direction, against SymPy's derivative of the polynomial that the statement is.

d/dz f(X + z E) at z = 0: the left side by the rules of the language; the right side by putting X + z E into the
statement, multiplying out with a symbol for every entry, and letting SymPy differentiate with respect to z.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from random_statements import X, c, statements
from sympy import Add, Basic, Expr, Mul, Pow, Rational, Symbol, cancel, diff, parse_expr
from sympy import exp as exponential

from derivations.language import (
    Decay,
    Gamma,
    K,
    NoMeaning,
    Ones,
    Parameter,
    Q,
    RowProducts,
    S,
    Statement,
    Toeplitz,
    TokenSum,
    UndefinedValue,
    V,
    Zeros,
    beta,
    block,
    d_k,
    d_v,
    derivative,
    diag,
    exp,
    eye,
    gamma,
    j,
    k,
    log,
    n,
    norm_squared,
    q,
    reciprocal,
    scalar,
    softmax,
    t,
    trace,
    v,
)
from numerics.algebras.objects import matrix_of
from numerics.algebras.polynomials import Monomial, NewExponents, Polynomials, RationalFunction
from numerics.evaluate import evaluate

E, F = Parameter("E", d_v, d_k), Parameter("F", d_v, d_k)
one = Ones(1, 1)
error = S @ K.T - V.T

STATEMENTS: dict[str, Basic] = {
    "itself": S,
    "transposed": S.T,
    "product": S @ k,
    "product from both sides": S.T @ S,
    "three times": S @ S.T @ S,
    "sum and difference": S + 2 * S - v @ k.T,
    "entry by entry": S.hadamard(S).hadamard(v @ k.T),
    "scaled": gamma[t] * S,
    "scaled by itself": scalar(v.T @ S @ k) * S,
    "scaled by a quotient": S / (1 + norm_squared(S @ k)),
    "power": norm_squared(S @ k) ** 3 * v,
    "trace": trace(S @ S.T) * one,
    "trace of a bracket": trace((S @ K.T - V.T) @ diag(gamma) @ (S @ K.T - V.T).T) * one,
    "inverse": (eye(d_k) + S.T @ S).I,
    "inverse in a product": S @ (eye(d_k) + S.T @ S).I @ k,
    "two inverses": (eye(d_k) + S.T @ S).I @ S.T @ (eye(d_v) + S @ S.T).I,
    "diagonal": diag(S @ k) @ v,
    "token sum": TokenSum((S @ K[j]).hadamard(V[j]) @ (K[j].T @ S.T @ v), j, 1, t),
    "loss of the delta rule": norm_squared(S @ k - v) / 2 * one,
    "loss of linear attention": (trace(S.T @ S) / 2 - scalar(v.T @ S @ k)) * one,
    "loss of a regression": (trace(error @ diag(gamma) @ error.T) + trace(S @ S.T)) / 2 * one,
    "masked": (Q @ S.T @ S @ K.T).hadamard(Gamma) @ V,
    "exponential": exp(S @ K.T),
    "exponential of a square": exp(2 * S.hadamard(S) - S),
    "product of exponentials": exp(S).T @ exp(v @ k.T - S),
    "exponential of a scalar": exp(scalar(v.T @ S @ k)) ** 2 * S,
    "softmax": softmax(v.T @ S @ K.T) @ V,
    "exponentials in a sum over tokens": TokenSum(exp(S @ K[j]).hadamard(V[j]), j, 1, t),
    "blocks": block([[S, v @ k.T], [S.hadamard(S), S]]),
    "product of blocks": block([[S.T, eye(d_k)]]) @ block([[S], [k @ v.T @ S]]),
    "without it": v @ k.T,
}


class Inputs:
    """A generator for every entry, and z."""

    def __init__(self, length: int, width: int, height: int) -> None:
        self.dimensions = {n: length, d_k: width, d_v: height}
        shapes: dict[Any, tuple[int, int]] = {
            S: (height, width),
            E: (height, width),
            F: (height, width),
            K: (length, width),
            Q: (length, width),
            V: (length, height),
            X: (length, length),
            gamma: (length, 1),
            beta: (length, 1),
            c: (1, 1),
        }
        self.shapes = shapes
        self.exponents: tuple[Monomial, ...] = ()
        self.make()

    def make(self) -> None:
        """The ring, with a generator for the exponential of each monomial that has been met in an exponent."""
        places = [(x, a, b) for x, (rows, columns) in self.shapes.items() for a in range(rows) for b in range(columns)]
        self.algebra = Polynomials(["z", *(f"{x}_{a}_{b}" for x, a, b in places)], self.exponents)
        self.env: dict[Any, Any] = dict(self.dimensions)
        for x, (rows, columns) in self.shapes.items():
            entry = lambda a, b, x=x: self.algebra.generator(f"{x}_{a}_{b}")
            self.env[x] = matrix_of([[entry(a, b) for b in range(columns)] for a in range(rows)])
        known = {name: Symbol(name) for name in self.algebra.generators} | {"exp": exponential}
        self.symbols = [
            parse_expr(name, known) if name.startswith("exp(") else known[name] for name in self.algebra.generators
        ]

    def value(self, e: Basic, direction: Any = None) -> Any:
        """The statement, at S + z E where a direction E is given."""
        while True:
            step = self.env[direction] * matrix_of([[self.algebra.generator("z")]]) if direction else 0
            try:
                return evaluate(e, {**self.env, t: 1, S: self.env[S] + step}, self.algebra)
            except NewExponents as found:
                self.exponents += found.monomials
                self.make()

    def as_sympy(self, entry: Any) -> Expr:
        if isinstance(entry, RationalFunction):
            return self.as_sympy(entry.numerator) / self.as_sympy(entry.denominator)
        terms = []
        for exponents, coefficient in entry.to_dict().items():
            powers = [Pow(x, int(e)) for x, e in zip(self.symbols, exponents, strict=True) if e]
            terms.append(Mul(Rational(int(coefficient.p), int(coefficient.q)), *powers))
        return Add(*terms)


SMALL, WIDE = Inputs(2, 1, 2), Inputs(2, 2, 1)


def agrees(e: Statement, inputs: Inputs) -> None:
    found = inputs.value(derivative(e, S, along=E))
    shape, slopes = found.shape, [inputs.as_sympy(entry) for entry in found.ravel()]
    moved = inputs.value(e, direction=E)
    assert shape == moved.shape
    z = inputs.symbols[0]
    for mine, theirs in zip(slopes, moved.ravel(), strict=True):
        assert cancel(mine - diff(inputs.as_sympy(theirs), z).subs(z, 0)) == 0


@pytest.mark.parametrize("inputs", [SMALL, WIDE], ids=["d_k = 1", "d_k = 2"])
@pytest.mark.parametrize("e", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_against_sympy(e: Statement, inputs: Inputs) -> None:
    agrees(e, inputs)


@given(e=statements(depth=2, shapes=[(d_v, 1), (d_v, d_k), (n, n)]))
def test_random_statements(e: Statement) -> None:
    assume(e.has(S))
    try:
        agrees(e, SMALL)
    except UndefinedValue:
        assume(False)


@pytest.mark.parametrize(
    "name", ["three times", "scaled by a quotient", "loss of a regression", "inverse in a product"]
)
def test_linear_in_the_direction(name: str) -> None:
    e, inputs = STATEMENTS[name], SMALL
    whole = inputs.value(derivative(e, S, along=2 * E + F))
    parts = 2 * inputs.value(derivative(e, S, along=E)) + inputs.value(derivative(e, S, along=F))
    assert all(a == b for a, b in zip(whole.ravel(), parts.ravel(), strict=True))


@pytest.mark.parametrize("name", ["three times", "loss of a regression", "trace of a bracket"])
def test_second_derivatives_are_symmetric(name: str) -> None:
    e, inputs = STATEMENTS[name], WIDE
    one_way = inputs.value(derivative(derivative(e, S, along=E), S, along=F))
    other_way = inputs.value(derivative(derivative(e, S, along=F), S, along=E))
    assert any(entry != 0 for entry in one_way.ravel())
    assert all(a == b for a, b in zip(one_way.ravel(), other_way.ravel(), strict=True))


def test_what_does_not_read_the_variable_has_derivative_zero() -> None:
    assert derivative(v @ k.T, S, along=E) == Zeros(d_v, d_k)
    assert derivative(gamma[t], S, along=E) == 0
    assert derivative(S, S, along=E) == E


def test_shapes_are_kept() -> None:
    for e in (S @ q, S.T @ v, (eye(d_k) + S.T @ S).I, diag(S @ k)):
        assert derivative(e, S, along=E).shape == e.shape


@pytest.mark.parametrize(
    "e",
    [
        *(K[t], Decay(gamma) @ V, (gamma[t] ** Rational(1, 2)) * V),
        *(reciprocal(K), RowProducts(K, V), exp(Q + log(K)), Toeplitz(gamma) @ V),
    ],
    ids=str,
)
def test_no_rule(e: Statement) -> None:
    variable = K if e.has(K) else gamma
    with pytest.raises(NoMeaning, match="no rule for the derivative of"):
        derivative(e, variable, along=variable)


def test_the_gradient_of_the_delta_rule() -> None:
    """By hand: d/dz |(S + z E) k - v|^2 / 2 = tr(E^T (S k - v) k^T)."""
    inputs = WIDE
    found = inputs.value(derivative(norm_squared(S @ k - v) / 2 * one, S, along=E))
    by_hand = inputs.value(trace(E.T @ (S @ k - v) @ k.T) * one)
    assert found[0, 0] == by_hand[0, 0]
    assert found[0, 0] != 0
