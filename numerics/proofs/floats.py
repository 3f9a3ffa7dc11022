"""Floating point: both sides in each precision at hand, within a tolerance that is computed from rounding noise.

The two sides round differently. How far each may be off its exact value is measured by evaluating it several times
with noise of the unit roundoff u (numerics/algebras/rounding_noise.py), row by row. The difference of the sides must
stay within MARGIN standard deviations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from array_api_compat import to_device

from derivations.language.errors import NoMeaning, UndefinedValue
from derivations.language.statements import Identity
from numerics.algebras.floats import Floats, numpy_float64
from numerics.evidence import Evidence, Verdict
from numerics.float_inputs import FAMILIES, float_inputs, rounded_inputs
from numerics.inputs import CannotDraw, Sizes
from numerics.proofs.compare import sides
from numerics.proofs.tolerances import MARGIN, Spread, Tolerances, spreads_between

SHARP = 1e-3
"""An input on which the tolerance reaches this share of the output tests nothing and isn't counted."""

LONG, RAGGED = Sizes(n=64, d_k=16, d_v=12, chunk=16), Sizes(n=33, d_k=5, d_v=7, chunk=8)
CASES = tuple((LONG if number % 2 else RAGGED, family) for number, family in enumerate(FAMILIES))
"""Lengths of a few hundred, and all families at all sizes, are drawn by Hypothesis in tests/test_floats.py."""
WHERE_REFUTED = ((Sizes(n=12, d_k=4, d_v=3, chunk=5), "plain"),)


@dataclass(frozen=True)
class Comparison:
    """How far two sides are apart, in units of the tolerance; `sharpness` is the tolerance as a share of the output."""

    error_over_tolerance: float
    sharpness: float
    where: str

    @property
    def vacuous(self) -> bool:
        return not self.sharpness < SHARP


def compare(identity: Identity, env: Mapping[Any, Any], algebra: Floats, tolerances: Tolerances) -> Comparison:
    """Both sides in the precision of `algebra`, against the noise that this precision makes.

    Args:
        env: float64 inputs that the precision represents exactly, see `rounded_inputs`.
        tolerances: of these inputs, see `tolerances_between`.

    Raises:
        UndefinedValue: a value overflows in this precision, or is none.
    """
    arrays = {key: value if isinstance(value, int) else algebra.asarray(value) for key, value in env.items()}
    worst = Comparison(0.0, 0.0, "")
    for pair, (tolerance, scale) in zip(sides(identity, arrays, algebra), tolerances, strict=True):
        left, right = _on_host(pair.left), _on_host(pair.right)
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            raise UndefinedValue(f"{pair.name} leaves the range of {algebra.name}")
        # below the smallest normal number a result is rounded absolutely, or flushed; what is zero stays zero
        tolerance = np.where(scale > 0, tolerance + MARGIN * algebra.smallest_normal, tolerance)
        ratio = _ratio(abs(left - right).max(axis=-1), tolerance)
        sharpness = max(worst.sharpness, float(_ratio(tolerance, scale).max()))
        row = int(ratio.reshape(-1, ratio.shape[-1]).max(axis=0).argmax())
        if ratio.max() >= worst.error_over_tolerance:
            worst = Comparison(float(ratio.max()), sharpness, f"{pair.name}, row {row + 1}")
        worst = replace(worst, sharpness=sharpness)
    return worst


def _on_host(value: Any) -> np.ndarray:
    """A float64 copy in NumPy's memory, from whatever device."""
    return np.asarray(to_device(value, "cpu"), np.float64)


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b with 0 / 0 = 0; what isn't finite counts as infinitely far off."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((a == 0) & (b == 0), 0.0, a / b)
    return np.where(np.isnan(ratio), np.inf, ratio)


class _Tally:
    """What the inputs of one identity showed."""

    def __init__(self) -> None:
        self.worst: dict[str, float] = {}
        self.not_counted: list[str] = []
        self.failure = ""
        self.counted = 0

    def add(self, algebra: Floats, label: str, found: Comparison) -> None:
        if found.vacuous:
            self.not_counted.append(f"{label}: the tolerance is {found.sharpness:.1g} of the output")
            return
        self.counted += 1
        self.worst[algebra.name] = max(self.worst.get(algebra.name, 0.0), found.error_over_tolerance)
        if found.error_over_tolerance > 1 and not self.failure:
            self.failure = f"{label}: {found.where} is off by {found.error_over_tolerance:.3g} tolerances"

    @property
    def verdict(self) -> Verdict:
        return "refuted" if self.failure else "holds" if self.counted else "vacuous"

    @property
    def message(self) -> str:
        return self.failure or ("" if self.counted else "no input tests anything: " + self.not_counted[0])


def check(
    identity: Identity, seed: int = 0, algebras: Sequence[Floats] = (), cases: Sequence[tuple[Sizes, str]] = CASES
) -> Evidence:
    """The floats rung of one identity, over all families of inputs."""
    begun, tally = perf_counter(), _Tally()
    cases = cases if identity.expected == "holds" else WHERE_REFUTED
    for number, (sizes, family) in enumerate(cases):
        rng = np.random.default_rng((seed, number))
        _try_case(identity, sizes, family, rng, algebras or (numpy_float64(),), tally)
    details: dict[str, Any] = {
        "seed": seed,
        "error_over_tolerance": {name: round(value, 4) for name, value in tally.worst.items()},
        "inputs": tally.counted,
    }
    if tally.not_counted:
        details["not_counted"] = tally.not_counted
    tried = tuple(dict.fromkeys(sizes for sizes, _ in cases))
    seconds = perf_counter() - begun
    return Evidence("floats", tally.verdict, tuple(s.as_json() for s in tried), seconds, tally.message, details)


def _try_case(
    identity: Identity, sizes: Sizes, family: str, rng: np.random.Generator, algebras: Sequence[Floats], tally: _Tally
) -> None:
    """Inputs in every precision. What all of them represent has one spread, in units of each one's roundoff; inputs
    that fulfil an assumption do so as far as a precision goes, so that these are drawn for each.
    """
    coarsest = max(algebra.unit_roundoff for algebra in algebras)
    shared: dict[float, tuple[dict[Any, Any], list[Spread]]] = {}
    for algebra in algebras:
        label = f"{family} at n = {sizes.n} in {algebra.name}"
        roundoff = algebra.unit_roundoff if identity.assumptions else coarsest
        try:
            with np.errstate(all="ignore"):
                if roundoff not in shared:
                    env = rounded_inputs(float_inputs(identity, sizes, rng, family), roundoff)
                    shared[roundoff] = env, spreads_between(identity, env, rng)
                env, spreads = shared[roundoff]
                tolerances = [spread.at(algebra.unit_roundoff) for spread in spreads]
                tally.add(algebra, label, compare(identity, env, algebra, tolerances))
        except (NoMeaning, UndefinedValue, CannotDraw, np.linalg.LinAlgError) as error:
            tally.not_counted.append(f"{label}: {error}")
