"""Every fact of the catalogue has the verdict that it expects."""

from numerics.proofs import facts


def test_facts(fact_entry) -> None:
    evidence = facts.check(fact_entry.statement)
    assert evidence.verdict == fact_entry.statement.expected, evidence.message
    assert evidence.details["shown"]
