r"""RetNet: linear attention whose state fades and turns.

    s_t = gamma e^{i theta} s_{t-1} + v_t conj(k_t),  o_t = Re(s_t q_t)

Sun et al. 2023 (arXiv 2307.08621, eqs. 3 and 4), with complex q and k. A complex channel is a pair of real ones, and
e^{i theta} a rotation R of it: S_t = gamma S_{t-1} R + v_t k_t^T, o_t = S_t q_t. As one matrix product:

    O = ((Q' K'^T) . Gamma) V,  q'_t = R^t q_t,  k'_t = R^t k_t

The decay that turns is RoPE on queries and keys beside a real decay, whose forms are in decay.py. Here gamma and theta
may change from token to token. There is one pair of channels: with more of them, outputs are sums over the pairs.
"""

from sympy import I, Limit, Matrix, Rational, cos, oo, sin, symbols
from sympy import exp as exponential

from derivations.decay import rate, retention
from derivations.language import Gate, Parameter, S, Sequence, State, Symbol, V, d_k, d_v, eta, gamma, j, k, n, t, v
from derivations.language import (
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
    SumOfSquares,
    TokenRows,
    TotalProduct,
)
from derivations.language import Gamma, Ne, Ones, Zeros, assume, block, derivative, diag, eye, norm_squared
from derivations.language import on_unit_circle, trace

# in complex numbers: real and imaginary parts of q, k and the state; gamma e^{i theta} = gamma (c + i s)
cosine, sine = Sequence("c", n, 1), Sequence("s", n, 1)
Q_re, Q_im, K_re, K_im = (Sequence(name, n, 1) for name in ("Q_re", "Q_im", "K_re", "K_im"))
s_re, s_im = State("s_re", d_v), State("s_im", d_v)
turned_re, turned_im = s_re @ cosine[t] - s_im @ sine[t], s_re @ sine[t] + s_im @ cosine[t]
complex_state = (s_re, s_im), (gamma[t] * turned_re + v @ K_re[t], gamma[t] * turned_im - v @ K_im[t])
complex_decay = Recurrence(*complex_state, readout=s_re @ Q_re[t] - s_im @ Q_im[t])
imaginary_part = Recurrence(*complex_state, readout=s_im @ Q_re[t] + s_re @ Q_im[t])

# in real numbers: a pair of channels, turned by R
Q, K, S_pair = Sequence("Q", n, 2), Sequence("K", n, 2), State("S", d_v, 2)
R = block([[cosine[t], -sine[t]], [sine[t], cosine[t]]])
recurrence = Recurrence(S_pair, update=gamma[t] * S_pair @ R + v @ K[t].T, readout=S_pair @ Q[t])
turned_back = Recurrence(S_pair, update=gamma[t] * S_pair @ R.T + v @ K[t].T, readout=S_pair @ Q[t])
complex_inputs = {Q: block([[Q_re, Q_im]]), K: block([[K_re, K_im]])}
right_angle = {cosine: Zeros(n, 1), sine: Ones(n, 1)}

# RoPE: queries and keys are turned by all angles up to their own
turn = State("P", 2, 2)
rotated_Q, rotated_K = Sequence("Q'", n, 2), Sequence("K'", n, 2)
rotations = [Recurrence(turn, update=turn @ R, readout=turn @ X[t], initial=eye(2)) for X in (Q, K)]
scores = (rotated_Q @ rotated_K.T).hadamard(Gamma)
matrix = Closed(scores @ V).where(rotated_Q, rotations[0]).where(rotated_K, rotations[1])
chunkwise = (
    Chunkwise(
        S_pair,
        update=TotalProduct(gamma) * S_pair + V.T @ diag(RemainingProduct(gamma)) @ rotated_K,
        readout=diag(CumulativeProduct(gamma)) @ rotated_Q @ S_pair.T + scores @ V,
    )
    .where(rotated_Q, rotations[0])
    .where(rotated_K, rotations[1])
)
angles = on_unit_circle(cosine, sine, "only where R^T turns back is a relative turn the quotient of two absolute ones")

# one step down the loss -v^T S k + lambda |S|^2 / 2; document 000 has the step 1 and lambda = 1 - gamma
E, ridge = Parameter("E", d_v, d_k), Symbol("lambda")
loss = ridge / 2 * trace(S.T @ S) - trace(v.T @ S @ k)
gradient = ridge * S - v @ k.T
slope = TokenRows(derivative(loss, S, along=E) * Ones(1, 1))
slope_of_gradient = TokenRows(trace(E.T @ gradient) * Ones(1, 1))
unit_step = Recurrence(S, update=S - gradient.xreplace({ridge: 1 - rate}), readout=retention.readout)
step = Recurrence(S, update=S - eta[t] * gradient.xreplace({ridge: (1 - rate) / eta[t]}), readout=retention.readout)
eta_not_zero = assume(Ne(eta[t], 0), "lambda is (1 - gamma) / eta")

# the loss of one token is a sum of squares over the columns of S, up to a constant; and what its minimum returns for k
columns, one_k, one_v = Sequence("S_columns", d_k, d_v), Gate("k", d_k), Parameter("v", d_v)
one_loss = loss.xreplace({S: columns.T, k: one_k, v: one_v})
above_bound = Closed((ridge * one_loss + norm_squared(one_v) * norm_squared(one_k) / 2) * Ones(1, 1), name="x")
squares = SumOfSquares((Rational(1, 2), ridge * columns[j] - one_k[j] * one_v, j, d_k))
returned = TokenRows(ridge * S @ k - gradient @ k)
scaled_value = TokenRows(norm_squared(k) * v)

theta, eigenvalue, factor = symbols("theta x gamma", real=True)
rotation = factor * Matrix([[cos(theta), -sin(theta)], [sin(theta), cos(theta)]])
distance, excess = symbols("m p", positive=True)  # 1 / (1 + p) is any number between 0 and 1

retnet = Derivation(
    "retnet",
    title="RetNet",
    summary="Linear attention with a complex decay: a real decay, and queries and keys that are rotated.",
    forms={
        "complex_decay": complex_decay,
        "recurrence": recurrence,
        "matrix": matrix,
        "chunkwise": chunkwise,
    },
    identities=[
        Identity(
            "complex_decay",
            complex_decay,
            recurrence.substitute(complex_inputs),
            says="The real part of the complex recurrence turns each row of a real state by R, from the right.",
            source="RetNet, eqs. 3 and 4",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            assumptions=(angles,),
            says="A decay that turns is a real decay with each query and key turned by all angles up to its own: RoPE.",
            source="document 001, on RoPE as a complex decay",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            assumptions=(angles,),
            carries=False,
            says="With turned queries and keys, block by block is as in a real decay.",
        ),
        Identity(
            "turned_back",
            turned_back.substitute(right_angle),
            matrix.substitute(right_angle),
            expected="refuted",
            says="A state that turns the other way isn't RoPE, at right angles for example.",
        ),
        Identity(
            "imaginary_part_is_zero",
            imaginary_part.substitute(right_angle),
            Closed(Zeros(n, d_v)),
            expected="refuted",
            says="The real part has to be taken: s_t q_t has an imaginary part.",
        ),
        Identity(
            "gradient_of_the_loss",
            slope,
            slope_of_gradient,
            says="The gradient of -v^T S k + lambda |S|^2 / 2 is lambda S - v k^T.",
            source="document 000, the loss with a regulariser",
        ),
        Identity(
            "gradient_step",
            unit_step,
            retention,
            says="One step of size one with lambda = 1 - gamma is RetNet's recurrence.",
            source="document 000, the loss with a regulariser",
        ),
        Identity(
            "gradient_step_of_any_size",
            step,
            retention.substitute({v: eta[t] * v}),
            assumptions=(eta_not_zero,),
            says="With lambda = (1 - gamma) / eta, a step of size eta is RetNet's recurrence with eta v written.",
        ),
        Identity(
            "loss_is_bounded_below",
            above_bound,
            squares,
            says="lambda L + |v|^2 |k|^2 / 2 is |lambda S - v k^T|^2 / 2: for lambda > 0 the loss has a minimum.",
        ),
        Identity(
            "minimiser_scales_the_value",
            returned,
            scaled_value,
            says="Where the gradient is zero, lambda S k is |k|^2 v: v's direction, and not v.",
        ),
    ],
    facts=[
        Fact(
            "eigenvalues",
            Equal(
                (rotation - eigenvalue * Matrix.eye(2)).det(),
                (factor * exponential(I * theta) - eigenvalue) * (factor * exponential(-I * theta) - eigenvalue),
            ),
            says="The eigenvalues of gamma R are gamma e^{i theta} and gamma e^{-i theta}.",
            source="document 001, on complex eigenvalues",
        ),
        Fact(
            "weights_vanish",
            Equal(Limit((1 / (1 + excess)) ** distance, distance, oo), 0),
            says="With 0 < gamma < 1, what was written long ago is forgotten: gamma^(t-j) goes to zero.",
        ),
        Fact(
            "weights_vanish_above_one",
            Equal(Limit(2**distance, distance, oo), 0),
            expected="refuted",
            says="With gamma = 2 the oldest token weighs most.",
        ),
        Fact(
            "weights_vanish_at_one",
            Equal(Limit(1**distance, distance, oo), 0),
            expected="refuted",
            says="With gamma = 1 all tokens weigh the same.",
        ),
    ],
    sources=[Source("Retentive Network", "Sun et al. 2023, eqs. 3 and 4", "arXiv:2307.08621")],
)
