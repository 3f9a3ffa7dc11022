r"""Random features: exp(x^T y) is the mean of phi(x)^T phi(y) over random projections omega.

    positive:       phi(x) = exp(omega^T x - |x|^2 / 2),           E phi(x) phi(y) = exp(x^T y)
    trigonometric:  phi(x) = [cos(omega^T x), sin(omega^T x)],     E phi(x)^T phi(y) = exp(-|x - y|^2 / 2)

The mean is over omega ~ N(0, I). The first is that of Performer (Choromanski et al. 2020, arXiv 2009.14794), the second
that of RFA (Peng et al. 2021, arXiv 2103.02143). With m projections, the rows of Omega, it is linear attention with m
or 2m features: only the weights are approximate, the recurrence isn't.
"""

from sympy import Expr, Integral, Interval, Limit, cos, oo, pi, sin, sqrt, symbols
from sympy import exp as power_of_e

from derivations.feature_maps import m, phi_K, phi_k, phi_Q, phi_q
from derivations.feature_maps import recurrence as with_features
from derivations.language import M, Sequence, State, V, d_v, n, t, v
from derivations.language import POSITIVE, REALS, Equal, Fact, RangeWithin
from derivations.language import Closed, Derivation, Identity, Recurrence, Source
from derivations.language import Gate, Ne, Parameter, Symbol
from derivations.language import assume, block, diag, normalised, on_unit_circle, scalar

# positive features: phi_Q = exp(Q Omega^T) and phi_K = exp(K Omega^T) stay open, and so does f_k = exp(-|k|^2 / 2)
f = Gate("f")
recurrence = with_features.substitute({phi_k: f[t] * phi_k})
matrix = Closed(normalised((phi_Q @ phi_K.T @ diag(f)).hadamard(M)) @ V)

# a factor of the queries, one for each key, one for all keys
c = Symbol("c")
queries_scaled = with_features.substitute({phi_q: f[t] * phi_q})
all_keys_scaled = with_features.substitute({phi_k: c * phi_k})
f_not_zero = assume(Ne(f[t], 0), "a query without features has no weights")
c_not_zero = assume(Ne(c, 0), "without features no key has a weight")

# trigonometric features: cosines and sines beside one another
C_Q, S_Q, C_K, S_K = (Sequence(name, n, m) for name in ("C_Q", "S_Q", "C_K", "S_K"))
S, z = State("S", d_v, 2 * m), State("z", 2 * m, 1)
features_q, features_k = block([[C_Q[t]], [S_Q[t]]]), block([[C_K[t]], [S_K[t]]])
trigonometric = Recurrence(
    (S, z), update=(S + v @ features_k.T, z + features_k), readout=S @ features_q / scalar(z.T @ features_q)
)
cosines = C_Q @ C_K.T + S_Q @ S_K.T
trigonometric_matrix = Closed(normalised(cosines.hadamard(M)) @ V)

# all queries and keys moved by one vector: each projection turns by an angle with cosine a and sine b
a, b = Parameter("a", m, 1), Parameter("b", m, 1)
turned_Q = C_Q @ diag(a) - S_Q @ diag(b), C_Q @ diag(b) + S_Q @ diag(a)
turned_K = C_K @ diag(a) - S_K @ diag(b), C_K @ diag(b) + S_K @ diag(a)
turned_cosines = turned_Q[0] @ turned_K[0].T + turned_Q[1] @ turned_K[1].T
angles = on_unit_circle(a, b, "a turn keeps lengths")

x, y, w, r = symbols("x y w r", real=True)
sigma = Symbol("sigma", positive=True)


def normal_density(x: Expr, deviation: Expr | int = 1) -> Expr:
    """The density of N(0, deviation^2) at x."""
    return power_of_e(-(x**2) / (2 * deviation**2)) / (deviation * sqrt(2 * pi))


def mean(value: Expr, deviation: Expr | int = 1) -> Expr:
    """The mean of an expression in w over w ~ N(0, deviation^2)."""
    return Integral(value * normal_density(w, deviation), (w, -oo, oo))


def positive_feature(x: Expr) -> Expr:
    """One positive feature of a number x."""
    return power_of_e(w * x - x**2 / 2)


# three coordinates at once
ws, xs, ys = symbols("w_1:4", real=True), symbols("x_1:4", real=True), symbols("y_1:4", real=True)


def inner(x: tuple[Expr, ...], y: tuple[Expr, ...]) -> Expr:
    """x^T y."""
    return sum(a * b for a, b in zip(x, y, strict=True))


def density_at(x: tuple[Expr, ...]) -> Expr:
    """The density of N(0, I) at a vector x."""
    return power_of_e(-inner(x, x) / 2) / sqrt(2 * pi) ** len(x)


product_of_features = power_of_e(inner(ws, xs) - inner(xs, xs) / 2) * power_of_e(inner(ws, ys) - inner(ys, ys) / 2)
shifted = tuple(a - b - c for a, b, c in zip(ws, xs, ys, strict=True))
trigonometric_variance = power_of_e(r**2) * (1 - power_of_e(-(r**2))) ** 2 / 2

random_features = Derivation(
    "random_features",
    title="Random features",
    summary="Feature maps that are drawn at random, so that inner products of features have exponentials for a mean.",
    forms={"recurrence": recurrence, "matrix": matrix, "trigonometric": trigonometric},
    identities=[
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="Whatever was drawn, m features are carried as a state of d_v x m, without any further approximation.",
        ),
        Identity(
            "factor_of_queries_cancels",
            queries_scaled,
            with_features,
            assumptions=(f_not_zero,),
            says="A factor of a query's features, such as exp(-|q|^2 / 2), cancels in the ratio.",
        ),
        Identity(
            "factor_of_each_key_cancels",
            recurrence,
            with_features,
            carries=False,
            expected="refuted",
            says="A factor of each key's features doesn't: exp(-|k|^2 / 2) has to stay.",
        ),
        Identity(
            "factor_of_all_keys_cancels",
            all_keys_scaled,
            with_features,
            assumptions=(c_not_zero,),
            carries=False,
            says="A factor that all keys share cancels, so that their largest exponent may be taken off.",
        ),
        Identity(
            "trigonometric_recurrent_is_matrix",
            trigonometric,
            trigonometric_matrix,
            says="Cosines and sines beside one another are carried as a state of d_v x 2m.",
        ),
        Identity(
            "only_differences_matter",
            Closed(turned_cosines, name="A"),
            Closed(cosines, name="A"),
            assumptions=(angles,),
            says="Trigonometric features don't see it when all queries and keys are moved by one vector.",
        ),
    ],
    facts=[
        Fact(
            "positive_features_are_unbiased",
            Equal(mean(positive_feature(x) * positive_feature(y)), power_of_e(x * y)),
            says="The mean of exp(w x - x^2 / 2) exp(w y - y^2 / 2) over w ~ N(0, 1) is exp(x y).",
        ),
        Fact(
            "positive_features_of_vectors",
            Equal(product_of_features * density_at(ws), power_of_e(inner(xs, ys)) * density_at(shifted)),
            says="With vectors, the integrand is exp(x^T y) times the density around x + y, whose integral is one.",
        ),
        Fact(
            "cosines_and_sines",
            Equal(cos(w * x) * cos(w * y) + sin(w * x) * sin(w * y), cos(w * (x - y))),
            says="The cosines and sines of w x and w y multiply to the cosine of w (x - y).",
        ),
        Fact(
            "trigonometric_features_are_unbiased",
            Equal(mean(cos(w * (x - y))), power_of_e(-((x - y) ** 2) / 2)),
            says="Its mean over w ~ N(0, 1) is the Gaussian kernel exp(-(x - y)^2 / 2).",
        ),
        Fact(
            "exponential_by_the_gaussian_kernel",
            Equal(power_of_e(x**2 / 2) * power_of_e(-((x - y) ** 2) / 2) * power_of_e(y**2 / 2), power_of_e(x * y)),
            says="exp(x y) is the Gaussian kernel times a factor of x and a factor of y.",
        ),
        Fact(
            "cosine_is_the_gaussian_kernel",
            Equal(mean(cos(w * (x - y)), sigma), power_of_e(-(sigma**2) * (x - y) ** 2 / 2)),
            says="With w ~ N(0, sigma^2) that mean is exp(-sigma^2 (x - y)^2 / 2): the larger sigma, the narrower.",
        ),
        Fact(
            "wide_frequencies_give_a_wide_kernel",
            Equal(mean(cos(w * (x - y)), sigma), power_of_e(-((x - y) ** 2) / (2 * sigma**2))),
            expected="refuted",
            says="It isn't exp(-(x - y)^2 / (2 sigma^2)), which is wide where sigma is large.",
            source="a second-hand note on RFA",
        ),
        Fact(
            "narrow_frequencies_give_a_wide_kernel",
            Equal(mean(cos(w * (x - y)), 1 / sigma), power_of_e(-((x - y) ** 2) / (2 * sigma**2))),
            says="That kernel belongs to w ~ N(0, sigma^-2).",
        ),
        Fact(
            "positive_features_are_positive",
            RangeWithin(positive_feature(x).subs(x, 2), w, REALS, POSITIVE),
            says="A positive feature (here of x = 2) is positive for every w, and with it every weight.",
        ),
        Fact(
            "trigonometric_weights_are_nonnegative",
            RangeWithin(cos(r), r, REALS, Interval(0, oo)),
            expected="refuted",
            says="A trigonometric weight can be negative: that of w (x - y) = 3 is.",
        ),
        Fact(
            "variance_of_positive_features",
            Equal(mean((positive_feature(r)) ** 2) - 1, power_of_e(r**2) - 1),
            says="Relative to exp(x y), one positive feature has the variance exp((x + y)^2) - 1: none at y = -x.",
        ),
        Fact(
            "variance_of_trigonometric_features",
            Equal(
                power_of_e(r**2) * (mean((1 + cos(2 * w * r)) / 2) - power_of_e(-(r**2))),
                trigonometric_variance,
            ),
            says="One trigonometric feature has e^(r^2) (1 - e^(-r^2))^2 / 2 with r = x - y: none at y = x.",
        ),
        Fact(
            "small_weights_are_the_noisy_ones",
            Equal(Limit(trigonometric_variance, r, oo), oo),
            says="Where x and y are far apart and the weight is small, the trigonometric one is mostly noise.",
        ),
    ],
    sources=[
        Source("Rethinking Attention with Performers", "Choromanski et al. 2020", "arXiv:2009.14794"),
        Source("Random Feature Attention", "Peng et al. 2021", "arXiv:2103.02143"),
    ],
)
