r"""Linear attention: o_t = sum_{j<=t} v_j (k_j^T q_t) = S_t q_t with S_t = S_{t-1} + v_t k_t^T, in one matrix ((Q
K^T) . M) V.

Katharopoulos et al. 2020 (arXiv 2006.16236), here without feature map and normaliser.
"""

from derivations.language import K, M, Q, S, V, j, k, n, q, t, v
from derivations.language import Chunkwise, Closed, Derivation, Identity, Recurrence, Source, TokenRows, TokenSum

component_sum = TokenRows(TokenSum(V[j] @ (K[j].T @ q), j, 1, t))
recurrence = Recurrence(S, update=S + v @ k.T, readout=S @ q)
matrix = Closed((Q @ K.T).hadamard(M) @ V)
chunkwise = Chunkwise(S, update=S + V.T @ K, readout=Q @ S.T + (Q @ K.T).hadamard(M) @ V)

noncausal_state = Closed(Q @ (K.T @ V))
noncausal_matrix = Closed((Q @ K.T) @ V)
noncausal_sum = TokenRows(TokenSum(V[j] @ (K[j].T @ q), j, 1, n))

linear_attention = Derivation(
    "linear_attention",
    title="Linear attention",
    summary="Softmax attention without the softmax: the past is summed up in one d_v x d_k state.",
    forms={
        "component_sum": component_sum,
        "recurrence": recurrence,
        "matrix": matrix,
        "chunkwise": chunkwise,
        "noncausal": noncausal_state,
    },
    identities=[
        Identity(
            "recurrent_is_component_sum",
            recurrence,
            component_sum,
            says="Reading the running sum of v k^T with q gives the sum over all earlier tokens.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="The recurrence is the masked matrix product.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Token by token and block by block carry the same state.",
        ),
        Identity(
            "noncausal_reassociated",
            noncausal_state,
            noncausal_matrix,
            says="Without a mask, Q (K^T V) and (Q K^T) V are the same: the n x n matrix need not be formed.",
        ),
        Identity(
            "noncausal_is_component_sum",
            noncausal_state,
            noncausal_sum,
            says="The state of all tokens read by each query.",
        ),
        Identity(
            "causal_is_noncausal",
            recurrence,
            noncausal_state,
            expected="refuted",
            says="The causal recurrence isn't the non-causal matrix form: its first token sees one value only.",
        ),
    ],
    sources=[Source("Transformers are RNNs", "Katharopoulos et al. 2020", "arXiv:2006.16236")],
)
