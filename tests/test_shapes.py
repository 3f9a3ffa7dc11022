"""A statement that doesn't fit together is refused where it is written, in words that say what to change.

Every message names the operands and their symbolic shapes, and the traceback passes through the line of this file on
which the operator stands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from derivations.language import (
    Algorithm,
    ChannelGate,
    Chunkwise,
    Closed,
    Decay,
    Eq,
    Form,
    Identity,
    K,
    M,
    NoMeaning,
    Ones,
    Parameter,
    Q,
    Rational,
    Recurrence,
    RowProducts,
    S,
    Sequence,
    ShapeError,
    State,
    StatementError,
    Toeplitz,
    TokenRows,
    TokenSum,
    Transport,
    V,
    assume,
    beta,
    block,
    d_k,
    d_v,
    derivative,
    diag,
    eta,
    exp,
    eye,
    gamma,
    i,
    j,
    k,
    log,
    n,
    norm_squared,
    normalised,
    on_unit_circle,
    q,
    reciprocal,
    s,
    scalar,
    softmax,
    t,
    total,
    trace,
    v,
)
from derivations.language.masks import CumulativeProduct, TotalProduct
from numerics.algebras.shapes import Shape, Shapes
from numerics.run import run

P = State("P", d_k, d_k)
W = Sequence("W", n, d_k)
w_column = Parameter("b", d_v)
alpha = ChannelGate("alpha", n, d_k)
linear = Recurrence(S, update=S + v @ k.T, readout=S @ q)

MISFITS: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "product": (lambda: Q @ V, ("multiply Q (n x d_k) by V (n x d_v)", "d_k columns against n rows")),
    "product of three": (lambda: Q @ K.T @ S, ("multiply Kᵀ (d_k x n) by S (d_v x d_k)", "n columns against d_v rows")),
    "product behind a bracket": (lambda: v @ (k.T @ v), ("multiply k_tᵀ (1 x d_k) by v_t (d_v x 1)",)),
    "product of columns": (lambda: v @ k, ("multiply v_t (d_v x 1) by k_t (d_k x 1)", "1 columns against d_k rows")),
    "sum": (lambda: Q + V, ("add Q (n x d_k) and V (n x d_v)",)),
    "sum with a later term": (lambda: Q + K + V, ("add Q (n x d_k) and V (n x d_v)",)),
    "difference": (lambda: S - S.T, ("add S (d_v x d_k) and -Sᵀ (d_k x d_v)",)),
    "same letters, transposed": (lambda: Q @ K.T + (Q.T @ K), ("Q Kᵀ (n x n)", "Qᵀ K (d_k x d_k)")),
    "entrywise product": (lambda: Q.hadamard(M), ("multiply entry by entry Q (n x d_k) and M (n x n)",)),
    "entrywise product of a product": (
        lambda: (Q @ K.T).hadamard(V),
        ("multiply entry by entry Q Kᵀ (n x n) and V (n x d_v)",),
    ),
    "inverse": (lambda: (Q @ S.T).I, ("invert Q Sᵀ (n x d_v)", "isn't square")),
    "trace": (lambda: trace(K), ("take the trace of K (n x d_k)", "isn't square")),
    "diag of a matrix": (lambda: diag(Q), ("diag needs a column, Q is n x d_k",)),
    "diag of a row": (lambda: diag(k.T), ("diag needs a column, k_tᵀ is 1 x d_k",)),
    "scalar of a matrix": (lambda: scalar(k @ k.T), ("k_t k_tᵀ is d_k x d_k, not 1 x 1",)),
    "scalar of a column": (lambda: scalar(v), ("v_t is d_v x 1, not 1 x 1",)),
    "norm of a matrix": (lambda: norm_squared(K), ("Kᵀ K is d_k x d_k, not 1 x 1",)),
    "decay of a matrix": (lambda: Decay(K), ("needs a column of gates, K is n x d_k",)),
    "decay of a row": (lambda: Decay(gamma.T), ("needs a column of gates, gammaᵀ is 1 x n",)),
    "one product of the gates of all channels": (
        lambda: TotalProduct(alpha),
        ("needs a column of gates, alpha is n x d_k",),
    ),
    "convolution with a matrix": (lambda: Toeplitz(V), ("a convolution needs a column, V is n x d_v",)),
    "blocks of different heights": (
        lambda: block([[Q, V, S]]),
        ("can't write S beside Q", "(n x d_k) and (d_v x d_k) have different numbers of rows"),
    ),
    "blocks of different widths": (
        lambda: block([[Q, V], [V, V]]),
        ("can't write [V, V] below [Q, V]", "(n x d_k + d_v) and (n x 2*d_v) have different numbers of columns"),
    ),
    "row products of sequences of different lengths": (
        lambda: RowProducts(Q, S),
        ("can't write S in the row products with Q", "(n x d_k) and (d_v x d_k) have different numbers of rows"),
    ),
    "quotient": (lambda: Q.hadamard(reciprocal(V)), ("multiply entry by entry Q (n x d_k) and 𝟏 ⊘ V (n x d_v)",)),
    "a mask inside an exponential": (lambda: exp(Q + log(M)), ("add Q (n x d_k) and log(M) (n x n)",)),
    "a gate for each channel as a scalar": (lambda: scalar(alpha[t]), ("alpha_t is d_k x 1, not 1 x 1",)),
    "angles of different shapes": (
        lambda: on_unit_circle(Parameter("C", n, d_k), Parameter("Z", n, d_v)),
        ("add C ⊙ C (n x d_k) and Z ⊙ Z (n x d_v)",),
    ),
    "update": (
        lambda: Recurrence(S, update=S + k @ v.T, readout=S @ q),
        ("add S (d_v x d_k) and k_t v_tᵀ (d_k x d_v)",),
    ),
    "update of another shape": (
        lambda: Recurrence(S, update=k @ v.T, readout=S @ q),
        ("write the update into the state: S (d_v x d_k) and k_t v_tᵀ (d_k x d_v)",),
    ),
    "second update": (
        lambda: Recurrence((S, P), update=(S, v @ v.T), readout=S @ q),
        ("P (d_k x d_k) and v_t v_tᵀ (d_v x d_v)",),
    ),
    "initial value": (
        lambda: Recurrence(S, update=S, readout=S @ q, initial=eye(d_k)),
        ("start the state at this value: S (d_v x d_k) and I (d_k x d_k)",),
    ),
    "readout that doesn't multiply": (
        lambda: Recurrence(S, update=S, readout=S.T @ q),
        ("multiply Sᵀ (d_k x d_v) by q_t (d_k x 1)",),
    ),
    "readout that is a row": (
        lambda: Recurrence(S, update=S, readout=q.T @ S.T),
        ("a readout is a column", "q_tᵀ Sᵀ is 1 x d_v"),
    ),
    "block that reads a column": (
        lambda: Chunkwise(S, update=S, readout=S @ q),
        ("one row per token", "S q_t is d_v x 1"),
    ),
    "row that is a row": (lambda: TokenRows(v.T), ("stated as a column", "v_tᵀ is 1 x d_v")),
    "transport by another factor": (
        lambda: Transport(Q[i], V[s] @ V[s].T, K[j]),
        ("v_s v_sᵀ (d_v x d_v) and q_i (d_k x d_k)",),
    ),
    "transport between two widths": (lambda: Transport(Q[i], eye(d_k), V[j]), ("q_i (d_k x 1) and v_j (d_v x 1)",)),
    "substitute": (lambda: linear.substitute({k: v}), ("substitute k_t (d_k x 1) and v_t (d_v x 1)",)),
    "substitute a sequence": (lambda: Closed(Q @ K.T).substitute({Q: V}), ("substitute Q (n x d_k) and V (n x d_v)",)),
    "substitute a column for a scalar": (
        lambda: linear.substitute({gamma[t]: k}),
        ("substitute gamma_t (1 x 1) and k_t (d_k x 1)",),
    ),
    "substitute a form": (lambda: Closed(Q @ K.T).substitute({Q: linear}), ("substitute Q (n x d_k)", "(n x d_v)")),
    "define": (lambda: TokenRows(v).where(W[t], v), ("define w_t (d_k x 1) and its definition (d_v x 1)",)),
    "define by a form": (lambda: Closed(W).where(W, linear), ("define W (n x d_k) and its definition (n x d_v)",)),
    "sides": (
        lambda: Identity("reads", linear, Closed(Q @ K.T)),
        ("compare the two sides of 'reads': left (n x d_v) and right (n x n)",),
    ),
}

MISTAKES: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "star between matrices": (
        lambda: K * Q,
        ("K * Q is ambiguous", "write @ for the matrix product or .hadamard for the entrywise one"),
    ),
    "star between column and row": (lambda: v * k.T, ("v_t * k_tᵀ is ambiguous",)),
    "power": (lambda: S**2, ("S ** 2", "write products with @ and inverses with .I")),
    "power of minus one": (lambda: S ** (-1), ("S ** -1", ".I")),
    "division by a matrix": (lambda: 1 / S, ("can't divide by the matrix S: use .I",)),
    "matrix over matrix": (lambda: Q / K, ("Q * K is ambiguous",)),
    "number plus matrix": (lambda: 1 + S, ("1 is a int, not a matrix",)),
    "scalar plus matrix": (lambda: gamma[t] + S, ("gamma_t is a GateToken, not a matrix", "scalar * matrix")),
    "product with a number": (lambda: S @ 2, ("2 is a int, not a matrix",)),
    "product with a scalar": (lambda: S @ gamma[t], ("gamma_t is a GateToken",)),
    "entrywise with a scalar": (lambda: S.hadamard(gamma[t]), ("gamma_t is a GateToken",)),
    "logarithm of a scalar": (lambda: log(gamma[t]), ("gamma_t is a GateToken, not a matrix",)),
    "reciprocal of a scalar": (lambda: reciprocal(gamma[t]), ("gamma_t is a GateToken, not a matrix",)),
    "number as a block": (lambda: block([[Q, 1]]), ("1 is a int, not a matrix",)),
    "number as a block of its own row": (lambda: block([[0], [Q]]), ("0 is a int, not a matrix",)),
    "row products with a scalar": (lambda: RowProducts(Q, gamma[t]), ("gamma_t is a GateToken, not a matrix",)),
    "as many updates as states": (
        lambda: Recurrence((S, P), update=S, readout=S @ q),
        ("2 states need as many updates", "not 1"),
    ),
    "reading neither before nor after": (
        lambda: Recurrence(S, update=S, readout=S @ q, read="during"),
        ("read is 'after' or 'before' the write, not 'during'",),
    ),
    "replacing a token elsewhere": (
        lambda: linear.substitute({K[j]: q}),
        ("a token is replaced at position t, not at j",),
    ),
    "assuming something elsewhere": (lambda: assume(eta[j] >= 0), ("at position t, eta_j is at j",)),
    "assuming what always holds": (lambda: assume(Eq(eta[t], eta[t])), ("says nothing about them",)),
    "expecting something else": (
        lambda: Identity("x", linear, Closed(V), expected="maybe"),
        ("'holds' or 'refuted', not 'maybe'",),
    ),
    "carrying what can't be compared": (
        lambda: Identity("x", linear, Closed(V), carries=True),
        ("can't be compared without a matching",),
    ),
    "matching another state": (
        lambda: Identity("x", linear, linear, matching={P: P}),
        ("matching gives values for ['P']", "the left side has"),
    ),
}


def raised_by(write: Callable[[], object], kind: type[Exception], fragments: tuple[str, ...]) -> None:
    with pytest.raises(kind) as caught:
        write()
    message = str(caught.value)
    for fragment in fragments:
        assert fragment in message
    lines, first = inspect.getsourcelines(write)
    here = [entry for entry in caught.traceback if Path(str(entry.path)) == Path(__file__)]
    assert first <= here[-1].lineno + 1 < first + len(lines)  # pytest counts lines from 0


@pytest.mark.parametrize(("write", "fragments"), MISFITS.values(), ids=MISFITS.keys())
def test_misfits_name_both_operands(write: Callable[[], object], fragments: tuple[str, ...]) -> None:
    raised_by(write, ShapeError, fragments)


@pytest.mark.parametrize(("write", "fragments"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_say_what_to_write(write: Callable[[], object], fragments: tuple[str, ...]) -> None:
    raised_by(write, StatementError, fragments)


FITS = {
    "scaled from the left": (gamma[t] * S, (d_v, d_k)),
    "scaled from the right": (S * gamma[t], (d_v, d_k)),
    "divided": (S / gamma[t], (d_v, d_k)),
    "product": (Q @ K.T @ V, (n, d_v)),
    "token": (q, (d_k, 1)),
    "outer product": (v @ k.T, (d_v, d_k)),
    "inverse": ((Q @ K.T).I, (n, n)),
    "diagonal": (diag(beta), (n, n)),
    "gates as a column": (gamma, (n, 1)),
    "ones": (Ones(n, 1), (n, 1)),
    "exponential": (exp(Q @ K.T), (n, n)),
    "softmax": (softmax(Q @ K.T) @ V, (n, d_v)),
    "normalised": (normalised(S), (d_v, d_k)),
    "quotient": (Q.hadamard(reciprocal(K)), (n, d_k)),
    "blocks": (block([[Q, V], [K, V], [Q, V]]), (3 * n, d_k + d_v)),
    "one block": (block([[S]]), (d_v, d_k)),
    "row products": (RowProducts(Q, V), (n, d_k * d_v)),
    "convolution": (Toeplitz(gamma), (n, n)),
    "channel gate": (alpha[t], (d_k, 1)),
    "products of channel gates": (CumulativeProduct(alpha), (n, d_k)),
    "total of channel gates": (total(alpha), (d_k, 1)),
    "derivative": (derivative(S @ k, S, along=S) / Rational(2), (d_v, 1)),
}


@pytest.mark.parametrize(("statement", "shape"), FITS.values(), ids=FITS.keys())
def test_symbolic_shapes(statement: object, shape: tuple[object, object]) -> None:
    assert statement.shape == shape


def test_a_derivative_without_a_rule_is_refused() -> None:
    with pytest.raises(NoMeaning, match="no rule for the derivative of Token"):
        derivative(K[t], K, along=K)


@pytest.mark.parametrize(
    "walk",
    [
        lambda a: a.matmul(Shape(2, 3), Shape(2, 3)),
        lambda a: a.add(Shape(2, 3), Shape(3, 2)),
        lambda a: a.solve(Shape(2, 3), Shape(2, 1), None),
        lambda a: a.trace(Shape(2, 3)),
    ],
)
def test_the_walk_over_sizes_repeats_the_check(walk: Callable[[Shapes], object]) -> None:
    """A form may pass symbolically (an algorithm has no expression to look at) and not at concrete sizes."""
    with pytest.raises(ShapeError):
        walk(Shapes())


def test_algorithms_are_checked_at_concrete_sizes() -> None:
    from numerics.proofs import typed

    broken = Algorithm(lambda algebra, Q, K: algebra.matmul(Q, K), inputs=(Q, K), shape=(n, n))
    evidence = typed.check(Identity("x", broken, Closed(Q @ K.T)))
    assert evidence.verdict == "unknown"
    assert "can't multiply" in evidence.message


WALKED = {
    "softmax": Closed(softmax(Q @ K.T + log(M)) @ V),
    "channel gates": Closed(Q.hadamard(CumulativeProduct(alpha)) @ diag(total(alpha)) @ K.hadamard(reciprocal(K)).T),
    "blocks": Closed(block([[Q, V], [K, V]])),
    "blocks in a sum over tokens": TokenRows(TokenSum(block([[K[j]], [q]]), j, 1, t)),
    "row products": Closed(RowProducts(Q, V) @ RowProducts(K, V).T),
    "row products in a sum over tokens": TokenRows(TokenSum(RowProducts(K[j].T, V[j].T).T, j, 1, t)),
    "convolution": Closed(Toeplitz(gamma).I @ V),
}


@pytest.mark.parametrize("form", WALKED.values(), ids=WALKED.keys())
def test_the_walk_over_sizes_agrees_with_the_symbols(form: Form) -> None:
    env: dict[object, object] = {n: 7, d_k: 5, d_v: 3}
    sizes = tuple(int(side.xreplace(env)) for side in form.shape)
    env |= {x: Shape(*(int(side.xreplace(env)) for side in x.shape)) for x in form.symbols()}
    assert run(form, env, Shapes()).output == Shape(*sizes)
