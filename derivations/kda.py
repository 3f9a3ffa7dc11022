r"""KDA, Kimi Delta Attention: fade each channel, then overwrite.

    S_t = S_{t-1} Diag(alpha_t) (I - beta_t k_t k_t^T) + beta_t v_t k_t^T,   o_t = S_t q_t

Kimi Team 2025 (arXiv 2510.26692), eq. 1, which writes the transpose of S. As one matrix product, with the products of
gates B_t = alpha_1 . ... . alpha_t, Q' = Q . B, K' = K . B and K" = K / B:

    O = ((Q' K"^T) . M) (I + D_beta ((K' K"^T) . M^-))^-1 D_beta V

It is Gated DeltaNet with one gate for each channel of the key.
"""

from derivations.gla import B, K_raised, Q_faded, alpha, alpha_not_zero, to_end
from derivations.language import I, K, M, M_strict, S, State, V, beta, d_k, d_v, eye, k, q, t, v
from derivations.language import Chunkwise, Closed, Derivation, Identity, Recurrence, Source
from derivations.language import diag, total

faded = S @ diag(alpha[t])
recurrence = Recurrence(S, update=faded + beta[t] * (v - faded @ k) @ k.T, readout=S @ q)
transition = Recurrence(S, update=faded @ (eye(d_k) - beta[t] * k @ k.T) + beta[t] * v @ k.T, readout=S @ q)

# eq. 1, where the state is d_k x d_v
printed_state = State("S'", d_k, d_v)
printed = Recurrence(
    printed_state,
    update=(eye(d_k) - beta[t] * k @ k.T) @ diag(alpha[t]) @ printed_state + beta[t] * k @ v.T,
    readout=printed_state.T @ q,
)

# the prediction of the faded state is read with alpha . k: a diagonal minus a matrix of rank one
rank_one = Recurrence(S, update=faded - beta[t] * (S @ alpha[t].hadamard(k)) @ k.T + beta[t] * v @ k.T, readout=S @ q)

K_faded = K.hadamard(B)
T = (I + diag(beta) @ (K_faded @ K_raised.T).hadamard(M_strict)).I @ diag(beta)
matrix = Closed((Q_faded @ K_raised.T).hadamard(M) @ T @ V)

# one block in WY form: T V and T K' don't need the carry and can be had for all blocks at once
corrected = T @ V - (T @ K_faded) @ S.T
chunkwise = Chunkwise(
    S,
    update=S @ diag(total(alpha)) + corrected.T @ K.hadamard(to_end),
    readout=Q_faded @ S.T + (Q_faded @ K_raised.T).hadamard(M) @ corrected,
)

# neighbours: overwrite and then fade, predict before fading
overwritten_first = Recurrence(
    S, update=S @ (eye(d_k) - beta[t] * k @ k.T) @ diag(alpha[t]) + beta[t] * v @ k.T, readout=S @ q
)
predicted_first = Recurrence(S, update=faded + beta[t] * (v - S @ k) @ k.T, readout=S @ q)

kda = Derivation(
    "kda",
    title="KDA",
    summary="Gated DeltaNet with a gate for each channel of the key: the state fades, then corrects what it predicts.",
    forms={
        "recurrence": recurrence,
        "transition": transition,
        "printed": printed,
        "matrix": matrix,
        "chunkwise": chunkwise,
    },
    identities=[
        Identity(
            "recurrent_is_transition",
            recurrence,
            transition,
            says="The state fades, predicts v from k, and corrects the error: it is multiplied by both factors.",
        ),
        Identity(
            "printed_is_the_transpose",
            printed,
            recurrence,
            matching={printed_state: S.T},
            says="The state of eq. 1, with keys in its rows, is the transpose: the factors stand in reverse.",
            source="Kimi Linear, eq. 1",
        ),
        Identity(
            "diagonal_plus_rank_one",
            recurrence,
            rank_one,
            says="The transition is Diag(alpha) - beta (alpha . k) k^T: removed with k is what alpha . k reads.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            assumptions=(alpha_not_zero,),
            says="The recurrence is a masked product with one triangular system.",
            source="Kimi Linear, table 6",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            assumptions=(alpha_not_zero,),
            says="Token by token and block by block, in WY form, carry the same state.",
        ),
        Identity(
            "overwritten_first",
            recurrence,
            overwritten_first,
            expected="refuted",
            says="Overwriting before fading is another system: Diag(alpha) and I - beta k k^T don't commute.",
            source="Kimi Linear, eq. 12",
        ),
        Identity(
            "predicted_first",
            recurrence,
            predicted_first,
            expected="refuted",
            says="Predicting with the state that hasn't faded yet is another system.",
        ),
    ],
    sources=[Source("Kimi Linear", "Kimi Team 2025, eq. 1", "arXiv:2510.26692")],
)
