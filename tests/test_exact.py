"""Rung 2 over the catalogue: equal as polynomials with every input symbolic, or refuted where that is expected."""

import pytest

from attnproof.catalogue import Entry
from numerics.proofs import counterexample, exact


def test_exact(entry: Entry) -> None:
    evidence = exact.check(entry.identity)
    assert evidence.verdict == entry.identity.expected, evidence.message
    assert evidence.sizes, "no size was tried"


def test_refuted_ones_have_a_counterexample(entry: Entry) -> None:
    if entry.identity.expected != "refuted":
        pytest.skip("expected to hold")
    found = counterexample.smallest(entry.identity)
    assert found is not None
    assert found.left != found.right
    assert found.gap != "0"
