"""Planted errors: every small falsification of every identity is refuted, or proved to be the same formula.

The survivors that are proved equivalent are few and of a few kinds: a symmetric matrix transposed, a sign that is
squared, K for W where W = K is substituted, a change to a slope that is zero anyway.
"""

import pytest
from hypothesis import settings

from attnproof.catalogue import Entry
from derivations.language import Algorithm
from numerics.proofs import mutants

HOLES: dict[str, tuple[str, ...]] = {}
"""Survivors that are neither refuted nor proved equivalent, by identity. There are none."""
EVERY = 6 if settings.default.max_examples <= 20 else 1
"""Each sixth mutant in the quick profile; `attnproof mutants` and the deep profile try all."""
AT_LEAST, AT_LEAST_BESIDE_AN_ALGORITHM = (max(1, count // EVERY) for count in (10, 3))
"""An algorithm is a Python function, in which no errors are planted."""


def test_mutants(holding: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    found = mutants.fates(holding.identity, EVERY)
    refuted = [f for f in found if f.verdict == "refuted"]
    holes = tuple(f.mutant.change for f in found if f.verdict == "hole")
    with capsys.disabled():
        print(f"\n{holding.id}: {len(refuted)}/{len(found)} mutants refuted", end=" ")
    one_side = any(isinstance(side, Algorithm) for side in (holding.identity.left, holding.identity.right))
    assert len(refuted) >= (AT_LEAST_BESIDE_AN_ALGORITHM if one_side else AT_LEAST)
    assert holes == HOLES.get(holding.id, ())


def test_a_mutant_that_is_no_error_is_proved_equivalent(entry: Entry) -> None:
    """The identity itself, as a mutant that changed nothing, must survive modulo p and be proved."""
    same = mutants.fate(mutants.Mutant(entry.identity, "nothing"))
    assert same is not None
    assert same.verdict == ("equivalent" if entry.identity.expected == "holds" else "refuted")
