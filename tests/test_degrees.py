"""The degree that the Schwartz-Zippel bound is computed from is never too small.

A statement is evaluated with all inputs symbolic, and the degrees of what comes out are held against the bounds, in the
residues that are drawn uniformly: a square root counts once and its square twice, a point of a sphere twice. Of an
exponential, which is never zero, the highest power counts less the lowest.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume as suppose
from hypothesis import given
from hypothesis import strategies as st
from random_statements import statements
from sympy import Basic

import derivations
from derivations.language import (
    ChannelGate,
    Chunkwise,
    Closed,
    CumulativeProduct,
    Decay,
    Derivation,
    Eq,
    Form,
    Gamma,
    Gamma_shifted,
    Gamma_strict,
    GateProduct,
    I,
    Identity,
    K,
    M,
    M_strict,
    NoMeaning,
    Parameter,
    Q,
    Recurrence,
    RemainingProduct,
    RowProducts,
    S,
    Sequence,
    State,
    Symbol,
    Toeplitz,
    TokenRows,
    TokenSum,
    TotalProduct,
    Transport,
    UndefinedValue,
    V,
    assume,
    beta,
    block,
    constant,
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
    on_unit_circle,
    q,
    reciprocal,
    s,
    scalar,
    sqrt,
    t,
    tau,
    total,
    trace,
    v,
)
from derivations.language.expressions import Statement
from numerics.algebras.degrees import Degree, Degrees
from numerics.algebras.polynomials import Monomial, NewExponents, Polynomials, RationalFunction
from numerics.evaluate import RootOf, evaluate
from numerics.inputs import CannotDraw, Plan, Sizes, SymbolicInputs, degree_inputs, plan, symbolic_inputs
from numerics.proofs.compare import sides
from numerics.proofs.field import gap_degree
from numerics.run import run

W, U = Sequence("W", n, d_k), Sequence("U", n, d_v)
w = W[t]
c = Symbol("c", real=True)
P = State("P", d_k, d_k)
alpha = ChannelGate("alpha", n, d_k)
B = CumulativeProduct(alpha)
C, sine = Parameter("C", n, d_k), Parameter("sine", n, d_k)
on_a_sphere = assume(Eq(norm_squared(w), 2))
not_negative = assume(eta[t] >= 0)
factor = eye(d_k) - W[s] @ W[s].T
lower = I + diag(beta) @ (K @ K.T).hadamard(Gamma_strict)

TABLE: dict[str, Form] = {
    "decay": Closed((Q @ K.T).hadamard(Gamma) @ V),
    "decay between decays": Closed(Gamma @ (Q @ K.T).hadamard(Gamma_shifted).hadamard(Gamma) @ Gamma_strict @ V),
    "transposed decay": Closed(Gamma.T @ V + M @ V),
    "decay plus something above the diagonal": Closed((Gamma + Q @ K.T).hadamard(Decay(beta)) @ V),
    "products of gates": Closed(diag(CumulativeProduct(gamma)) @ diag(RemainingProduct(beta)) @ V),
    "product of all gates": Closed(TotalProduct(gamma) * TotalProduct(beta) * V),
    "decay of quotients": Closed(Gamma @ V).substitute({gamma[t]: gamma[t] / beta[t]}),
    "decay of sums of quotients": Closed(Gamma_strict @ V).substitute({gamma[t]: 1 / beta[t] + gamma[t] / eta[t]}),
    "decay times itself": Closed((Q @ K.T).hadamard(Gamma).hadamard(Gamma) @ V),
    "sum of products of reciprocals": Closed(M @ diag(CumulativeProduct(constant(c**-3, n))) @ V),
    "decay of reciprocals": Closed(M @ Decay(constant(c**-2, n)) @ V),
    "unit lower system": Closed(lower.I @ diag(beta) @ V),
    "unit upper system": Closed(lower.T.I @ V),
    "system with denominators": Closed((I + (K @ K.T).hadamard(Gamma_strict)).I @ V).substitute({k: k / gamma[t]}),
    "lower system": Closed((Q @ K.T).hadamard(Gamma).I @ V),
    "general system": Closed((I + Q @ K.T).I @ V),
    "general system from the right": Closed((V.T @ (I + Q @ K.T).I).T),
    "diagonal system": Closed(diag(beta).I @ (Q @ K.T).hadamard(M) @ diag(gamma).I @ V),
    "trace and division": TokenRows(v / (1 + trace(K @ Q.T)) + v / norm_squared(k) ** 2),
    "rows with denominators of their own": TokenRows(v / gamma[t]),
    "rows with denominators, squared, times a decay": Closed(
        ((W @ K.T).hadamard(Gamma) @ V).hadamard((W @ K.T) @ V)
    ).substitute({W[t]: w / gamma[t]}),
    "rows with denominators, in a sum": TokenRows(TokenSum(V[j] / scalar(K[j].T @ q), j, 1, t)),
    "rows with denominators, stacked and added": Closed(V + V).substitute({v: v / beta[t] + v / gamma[t]}),
    "squares of sums of quotients": TokenRows(
        scalar(TokenSum(K[j].T / gamma[j], j, 1, n) @ q) ** 2 * v / scalar(TokenSum(K[j].T / beta[j], j, 1, t) @ k)
    ),
    "decayed sum": TokenRows(TokenSum(GateProduct(gamma[tau], tau, j + 1, t) * V[j] @ (K[j].T @ q), j, 1, t)),
    "powers in a sum": TokenRows(TokenSum(c ** (t - j) * V[j], j, 1, t)),
    "negative powers": TokenRows(c ** (1 - t) * v / c**n),
    "sum of systems": TokenRows(V[t] @ (TokenSum(K[j].T @ (eye(d_k) + K[j] @ K[j].T).I, j, 1, t) @ q)),
    "double sum": TokenRows(TokenSum(TokenSum(V[i] @ (K[j].T @ Q[i]), j, 1, i), i, 1, t)),
    "transport": Closed(I @ V).substitute({V: Closed((Q @ K.T) @ V)}),
    "recurrence": Recurrence(S, update=S + v @ k.T, readout=S @ q),
    "delta rule": Recurrence(S, update=gamma[t] * S @ (eye(d_k) - beta[t] * k @ k.T) + v @ k.T, readout=S @ q),
    "recurrence that squares": Recurrence(S, update=S @ S.T @ S + v @ k.T, readout=S @ q),
    "recurrence that divides": Recurrence(S, update=S / (1 + scalar(k.T @ S.T @ S @ k)) + v @ k.T, readout=S @ q),
    "recurrence with a system": Recurrence((S, P), update=(S + v @ k.T, P + k @ k.T), readout=S @ (P + eye(d_k)).I @ q),
    "blocks": Chunkwise(
        S,
        update=TotalProduct(gamma) * S + (lower.I @ diag(beta) @ V).T @ diag(RemainingProduct(gamma)) @ K,
        readout=diag(CumulativeProduct(gamma)) @ Q @ S.T + (Q @ K.T).hadamard(Gamma) @ V,
    ),
    "defined token by token": TokenRows(TokenSum(U[j] @ (K[j].T @ q), j, 1, t)).where(
        U[t], v / gamma[t] - TokenSum(U[j] @ (K[j].T @ k), j, 1, t - 1)
    ),
    "square roots": TokenRows(sqrt(eta[t]) * eta[t] * v / sqrt(eta[t] + 0) ** 3),
    "spheres and decays": Closed((W @ K.T).hadamard(Gamma) @ V),
    "spheres in a system": Closed((I + (W @ W.T).hadamard(Gamma_strict)).I @ V),
    "spheres divided": TokenRows(v / scalar(w.T @ k)),
    "points of circles": Closed((Q.hadamard(C) @ K.hadamard(sine).T).hadamard(M) @ V),
    "channels divided by": Closed(reciprocal(K) @ K.T @ V),
    "products of channel gates divided by": Closed((Q.hadamard(B) @ K.hadamard(reciprocal(B)).T).hadamard(M) @ V),
    "sum of reciprocals of products": Closed(M @ reciprocal(B) @ K.T @ V),
    "divided by a sum of reciprocals of products": Closed(diag(M @ reciprocal(CumulativeProduct(gamma))).I @ V),
    "sum of reciprocals of a solution": Closed(diag(M @ reciprocal(lower.I @ CumulativeProduct(gamma))) @ V),
    "reciprocal of reciprocals": Closed(reciprocal(reciprocal(B)) @ K.T @ V),
    "what remains of channel gates, divided by": Closed(M @ reciprocal(RemainingProduct(alpha)) @ K.T @ V),
    "total of channel gates, divided by": Closed(Q @ diag(total(alpha)).I @ K.T @ V),
    "blocks with denominators": Closed(block([[Q, K]]) @ block([[K, Q]]).T @ V).substitute({k: k / beta[t]}),
    "blocks in a sum, divided by": TokenRows(
        TokenSum(V[j] @ (reciprocal(block([[K[j]], [q]])).T @ block([[k], [q]])), j, 1, t)
    ),
    "convolution inverted": Closed(Toeplitz(beta).I @ V),
    "convolution with quotients": Closed(Toeplitz(gamma) @ V).substitute({gamma[t]: gamma[t] / beta[t]}),
    "row products of reciprocals": Closed(RowProducts(reciprocal(Q), K) @ RowProducts(K, Q).T @ V),
}
MATRICES: dict[str, Form] = {
    "transport": Transport(Q[i], factor, K[j]),
    "transport in ascending order": Transport(Q[i], factor, K[j], order="ascending"),
    "transport with denominators": Transport(Q[i], factor / gamma[s], K[j] / beta[j]),
    "masked": Closed((Q @ K.T).hadamard(M_strict)),
    "decay": Closed((Q @ K.T).hadamard(Gamma)),
}
SIZES = (Sizes(1, 1, 1), Sizes(2, 1, 1), Sizes(2, 2, 1), Sizes(3, 1, 2), Sizes(3, 2, 1, chunk=1), Sizes(4, 1, 1))


def weighted(polynomial: Any, weights: list[int]) -> int:
    """The degree, each generator counting as its weight, or how many powers of a unit it spans; -1 for zero."""
    terms = [tuple(map(int, exponents)) for exponents in polynomial.to_dict()]
    units = list(zip(*terms, strict=True))[len(weights) :]
    degrees = [sum(w * e for w, e in zip(weights, exponents, strict=False)) for exponents in terms]
    return max([*degrees, *(max(powers) - min(powers) for powers in units)], default=-1)


def weights_of(inputs: SymbolicInputs, how: Plan) -> list[int]:
    """A generator of a square is its root, which is drawn; a coordinate on a sphere or circle has degree two in what
    is drawn.
    """
    curved = {*how.spheres, *how.circles, *how.sines}
    return [2 if x in curved else 1 for x, _, _ in inputs.entries.values()] or [1]


def parts(entry: Any, algebra: Polynomials) -> tuple[Any, Any]:
    lowest = entry.cancelled() if isinstance(entry, RationalFunction) else None
    return (lowest.numerator, lowest.denominator) if lowest is not None else (entry, algebra.context.constant(1))


class Case:
    """A form (or two) evaluated as polynomials and as degrees, from the same inputs."""

    def __init__(self, identity: Identity, sizes: Sizes, exponents: tuple[Monomial, ...] = ()) -> None:
        self.identity, self.sizes, self.how = identity, sizes, plan(identity)
        self.inputs = symbolic_inputs(identity, sizes, exponents)
        self.weights = weights_of(self.inputs, self.how)
        self.degrees = Degrees()
        self.bounds = degree_inputs(identity, sizes, self.degrees)

    def degree(self, entry: Any) -> tuple[int, int]:
        """Of numerator and denominator, in lowest terms."""
        above, below = (weighted(p, self.weights) for p in parts(entry, self.inputs.algebra))
        return above, below

    def within(self, value: Any, bound: Degree) -> None:
        flat = bound.flat()
        for number, row in enumerate(value):
            own = flat.by_row[number] if flat.by_row else flat
            for entry in row:
                above, below = self.degree(entry)
                assert above <= own.numerator
                assert below <= own.denominator.degree
                assert above <= flat.numerator
                assert below <= flat.denominator.degree

    def apart(self, left: Any, right: Any, bound: int) -> None:
        """The numerator of every entry of a difference."""
        for mine, theirs in zip(left, right, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                assert self.degree(a - b)[0] <= bound


def assumptions_for(*forms: Form) -> tuple[Any, ...]:
    read = set().union(*(form.symbols() for form in forms))
    needed = {W: on_a_sphere, eta: not_negative, C: on_unit_circle(C, sine)}
    return tuple(assumption for x, assumption in needed.items() if x in read)


def self_identity(*forms: Form) -> Identity:
    first, last = forms[0], forms[-1]
    return Identity("x", first, last, assumptions=assumptions_for(*forms), carries=False)


def measured(form: Form, case: Case) -> tuple[list[Any], list[Degree]]:
    values = run(form, case.inputs.env, case.inputs.algebra)
    bounds = run(form, case.bounds, case.degrees)
    return [values.output, *values.states], [bounds.output, *bounds.states]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(
    "form", [*TABLE.values(), *MATRICES.values()], ids=[*TABLE, *(f"{m}, n x n" for m in MATRICES)]
)
def test_values_are_within_their_bounds(form: Form, sizes: Sizes) -> None:
    """Numerators and denominators in lowest terms, row by row where the bound has rows."""
    if form is TABLE["recurrence that squares"] and sizes.n > 2:
        sizes = Sizes(2, 2, 2)
    if form is TABLE["recurrence that divides"] and sizes.n > 2:
        sizes = Sizes(2, 1, 2)
    case = Case(self_identity(form), sizes)
    for value, bound in zip(*measured(form, case), strict=True):
        case.within(value, bound)


@pytest.mark.parametrize("forms", [TABLE, MATRICES], ids=["n x d_v", "n x n"])
def test_differences_are_within_their_bounds(forms: dict[str, Form]) -> None:
    """Each pair of statements as the two sides of a false identity, from the same draws."""
    sizes = Sizes(2, 1, 1)
    case = Case(self_identity(*every_input(forms.values())), sizes)
    known = [(name, *measured(form, case)) for name, form in forms.items()]
    for (name, a, bound_a), (other, b, bound_b) in combinations_with_replacement(known, 2):
        gap = bound_a[0].gap(bound_b[0])
        for mine, theirs in zip(a[0], b[0], strict=True):
            for x, y in zip(mine, theirs, strict=True):
                assert case.degree(x - y)[0] <= gap, f"{name} - {other}"


def every_input(forms: Any) -> tuple[Form, Form]:
    """Two forms that read all that the others read."""
    shape = next(iter(forms)).shape
    read = sorted(set().union(*(form.symbols() for form in forms)), key=str)

    class Reader(Form):
        def expressions(self) -> dict[str, Basic]:
            return {str(x): x for x in read}

    reader = Reader()
    reader.shape = shape
    return reader, reader


# what the catalogue has


def catalogue() -> Iterator[Derivation]:
    for file in sorted(Path(derivations.__path__[0]).glob("*.py")):
        if not file.name.startswith("_"):
            module = import_module(f"derivations.{file.stem}")
            yield from (value for value in vars(module).values() if isinstance(value, Derivation))


IDENTITIES = {f"{owner.name}.{identity.name}": identity for owner in catalogue() for identity in owner.identities}
CATALOGUE_SIZES = (Sizes(2, 1, 1, chunk=1), Sizes(3, 2, 1, chunk=2))


@pytest.mark.parametrize("identity", IDENTITIES.values(), ids=IDENTITIES.keys())
def test_the_catalogue_is_within_its_bounds(identity: Identity) -> None:
    """Each side by itself, since the difference of two sides that are equal has no degree; the difference where not."""
    tried = 0
    for sizes in CATALOGUE_SIZES:
        try:
            bound = gap_degree(identity, sizes)
            case, pairs = with_exponentials(identity, sizes)
            for _, left, right in pairs:
                zero = left - left
                case.apart(left, zero, bound)
                case.apart(right, zero, bound)
                case.apart(left, right, bound)
        except (NoMeaning, UndefinedValue, CannotDraw):
            continue
        tried += 1
    assert tried or identity.name in WITHOUT_POLYNOMIALS


def with_exponentials(identity: Identity, sizes: Sizes) -> tuple[Case, list[Any]]:
    """The pairs that are compared, once every monomial in an exponent has its unit."""
    exponents: tuple[Monomial, ...] = ()
    while True:
        try:
            case = Case(identity, sizes, exponents)
            return case, list(sides(identity, case.inputs.env, case.inputs.algebra))
        except NewExponents as found:
            exponents += found.monomials


WITHOUT_POLYNOMIALS: frozenset[str] = frozenset()
"""Identities that have no value in polynomials at these sizes."""


@cache
def whole_environment() -> Case:
    X, p = Sequence("X", n, n), Sequence("V", n, d_v)
    reading = Closed((X @ Q @ K.T).hadamard(Gamma) @ Decay(beta) @ p * c + V @ S @ S.T)
    return Case(Identity("x", reading, Closed(V), carries=False), Sizes(2, 2, 1))


@given(
    pair=st.sampled_from([(n, d_v), (n, n), (d_v, 1)]).flatmap(
        lambda shape: st.tuples(*[statements(depth=2, shapes=[shape])] * 2)
    )
)
def test_random_statements(pair: tuple[Statement, Statement]) -> None:
    """Two statements, and their difference, at the second of two tokens."""
    case = whole_environment()
    try:
        values = [evaluate(e, {**case.inputs.env, t: 1}, case.inputs.algebra) for e in pair]
    except UndefinedValue:
        suppose(False)
    bounds = [evaluate(e, {**case.bounds, t: 1}, case.degrees) for e in pair]
    for value, bound in zip(values, bounds, strict=True):
        case.within(value, bound)
    case.apart(*values, bounds[0].gap(bounds[1]))


def test_a_root_is_drawn_and_its_square_counts_twice() -> None:
    identity = Identity("x", TokenRows(sqrt(eta[t]) * v), TokenRows(eta[t] * v), assumptions=(not_negative,))
    assert RootOf(eta) in degree_inputs(identity, Sizes(2, 1, 1), Degrees())
    assert gap_degree(identity, Sizes(2, 1, 1)) == 3


def test_decays_are_counted_as_steep_as_they_are() -> None:
    """Gamma . Gamma falls twice as fast, which a small size hides behind what the bound has to spare."""
    twice = Identity("x", Closed((Q @ K.T).hadamard(Gamma).hadamard(Gamma) @ V), Closed(V))
    assert gap_degree(twice, Sizes(50, 1, 1)) >= 2 * 49 + 3


def test_products_of_reciprocals_are_written_over_all_of_them() -> None:
    """sum_i v_i / c^(3 i) = (c^(3 n - 3) v_1 + ...) / c^(3 n), added up by a product or term by term."""
    form = TABLE["sum of products of reciprocals"]
    value = run(form, degree_inputs(self_identity(form), Sizes(10, 1, 1), algebra := Degrees()), algebra).output
    assert value.numerator >= 3 * 9 + 1


def test_a_long_decay_counts_every_gate() -> None:
    """Also beside rows that have denominators of their own."""
    plain = Identity("x", Closed((Q @ K.T).hadamard(Gamma) @ V), Closed(V))
    assert gap_degree(plain, Sizes(50, 1, 1)) == 49 + 3
    divided = Closed((W @ K.T).hadamard(Gamma) @ V).substitute({W[t]: w / beta[t]})
    assert gap_degree(Identity("x", divided, Closed(V)), Sizes(50, 1, 1)) >= 49 + 3


def test_reciprocals_of_long_products_are_written_over_the_last() -> None:
    """1/b_1 + ... + 1/b_n = (b_n/b_1 + ... + 1) / b_n, whose numerator has degree n - 1."""
    form = TABLE["divided by a sum of reciprocals of products"]
    value = run(form, degree_inputs(self_identity(form), Sizes(40, 1, 1), algebra := Degrees()), algebra).output
    assert value.denominator.degree >= 39
    shared = run(
        Closed(B.hadamard(reciprocal(B))), degree_inputs(self_identity(Closed(B)), Sizes(40, 3, 1), algebra), algebra
    )
    assert shared.output.denominator.degree <= 3 * 40, "each row divides the next: the denominators aren't multiplied"
