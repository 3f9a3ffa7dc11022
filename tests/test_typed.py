"""Rung 1 over the catalogue: every statement fits together, has two different sides, and admits inputs."""

from attnproof.catalogue import Entry
from numerics.proofs import typed


def test_typed(entry: Entry) -> None:
    evidence = typed.check(entry.identity)
    assert evidence.verdict == "holds", evidence.message
