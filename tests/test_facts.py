"""Each kind of check holds, is refuted, or stays undecided, on examples that can be decided by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from sympy import (
    Abs,
    Derivative,
    Integral,
    Interval,
    Limit,
    Matrix,
    Rational,
    Sum,
    Symbol,
    ceiling,
    cos,
    exp,
    floor,
    log,
    oo,
    pi,
    sin,
    sqrt,
    symbols,
    zeros,
)
from sympy import gamma as gamma_function
from sympy.abc import w

from derivations.language import (
    NEGATIVE,
    POSITIVE,
    REALS,
    Claim,
    Closed,
    Computed,
    Counts,
    Derivation,
    Equal,
    Fact,
    Finding,
    HasShape,
    K,
    M,
    Printed,
    Q,
    RangeWithin,
    Recurrence,
    S,
    StatementError,
    V,
    block,
    d_k,
    d_v,
    is_free_of,
    k,
    n,
    q,
    rank_is,
    v,
)
from derivations.language.facts import Check
from numerics.proofs import facts
from numerics.proofs.ladder import climb

x, y, z, a = symbols("x y z a", real=True)
below = Symbol("below", negative=True)
count = Symbol("count", integer=True, positive=True)
sigmoid = 1 / (1 + exp(-x))

HOLDS: dict[str, Check] = {
    "numbers": Equal(128 * 64, 8192),
    "multiplied out": Equal((x + y) ** 2, x**2 + 2 * x * y + y**2),
    "fractions": Equal(1 / (1 + x) + x / (1 + x), 1),
    "exponentials": Equal(exp(x) * exp(2 * y), exp(x + 2 * y)),
    "trigonometric": Equal(sin(x) ** 2 + cos(x) ** 2, 1),
    "sigmoid": Equal(1 - sigmoid, sigmoid.subs(x, -x)),
    "integral": Equal(Integral(exp(-x), (x, 0, oo)), 1),
    "limit": Equal(Limit((1 - x ** (2 * a + 2)) / (1 - x), x, 1), 2 * a + 2),
    "infinite limit": Equal(Limit(x, x, oo), oo),
    "derivative": Equal(Derivative(sigmoid, x), sigmoid * (1 - sigmoid)),
    "sum": Equal(Sum(x, (x, 1, count)), count * (count + 1) / 2),
    "matrix": Equal(Matrix([[1, x]]) * Matrix([[x], [1]]), Matrix([[2 * x]])),
    "matrices of integrals": Equal(Matrix([Integral(x, (x, 0, 1)), 0]), Matrix([Rational(1, 2), 0])),
    "range": RangeWithin(sigmoid, x, REALS, Interval.open(0, 1)),
    "range over a part": RangeWithin(exp(x) - 1, x, NEGATIVE, NEGATIVE),
    "printed": Printed(Fraction(4), "4", "MiB"),
    "printed with digits": Printed(Fraction(2, 3), "0.667"),
    "printed with fewer digits": Printed(Fraction(43, 10), "4"),
    "printed with an exponent": Printed(4_194_304, "4.19e6"),
    "tie rounded up": Printed(Fraction(1, 8), "0.13"),
    "tie rounded down": Printed(Fraction(1, 8), "0.12"),
    "negative": Printed(-Fraction(1, 3), "-0.33"),
    "SymPy's fraction": Printed(Rational(1, 3), "0.3"),
    "shape": HasShape(Q @ K.T, (n, n)),
    "shape of a form": HasShape(Recurrence(S, update=S + v @ k.T, readout=S @ q), (n, d_v)),
    "shape of blocks": HasShape(block([[Q, V]]), (n, d_k + d_v)),
    "shape with numbers": HasShape(v, (d_v, 1)),
    "rank": rank_is(Matrix([[1, x], [2, 2 * x]]), 1),
    "rank zero": rank_is(zeros(2, 3), 0),
    "free of": is_free_of(Q @ K.T, V, S),
    "computed": Computed(lambda: Finding(6 * 7 == 42, "42")),
    "count": Counts(Closed(Q @ K.T), "multiplications", n**2 * d_k),
}
REFUTED: dict[str, tuple[Check, str]] = {
    "numbers": (Equal(128 * 64, 8129), "8192"),
    "a point where it is false": (Equal(sin(x) ** 2, sin(x)), "at x = 1/2"),
    "false on the diagonal alone": (Equal((x - y) ** 2 + 1, 1), "at x = 1/2, y = 2"),
    "true where a symbol is one half": (Equal(x, Rational(1, 2)), "at x = 2"),
    "false for negative numbers": (Equal(Abs(x), x), "at x = -1/2"),
    "a negative symbol": (Equal(sqrt(below**2), below), "at below = -1/2"),
    "integral": (Equal(Integral(exp(-2 * x), (x, 0, oo)), 1), "0.5"),
    "limit": (Equal(Limit(sin(x) / x, x, 0), 0), "1"),
    "infinity": (Equal(Limit(x, x, oo), 5), "oo"),
    "a finite number": (Equal(5, Limit(x, x, oo)), "oo"),
    "second entry of a matrix": (Equal(Matrix([1, x]), Matrix([1, y])), "at x = 1/2, y = 2"),
    "matrices of other shapes": (Equal(Matrix([[1, 2, 3], [4, 5, 6]]), Matrix([[1, 2], [3, 4], [5, 6]])), "shapes"),
    "matrix and number": (Equal(Matrix([[1]]), 1), "shapes"),
    "range": (RangeWithin(sigmoid, x, REALS, Interval(0, Rational(1, 2))), "Interval.open(0, 1)"),
    "closed range": (RangeWithin(exp(x), x, REALS, Interval(1, oo)), "Interval.open(0, oo)"),
    "range over a part": (RangeWithin(exp(x) - 1, x, POSITIVE, NEGATIVE), "Interval.open(0, oo)"),
    "printed": (Printed(Fraction(9, 2), "4.4", "MiB"), "4.5 MiB, printed as 4.4"),
    "digits that aren't there": (Printed(Fraction(43, 10), "4.0"), "printed as 4.0"),
    "just past the tie": (Printed(Fraction(126, 1000), "0.12"), "0.126"),
    "printed with an exponent": (Printed(4_194_304, "4.2e5"), "4194304"),
    "sign": (Printed(Fraction(-1, 3), "0.33"), "-0.333333"),
    "shape": (HasShape(Q @ S.T, (n, d_k)), "n x d_v"),
    "transposed shape": (HasShape(Q.T, (n, d_k)), "d_k x n"),
    "rank": (rank_is(Matrix([[1, 2], [2, 4]]), 2), "rank 1 of a 2 x 2 matrix"),
    "free of": (is_free_of(Q @ K.T, V, K), "contains K"),
    "computed": (Computed(lambda: Finding(6 * 9 == 42, "54")), "54"),
    "count": (Counts(Closed(Q @ K.T), "multiplications", n * d_k), "n**2"),
}
UNKNOWN: dict[str, tuple[Check, str]] = {
    "true, but not reduced": (Equal(gamma_function(x + 1), x * gamma_function(x)), "isn't reduced to zero"),
    "true of negative numbers": (Equal(log(below**2), 2 * log(-below)), "isn't reduced to zero"),
    "true of integers": (Equal(floor(count / 2) + ceiling(count / 2), count), "isn't reduced to zero"),
    "no limit": (Equal(Limit(sin(1 / x), x, 0), 0), "AccumBounds"),
    "too close to tell": (Equal(sin(x) + Rational(1, 10**20), sin(x)), "no point was found"),
    "range against an unknown bound": (RangeWithin(x**2, x, Interval(0, 1), Interval(0, a)), "Interval(0, 1)"),
    "not decided": (Computed(lambda: Finding(None, "nobody knows")), "nobody knows"),
    "no polynomial": (Counts(Closed(w**n * V), "multiplications", n), "isn't a polynomial"),
}


@pytest.mark.parametrize("check", HOLDS.values(), ids=HOLDS.keys())
def test_holds(check: Check) -> None:
    evidence = facts.check(Fact("x", check))
    assert (evidence.verdict, evidence.message) == ("holds", "")
    assert evidence.details["shown"]
    assert evidence.details["method"] == check.method


@pytest.mark.parametrize(("check", "fragment"), REFUTED.values(), ids=REFUTED.keys())
def test_refuted(check: Check, fragment: str) -> None:
    evidence = facts.check(Fact("x", check))
    assert evidence.verdict == "refuted"
    assert fragment in evidence.message


@pytest.mark.parametrize(("check", "fragment"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_is_not_decided_is_neither_true_nor_false(check: Check, fragment: str) -> None:
    evidence = facts.check(Fact("x", check))
    assert evidence.verdict == "unknown"
    assert fragment in evidence.message


SYMBOLS = {
    "real": x,
    "negative": below,
    "positive": Symbol("p", positive=True),
    "integer": count,
    "without assumptions": Symbol("u"),
}


@pytest.mark.parametrize("symbol", SYMBOLS.values(), ids=SYMBOLS.keys())
def test_points_fulfil_the_assumptions_of_their_symbols(symbol: Symbol) -> None:
    """What is asked at points is true only where the symbol is what it is said to be."""
    allowed = {"negative": abs(symbol) + symbol, "positive": abs(symbol) - symbol, "integer": sin(pi * symbol)}
    for name, zero in allowed.items():
        if getattr(symbol, f"is_{name}"):
            assert Equal(zero, 0).find().holds is not False
    assert Equal(symbol**2, symbol + 1).find().holds is False  # a point is found for each


def test_details_of_a_finding_are_kept() -> None:
    evidence = facts.check(Fact("x", Computed(lambda: Finding(True, "4", {"pairs": 4}), method="by counting")))
    assert evidence.details == {"method": "by counting", "shown": "4", "pairs": 4}
    assert evidence.rung == "exact"


def broken() -> Finding:
    raise ZeroDivisionError("one over zero")


@pytest.mark.parametrize(
    ("check", "expected", "verdict", "ok"),
    [
        (Equal(1, 1), "holds", "holds", True),
        (Equal(1, 2), "refuted", "refuted", True),
        (Equal(1, 2), "holds", "refuted", False),
        (Equal(1, 1), "refuted", "holds", False),
        (Computed(lambda: Finding(None, "")), "holds", "unknown", False),
        (Computed(broken), "holds", "unknown", False),
        (RangeWithin(x * sin(exp(x)), x, Interval(0, 1), REALS), "holds", "unknown", False),
    ],
    ids=["true", "false", "false, thought true", "true, thought false", "undecided", "raises", "SymPy raises"],
)
def test_facts_on_the_ladder(check: Check, expected: Any, verdict: str, ok: bool) -> None:
    """A refuted fact needs no counterexample besides what its check shows; one that breaks is undecided."""
    fact = Fact("x", check, expected=expected)
    report = climb(Derivation("own", "", "", {}, [], facts=[fact]), fact)
    assert (report.id, report.verdict, report.ok) == ("own.x", verdict, ok)
    assert ("ZeroDivisionError: one over zero" in report.evidence[0].message) == (check == Computed(broken))


def test_a_count_is_not_decided_by_itself() -> None:
    with pytest.raises(StatementError, match="decided by an evaluation"):
        Counts(Closed(M), "additions", 0).find()


def test_refused_where_it_is_written() -> None:
    with pytest.raises(StatementError, match="'holds' or 'refuted', not 'unknown'"):
        Fact("x", Equal(1, 1), expected="unknown")  # type: ignore[arg-type]
    with pytest.raises(StatementError, match="two identities with the name 'x'"):
        Derivation("own", "", "", {}, [], facts=[Fact("x", Equal(1, 1)), Fact("x", Equal(2, 2))])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"expected": "maybe", "by": "a"}, "is expected to be one of holds, .*, not 'maybe'"),
        ({"expected": "holds", "by": "a", "false": "b"}, "holds: give what shows it"),
        ({"expected": "holds under assumptions", "only_if": {"no mask": "a"}}, "holds: give what shows it"),
        ({"expected": "empirical", "would_decide": "x", "only_if": {"y": "a"}}, "and no more"),
        ({"expected": "refuted", "false": ["a"], "by": ()}, "what is false and its correction"),
    ],
)
def test_claims_without_what_decides_them(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(StatementError, match=f"^C-1 {problem}" if problem.startswith("is") else problem):
        Claim("C-1", "says", "line 1", **arguments)


def test_what_decides_a_claim() -> None:
    """One id may be given by itself; each is named once, in order."""
    claim = Claim("C-1", "", "", "holds under assumptions", by="a.b", only_if={"one": "c.d", "two": "a.b"})
    assert claim.by == ("a.b",)
    assert claim.deciders == ("a.b", "c.d")
    assert Claim("C-2", "", "", "refuted", by=["a", "b"], false="c").deciders == ("a", "b", "c")
