r"""MesaNet: the state is the solution of the regression that DeltaNet only takes a step of.

von Oswald et al. 2025 (arXiv 2506.05233); document 000, eq. (36):

    G_t = gamma_t G_{t-1} + v_t k_t^T,   H_t = gamma_t H_{t-1} + k_t k_t^T,   o_t = G_t (H_t + Lambda_t)^-1 q_t

S = G (H + Lambda)^-1 minimises sum_j g_j |S k_j - v_j|^2 / 2 + tr(S Lambda S^T) / 2, where g_j is the decay from token
j to now.
"""

from derivations.language import K, S, Sequence, State, V, d_k, d_v, gamma, j, k, n, q, t, v
from derivations.language import Chunkwise, Closed, CumulativeProduct, Derivation, Gate, Identity, Recurrence, Source
from derivations.language import Gamma, Ones, RemainingProduct, SumOfSquares, TotalProduct, Zeros
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
    ],
    sources=[Source("MesaNet", "von Oswald et al. 2025", "arXiv:2506.05233")],
)
