r"""RWKV-7: fade each channel, remove along one key, write along another.

    S_t = S_{t-1} Diag(w_t) - (S_{t-1} kappa_t) (kappa_t . a_t)^T + v_t k_t^T,   o_t = S_t r_t

Peng et al. 2025 (arXiv 2503.14456), whose kappa has length one. As one matrix product, with B_t = w_1 . ... . w_t,
R' = R . B, K" = K / B, A" = (kappa . a) / B and kappa'_t = kappa_t . B_{t-1}:

    O = ((R' K"^T) . M - ((R' A"^T) . M) (I + (kappa' A"^T) . M^-)^-1 ((kappa' K"^T) . M^-)) V

What is removed and what is written have directions of their own; in DeltaNet both have k, and the difference is one
product.
"""

from derivations.language import I, K, M, M_strict, S, V, d_k, k, n, t, v
from derivations.language import (
    ChannelGate,
    Chunkwise,
    Closed,
    CumulativeProduct,
    Derivation,
    Gate,
    Identity,
    Recurrence,
    RemainingProduct,
    Sequence,
    Source,
)
from derivations.language import diag, nonzero, reciprocal, total

R, kappa = Sequence("R", n, d_k), Sequence("kappa", n, d_k)
w, a = ChannelGate("w", n, d_k), ChannelGate("a", n, d_k)
r, direction = R[t], kappa[t].hadamard(a[t])
w_not_zero = nonzero(w[t], "what is written and removed is divided by the products of gates")

removed = -(S @ kappa[t])
recurrence = Recurrence(S, update=S @ diag(w[t]) + removed @ direction.T + v @ k.T, readout=S @ r)
transition = Recurrence(S, update=S @ (diag(w[t]) - kappa[t] @ direction.T) + v @ k.T, readout=S @ r)

B, to_end = CumulativeProduct(w), RemainingProduct(w)
R_faded, kappa_faded = R.hadamard(B), kappa.hadamard(B).hadamard(reciprocal(w))
K_raised, A_raised = K.hadamard(reciprocal(B)), kappa.hadamard(a).hadamard(reciprocal(B))
system = I + (kappa_faded @ A_raised.T).hadamard(M_strict)
written_past, removed_past = (R_faded @ K_raised.T).hadamard(M), (R_faded @ A_raised.T).hadamard(M)
seen_before = (kappa_faded @ K_raised.T).hadamard(M_strict)
matrix = Closed((written_past - removed_past @ system.I @ seen_before) @ V)

# one block: the rows of U are what is removed, S_{t-1} kappa_t, with the carry's share in it
U = system.I @ (kappa_faded @ S.T + seen_before @ V)
chunkwise = Chunkwise(
    S,
    update=S @ diag(total(w)) - U.T @ kappa.hadamard(a).hadamard(to_end) + V.T @ K.hadamard(to_end),
    readout=R_faded @ S.T + written_past @ V - removed_past @ U,
)

# k_t = c_t kappa_t . a_t: with one direction for both, an error is corrected
c = Gate("c")
one_direction = {K[t]: c[t] * direction}
error_form = Recurrence(S, update=S @ diag(w[t]) + (c[t] * v - S @ kappa[t]) @ direction.T, readout=S @ r)
collapsed = Closed(written_past @ system.I @ V)

# a = w: what kappa reads is removed, and then the state fades
removed_then_faded = Recurrence(S, update=(S + removed @ kappa[t].T) @ diag(w[t]) + v @ k.T, readout=S @ r)

# neighbours: removed from the faded state, kappa carried with the token's own gate
faded = S @ diag(w[t])
faded_then_removed = Recurrence(S, update=faded - faded @ kappa[t] @ direction.T + v @ k.T, readout=S @ r)

rwkv7 = Derivation(
    "rwkv7",
    title="RWKV-7",
    summary="The state fades channel by channel, forgets what one key reads and writes with another.",
    forms={"recurrence": recurrence, "transition": transition, "matrix": matrix, "chunkwise": chunkwise},
    identities=[
        Identity(
            "recurrent_is_transition",
            recurrence,
            transition,
            says="The state is multiplied by a diagonal minus a matrix of rank one.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            assumptions=(w_not_zero,),
            says="The recurrence is a masked product, less one with a triangular system between two more.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            assumptions=(w_not_zero,),
            says="Token by token and block by block carry the same state.",
        ),
        Identity(
            "one_direction",
            recurrence.substitute(one_direction),
            error_form,
            says="Where k is a multiple c of kappa . a, the state corrects its prediction for kappa towards c v.",
        ),
        Identity(
            "collapsed",
            recurrence.substitute(one_direction),
            collapsed.substitute(one_direction),
            assumptions=(w_not_zero,),
            expected="refuted",
            says="Even then K can't take A's place on the left of the system: the multiples c belong to its right.",
        ),
        Identity(
            "removed_then_faded",
            recurrence.substitute({a: w}),
            removed_then_faded,
            says="With a = w, what kappa reads is removed first, and then the state fades.",
        ),
        Identity(
            "faded_then_removed",
            recurrence,
            faded_then_removed,
            expected="refuted",
            says="kappa reads the state that hasn't faded yet: reading the faded one, as in KDA, is another system.",
        ),
    ],
    sources=[Source("RWKV-7 Goose", "Peng et al. 2025", "arXiv:2503.14456")],
)
