"""Each assumption of the catalogue is needed: an exact input shows what fails without it."""

from dataclasses import replace

from attnproof.catalogue import Entry, load_catalogue
from derivations.language import assume, gamma, t
from numerics.proofs import assumptions


def test_assumptions(entry: Entry) -> None:
    evidence = assumptions.check(entry.identity)
    assert evidence.verdict == "holds", evidence.message
    needed = evidence.details.get("needed", [])
    assert [shown["assumption"] for shown in needed] == [str(a) for a in entry.identity.assumptions]


def test_a_superfluous_assumption_is_noticed() -> None:
    identity = load_catalogue().select(["gated_deltanet.recurrent_is_matrix"])[0].identity
    padded = replace(identity, assumptions=(assume(gamma[t] > 0),))
    evidence = assumptions.check(padded)
    assert evidence.verdict == "unknown"
    assert "gamma_t > 0" in evidence.message
