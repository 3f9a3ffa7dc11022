"""Reverse mode on expressions: <G, f> is differentiated by every entry of every input, and compared with the pullback.

The derivatives are those of the polynomials that the statement is, with a generator for every entry; a few are taken by
SymPy besides. Dual numbers (forward mode) are held to the same derivatives.
"""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from random_statements import X, c, statements
from sympy import Rational, Symbol, cancel, diff, parse_expr

from derivations.language import (
    Decay,
    K,
    NoMeaning,
    Ones,
    Parameter,
    Q,
    S,
    Statement,
    Toeplitz,
    TokenSum,
    UndefinedValue,
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
    n,
    norm_squared,
    q,
    reciprocal,
    scalar,
    t,
    trace,
    v,
)
from derivations.language.forms import sequence_of
from derivations.language.pullback import pullback
from numerics.algebras.objects import matrix_of
from numerics.algebras.polynomials import Monomial, NewExponents, Polynomials, RationalFunction
from numerics.algebras.with_tangents import WithTangents
from numerics.backward import pairing
from numerics.evaluate import evaluate

POSITION = 1
SIZES = [(2, 1, 2), (2, 2, 1)]

STATEMENTS: dict[str, Statement] = {
    "product": v @ k.T @ S.T @ v,
    "product with itself": S @ S.T @ S,
    "sum and difference": S - 2 * S + v @ k.T,
    "entry by entry": S.hadamard(v @ k.T).hadamard(S),
    "scaled by a gate": gamma[t] * S - beta[t] * S @ k @ k.T,
    "scaled by itself": scalar(v.T @ S @ k) * S,
    "scaled by a symbol": c * S + (1 - c) ** 2 * v @ k.T,
    "quotient": S / (1 + norm_squared(S @ k)),
    "trace": trace(S.T @ S) * S,
    "transposed": (S @ k).T @ S,
    "inverse": S @ (eye(d_k) + S.T @ S).I @ k,
    "inverse by itself": (eye(d_k) + gamma[t] * k @ q.T).I,
    "diagonal of a product": S @ diag(k) @ q,
    "diagonal alone": diag(k.hadamard(q)),
    "diagonal in a sum": (diag(k) - beta[t] * q @ k.T) @ S.T,
    "exponential": exp(v @ k.T).hadamard(S),
    "exponential of a scalar": exp(scalar(k.T @ q)) * v,
    "reciprocal": reciprocal(S).hadamard(v @ k.T),
    "blocks": block([[S, v @ k.T], [S.hadamard(S), 2 * S]]),
    "product of blocks": block([[S.T, diag(k)]]) @ block([[S], [k @ q.T]]),
    "whole sequences": (Q @ K.T).hadamard(X) @ V,
    "a sequence and its token": K.T @ K @ k,
}


INPUTS: tuple[Any, ...] = (S, K, Q, V, X, gamma, beta, c)


class Ring:
    """A generator for every entry of every input, and numbers for the cotangent G of a statement f."""

    def __init__(self, f: Statement, sizes: tuple[int, int, int]) -> None:
        self.sizes = dict(zip((n, d_k, d_v), sizes, strict=True))
        self.f, self.cotangent = f, Parameter("G", *f.shape)
        self.exponents: tuple[Monomial, ...] = ()
        self.make()

    def make(self) -> None:
        """The ring, again as often as a monomial is met in an exponent that has no generator yet."""
        places = [(x, row, column) for x in INPUTS for row, column in self.entries(x)]
        self.algebra = Polynomials([self.name(*place) for place in places], self.exponents)
        number = lambda row, column: self.algebra.entry(Rational(3 * row + 5 * column + 2, row + 1))
        self.env: dict[Any, Any] = {**self.sizes, t: POSITION, self.cotangent: self.matrix(self.cotangent, number)}
        self.env |= {x: self.matrix(x, lambda row, column, x=x: self.generator(x, row, column)) for x in INPUTS}
        try:
            self.value = evaluate(self.f, self.env, self.algebra)
            pulled = pullback(self.f, self.cotangent)
            self.pulled = {leaf: evaluate(e, self.env, self.algebra) for leaf, e in pulled.items()}
        except NewExponents as found:
            self.exponents += found.monomials
            self.make()

    def entries(self, x: Any) -> list[tuple[int, int]]:
        shape = [int(side.subs(self.sizes)) for side in x.shape] if isinstance(x, Statement) else (1, 1)
        return [(row, column) for row in range(shape[0]) for column in range(shape[1])]

    def matrix(self, x: Any, entry: Any) -> Any:
        rows, columns = (last + 1 for last in self.entries(x)[-1])
        return matrix_of([[entry(row, column) for column in range(columns)] for row in range(rows)])

    def name(self, x: Any, row: int, column: int) -> str:
        return f"{x}_{row}_{column}"

    def generator(self, x: Any, row: int, column: int) -> Any:
        return self.algebra.generator(self.name(x, row, column))

    @property
    def loss(self) -> Any:
        """<G, f>."""
        return pairing(self.env[self.cotangent], self.value, self.algebra)[0, 0]

    def gradient(self, x: Any, row: int, column: int) -> Any:
        """What the pullback says about one entry: of the whole matrix, and of token t."""
        found = self.algebra.entry(Rational(0))
        for leaf, value in self.pulled.items():
            if leaf == x:
                found = found + value[row, column]
            elif sequence_of(leaf) == x and row == POSITION:
                found = found + value[column, 0]
        return found


def agrees(f: Statement, sizes: tuple[int, int, int]) -> int:
    """Compares every entry; the number of those that f depends on."""
    ring, depends = Ring(f, sizes), 0
    for x in INPUTS:
        for place in ring.entries(x):
            slope = ring.algebra.derivative(ring.loss, ring.generator(x, *place))
            assert ring.algebra.is_zero(slope - ring.gradient(x, *place)), (x, place)
            depends += not ring.algebra.is_zero(slope)
    return depends


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("f", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_every_entry_of_every_input(f: Statement, sizes: tuple[int, int, int]) -> None:
    assert agrees(f, sizes) > 0


@settings(suppress_health_check=list(HealthCheck))
@given(f=statements(depth=2, shapes=[(d_v, 1), (d_v, d_k)]))
def test_random_statements(f: Statement) -> None:
    try:
        agrees(f, SIZES[0])
    except (NoMeaning, UndefinedValue):
        assume(False)


@pytest.mark.parametrize("name", ["quotient", "inverse", "scaled by itself", "exponential of a scalar", "reciprocal"])
def test_against_sympy(name: str) -> None:
    """The polynomials and their derivatives, once more by SymPy."""
    ring = Ring(STATEMENTS[name], SIZES[1])
    loss = as_sympy(ring, ring.loss)
    for x in (S, K, gamma):
        for place in ring.entries(x):
            slope = diff(loss, Symbol(ring.name(x, *place)))
            assert cancel(slope - as_sympy(ring, ring.gradient(x, *place))) == 0


def as_sympy(ring: Ring, entry: Any) -> Any:
    if isinstance(entry, RationalFunction):
        return as_sympy(ring, entry.numerator) / as_sympy(ring, entry.denominator)
    names = {name: Symbol(name) for name in ring.algebra.generators if not name.startswith("exp(")}
    generators = [parse_expr(name, names) for name in ring.algebra.generators]
    return sum(
        Rational(int(factor.p), int(factor.q)) * prod(x ** int(e) for x, e in zip(generators, powers, strict=True))
        for powers, factor in entry.to_dict().items()
    )


@pytest.mark.parametrize("f", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_dual_numbers(f: Statement) -> None:
    """Forward mode over the same polynomials: the tangent of f along each generator is its derivative."""
    ring = Ring(f, SIZES[0])
    dual = WithTangents(ring.algebra)
    constants = {x: value if isinstance(value, int) else dual.constant(value) for x, value in ring.env.items()}
    for x in (S, K, gamma, c):
        for place in ring.entries(x):
            one = lambda row, column, place=place: ring.algebra.entry(Rational(int((row, column) == place)))
            moved = evaluate(f, constants | {x: dual.lift(ring.env[x], ring.matrix(x, one))}, dual)
            slopes = [ring.algebra.derivative(entry, ring.generator(x, *place)) for entry in ring.value.flat]
            for mine, theirs in zip(dual.tangent(moved).flat, slopes, strict=True):
                assert ring.algebra.is_zero(mine - theirs)


READ = [
    (v @ k.T, "dS", {"v_t": "dS k_t", "k_t": "dSᵀ v_t"}),
    (gamma[t] * S, "dS", {"S": "gamma_t dS", "gamma_t": "tr(Sᵀ dS)"}),
    (beta[t] * v @ k.T, "dS", {"v_t": "beta_t dS k_t", "beta_t": "(v_tᵀ dS k_t)", "k_t": "beta_t dSᵀ v_t"}),
    (S @ diag(k), "dS", {"S": "dS Diag(k_t)", "k_t": "(S ⊙ dS)ᵀ 𝟏"}),
    (S @ (eye(d_k) - beta[t] * k @ k.T), "dS", {"S": "dS (I - beta_t k_t k_tᵀ)"}),
    ((S @ k.hadamard(k)), "do", {"S": "do (k_t ⊙ k_t)ᵀ", "k_t": "2 ((Sᵀ do) ⊙ k_t)"}),
    (norm_squared(k) * v, "do", {"k_t": "2*(v_tᵀ do) k_t", "v_t": "(k_tᵀ k_t) do"}),
]


@pytest.mark.parametrize(("f", "name", "written"), READ, ids=[str(row[0]) for row in READ])
def test_it_reads_like_a_formula_of_a_paper(f: Statement, name: str, written: dict[str, str]) -> None:
    found = {str(leaf): str(e) for leaf, e in pullback(f, Parameter(name, *f.shape)).items()}
    assert found | written == found


@pytest.mark.parametrize(
    ("f", "named"),
    [
        (Decay(gamma) @ V, "Decay"),
        (Toeplitz(gamma) @ V, "Toeplitz"),
        (TokenSum(V[j], j, 1, t), "TokenSum"),
        (gamma[t] ** t * v, "Pow"),
    ],
    ids=str,
)
def test_no_rule(f: Statement, named: str) -> None:
    with pytest.raises(NoMeaning, match=f"no rule for the pullback of {named}, in "):
        pullback(f, Parameter("G", *f.shape))


def test_what_is_no_input_has_no_cotangent() -> None:
    assert pullback(eye(d_k) + Ones(d_k, d_k), Parameter("G", d_k, d_k)) == {}
    assert list(pullback(d_k * t * S, Parameter("G", d_v, d_k))) == [S]
