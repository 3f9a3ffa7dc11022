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

import array_api_compat.numpy as xp
import numpy as np
from array_api_compat import to_device
from sympy import Basic, Eq

from derivations.language.errors import NoMeaning, UndefinedValue
from derivations.language.expressions import Statement
from derivations.language.forms import Form
from derivations.language.statements import Identity
from derivations.language.symbols import Gate, Named
from derivations.language.symbols import Sequence as TokenSequence
from numerics.algebras.floats import Floats
from numerics.algebras.rounding_noise import RoundingNoise
from numerics.evaluate import evaluate
from numerics.evidence import Evidence, Verdict
from numerics.inputs import DRAWS, CannotDraw, Plan, Sizes, add_values, base_point, fulfilled, plan, shape_of
from numerics.proofs.compare import sides
from numerics.run import Outcome, run

DRAWS_OF_NOISE = 6
MARGIN = 12.0
"""Noise draws estimate the standard deviation of a row's error with 6 x d entries each; true roundings are correlated
along a recurrence, which a margin of 12 deviations covers. A planted error of 10^-6 relative is far outside
(tests/test_rounding_noise.py measures it)."""
DRAWS_FOR_A_KERNEL = 16
"""More draws where inputs are computed too: the error of one gate is common to all entries of a row, so that these
don't count as draws of their own."""
SHARP = 1e-3
"""An input on which the tolerance reaches this share of the output tests nothing and isn't counted."""
FAMILIES = ("plain", "gates near one", "gates near zero", "repeated keys", "zero rows", "large norms")
LONG, RAGGED = Sizes(n=64, d_k=16, d_v=12, chunk=16), Sizes(n=33, d_k=5, d_v=7, chunk=8)
CASES = tuple((LONG if number % 2 else RAGGED, family) for number, family in enumerate(FAMILIES))
"""Lengths of a few hundred, and all families at all sizes, are drawn by Hypothesis in tests/test_floats.py."""
WHERE_REFUTED = ((Sizes(n=12, d_k=4, d_v=3, chunk=5), "plain"),)


def numpy_float64() -> Floats:
    """The floats that are always there."""
    return Floats(xp, np.float64)


def float_inputs(
    identity: Identity, sizes: Sizes, rng: np.random.Generator, family: str = "plain", batch: int = 2
) -> dict[Any, Any]:
    """Float64 inputs with a leading batch dimension that fulfil the assumptions.

    Args:
        family: one of FAMILIES.
        batch: the leading dimension (heads, say).

    Raises:
        CannotDraw: no draw fulfilled the assumptions.
    """
    how = plan(identity)
    dimensions = sizes.environment(identity)
    given = {getattr(key, "sequence", key) for key in how.values}
    for _ in range(DRAWS):
        env: dict[Any, Any] = dict(dimensions)
        for x in identity.inputs():
            if x not in given:
                env[x] = _draw(x, (batch, *shape_of(x, env)), how, rng, family)
        add_values(how, env, numpy_float64())
        if _fulfilled(identity, env):
            return env
    raise CannotDraw(f"no float input fulfils {' and '.join(map(str, identity.assumptions))} in {DRAWS} draws")


def _fulfilled(identity: Identity, env: dict[Any, Any]) -> bool:
    """Whether the conditions that aren't built into the draw hold in every matrix of the batch."""
    algebra, equations = numpy_float64(), plan(identity).equations
    checked = [a for a in identity.assumptions if not isinstance(a.condition, Eq) or a in equations]
    matrices = [evaluate(a.condition, env, algebra) for a in checked if isinstance(a.condition, Statement)]
    if any((np.linalg.matrix_rank(matrix) < matrix.shape[-1]).any() for matrix in matrices):
        return False  # rounding hides from elimination that a matrix is singular
    return all(fulfilled(a, env, algebra) for a in checked)


def _draw(x: Basic, shape: tuple[int, ...], how: Plan, rng: np.random.Generator, family: str) -> np.ndarray:
    if x in how.spheres:
        value = rng.normal(size=shape)
        if shape[-1] == 1:
            base_point(how.spheres[x], 1)  # refuses where the sphere has no such point
        return value * np.sqrt(float(how.spheres[x]) / (value**2).sum(axis=-1, keepdims=True))
    if isinstance(x, Gate) or not isinstance(x, Named) or x in how.signs:
        return _gates(shape, rng, family)
    value = rng.normal(size=shape) / np.sqrt(shape[-1])
    if family == "large norms":
        return value * 3
    if not isinstance(x, TokenSequence):
        return value
    if family == "repeated keys" and shape[-2] > 1:
        return np.repeat(value[..., ::2, :], 2, axis=-2)[..., : shape[-2], :]
    if family == "zero rows" and shape[-2] > 1:
        return value * (rng.random((*shape[:-1], 1)) > 0.25)
    return value


def _gates(shape: tuple[int, ...], rng: np.random.Generator, family: str) -> np.ndarray:
    uniform = rng.uniform(0.02, 1, shape)
    if family == "gates near one":
        return 1 - 1e-3 * uniform
    if family == "gates near zero":
        return 1e-3 * uniform
    return uniform


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


def rounded_inputs(env: Mapping[Any, Any], unit_roundoff: float) -> dict[Any, Any]:
    """The inputs as a precision represents them, in float64, so that rounding them is no error of the formula."""
    if unit_roundoff < 2.0**-50:
        return dict(env)
    return {key: value if isinstance(value, int) else _rounded(value, unit_roundoff) for key, value in env.items()}


def _rounded(value: np.ndarray, unit_roundoff: float) -> np.ndarray:
    mantissa, exponent = np.frexp(value)
    return np.ldexp(np.round(mantissa / (2 * unit_roundoff)) * (2 * unit_roundoff), exponent)


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b with 0 / 0 = 0; what isn't finite counts as infinitely far off."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((a == 0) & (b == 0), 0.0, a / b)
    return np.where(np.isnan(ratio), np.inf, ratio)


Tolerances = list[tuple[np.ndarray, np.ndarray]]


def tolerances_between(
    identity: Identity, env: Mapping[Any, Any], unit_roundoff: float, rng: np.random.Generator
) -> Tolerances:
    """For each pair of values: the tolerance per row, and the size of what it is a tolerance for.

    That size is the largest entry of the matrix. Where a side is zero because its terms cancel, it is the size that
    these terms must have had for rounding to move them so far.
    """
    clean = list(sides(identity, env, numpy_float64()))
    # float64 noise on top of float64 arithmetic: the noisy values are compared with one another, not with a cleaner one
    noisy = sides(identity, _repeated(env, DRAWS_OF_NOISE), RoundingNoise(unit_roundoff, rng))
    out = []
    for (_, left, right), drawn in zip(clean, noisy, strict=True):
        whole = (DRAWS_OF_NOISE, *np.broadcast_shapes(left.shape, right.shape))  # a constant side has no batch
        variance = _variance(np.broadcast_to(drawn.left, whole)) + _variance(np.broadcast_to(drawn.right, whole))
        magnitude = np.maximum(abs(left), abs(right)).max(axis=-1)
        cancels = not (np.any(left) and np.any(right))
        scale = np.sqrt(variance) / unit_roundoff if cancels else magnitude
        tolerance = _tolerance(variance, magnitude, unit_roundoff)
        out.append((tolerance, np.broadcast_to(scale.max(axis=-1, keepdims=True), magnitude.shape)))
    return out


def tolerances_of(
    form: Form,
    env: Mapping[Any, Any],
    unit_roundoff: float,
    rng: np.random.Generator,
    computed: Mapping[Any, np.ndarray | float] | None = None,
) -> list[np.ndarray]:
    """How far a kernel that computes a form in this order may be off: for the output and each final state, per row.

    Args:
        form: the form whose order of operations is the kernel's (the chunkwise one for a chunked kernel).
        env: float64 inputs, with leading batch dimensions.
        unit_roundoff: u of the precision that the kernel computes in, 2^-24 for float32.
        rng: where the noise comes from.
        computed: inputs that the kernel computes itself (a gate from its logarithm, a scaled query), with the relative
            error of each entry in units of u.
    """
    clean = _values(run(form, env, numpy_float64()))
    noise = RoundingNoise(unit_roundoff, rng)
    repeated = _repeated(env, DRAWS_FOR_A_KERNEL)
    rounded = {x: noise.perturbed(repeated[x], size) for x, size in (computed or {}).items()}
    noisy = _values(run(form, {**repeated, **rounded}, noise))
    return [
        _tolerance(_variance(drawn), abs(value).max(axis=-1), unit_roundoff)
        for value, drawn in zip(clean, noisy, strict=True)
    ]


def _repeated(env: Mapping[Any, Any], times: int) -> dict[Any, Any]:
    """The same inputs several times, along a new leading dimension: each gets noise of its own."""
    return {x: v if isinstance(v, int) else np.broadcast_to(v, (times, *np.shape(v))) for x, v in env.items()}


def _values(outcome: Outcome) -> tuple[np.ndarray, ...]:
    return outcome.output, *outcome.states


def _tolerance(variance: np.ndarray, magnitude: np.ndarray, unit_roundoff: float) -> np.ndarray:
    """MARGIN standard deviations of a row, whose largest entry is rounded at least once."""
    return MARGIN * np.sqrt(_smoothed(variance) + (unit_roundoff * magnitude) ** 2)


def _variance(draws: np.ndarray) -> np.ndarray:
    """The variance over the draws (the leading dimension), averaged over each row."""
    return np.var(draws, axis=0, ddof=1).mean(axis=-1)


def _smoothed(variance: np.ndarray) -> np.ndarray:
    """The mean with the neighbouring rows, since few draws estimate one row's variance poorly."""
    if variance.shape[-1] < 3:
        return variance
    padded = np.concatenate([variance[..., :1], variance, variance[..., -1:]], axis=-1)
    return np.maximum(variance, (padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:]) / 3)


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


def check(identity: Identity, seed: int = 0, algebras: Sequence[Floats] = ()) -> Evidence:
    """The floats rung of one identity, over all families of inputs."""
    begun, tally = perf_counter(), _Tally()
    cases = CASES if identity.expected == "holds" else WHERE_REFUTED
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
    """One draw of inputs, in every precision; precisions with the same unit roundoff share a tolerance."""
    shared: dict[float, tuple[dict[Any, Any], Tolerances]] = {}
    for algebra in algebras:
        label = f"{family} at n = {sizes.n} in {algebra.name}"
        try:
            with np.errstate(all="ignore"):
                if algebra.unit_roundoff not in shared:
                    env = rounded_inputs(float_inputs(identity, sizes, rng, family), algebra.unit_roundoff)
                    shared[algebra.unit_roundoff] = env, tolerances_between(identity, env, algebra.unit_roundoff, rng)
                env, tolerances = shared[algebra.unit_roundoff]
                tally.add(algebra, label, compare(identity, env, algebra, tolerances))
        except (NoMeaning, UndefinedValue, CannotDraw, np.linalg.LinAlgError) as error:
            tally.not_counted.append(f"{label}: {error}")
