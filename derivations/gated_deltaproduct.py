r"""Gated DeltaProduct: several steps of the delta rule for each token. With two of them, written k_1 and k_2,

    S_t = (gamma S_{t-1} (I - beta_1 k_1 k_1^T) + beta_1 v_1 k_1^T) (I - beta_2 k_2 k_2^T) + beta_2 v_2 k_2^T

Siems et al. 2025 (arXiv 2502.10297); the gate acts once, before the first step. It is Gated DeltaNet on 2 n tokens, of
which every second one doesn't decay and the others aren't read. With both steps' tokens below one another, as in K =
[K_1; K_2], it is one system of 2 n corrections, in which a second step sees the first one of its own token:

    O = ((Q K^T) . [Gamma Gamma]) (I + D_beta ((K K^T) . [Gamma^- Gamma^-; Gamma Gamma^-]))^-1 D_beta V
"""

from typing import Any

from sympy import Matrix, Symbol, cos, sin
from sympy import eye as explicit_eye

from derivations.language import Gamma, Gamma_strict, Q, S, Sequence, d_k, d_v, gamma, n, q, t
from derivations.language import Chunkwise, CumulativeProduct, Derivation, Gate, Identity, Recurrence
from derivations.language import Equal, Fact, RemainingProduct, Source, TotalProduct, Zeros
from derivations.language import block, diag, eye

K_1, K_2, V_1, V_2 = Sequence("K_1", n, d_k), Sequence("K_2", n, d_k), Sequence("V_1", n, d_v), Sequence("V_2", n, d_v)
beta_1, beta_2 = Gate("beta_1"), Gate("beta_2")
k_1, k_2, v_1, v_2, b_1, b_2 = K_1[t], K_2[t], V_1[t], V_2[t], beta_1[t], beta_2[t]

first, second = eye(d_k) - b_1 * k_1 @ k_1.T, eye(d_k) - b_2 * k_2 @ k_2.T
half_step = gamma[t] * S @ first + b_1 * v_1 @ k_1.T
recurrence = Recurrence(S, update=half_step @ second + b_2 * v_2 @ k_2.T, readout=S @ q)

# two tokens of Gated DeltaNet, the second one without decay: each corrects what the state predicts by then
faded = gamma[t] * S
between = faded + b_1 * (v_1 - faded @ k_1) @ k_1.T
two_corrections = Recurrence(S, update=between + b_2 * (v_2 - between @ k_2) @ k_2.T, readout=S @ q)

# both corrections at once, in WY form: T from a triangular 2 x 2 system
both, one, none = block([[k_1, k_2]]), eye(1), Zeros(1, 1)
T = block([[one, b_1 * k_1.T @ k_2], [none, one]]).I @ block([[b_1 * one, none], [none, b_2 * one]])
wy = Recurrence(S, update=faded + (block([[v_1, v_2]]) - faded @ both) @ T @ both.T, readout=S @ q)

# one block: both steps' tokens below one another, one system for both; the second step sees the first of its own token
keys, values, strengths = block([[K_1], [K_2]]), block([[V_1], [V_2]]), block([[beta_1], [beta_2]])
seen = block([[Gamma_strict, Gamma_strict], [Gamma, Gamma_strict]])
until_now = CumulativeProduct(gamma)
decays, to_end = block([[until_now], [until_now]]), block([[RemainingProduct(gamma)], [RemainingProduct(gamma)]])
system = eye(2 * n) + diag(strengths) @ (keys @ keys.T).hadamard(seen)
U = system.I @ diag(strengths) @ (values - diag(decays) @ keys @ S.T)
chunkwise = Chunkwise(
    S,
    update=TotalProduct(gamma) * S + U.T @ diag(to_end) @ keys,
    readout=diag(until_now) @ Q @ S.T + (Q @ keys.T).hadamard(block([[Gamma, Gamma]])) @ U,
)

# neighbours: the steps in the other order, and a gate for each step
swapped = Recurrence(S, update=(gamma[t] * S @ second + b_2 * v_2 @ k_2.T) @ first + b_1 * v_1 @ k_1.T, readout=S @ q)
gated_twice = Recurrence(S, update=gamma[t] * between + b_2 * (v_2 - gamma[t] * between @ k_2) @ k_2.T, readout=S @ q)

# in two dimensions, with |k| = 1 and beta = 2: two reflections, at the angles x and y
x, y = Symbol("x", real=True), Symbol("y", real=True)


def reflection(angle: Any) -> Any:
    """I - 2 k k^T for k = (cos, sin) of the angle."""
    key = Matrix([cos(angle), sin(angle)])
    return explicit_eye(2) - 2 * key * key.T


turned = 2 * (x - y)
rotation = Matrix([[cos(turned), -sin(turned)], [sin(turned), cos(turned)]])

gated_deltaproduct = Derivation(
    "gated_deltaproduct",
    title="Gated DeltaProduct",
    summary="Gated DeltaNet with several corrections for each token, so that its transition can be a rotation.",
    forms={"recurrence": recurrence, "two_corrections": two_corrections, "wy": wy, "chunkwise": chunkwise},
    identities=[
        Identity(
            "recurrent_is_two_corrections",
            wy,
            two_corrections,
            says="It is Gated DeltaNet on 2 n tokens: the second of a pair doesn't decay, the first isn't read.",
        ),
        Identity(
            "two_steps_in_wy_form",
            wy,
            recurrence,
            says="A token changes the state by a matrix of rank two: WY form with a triangular 2 x 2 system.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            wy,
            chunkwise,
            says="A block is two masked products with one system for both steps, and carries the same state.",
        ),
        Identity(
            "steps_in_the_other_order",
            recurrence,
            swapped,
            expected="refuted",
            says="The two steps don't commute.",
        ),
        Identity(
            "gate_at_each_step",
            two_corrections,
            gated_twice,
            expected="refuted",
            says="A gate before each of the two steps decays twice.",
        ),
    ],
    sources=[Source("DeltaProduct", "Siems et al. 2025", "arXiv:2502.10297")],
    facts=[
        Fact(
            "two_reflections_rotate",
            Equal(reflection(x) * reflection(y), rotation),
            says="In two dimensions two reflections, |k| = 1 and beta = 2, are a rotation by twice their angle.",
        ),
        Fact(
            "one_reflection_is_none",
            Equal(reflection(x).det(), -1),
            says="One step alone isn't a rotation: its determinant is -1.",
        ),
    ],
)
