r"""PaTH: positions as products of Householder-like factors.

    A_ij = q_i^T (I - w_i w_i^T) ... (I - w_{j+1} w_{j+1}^T) k_j   for i >= j

Yang et al. 2025 (arXiv 2505.16381). As one matrix, with J = (I + (W W^T) . M^-)^-1:

    A = (Q K^T) . M - ((Q W^T) . M) J ((W K^T) . M^-)

The factors stand in descending order, the query's own leftmost. The paper has I - beta_s w_s w_s^T, which makes

    J = (I + D_beta ((W W^T) . M^-))^-1 D_beta

Softmax and scale are left out, as in document 000; path_fox.py has the softmax, without a gate and with one.
"""

from derivations.language import I, K, M, M_strict, Q, S, Sequence, V, beta, d_k, eye, gamma, i, j, k, n, q, s, t, v
from derivations.language import Chunkwise, Closed, Derivation, Eq, Gamma, Gamma_strict, Identity, Parameter
from derivations.language import Recurrence, Source, Statement, Transport, assume, diag, norm_squared, sqrt

W = Sequence("W", n, d_k)
w = W[t]
factor = eye(d_k) - W[s] @ W[s].T

product = Transport(Q[i], factor, K[j])
ascending = Transport(Q[i], factor, K[j], order="ascending")

system = I + (W @ W.T).hadamard(M_strict)
attention = (Q @ K.T).hadamard(M) - (Q @ W.T).hadamard(M) @ system.I @ (W @ K.T).hadamard(M_strict)
matrix = Closed(attention, name="A")
deltanet_matrix = Closed((Q @ K.T).hadamard(M) @ (I + (K @ K.T).hadamard(M_strict)).I, name="A")

# without the softmax, A V is a recurrence whose state is reflected by each token
recurrence = Recurrence(S, update=S @ (eye(d_k) - w @ w.T) + v @ k.T, readout=S @ q)
output = Closed(attention @ V)

# one block: queries are carried back to its start, keys forward to its end
Q_absolute = Q - (Q @ W.T).hadamard(M) @ system.I @ W
K_absolute = K - (K @ W.T).hadamard(M) @ system.I @ W
K_to_end = K - (W @ K.T).hadamard(M_strict).T @ system.T.I @ W
chunkwise = Chunkwise(
    S,
    update=S @ (eye(d_k) - W.T @ system.T.I @ W) + V.T @ K_to_end,
    readout=Q_absolute @ S.T + attention @ V,
)

# |w|^2 = 2: each factor is a reflection, and the product between two positions splits into one transform for each
split = Closed((Q_absolute @ K_absolute.T).hadamard(M), name="A")
reflected_twice = Recurrence(S, update=S @ (eye(d_k) - w @ w.T) @ (eye(d_k) - w @ w.T) + v @ k.T, readout=S @ q)
not_reflected = Recurrence(S, update=S + v @ k.T, readout=S @ q)
x = Parameter("x", d_k)
squared_factor = Closed((eye(d_k) - x @ x.T) @ (eye(d_k) - x @ x.T), name="R")
factor_and_rest = Closed(eye(d_k) + (norm_squared(x) - 2) * x @ x.T, name="R")
reflection = assume(Eq(norm_squared(w), 2), "only then is I - w w^T its own inverse")

# with a strength beta for each factor, as in the paper; the masks are M and M^-, or Gamma and Gamma^-
factor_with_beta = eye(d_k) - beta[s] * W[s] @ W[s].T
product_with_beta = Transport(Q[i], factor_with_beta, K[j])
system_with_beta = I + diag(beta) @ (W @ W.T).hadamard(M_strict)
J = system_with_beta.I @ diag(beta)


def scores(mask: Statement, strict: Statement) -> Statement:
    """A, with its masks."""
    system = I + diag(beta) @ (W @ W.T).hadamard(strict)
    corrections = system.I @ diag(beta) @ (W @ K.T).hadamard(strict)
    return (Q @ K.T).hadamard(mask) - (Q @ W.T).hadamard(mask) @ corrections


matrix_with_beta = Closed(scores(M, M_strict), name="A")
recurrence_with_beta = Recurrence(S, update=S @ (eye(d_k) - beta[t] * w @ w.T) + v @ k.T, readout=S @ q)
chunkwise_with_beta = Chunkwise(
    S,
    update=S @ (eye(d_k) - W.T @ J.T @ W) + V.T @ (K - (W @ K.T).hadamard(M_strict).T @ J.T @ W),
    readout=(Q - (Q @ W.T).hadamard(M) @ J @ W) @ S.T + scores(M, M_strict) @ V,
)
beta_nonnegative = assume(beta[t] >= 0, "the square root of beta is taken")
beta_once = Closed(
    (Q @ K.T).hadamard(M) - (Q @ W.T).hadamard(M) @ system_with_beta.I @ (W @ K.T).hadamard(M_strict), name="A"
)
gated_product = Transport(Q[i], gamma[s] * factor_with_beta, K[j])
gated_matrix = Closed(scores(Gamma, Gamma_strict), name="A")

path_attention = Derivation(
    "path_attention",
    title="PaTH attention",
    summary="The similarity of a query and a key passes through a product of I - w w^T over the tokens between them.",
    forms={
        "product": product,
        "matrix": matrix,
        "recurrence": recurrence,
        "chunkwise": chunkwise,
        "split": split,
        "product_with_beta": product_with_beta,
        "matrix_with_beta": matrix_with_beta,
        "recurrence_with_beta": recurrence_with_beta,
        "chunkwise_with_beta": chunkwise_with_beta,
    },
    identities=[
        Identity(
            "product_is_matrix",
            product,
            matrix,
            says="The product in descending order is a masked product minus a correction with one triangular system.",
            source="document 000, PaTH",
        ),
        Identity(
            "ascending_is_matrix",
            ascending,
            matrix,
            expected="refuted",
            says="In ascending order, the key's neighbour rightmost last, the product is another matrix.",
        ),
        Identity(
            "deltanet_at_w_equal_k",
            matrix.substitute({W: K}),
            deltanet_matrix,
            says="With W = K it is DeltaNet's matrix.",
        ),
        Identity("recurrent_is_matrix", recurrence, output, says="Without the softmax, A V is a recurrence."),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Token by token and block by block carry the same state.",
        ),
        Identity(
            "reflections_split",
            product,
            split,
            assumptions=(reflection,),
            says="With |w|^2 = 2 the relative transform is two absolute ones: Q and K, each less its DeltaNet of W.",
        ),
        Identity(
            "reflection_is_its_own_inverse",
            reflected_twice,
            not_reflected,
            assumptions=(reflection,),
            says="With |w|^2 = 2, reflecting twice is doing nothing.",
        ),
        Identity(
            "factor_squared",
            squared_factor,
            factor_and_rest,
            says="Without it, (I - x x^T)^2 = I + (|x|^2 - 2) x x^T: the factor is orthogonal for 0 and 2 alone.",
        ),
        Identity(
            "split_of_other_factors",
            product,
            split,
            expected="refuted",
            says="Where |w|^2 isn't 2, R_ij isn't R_i R_j^T.",
        ),
        Identity(
            "with_beta",
            product_with_beta,
            matrix_with_beta,
            says="With factors I - beta w w^T, J is (I + D_beta ((W W^T) . M^-))^-1 D_beta.",
        ),
        Identity(
            "beta_absorbed",
            product_with_beta,
            product.substitute({w: sqrt(beta[t]) * w}),
            assumptions=(beta_nonnegative,),
            says="Scaling w by sqrt(beta) takes beta in.",
        ),
        Identity(
            "beta_is_chunkwise",
            recurrence_with_beta,
            chunkwise_with_beta,
            says="With J in the place of the inverse, the blocks carry the same state.",
        ),
        Identity(
            "beta_once",
            product_with_beta,
            beta_once,
            expected="refuted",
            says="D_beta stands twice in J, inside the inverse and to its right.",
        ),
        Identity(
            "gates_in_the_product",
            gated_product,
            gated_matrix,
            says="A gate on each factor is Gamma in the place of M. So the scores fade, and not their exponentials.",
        ),
    ],
    sources=[Source("PaTH Attention", "Yang et al. 2025", "arXiv:2505.16381")],
)
