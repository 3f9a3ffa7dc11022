"""Proofs for every length: what is proved, and that nothing false is.

Each proof is attacked with planted errors: a falsified statement may be proved only where it is no error, which the
exact rung says. False statements that were proved at one time stand at the end, each for its kind.
"""

from __future__ import annotations

import random
from collections import defaultdict
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Rational

from attnproof.catalogue import Entry, load_catalogue
from derivations.language import (
    Chunkwise,
    Closed,
    Derivation,
    FinalState,
    Identity,
    K,
    M,
    M_strict,
    Q,
    Recurrence,
    S,
    Sequence,
    State,
    TokenRows,
    TokenSum,
    V,
    d_k,
    d_v,
    diag,
    gamma,
    j,
    k,
    n,
    q,
    t,
    v,
)
from numerics.evidence import Evidence, combined
from numerics.proofs import every_length, field
from numerics.proofs.ladder import climb
from numerics.proofs.mutants import fate, mutants

PROVED = {
    "linear_attention": ["recurrent_is_matrix", "recurrent_is_chunkwise", "gradient_step"],
    "feature_maps": ["recurrent_is_matrix", "recurrent_is_chunkwise"],
    "decay": ["recurrent_is_matrix", "recurrent_is_chunkwise", "retention_is_matrix", "final_state"],
    "retnet": ["gradient_step"],
    "mamba2": ["recurrent_is_matrix", "recurrent_is_chunkwise"],
    "gla": ["recurrent_is_matrix", "recurrent_is_chunkwise", "final_state"],
    "dfw": ["recurrent_is_matrix", "recurrent_is_chunkwise"],
    "deltanet": ["recurrent_is_matrix", "recurrent_is_chunkwise", "linear_system", "linear_system_solved"],
    "gated_deltanet": [
        "recurrent_is_matrix",
        "recurrent_is_chunkwise",
        "gamma_rewrite",
        "printed_recurrence_is_shifted_matrix",
    ],
    "comba": ["recurrent_is_matrix", "recurrent_is_chunkwise"],
    "kda": ["recurrent_is_matrix", "recurrent_is_chunkwise"],
    "longhorn": ["recurrent_is_matrix", "recurrent_is_chunkwise"],
    "rwkv6": ["recurrent_is_matrix", "recurrent_is_chunkwise"],
    "rwkv7": ["recurrent_is_matrix", "recurrent_is_chunkwise"],
    "path_fox": ["log_decay_is_a_factor", "no_strength_is_fox", "no_direction_is_fox"],
    "path_attention": ["recurrent_is_matrix", "recurrent_is_chunkwise", "with_beta", "deltanet_at_w_equal_k"],
    "mesanet": ["recurrent_is_chunkwise", "rls", "rls_with_discounted_lambda", "state_in_closed_form"],
    "deltaformer": ["recurrent_is_matrix", "linear_kernel"],
    "forgetting_attention": ["log_decay_is_a_factor", "decay_is_a_bias", "constant_gate"],
    "alibi": ["decay_is_a_bias"],
    "rfa_gate": ["recurrent_is_matrix", "recurrent_is_chunkwise"],
    "rg_lru": ["recurrent_is_matrix", "recurrent_is_chunkwise"],
    "random_features": ["recurrent_is_matrix"],
    "ttt_linear": ["primal_is_dual", "state_after_a_batch"],
    "lact": ["gradient_of_the_block"],
}
"""What a newer version may not lose; the whole list is what `attnproof verify --rung every-length` prints."""
IDS = [f"{system}.{name}" for system, names in PROVED.items() for name in names]
QUICK = settings.default.max_examples <= 20
LONGEST = 300 if QUICK else 4096
MUTANTS_EACH = 1 if QUICK else 10_000
"""How many planted errors are tried against each proof: one in the quick profile, all in the deep one."""


@cache
def evidence(id_: str) -> Evidence:
    [entry] = load_catalogue().select([id_])
    return every_length.check(entry.derivation, entry.identity)


@pytest.mark.parametrize("id_", IDS)
def test_what_is_proved(id_: str) -> None:
    found = evidence(id_)
    assert found.verdict == "holds", found.details
    assert "n" in found.details["for_every"]


@pytest.mark.parametrize("id_", IDS)
@settings(max_examples=1 if QUICK else 3)
@given(length=st.integers(2, LONGEST), seed=st.integers(0, 2**32 - 1))
def test_the_field_agrees_at_random_lengths(id_: str, length: int, seed: int) -> None:
    """A second opinion on the same theorems, which shares nothing with the first but the statement."""
    found = field.check(load_catalogue().select([id_])[0].identity, seed, length=length)
    assert found.verdict == "holds", found.details
    assert found.sizes[0]["n"] == length


def test_at_least_twenty_systems_have_their_forms_proved() -> None:
    assert len(PROVED) >= 20


def test_nothing_refuted_is_proved(entry: Entry) -> None:
    if entry.identity.expected != "refuted":
        pytest.skip("expected to hold")
    assert every_length.check(entry.derivation, entry.identity).verdict == "unknown"


def test_planted_errors_are_not_proved(holding: Entry) -> None:
    """Of a statement that is proved, falsified statements are not, but for those that are the same formula."""
    if every_length.check(holding.derivation, holding.identity).verdict != "holds":
        pytest.skip("not proved for every length")
    planted = mutants(holding.identity)
    tried = random.Random(holding.id).sample(planted, min(MUTANTS_EACH, len(planted)))
    proved = [x for x in tried if every_length.check(holding.derivation, x.identity).verdict == "holds"]
    fates = {x.change: getattr(fate(x), "verdict", "no value") for x in proved}
    assert set(fates.values()) <= {"equivalent"}, fates


def test_the_proof_can_be_read() -> None:
    details = evidence("gated_deltanet.recurrent_is_matrix").details
    assert details["for_every"] == ["n", "d_k", "d_v"]
    assert details["hypothesis"] == "what a query Q reads"
    lines = defaultdict(list)
    for what, value in details["proof"]:
        lines[what].append(value)
    assert lines["hypothesis: S after the past"] == ["Vᵀ beta ([(K Kᵀ) ⊙ Γ⁻(gamma)]ᵀ beta + I)⁻¹ rem(gamma) K"]
    assert lines["appended: S after [past; token]"] == lines["step: S one token on"]
    assert lines["base: S before the first token"] == ["0"]


def test_a_refutation_beside_a_proof_is_a_contradiction() -> None:
    typed, proved = Evidence("typed", "holds"), Evidence("every-length", "holds")
    assert combined([typed, Evidence("exact", "holds"), proved]) == "holds"
    assert combined([typed, Evidence("exact", "holds"), Evidence("every-length", "unknown")]) == "holds"
    assert combined([typed, Evidence("exact", "refuted"), Evidence("every-length", "unknown")]) == "refuted"
    assert combined([typed, Evidence("exact", "refuted"), proved]) == "unknown"
    assert combined([typed, proved]) == "unknown"


def test_a_contradiction_is_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    [entry] = load_catalogue().select(["gated_deltanet.printed_recurrence"])
    monkeypatch.setattr(every_length, "check", lambda derivation, identity: Evidence("every-length", "holds"))
    report = climb(entry.derivation, entry.identity, ("exact", "every-length"))
    assert not report.ok
    assert [e.message for e in report.evidence if e.rung == "every-length"] == [
        "proved for every length, and refuted on the rung exact: one of them is wrong"
    ]


# false statements, each of a kind that was proved at one time

U, W, X = Sequence("U", n, d_v), Sequence("W", n, d_k), Sequence("X", n, d_k)
P = State("P", d_k, d_k)
linear = Recurrence(S, update=S + v @ k.T, readout=S @ q)
block = Chunkwise(S, update=S + V.T @ K, readout=Q @ S.T + (Q @ K.T).hadamard(M) @ V)
forgetful = Chunkwise(S, update=V.T @ K, readout=Q @ S.T + (Q @ K.T).hadamard(M) @ V)
once, twice = (Recurrence(P, update=P + k @ k.T, readout=factor * P @ q) for factor in (1, 2))
masked = Closed((Q @ K.T).hadamard(M) @ V)
so_far = TokenSum(V[j] @ (K[j].T @ q), j, 1, t)
overall = TokenSum(V[j] @ (K[j].T @ q), j, 1, n)

FALSE = {
    "a block forgets the blocks before it": (FinalState(forgetful, S), FinalState(block, S)),
    "two blocks that hand on other states": (block, forgetful),
    "one name is defined in two ways": (
        Closed(U).where(U[t], v - TokenSum(U[j] @ (K[j].T @ k), j, 1, t - 1)),
        Closed(V - (K @ K.T).hadamard(M_strict) @ U).where(U[t], v + TokenSum(U[j] @ (K[j].T @ k), j, 1, t - 1)),
    ),
    "two recurrences with one state are read in two ways": (
        Closed((X @ K.T).hadamard(M) @ V).where(X, once),
        Closed((X @ K.T).hadamard(M) @ V).where(X, twice),
    ),
    "a row sees the tokens after its own": (TokenRows(overall), TokenRows(so_far)),
    "a state is written by tokens to come": (
        Recurrence(S, update=S + V.T @ K, readout=S @ q),
        Recurrence(S, update=S + v @ k.T, readout=S @ q),
    ),
    "sums that end at the token": (
        linear.substitute({k: TokenSum(K[j], j, 1, t)}),
        linear.substitute({k: TokenSum(K[j], j, 1, n)}),
    ),
    "a mask's diagonal": (linear, Closed((Q @ K.T).hadamard(M_strict) @ V)),
    "a factor": (linear, Closed(Rational(1, 2) * (Q @ K.T).hadamard(M) @ V)),
    "a gate too many": (linear, Closed(diag(gamma) @ (Q @ K.T).hadamard(M) @ V)),
}


OWN = Derivation("own", "", "", {}, [])


@pytest.mark.parametrize("kind", FALSE)
def test_false_statements_are_not_proved(kind: str) -> None:
    left, right = FALSE[kind]
    identity = Identity("false", left, right, expected="refuted")
    assert every_length.check(Derivation("own", "", "", {}, [identity]), identity).verdict == "unknown"
    assert (
        every_length.check(Derivation("own", "", "", {}, [identity]), Identity("so", linear, masked)).verdict == "holds"
    )
