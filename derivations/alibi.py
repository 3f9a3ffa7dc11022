r"""ALiBi: every score loses m for each token between its query and its key.

    o_t is the mean of v_1 .. v_t with the weights exp(k_j^T q_t - m (t - j))

Press, Smith & Lewis 2021 (arXiv 2108.12409), section 3. As matrices, with p = (1, ..., n) the positions:

    O = softmax(Q K^T - m (p 1^T - 1 p^T) + log M) V = softmax(Q K^T + log Gamma) V,   gamma = exp(-m)

It is RetNet's decay by one constant gamma, applied to the exponentials of the scores.
"""

from sympy import Integer

from derivations.language import K, M, Q, Symbol, V, d_v, exp, j, k, log, n, q, t, v
from derivations.language import Closed, Decay, Derivation, Gate, Identity, Ones, Recurrence, Reduction, Source, State
from derivations.language import TokenRows, TokenSum, constant, scalar
from derivations.softmax_attention import mean_of_values, weights, x

m = Symbol("m")  # the slope of a head
p, ones = Gate("p"), Ones(n, 1)
bias = -m * (p @ ones.T - ones @ p.T)
counted = M @ ones  # the positions 1 .. n
Gamma = Decay(constant(exp(-m), n))

biased_weights = Closed(exp(Q @ K.T + bias + log(M)), name="A")
biased = mean_of_values(biased_weights.expression)
keys_only = mean_of_values(exp(Q @ K.T + m * ones @ p.T + log(M)))
matrix = biased.substitute({p: counted})
decayed = mean_of_values(exp(Q @ K.T).hadamard(Gamma))
numerator = Closed(exp(Q @ K.T).hadamard(Gamma) @ V)
component_sum = TokenRows(TokenSum(exp(-m) ** (t - j) * exp(scalar(K[j].T @ q)) * V[j], j, 1, t))

# for one query x, both sums fade by the same constant
N, z = State("N", d_v, 1), State("z", 1, 1)
similarity = exp(scalar(k.T @ x))
recurrence = Recurrence(
    (N, z),
    update=(exp(-m) * N + similarity * v, exp(-m) * z + similarity * Ones(1, 1)),
    readout=N / scalar(z),
)

# the numerator alone, without the query's position
numerator_of_keys = Closed(exp(Q @ K.T + m * ones @ p.T).hadamard(M) @ V).substitute({p: counted})

alibi = Derivation(
    "alibi",
    title="ALiBi",
    summary="Softmax attention with a penalty on distance, linear in it, in the place of position embeddings.",
    forms={
        "matrix": matrix,
        "decayed": decayed,
        "component_sum": component_sum,
        "recurrence": recurrence,
    },
    identities=[
        Identity(
            "decay_is_a_bias",
            biased_weights.substitute({p: counted}),
            Closed(exp(Q @ K.T).hadamard(Gamma), name="A"),
            says="The bias with log M is log Gamma of one constant gate, gamma = exp(-m).",
            source="document 000, 'a constant rate'",
        ),
        Identity(
            "numerator_is_component_sum",
            numerator,
            component_sum,
            says="The numerator is the sum of v_1 .. v_t, weighted by exp(k_j^T q_t) gamma^(t - j).",
        ),
        Identity(
            "only_the_key_counts",
            biased,
            keys_only,
            says="The query's position is the same in its whole row and cancels: m p_j is enough of a bias.",
        ),
        Identity(
            "one_query_is_recurrent",
            recurrence,
            decayed.substitute({q: x}),
            carries=False,
            says="For a given query, numerator and denominator are decayed sums.",
        ),
        Identity(
            "bias_reversed",
            matrix,
            mean_of_values(exp(Q @ K.T - bias + log(M))).substitute({p: counted}),
            expected="refuted",
            says="With the other sign, what lies further back counts more.",
        ),
        Identity(
            "not_without_the_normaliser",
            numerator,
            matrix,
            expected="refuted",
            says="RetNet in the exponential kernel is the numerator alone; ALiBi divides by the row sums.",
            source="document 000, 'a constant rate'",
        ),
        Identity(
            "numerator_of_the_keys",
            numerator,
            numerator_of_keys,
            expected="refuted",
            says="Without the normalisation, the query's position doesn't cancel.",
        ),
        Reduction(
            "no_slope",
            biased_weights.substitute({m: Integer(0)}),
            Closed(weights, name="A"),
            general="alibi",
            special="softmax_attention",
            condition="m = 0",
            says="Without a slope the weights are those of softmax attention.",
        ),
    ],
    sources=[Source("Train Short, Test Long", "Press, Smith & Lewis 2021, section 3", "arXiv:2108.12409")],
)
