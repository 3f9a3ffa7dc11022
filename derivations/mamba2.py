r"""Mamba-2 (SSD): Mamba with one step and one rate for all channels and all their entries.

    S_t = a_t S_{t-1} + (Delta_t x_t) B_t^T,  y_t = S_t C_t,  a_t = exp(Delta_t A);   Y = (L . (C B^T)) D_Delta X

Dao & Gu 2024 (arXiv 2405.21060); A is a scalar. This is decayed linear attention with q = C, k = B and v = Delta x, and
L is its Gamma: what Mamba does with a mask for each channel takes one mask and matrix products here.
"""

from math import prod

from sympy import Matrix, symbols

from derivations import decay, mamba
from derivations.language import Gate, K, M, M_strict, Q, S, Sequence, Symbol, V, d_k, d_v, gamma, n, t
from derivations.language import Closed, Computed, Derivation, Fact, Finding, Identity, Recurrence, Source
from derivations.language import Decay, Ones, diag, exp, rank_is
from derivations.mamba import B, C

a, Delta, X = Gate("a"), Gate("Delta"), Sequence("X", n, d_v)
inputs = {gamma: a, Q: C, K: B, V: diag(Delta) @ X}
recurrence = Recurrence(S, update=a[t] * S + (Delta[t] * X[t]) @ B[t].T, readout=S @ C[t])
matrix = decay.matrix.substitute(inputs)

# in a block: what its tokens give to each other, and to the state at its end; what the state at its beginning gives to
# them; and the state, carried over it
chunkwise = decay.chunkwise.substitute(inputs)

# neighbour: the values aren't scaled by their steps
without_steps = decay.matrix.substitute({**inputs, V: X})

# L_ij is exp of a sum over j < tau <= i, which is a difference of sums from the first token on
A = Symbol("A")
L = Decay(exp(A * Delta))
sums, earlier_sums, row = M @ (A * Delta), M_strict @ (A * Delta), Ones(1, n)
differences = Closed(exp(sums @ row - (sums @ row).T).hadamard(M), name="L")
with_own_step = Closed(exp(sums @ row - (earlier_sums @ row).T).hadamard(M), name="L")

# Mamba with two channels that share a step, and one rate for all entries
one_rate = {mamba.Delta_2: Delta @ Ones(1, 2), mamba.A_2: A * Ones(2, d_k)}
shared_mask = Closed(L.hadamard(C @ B.T) @ diag(Delta) @ mamba.X_2 + mamba.X_2 @ diag(mamba.D_2), name="Y")

# L for six tokens; its first gate is never used
gates = symbols("a_1:7")
L_6 = Matrix(6, 6, lambda i, j: prod(gates[j + 1 : i + 1]) if i >= j else 0)


def ranks_below_the_diagonal() -> Finding:
    """The ranks of the blocks of L that end on its diagonal: all rows from r on, all columns up to r."""
    ranks = [L_6[r:, : r + 1].rank() for r in range(6)]
    return Finding(set(ranks) == {1}, f"the blocks that touch the diagonal have the ranks {ranks}")


mamba2 = Derivation(
    "mamba2",
    title="Mamba-2",
    summary="Mamba with a scalar decay: a linear system that is linear attention with one mask.",
    forms={"recurrence": recurrence, "matrix": matrix, "chunkwise": chunkwise},
    identities=[
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="State space duality: a scalar decay a_t is the mask L with L_ij = a_{j+1} ... a_i.",
            source="document 000, Mamba2",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="The four steps of a block give the outputs and carry the state.",
        ),
        Identity(
            "values_without_steps",
            recurrence,
            without_steps,
            expected="refuted",
            says="The values are Delta x: the step belongs into V.",
        ),
        Identity(
            "mask_is_exp_of_differences",
            Closed(L, name="L"),
            differences,
            says="With a_t = exp(Delta_t A), L is exp of differences of cumulative sums, below the diagonal.",
        ),
        Identity(
            "mask_with_own_step",
            Closed(L, name="L"),
            with_own_step,
            expected="refuted",
            says="The sums of row and column both count their own token: else a token's write fades by its own step.",
        ),
        Identity(
            "mamba_with_one_rate",
            mamba.selective_scan(2).substitute(one_rate),
            shared_mask,
            says="Mamba whose channels share a step, with one rate for all entries, has one mask for all channels.",
            source="document 000, on Mamba2's scalar",
        ),
    ],
    facts=[
        Fact(
            "mask_is_semiseparable",
            Computed(ranks_below_the_diagonal, "rank"),
            says="Every block of L on and below its diagonal has rank one.",
        ),
        Fact("mask_has_full_rank", rank_is(L_6, 6), says="L itself has full rank: its diagonal is one."),
    ],
    sources=[Source("Transformers are SSMs", "Dao & Gu 2024", "arXiv:2405.21060")],
)
