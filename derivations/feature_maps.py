r"""Linear attention with a feature map: exp(q^T k) becomes phi(q)^T phi(k), still divided by its sum over the keys.

    S_t = S_{t-1} + v_t phi(k_t)^T,   z_t = z_{t-1} + phi(k_t),   o_t = S_t phi(q_t) / (z_t^T phi(q_t))

    O = D^-1 ((phi(Q) phi(K)^T) . M) V,   D: the sums of the rows on the diagonal

Katharopoulos et al. 2020 (arXiv 2006.16236), where phi = elu + 1. The identities leave phi open: the features are
sequences phi_Q and phi_K of a width m of their own, and what holds for them holds for every feature map.
"""

from itertools import product

from sympy import Derivative, Expr, Interval, Limit, Matrix, Piecewise, Pow, floor, oo
from sympy import exp as power_of_e
from sympy import log as natural_log

from derivations.language import M, Ones, Sequence, State, V, d_v, dimension, j, n, t, v
from derivations.language import NEGATIVE, POSITIVE, REALS, Computed, Equal, Fact, Finding, RangeWithin
from derivations.language import Chunkwise, Closed, Derivation, Identity, Recurrence, Source, TokenRows, TokenSum
from derivations.language import Rational, Symbol, diag, normalised, scalar

m = dimension("m")
phi_Q, phi_K = Sequence("phi_Q", n, m), Sequence("phi_K", n, m)
phi_q, phi_k = phi_Q[t], phi_K[t]
S, z = State("S", d_v, m), State("z", m, 1)
one = Ones(n, 1)

write = (S + v @ phi_k.T, z + phi_k)
recurrence = Recurrence((S, z), update=write, readout=S @ phi_q / scalar(z.T @ phi_q))
unnormalised_sum = TokenSum(V[j] @ (phi_K[j].T @ phi_q), j, 1, t)
component_sum = TokenRows(unnormalised_sum / scalar(TokenSum(phi_K[j].T @ phi_q, j, 1, t)))
weights = (phi_Q @ phi_K.T).hadamard(M)
matrix = Closed(normalised(weights) @ V)

# one block: numerator and denominator each have a part from before the block and a part from within it
block_write = (S + V.T @ phi_K, z + phi_K.T @ one)
numerator = phi_Q @ S.T + weights @ V
chunkwise = Chunkwise((S, z), update=block_write, readout=diag(phi_Q @ z + weights @ one).I @ numerator)

# without a mask: two sums over all tokens, which each query reads
noncausal = Closed(diag(phi_Q @ (phi_K.T @ one)).I @ phi_Q @ (phi_K.T @ V))
noncausal_weights = normalised(phi_Q @ phi_K.T)

# the published code adds epsilon = 1e-6 to each denominator
epsilon = Symbol("epsilon")
recurrence_epsilon = Recurrence((S, z), update=write, readout=S @ phi_q / (scalar(z.T @ phi_q) + epsilon))
matrix_epsilon = Closed(diag(weights @ one + epsilon * one).I @ weights @ V)
values_one = {V: Ones(n, d_v)}

# neighbours that are easily mistaken for it: no denominator, one that forgets, one that sees the future
unnormalised = TokenRows(unnormalised_sum)
z_forgotten = Chunkwise((S, z), update=block_write, readout=diag(weights @ one).I @ numerator)
denominator_of_all = Closed(diag(phi_Q @ (phi_K.T @ one)).I @ weights @ V)


def elu(x: Expr, alpha: Expr | int = 1) -> Expr:
    """The exponential linear unit: x above zero, alpha (e^x - 1) below."""
    return Piecewise((x, x > 0), (alpha * (power_of_e(x) - 1), True))


x, y = Symbol("x", positive=True), Symbol("y", positive=True)
alpha, below = Symbol("alpha", positive=True), Symbol("x", negative=True)
s_1, s_2, score = Symbol("s_1", positive=True), Symbol("s_2", positive=True), Symbol("s", real=True)


def elu_plus_one_in_floats(x: Expr, bits: int) -> Expr:
    """(e^x - 1) + 1 where floats have `bits` bits and e^x - 1, between -1 and -1/2, goes to the nearest of them.

    There is no tie, since e^x isn't rational where x is; and the sum is exact.
    """
    return floor((power_of_e(x) - 1) * 2**bits + Rational(1, 2)) / Pow(2, bits) + 1


def vanishes_below(bits: int, units: int) -> Computed:
    """elu + 1 in floats is 0 at the last hundredth below -units ln 2, and 2^-bits at the first one above."""

    def find() -> Finding:
        last = floor(-100 * units * natural_log(2)) / 100
        first = last + Rational(1, 100)
        at_last, at_first = (elu_plus_one_in_floats(point, bits) for point in (last, first))
        shown = f"{at_last} at {last.n(4)} and {at_first.n(3)} at {first.n(4)}, with {bits} bits"
        return Finding(at_last == 0 and at_first == Pow(2, -bits), shown)

    return Computed(find, "rounding")


def one_unit_off() -> Finding:
    """How far -1 is from e^x - 1 in units of the last place of float32, on either side of -24 ln 2."""
    units = [power_of_e(Rational(point)) * 2**24 for point in ("-16.64", "-16.63")]
    return Finding(bool(units[0] < 1 < units[1]), f"{units[0].n(4)} units at -16.64, {units[1].n(4)} at -16.63")


def positive_far_below_zero() -> Finding:
    """Whether elu(x) + 1 tends to a positive value as x falls."""
    limit = Limit(elu(-x) + 1, x, oo).doit()
    return Finding(bool(limit > 0), f"the limit is {limit}")


PAIRS = tuple(product(range(-2, 3), repeat=2))
"""Pairs of small numbers, in which a search finds what it looks for."""


def rows_with_negative_entries_have_no_weights() -> Finding:
    """Whether no row of two similarities with a negative one can be divided by its sum to sum to one."""
    rows = [Matrix([pair]) for pair in PAIRS if min(pair) < 0]
    normalised_rows = [row for row in rows if sum(row) and sum(row / sum(row)) == 1]
    examples = ", ".join(str(tuple(row)) for row in normalised_rows[-2:])
    return Finding(not normalised_rows, f"{len(normalised_rows)} of {len(rows)} can, among them {examples}")


def relu_features_have_weights() -> Finding:
    """Whether ReLU's features of one query and one key always have a product that can be divided by."""
    undefined = [(q, k) for q, k in PAIRS if max(q, 0) * max(k, 0) == 0]
    queries = [str(q) for q, k in undefined if k == 1]
    return Finding(
        not undefined, f"0 / 0 for {len(undefined)} of {len(PAIRS)} pairs; at k = 1 for q = {', '.join(queries)}"
    )


def outside_the_hull() -> Finding:
    """Weights that sum to one, with one negative, on the values 1 and -1."""
    output = (Matrix([[2, -1]]) * Matrix([1, -1]))[0]
    return Finding(bool(abs(output) > 1), f"2 * 1 - 1 * (-1) = {output}")


feature_maps = Derivation(
    "feature_maps",
    title="Linear attention with a feature map",
    summary="Softmax attention with inner products of features in the place of exponentials: two sums and their ratio.",
    forms={
        "recurrence": recurrence,
        "component_sum": component_sum,
        "matrix": matrix,
        "chunkwise": chunkwise,
        "noncausal": noncausal,
        "recurrence_epsilon": recurrence_epsilon,
    },
    identities=[
        Identity(
            "recurrent_is_component_sum",
            recurrence,
            component_sum,
            says="S sums the values weighted by their keys' features, z the features: their ratio is a weighted mean.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="The recurrence is the masked product of the features, each row divided by its sum.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Block by block both sums are carried, and divided only after both parts are added.",
        ),
        Identity(
            "noncausal_reassociated",
            noncausal,
            Closed(noncausal_weights @ V),
            says="Without a mask the normalised product is phi(Q) (phi(K)^T V) over phi(Q) (phi(K)^T 1).",
        ),
        Identity(
            "recurrent_is_matrix_with_epsilon",
            recurrence_epsilon,
            matrix_epsilon,
            says="With epsilon in the denominator the two are equal as well, if both have it.",
            source="idiap/fast-transformers, causal_linear_attention.py",
        ),
        Identity(
            "weights_sum_to_one",
            matrix.substitute(values_one),
            Closed(Ones(n, d_v)),
            says="Values that are all one come back as one, whatever the signs of the features.",
        ),
        Identity(
            "weights_sum_to_one_with_epsilon",
            matrix_epsilon.substitute(values_one),
            Closed(Ones(n, d_v)),
            expected="refuted",
            says="With epsilon the weights don't sum to one.",
        ),
        Identity(
            "epsilon_left_out",
            recurrence_epsilon,
            matrix,
            expected="refuted",
            says="A reference without epsilon isn't what the published code computes.",
        ),
        Identity(
            "normaliser_left_out",
            unnormalised,
            matrix,
            expected="refuted",
            says="Without the denominator the outputs are others.",
        ),
        Identity(
            "normaliser_left_out_of_A",
            Closed(noncausal_weights, name="A"),
            Closed(phi_Q @ phi_K.T, name="A"),
            expected="refuted",
            says="phi(q)^T phi(k) isn't the attention weight A_ij: the sum over the keys is missing.",
            source="document 003, section 3.1",
        ),
        Identity(
            "z_not_carried",
            z_forgotten,
            recurrence,
            expected="refuted",
            says="A block that normalises by its own keys alone forgets the weights of all earlier ones.",
        ),
        Identity(
            "normaliser_of_all_tokens",
            recurrence,
            denominator_of_all,
            expected="refuted",
            says="In the causal form the denominator is a running sum: that of all tokens knows the future.",
        ),
    ],
    facts=[
        Fact(
            "elu_above_zero",
            Equal(elu(x) + 1, x + 1),
            says="For x > 0, elu(x) + 1 is x + 1.",
            source="document 003, question 1",
        ),
        Fact("elu_below_zero", Equal(elu(-x) + 1, power_of_e(-x)), says="For x < 0, elu(x) + 1 is e^x itself."),
        Fact(
            "elu_below_zero_with_alpha",
            Equal(elu(-x, alpha) + 1, alpha * power_of_e(-x) + 1 - alpha),
            says="For x < 0 and any alpha it is alpha e^x + 1 - alpha.",
        ),
        Fact(
            "elu_below_zero_as_printed",
            Equal(elu(-x, alpha) + 1, alpha * power_of_e(-x) + 1),
            expected="refuted",
            says="alpha e^x + 1, as printed, has not taken alpha away.",
            source="document 003, question 1",
        ),
        Fact(
            "elu_far_below_zero",
            Equal(Limit(elu(-x, alpha) + 1, x, oo), 1 - alpha),
            says="As x falls, elu(x) + 1 tends to 1 - alpha: it is never negative exactly if alpha <= 1.",
        ),
        Fact(
            "elu_tends_to_a_positive_value",
            Computed(positive_far_below_zero, "limit"),
            expected="refuted",
            says="With alpha = 1 it tends to 0, not to a positive value.",
            source="document 003, question 1",
        ),
        Fact(
            "elu_is_positive",
            RangeWithin(elu(below) + 1, below, NEGATIVE, POSITIVE),
            says="With alpha = 1 elu + 1 is positive below zero too, as exact numbers go.",
            source="document 003, question 1",
        ),
        Fact(
            "elu_is_positive_for_alpha_two",
            RangeWithin(elu(below, 2) + 1, below, NEGATIVE, Interval(0, oo)),
            expected="refuted",
            says="With alpha = 2 it falls to -1.",
        ),
        Fact(
            "vanishes_in_float32",
            vanishes_below(24, 25),
            says="In float32, rounded to nearest, elu(x) + 1 is exactly 0 below -25 ln 2 = -17.33.",
        ),
        Fact("vanishes_in_float16", vanishes_below(11, 12), says="In float16 it is 0 below -12 ln 2 = -8.32."),
        Fact("vanishes_in_bfloat16", vanishes_below(8, 9), says="In bfloat16 it is 0 below -9 ln 2 = -6.24."),
        Fact(
            "vanishes_sooner_in_float32",
            Computed(one_unit_off, "rounding"),
            says="An e^x - 1 that may be off by one unit in the last place may give 0 from -24 ln 2 = -16.64 on.",
        ),
        Fact(
            "approximates_the_exponential",
            Equal(elu(Rational(3)) + 1, power_of_e(3)),
            expected="refuted",
            says="elu + 1 is no approximation of the exponential: at 3 it is 4 instead of 20.09.",
            source="document 003, section 3.1",
        ),
        Fact(
            "the_exponential_outgrows_it",
            Equal(Limit(power_of_e(x) / (elu(x) + 1), x, oo), oo),
            says="The ratio of e^x and elu(x) + 1 is unbounded.",
        ),
        Fact(
            "relative_error_tends_to_one",
            Equal(Limit(1 - (elu(x) + 1) / power_of_e(x), x, oo), 1),
            says="Relative to e^x the error of elu(x) + 1 tends to 100 %.",
        ),
        Fact(
            "product_below_zero",
            Equal((elu(-x) + 1) * (elu(-y) + 1), power_of_e(-(x + y))),
            says="For q, k < 0 (one feature) the similarity is e^(q+k).",
        ),
        Fact(
            "product_below_zero_is_exponential",
            Equal((elu(-x) + 1) * (elu(-y) + 1), power_of_e(x * y)),
            expected="refuted",
            says="It isn't e^(q k), although elu + 1 is the exponential there.",
        ),
        Fact(
            "negative_similarities_cant_be_normalised",
            Computed(rows_with_negative_entries_have_no_weights, "search"),
            expected="refuted",
            says="Similarities need not be nonnegative for their weights to sum to one: 2 and -1 do.",
            source="document 001, on denominators",
        ),
        Fact(
            "negative_weights_leave_the_hull",
            Computed(outside_the_hull, "arithmetic"),
            says="What a negative weight costs: the values 1 and -1 with weights 2 and -1 give 3.",
        ),
        Fact(
            "nonnegative_features_can_be_normalised",
            Computed(relu_features_have_weights, "search"),
            expected="refuted",
            says="Nonnegative features aren't enough: ReLU's at q = -1 and k = 1 give 0 / 0.",
            source="document 001, on denominators",
        ),
        Fact(
            "slope_of_a_normalised_weight",
            Equal(Derivative(s_1 / (s_1 + s_2), s_1), s_2 / (s_1 + s_2) ** 2),
            says="The weight s_1 / (s_1 + s_2) changes with s_1 at the rate s_2 / (s_1 + s_2)^2.",
        ),
        Fact(
            "slope_is_unbounded",
            Equal(Limit(Derivative(s_1 / (s_1 + s_2), s_1).doit().subs({s_1: x, s_2: x}), x, 0), oo),
            says="Where all similarities are small, that rate is unbounded.",
            source="document 001, on normalising along the sequence",
        ),
        Fact(
            "slope_of_softmax",
            RangeWithin(
                Derivative(1 / (1 + power_of_e(-score)), score).doit(), score, REALS, Interval(0, Rational(1, 4))
            ),
            says="A weight of softmax changes with its score at a rate of 1/4 at most.",
        ),
    ],
    sources=[
        Source("Transformers are RNNs", "Katharopoulos et al. 2020", "arXiv:2006.16236"),
        Source("fast-transformers", "causal_linear_attention.py", "https://github.com/idiap/fast-transformers"),
    ],
)
