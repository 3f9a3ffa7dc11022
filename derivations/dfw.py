r"""Decaying fast weights: a rank-one gate over the state. S_t = (f_t g_t^T) . S_{t-1} + v_t k_t^T, o_t = S_t q_t.

Mao 2022 (arXiv 2210.04243); f is a gate for each channel of the value, g one for each channel of the key. In parallel:

    O = B_v . ((((Q . B_k)(K / B_k)^T) . M)(V / B_v)),   B_v,t = f_1 . ... . f_t,   B_k,t = g_1 . ... . g_t

What makes it parallel is that products of rank-one gates, entry by entry, have rank one again. Low rank isn't enough.
"""

from sympy import Matrix, exp, ones, symbols

from derivations.language import K, M, Q, S, V, d_k, d_v, k, n, q, t, v
from derivations.language import (
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
)
from derivations.language import NEGATIVE, POSITIVE, Parameter, RangeWithin, diag, nonzero, rank_is, reciprocal, total

f, g = ChannelGate("f", n, d_v), ChannelGate("g", n, d_k)
f_not_zero = nonzero(f[t], "the values are divided by the products of their gates")
g_not_zero = nonzero(g[t], "the keys are divided by the products of their gates")

recurrence = Recurrence(S, update=(f[t] @ g[t].T).hadamard(S) + v @ k.T, readout=S @ q)
two_sided = Recurrence(S, update=diag(f[t]) @ S @ diag(g[t]) + v @ k.T, readout=S @ q)

B_v, B_k, to_end_v, to_end_k = CumulativeProduct(f), CumulativeProduct(g), RemainingProduct(f), RemainingProduct(g)
A = (Q.hadamard(B_k) @ K.hadamard(reciprocal(B_k)).T).hadamard(M)
matrix = Closed(B_v.hadamard(A @ V.hadamard(reciprocal(B_v))))
chunkwise = Chunkwise(
    S,
    update=diag(total(f)) @ S @ diag(total(g)) + V.hadamard(to_end_v).T @ K.hadamard(to_end_k),
    readout=B_v.hadamard(Q.hadamard(B_k) @ S.T + A @ V.hadamard(reciprocal(B_v))),
)

# two gates after one another, entry by entry
f_1, f_2 = Parameter("f_1", d_v), Parameter("f_2", d_v)
g_1, g_2 = Parameter("g_1", d_k), Parameter("g_2", d_k)
both_gates = Closed((f_1 @ g_1.T).hadamard(f_2 @ g_2.T), name="G")
one_gate = Closed(f_1.hadamard(f_2) @ g_1.hadamard(g_2).T, name="G")

# neighbours: the write fades too, or the values aren't divided
own_write_fades = Recurrence(S, update=(f[t] @ g[t].T).hadamard(S + v @ k.T), readout=S @ q)
values_not_divided = Closed(B_v.hadamard(A @ V))


def rank_two(size: int) -> Matrix:
    """The gate with entries 1 + i j: the sum of two outer products."""
    return Matrix(size, size, lambda i, j: 1 + i * j)


# Mamba's gate over channels d and state entries n is exp(-Delta_d A_n): its 2 x 2 minors
Delta_1, Delta_2, A_1, A_2 = symbols("Delta_1 Delta_2 A_1 A_2", positive=True)
mamba_gate = Matrix(2, 2, [exp(-Delta * a) for Delta in (Delta_1, Delta_2) for a in (A_1, A_2)])
mamba_minor = exp(-Delta_1 * A_2 - Delta_2 * A_1) * (exp(-(Delta_1 - Delta_2) * (A_1 - A_2)) - 1)
x = symbols("x", real=True)

# Mamba-2's gate a 1 1^T and GLA's gate 1 alpha^T
a, *alpha = symbols("a alpha_1:4", positive=True)
mamba2_gate, gla_gate = a * ones(3, 3), ones(3, 1) * Matrix([alpha])

dfw = Derivation(
    "dfw",
    title="Decaying fast weights",
    summary="Linear attention whose state is gated entry by entry, by the outer product of two columns of gates.",
    forms={"recurrence": recurrence, "two_sided": two_sided, "matrix": matrix, "chunkwise": chunkwise},
    identities=[
        Identity(
            "gate_on_both_sides",
            recurrence,
            two_sided,
            says="A rank-one gate, entry by entry, is a diagonal matrix on either side of the state.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            assumptions=(f_not_zero, g_not_zero),
            says="The recurrence is a masked product: both products of gates move out of the sum over tokens.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            assumptions=(f_not_zero, g_not_zero),
            says="Token by token and block by block carry the same state.",
        ),
        Identity(
            "values_not_divided",
            recurrence,
            values_not_divided,
            assumptions=(g_not_zero,),
            expected="refuted",
            says="Scaling the output by the products of f alone fades what was written after them too.",
        ),
        Identity(
            "own_write_fades",
            own_write_fades,
            recurrence,
            expected="refuted",
            says="A state that fades after the write fades the token's own write too.",
        ),
        Identity(
            "rank_one_gates_multiply",
            both_gates,
            one_gate,
            says="The entrywise product of two rank-one gates is the rank-one gate of the products.",
            source="document 001, on gates that are outer products",
        ),
    ],
    facts=[
        Fact("gate_of_rank_two", rank_is(rank_two(3), 2), says="The 3 x 3 gate with entries 1 + i j has rank two."),
        Fact(
            "products_of_low_rank_keep_their_rank",
            rank_is(rank_two(3).multiply_elementwise(rank_two(3)), 2),
            expected="refuted",
            says="Applied twice it should be a gate of rank two again; it is one of rank three.",
            source="document 000, 'low-rank gating matrix'",
        ),
        Fact(
            "rank_of_three_products",
            rank_is(rank_two(4).applyfunc(lambda entry: entry**3), 4),
            says="Applied three times, the 4 x 4 one is a gate of full rank.",
        ),
        Fact(
            "mamba2_gate",
            rank_is(mamba2_gate, 1),
            says="Mamba-2's gate, one scalar for the whole state, has rank one.",
            source="document 001, on gates that are outer products",
        ),
        Fact(
            "gla_gate",
            rank_is(gla_gate, 1),
            says="GLA's gate, one column for all rows of the state, has rank one.",
            source="document 001, on gates that are outer products",
        ),
        Fact(
            "mamba_minor",
            Equal(mamba_gate.det(), mamba_minor),
            says="The 2 x 2 minors of Mamba's gate exp(-Delta_d A_n) vanish with (Delta_1 - Delta_2) (A_1 - A_2).",
            source="document 001, on gates that are outer products",
        ),
        Fact(
            "mamba_minor_is_not_zero",
            RangeWithin(exp(-x) - 1, x, POSITIVE, NEGATIVE),
            says="They vanish there only: the gate has rank one where all Delta are equal, or all A.",
            source="document 001, on gates that are outer products",
        ),
    ],
    sources=[Source("Fine-Tuning Pre-trained Transformers into Decaying Fast Weights", "Mao 2022", "arXiv:2210.04243")],
)
