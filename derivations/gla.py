r"""GLA: one gate for each channel of the key. S_t = S_{t-1} Diag(alpha_t) + v_t k_t^T, o_t = S_t q_t.

Yang et al. 2023 (arXiv 2312.06635); document 000 writes G_t . S_{t-1} with G_t = 1 alpha_t^T. As one matrix product:

    O = (((Q . B)(K / B)^T) . M) V,   B_t = alpha_1 . ... . alpha_t

The products of gates between two tokens are a quotient b_i / b_j for each channel, so that they move into Q and K.
"""

from sympy import Interval
from sympy import exp as exponential

from derivations.language import K, M, M_strict, Q, S, V, d_k, d_v, i, j, k, n, q, s, t, v
from derivations.language import (
    REALS,
    ChannelGate,
    Chunkwise,
    Closed,
    CumulativeProduct,
    Derivation,
    Equal,
    Fact,
    Identity,
    Recurrence,
    RemainingProduct,
    Source,
    Transport,
)
from derivations.language import Ones, Parameter, RangeWithin, Symbol, diag, dimension, nonzero, reciprocal, total

alpha = ChannelGate("alpha", n, d_k)
alpha_not_zero = nonzero(alpha[t], "the keys are divided by the products of gates")

recurrence = Recurrence(S, update=S @ diag(alpha[t]) + v @ k.T, readout=S @ q)
full_gate = Recurrence(S, update=(Ones(d_v, 1) @ alpha[t].T).hadamard(S) + v @ k.T, readout=S @ q)

B, to_end = CumulativeProduct(alpha), RemainingProduct(alpha)
Q_faded, K_raised = Q.hadamard(B), K.hadamard(reciprocal(B))
matrix = Closed((Q_faded @ K_raised.T).hadamard(M) @ V)
chunkwise = Chunkwise(
    S,
    update=S @ diag(total(alpha)) + V.T @ K.hadamard(to_end),
    readout=Q_faded @ S.T + (Q_faded @ K_raised.T).hadamard(M) @ V,
)

# entry by entry, and the state after the last token, from any state S_0 before the first
gates_between = Transport(Q[i], diag(alpha[s]), K[j])
similarity = Closed((Q_faded @ K_raised.T).hadamard(M), name="A")
S_0 = Parameter("S_0", d_v, d_k)
last_state = Recurrence(S, update=recurrence.updates[0], readout=S @ q, initial=S_0).final()
summed_state = Closed(S_0 @ diag(total(alpha)) + V.T @ K.hadamard(to_end), name="S_n")

# neighbours: the token's own write fades, the read comes before the write, the queries lack their own gate
own_write_fades = Recurrence(S, update=(S + v @ k.T) @ diag(alpha[t]), readout=S @ q)
strict_matrix = Closed((Q_faded @ K_raised.T).hadamard(M_strict) @ V)
shifted_matrix = Closed((Q_faded.hadamard(reciprocal(alpha)) @ K_raised.T).hadamard(M) @ V)

# what predicts the gates of a token: a map to all entries of the state, or one of low rank to the channels of the key
d_model, rank = dimension("d_model"), dimension("r")
to_all_entries = Parameter("W", d_model, d_v * d_k)
down, up = Parameter("W_1", d_model, rank), Parameter("W_2", rank, d_k)
sizes = {d_model: 1024, d_k: 128, d_v: 128, rank: 16}


def parameters(*matrices: Parameter) -> int:
    """How many numbers some matrices have."""
    return sum((matrix.shape[0] * matrix.shape[1]).subs(sizes) for matrix in matrices)


x = Symbol("x", real=True)
sigmoid = 1 / (1 + exponential(-x))

gla = Derivation(
    "gla",
    title="Gated linear attention",
    summary="Linear attention whose state forgets each channel of the key at a rate of its own, token by token.",
    forms={
        "recurrence": recurrence,
        "full_gate": full_gate,
        "matrix": matrix,
        "chunkwise": chunkwise,
        "gates_between": gates_between,
    },
    identities=[
        Identity(
            "gate_of_the_whole_state",
            full_gate,
            recurrence,
            says="The entrywise gate 1 alpha^T, the same in each row of the state, is a diagonal matrix on its right.",
            source="document 000, GLA",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            assumptions=(alpha_not_zero,),
            says="The recurrence is linear attention with Q scaled by the products of gates, and K divided by them.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            assumptions=(alpha_not_zero,),
            says="Token by token and block by block carry the same state.",
        ),
        Identity(
            "gates_between",
            gates_between,
            similarity,
            assumptions=(alpha_not_zero,),
            says="Query i and key j are compared through the gates of the tokens after j, up to i's own.",
        ),
        Identity(
            "final_state",
            last_state,
            summed_state,
            says="The last state is one product, each key faded by the gates after it; nothing is divided.",
        ),
        Identity(
            "own_write_fades",
            own_write_fades,
            matrix,
            assumptions=(alpha_not_zero,),
            expected="refuted",
            says="A state that fades after the write fades the token's own write too.",
        ),
        Identity(
            "own_write_fades_is_scaled",
            own_write_fades,
            recurrence.substitute({k: alpha[t].hadamard(k)}),
            says="Fading after the write is fading before it with each key scaled by its own gates.",
        ),
        Identity(
            "read_before_is_strict",
            recurrence.reading("before"),
            strict_matrix,
            assumptions=(alpha_not_zero,),
            expected="refuted",
            says="Dropping the diagonal doesn't give the read before the write: the queries have one gate too many.",
        ),
        Identity(
            "shifted_products",
            recurrence,
            shifted_matrix,
            assumptions=(alpha_not_zero,),
            expected="refuted",
            says="With the queries scaled by the products up to the token before, the diagonal is divided by a gate.",
        ),
    ],
    facts=[
        Fact(
            "full_gate_parameters",
            Equal(parameters(to_all_entries), 16777216),
            says="A map from 1024 features to a gate for each entry of a 128 x 128 state has 16777216 parameters.",
            source="document 000, on the cost of a full gate",
        ),
        Fact(
            "low_rank_parameters",
            Equal(parameters(down, up), 18432),
            says="A map of rank 16 to a gate for each of 128 channels has 18432.",
            source="document 000, on the cost of a full gate",
        ),
        Fact(
            "sigmoid_is_never_zero",
            RangeWithin(sigmoid, x, REALS, Interval.open(0, 1)),
            says="A gate that is a sigmoid fades, and is never zero: the keys may be divided by it.",
        ),
    ],
    sources=[Source("Gated Linear Attention Transformers", "Yang et al. 2023", "arXiv:2312.06635")],
)
