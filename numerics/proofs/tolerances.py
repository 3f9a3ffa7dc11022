"""Tolerances from rounding noise: how far a value may honestly be off, row by row.

The value is evaluated several times with noise of the unit roundoff u after each operation
(numerics/algebras/rounding_noise.py); the tolerance is MARGIN standard deviations of what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from derivations.language.forms import Form
from derivations.language.statements import Identity
from numerics.algebras.contract import Algebra
from numerics.algebras.floats import numpy_float64
from numerics.algebras.rounding_noise import RoundingNoise
from numerics.proofs.compare import sides
from numerics.run import Outcome, run

DRAWS_OF_NOISE = 6
MARGIN = 12.0
"""Noise draws estimate the standard deviation of a row's error with 6 x d entries each; true roundings are correlated
along a recurrence, which a margin of 12 deviations covers. A planted error of 10^-6 relative is far outside
(tests/test_rounding_noise.py measures it)."""
AUDIBLE = 2.0**-44
"""The least noise that is drawn: noise below half a unit in float64's last place would be rounded away again. Errors
are proportional to the noise, so that what is drawn at this level is scaled down to the level that was asked for."""
DRAWS_FOR_A_KERNEL = 16
"""More draws where inputs are computed too: the error of one gate is common to all entries of a row, so that these
don't count as draws of their own."""


Tolerances = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Spread:
    """How a pair of values spreads under rounding noise, row by row.

    Attributes:
        deviation: the standard deviation of their difference, in units of the unit roundoff.
        magnitude: the largest entry of each row.
        cancels: whether a side is zero because its terms cancel.
    """

    deviation: np.ndarray
    magnitude: np.ndarray
    cancels: bool

    def at(self, unit_roundoff: float) -> tuple[np.ndarray, np.ndarray]:
        """The tolerance per row in a precision, and the size of what it is a tolerance for.

        That size is the largest entry of the matrix. Where a side cancels, it is the size that the terms must have had
        for rounding to move them so far.
        """
        scale = self.deviation if self.cancels else self.magnitude
        tolerance = _tolerance(self.deviation * unit_roundoff, self.magnitude, unit_roundoff)
        return tolerance, np.broadcast_to(scale.max(axis=-1, keepdims=True), self.magnitude.shape)


def spreads_between(
    identity: Identity, env: Mapping[Any, Any], rng: np.random.Generator, level: float = AUDIBLE
) -> list[Spread]:
    """For each pair of values how they spread under noise of a level; errors are proportional to it."""
    clean = list(sides(identity, env, numpy_float64()))
    noisy = sides(identity, _repeated(env, DRAWS_OF_NOISE), RoundingNoise(level, rng))
    out = []
    for (_, left, right), drawn in zip(clean, noisy, strict=True):
        whole = (DRAWS_OF_NOISE, *np.broadcast_shapes(left.shape, right.shape))  # a constant side has no batch
        deviation = np.hypot(*(_deviation(np.broadcast_to(side, whole)) for side in (drawn.left, drawn.right)))
        magnitude = np.maximum(abs(left), abs(right)).max(axis=-1)
        out.append(Spread(deviation / level, magnitude, not (np.any(left) and np.any(right))))
    return out


def tolerances_between(
    identity: Identity, env: Mapping[Any, Any], unit_roundoff: float, rng: np.random.Generator
) -> Tolerances:
    """For each pair of values: the tolerance per row, and the size of what it is a tolerance for, see `Spread.at`."""
    spreads = spreads_between(identity, env, rng, max(unit_roundoff, AUDIBLE))
    return [spread.at(unit_roundoff) for spread in spreads]


@dataclass(frozen=True)
class Roundings:
    """How a kernel rounds.

    Attributes:
        unit_roundoff: u of the precision that it computes in, 2^-24 for float32.
        computed: inputs that it computes itself (a gate from its logarithm, a scaled query), with the relative error of
            each entry in units of that of sums.
        of_sums: the unit roundoff of sums, where that isn't u: 2^-24 for a kernel that takes products of bfloat16
            numbers and keeps sums and states in float32.
        cumulated: gates whose products are taken as exponentials of differences of cumulated logarithms.
    """

    unit_roundoff: float
    computed: Mapping[Any, np.ndarray | float] = field(default_factory=dict)
    of_sums: float | None = None
    cumulated: Collection[Any] = ()


def tolerances_of(
    form: Form, env: Mapping[Any, Any], roundings: Roundings | float, rng: np.random.Generator
) -> list[np.ndarray]:
    """How far a kernel may be off that computes a form in this order: for the output and each final state, per row.

    Args:
        form: the form whose order of operations is the kernel's (the chunkwise one for a chunked kernel).
        env: float64 inputs, with leading batch dimensions.
        roundings: how the kernel rounds, or the unit roundoff alone.
        rng: where the noise comes from.
    """
    how = roundings if isinstance(roundings, Roundings) else Roundings(roundings)
    return tolerances_of_values(lambda own, algebra: _values(run(form, own, algebra)), env, how, rng)


def tolerances_of_values(
    values: Callable[[Mapping[Any, Any], Algebra], Sequence[np.ndarray]],
    env: Mapping[Any, Any],
    how: Roundings,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """The same for whatever several values are computed together, given the environment and the number system."""
    clean = values(env, numpy_float64())
    level = max(how.unit_roundoff, AUDIBLE)
    noise = RoundingNoise(level, rng, level if how.of_sums is None else level * how.of_sums / how.unit_roundoff)
    repeated = _repeated(env, DRAWS_FOR_A_KERNEL)
    rounded = {x: noise.perturbed(repeated[x], size) for x, size in how.computed.items()}
    rounded |= {x: noise.from_cumulated_logarithms(rounded.get(x, repeated[x])) for x in how.cumulated}
    noisy = values({**repeated, **rounded}, noise)
    scale = how.unit_roundoff / level
    return [
        _tolerance(_deviation(drawn) * scale, abs(value).max(axis=-1), how.unit_roundoff, how.of_sums)
        for value, drawn in zip(clean, noisy, strict=True)
    ]


def _repeated(env: Mapping[Any, Any], times: int) -> dict[Any, Any]:
    """The same inputs several times, along a new leading dimension: each gets noise of its own."""
    return {x: v if isinstance(v, int) else np.broadcast_to(v, (times, *np.shape(v))) for x, v in env.items()}


def _values(outcome: Outcome) -> tuple[np.ndarray, ...]:
    return outcome.output, *outcome.states


def _tolerance(
    deviation: np.ndarray, magnitude: np.ndarray, unit_roundoff: float, of_sums: float | None = None
) -> np.ndarray:
    """MARGIN standard deviations of a row, whose largest entry is rounded at least once. A sum of a wider precision is
    rounded once more when it is handed back, by at most u.
    """
    if of_sums is None or of_sums >= unit_roundoff:
        return MARGIN * np.hypot(smoothed(deviation), unit_roundoff * magnitude)
    return MARGIN * np.hypot(smoothed(deviation), of_sums * magnitude) + unit_roundoff * magnitude


def _deviation(draws: np.ndarray) -> np.ndarray:
    """The standard deviation over the draws (the leading dimension). The variance is averaged over each row by the
    entries' own variances as weights, since in the row of an attention matrix a few entries may be as large as all
    others are small. It is that of the row over its largest entry: the square of a product of many gates underflows.
    """
    size = abs(draws).max(axis=(0, -1), keepdims=True)
    variance = np.var(draws / np.where(size > 0, size, 1), axis=0, ddof=1)
    largest = variance.max(axis=-1, keepdims=True)
    share = np.divide(variance, largest, out=np.zeros_like(variance), where=largest > 0)
    weight = np.maximum(share.sum(axis=-1), 1)
    return size[0, ..., 0] * np.sqrt(largest[..., 0] * (share**2).sum(axis=-1) / weight)


def smoothed(deviation: np.ndarray) -> np.ndarray:
    """The root of the mean square with the neighbouring rows, since few draws estimate one row's variance poorly."""
    if deviation.shape[-1] < 3:
        return deviation
    padded = np.concatenate([deviation[..., :1], deviation, deviation[..., -1:]], axis=-1)
    together = np.hypot(np.hypot(padded[..., :-2], padded[..., 1:-1]), padded[..., 2:])
    return np.maximum(deviation, together / np.sqrt(3))
