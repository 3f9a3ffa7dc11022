"""Every node of the language has a rule that writes it as code, or stops with an error that names it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sympy import Expr, Symbol
from test_emit_values import function_of

from attnproof.emitting import NotEmittable, emit
from attnproof.emitting.expressions import RULES, Writer
from attnproof.emitting.targets import TARGETS
from attnproof.vectors.drawing import drawn_for
from derivations.language import (
    Algorithm,
    Chunkwise,
    Closed,
    Derivation,
    FinalState,
    GateProduct,
    K,
    M,
    M_strict,
    PrecedingProduct,
    Q,
    Recurrence,
    RowProducts,
    S,
    SumOfSquares,
    Toeplitz,
    TokenRows,
    TokenSum,
    TotalProduct,
    TotalProducts,
    Transport,
    V,
    alpha,
    beta,
    d_k,
    diag,
    exp,
    expressions,
    eye,
    gamma,
    i,
    j,
    k,
    log,
    masks,
    n,
    q,
    reciprocal,
    s,
    scalar,
    t,
    tau,
    trace,
    v,
)
from derivations.language.expressions import ScalarNode, Statement
from derivations.language.forms import Form
from numerics.algebras.floats import numpy_float64
from numerics.inputs import Sizes
from numerics.proofs.tolerances import tolerances_of
from numerics.run import run

ABSTRACT = {expressions.Entrywise, masks.OfGates, masks.OverTokens}
SIZES = Sizes(6, 3, 2, chunk=4)
rotation = gamma[t] * eye(d_k)
SMALL: dict[str, Form] = {
    "trace": TokenRows(trace(k @ q.T) * v),
    "row products": Closed(RowProducts(Q, K) @ RowProducts(Q, K).T @ V),
    "preceding": Closed(diag(PrecedingProduct(gamma)) @ V),
    "total": Closed(TotalProduct(gamma) * V - (Q @ TotalProducts(K) @ TotalProducts(K).T @ K.T) @ V),
    "toeplitz": Closed(Toeplitz(gamma) @ V),
    "logarithm": Closed(log(exp(Q @ K.T)) @ V),
    "reciprocal alone": Closed(reciprocal(exp(Q @ K.T)) @ V),
    "inverse alone": Closed((eye(n) + (K @ K.T).hadamard(M_strict)).I),
    "inverse last": Closed(V.T @ (eye(n) + (K @ K.T).hadamard(M_strict)).I.T @ M.T),
    "inverse from the right": Closed((Q @ K.T) @ (eye(n) + (K @ K.T).hadamard(M_strict)).I),
    "two inverses": Closed((eye(n) + (K @ K.T).hadamard(M)).I @ diag(exp(gamma)).I @ V),
    "scaled inverse": Closed((-2 * (eye(n) + (K @ K.T).hadamard(M_strict)).I) @ V),
    "diagonals": Closed(diag(gamma) @ Q @ K.T @ diag(beta) @ diag(gamma) @ V),
    "diagonal in a sum": Closed((diag(gamma) + Q @ K.T) @ V),
    "a bracket": Closed(V @ (V.T @ (Q @ K.T)).T.T @ V),
    "scalars": TokenRows((gamma[t] - 2 * beta[t]) ** 2 / 3 * v - scalar(k.T @ q) ** 3 * beta[t] * v),
    "negative powers": TokenRows(1 / (1 + gamma[t]) ** 2 * v),
    "products of gates": TokenRows(
        TokenSum(GateProduct(gamma[tau], tau, j + 1, t) * V[j] @ (K[j].T @ q), j, 1, t),
    ),
    "products of more than gates": TokenRows(GateProduct(1 - gamma[tau] * beta[t], tau, 2, t) * v),
    "position": TokenRows(TokenSum((t - j) * V[j], j, 1, t) + t * v),
    "power of a position": TokenRows(TokenSum(Symbol("w") ** (t - j) * V[j], j, 1, t)),
    "empty sums": TokenRows(v - TokenSum(V[j] @ (K[j].T @ q), j, 1, t - 1)),
    "recurrence that reads before": Recurrence(S, gamma[t] * S + v @ k.T, (S + v @ k.T) @ q, read="before"),
    "initial state": Recurrence(S, gamma[t] * S + v @ k.T, S @ q, initial=V.T @ K),
    "scaled gates": Recurrence(S, S @ diag(alpha[t] * k) + v @ k.T, S @ q),
    "chunkwise": Chunkwise(S, gamma[n] * S + V.T @ K, Q @ S.T),
    "transport": Transport(Q[i], gamma[s] * eye(d_k), K[j]),
    "defined": Closed((Q @ K.T) @ V).where(K, diag(gamma) @ Q),
    "substituted": Closed(Q @ K.T @ V).substitute({K: Q, Q: K}),
    "substituted rows": Recurrence(S, S + v @ k.T, S @ q).substitute({k: gamma[t] * q, q: k}),
}


def stating(form: Form) -> Derivation:
    return Derivation("small", title="Small", summary="", forms={"only": form}, identities=[])


def test_every_node_has_a_rule() -> None:
    declared = {
        kind
        for module in (expressions, masks)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Statement | ScalarNode) and kind.__module__ == module.__name__
    }
    assert declared - ABSTRACT - {Statement, ScalarNode} <= RULES.keys()


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", SMALL)
def test_each_rule_computes_what_the_walk_does(name: str, target: str) -> None:
    form, convert = SMALL[name], (lambda x: x)
    if target == "torch":
        convert = pytest.importorskip("torch").from_numpy
    derivation = stating(form)
    env = drawn_for(derivation, form, SIZES, seed=3, matrices=2)
    wanted = run(form, env, numpy_float64())
    tolerances = tolerances_of(form, env, 2.0**-53, np.random.default_rng(0))
    inputs = {str(x): np.ascontiguousarray(env[x][:, None]) for x in (*form.symbols(), *form.states) if x in env}
    names = {key: key.lower() if len(key) == 1 and key != "S" else key for key in inputs}
    layouts = [f"{key}=b h {words}" for key, words in _plain_layouts(form).items()]
    function = function_of(emit(derivation, "only", target, [*layouts, f"o=b h {_words(form)}"]))
    given = {names[key]: convert(value.reshape([*value.shape[:2], *_sides(value)])) for key, value in inputs.items()}
    if "S" in given:
        given["initial_state"] = given.pop("S")
    if isinstance(form, Chunkwise):
        given["chunk_size"] = SIZES.chunk
    returned = function(**given)
    values = [np.asarray(x) for x in (returned if isinstance(returned, tuple) else (returned,))]
    for value, right, tolerance in zip(values, (wanted.output, *wanted.states), tolerances, strict=True):
        assert np.all(abs(value.reshape(right.shape) - right).max(axis=-1) <= tolerance)


def _sides(value: np.ndarray) -> list[int]:
    return [size for size in value.shape[2:] if size != 1]


def _words_of(shape: tuple[Any, Any]) -> str:
    words = [{n: "t", d_k: "k"}.get(side, "v") for side in shape if side != 1]
    return " ".join(word.upper() if word in words[:place] else word for place, word in enumerate(words))


def _words(form: Form) -> str:
    return _words_of(form.shape)


def _plain_layouts(form: Form) -> dict[str, str]:
    """Rows before columns, as in the statement."""
    return {str(x): _words_of(getattr(x, "shape", (1, 1))) for x in (*form.symbols(), *form.states)}


class Unheard(ScalarNode):
    """A node that nobody has written a rule for."""

    def __new__(cls, inner: Expr) -> Unheard:
        return Expr.__new__(cls, inner)


def scan(algebra: Any, V: Any) -> Any:
    """Not a formula."""
    return V


@pytest.mark.parametrize(
    ("form", "says"),
    [
        (TokenRows(Unheard(gamma[t]) * v), "Unheard"),
        (Algorithm(scan, inputs=(V,)), "Algorithm"),
        (FinalState(Recurrence(S, S + v @ k.T, S @ q), S), "FinalState"),
        (SumOfSquares((gamma[t], v, t, n)), "SumOfSquares"),
        (Transport(Q[i], gamma[s] * eye(d_k), K[j], order="ascending"), "ascending order"),
        (Chunkwise(S, S + V.T @ K, Q @ S.T, read="after"), "after the block"),
        (TokenRows(V[t - 1]), "before the first token"),
        (TokenRows(GateProduct(1 + scalar(K[tau].T @ q), tau, 1, t) * v), "for gates alone"),
    ],
)
def test_what_has_no_rule_is_named(form: Form, says: str) -> None:
    with pytest.raises(NotEmittable, match=says):
        emit(stating(form), "only", "numpy")


def test_a_symbol_without_a_value_is_named() -> None:
    with pytest.raises(NotEmittable, match="gamma has no value"):
        Writer(TARGETS["numpy"], {})(gamma)
