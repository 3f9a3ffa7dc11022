r"""Linear attention: o_t = sum_{j<=t} v_j (k_j^T q_t) = S_t q_t with S_t = S_{t-1} + v_t k_t^T, in one matrix ((Q
K^T) . M) V.

Katharopoulos et al. 2020 (arXiv 2006.16236), here without feature map and normaliser.
"""

from sympy import Expr, Limit, Matrix, Symbol, cos, oo, ones, sin, solve, symbols

from derivations.language import K, M, Q, S, V, d_k, d_v, eta, j, k, n, q, t, v
from derivations.language import Chunkwise, Closed, Derivation, Identity, Recurrence, Source, TokenRows, TokenSum
from derivations.language import Counts, Equal, Fact, Ones, Parameter, Sequence, Statement
from derivations.language import derivative, norm_squared, rank_is, scalar, trace

component_sum = TokenRows(TokenSum(V[j] @ (K[j].T @ q), j, 1, t))
recurrence = Recurrence(S, update=S + v @ k.T, readout=S @ q)
matrix = Closed((Q @ K.T).hadamard(M) @ V)
chunkwise = Chunkwise(S, update=S + V.T @ K, readout=Q @ S.T + (Q @ K.T).hadamard(M) @ V)

noncausal_state = Closed(Q @ (K.T @ V))
A = Sequence("A", n, n)
noncausal_matrix = Closed(A @ V).where(A, Q @ K.T)  # a name of its own: a product is evaluated from the right
noncausal_sum = TokenRows(TokenSum(V[j] @ (K[j].T @ q), j, 1, n))

# the loss -v^T S k; its gradient, by the product with every direction E; and the step along it
E = Parameter("E", d_v, d_k)
c = Symbol("c")


def loss(state: Statement) -> Expr:
    """-v^T S k at a state."""
    return -scalar(v.T @ state @ k)


gradient = -v @ k.T
slope = TokenRows(derivative(loss(S), S, along=E) * Ones(1, 1))
slope_of_gradient = TokenRows(trace(E.T @ gradient) * Ones(1, 1))
gradient_step = Recurrence(S, update=S - gradient, readout=S @ q)
weighted = Recurrence(S, update=S - eta[t] * gradient, readout=S @ q)
loss_along_the_write = TokenRows(loss(c * v @ k.T) * Ones(1, 1))
falling_line = TokenRows(-c * norm_squared(v) * norm_squared(k) * Ones(1, 1))

# what the last state returns for every key
recalled = recurrence.final(S @ K.T)
mixed = Closed(V.T @ (K @ K.T), name="S_n K^T")

length, width, size = symbols("n d s", positive=True)
angle = Symbol("theta", real=True)
orthonormal = Matrix([[cos(angle), sin(angle)], [-sin(angle), cos(angle)]])
values = Matrix(2, 2, symbols("v_1:5"))
masked_scores = (ones(3, 1) * ones(1, 3)).multiply_elementwise(ones(3, 3).lower_triangular())


def crossover(attention: Expr) -> Expr:
    """The length at which as many multiplications as these are those of the recurrence, for d_k = d_v = d."""
    return solve(attention - 2 * length * width**2, length)[-1]


linear_attention = Derivation(
    "linear_attention",
    title="Linear attention",
    summary="Softmax attention without the softmax: the past is summed up in one d_v x d_k state.",
    forms={
        "component_sum": component_sum,
        "recurrence": recurrence,
        "matrix": matrix,
        "chunkwise": chunkwise,
        "noncausal": noncausal_state,
    },
    identities=[
        Identity(
            "recurrent_is_component_sum",
            recurrence,
            component_sum,
            says="Reading the running sum of v k^T with q gives the sum over all earlier tokens.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="The recurrence is the masked matrix product.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Token by token and block by block carry the same state.",
        ),
        Identity(
            "noncausal_reassociated",
            noncausal_state,
            noncausal_matrix,
            says="Without a mask, Q (K^T V) and (Q K^T) V are the same: the n x n matrix need not be formed.",
        ),
        Identity(
            "noncausal_is_component_sum",
            noncausal_state,
            noncausal_sum,
            says="The state of all tokens read by each query.",
        ),
        Identity(
            "causal_is_noncausal",
            recurrence,
            noncausal_state,
            expected="refuted",
            says="The causal recurrence isn't the non-causal matrix form: its first token sees one value only.",
        ),
        Identity(
            "gradient_of_the_loss",
            slope,
            slope_of_gradient,
            says="The gradient of -v^T S k is -v k^T: its product with E is the derivative along E.",
            source="document 000, the losses",
        ),
        Identity(
            "gradient_step",
            gradient_step,
            recurrence,
            says="A step of size one along it is linear attention's write.",
            source="document 000, the losses",
        ),
        Identity(
            "step_size_in_v",
            weighted,
            recurrence.substitute({v: eta[t] * v}),
            says="A step size goes into the values alone: nothing is predicted, so nothing else is scaled.",
        ),
        Identity(
            "loss_along_the_write",
            loss_along_the_write,
            falling_line,
            says="At S = c v k^T the loss is -c |v|^2 |k|^2: it falls in c without end.",
        ),
        Identity(
            "recalled_values",
            recalled,
            mixed,
            says="Asked for its keys the last state returns the values mixed by the keys' inner products.",
        ),
    ],
    facts=[
        Fact(
            "loss_is_unbounded",
            Equal(Limit(-c * size, c, oo), -oo),
            says="That line has no lower bound unless v or k is zero.",
            source="document 000, the losses",
        ),
        Fact(
            "orthonormal_keys_are_recalled",
            Equal(values * orthonormal * orthonormal.T, values),
            says="With orthonormal keys (here two, at any angle) S k_j = v_j.",
        ),
        Fact(
            "masked_product_has_full_rank",
            rank_is(masked_scores, 3),
            says="With d_k = 1 and n = 3, (Q K^T) . M has rank 3 for Q = K = 1: the mask can't be reassociated away.",
        ),
        Fact(
            "multiplications_of_the_recurrence",
            Counts(recurrence, "multiplications", 2 * n * d_k * d_v),
            says="The recurrence takes 2 n d_k d_v multiplications: one write and one read for each token.",
            source="document 000, on complexity",
        ),
        Fact(
            "multiplications_of_the_matrix",
            Counts(matrix, "multiplications", n**2 * (d_k + d_v)),
            says="The matrix form takes n^2 (d_k + d_v), the masked half included.",
        ),
        Fact(
            "multiplications_of_the_sum",
            Counts(component_sum, "multiplications", n * (n + 1) * (d_k + d_v) / 2),
            says="Without the masked half it is n (n + 1) / 2 times d_k + d_v.",
        ),
        Fact(
            "multiplications_of_the_chunkwise_form",
            Counts(chunkwise, "multiplications", 2 * n * d_k * d_v + 4 * n * (d_k + d_v), chunk=4),
            says="In blocks of C it is those of the recurrence and n C (d_k + d_v) more, here with C = 4.",
        ),
        Fact(
            "crossover",
            Equal(crossover(2 * length**2 * width), width),
            says="With d_k = d_v = d the recurrence is the cheaper one from n = d on.",
            source="document 000, on complexity",
        ),
        Fact(
            "crossover_without_the_masked_half",
            Equal(crossover(length * (length + 1) * width), 2 * width - 1),
            says="Against an implementation that skips the masked half it is from n = 2 d - 1 on.",
        ),
        Fact(
            "largest_value_of_the_recurrence",
            Counts(recurrence, "largest value", d_k * d_v),
            says="The largest matrix on the recurrence's way is the state, whatever n is.",
            source="document 000, on complexity",
        ),
        Fact(
            "largest_value_of_the_matrix",
            Counts(matrix, "largest value", n**2),
            says="That of the matrix form has n^2 entries.",
        ),
        Fact(
            "recurrence_saves_its_states",
            Counts(recurrence, "saved for backward", n * d_k * d_v + n * (2 * d_k + d_v)),
            says="For its gradient the recurrence, as it is written, keeps all n states.",
        ),
        Fact(
            "matrix_saves_its_scores",
            Counts(matrix, "saved for backward", n**2 + n * (2 * d_k + d_v)),
            says="The matrix form keeps n^2 scores: more than the recurrence only if n > d_k d_v.",
        ),
    ],
    sources=[Source("Transformers are RNNs", "Katharopoulos et al. 2020", "arXiv:2006.16236")],
)
