r"""PaTH-FoX: softmax attention whose scores pass through a product of factors, and whose weights fade by gates.

    O = softmax(A + log Gamma) V,   A_ij = q_i^T (I - beta_i w_i w_i^T) ... (I - beta_{j+1} w_{j+1} w_{j+1}^T) k_j

Yang et al. 2025 (arXiv 2505.16381); the gates are those of forgetting attention (FoX, Lin et al. 2025, arXiv
2503.02130). A is the matrix of path_attention.py, without a scale; log 0 = -oo is the causal mask.
"""

from derivations.forgetting_attention import c, of_logarithms, ones, summed
from derivations.forgetting_attention import matrix as forgetting_attention
from derivations.language import Closed, Derivation, Gamma, Identity, M, M_strict, Reduction
from derivations.language import Sequence, Source, V, Zeros, beta, d_k, exp, gamma, log, n, softmax
from derivations.path_attention import W, scores
from derivations.softmax_attention import mean_of_values

X = Sequence("X", n, n)  # any scores
A = scores(M, M_strict)

matrix = Closed(softmax(A + log(Gamma)) @ V)
decayed = mean_of_values(exp(A).hadamard(Gamma))
biased = mean_of_values(exp(X - ones @ c.T + log(M)))
softmax_of_scores = Closed(softmax(X + log(M)) @ V)  # PaTH as the paper has it, with its softmax, if X is A

# neighbours: gates outside of the softmax, and no normaliser
outside = Closed(softmax(A + log(M)).hadamard(Gamma) @ V)
numerator = Closed(exp(A).hadamard(Gamma) @ V)

path_fox = Derivation(
    "path_fox",
    title="PaTH-FoX",
    summary="Softmax attention with the positions of PaTH in its scores and the gates of FoX on its weights.",
    forms={"matrix": matrix, "decayed": decayed},
    identities=[
        Identity(
            "log_decay_is_a_factor",
            matrix,
            decayed,
            says="Adding log Gamma to the scores is multiplying their exponentials by Gamma.",
        ),
        Identity(
            "decay_is_a_bias",
            mean_of_values(exp(X).hadamard(Gamma)).substitute(of_logarithms),
            biased.substitute({c: summed}),
            says="Whatever the scores, it is adding -c_j: the logarithms of the gates up to the key's own.",
        ),
        Identity(
            "no_gate_is_path",
            Closed(softmax(X + log(Gamma)) @ V).substitute({gamma: ones}),
            softmax_of_scores,
            says="With gates of one, log gates of zero, the softmax of the scores is left: PaTH.",
        ),
        Identity(
            "no_strength_is_fox",
            matrix.substitute({beta: 0 * ones}),
            forgetting_attention,
            says="With beta = 0 each factor is the identity, and forgetting attention is left.",
        ),
        Reduction(
            "no_direction_is_fox",
            matrix.substitute({W: Zeros(n, d_k)}),
            forgetting_attention,
            general="path_fox",
            special="forgetting_attention",
            condition="w = 0",
            says="With w = 0 too.",
        ),
        Identity(
            "gates_outside_the_softmax",
            matrix,
            outside,
            expected="refuted",
            says="Gates that multiply the softmax from outside shrink the output: the weights don't add up to one.",
        ),
        Identity(
            "mask_left_out",
            mean_of_values(exp(X + log(M))),
            mean_of_values(exp(X.hadamard(M))),
            expected="refuted",
            says="A is zero above the diagonal, which weighs exp(0) = 1: a softmax of it still needs log M.",
            source="document 000, PaTH",
        ),
        Identity(
            "not_without_the_normaliser",
            matrix,
            numerator,
            expected="refuted",
            says="The sum over exp(A) . Gamma alone isn't divided by the sum of the weights.",
        ),
    ],
    sources=[
        Source("PaTH Attention", "Yang et al. 2025", "arXiv:2505.16381"),
        Source("Forgetting Transformer", "Lin et al. 2025", "arXiv:2503.02130"),
    ],
)
