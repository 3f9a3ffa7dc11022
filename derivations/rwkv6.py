r"""RWKV-6: gates for each channel, the state read before the write, the own token with a bonus.

    S_t = S_{t-1} Diag(w_t) + v_t k_t^T,   o_t = S_{t-1} r_t + v_t ((u . k_t)^T r_t)

Peng et al. 2024 (arXiv 2404.05892), eqs. 19, 21 and 22, which write the transpose of S; w is constant in RWKV-5. As one
matrix product, with B_t = w_1 . ... . w_t:

    O = (((R . B^-)(K / B)^T) . M^-) V + Diag((R . K) u) V,   B^-_t = B_{t-1}
"""

from derivations import gla
from derivations.language import K, M, M_strict, S, V, d_k, d_v, k, n, t, v
from derivations.language import (
    ChannelGate,
    Chunkwise,
    Closed,
    CumulativeProduct,
    Derivation,
    Identity,
    Ones,
    Recurrence,
    RemainingProduct,
    Sequence,
    Source,
    State,
)
from derivations.language import Parameter, diag, nonzero, reciprocal, total

R, w, u = Sequence("R", n, d_k), ChannelGate("w", n, d_k), Parameter("u", d_k)
r = R[t]
w_not_zero = nonzero(w[t], "the keys are divided by the products of gates")

recurrence = Recurrence(
    S,
    update=S @ diag(w[t]) + v @ k.T,
    readout=S @ r + v @ (u.hadamard(k).T @ r),
    read="before",
)

# as printed, S' is d_k x d_v and rows are tokens: o_t = r_t (diag(u) k_t^T v_t + S'_{t-1})
printed_state = State("S'", d_k, d_v)
printed = Recurrence(
    printed_state,
    update=diag(w[t]) @ printed_state + k @ v.T,
    readout=(r.T @ (diag(u) @ k @ v.T + printed_state)).T,
    read="before",
)

# a bonus that differs from token to token
bonus = ChannelGate("bonus", n, d_k)
token_bonus = Recurrence(S, recurrence.updates, readout=S @ r + v @ (bonus[t].hadamard(k).T @ r), read="before")

B, to_end = CumulativeProduct(w), RemainingProduct(w)
R_faded, K_raised = R.hadamard(B).hadamard(reciprocal(w)), K.hadamard(reciprocal(B))
within = (R_faded @ K_raised.T).hadamard(M_strict) @ V + diag(R.hadamard(K) @ u) @ V
matrix = Closed(within)
chunkwise = Chunkwise(
    S,
    update=S @ diag(total(w)) + V.T @ K.hadamard(to_end),
    readout=R_faded @ S.T + within,
)

# neighbours: one gate too many, the bonus left out
own_gate_too = Closed((R.hadamard(B) @ K_raised.T).hadamard(M_strict) @ V + diag(R.hadamard(K) @ u) @ V)
without_bonus = Closed((R_faded @ K_raised.T).hadamard(M) @ V)

rwkv6 = Derivation(
    "rwkv6",
    title="RWKV-6",
    summary="Linear attention with a gate for each channel that reads before it writes, and its own token apart.",
    forms={"recurrence": recurrence, "printed": printed, "matrix": matrix, "chunkwise": chunkwise},
    identities=[
        Identity(
            "printed_is_the_transpose",
            printed,
            recurrence,
            matching={printed_state: S.T},
            says="The printed state, with keys in its rows, is the transpose.",
            source="RWKV-5 and 6, eqs. 19 and 21",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            assumptions=(w_not_zero,),
            says="The past is a strictly masked product without the token's own gate; the token itself is a diagonal.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            assumptions=(w_not_zero,),
            says="Token by token and block by block carry the same state.",
        ),
        Identity(
            "own_gate_too",
            recurrence,
            own_gate_too,
            assumptions=(w_not_zero,),
            expected="refuted",
            says="With the products up to the token's own gate, as in GLA, the past has faded once too often.",
        ),
        Identity(
            "causal_mask",
            recurrence.substitute({u: Ones(d_k, 1)}),
            without_bonus,
            assumptions=(w_not_zero,),
            expected="refuted",
            says="M in the place of M^- divides the diagonal by the token's own gate, which isn't u = 1.",
        ),
        Identity(
            "bonus_of_one",
            recurrence.substitute({u: Ones(d_k, 1)}),
            gla.recurrence.substitute({gla.Q: R, gla.alpha: w}),
            expected="refuted",
            says="With u = 1 it isn't GLA: RWKV-6 reads the past before it fades.",
        ),
        Identity(
            "gla_by_a_bonus_for_each_token",
            token_bonus.substitute({R[t]: w[t].hadamard(r), bonus[t]: reciprocal(w[t])}),
            gla.recurrence.substitute({gla.Q: R, gla.alpha: w}),
            assumptions=(w_not_zero,),
            says="GLA is RWKV-6 with r scaled by w, and a bonus 1 / w that differs from token to token.",
        ),
    ],
    sources=[Source("Eagle and Finch", "Peng et al. 2024, eqs. 19, 21 and 22", "arXiv:2404.05892")],
)
