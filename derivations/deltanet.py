r"""DeltaNet: the state corrects what it predicts. S_t = S_{t-1} + eta_t (v_t - S_{t-1} k_t) k_t^T, o_t = S_t q_t.

Schlag, Irie & Schmidhuber 2021 (arXiv 2102.11174), parallel over the sequence by Yang et al. 2024 (arXiv 2406.06484);
eta is beta there. As one matrix product:

    O = ((Q K^T) . M) (I + D_eta ((K K^T) . M^-))^-1 D_eta V

It is linear attention with V replaced by the corrections U, which solve a triangular system.
"""

from itertools import product

from sympy import Interval, Matrix, Symbol, Union, oo

from derivations.language import I, K, M, M_strict, Q, S, Sequence, V, d_k, d_v, eta, eye, j, k, n, q, t, v
from derivations.language import Chunkwise, Closed, Computed, Counts, Derivation, Equal, Fact, Finding, Identity
from derivations.language import Recurrence, Source, State, TokenRows, TokenSum
from derivations.language import REALS, Eq, Ne, Ones, Parameter, RangeWithin, assume, derivative, diag, norm_squared
from derivations.language import rank_is, sqrt, trace

recurrence = Recurrence(S, update=S + eta[t] * (v - S @ k) @ k.T, readout=S @ q)
transition = Recurrence(S, update=S @ (eye(d_k) - eta[t] * k @ k.T) + eta[t] * v @ k.T, readout=S @ q)
matrix = Closed((Q @ K.T).hadamard(M) @ (I + diag(eta) @ (K @ K.T).hadamard(M_strict)).I @ diag(eta) @ V)

# the corrections alone: eta on the left of the system and of V, or 1 / eta on the system's diagonal
corrections = Closed((I + diag(eta) @ (K @ K.T).hadamard(M_strict)).I @ diag(eta) @ V, name="U")
eta_inverted = Closed((diag(eta).I + (K @ K.T).hadamard(M_strict)).I @ V, name="U")
eta_not_zero = assume(Ne(eta[t], 0), "the system has 1 / eta on its diagonal")

# one block in WY form: W = T K and U = T V don't need the carry and can be had for all blocks at once
T = (I + diag(eta) @ (K @ K.T).hadamard(M_strict)).I @ diag(eta)
corrected = T @ V - (T @ K) @ S.T
chunkwise = Chunkwise(S, update=S + corrected.T @ K, readout=Q @ S.T + (Q @ K.T).hadamard(M) @ corrected)

# token by token, a correction is a sum over earlier ones
U = Sequence("U", n, d_v)
correction = eta[t] * (v - TokenSum(U[j] @ (K[j].T @ k), j, 1, t - 1))
correction_sum = TokenRows(TokenSum(U[j] @ (K[j].T @ q), j, 1, t)).where(U[t], correction)

# eta = 1, as in document 000: the three lines of the expansion, and the table's row
unit = Recurrence(S, update=S - (S @ k - v) @ k.T, readout=S @ q)
unit_removed = Recurrence(S, update=S - (S @ k) @ k.T + v @ k.T, readout=S @ q)
unit_transition = Recurrence(S, update=S @ (eye(d_k) - k @ k.T) + v @ k.T, readout=S @ q)
unit_matrix = Closed((Q @ K.T).hadamard(M) @ (I + (K @ K.T).hadamard(M_strict)).I @ V)

# u_t = v_t - S_{t-1} k_t takes the place of v_t; as a sum, as a linear system, and solved
unpredicted = Recurrence(S, update=unit.updates[0], readout=v - S @ k, read="before")
masked_product_of_U = Closed((Q @ K.T).hadamard(M) @ U).where(U, unpredicted)
iterated = v - TokenSum(U[j] @ (K[j].T @ k), j, 1, t - 1)
U_by_iteration = Closed(U).where(U[t], iterated)
U_right_side = Closed(V - (K @ K.T).hadamard(M_strict) @ U, name="U").where(U[t], iterated)
U_solved = Closed((I + (K @ K.T).hadamard(M_strict)).I @ V, name="U")

# eta moved into k and v
eta_nonnegative = assume(eta[t] >= 0, "the square root of eta is taken")
absorbed = unit.substitute({k: sqrt(eta[t]) * k, v: sqrt(eta[t]) * v})
absorbed_in_v = unit.substitute({v: eta[t] * v})
absorbed_in_k = unit.substitute({k: eta[t] * k})

# the gradient of |S k - v|^2 / 2, by its product with every direction E; and the step along it
E = Parameter("E", d_v, d_k)
loss = norm_squared(S @ k - v) / 2
gradient = (S @ k - v) @ k.T
slope = TokenRows(derivative(loss, S, along=E) * Ones(1, 1))
slope_of_gradient = TokenRows(trace(E.T @ gradient) * Ones(1, 1))
gradient_step = Recurrence(S, update=S - eta[t] * gradient, readout=S @ q)

# what the state predicts for k_t once it has been corrected
strength = eta[t] * norm_squared(k)
prediction = Recurrence(S, update=recurrence.updates[0], readout=S @ k)
moved_to_v = Recurrence(S, update=recurrence.updates[0], readout=(1 - strength) * (S @ k) + strength * v, read="before")
overwritten = Recurrence(S, update=unit.updates[0], readout=S @ k)
unit_norm = assume(Eq(norm_squared(k), 1), "k k^T removes the whole prediction for k if |k| = 1")

# two steps S -> S M_t + X_t as one, [M_1, X_1] o [M_2, X_2] = [M_1 M_2, X_1 M_2 + X_2], and three in either order
S_0, M_1, M_2, M_3 = (Parameter(name, d_k, d_k) for name in ("S_0", "M_1", "M_2", "M_3"))
X_1, X_2, X_3 = (Parameter(name, d_k, d_k) for name in ("X_1", "X_2", "X_3"))
two_steps = Closed((S_0 @ M_1 + X_1) @ M_2 + X_2, name="S_2")
combined = Closed(S_0 @ (M_1 @ M_2) + (X_1 @ M_2 + X_2), name="S_2")
combined_as_printed = Closed(S_0 @ (M_1 @ M_2) + (M_2 @ X_1 + X_2), name="S_2")
first_two_first = Closed((X_1 @ M_2 + X_2) @ M_3 + X_3, name="X")
last_two_first = Closed(X_1 @ (M_2 @ M_3) + (X_2 @ M_3 + X_3), name="X")

# the product of the tokens' factors: descending, the last token leftmost, and ascending, as S_t = S_{t-1} (...) has it
P = State("P", d_k, d_k)
factor = eye(d_k) - eta[t] * k @ k.T
descending = Recurrence(P, update=factor @ P, readout=P @ q, initial=eye(d_k)).final()
ascending = Recurrence(P, update=P @ factor, readout=P @ q, initial=eye(d_k)).final()
lower_wy, upper_wy = Closed(eye(d_k) - K.T @ T @ K, name="P"), Closed(eye(d_k) - K.T @ T.T @ K, name="P")

# costs: an inverse of any n x n matrix, and the solution of a unit triangular system
B = Parameter("B", n, n)
general_inverse, triangular_solution = Closed(B.I), Closed((I + B.hadamard(M_strict)).I @ V)

# in one dimension
x = Symbol("x", real=True)  # eta |k|^2, or a key
GROWTH = Union(Interval.open(-oo, -1), Interval.open(1, oo))


def strictly_lower(K: Matrix) -> Matrix:
    """(K K^T) . M^- of explicit keys."""
    overlaps = K * K.T
    return Matrix(K.rows, K.rows, lambda row, column: overlaps[row, column] if row > column else 0)


def low_rank_below_the_diagonal() -> Finding:
    """Rows i .. n of columns 1 .. i - 1, in B and in (I + B)^-1, for eight keys in two dimensions."""
    keys = Matrix([[t % 3 - 1, t % 5 + 1] for t in range(8)])
    overlaps = strictly_lower(keys)
    inverse = (Matrix.eye(8) + overlaps).inv()
    ranks = [matrix[i:, :i].rank() for matrix, i in product((overlaps, inverse), range(1, 8))]
    return Finding(max(ranks) <= keys.cols, f"ranks {ranks}")


def fifty_strong_steps() -> Finding:
    """The state after 50 times the same pair k = 2, v = 0 with eta = 1, from 1."""
    state = 1
    for _ in range(50):
        state += (0 - state * 2) * 2
    return Finding(state == 3**50, f"{state}")


deltanet = Derivation(
    "deltanet",
    title="DeltaNet",
    summary="Linear attention that writes only what the state doesn't predict yet: a step of regression per token.",
    forms={
        "recurrence": recurrence,
        "transition": transition,
        "correction_sum": correction_sum,
        "matrix": matrix,
        "chunkwise": chunkwise,
    },
    identities=[
        Identity(
            "recurrent_is_transition",
            recurrence,
            transition,
            says="Correcting the prediction is multiplying the state by I - eta k k^T and writing eta v k^T.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="The recurrence is a masked product with one triangular system.",
        ),
        Identity(
            "eta_on_the_diagonal",
            corrections,
            eta_inverted,
            assumptions=(eta_not_zero,),
            says="D_eta on the left of the system and of V is D_eta^-1 in the place of I.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Token by token and block by block, in WY form, carry the same state.",
            source="document 000, on linear complexity",
        ),
        Identity(
            "recurrent_is_correction_sum",
            recurrence,
            correction_sum,
            says="The output is linear attention's sum with u_j in the place of v_j.",
        ),
        Identity(
            "only_V_is_replaced",
            unit,
            masked_product_of_U,
            says="With the corrections as values, DeltaNet is linear attention's matrix form.",
            source="document 000, 'V is replaced by U'",
        ),
        Identity(
            "unit_removed_then_written",
            unit,
            unit_removed,
            says="eta = 1, multiplied out: the old prediction is removed, then the new value is written.",
            source="document 000, the expansion for eta = 1, first and second line",
        ),
        Identity(
            "unit_transition",
            unit_removed,
            unit_transition,
            says="eta = 1 as a transition: S (I - k k^T) + v k^T.",
            source="document 000, the expansion for eta = 1, second and third line",
        ),
        Identity(
            "table_row",
            unit,
            unit_matrix,
            says="The table's row for DeltaNet is the recurrence with eta = 1.",
            source="document 000, the table's fourth row",
        ),
        Identity(
            "correction_by_sum",
            unpredicted,
            U_by_iteration,
            says="u_t = v_t - S_{t-1} k_t is v_t minus the sum of the earlier corrections, weighted by k_j^T k_t.",
            source="document 000, the iteration for u_t",
        ),
        Identity(
            "linear_system",
            U_by_iteration,
            U_right_side,
            says="The corrections fulfil U = V - ((K K^T) . M^-) U.",
            source="document 000, the matrix form of u_t",
        ),
        Identity(
            "linear_system_solved",
            U_by_iteration,
            U_solved,
            says="The system is unit triangular and has one solution, whatever K is.",
            source="document 000, the solution for U",
        ),
        Identity(
            "gradient_of_the_loss",
            slope,
            slope_of_gradient,
            says="The gradient of |S k - v|^2 / 2 is (S k - v) k^T: its product with E is the derivative along E.",
            source="document 000, the quadratic loss",
        ),
        Identity(
            "gradient_step",
            gradient_step,
            recurrence,
            says="One step of gradient descent on |S k - v|^2 / 2 with step size eta is the delta rule.",
            source="document 000, one step of gradient descent",
        ),
        Identity(
            "eta_absorbed",
            recurrence,
            absorbed,
            assumptions=(eta_nonnegative,),
            says="k and v scaled by sqrt(eta) each take eta in.",
            source="document 000, 'eta can always be absorbed'",
        ),
        Identity(
            "eta_absorbed_in_v_alone",
            recurrence,
            absorbed_in_v,
            expected="refuted",
            says="Scaling v alone writes with eta, but removes the old prediction with strength one.",
        ),
        Identity(
            "eta_absorbed_in_k_alone",
            recurrence,
            absorbed_in_k,
            expected="refuted",
            says="Scaling k alone writes with eta, but removes the old prediction with eta squared.",
        ),
        Identity(
            "prediction_moves_to_v",
            prediction,
            moved_to_v,
            says="The new prediction for k lies between the old one and v, at eta |k|^2 of the way.",
            source="document 000, 'first subtract, then add'",
        ),
        Identity(
            "overwritten",
            overwritten,
            Closed(V),
            assumptions=(unit_norm,),
            says="With eta = 1 and |k| = 1 the state returns v for k, whatever it returned before.",
            source="document 000, 'active overwriting'",
        ),
        Identity(
            "scan_operator",
            two_steps,
            combined,
            says="Two steps S -> S M + X are the step with M_1 M_2 and X_1 M_2 + X_2.",
        ),
        Identity(
            "scan_operator_is_associative",
            first_two_first,
            last_two_first,
            says="Three steps may be bracketed either way, so that a scan may be parallel.",
            source="document 001, on prefix sums",
        ),
        Identity(
            "scan_operator_as_printed",
            two_steps,
            combined_as_printed,
            expected="refuted",
            says="Printed with M_2 on the left of X_1, the scan's operator isn't two steps of the recurrence.",
            source="DeltaNet Explained, part II, 'Defining the Associative Operator'",
        ),
        Identity(
            "product_of_transitions",
            descending,
            lower_wy,
            says="In descending order, the product of all I - eta k k^T is I - K^T T K.",
        ),
        Identity(
            "ascending_product_is_transposed",
            ascending,
            upper_wy,
            says="In ascending order, as the state is multiplied by them, it has T^T in the place of T.",
        ),
        Identity(
            "ascending_product",
            ascending,
            lower_wy,
            expected="refuted",
            says="In ascending order with T as it is, it is another matrix.",
        ),
    ],
    sources=[
        Source("Linear Transformers Are Secretly Fast Weight Programmers", "Schlag et al. 2021", "arXiv:2102.11174"),
        Source("Parallelizing Linear Transformers with the Delta Rule", "Yang et al. 2024", "arXiv:2406.06484"),
        Source("DeltaNet Explained, part II", "Yang 2024", "https://sustcsonglin.github.io/blog/2024/deltanet-2/"),
    ],
    facts=[
        Fact(
            "stable_strengths",
            RangeWithin(1 - x, x, Interval(0, 2), Interval(-1, 1)),
            says="For 0 <= eta |k|^2 <= 2, what the key finds is multiplied by a number between -1 and 1.",
        ),
        Fact(
            "unstable_strengths",
            RangeWithin(1 - x, x, Union(Interval.open(-oo, 0), Interval.open(2, oo)), GROWTH),
            says="For any other strength it grows.",
        ),
        Fact(
            "strong_steps_diverge",
            Computed(fifty_strong_steps, "executed"),
            says="With eta |k|^2 = 4, fifty steps multiply the state by 3^50.",
            source="document 000, 'first subtract, then add'",
        ),
        Fact(
            "not_quite_overwritten",
            Equal(2 * (3 + (5 - 3 * 2) * 2), 2),
            says="S = 3, k = 2, v = 5 and eta = 1 return 2 for k afterwards, and not 5.",
            source="document 000, 'first subtract, then add'",
        ),
        Fact(
            "negative_eta_stays",
            RangeWithin(1 - x**2, x, REALS, Interval(-oo, 1)),
            says="With eta = 1 a key multiplies what it finds by 1 - k^2 <= 1, where eta = -1, k = 1 multiplies by 2.",
            source="document 000, 'eta can always be absorbed'",
        ),
        Fact(
            "mask_keeps_the_rank",
            rank_is(strictly_lower(Matrix([1, 1, 1])), 1),
            expected="refuted",
            says="K K^T has the rank one for d_k = 1, and B = (K K^T) . M^- has not: three equal keys give rank two.",
            source="document 000, on the structure of B",
        ),
        Fact(
            "blocks_below_the_diagonal_have_low_rank",
            Computed(low_rank_below_the_diagonal, "rank"),
            says="Every block of B below the diagonal has at most the rank d_k, and so has every block of (I + B)^-1.",
            source="document 000, on the structure of B",
        ),
        Fact(
            "general_inverse_multiplications",
            Counts(general_inverse, "multiplications", 4 * n**3 / 3 - n / 3),
            says="The inverse of an n x n matrix takes about 4 n^3 / 3 multiplications, by elimination.",
            source="document 000, on the cost of the inverse",
        ),
        Fact(
            "triangular_solve_multiplications",
            Counts(triangular_solution, "multiplications", n * (n - 1) * d_v / 2),
            says="To solve (I + B) U = V takes n (n - 1) d_v / 2 multiplications.",
            source="document 000, on the cost of the inverse",
        ),
        Fact(
            "chunkwise_multiplications",
            Counts(chunkwise, "multiplications", n * (4 * d_k * d_v + 16 * d_k + 14 * d_v + 12), chunk=4),
            says="In blocks of four tokens the cost is linear in n.",
            source="document 000, on linear complexity",
        ),
    ],
)
