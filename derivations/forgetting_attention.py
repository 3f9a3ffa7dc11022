r"""Forgetting attention (FoX): softmax attention whose scores fade by a gate per token.

    O = softmax(Q K^T + log Gamma) V,   log Gamma_ij = c_i - c_j  for i >= j,   c_t = log gamma_1 + ... + log gamma_t

Lin et al. 2025 (arXiv 2503.02130). The gate gamma_t in (0, 1] is the sigmoid of a linear map of token t; here it is
given by its logarithm g_t, since the exponents are what the formula adds up.
"""

from derivations.alibi import biased_weights as alibi_weights
from derivations.alibi import counted, m, p
from derivations.language import Gamma, Gamma_shifted, Gamma_strict, K, M, Q, V, d_v, exp, gamma, j, k, log, n, q, t
from derivations.language import Closed, Derivation, Gate, GateProduct, Identity, Ones, Recurrence, Reduction, Source
from derivations.language import State, TokenRows, TokenSum, constant, diag, scalar, softmax, tau, v
from derivations.softmax_attention import mean_of_values, x
from derivations.softmax_attention import weights as softmax_weights

g, c = Gate("g"), Gate("c")
summed = M @ g  # c, the logarithms of the gates summed up
ones = Ones(n, 1)
of_logarithms = {gamma: exp(g)}

matrix = Closed(softmax(Q @ K.T + log(Gamma)) @ V)
decayed_weights = Closed(exp(Q @ K.T).hadamard(Gamma), name="A")
decayed = mean_of_values(decayed_weights.expression)
biased_weights = Closed(exp(Q @ K.T + c @ ones.T - ones @ c.T + log(M)), name="A")
biased = mean_of_values(biased_weights.expression)
keys_only = mean_of_values(exp(Q @ K.T - ones @ c.T + log(M)))
keys_scaled = mean_of_values(exp(Q @ K.T).hadamard(M) @ diag(exp(-c)))

numerator = Closed(exp(Q @ K.T).hadamard(Gamma) @ V)
component_sum = TokenRows(
    TokenSum(GateProduct(gamma[tau], tau, j + 1, t) * exp(scalar(K[j].T @ q)) * V[j], j, 1, t),
)

# for one query x, both sums fade like the states of linear attention
N, z = State("N", d_v, 1), State("z", 1, 1)
similarity = exp(scalar(k.T @ x))
recurrence = Recurrence(
    (N, z),
    update=(gamma[t] * N + similarity * v, gamma[t] * z + similarity * Ones(1, 1)),
    readout=N / scalar(z),
)

# neighbours: gates of the wrong tokens, and gates outside of the softmax
shifted = Closed(exp(Q @ K.T).hadamard(Gamma_shifted) @ V)
strict = Closed(exp(Q @ K.T).hadamard(Gamma_strict) @ V)
own_gate = mean_of_values(exp(Q @ K.T + c @ ones.T - ones @ c.T + ones @ g.T + log(M)))
outside = Closed(softmax(Q @ K.T + log(M)).hadamard(Gamma) @ V)

forgetting_attention = Derivation(
    "forgetting_attention",
    title="Forgetting attention",
    summary="Softmax attention with the decay mask of linear attention: the forgetting transformer, FoX.",
    forms={
        "matrix": matrix,
        "decayed": decayed,
        "biased": biased,
        "component_sum": component_sum,
        "recurrence": recurrence,
    },
    identities=[
        Identity(
            "log_decay_is_a_factor",
            Closed(exp(Q @ K.T + log(Gamma)), name="A"),
            decayed_weights,
            says="Adding log Gamma to the scores is multiplying their exponentials by Gamma.",
            source="document 000, the kernel with Gamma",
        ),
        Identity(
            "decay_is_a_bias",
            decayed_weights.substitute(of_logarithms),
            biased_weights.substitute({c: summed}),
            says="log Gamma_ij is c_i - c_j, the logarithms of the gates after j up to i.",
        ),
        Identity(
            "numerator_is_component_sum",
            numerator,
            component_sum,
            says="What token j weighs for token t is exp(k_j^T q_t) times the gates after j, up to t's own.",
        ),
        Identity(
            "only_the_key_counts",
            biased,
            keys_only,
            says="The query's own c_i is the same in its whole row and cancels: only -c_j matters.",
            source="document 000, 'a rate that depends on the input'",
        ),
        Identity(
            "a_weight_for_each_key",
            biased,
            keys_scaled,
            says="Each key has a weight exp(-c_j) of its own, the same for every query that sees it.",
        ),
        Identity(
            "one_query_is_recurrent",
            recurrence,
            decayed.substitute({q: x}),
            carries=False,
            says="For a given query, numerator and denominator are decayed sums.",
        ),
        Identity(
            "gate_of_the_key_too",
            biased.substitute({c: summed}),
            own_gate.substitute({c: summed}),
            expected="refuted",
            says="A token isn't faded by its own gate: the sum begins after j.",
        ),
        Identity(
            "shifted_mask",
            numerator,
            shifted,
            expected="refuted",
            says="Gamma^sh leaves the token itself out, and the query's own gate.",
        ),
        Identity(
            "strict_mask",
            numerator,
            strict,
            expected="refuted",
            says="Gamma^- leaves the token itself out: the first one would see nothing.",
        ),
        Identity(
            "not_without_the_normaliser",
            numerator,
            matrix,
            expected="refuted",
            says="Decayed linear attention in the exponential kernel is the numerator alone; FoX divides by the sums.",
            source="document 000, 'a rate that depends on the input'",
        ),
        Identity(
            "gates_outside_the_softmax",
            matrix,
            outside,
            expected="refuted",
            says="Gates that multiply the softmax from outside shrink the output: the weights don't add up to one.",
        ),
        Reduction(
            "constant_gate",
            decayed_weights.substitute({gamma: constant(exp(-m), n)}),
            alibi_weights.substitute({p: counted}),
            general="forgetting_attention",
            special="alibi",
            condition="gamma_t = exp(-m) for all t",
            says="With a constant gate the weights are those of ALiBi.",
            source="document 000, 'FoX is contextual ALiBi'",
        ),
        Reduction(
            "no_gate",
            decayed_weights.substitute({gamma: ones}),
            Closed(softmax_weights, name="A"),
            general="forgetting_attention",
            special="softmax_attention",
            condition="gamma_t = 1 for all t",
            says="With gates of one the weights are those of softmax attention.",
        ),
    ],
    sources=[Source("Forgetting Transformer", "Lin et al. 2025", "arXiv:2503.02130")],
)
