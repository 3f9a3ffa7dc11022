r"""MesaNet: the state is the solution of the regression that DeltaNet only takes a step of.

von Oswald et al. 2025 (arXiv 2506.05233); document 000, eq. (36):

    G_t = gamma_t G_{t-1} + v_t k_t^T,   H_t = gamma_t H_{t-1} + k_t k_t^T,   o_t = G_t (H_t + Lambda_t)^-1 q_t

S = G (H + Lambda)^-1 minimises sum_j g_j |S k_j - v_j|^2 / 2 + tr(S Lambda S^T) / 2, where g_j is the decay from token
j to now.
"""

from collections.abc import Callable
from typing import Any

from sympy import Matrix, Rational, symbols
from sympy import diag as diagonal_matrix

from derivations.language import K, S, Sequence, State, V, d_k, d_v, gamma, j, k, n, q, t, v
from derivations.language import Chunkwise, Closed, CumulativeProduct, Derivation, Gate, Identity, Recurrence, Source
from derivations.language import Algorithm, Computed, Counts, Equal, Fact, Finding, Gamma, Ones, Parameter
from derivations.language import RemainingProduct, SumOfSquares, TotalProduct, Zeros, rank_is
from derivations.language import assume, derivative, diag, invertible, scalar, trace

G, H = State("G", d_v, d_k), State("H", d_k, d_k)
Lambda = Sequence("Lambda", n, d_k)  # the diagonal of Lambda_t
g, ridge = Gate("g"), Gate("lambda", d_k)  # weights of the tokens, and one diagonal Lambda for all of them

write = (gamma[t] * G + v @ k.T, gamma[t] * H + k @ k.T)
recurrence = Recurrence((G, H), update=write, readout=G @ (H + diag(Lambda[t])).I @ q)

# the attention-like form: each query is preconditioned by its own system
Q_star = Sequence("Q_star", n, d_k)
preconditioned = Recurrence(H, update=gamma[t] * H + k @ k.T, readout=(H + diag(Lambda[t])).I @ q)
attention_like = Closed((Q_star @ K.T).hadamard(Gamma) @ V).where(Q_star, preconditioned)

decays, to_end = CumulativeProduct(gamma), RemainingProduct(gamma)
chunkwise = Chunkwise(
    (G, H),
    update=(TotalProduct(gamma) * G + V.T @ diag(to_end) @ K, TotalProduct(gamma) * H + K.T @ diag(to_end) @ K),
    readout=diag(decays) @ Q_star @ G.T + (Q_star @ K.T).hadamard(Gamma) @ V,
).where(Q_star, preconditioned)

# the state in closed form, with weights g_j
curvature = K.T @ diag(g) @ K + diag(ridge)
solution = V.T @ diag(g) @ K @ curvature.I
final_state = recurrence.final(G @ (H + diag(ridge)).I)

# the loss, its first and second derivative along a direction E^T
E = Sequence("E", d_k, d_v)
error = S @ K.T - V.T
loss = trace(error @ diag(g) @ error.T) / 2 + trace(S @ diag(ridge) @ S.T) / 2
slope = derivative(loss, S, along=E.T)
bend = derivative(slope, S, along=E.T)
one = Ones(1, 1)

# no gate and no Lambda
ungated = Recurrence((G, H), update=(G + v @ k.T, H + k @ k.T), readout=G @ q)
least_squares = V.T @ K @ (K.T @ K).I
squared_error = trace(error @ error.T) / 2

# recursive least squares: P = (H + Lambda)^-1 by Sherman and Morrison, S by the gain P k
P = State("P", d_k, d_k)
P_next = P - (P @ k) @ (k.T @ P) / (1 + scalar(k.T @ P @ k))
P_forgetting = (P - (P @ k) @ (k.T @ P) / (gamma[t] + scalar(k.T @ P @ k))) / gamma[t]
start = (Zeros(d_v, d_k), diag(ridge).I)
rls = Recurrence((S, P), update=(S + (v - S @ k) @ (k.T @ P_next), P_next), readout=S @ q, initial=start)
rls_forgetting = Recurrence(
    (S, P), (S + (v - S @ k) @ (k.T @ P_forgetting), P_forgetting), readout=S @ q, initial=start
)
ridge_once = Recurrence((G, H), update=(G + v @ k.T, H + k @ k.T), readout=G @ (H + diag(ridge)).I @ q)
ridge_always = Recurrence((G, H), update=write, readout=G @ (H + diag(ridge)).I @ q)
ridge_discounted = Recurrence((G, H), update=write, readout=G @ H.I @ q, initial=(Zeros(d_v, d_k), diag(ridge)))


def conjugate_gradients(A: Parameter, q: Parameter, steps: int, matrix: Callable[[Any, Any], Any]) -> Algorithm:
    """x with matrix(A) x = q for a symmetric matrix, from x = 0."""

    def solved(algebra: Any, A: Any, q: Any) -> Any:
        """conjugate gradients, from x = 0"""

        def inner(left: Any, right: Any) -> Any:
            return algebra.matmul(algebra.transpose(left), right)

        def quotient(above: Any, below: Any) -> Any:
            return algebra.multiply(above, algebra.reciprocal(below))

        x, residual, direction = algebra.multiply(algebra.number(Rational(0)), q), q, q
        energies: list[Any] = []
        for _ in range(steps):
            energies.append(inner(residual, residual))
            if len(energies) > 1:
                ratio = quotient(energies[-1], energies[-2])
                direction = algebra.add(residual, algebra.multiply(ratio, direction))
            image = algebra.matmul(matrix(algebra, A), direction)
            length = quotient(energies[-1], inner(direction, image))
            x = algebra.add(x, algebra.multiply(length, direction))
            residual = algebra.subtract(residual, algebra.multiply(length, image))
        return x

    return Algorithm(solved, inputs=(A, q), shape=q.shape)


def symmetric(algebra: Any, A: Any) -> Any:
    """A + A^T: every symmetric matrix."""
    return algebra.add(A, algebra.transpose(A))


def in_its_axes(algebra: Any, a: Any) -> Any:
    """Diag(a): a symmetric matrix in its own axes. Turning A and q together turns every step."""
    return algebra.diagonal(a)


A_two, q_two = Parameter("A", 2, 2), Parameter("q", 2)
axes, q_three = Parameter("A", 3), Parameter("q", 3)
solution_of_two = Closed((A_two + A_two.T).I @ q_two, name="x")

# what it costs to solve for one query
solution_of_any = Closed(Parameter("A", d_k, d_k).I @ Parameter("q", d_k), name="x")

# facts about single numbers: keys in two or three dimensions, values in one
two_keys = Matrix(2, 3, symbols("k_1_1:4 k_2_1:4"))
first_axis = Matrix([1, 0])
before, one_key, strength = symbols("s k eta")
PAIRS = [(Matrix([t % 3 - 1, t % 2 + 1]), Rational(t * t % 5, 2)) for t in range(1, 9)]
"""Eight keys and values that no linear map fits."""

Pairs = list[tuple[Any, Any]]


def by_regression(pairs: Pairs) -> Any:
    """The state G H^-1."""
    G = sum((value * key.T for key, value in pairs), Matrix.zeros(1, pairs[0][0].rows))
    return G * sum((key * key.T for key, _ in pairs), Matrix.zeros(pairs[0][0].rows)).inv()


def by_delta_rule(pairs: Pairs) -> Any:
    """The state after a step with eta |k|^2 = 1 for each pair."""
    state = Matrix.zeros(1, pairs[0][0].rows)
    for key, value in pairs:
        state += (value - (state * key)[0]) * key.T / key.dot(key)
    return state


def squared_errors(state: Any, pairs: Pairs) -> Any:
    """The sum of |S k - v|^2 / 2."""
    return sum(((state * key)[0] - value) ** 2 for key, value in pairs) / 2


def lower_loss(pairs: Pairs) -> Callable[[], Finding]:
    """Whether regression on all eight pairs has the lower loss on some of them."""

    def find() -> Finding:
        mesa, delta = (squared_errors(rule(PAIRS), pairs) for rule in (by_regression, by_delta_rule))
        return Finding(bool(mesa <= delta), f"MesaNet {mesa}, delta rule {delta}")

    return find


def mean_of_equal_keys(gate: Any) -> Callable[[], Finding]:
    """Whether k = 1 returns 2 after v = 1 and v = 3, the first pair decayed by the gate."""

    def find() -> Finding:
        returned = (gate * 1 + 3) / (gate + 1)
        return Finding(returned == 2, f"it returns {returned}")

    return find


weights_nonnegative = assume(g[t] >= 0, "a negative weight makes the loss concave along its key")
ridge_positive = assume(ridge[t] > 0, "without it the solution isn't unique before d_k independent keys were seen")
keys_independent = invertible(K.T @ K, "fewer than d_k independent keys leave directions in which S is free")

mesanet = Derivation(
    "mesanet",
    title="MesaNet",
    summary="The optimal linear model of all keys and values so far, kept as two sums and solved for each query.",
    forms={"recurrence": recurrence, "attention_like": attention_like, "chunkwise": chunkwise, "rls": rls},
    identities=[
        Identity(
            "attention_like",
            recurrence,
            attention_like,
            says="Preconditioned queries make it decayed linear attention.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Token by token and block by block carry the same sums.",
        ),
        Identity(
            "state_in_closed_form",
            final_state,
            Closed(solution).substitute({g: RemainingProduct(gamma)}),
            says="The last state is the regression with the decays to the last token as weights.",
        ),
        Identity(
            "gradient_is_zero",
            Closed(slope * one).substitute({S: solution}),
            Closed(Zeros(1, 1)),
            assumptions=(invertible(curvature, "otherwise the regression has no unique solution"),),
            says="At S = G (H + Lambda)^-1 the loss has no slope in any direction.",
        ),
        Identity(
            "hessian_is_positive_definite",
            Closed(bend * one),
            SumOfSquares((g[j], E.T @ K[j], j, n), (ridge[j], E[j], j, d_k)),
            assumptions=(weights_nonnegative, ridge_positive),
            says="The second derivative is a sum of squares, weighted by g_j >= 0 and lambda > 0: one minimum.",
        ),
        Identity(
            "ungated_state",
            ungated.final(G @ H.I),
            Closed(least_squares),
            assumptions=(keys_independent,),
            says="Without gate and Lambda the state is G H^-1, the least squares solution.",
        ),
        Identity(
            "ungated_gradient_is_zero",
            Closed(derivative(squared_error, S, along=E.T) * one).substitute({S: least_squares}),
            Closed(Zeros(1, 1)),
            assumptions=(keys_independent,),
            says="G H^-1 is where the squared error has no slope.",
        ),
        Identity(
            "rls",
            rls,
            ridge_once,
            matching={S: G @ (H + diag(ridge)).I, P: (H + diag(ridge)).I},
            says="Recursive least squares carries the solution itself: for gamma = 1 and one Lambda.",
        ),
        Identity(
            "rls_with_discounted_lambda",
            rls_forgetting,
            ridge_discounted,
            matching={S: G @ H.I, P: H.I},
            says="With forgetting it does so for a Lambda that is discounted like everything else.",
        ),
        Identity(
            "rls_with_constant_lambda",
            rls_forgetting,
            ridge_always,
            expected="refuted",
            says="With forgetting and a Lambda that stays, recursive least squares computes something else.",
        ),
        Identity(
            "conjugate_gradients",
            conjugate_gradients(A_two, q_two, 2, symmetric),
            solution_of_two,
            says="Two steps of conjugate gradients solve every symmetric system of two unknowns.",
        ),
        Identity(
            "three_steps_of_conjugate_gradients",
            conjugate_gradients(axes, q_three, 3, in_its_axes),
            Closed(diag(axes).I @ q_three, name="x"),
            says="Three steps solve every symmetric system of three unknowns, here in its own axes.",
        ),
        Identity(
            "one_step_of_conjugate_gradients",
            conjugate_gradients(A_two, q_two, 1, symmetric),
            solution_of_two,
            expected="refuted",
            says="Stopped early it is an approximation.",
        ),
    ],
    sources=[Source("MesaNet", "von Oswald et al. 2025", "arXiv:2506.05233")],
    facts=[
        Fact(
            "singular_before_d_k_tokens",
            Equal((two_keys.T * two_keys).det(), 0),
            says="Without Lambda, H is singular while fewer than d_k tokens were seen: two keys in three dimensions.",
            source="document 000, S_t = G_t H_t^-1",
        ),
        Fact(
            "any_lambda_avoids_singularity",
            rank_is(first_axis * first_axis.T + diagonal_matrix(1, 0), 2),
            expected="refuted",
            says="A zero in Lambda leaves H + Lambda singular where no key reaches: Lambda = Diag(1, 0), k = (1, 0).",
            source="document 000, on Lambda",
        ),
        Fact(
            "same_key_twice_returns_the_mean",
            Computed(mean_of_equal_keys(Rational(1))),
            says="Without decay, the same key with v = 1 and then v = 3 returns 2.",
            source="document 000, on fitting all of the history",
        ),
        Fact(
            "same_key_twice_returns_the_mean_with_decay",
            Computed(mean_of_equal_keys(Rational(1, 2))),
            expected="refuted",
            says="With gamma = 1/2 it returns 7/3, nearer to the newer value.",
            source="document 000, on fitting all of the history",
        ),
        Fact(
            "delta_rule_returns_the_newest",
            Equal(
                one_key * (before + strength * (3 - before * one_key) * one_key) - 3,
                (1 - strength * one_key**2) * (before * one_key - 3),
            ),
            says="There the delta rule returns 3, whatever it did before, where eta |k|^2 = 1 and only there.",
            source="document 000, on overwriting",
        ),
        Fact(
            "closed_form_has_the_lower_loss",
            Computed(lower_loss(PAIRS)),
            says="On eight pairs together, the regression's squared error is below the delta rule's.",
            source="document 000, on the local optimum",
        ),
        Fact(
            "closed_form_is_nearer_on_the_newest_pair",
            Computed(lower_loss(PAIRS[-1:])),
            expected="refuted",
            says="On the newest pair it isn't: the delta rule returns that one exactly.",
            source="document 000, on the local optimum",
        ),
        Fact(
            "general_solve_multiplications",
            Counts(solution_of_any, "multiplications", d_k**3 / 3 + d_k**2 - d_k / 3),
            says="Solving for one query by elimination takes about d_k^3 / 3 multiplications.",
            source="document 000, H + Lambda isn't triangular",
        ),
    ],
)
