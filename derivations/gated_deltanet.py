r"""Gated DeltaNet: forget, then overwrite. S_t = alpha_t S_{t-1} (I - beta_t k_t k_t^T) + beta_t v_t k_t^T.

Yang, Kautz & Hatamizadeh 2024 (arXiv 2412.06464), eq. 10; alpha is gamma here. As one matrix product:

    O = ((Q K^T) . Gamma) (I + D_beta ((K K^T) . Gamma^-))^-1 D_beta V

A recurrence that predicts before it decays, S_t = gamma_t S_{t-1} + eta_t (v_t - S_{t-1} k_t) k_t^T, is another
system (Comba): it has Gamma^sh in the place of Gamma^-.
"""

from derivations.language import I, K, M, M_strict, Q, S, V, beta, d_k, eta, eye, gamma, k, q, t, v
from derivations.language import (
    Chunkwise,
    Closed,
    CumulativeProduct,
    Derivation,
    Identity,
    Recurrence,
    RemainingProduct,
    Source,
)
from derivations.language import Gamma, Gamma_shifted, Gamma_strict, TotalProduct, assume, diag, sqrt

# eq. 10, and the same with the error v - alpha S k written out
recurrence = Recurrence(S, update=gamma[t] * S @ (eye(d_k) - beta[t] * k @ k.T) + beta[t] * v @ k.T, readout=S @ q)
error_form = Recurrence(S, update=gamma[t] * S + beta[t] * (v - gamma[t] * S @ k) @ k.T, readout=S @ q)
matrix = Closed((Q @ K.T).hadamard(Gamma) @ (I + diag(beta) @ (K @ K.T).hadamard(Gamma_strict)).I @ diag(beta) @ V)

# one block: U solves the triangular system with the carried state as part of its right side
b, to_end = CumulativeProduct(gamma), RemainingProduct(gamma)
U = (I + diag(beta) @ (K @ K.T).hadamard(Gamma_strict)).I @ diag(beta) @ (V - diag(b) @ K @ S.T)
chunkwise = Chunkwise(
    S,
    update=TotalProduct(gamma) * S + U.T @ diag(to_end) @ K,
    readout=diag(b) @ Q @ S.T + (Q @ K.T).hadamard(Gamma) @ U,
)

# the two forms of the table, with beta = 1: Gamma outside, Gamma inside
gamma_outside = Closed(((Q @ K.T).hadamard(M) @ (I + (K @ K.T).hadamard(M_strict)).I).hadamard(Gamma) @ V)
gamma_inside = Closed((Q @ K.T).hadamard(Gamma) @ (I + (K @ K.T).hadamard(Gamma_strict)).I @ V)

# the recurrence that is printed above that table: it predicts with the state that hasn't decayed yet
printed = Recurrence(S, update=gamma[t] * S + eta[t] * (v - S @ k) @ k.T, readout=S @ q)
printed_unit = Recurrence(S, update=gamma[t] * S + (v - S @ k) @ k.T, readout=S @ q)
printed_matrix = Closed(
    (Q @ K.T).hadamard(Gamma) @ (I + diag(eta) @ (K @ K.T).hadamard(Gamma_shifted)).I @ diag(eta) @ V
)

gamma_positive = assume(gamma[t] > 0, "the reparametrisation divides by gamma")
# Q keeps its scale: the table's form is not symmetric in q and k once k is rescaled
rescaled = {k: sqrt(eta[t]) / sqrt(gamma[t]) * k, v: sqrt(eta[t]) * sqrt(gamma[t]) * v}
eta_nonnegative = assume(eta[t] >= 0, "the square root of eta is taken")

gated_deltanet = Derivation(
    "gated_deltanet",
    title="Gated DeltaNet",
    summary="DeltaNet whose state decays by a gate before it is corrected towards the new value.",
    forms={
        "recurrence": recurrence,
        "error_form": error_form,
        "matrix": matrix,
        "chunkwise": chunkwise,
        "printed": printed,
    },
    identities=[
        Identity(
            "error_form",
            recurrence,
            error_form,
            says="Eq. 10 decays, predicts with the decayed state, and corrects the error.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="The recurrence is a masked product with one triangular system.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Token by token and block by block carry the same state.",
        ),
        Identity(
            "gamma_rewrite",
            gamma_outside,
            gamma_inside,
            says="Gamma outside the inverse, or inside it in the place of both masks: the table's two forms are equal.",
            source="document 000, the table's last row",
        ),
        Identity(
            "printed_recurrence",
            gamma_inside,
            printed_unit,
            expected="refuted",
            says="The recurrence printed above the table isn't the table's row: it predicts before it decays.",
            source="document 000, above the table",
        ),
        Identity(
            "printed_recurrence_is_shifted_matrix",
            printed,
            printed_matrix,
            says="The printed recurrence has a matrix form of its own, with Gamma^sh inside the inverse.",
        ),
        Identity(
            "printed_as_gated_deltanet",
            printed,
            recurrence.substitute({beta[t]: eta[t] / gamma[t], v: gamma[t] * v}),
            assumptions=(gamma_positive,),
            says="The printed recurrence is eq. 10 with beta = eta / gamma and v scaled by gamma.",
        ),
        Identity(
            "gated_deltanet_as_printed",
            recurrence,
            printed.substitute({eta[t]: gamma[t] * beta[t], v: v / gamma[t]}),
            assumptions=(gamma_positive,),
            says="Eq. 10 is the printed recurrence with eta = gamma beta and v divided by gamma.",
        ),
        Identity(
            "printed_in_the_tables_form",
            printed,
            gamma_inside.substitute(rescaled),
            assumptions=(gamma_positive, eta_nonnegative),
            says="With k scaled by sqrt(eta / gamma) and v by sqrt(eta gamma), the table's row is the one printed.",
        ),
    ],
    sources=[Source("Gated Delta Networks", "Yang, Kautz & Hatamizadeh 2024, eq. 10", "arXiv:2412.06464")],
)
