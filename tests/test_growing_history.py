"""Growing history: letters and their rules say what matrices of numbers say.

Every side of every identity is evaluated on a history of two tokens and on [past; token], the letters of the result are
given numbers, and the same form is evaluated on the same numbers in float64. Nothing of the free ring is shared: masks,
decays, inverses and products of gates are computed in tests/free_ring_values.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from free_ring_values import NotInterpreted, Values, numbers
from sympy import Rational

from attnproof.catalogue import Entry, load_catalogue
from derivations.language import Closed, Identity, K, M, Q, V, n
from derivations.language.errors import NoMeaning, StatementError, UndefinedValue
from derivations.language.forms import Form, TokenRows, recurrence_or_none
from derivations.language.symbols import Named
from numerics.algebras.floats import numpy_float64
from numerics.algebras.growing_history import GrowingHistory, Length, Width
from numerics.float_inputs import float_inputs
from numerics.free_ring.blocks import of_polynomial
from numerics.free_ring.functions import inverse
from numerics.free_ring.letters import Letter
from numerics.free_ring.polynomials import Polynomial
from numerics.histories.history import GROWN, TWO_TOKENS, History
from numerics.histories.runner import letters_of, on
from numerics.inputs import CannotDraw, Sizes
from numerics.proofs.hypotheses import computing, goes_token_by_token
from numerics.run import run

PAST_LENGTH = 3
MARGIN = 1e-9
"""Inputs are of size one and no chain is longer than four tokens: rounding is far below, a wrong rule far above."""


def compared(identity: Identity, side: Form, history: History, seed: int = 0) -> bool | None:
    """Whether letters and numbers agree; None where the form has no meaning on a history, or letters have no value."""
    length = PAST_LENGTH * history.has_past + len(history.tokens())
    try:
        runner, env = on(history, identity)
        symbolic = runner.run(side, env).output
        drawn = numbers(float_inputs(identity, Sizes(length, 2, 3, chunk=length), np.random.default_rng(seed), batch=1))
    except (NoMeaning, UndefinedValue, StatementError, KeyError, ValueError, CannotDraw):
        return None
    sizes = {str(x): drawn[x] for x, v in env.items() if isinstance(v, Width)}
    values = Values({"n": PAST_LENGTH, "1": 1} | sizes)
    try:
        for x, block in env.items():
            if not isinstance(block, Width | Length) and x in drawn:
                values.name(block, drawn[x])
        expected = run(side, drawn, numpy_float64()).output
        if history.has_past and (goes_token_by_token(side) or isinstance(computing(side), TokenRows)):
            _name_states(side, drawn, values)
            symbolic, expected = symbolic.row_blocks(1, 2), expected[-1:]
        found = values.block(symbolic)
    except (NotInterpreted, UndefinedValue, np.linalg.LinAlgError):
        return None
    scale = 1 + abs(expected).max()
    return bool(found.shape == expected.shape and abs(found - expected).max() < MARGIN * scale)


def _name_states(side: Form, drawn: dict[Any, Any], values: Values) -> None:
    """Numbers for the letters of the states after the past."""
    before = {x: v[:PAST_LENGTH] if isinstance(x, Named) and x.shape[0] == n else v for x, v in drawn.items()} | {
        n: PAST_LENGTH
    }
    inner = recurrence_or_none(side)
    letters = letters_of(inner, {}) if inner is not None else {}
    for block, value in zip(letters.values(), run(side, before, numpy_float64()).states, strict=True):
        values.name(block, value)


@pytest.mark.parametrize("history", [TWO_TOKENS, GROWN], ids=["two tokens", "past and token"])
def test_letters_say_what_numbers_say(entry: Entry, history: History) -> None:
    found = [compared(entry.identity, side, history) for side in (entry.identity.left, entry.identity.right)]
    if found == [None, None]:
        pytest.skip("no meaning on a history, or a letter whose text doesn't say what it is made of")
    assert False not in found


def test_most_sides_are_compared() -> None:
    """The comparison above isn't vacuous."""
    identities = [e.identity for e in load_catalogue().entries() if isinstance(e.statement, Identity)]
    found = [compared(x, side, GROWN) for x in identities for side in (x.left, x.right)]
    assert found.count(True) > 0.7 * len(found)


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last row of Gamma shifted by one, as a slip in the block form of a mask."""
    gated = load_catalogue().select(["gated_deltanet.recurrent_is_matrix"])[0].identity
    assert compared(gated, gated.right, GROWN) is True
    decay = GrowingHistory._decay

    def slipped(self: GrowingHistory, gates: Any, name: str, strict: bool, shift: int) -> Any:
        return decay(self, gates, name, strict, 1 if name == "Γ" else shift)

    monkeypatch.setattr(GrowingHistory, "_decay", slipped)
    assert compared(gated, gated.right, GROWN) is False


x, y = Polynomial.of(Letter("x", "d", "1")), Polynomial.of(Letter("y", "d", "1"))
A, B = Polynomial.of(Letter("A", "d", "d")), Polynomial.of(Letter("B", "d", "d"))


@pytest.mark.parametrize(
    ("name", "matrix"),
    [
        ("a letter", A),
        ("a product", A @ B),
        ("a rank-one update", A - x @ y.T),
        ("two rank-one updates", A + x @ y.T + y @ x.T),
        ("a sum", A + B.T),
        ("a scaled product", (A @ B.T).times((x.T @ y).value)),
    ],
)
def test_inverses(name: str, matrix: Polynomial) -> None:
    rng = np.random.default_rng(1)
    values = Values({"d": 3, "1": 1})
    for letter in (A, B, x, y):
        values.name(of_polynomial(letter), rng.standard_normal((3, 3 if letter.columns == "d" else 1)))
    product = values.polynomial(inverse(matrix)) @ values.polynomial(matrix)
    assert abs(product - np.eye(3)).max() < MARGIN


def test_letters_do_not_commute() -> None:
    assert A @ B != B @ A
    assert (A @ B).T == B.T @ A.T
    assert A @ inverse(A) == Polynomial.identity("d")


def test_a_mask_has_no_reciprocal() -> None:
    masked = Closed((Q @ K.T).hadamard(M).hadamard(M) @ V)
    runner, env = on(GROWN, Identity("twice", masked, Closed((Q @ K.T).hadamard(M) @ V)))
    assert runner.run(masked, env).output == runner.run(Closed((Q @ K.T).hadamard(M) @ V), env).output
    with pytest.raises(UndefinedValue, match="zeros of a mask"):
        runner.algebra.reciprocal(runner.algebra.lower(env[next(x for x in env if str(x) == "n")], 0))


def test_numbers_are_exact() -> None:
    third = GrowingHistory(("n",)).number(Rational(1, 3))
    assert (third + third + third).scalar == GrowingHistory(("n",)).number(Rational(1)).scalar
