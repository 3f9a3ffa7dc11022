r"""RFA-Gate: a moving average of what is written, over a moving average of features.

    S_t = gamma_t S_{t-1} + (1 - gamma_t) v_t phi(k_t)^T,   z_t = gamma_t z_{t-1} + (1 - gamma_t) phi(k_t)
    o_t = S_t phi(q_t) / (z_t^T phi(q_t))

Peng et al. 2021 (arXiv 2103.02143); gamma is g there, between 0 and 1, and phi may be any feature map here. As one
matrix product, with each key's own 1 - gamma in its column:

    O = D^-1 ((phi(Q) phi(K)^T) . Gamma) D_{1-gamma} V,   D: the sums of the rows of what stands between D^-1 and V
"""

from derivations.decay import recurrence as decay_recurrence
from derivations.feature_maps import S, one, phi_K, phi_k, phi_Q, phi_q, z
from derivations.language import Gamma, K, M, Q, V, gamma, k, n, q, t, v
from derivations.language import Chunkwise, Closed, Derivation, Identity, Recurrence, Source
from derivations.language import CumulativeProduct, Decay, Ne, RemainingProduct, Symbol, TotalProduct
from derivations.language import assume, constant, diag, normalised, scalar

written = 1 - gamma[t]
ratio = S @ phi_q / scalar(z.T @ phi_q)
write = (gamma[t] * S + written * v @ phi_k.T, gamma[t] * z + written * phi_k)
recurrence = Recurrence((S, z), update=write, readout=ratio)

faded = (phi_Q @ phi_K.T).hadamard(Gamma)
weights = faded @ diag(one - gamma)
matrix = Closed(normalised(weights) @ V)

# one block: both averages are carried, and read by queries that are faded up to their own token
from_start, to_end = CumulativeProduct(gamma), RemainingProduct(gamma)
phi_K_to_end = diag((one - gamma).hadamard(to_end)) @ phi_K
phi_Q_from_start = diag(from_start) @ phi_Q
chunkwise = Chunkwise(
    (S, z),
    update=(TotalProduct(gamma) * S + V.T @ phi_K_to_end, TotalProduct(gamma) * z + phi_K_to_end.T @ one),
    readout=diag(phi_Q_from_start @ z + weights @ one).I @ (phi_Q_from_start @ S.T + weights @ V),
)

# without features and denominator: decayed linear attention whose values are scaled, and how much it weighs in all
(S_of_keys,) = decay_recurrence.states
average = Recurrence(S_of_keys, update=gamma[t] * S_of_keys + written * v @ k.T, readout=S_of_keys @ q)
average_matrix = Closed((Q @ K.T).hadamard(Gamma) @ diag(one - gamma) @ V)
shares = Closed(Gamma @ (one - gamma), name="x")
shares_in_all = Closed(one - from_start, name="x")

# one gate for all tokens: 1 - gamma cancels
rate = Symbol("gamma")
one_gate = recurrence.substitute({gamma: constant(rate, n)})
one_gate_matrix = Closed(normalised((phi_Q @ phi_K.T).hadamard(Decay(constant(rate, n)))) @ V)
rate_not_one = assume(Ne(rate, 1), "a gate of one writes nothing")

# neighbours that are easily mistaken for it: 1 - gamma in the rows, where it cancels, or nowhere; z without the gate
in_the_rows = Closed(normalised(diag(one - gamma) @ faded) @ V)
in_no_place = Closed(normalised(faded) @ V)
gamma_not_one = assume(Ne(gamma[t], 1), "a gate of one writes nothing")
z_without_gate = Recurrence((S, z), update=(write[0], z + phi_k), readout=ratio)
own_write_fades = Recurrence(
    (S, z),
    update=(gamma[t] * (S + written * v @ phi_k.T), gamma[t] * (z + written * phi_k)),
    readout=ratio,
)
ungated_matrix = Closed(normalised((phi_Q @ phi_K.T).hadamard(M) @ diag(one - gamma)) @ V)

rfa_gate = Derivation(
    "rfa_gate",
    title="RFA-Gate",
    summary="Attention by features over a moving average: what the gate takes from the past it gives to the new token.",
    forms={"recurrence": recurrence, "matrix": matrix, "chunkwise": chunkwise},
    identities=[
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="It is the product masked by Gamma, with 1 - gamma in the columns, each row divided by its sum.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Token by token and block by block carry the same two averages.",
        ),
        Identity(
            "numerator_is_decay",
            average,
            decay_recurrence.substitute({v: written * v}),
            says="Without the denominator it is decayed linear attention with the values scaled by 1 - gamma.",
        ),
        Identity(
            "numerator_is_matrix",
            average,
            average_matrix,
            says="The numerator's matrix form has 1 - gamma between Gamma and V.",
        ),
        Identity(
            "shares_add_up",
            shares,
            shares_in_all,
            says="All shares up to token t add up to 1 - gamma_1 ... gamma_t: the denominator is there for the start.",
        ),
        Identity(
            "one_gate_for_all",
            one_gate,
            one_gate_matrix,
            assumptions=(rate_not_one,),
            says="With the same gate at every token 1 - gamma cancels, and decay alone is left.",
        ),
        Identity(
            "cancels_in_the_rows",
            in_the_rows,
            in_no_place,
            assumptions=(gamma_not_one,),
            says="Written into the rows, 1 - gamma cancels as any factor of a query does.",
        ),
        Identity(
            "in_the_rows",
            recurrence,
            in_the_rows,
            expected="refuted",
            says="1 - gamma belongs to the key's column, not to the query's row.",
        ),
        Identity(
            "z_without_gate",
            z_without_gate,
            matrix,
            expected="refuted",
            says="A denominator that isn't gated sums other weights than the numerator.",
        ),
        Identity(
            "own_write_fades",
            own_write_fades,
            matrix,
            expected="refuted",
            says="A gate that is applied after the write changes the weights of the tokens against one another.",
        ),
        Identity(
            "gates_left_out",
            recurrence,
            ungated_matrix,
            expected="refuted",
            says="M in the place of Gamma forgets that the past fades.",
        ),
    ],
    sources=[Source("Random Feature Attention", "Peng et al. 2021", "arXiv:2103.02143")],
)
