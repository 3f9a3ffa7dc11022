r"""PaTH: positions as products of Householder-like factors.

    A_ij = q_i^T (I - w_i w_i^T) ... (I - w_{j+1} w_{j+1}^T) k_j   for i >= j

Yang et al. 2025 (arXiv 2505.16381). As one matrix, with J = (I + (W W^T) . M^-)^-1:

    A = (Q K^T) . M - ((Q W^T) . M) J ((W K^T) . M^-)

The factors stand in descending order, the query's own leftmost. Softmax and scale are left out, as in document 000.
"""

from derivations.language import I, K, M, M_strict, Q, S, Sequence, V, d_k, eye, i, j, k, n, q, s, t, v
from derivations.language import Chunkwise, Closed, Derivation, Eq, Identity, Recurrence, Source, Transport
from derivations.language import assume, norm_squared

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
reflection = assume(Eq(norm_squared(w), 2), "only then is I - w w^T its own inverse")

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
    ],
    sources=[Source("PaTH Attention", "Yang et al. 2025", "arXiv:2505.16381")],
)
