r"""Titans with a linear memory: gradient descent on |S k - v|^2 with momentum R and weight decay.

    R_t = eta_t R_{t-1} - 2 theta_t (S_{t-1} k_t - v_t) k_t^T,   S_t = gamma_t S_{t-1} + R_t,   o_t = S_t q_t

Behrouz, Zhong & Mirrokni 2024 (arXiv 2501.00663), eqs. 13 and 14; there S is M, R is S and gamma is 1 - alpha. The
momentum doubles the state. A block from S = R = 0, with Gamma' for the decay mask of eta, is one masked product and one
triangular system:

    O = ((Q K^T) . (Gamma Gamma')) (I + D_2theta ((K K^T) . (Gamma^sh Gamma')))^-1 D_2theta V

Without momentum this is the gated delta rule that predicts before it decays. In the paper's parallel form the gradients
of a block are all taken at its first state, which is another system.
"""

from derivations.comba import until_before
from derivations.gated_deltanet import printed
from derivations.language import Gamma, Gamma_shifted, I, K, M, Q, S, State, V, d_k, d_v, eta, eye, gamma, k, n, q, t, v
from derivations.language import Chunkwise, Closed, CumulativeProduct, Decay, Derivation, Gate, Identity, Ones
from derivations.language import Parameter, Recurrence, RemainingProduct, Source, Statement, Symbol, TokenRows, Zeros
from derivations.language import Ne, TotalProduct, assume, block, derivative, diag, norm_squared, scalar, trace

R, theta = State("R", d_v, d_k), Gate("theta")
gradient = 2 * (S @ k - v) @ k.T
surprise = eta[t] * R - theta[t] * gradient
recurrence = Recurrence((S, R), update=(gamma[t] * S + surprise, surprise), readout=S @ q)

Gamma_momentum, rates = Decay(eta), theta * 2
system = I + diag(rates) @ (K @ K.T).hadamard(Gamma_shifted @ Gamma_momentum)
scores = (Q @ K.T).hadamard(Gamma @ Gamma_momentum)

# one block: what its tokens write, U, and what comes of that and of both states before it
b, to_end = CumulativeProduct(gamma), RemainingProduct(gamma)
b_momentum, momentum_to_end = CumulativeProduct(eta), RemainingProduct(eta)


def block_output(S: Statement, R: Statement, U: Statement) -> Statement:
    """The outputs: the momentum before the block reaches token i by way of each token up to i."""
    return diag(b) @ Q @ S.T + diag(Gamma @ b_momentum) @ Q @ R.T + scores @ U


def block_states(S: Statement, R: Statement, U: Statement) -> tuple[Statement, Statement]:
    """The states after the block."""
    moved = scalar(to_end.T @ b_momentum) * R + U.T @ diag(Gamma_momentum.T @ to_end) @ K
    return TotalProduct(gamma) * S + moved, TotalProduct(eta) * R + U.T @ diag(momentum_to_end) @ K


predicted = diag(until_before) @ K @ S.T + diag(Gamma_shifted @ b_momentum) @ K @ R.T
U = system.I @ diag(rates) @ (V - predicted)
chunkwise = Chunkwise((S, R), update=block_states(S, R, U), readout=block_output(S, R, U))

# the paper's blocks: all gradients at the first state. Token by token from S_0, R_0, and at once
S_0, R_0 = Parameter("S_0", d_v, d_k), Parameter("R_0", d_v, d_k)
old_surprise = eta[t] * R - 2 * theta[t] * (S_0 @ k - v) @ k.T
frozen = Recurrence((S, R), (gamma[t] * S + old_surprise, old_surprise), readout=S @ q, initial=(S_0, R_0))
old = diag(rates) @ (V - K @ S.T)
frozen_chunkwise = Chunkwise((S, R), update=block_states(S, R, old), readout=block_output(S, R, old))
first = {S: S_0, R: R_0}
frozen_matrix = Closed(block_output(S, R, old)).substitute(first)
frozen_states = Closed(block([list(block_states(S, R, old))]), name="[S_n R_n]").substitute(first)

# the gradient of the loss, by its product with every direction E, and as it was printed
E = Parameter("E", d_v, d_k)
slope = TokenRows(derivative(norm_squared(S @ k - v), S, along=E) * Ones(1, 1))
slope_of_gradient = TokenRows(trace(E.T @ gradient) * Ones(1, 1))
slope_as_printed = TokenRows(trace(E.T @ (S @ k - v) @ k.T) * Ones(1, 1))

# both states beside one another, d_v x 2 d_k: one affine map for each token
Z, both, read = State("Z", d_v, 2 * d_k), block([[k.T, k.T]]), block([[q], [Zeros(d_k, 1)]])
faded = block([[gamma[t] * eye(d_k), Zeros(d_k, d_k)], [eta[t] * eye(d_k), eta[t] * eye(d_k)]])
joint = Recurrence(
    Z, update=Z @ faded - 2 * theta[t] * (Z @ block([[k], [Zeros(d_k, 1)]]) - v) @ both, readout=Z @ read
)

# with one gamma for all tokens the momentum is the last move: the heavy ball
rate, S_before = Symbol("gamma"), State("S_before", d_v, d_k)
momentum = Recurrence((S, R), update=(rate * S + surprise, surprise), readout=S @ q)
ball = rate * S + eta[t] * (S - rate * S_before) - theta[t] * gradient
heavy_ball = Recurrence((S, S_before), update=(ball, S), readout=S @ q)

# without momentum the paper writes the decay from token i to t as b_t / b_i
no_momentum = {eta: Zeros(n, 1)}
ratios = diag(b) @ (Q @ K.T).hadamard(M) @ diag(b).I
frozen_ratio = Closed(diag(b) @ Q @ S.T + ratios @ old).substitute({S: S_0})
gamma_not_zero = assume(Ne(gamma[t], 0), "the products of gates are divided by")

titans = Derivation(
    "titans",
    title="Titans (linear memory)",
    summary="A linear memory trained by gradient descent with momentum and weight decay, one step for each token.",
    forms={"recurrence": recurrence, "chunkwise": chunkwise, "joint": joint},
    identities=[
        Identity(
            "gradient_of_the_loss",
            slope,
            slope_of_gradient,
            says="The gradient of |S k - v|^2 is 2 (S k - v) k^T.",
        ),
        Identity(
            "factor_two_left_out",
            slope,
            slope_as_printed,
            expected="refuted",
            says="Without the factor 2 it is the gradient of half that loss.",
            source="arXiv 2501.00663, eqs. 12 and 17",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="A block is a product masked by Gamma Gamma' and one system, and carries the same two states.",
        ),
        Identity(
            "states_are_one_affine_map",
            joint,
            recurrence,
            matching={Z: block([[S, R]])},
            says="S and R beside one another are a state of twice the size, to which each token does one affine map.",
        ),
        Identity(
            "momentum_is_a_heavy_ball",
            momentum,
            heavy_ball,
            matching={S: S, R: S - rate * S_before},
            says="With one gamma for all tokens, R is the last move S_{t-1} - gamma S_{t-2}.",
        ),
        Identity(
            "without_momentum",
            recurrence.substitute(no_momentum),
            printed.substitute({eta[t]: 2 * theta[t]}),
            says="With eta = 0 it is the gated delta rule that predicts before it decays, of strength 2 theta.",
        ),
        Identity(
            "frozen_block",
            frozen,
            frozen_matrix,
            says="With the gradients at a block's first state, the block is a masked product without a system.",
        ),
        Identity(
            "frozen_states",
            frozen.final(block([[S, R]])),
            frozen_states,
            says="And so are the two states after it.",
        ),
        Identity(
            "frozen_block_as_ratios",
            frozen.substitute(no_momentum),
            frozen_ratio,
            assumptions=(gamma_not_zero,),
            says="Without momentum, the gradient of token i counts b_t / b_i times theta_i at token t.",
            source="arXiv 2501.00663, eq. 16",
        ),
        Identity(
            "frozen_for_recurrent",
            recurrence,
            frozen_chunkwise,
            expected="refuted",
            says="Blocks with gradients at their first state aren't the recurrence.",
        ),
    ],
    sources=[Source("Titans", "Behrouz et al. 2024, eqs. 13, 14 and 16", "arXiv:2501.00663")],
)
