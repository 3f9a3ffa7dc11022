"""Floats over the catalogue, drawn by Hypothesis: sizes from one to a few hundred, d_k and d_v apart, batches.

The families of inputs are gates near zero and near one, repeated keys, zero rows and large norms. NumPy float64 always;
Torch float64 and float32 where it is installed. The two sides must agree within the tolerance that rounding noise gives
(numerics/proofs/tolerances.py); inputs on which that tolerance tests nothing are drawn again.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from sympy import Rational

from attnproof.catalogue import Entry, load_catalogue
from attnproof.checking import float_systems
from derivations.language.errors import UndefinedValue
from derivations.language.statements import Identity
from numerics.algebras.floats import Floats
from numerics.float_inputs import FAMILIES, float_inputs, rounded_inputs
from numerics.inputs import CannotDraw, Sizes
from numerics.proofs import floats
from numerics.proofs.tolerances import tolerances_between

SYSTEMS = float_systems()

sizes = st.builds(
    Sizes,
    n=st.one_of(st.integers(1, 12), st.integers(1, 40), st.integers(41, 300)),
    d_k=st.integers(1, 12),
    d_v=st.integers(1, 12),
    chunk=st.integers(1, 40),
)


def test_floats(entry: Entry) -> None:
    """The rung itself in every precision; in the quick profile over the first of the six families that tests something,
    starting from another one for each identity. `attnproof verify` takes all of them.
    """
    first = crc32(entry.id.encode()) % len(FAMILIES)
    cases = [*floats.CASES[first:], *floats.CASES[:first]]
    tried = [cases] if settings.default.max_examples > 20 else [[case] for case in cases]
    for chosen in tried:
        evidence = floats.check(entry.identity, algebras=SYSTEMS, cases=chosen)
        if evidence.details["inputs"]:  # some families have no value, or none that is sharp enough, for some identities
            break
    assert evidence.verdict == entry.identity.expected, evidence.message
    assert evidence.details["inputs"] > 0


@settings(max_examples=max(2, settings.default.max_examples // 6), suppress_health_check=list(HealthCheck))
@given(
    size=sizes,
    family=st.sampled_from(FAMILIES),
    batch=st.integers(1, 3),
    algebra=st.sampled_from(SYSTEMS),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_sizes(holding: Entry, size: Sizes, family: str, batch: int, algebra: Floats, seed: int) -> None:
    found = compared(holding.identity, size, family, batch, seed, algebra)
    note(f"{algebra.name}: {found}")
    assert found.error_over_tolerance <= 1, f"{algebra.name}: {found.where}"


def compared(identity: Identity, size: Sizes, family: str, batch: int, seed: int, algebra: Floats) -> floats.Comparison:
    """One comparison, or an example that Hypothesis draws again because it has no value or tests nothing."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        try:
            drawn = float_inputs(identity, size, rng, family, batch)
            env = rounded_inputs(drawn, algebra.unit_roundoff)
            tolerances = tolerances_between(identity, env, algebra.unit_roundoff, rng)
            found = floats.compare(identity, env, algebra, tolerances)
        except (CannotDraw, UndefinedValue, np.linalg.LinAlgError):
            assume(False)
            raise
    assume(not found.vacuous)
    return found


@pytest.mark.parametrize("share", [Rational(1, 10**6), Rational(1, 10**9)])
def test_a_planted_error_is_found(share: Rational) -> None:
    """A relative error far below what a person would see, in one side of one identity."""
    identity = load_catalogue().select(["gated_deltanet.recurrent_is_matrix"])[0].identity
    right = identity.right
    wrong = identity.with_sides(identity.left, type(right)((1 + share) * right.expression))
    assert floats.check(wrong).verdict == "refuted"


def test_a_fixed_rate_is_rounded_the_same_way_at_every_token() -> None:
    """So that errors of its powers add up, where independent ones would cancel (found at 1.7 tolerances)."""
    (shifted,) = [x for x in load_catalogue().derivations["rwkv4"].identities if x.name == "recurrent_is_shifted"]
    found = compared(shifted, Sizes(n=296, d_k=1, d_v=5, chunk=1), "plain", batch=1, seed=0, algebra=SYSTEMS[0])
    assert SYSTEMS[0].name == "numpy float64"
    assert found.error_over_tolerance < 0.5
