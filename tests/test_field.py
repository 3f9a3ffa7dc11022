"""Rung 3 over the catalogue: equal modulo a prime, with the error bound that the rung promises.

At n = 521 with d_k = 64 and d_v = 48 it is `attnproof verify` that runs it; here the sizes are smaller, except for the
identities of two systems, which are tried at twice that length too.
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


@pytest.mark.parametrize("length", [None, 1031])
@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("gated_deltanet.recurrent_is_matrix", 64),
        ("gated_deltanet.recurrent_is_chunkwise", 64),
        ("gated_deltanet.gamma_rewrite", 64),
        ("softmax_attention.softmax_is_matrix", None),
    ],
)
def test_field_at_production_size(name: str, width: int | None, length: int | None) -> None:
    """Scores in exponents need queries that are wider than the sequence is long."""
    entry = load_catalogue().select([name])[0]
    evidence = field.check(entry.identity, length=length)
    assert evidence.verdict == "holds", evidence.message
    size = evidence.sizes[0]
    assert size["n"] == (length or 521)
    assert (size["d_k"], size["d_v"]) == (width or size["n"] + 66, 48)
    assert evidence.details["error_bound"] < 2.0**-60
    assert ("bound_assumes" in evidence.details) == (width is None)
