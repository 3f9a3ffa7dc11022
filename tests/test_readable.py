"""What was found is written so that a person can check it by hand."""

from __future__ import annotations

import pytest

from attnproof.catalogue import Entry
from attnproof.checking import Settings, check
from attnproof.language import Closed, Derivation, Gamma, Identity, K, M, Q, Recurrence, S, V, gamma, k, q, t, v
from attnproof.readable import counterexample_lines, readable, summary_of


def counterexample(left, right):
    identity = Identity("x", left, right, expected="refuted")
    report = check(Entry(Derivation("d", "", "", {}, [identity]), identity), Settings(rungs=("exact",)))
    return counterexample_lines(identity, report.counterexample)


def test_columns_are_rows_and_entries_that_are_not_one_are_listed():
    decayed = Closed((Q @ K.T).hadamard(Gamma) @ V)
    plain = Closed((Q @ K.T).hadamard(M) @ V)
    assert counterexample(decayed, plain) == [
        "refuted by n = 2, d_k = 1, d_v = 1: gamma_2 = 1/2, everything else 1",
        "  left  (1, 3/2)    right  (1, 2)",
        "  gap in row 2: (gamma_2 - 1) k_1 q_2 v_1",
    ]


def test_matrices_are_written_as_matrices():
    assert counterexample(Closed(Q @ K.T), Closed((Q @ K.T).hadamard(M))) == [
        "refuted by n = 2, d_k = 1, d_v = 1: everything 1",
        "  left  1  1    right  1  0",
        "        1  1           1  1",
        "  gap in row 1, column 2: k_2 q_1",
    ]


def test_a_final_state_is_named():
    left = Recurrence(S, update=S + v @ k.T, readout=q)
    right = Recurrence(S, update=gamma[t] * S + v @ k.T, readout=q)
    lines = counterexample(left, right)
    assert lines[0] == "refuted by n = 1, d_k = 1, d_v = 1: gamma_1 = 1/2, everything else 1"
    assert lines[-1] == "  gap in final S, row 1: (1 - gamma_1) S0"


@pytest.mark.parametrize(
    ("gap", "text"),
    [
        ("(1 - gamma_2)*k_1*k_2**2*q_2*v_1", "(1 - gamma_2) k_1 k_2^2 q_2 v_1"),
        ("-1*k_2*q_1", "-k_2 q_1"),
        ("(-1*k_1)/(2*gamma_1)", "(-k_1)/(2 gamma_1)"),
        ("k_1-1*q_1", "k_1-1 q_1"),
        ("1/2*k_1", "1/2 k_1"),
    ],
)
def test_a_gap_is_written_as_by_hand(gap, text):
    assert readable(gap) == text


def test_the_summary_of_nothing():
    assert summary_of([], []) == "0 identities: 0 hold, 0 refuted as expected, 0 unexpected"
