r"""Decayed linear attention: the state fades before each write. S_t = gamma_t S_{t-1} + v_t k_t^T, o_t = S_t q_t.

RetNet has one gamma for all tokens (Sun et al. 2023, arXiv 2307.08621, eqs. 5 to 7), Mamba-2 one for each (Dao & Gu
2024, arXiv 2405.21060, where gamma is a and Gamma is L). As one matrix product:

    O = ((Q K^T) . Gamma) V,   Gamma_ij = gamma_{j+1} ... gamma_i for i >= j, else 0

A token's own gate fades the past and leaves its own write alone: the diagonal of Gamma is one.
"""

from typing import Any

from derivations.language import Gamma, Gamma_shifted, Gamma_strict, K, M, Q, S, V, gamma, j, k, n, q, t, tau, v
from derivations.language import (
    Algorithm,
    Chunkwise,
    Closed,
    CumulativeProduct,
    Decay,
    Derivation,
    GateProduct,
    Identity,
    Recurrence,
    RemainingProduct,
    Source,
    TokenRows,
    TokenSum,
)
from derivations.language import Ne, Parameter, Symbol, TotalProduct, assume, constant, d_k, d_v, diag

recurrence = Recurrence(S, update=gamma[t] * S + v @ k.T, readout=S @ q)
component_sum = TokenRows(TokenSum(GateProduct(gamma[tau], tau, j + 1, t) * (V[j] @ (K[j].T @ q)), j, 1, t))
matrix = Closed((Q @ K.T).hadamard(Gamma) @ V)

# one block: queries see the carry faded up to their own token, keys fade up to the block's end
from_start, to_end = CumulativeProduct(gamma), RemainingProduct(gamma)
chunkwise = Chunkwise(
    S,
    update=TotalProduct(gamma) * S + V.T @ diag(to_end) @ K,
    readout=diag(from_start) @ Q @ S.T + (Q @ K.T).hadamard(Gamma) @ V,
)

# the state after the last token, from any state S_0 before the first
S_0 = Parameter("S_0", d_v, d_k)
last_state = Recurrence(S, update=gamma[t] * S + v @ k.T, readout=S @ q, initial=S_0).final()
summed_state = Closed(TotalProduct(gamma) * S_0 + V.T @ diag(to_end) @ K, name="S_n")


def combined(algebra: Any, earlier: tuple[Any, Any], later: tuple[Any, Any]) -> tuple[Any, Any]:
    """(a, B) o (a', B') = (a a', a' B + B'): two stretches of tokens, each as S -> a S + B, one after the other."""
    fade = algebra.multiply(earlier[0], later[0])
    return fade, algebra.add(algebra.multiply(later[0], earlier[1]), later[1])


def scanned(algebra: Any, Q: Any, K: Any, V: Any, gamma: Any) -> Any:
    """S_t by the associative scan of the pairs (gamma_t, v_t k_t^T), by halves, each state read with q_t."""

    def scan(start: int, stop: int, before: tuple[Any, Any] | None) -> tuple[list[Any], tuple[Any, Any]]:
        """The outputs of a stretch after the stretch `before`, and the stretch itself without it."""
        if stop - start == 1:
            write = algebra.matmul(algebra.token(V, start), algebra.transpose(algebra.token(K, start)))
            own = algebra.token(gamma, start), write
            _, state = own if before is None else combined(algebra, before, own)
            return [algebra.matmul(state, algebra.token(Q, start))], own
        middle = (start + stop) // 2
        first, left = scan(start, middle, before)
        second, right = scan(middle, stop, left if before is None else combined(algebra, before, left))
        return first + second, combined(algebra, left, right)

    outputs, _ = scan(0, Q.shape[-2], None)
    return algebra.stack(outputs)


associative_scan = Algorithm(scanned, inputs=(Q, K, V, gamma), shape=(n, d_v))

# Gamma_ij = b_i / b_j with b_i = gamma_1 ... gamma_i: the decay moves into Q and K
rescaled = Closed(((diag(from_start) @ Q) @ (diag(from_start).I @ K).T).hadamard(M) @ V)
gamma_not_zero = assume(Ne(gamma[t], 0), "the keys are divided by the products of gates")

# neighbours that are easily mistaken for it: the read before the write, the write before the decay, no decay
strict_matrix = Closed((Q @ K.T).hadamard(Gamma_strict) @ V)
shifted_matrix = Closed((Q @ K.T).hadamard(Gamma_shifted) @ V)
own_write_fades = Recurrence(S, update=gamma[t] * (S + v @ k.T), readout=S @ q)
ungated_matrix = Closed((Q @ K.T).hadamard(M) @ V)

# RetNet: one gamma for all tokens; eqs. 6, 5 and 7
rate = Symbol("gamma")
retention = Recurrence(S, update=rate * S + v @ k.T, readout=S @ q)
retention_sum = TokenRows(TokenSum(rate ** (t - j) * (V[j] @ (K[j].T @ q)), j, 1, t))
D = Decay(constant(rate, n))
retention_matrix = Closed((Q @ K.T).hadamard(D) @ V)
xi, zeta = CumulativeProduct(constant(rate, n)), RemainingProduct(constant(rate, n))
retention_chunkwise = Chunkwise(
    S,
    update=rate**n * S + V.T @ diag(zeta) @ K,
    readout=diag(xi) @ Q @ S.T + (Q @ K.T).hadamard(D) @ V,
)
# eq. 7 has zeta_i = gamma^(B-i-1) and xi_i = gamma^(i+1) with rows from 0; these are the same with rows from 1
counted_from_one = Chunkwise(
    S,
    update=rate**n * S + V.T @ diag(zeta / rate) @ K,
    readout=diag(rate * xi) @ Q @ S.T + (Q @ K.T).hadamard(D) @ V,
)
rate_not_zero = assume(Ne(rate, 0), "counted from 1, zeta ends with 1 / gamma")
without_zeta = Chunkwise(S, update=rate**n * S + V.T @ K, readout=retention_chunkwise.readout)
power_of_t = Recurrence(S, update=rate**t * S + v @ k.T, readout=S @ q)

decay = Derivation(
    "decay",
    title="Decayed linear attention",
    summary="Linear attention whose state fades by a gate before each write: RetNet, Mamba-2's state space duality.",
    forms={
        "recurrence": recurrence,
        "component_sum": component_sum,
        "matrix": matrix,
        "chunkwise": chunkwise,
        "associative_scan": associative_scan,
        "retention": retention,
        "retention_chunkwise": retention_chunkwise,
    },
    identities=[
        Identity(
            "recurrent_is_component_sum",
            recurrence,
            component_sum,
            says="What token j wrote reaches token t times the gates after j, up to t's own.",
            source="document 000, the definition of Gamma",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="The recurrence is the matrix product masked by Gamma: state space duality.",
            source="document 000, Mamba2 and the table's third row",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Token by token and block by block carry the same state.",
        ),
        Identity(
            "final_state",
            last_state,
            summed_state,
            says="The last state is one matrix product, each token faded by the gates after it.",
        ),
        Identity(
            "recurrent_is_associative_scan",
            recurrence,
            associative_scan,
            says="The recurrence is a prefix sum of pairs, which can be bracketed by halves.",
            source="document 001, on prefix sums",
        ),
        Identity(
            "decay_in_queries_and_keys",
            matrix,
            rescaled,
            assumptions=(gamma_not_zero,),
            says="Gamma is M with the queries scaled by the products of gates and the keys divided by them.",
        ),
        Identity(
            "read_before_is_shifted",
            recurrence.reading("before"),
            shifted_matrix,
            says="Read before the write, the past hasn't faded by the token's own gate yet: the mask is Gamma^sh.",
        ),
        Identity(
            "read_before_is_strict",
            recurrence.reading("before"),
            strict_matrix,
            expected="refuted",
            says="Dropping Gamma's diagonal doesn't give the read before the write: Gamma^- has one gate too many.",
        ),
        Identity(
            "own_write_fades",
            own_write_fades,
            matrix,
            expected="refuted",
            says="With a state that fades after the write, Gamma has one gate too few.",
        ),
        Identity(
            "own_write_fades_is_scaled",
            own_write_fades,
            matrix.substitute({v: gamma[t] * v}),
            says="Fading after the write is fading before it with each value scaled by its own gate.",
        ),
        Identity(
            "gates_left_out",
            recurrence,
            ungated_matrix,
            expected="refuted",
            says="M in the place of Gamma forgets the gates.",
            source="NVlabs/GatedDeltaNet issues 13 and 15",
        ),
        Identity(
            "retention_is_component_sum",
            retention,
            retention_sum,
            says="With one gamma, token j reaches token t with the weight gamma^(t-j).",
        ),
        Identity(
            "retention_is_matrix",
            retention,
            retention_matrix,
            says="RetNet's recurrent and parallel forms are equal, for every gamma.",
            source="document 000, the first formula with gamma; RetNet, eqs. 5 and 6",
        ),
        Identity(
            "retention_is_chunkwise",
            retention,
            retention_chunkwise,
            says="RetNet's recurrent and chunkwise forms are equal, with the rows of zeta and xi counted from 0.",
            source="RetNet, eqs. 6 and 7",
        ),
        Identity(
            "retention_counted_from_one",
            retention,
            counted_from_one,
            assumptions=(rate_not_zero,),
            carries=False,
            says="With rows counted from 1, zeta and xi are both off by one; in the outputs the two cancel.",
            source="RetNet, eq. 7",
        ),
        Identity(
            "retention_without_zeta",
            retention,
            without_zeta,
            expected="refuted",
            says="A block's keys have to fade up to its end before they are carried over.",
        ),
        Identity(
            "retention_with_power_of_t",
            power_of_t,
            retention,
            expected="refuted",
            says="The factor of each step is gamma: gamma^t is what accumulates.",
            source="document 003, question 2",
        ),
    ],
    sources=[
        Source("Retentive Network", "Sun et al. 2023, eqs. 5 to 7", "arXiv:2307.08621"),
        Source("Transformers are SSMs", "Dao & Gu 2024", "arXiv:2405.21060"),
        Source("Prefix Sums and Their Applications", "Blelloch 1990"),
    ],
)
