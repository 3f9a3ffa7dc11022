r"""Softmax attention: each query takes a weighted mean of the values so far, with the weights exp(k_j^T q_i).

Vaswani et al. 2017 (arXiv 1706.03762). As matrices, with the causal mask inside the exponential as log M, log 0 = -oo:

    O = softmax(Q K^T + log M) V = D^-1 A V,   A = exp(Q K^T) . M,   D = Diag(A 1)

The weights needn't be stored. A mean can be taken up token by token, from two sums that are kept at a scale exp(-m)
of their own (Milakov & Gimelshein 2018, arXiv 1805.02867), or block by block (FlashAttention, Dao et al. 2022, arXiv
2205.14135). There m is the largest score so far; the output is the same for any m.
"""

import numpy as np
from sympy import Matrix
from sympy import diag as diag_of

from derivations.language import K, M, Q, Sequence, State, V, d_k, d_v, exp, j, k, log, n, normalised, q, softmax, t, v
from derivations.language import Chunkwise, Closed, Counts, Derivation, Fact, HasShape, Identity, Recurrence, Source
from derivations.language import Computed, Finding, Form, Gate, Ones, Parameter, Statement, Symbol, TokenRows, TokenSum
from derivations.language import block, diag, nonzero, rank_is, scalar

A = Sequence("A", n, n)


def mean_of_values(weights: Statement) -> Form:
    """D^-1 A V for any weights A: each row's mean of the values."""
    return Closed(normalised(A) @ V).where(A, weights)


weights = exp(Q @ K.T).hadamard(M)
matrix = mean_of_values(weights)
log_mask = Closed(softmax(Q @ K.T + log(M)) @ V)
numerator = Closed(weights @ V)

similarity = exp(scalar(K[j].T @ q))
component_sum = TokenRows(
    TokenSum(similarity * V[j], j, 1, t) / scalar(TokenSum(similarity * Ones(1, 1), j, 1, t)),
)

# one query x over keys and values that come one after another: numerator and denominator, both at the scale exp(-m)
x = Parameter("x", d_k)
N, z, m = State("N", d_v, 1), State("z", 1, 1), State("m", 1, 1)
c = Gate("c")  # the shift after token t: the largest score so far, or any other number
rescaling, weight = exp(scalar(m) - c[t]), exp(scalar(k.T @ x) - c[t])
one = Ones(1, 1)
streaming = Recurrence(
    (N, z, m),
    update=(rescaling * N + weight * v, rescaling * z + weight * one, c[t] * one),
    readout=N / scalar(z),
)
without_rescaling = Recurrence((N, z, m), (N + weight * v, z + weight * one, c[t] * one), readout=N / scalar(z))

# by blocks of keys, with one shift for each block
block_rescaling, block_weights = exp(scalar(m) - c[n]), exp(K @ x - c[n] * Ones(n, 1))
seen = M @ diag(block_weights)  # row i: the weights of the block's tokens up to i
chunkwise = Chunkwise(
    (N, z, m),
    update=(
        block_rescaling * N + V.T @ block_weights,
        block_rescaling * z + Ones(1, n) @ block_weights,
        c[n] * one,
    ),
    readout=diag(block_rescaling * Ones(n, 1) @ z + seen @ Ones(n, 1)).I
    @ (block_rescaling * Ones(n, 1) @ N.T + seen @ V),
)

# any mask B of zeros and ones; row i of it says which keys token i sees
B = Sequence("B", n, n)
masked = exp(Q @ K.T).hadamard(B)
row = exp(K @ q).hadamard(B[t])
every_row_sees_a_key = nonzero(masked @ Ones(n, 1), "the mean of no values is 0 / 0")

scale = Symbol("scale")
full = Closed(softmax(Q @ K.T) @ V)
mask_as_factor = Closed(softmax((Q @ K.T).hadamard(M)) @ V)

# what one token costs while text is generated: one row, against the keys and values of all tokens so far
a = Parameter("a", 1, n)
one_row = Closed(normalised(a) @ V).where(a, exp(x.T @ K.T))

# scores q_i^T k_j with q_i = i ln 2 and k_j = j, whose exponentials are rational
powers_of_two = Matrix(3, 3, lambda row, column: 2 ** ((row + 1) * (column + 1)))
rational_softmax = diag_of(*(1 / sum(powers_of_two.row(number)) for number in range(3))) * powers_of_two


def overflowing_score() -> Finding:
    """exp(s) times zero, and exp(s + log 0), in float64, for the smallest s whose exponential overflows."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        score = next(float(s) for s in range(1000) if np.isinf(np.exp(float(s))))
        as_factor, as_logarithm = np.exp(score) * 0.0, np.exp(score + np.log(0.0))
    shown = f"exp({score:g}) * 0 = {as_factor}, exp({score:g} + log 0) = {as_logarithm}"
    return Finding(bool(np.isnan(as_factor) and as_logarithm == 0), shown)


softmax_attention = Derivation(
    "softmax_attention",
    title="Softmax attention",
    summary="Every query compares itself with all earlier keys, and takes the mean of their values by the softmax.",
    forms={
        "matrix": matrix,
        "log_mask": log_mask,
        "component_sum": component_sum,
        "streaming": streaming,
        "chunkwise": chunkwise,
    },
    identities=[
        Identity(
            "log_mask_is_a_factor",
            Closed(exp(Q @ K.T + log(M)), name="A"),
            Closed(weights, name="A"),
            says="Adding log M to the scores is multiplying their exponentials by M.",
            source="document 000, below the softmax",
        ),
        Identity(
            "softmax_is_matrix",
            log_mask,
            matrix,
            says="The softmax is A = exp(Q K^T) . M divided by its row sums D.",
            source="document 000, the form with D",
        ),
        Identity(
            "matrix_is_component_sum",
            matrix,
            component_sum,
            says="Row t of the output is the mean of v_1 .. v_t, weighted by exp(k_j^T q_t).",
        ),
        Identity(
            "any_mask",
            mean_of_values(masked),
            TokenRows(V.T @ row / scalar(Ones(1, n) @ row)),
            assumptions=(every_row_sees_a_key,),
            says="The same for any mask, wherever every row of it has a key to look at.",
            source="document 000, where M is any matrix of zeros and ones",
        ),
        Identity(
            "scaled_scores",
            mean_of_values(exp(scale * (Q @ K.T) + log(M))),
            matrix.substitute({q: scale * q}),
            says="A scale of the scores, 1 / sqrt(d_k) as a rule, is a scale of the queries.",
        ),
        Identity(
            "shift_of_a_row",
            matrix,
            mean_of_values(exp(Q @ K.T + c @ Ones(1, n) + log(M))),
            says="Adding a number to all scores of a row changes nothing.",
        ),
        Identity(
            "shift_of_a_column",
            matrix,
            mean_of_values(exp(Q @ K.T + Ones(n, 1) @ c.T + log(M))),
            expected="refuted",
            says="Adding a number to all scores of a key does change the output.",
        ),
        Identity(
            "streaming_is_matrix",
            streaming,
            matrix.substitute({q: x}),
            carries=False,
            says="Two rescaled sums give the same output for whatever shifts c: n^2 weights needn't be stored.",
            source="documents 000 and 003, against 'must be stored'",
        ),
        Identity(
            "streaming_is_chunkwise",
            streaming,
            chunkwise,
            says="Block by block, with one shift for each block, the sums end at the same values.",
        ),
        Identity(
            "streaming_without_rescaling",
            without_rescaling,
            matrix.substitute({q: x}),
            carries=False,
            expected="refuted",
            says="When the shift changes, what was summed up before has to be rescaled.",
        ),
        Identity(
            "mask_left_out",
            matrix,
            full,
            expected="refuted",
            says="softmax(Q K^T) V looks ahead: it isn't causal attention.",
            source="document 000, on the infinite-dimensional map",
        ),
        Identity(
            "mask_as_a_factor_of_scores",
            log_mask,
            mask_as_factor,
            expected="refuted",
            says="A score times zero is zero, which weighs exp(0) = 1: such a mask hides nothing.",
            source="DeltaNet Explained, part I",
        ),
        Identity(
            "numerator_alone",
            matrix,
            numerator,
            expected="refuted",
            says="(exp(Q K^T) . M) V is the numerator: the division by the row sums is missing.",
            source="document 000, the second table's first row",
        ),
        Identity(
            "softmax_reassociated",
            full,
            Closed(Q @ (softmax(K.T) @ V)),
            expected="refuted",
            says="The brackets can't be moved through a softmax: softmax(Q K^T) V isn't Q softmax(K^T) V.",
            source="document 003, on the order of the products",
        ),
    ],
    sources=[
        Source("Attention Is All You Need", "Vaswani et al. 2017", "arXiv:1706.03762"),
        Source("Online normalizer calculation for softmax", "Milakov & Gimelshein 2018", "arXiv:1805.02867"),
        Source("FlashAttention", "Dao et al. 2022", "arXiv:2205.14135"),
        Source("DeltaNet Explained, part I", "Yang 2024", "https://sustcsonglin.github.io/blog/2024/deltanet-1/"),
    ],
    facts=[
        Fact(
            "multiplications",
            Counts(matrix, "multiplications", n**2 * (d_k + d_v) + n * d_v),
            says="n^2 (d_k + d_v) multiplications for scores and means, and n d_v for the normalisation.",
            source="documents 001 and 003, 'quadratic'",
        ),
        Fact("exponentials", Counts(matrix, "exponentials", n**2), says="One exponential for each pair of tokens."),
        Fact(
            "largest_matrix",
            Counts(matrix, "largest value", n**2),
            says="The matrix form makes n x n weights on the way.",
            source="documents 000 and 003, on memory",
        ),
        Fact(
            "streaming_state",
            HasShape(block([[N], [z], [m]]), (d_v + 2, 1)),
            says="The streaming form keeps d_v + 2 numbers for a query, however long the sequence is.",
            source="documents 000 and 003, against 'must be stored'",
        ),
        Fact(
            "streaming_largest_vector",
            Counts(streaming, "largest value", d_v),
            says="Nothing that the streaming form makes on the way is larger than a value.",
        ),
        Fact(
            "saved_for_backward",
            Counts(matrix, "saved for backward", 2 * n**2 + 2 * n * (d_k + d_v) + n),
            says="As written, the matrix form keeps the weights before and after the mask for its backward pass.",
        ),
        Fact(
            "next_token",
            Counts(one_row, "multiplications", n * (d_k + d_v) + d_v),
            says="A new token costs n (d_k + d_v) multiplications, and d_v to normalise the output.",
            source="document 003, on inference with softmax",
        ),
        Fact(
            "cache",
            HasShape(block([[K, V]]), (n, d_k + d_v)),
            says="For that, the keys and values of all tokens are kept: a cache that grows with n.",
        ),
        Fact(
            "softmax_has_full_rank",
            rank_is(rational_softmax, 3),
            says="With d_k = 1, q_i = i ln 2 and k_j = j, softmax(Q K^T) has rank 3: no product n x 1 times 1 x n.",
            source="document 003, on associativity",
        ),
        Fact(
            "mask_as_a_factor_overflows",
            Computed(overflowing_score, "floats"),
            says="Of a large masked score, float64 makes infinity times zero with M as a factor, and zero with log M.",
        ),
    ],
)
