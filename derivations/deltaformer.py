r"""DeltaFormer: the delta rule with exponentials of the scores. Softmax attention whose values correct each other.

    u_t = v_t - sum_{j<t} exp(k_j^T w_t) u_j,   o_t = sum_{j<=t} exp(k_j^T q_t) u_j

Zhong et al. 2025 (arXiv 2505.19488), without the normalisation. w_t asks for what has been written under similar keys;
document 000 has w_t = k_t. As matrices:

    O = (exp(Q K^T) . M) (I + exp(W K^T) . M^-)^-1 V

With inner products in the place of their exponentials it is DeltaNet; exponentials have no state of finite size.
"""

from sympy import Interval, Matrix, eye, oo, symbols, zeros
from sympy import exp as exponential
from sympy import log as logarithm

from derivations.deltanet import unit
from derivations.language import Closed, Computed, Derivation, Equal, Fact, Finding, Gate, Identity, RangeWithin
from derivations.language import I, K, M, M_strict, Q, S, V, beta, d_k, d_v, diag, exp, j, k, log, n, q, t, v
from derivations.language import Recurrence, Reduction, Sequence, Source, TokenSum, nonzero, scalar

W = Sequence("W", n, d_k)
w = W[t]
read = exp(Q @ K.T).hadamard(M)
erased = exp(W @ K.T).hadamard(M_strict)
system = I + erased

matrix = Closed(read @ system.I @ V)
U = Sequence("U", n, d_v)
one_by_one = Closed(read @ U).where(U[t], v - TokenSum(exp(scalar(K[j].T @ w)) * U[j], j, 1, t - 1))

# each row of `erased` divided by a number: by its sum for a softmax, of which the first row has none
z = Gate("z")
row_normalised = Closed((I + diag(z).I @ erased).I @ V, name="U")
with_strengths = Closed((I + diag(beta) @ erased).I @ diag(beta) @ V, name="U")
z_not_zero = nonzero(z, "the rows are divided by z")

# with inner products, the state predicts for w and writes under k
linear_recurrence = Recurrence(S, update=S + (v - S @ w) @ k.T, readout=S @ q)
linear_matrix = Closed((Q @ K.T).hadamard(M) @ (I + (W @ K.T).hadamard(M_strict)).I @ V)

with_diagonal = Closed(read @ (I + exp(W @ K.T).hadamard(M)).I @ V)
first_order = Closed(read @ (I - erased) @ V)

# a strictly lower triangular B, and one key again and again, with a = exp(|k|^2) and a value for the first token alone
SIZE = 5
B = Matrix(SIZE, SIZE, symbols(f"b_(1:{SIZE + 1})(1:{SIZE + 1})")).lower_triangular(-1)
series = sum(((-B) ** power for power in range(SIZE)), zeros(SIZE))
a, x = symbols("a x", positive=True)
one_key = eye(4) + a * Matrix.ones(4, 4).lower_triangular(-1)
growing = Matrix([1, -a, -a * (1 - a), -a * (1 - a) ** 2])


def empty_rows() -> Finding:
    """Whether every row of a strictly causal softmax has something to sum up."""
    scores = Matrix(SIZE, SIZE, symbols(f"s_(1:{SIZE + 1})(1:{SIZE + 1})", real=True))
    kept = scores.applyfunc(exponential).lower_triangular(-1)
    empty = [number + 1 for number in range(SIZE) if sum(kept.row(number)) == 0]
    return Finding(not empty, f"of {SIZE} rows, the sum is zero in row {empty[0]}" if empty else "no row is empty")


deltaformer = Derivation(
    "deltaformer",
    title="DeltaFormer",
    summary="Attention by exponentials whose values are corrected, each by what was written under similar keys before.",
    forms={"one_by_one": one_by_one, "matrix": matrix},
    identities=[
        Identity(
            "recurrent_is_matrix",
            one_by_one,
            matrix,
            says="Corrected one after the other, the values are the solution of a unit triangular system.",
            source="document 000, DeltaFormer",
        ),
        Identity(
            "system_as_printed",
            Closed(I + exp(K @ K.T + log(M_strict)), name="A"),
            Closed(system, name="A").substitute({W: K}),
            says="Document 000's system has W = K, and M^- as a logarithm among the scores.",
            source="document 000, DeltaFormer",
        ),
        Identity(
            "row_normalised",
            row_normalised,
            with_strengths.substitute({beta[t]: 1 / z[t], v: z[t] * v}),
            assumptions=(z_not_zero,),
            says="Rows divided by z are write strengths 1 / z and values times z; z_1 is free, its row being empty.",
            source="document 000, 'exp replaced by softmax'",
        ),
        Identity(
            "linear_kernel",
            linear_recurrence,
            linear_matrix,
            says="With inner products for the exponentials, a state predicts for w_t and is corrected under k_t.",
        ),
        Reduction(
            "linear_kernel_is_deltanet",
            linear_recurrence.substitute({W: K}),
            unit,
            general="deltaformer",
            special="deltanet",
            condition="exp(x) replaced by x, W = K, eta = 1",
            says="With w = k besides, it is DeltaNet.",
            source="document 000, 'the other way round'",
        ),
        Identity(
            "another_read_key",
            matrix.substitute({W: K}),
            matrix.substitute({W: Q}),
            expected="refuted",
            says="W = K and W = Q are two systems; both are in use.",
        ),
        Identity(
            "diagonal_in_the_system",
            matrix,
            with_diagonal,
            expected="refuted",
            says="A value isn't corrected by itself: the system has M^-, not M.",
        ),
        Identity(
            "first_order",
            matrix,
            first_order,
            expected="refuted",
            says="From three tokens on, (I + B)^-1 isn't I - B: corrections are corrected.",
        ),
    ],
    facts=[
        Fact(
            "series_terminates",
            Equal((eye(SIZE) + B) * series, eye(SIZE)),
            says="(I + B)^-1 = I - B + B^2 - ... ends with B^(n-1), whatever B is: nothing has to converge.",
            source="document 000, on the Neumann series",
        ),
        Fact("nilpotent", Equal(B**SIZE, zeros(SIZE)), says="B^n is zero."),
        Fact(
            "strict_softmax_has_a_first_row",
            Computed(empty_rows, "rows"),
            expected="refuted",
            says="The first row of a strictly causal softmax has nothing to divide by.",
            source="document 000, 'exp replaced by softmax'",
        ),
        Fact(
            "one_key",
            Equal(one_key * growing, Matrix([1, 0, 0, 0])),
            says="A key that comes again and again multiplies its correction by 1 - exp(|k|^2) every time.",
        ),
        Fact(
            "unstable",
            RangeWithin(1 - exponential(x), x, Interval.open(logarithm(2), oo), Interval.open(-oo, -1)),
            says="For |k|^2 > ln 2 that is below -1, and corrections grow without bound.",
        ),
        Fact(
            "stable",
            RangeWithin(1 - exponential(x), x, Interval.open(0, logarithm(2)), Interval.open(-1, 0)),
            says="For smaller keys they fade.",
        ),
    ],
    sources=[
        Source(
            "Understanding Transformer from the Perspective of Associative Memory",
            "Zhong et al. 2025",
            "arXiv:2505.19488",
        )
    ],
)
