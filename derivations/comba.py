r"""Comba: one vector predicts, another one is written. S_t = gamma_t S_{t-1} + beta_t (v_t - S_{t-1} p_t) k_t^T.

Hu et al. 2025 (arXiv 2506.02475); gamma is alpha there, and p_t is a multiple of k_t. The state predicts before it
decays. As one matrix product:

    O = ((Q K^T) . Gamma) (I + D_beta ((P K^T) . Gamma^sh))^-1 D_beta V

What is predicted is fed back to the output too, o_t = S_t q_t - d S_t p_t: Q - d P in the place of Q, which is left
out until then. With P = K it is the recurrence that `gated_deltanet.py` calls `printed`.
"""

from derivations.gated_deltanet import printed
from derivations.language import I, K, Q, S, Sequence, Symbol, V, beta, d_k, eta, eye, gamma, k, n, q, t, v
from derivations.language import Chunkwise, Closed, CumulativeProduct, Derivation, Identity, Recurrence, Source
from derivations.language import Gamma, Gamma_shifted, Gamma_strict, PrecedingProduct, RemainingProduct
from derivations.language import TotalProduct, diag

P = Sequence("P", n, d_k)
p = P[t]
d = Symbol("d")

recurrence = Recurrence(S, update=gamma[t] * S + beta[t] * (v - S @ p) @ k.T, readout=S @ q)
transition = Recurrence(S, update=S @ (gamma[t] * eye(d_k) - beta[t] * p @ k.T) + beta[t] * v @ k.T, readout=S @ q)
attention = (Q @ K.T).hadamard(Gamma)
matrix = Closed(attention @ (I + diag(beta) @ (P @ K.T).hadamard(Gamma_shifted)).I @ diag(beta) @ V)

# one block: predictions see the carry faded up to the token before, outputs see it faded up to their own
until_before, until_now, to_end = PrecedingProduct(gamma), CumulativeProduct(gamma), RemainingProduct(gamma)
T = (I + diag(beta) @ (P @ K.T).hadamard(Gamma_shifted)).I @ diag(beta)
U = T @ V - (T @ diag(until_before) @ P) @ S.T
chunkwise = Chunkwise(
    S,
    update=TotalProduct(gamma) * S + U.T @ diag(to_end) @ K,
    readout=diag(until_now) @ Q @ S.T + attention @ U,
)

# the neighbour: decay first, then predict with what is left
faded = gamma[t] * S
decay_first = Recurrence(S, update=faded + beta[t] * (v - faded @ p) @ k.T, readout=S @ q)
strict_matrix = Closed(attention @ (I + diag(beta) @ (P @ K.T).hadamard(Gamma_strict)).I @ diag(beta) @ V)

# the feedback to the output
corrected = Recurrence(S, update=recurrence.updates[0], readout=S @ q - d * S @ p)

comba = Derivation(
    "comba",
    title="Comba",
    summary="A gated delta rule that predicts before the decay, with a vector of its own.",
    forms={
        "recurrence": recurrence,
        "transition": transition,
        "matrix": matrix,
        "chunkwise": chunkwise,
        "decay_first": decay_first,
    },
    identities=[
        Identity(
            "recurrent_is_transition",
            recurrence,
            transition,
            says="The state is multiplied by a scalar plus a matrix of rank one, gamma I - beta p k^T.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="The recurrence is a masked product with one triangular system, whose mask is Gamma^sh.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Token by token and block by block, in WY form, carry the same state.",
        ),
        Identity(
            "strict_mask_for_shifted",
            recurrence,
            strict_matrix,
            expected="refuted",
            says="With Gamma^- inside the inverse, each prediction has faded by one gate too many.",
        ),
        Identity(
            "decay_then_read",
            recurrence,
            decay_first,
            expected="refuted",
            says="A state that decays before it predicts is another system.",
            source="flash-linear-attention, fla/ops/comba/naive.py, naive_recurrent_comba",
        ),
        Identity(
            "decay_then_read_is_strict",
            decay_first,
            strict_matrix,
            says="That other system is the matrix form with Gamma^-: Gated DeltaNet with two keys.",
        ),
        Identity(
            "feedback_to_the_output",
            corrected,
            matrix.substitute({Q: Q - d * P}),
            says="Taking a share of the prediction from the output is reading with q - d p.",
        ),
        Identity(
            "predicts_with_its_key",
            matrix.substitute({P: K}),
            printed.substitute({eta: beta}),
            says="With p = k it is the gated delta rule that predicts before it decays.",
            source="document 000, above the table",
        ),
    ],
    sources=[Source("Comba", "Hu et al. 2025", "arXiv:2506.02475")],
)
