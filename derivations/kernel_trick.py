r"""The exponential as an inner product: powers of q^T k are inner products of tensor powers, and exp is their sum.

    phi_m(x) = x (x) ... (x) x, m times:   phi_m(q)^T phi_m(k) = (q^T k)^m
    exp(q^T k) = sum over m of phi_m(q)^T phi_m(k) / m!

So softmax attention is a ratio of two linear attentions with infinitely many features (Su, kexue.fm 8601). Broken off
after m = N it is one with 1 + d_k + ... + d_k^N features; and no finite number of features is enough.
"""

from math import prod

from sympy import Basic, Integral, Matrix, Sum, factorial, oo, symbols
from sympy import exp as power_of_e
from sympy import log as natural_log

from derivations.feature_maps import phi_K, phi_Q
from derivations.language import K, M, Ones, Q, Rational, RowProducts, Sequence, State, V, d_k, k, n, q, t
from derivations.language import POSITIVE, REALS, Computed, Equal, Fact, Finding, HasShape, RangeWithin
from derivations.language import Chunkwise, Closed, Derivation, Identity, Recurrence, Source
from derivations.language import Symbol, block, diag, exp, log, scalar, softmax

one = Ones(n, 1)
scores = Q @ K.T

# one factor more: whatever features phi gives some similarity, phi (x) x gives it times q^T k
features_and_token = Closed(RowProducts(phi_Q, Q) @ RowProducts(phi_K, K).T, name="A")
similarity_times_score = Closed((phi_Q @ phi_K.T).hadamard(scores), name="A")

# up to second order; the weight 1 / 2! stands on the side of the keys
features_of_queries = block([[one, Q, RowProducts(Q, Q)]])
features_of_keys = block([[one, K, Rational(1, 2) * RowProducts(K, K)]])
half_twice = block([[one, Q, Rational(1, 2) * RowProducts(Q, Q)]])
second_order = Ones(n, n) + scores + scores.hadamard(scores) / 2

# the causal form for one column of V at a time: its values are added up alone, times k, and times k k^T
X = Sequence("X", n, 1)
x = X[t]
S_0, S_1, S_2 = State("S_0", 1, 1), State("S_1", 1, d_k), State("S_2", d_k, d_k)
recurrence = Recurrence(
    (S_0, S_1, S_2),
    update=(S_0 + x, S_1 + x @ k.T, S_2 + scalar(x) * k @ k.T),
    readout=S_0 + S_1 @ q + q.T @ S_2 @ q / 2,
)
matrix = Closed(second_order.hadamard(M) @ X)
quadratic = (Q @ S_2).hadamard(Q) @ Ones(d_k, 1)
chunkwise = Chunkwise(
    (S_0, S_1, S_2),
    update=(S_0 + X.T @ one, S_1 + X.T @ K, S_2 + K.T @ diag(X) @ K),
    readout=one @ S_0 + Q @ S_1.T + quadratic / 2 + second_order.hadamard(M) @ X,
)

# softmax attention: the same weights on the values and on ones
weights = exp(scores).hadamard(M)
attention = Closed(softmax(scores + log(M)) @ V)
ratio = Closed(diag(weights @ one).I @ (weights @ V))

z, y, s = symbols("x y s", real=True)
m = Symbol("m", integer=True, nonnegative=True)


def truncated(z: Basic, highest: int) -> Basic:
    """The exponential's series up to this power."""
    return sum(z**power / factorial(power) for power in range(highest + 1))


def remainder(highest: int) -> Equal:
    """What is left of the series after this power, as an integral."""
    left_over = Integral((z - s) ** highest / factorial(highest) * power_of_e(s), (s, 0, z))
    return Equal(power_of_e(z) - truncated(z, highest), left_over)


def powers_of_two(size: int) -> Matrix:
    """2^(i j) for i, j = 0 .. size - 1."""
    return Matrix(size, size, lambda i, j: 2 ** (i * j))


def scores_have_full_rank() -> Finding:
    """The rank of 2^(i j) at several sizes, and its determinant against Vandermonde's product."""
    sizes = range(2, 9)
    ranks = [powers_of_two(size).rank() for size in sizes]
    vandermonde = [prod(2**j - 2**i for j in range(size) for i in range(j)) for size in sizes]
    determinants = [powers_of_two(size).det() for size in sizes]
    return Finding(ranks == list(sizes) and determinants == vandermonde, f"ranks {ranks} for n = 2 to 8")


kernel_trick = Derivation(
    "kernel_trick",
    title="The kernel trick",
    summary="Softmax attention as linear attention: which features have the exponential for an inner product.",
    forms={"recurrence": recurrence, "matrix": matrix, "chunkwise": chunkwise},
    identities=[
        Identity(
            "one_factor_more",
            features_and_token,
            similarity_times_score,
            says="The Kronecker product with q and k multiplies a similarity by q^T k: by induction, any power.",
        ),
        Identity(
            "second_power",
            Closed(scores.hadamard(scores), name="A"),
            Closed(RowProducts(Q, Q) @ RowProducts(K, K).T, name="A"),
            says="(q^T k)^2 is the inner product of q (x) q and k (x) k.",
        ),
        Identity(
            "second_order_features",
            Closed(features_of_queries @ features_of_keys.T, name="A"),
            Closed(second_order, name="A"),
            says="1, x and x (x) x beside one another have the series up to second order for an inner product.",
        ),
        Identity(
            "weights_on_both_sides",
            Closed(half_twice @ features_of_keys.T, name="A"),
            Closed(second_order, name="A"),
            expected="refuted",
            says="1 / 2! may stand on one side only, or its root on each.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="The masked series up to second order is a recurrence with a state of 1 + d_k + d_k^2 for each value.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Token by token and block by block carry the same three sums.",
        ),
        Identity(
            "second_order_is_exponential",
            Closed(second_order, name="A"),
            Closed(exp(scores), name="A"),
            expected="refuted",
            says="The series up to second order isn't the exponential.",
        ),
        Identity(
            "softmax_is_a_ratio",
            attention,
            ratio,
            says="Softmax attention is linear attention on V over linear attention on ones.",
        ),
    ],
    facts=[
        Fact(
            "exponential_series",
            Equal(
                Sum(z**m / factorial(m) ** Rational(1, 2) * y**m / factorial(m) ** Rational(1, 2), (m, 0, oo)),
                power_of_e(z * y),
            ),
            says="The features x^m / sqrt(m!) for all m have the exponential for an inner product.",
        ),
        Fact("rest_after_second_order", remainder(2), says="What is left after second order, as an integral."),
        Fact("rest_after_third_order", remainder(3), says="What is left after third order, as an integral."),
        Fact(
            "second_order_is_positive",
            RangeWithin(truncated(z, 2), z, REALS, POSITIVE),
            says="Up to an even order the series is positive, so that the sum of weights can be divided by.",
        ),
        Fact(
            "third_order_is_positive",
            RangeWithin(truncated(z, 3), z, REALS, POSITIVE),
            expected="refuted",
            says="Up to an odd order it isn't.",
        ),
        Fact(
            "number_of_features",
            HasShape(block([[features_of_queries, RowProducts(Q, RowProducts(Q, Q))]]), (n, 1 + d_k + d_k**2 + d_k**3)),
            says="Up to third order there are 1 + d_k + d_k^2 + d_k^3 features.",
        ),
        Fact(
            "powers_of_two_are_scores",
            Equal(Matrix(3, 3, lambda i, j: power_of_e(i * natural_log(2) * j)), powers_of_two(3)),
            says="With one feature, q_i = i ln 2 and k_j = j, the matrix exp(Q K^T) is 2^(i j).",
        ),
        Fact("determinant", Equal(powers_of_two(3).det(), 6), says="For n = 3 its determinant is 6."),
        Fact(
            "exponentials_have_full_rank",
            Computed(scores_have_full_rank, "rank"),
            says="It is Vandermonde's matrix, of rank n for every n, although d_k = 1.",
        ),
        Fact(
            "features_bound_the_rank",
            Equal((Matrix(3, 2, symbols("a_1:7")) * Matrix(2, 3, symbols("b_1:7"))).det(), 0),
            says="With two features the similarities of three tokens have rank 2 at most: so for any finite number.",
        ),
    ],
    sources=[
        Source("Softmax attention as linear attention of infinite dimension", "Su", "https://kexue.fm/archives/8601")
    ],
)
