"""Rung 3 over the catalogue: equal modulo a prime, with the error bound that the rung promises.

At a length above a thousand with d_k = 64 and d_v = 48 it is `attnproof verify` that runs it; here the sizes are
smaller, except for the identities of one system.
"""

import pytest

from attnproof.catalogue import Entry, load_catalogue
from numerics.inputs import Sizes
from numerics.proofs import field

SIZES = Sizes(n=131, d_k=16, d_v=12, chunk=16)


def test_field(entry: Entry) -> None:
    expected = entry.identity.expected
    evidence = field.check(entry.identity, seed=7, sizes=SIZES if expected == "holds" else None)
    assert evidence.verdict == expected, evidence.message
    if expected == "holds":
        assert evidence.details["error_bound"] < 2.0**-60
        assert (evidence.details["degree"] / field.PRIME) ** evidence.details["trials"] < 2.0**-60


@pytest.mark.parametrize("name", ["recurrent_is_matrix", "recurrent_is_chunkwise", "gamma_rewrite"])
def test_field_at_production_size(name: str) -> None:
    entry = load_catalogue().select([f"gated_deltanet.{name}"])[0]
    evidence = field.check(entry.identity)
    assert evidence.verdict == "holds", evidence.message
    assert evidence.sizes[0]["n"] >= 1024
    assert (evidence.sizes[0]["d_k"], evidence.sizes[0]["d_v"]) == (64, 48)
    assert evidence.details["error_bound"] < 2.0**-60
