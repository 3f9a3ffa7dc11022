"""A claim's verdict follows from the verdicts of what decides it, and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnproof.catalogue import load_catalogue
from attnproof.claims import decidable, decide
from attnproof.commands import attnproof
from derivations.language import Claim, Document, StatementError
from numerics.evidence import Counterexample, Evidence
from numerics.proofs.ladder import FactReport, Report

LEDGER_SIZES = {"S0": 96, "S1": 27, "S3": 81}
"""How many claims each document makes."""

COUNTEREXAMPLE = Counterexample({"n": 1}, {}, "output", [["1"]], [["0"]], "1", (1, 1))


def holding(name: str, *assumptions: str) -> Report:
    needed = [{"assumption": assumption} for assumption in assumptions]
    evidence = (Evidence("exact", "holds"), Evidence("assumptions", "holds", details={"needed": needed}))
    return Report(name, "holds", evidence)


def refuted(name: str) -> Report:
    return Report(name, "refuted", (Evidence("exact", "refuted"),), COUNTEREXAMPLE)


REPORTS = {
    report.id: report
    for report in (
        holding("a.holds"),
        holding("a.with_eta", "eta_t >= 0"),
        refuted("a.false"),
        Report("a.undecided", "holds", (Evidence("exact", "unknown"),)),
        Report("a.without_counterexample", "refuted", (Evidence("exact", "refuted"),)),
        FactReport("a.false_fact", "refuted", (Evidence("exact", "refuted"),)),
    )
}

CASES = {
    "holds": (Claim("X-1", "", "", "holds", by="a.holds"), "holds", ()),
    "an identity's assumption counts": (
        Claim("X-2", "", "", "holds under assumptions", by=("a.holds", "a.with_eta")),
        "holds under assumptions",
        ("eta_t >= 0",),
    ),
    "false without an assumption": (
        Claim("X-3", "", "", "holds under assumptions", by="a.holds", only_if={"no mask": "a.false"}),
        "holds under assumptions",
        ("no mask",),
    ),
    "an assumption that isn't needed": (
        Claim("X-4", "", "", "holds under assumptions", by="a.holds", only_if={"no mask": "a.holds"}),
        "unknown",
        ("no mask",),
    ),
    "false, and corrected": (Claim("X-5", "", "", "refuted", by="a.holds", false="a.false"), "refuted", ()),
    "a fact needs no counterexample": (
        Claim("X-6", "", "", "refuted", by="a.holds", false="a.false_fact"),
        "refuted",
        (),
    ),
    "a correction that doesn't hold": (Claim("X-7", "", "", "refuted", by="a.false", false="a.false"), "unknown", ()),
    "not false after all": (Claim("X-8", "", "", "refuted", by="a.holds", false="a.holds"), "unknown", ()),
    "a refutation without a counterexample": (
        Claim("X-9", "", "", "refuted", by="a.holds", false="a.without_counterexample"),
        "unknown",
        (),
    ),
    "undecided": (Claim("X-10", "", "", "holds", by=("a.holds", "a.undecided")), "unknown", ()),
    "empirical": (Claim("X-11", "", "", "empirical", would_decide="a measurement"), "empirical", ()),
    "no such identity": (Claim("X-12", "", "", "holds", by="a.nothing"), "unknown", ()),
}


@pytest.mark.parametrize(("claim", "verdict", "assumptions"), CASES.values(), ids=CASES.keys())
def test_verdicts(claim: Claim, verdict: str, assumptions: tuple[str, ...]) -> None:
    found = decide(claim, REPORTS)
    assert (found.verdict, found.assumptions) == (verdict, assumptions)
    assert found.ok == (verdict == claim.expected)
    assert bool(found.unexpected) == (verdict == "unknown")


def test_an_assumption_that_was_not_expected_is_not_a_pass() -> None:
    found = decide(Claim("X-1", "", "", "holds", by="a.with_eta"), REPORTS)
    assert found.verdict == "holds under assumptions"
    assert not found.ok


def test_only_claims_whose_deciders_were_checked_are_decided() -> None:
    claims = [CASES["holds"][0], Claim("X-2", "", "", "holds", by="b.not_checked"), CASES["empirical"][0]]
    assert [claim.id for claim in decidable(claims, list(REPORTS.values()))] == ["X-1"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"expected": "true", "by": "a.b"}, "expected to be one of"),
        ({"expected": "holds"}, "give what shows it"),
        ({"expected": "refuted", "by": "a.b"}, "what is false and its correction"),
        ({"expected": "refuted", "false": "a.b"}, "what is false and its correction"),
        ({"expected": "empirical"}, "say what would decide it"),
        ({"expected": "empirical", "would_decide": "x", "by": "a.b"}, "and no more"),
    ],
)
def test_a_claim_that_is_bound_to_nothing_is_refused(arguments: dict, problem: str) -> None:
    with pytest.raises(StatementError, match=problem):
        Claim("X-1", "says", "line 1", **arguments)


def test_an_id_is_given_once() -> None:
    claim = Claim("X-1", "", "", "holds", by="a.b")
    with pytest.raises(StatementError, match="two claims with the id X-1"):
        Document("x", "X", [claim, claim])


def test_no_claim_of_the_three_documents_is_missing() -> None:
    found = [claim.id for claim in load_catalogue().claims()]
    for prefix, size in LEDGER_SIZES.items():
        assert [name for name in found if name.startswith(prefix)] == [f"{prefix}-{k:02}" for k in range(1, size + 1)]


def test_every_claim_names_deciders_that_exist() -> None:
    catalogue = load_catalogue()
    known = {entry.id for entry in catalogue.entries()}
    missing = {claim.id: set(claim.deciders) - known for claim in catalogue.claims()}
    assert {name: ids for name, ids in missing.items() if ids} == {}


LEDGER = """
from attnproof.language import Claim, Document
small = Derivation("small", "", "", {}, [
    Identity("transposed", Closed(Q @ K.T), Closed((K @ Q.T).T), says="A product transposed twice."),
    Identity("masked", Closed(Q @ K.T), Closed((Q @ K.T).hadamard(M)), expected="refuted", says="A mask is nothing."),
])
document = Document("doc", "A document", [
    Claim("Z-1", "Twice is nothing.", "line 3", "holds", by="small.transposed"),
    Claim("Z-2", "A mask is nothing.", "line 4", "refuted", by="small.transposed", false="small.masked"),
    Claim("Z-3", "It is fast.", "line 5", "empirical", would_decide="a measurement"),
    Claim("Z-4", "A mask is nothing, I said.", "line 6", "holds", by="small.masked"),
])
"""


def run(write, *arguments: str):
    folder = write("small", LEDGER).parent
    return CliRunner().invoke(attnproof, [*arguments, "--derivations", str(folder)])


def test_the_table_of_claims(write) -> None:
    found = run(write, "claims", "Z-[123]", "--no-evidence")
    assert found.exit_code == 0
    assert "Z-2    refuted    small.transposed, small.masked  A mask is nothing." in found.stdout


def test_one_claim_in_full(write) -> None:
    found = run(write, "claims", "Z-2", "--jobs", "1")
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert "Z-2 (line 4)" in lines
    assert "  verdict: refuted" in lines
    assert "  small.transposed is the correction: holds" in lines
    assert "  small.masked is the claim as stated: refuted" in lines
    assert "    refuted by n = 2, d_k = 1, d_v = 1: everything 1" in lines
    assert lines[-1] == "1 claim: 0 hold, 0 hold under assumptions, 1 refuted, 0 empirical, 0 unexpected"


def test_a_claim_that_is_not_as_expected_is_status_1(write) -> None:
    found = run(write, "claims", "Z-*", "--jobs", "1")
    assert found.exit_code == 1
    assert "4 claims: 1 hold, 0 hold under assumptions, 1 refuted, 1 empirical, 1 unexpected" in found.stdout
    assert "  missing: small.masked shows it, and should hold, but its verdict is 'refuted'" in found.stdout


def test_verify_decides_claims_too(write, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    found = run(write, "verify", "small", "--jobs", "1", "--json", str(record))
    assert found.exit_code == 1
    assert "Z-4: unknown, expected: holds" in found.stdout
    by_id = {claim["id"]: claim for claim in json.loads(record.read_text())["claims"]}
    assert {name: (claim["expected"], claim["verdict"], claim["ok"]) for name, claim in by_id.items()} == {
        "Z-1": ("holds", "holds", True),
        "Z-2": ("refuted", "refuted", True),
        "Z-4": ("holds", "unknown", False),
    }
    assert by_id["Z-2"]["decided_by"] == [
        {"id": "small.transposed", "role": "is the correction", "verdict": "holds"},
        {"id": "small.masked", "role": "is the claim as stated", "verdict": "refuted"},
    ]


def test_an_unknown_id_says_which_there_are(write) -> None:
    found = run(write, "claims", "Z-9")
    assert found.exit_code == 2
    assert "no claim has the id 'Z-9'" in found.stderr
    assert "doc (Z-1 to Z-4)" in found.stderr
