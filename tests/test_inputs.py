"""Inputs fulfil the assumptions that they are drawn from, in every number system, and a seed gives them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Basic, Ge, Le, Lt, Ne

from derivations.language import (
    Assumption,
    ChannelGate,
    Closed,
    Eq,
    Form,
    Gamma,
    Gate,
    Identity,
    K,
    M,
    NoMeaning,
    Parameter,
    Q,
    Rational,
    Recurrence,
    S,
    Sequence,
    StatementError,
    Symbol,
    TokenRows,
    V,
    assume,
    beta,
    d_k,
    d_v,
    eta,
    gamma,
    invertible,
    k,
    n,
    nonzero,
    norm_squared,
    on_unit_circle,
    q,
    scalar,
    sqrt,
    t,
    v,
)
from numerics.algebras.finite_field import FiniteField
from numerics.evaluate import CHUNK, RootOf
from numerics.float_inputs import FAMILIES, float_inputs
from numerics.inputs import (
    CannotDraw,
    Sizes,
    field_inputs,
    fulfilled,
    label,
    plan,
    rational_inputs,
    shape_of,
    symbolic_inputs,
)
from numerics.proofs import exact, field, floats, typed

P = 2**31 - 1
W, w = Sequence("W", n, d_k), Sequence("W", n, d_k)[t]
c = Symbol("c", real=True)
alpha = ChannelGate("alpha", n, d_k)
cosine, sine = Parameter("C", n, d_k), Parameter("Z", n, d_k)
SIZES = Sizes(3, 2, 4)
sizes_and_seeds = {"sizes": st.builds(Sizes, *[st.integers(1, 4)] * 3), "seed": st.integers(0, 2**32 - 1)}


def reading(*assumptions: Assumption, form: Form | None = None) -> Identity:
    """An identity whose inputs are those of the form, and what the assumptions speak about."""
    return Identity("x", form or TokenRows(v), TokenRows(v + 0 * v) if form is None else form, assumptions=assumptions)


def dot(a: Any, b: Any) -> Any:
    return sum(x * y for x, y in zip(a, b, strict=True))


@dataclass(frozen=True)
class Condition:
    """An assumption, and whether the rows of the inputs fulfil it, in plain Python."""

    assumption: Assumption
    holds: Callable[[dict[str, list[list[Any]]]], bool]


CONDITIONS = {
    "not negative": Condition(assume(eta[t] >= 0), lambda x: all(e >= 0 for (e,) in x["eta"])),
    "positive": Condition(assume(gamma[t] > 0), lambda x: all(g > 0 for (g,) in x["gamma"])),
    "at most one": Condition(assume(Le(gamma[t], 1)), lambda x: all(g <= 1 for (g,) in x["gamma"])),
    "between two others": Condition(
        assume(Lt(gamma[t] + beta[t], 2)),
        lambda x: all(g + b < 2 for (g,), (b,) in zip(x["gamma"], x["beta"], strict=True)),
    ),
    "not zero": Condition(assume(Ne(gamma[t], 0)), lambda x: all(g != 0 for (g,) in x["gamma"])),
    "a short key": Condition(
        assume(Le(beta[t] * norm_squared(k), 2)),
        lambda x: all(b * dot(row, row) <= 2 for (b,), row in zip(x["beta"], x["K"], strict=True)),
    ),
    "a scalar": Condition(assume(c >= 0), lambda x: x["c"][0][0] >= 0),
    "no smaller than another": Condition(
        assume(Ge(eta[t], gamma[t])),
        lambda x: all(e >= g for (e,), (g,) in zip(x["eta"], x["gamma"], strict=True)),
    ),
    "an invertible matrix": Condition(
        invertible(Parameter("A", d_k, d_k)),
        lambda x: abs(np.linalg.det(np.array(x["A"], dtype=float))) > 1e-9 if len(x["A"]) > 1 else x["A"][0][0] != 0,
    ),
    "no channel gate is zero": Condition(nonzero(alpha[t]), lambda x: all(e != 0 for row in x["alpha"] for e in row)),
    "no entry is zero": Condition(nonzero(k), lambda x: all(e != 0 for row in x["K"] for e in row)),
    "no sum is zero": Condition(
        nonzero(gamma - beta), lambda x: all(g != b for (g,), (b,) in zip(x["gamma"], x["beta"], strict=True))
    ),
    "a value": Condition(assume(Eq(gamma[t], 1)), lambda x: all(g == 1 for (g,) in x["gamma"])),
    "a value made of others": Condition(
        assume(Eq(gamma[t], 1 - beta[t] * eta[t])),
        lambda x: all(g == 1 - b * e for (g,), (b,), (e,) in zip(x["gamma"], x["beta"], x["eta"], strict=True)),
    ),
    "a scalar with a value": Condition(assume(Eq(c, Rational(1, 2))), lambda x: x["c"][0][0] == Fraction(1, 2)),
}
ON_A_SPHERE = {
    norm: Condition(
        assume(Eq(norm_squared(w), norm)), lambda x, norm=norm: all(dot(row, row) == norm for row in x["W"])
    )
    for norm in (1, 2, 3, 5)
}


ON_A_CIRCLE = reading(on_unit_circle(cosine, sine))


def rows_of(env: dict[Any, Any]) -> dict[str, list[list[Any]]]:
    return {str(x): value.tolist() for x, value in env.items() if isinstance(value, np.ndarray)}


every_condition = pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS.keys())


@every_condition
@given(**sizes_and_seeds)
def test_rationals(condition: Condition, sizes: Sizes, seed: int) -> None:
    env = rational_inputs(reading(condition.assumption), sizes, np.random.default_rng(seed))
    assert condition.holds(rows_of(env))
    assert all(isinstance(e, Fraction | int) for value in rows_of(env).values() for row in value for e in row)


@pytest.mark.parametrize("norm", ON_A_SPHERE)
@given(seed=st.integers(0, 2**32 - 1), width=st.integers(3, 4), length=st.integers(1, 3))
def test_rational_points_of_spheres(norm: int, seed: int, width: int, length: int) -> None:
    identity = reading(ON_A_SPHERE[norm].assumption)
    env = rational_inputs(identity, Sizes(length, width, 1), np.random.default_rng(seed))
    assert ON_A_SPHERE[norm].holds(rows_of(env))


@pytest.mark.parametrize(
    ("norm", "width"), [(2, 1), (3, 1), (3, 2), (6, 2), (7, 3), (Rational(1, 2), 2), (0, 2), (-1, 3)]
)
def test_spheres_without_an_integer_point(norm: Any, width: int) -> None:
    identity = reading(assume(Eq(norm_squared(w), norm)))
    with pytest.raises(CannotDraw, match=rf"\|w\|\^2 = {norm} in dimension {width}"):
        rational_inputs(identity, Sizes(2, width, 1), np.random.default_rng(0))


@pytest.mark.parametrize("norm", ON_A_SPHERE)
@given(seed=st.integers(0, 2**32 - 1), trials=st.integers(1, 3))
def test_points_of_spheres_in_the_field(norm: int, seed: int, trials: int) -> None:
    identity = reading(ON_A_SPHERE[norm].assumption)
    env = field_inputs(identity, Sizes(4, 3, 1), FiniteField(), np.random.default_rng(seed), trials)
    assert env[W].shape == (trials, 4, 3)
    assert [[dot(row, row) % P for row in trial] for trial in env[W].tolist()] == [[norm] * 4] * trials
    assert len({tuple(row) for trial in env[W].tolist() for row in trial}) == 4 * trials


def squares_add_up(a: list[list[Any]], b: list[list[Any]]) -> list[list[Any]]:
    return [[x * x + y * y for x, y in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]


@given(seed=st.integers(0, 2**32 - 1))
def test_points_of_circles(seed: int) -> None:
    """One point for each entry; few of them are the same."""
    env = rational_inputs(ON_A_CIRCLE, SIZES, np.random.default_rng(seed))
    assert squares_add_up(env[cosine].tolist(), env[sine].tolist()) == [[1, 1]] * 3
    env = field_inputs(ON_A_CIRCLE, SIZES, FiniteField(), np.random.default_rng(seed), 2)
    c, s = env[cosine].tolist(), env[sine].tolist()
    assert [[[e % P for e in row] for row in squares_add_up(*both)] for both in zip(c, s, strict=True)] == [
        [[1, 1]] * 3
    ] * 2
    assert len({e for trial in (*c, *s) for row in trial for e in row}) == 24
    env = float_inputs(ON_A_CIRCLE, Sizes(50, 2, 1), np.random.default_rng(seed))
    np.testing.assert_allclose(env[cosine] ** 2 + env[sine] ** 2, 1, rtol=1e-14)
    for part in (env[cosine], env[sine]):  # all the way round
        assert part.shape == (2, 50, 2)
        assert part.min() < -0.5 < 0.5 < part.max()


def test_symbols_on_circles() -> None:
    inputs = symbolic_inputs(ON_A_CIRCLE, Sizes(2, 2, 1))
    algebra = inputs.algebra
    for c, s in zip(inputs.env[cosine].flat, inputs.env[sine].flat, strict=True):
        assert algebra.is_zero(c * c + s * s - 1)
        assert not algebra.is_zero(c * c - s * s)
        assert not algebra.is_zero(c * inputs.env[sine][0, 0] - 1)
        assert algebra.modulo_relations(c**3) == c - c * s * s


@given(seed=st.integers(0, 2**32 - 1))
def test_squares_and_values_in_the_field(seed: int) -> None:
    form = TokenRows(sqrt(eta[t]) * gamma[t] * v)
    identity = reading(assume(eta[t] >= 0), assume(Eq(gamma[t], eta[t] + 1)), form=form)
    env = field_inputs(identity, SIZES, FiniteField(), np.random.default_rng(seed), 2)
    roots, squares = env[RootOf(eta)].tolist(), env[eta].tolist()
    assert squares == [[[r * r % P for r in row] for row in trial] for trial in roots]
    assert env[gamma].tolist() == [[[(e + 1) % P for e in row] for row in trial] for trial in squares]
    assert env[V].shape == (2, 3, 4)
    assert (env[n], env[d_k], env[d_v], env[CHUNK]) == (3, 2, 4, 2)


@given(seed=st.integers(0, 2**32 - 1))
def test_squares_in_the_rationals(seed: int) -> None:
    identity = reading(assume(eta[t] >= 0), form=TokenRows(sqrt(eta[t]) * v))
    env = rational_inputs(identity, SIZES, np.random.default_rng(seed))
    pool = {Fraction(p, d) ** 2 for p in range(4) for d in (1, 2)}
    assert {e for (e,) in env[eta].tolist()} <= pool


@every_condition
@pytest.mark.parametrize("family", FAMILIES)
def test_floats(condition: Condition, family: str) -> None:
    if family == "large norms" and condition is CONDITIONS["a short key"]:
        return  # such keys are rarely short: that no input is found is what `CannotDraw` says
    env = float_inputs(reading(condition.assumption), Sizes(4, 3, 2), np.random.default_rng(1), family, batch=2)
    arrays = {x: value for x, value in env.items() if isinstance(value, np.ndarray)}
    for number in range(2):  # a value that an assumption gives has no batch
        own = {str(x): (value[number] if value.ndim == 3 else value).tolist() for x, value in arrays.items()}
        assert condition.holds(own)


@pytest.mark.parametrize("norm", ON_A_SPHERE)
def test_float_points_of_spheres(norm: int) -> None:
    env = float_inputs(reading(ON_A_SPHERE[norm].assumption), Sizes(5, 3, 2), np.random.default_rng(2))
    np.testing.assert_allclose((env[W] ** 2).sum(axis=-1), norm, rtol=1e-14)


def test_symbols_on_spheres_and_under_roots() -> None:
    form = TokenRows(sqrt(eta[t]) * v)
    identity = reading(assume(Eq(norm_squared(w), 2)), assume(eta[t] >= 0), assume(Eq(beta[t], 3)), form=form)
    inputs = symbolic_inputs(identity, Sizes(2, 2, 1))
    algebra = inputs.algebra
    for row in inputs.env[W]:
        assert algebra.is_zero(row[0] ** 2 + row[1] ** 2 - 2)
        assert not algebra.is_zero(row[0])
    root = algebra.generator("eta_2")
    assert inputs.env[RootOf(eta)][1, 0] == root
    assert inputs.env[eta][1, 0] == root * root
    assert [e == 3 for e in inputs.env[beta].ravel()] == [True, True]
    assert sorted(inputs.entries) == ["eta_1", "eta_2", "v_1", "v_2", "w_1_1", "w_1_2", "w_2_1", "w_2_2"]


NEVER = {
    "a contradiction": (assume(gamma[t] > 0), assume(gamma[t] < 0)),
    "a norm below zero": (assume(Lt(norm_squared(k), 0)),),
    "a matrix of rank one": (invertible(Parameter("b", d_k) @ Parameter("b", d_k).T),),
    "a zero that isn't one": (nonzero(k - k),),
    "a value that contradicts": (assume(Eq(gamma[t], 2)), assume(Lt(gamma[t], 1))),
}


@pytest.mark.parametrize("assumptions", NEVER.values(), ids=NEVER.keys())
def test_assumptions_that_nothing_fulfils(assumptions: tuple[Assumption, ...]) -> None:
    identity = reading(*assumptions)
    with pytest.raises(CannotDraw, match="no input fulfils"):
        rational_inputs(identity, Sizes(2, 2, 1), np.random.default_rng(0))
    evidence = typed.check(Identity("x", TokenRows(v), TokenRows(2 * v - v), assumptions=assumptions))
    if assumptions != NEVER["a matrix of rank one"]:  # which is invertible for d_k = 1
        assert evidence.verdict == "vacuous"
        assert str(assumptions[0]) in evidence.message


def test_equations_that_no_draw_is_built_for() -> None:
    """An equation that were ignored would refute what is true: where rejection can't fulfil it, nothing is decided."""
    orthogonal = assume(Eq(scalar(k.T @ q), 0))
    identity = Identity("x", TokenRows(v @ (k.T @ q)), TokenRows(0 * v), assumptions=(orthogonal,))
    assert exact.check(identity).verdict == "unknown"
    assert field.check(identity).verdict == "unknown"
    assert floats.check(identity).verdict == "vacuous"
    env = rational_inputs(identity, Sizes(1, 2, 1), np.random.default_rng(0))
    assert dot(env[Q].tolist()[0], env[K].tolist()[0]) == 0
    with pytest.raises(NoMeaning, match="k_tᵀ q_t = 0"):
        symbolic_inputs(identity, Sizes(1, 2, 1))
    unequal = Identity("x", TokenRows(v), TokenRows(v), assumptions=(assume(Eq(norm_squared(w), eta[t])),))
    assert plan(unequal).equations == unequal.assumptions


@given(seed=st.integers(0, 2**32 - 1))
def test_a_seed_gives_the_same_inputs_again(seed: int) -> None:
    identity = reading(assume(eta[t] >= 0), assume(Eq(norm_squared(w), 2)), form=TokenRows(sqrt(eta[t]) * v))
    draws: list[Callable[[np.random.Generator], dict[Any, Any]]] = [
        lambda rng: rational_inputs(identity, Sizes(2, 2, 1), rng),
        lambda rng: field_inputs(identity, SIZES, FiniteField(), rng, 2),
        lambda rng: float_inputs(identity, SIZES, rng, "zero rows"),
    ]
    for draw in draws:
        once, again, other = (rows_of(draw(np.random.default_rng(s))) for s in (seed, seed, seed + 1))
        assert once == again
        assert once != other


def test_families_are_what_they_are_called() -> None:
    identity = Identity("x", Recurrence(S, gamma[t] * S + v @ k.T, S @ q), Closed(V))
    identity = replace(identity, assumptions=(nonzero(alpha[t]),))
    draw = lambda family: float_inputs(identity, Sizes(40, 8, 6), np.random.default_rng(0), family)
    plain = draw("plain")
    for gates in (gamma, alpha):
        assert 0.02 <= plain[gates].min() <= plain[gates].max() <= 1
        assert abs(draw("gates near one")[gates] - 1).max() <= 1e-3
        assert 0 < draw("gates near zero")[gates].max() <= 1e-3
    repeated = draw("repeated keys")[K]
    assert (repeated[:, ::2] == repeated[:, 1::2]).all()
    rows = (draw("zero rows")[K] == 0).all(axis=-1)
    assert rows.any()
    assert not rows.all()
    assert abs(draw("large norms")[K]).mean() > 2 * abs(plain[K]).mean()
    assert plain[K].shape == (2, 40, 8)


Entry = tuple[Basic, int, int, tuple[int, int], str]
A, x_gate = Parameter("A", d_k, d_k), Gate("x")


@pytest.mark.parametrize(
    ("symbol", "row", "column", "shape", "name"),
    [
        (K, 1, 0, (2, 1), "k_2"),
        (K, 1, 2, (2, 3), "k_2_3"),
        (gamma, 4, 0, (5, 1), "gamma_5"),
        (S, 0, 0, (1, 1), "S0"),
        (S, 0, 1, (2, 2), "S0_1_2"),
        (A, 0, 1, (2, 2), "a_1_2"),
        (c, 0, 0, (1, 1), "c"),
    ],
)
def test_labels(symbol: Basic, row: int, column: int, shape: tuple[int, int], name: str) -> None:
    assert label(symbol, row, column, shape) == name


def test_values_have_the_batch_of_what_is_drawn() -> None:
    """gamma = 1 is one column, and has to be one in every trial: also where trials are evaluated one by one."""
    one = assume(Eq(gamma[t], 1))
    decayed, plain = Closed((Q @ K.T).hadamard(Gamma) @ V), Closed((Q @ K.T).hadamard(M) @ V)
    identity = Identity("x", decayed, plain, assumptions=(one,))
    assert field_inputs(identity, SIZES, FiniteField(), np.random.default_rng(0), 4)[gamma].tolist() == [[[1]] * 3] * 4
    assert float_inputs(identity, SIZES, np.random.default_rng(0))[gamma].tolist() == [[[1.0]] * 3] * 2
    for scaled in (identity, Identity("x", Closed(c * V), Closed(V), assumptions=(assume(Eq(c, 1)),))):
        assert exact.check(scaled).verdict == "holds"
        assert field.check(scaled, sizes=SIZES).verdict == "holds"
        assert floats.check(scaled).verdict == "holds"


def test_a_scalar_and_a_gate_of_one_name_are_two_inputs() -> None:
    """What is drawn for one says nothing about the other."""
    rate = Symbol("gamma", real=True)
    identity = Identity("x", TokenRows(rate * gamma[t] * v), TokenRows(rate * rate * v))
    env = field_inputs(identity, Sizes(1, 1, 1), FiniteField(), np.random.default_rng(0), 3)
    assert (env[rate] != env[gamma]).all()


def test_labels_are_unique() -> None:
    """A gate w beside a sequence W, whose tokens are called w as well."""
    gate = Gate("w")
    identity = Identity("x", TokenRows(gate[t] * w), TokenRows(w * gate[t] + 0 * w))
    inputs = symbolic_inputs(identity, Sizes(2, 1, 1))
    assert len(set(inputs.algebra.generators)) == len(inputs.algebra.generators) == 4
    assert inputs.env[gate][0, 0] != inputs.env[W][0, 0]
    assert exact.check(identity).verdict == "holds"


def test_shapes() -> None:
    """A scalar among the inputs is no dimension."""
    env = {n: 5, d_k: 2, d_v: 3, c: np.array([[Fraction(1, 2)]], dtype=object)}
    assert shape_of(K, env) == (5, 2)
    assert shape_of(gamma, env) == (5, 1)
    assert shape_of(S, env) == (3, 2)
    assert shape_of(c, env) == (1, 1)
    scaled = Identity("x", TokenRows(c * gamma[t] * v), TokenRows(gamma[t] * v * c + 0 * v))
    assert field.check(scaled, sizes=SIZES).verdict == "holds"


def test_own_dimensions_take_the_size_of_d_k() -> None:
    from derivations.language import dimension

    r = dimension("r")
    identity = reading(form=Closed(Sequence("X", n, r) @ Parameter("Y", r, d_v)))
    assert Sizes(4, 3, 2).environment(identity)[r] == 3


def test_what_is_fulfilled_is_decided_at_every_token() -> None:
    from numerics.algebras.rationals import Rationals

    gates = lambda *values: {n: len(values), gamma: np.array([[Fraction(x)] for x in values], dtype=object)}
    positive = assume(gamma[t] > 0)
    assert fulfilled(positive, gates(1, 2, 3), Rationals())
    assert not fulfilled(positive, gates(1, 2, 0), Rationals())
    assert not fulfilled(positive, gates(-1, 2, 3), Rationals())


def test_an_assumption_says_something() -> None:
    with pytest.raises(StatementError):
        assume(Rational(1) > 0)
