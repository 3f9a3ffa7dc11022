r"""Longhorn: the delta rule with an implicit step. S_t minimises |S - S_{t-1}|_F^2 + beta_t |S k_t - v_t|^2 over S.

Liu et al. 2024 (arXiv 2407.14207). The error is that of the new state, and the minimum is found in closed form:

    S_t = S_{t-1} (I - eps_t k_t k_t^T) + eps_t v_t k_t^T,   eps_t = beta_t / (1 + beta_t |k_t|^2)

It is DeltaNet with eps for eta, and 0 < eps |k|^2 < 1 whatever beta > 0 is. In the matrix form the system keeps its
diagonal, which is all that the implicit step changes:

    O = ((Q K^T) . M) (I + D_beta ((K K^T) . M))^-1 D_beta V

The released code keeps only the diagonal of k k^T, which makes another system of it.
"""

from typing import Any

from sympy import Interval, Limit, oo
from sympy import Symbol as Scalar

from derivations.deltanet import matrix as deltanet_matrix
from derivations.language import I, K, M, Ones, Parameter, Q, S, Symbol, V, beta, d_k, d_v, eta, eye, k, n, q, t, v
from derivations.language import ChannelGate, Chunkwise, Closed, CumulativeProduct, Derivation, Gate, Identity
from derivations.language import POSITIVE, Equal, Fact, Form, Ne, RangeWithin, Recurrence, Source, Zeros
from derivations.language import assume, derivative, diag, nonzero, norm_squared, reciprocal, trace

epsilon = beta[t] / (1 + beta[t] * norm_squared(k))
recurrence = Recurrence(S, update=S @ (eye(d_k) - epsilon * k @ k.T) + epsilon * v @ k.T, readout=S @ q)
T = (I + diag(beta) @ (K @ K.T).hadamard(M)).I @ diag(beta)
matrix = Closed((Q @ K.T).hadamard(M) @ T @ V)
corrected = T @ V - (T @ K) @ S.T
chunkwise = Chunkwise(S, update=S + corrected.T @ K, readout=Q @ S.T + (Q @ K.T).hadamard(M) @ corrected)
beta_nonnegative = assume(beta[t] >= 0, "1 + beta |k|^2 is divided by")

# one step from any state S_0, with a token k, v: the loss, and its derivative along E
S_0, E = Parameter("S_0", d_v, d_k), Parameter("E", d_v, d_k)
key, value, b = Parameter("k", d_k), Parameter("v", d_v), Symbol("beta")
moved, error = trace((S - S_0) @ (S - S_0).T), norm_squared(S @ key - value)
zero = Closed(Zeros(1, 1))


def slope(sign: int, step: Any) -> Form:
    """The derivative of |S - S_0|^2 + sign beta |S k - v|^2 along E, where a delta rule step from S_0 ends."""
    at_state = Closed(derivative(moved + sign * b * error, S, along=E) * Ones(1, 1), name="slope")
    return at_state.substitute({S: S_0 + step * (value - S_0 @ key) @ key.T})


implicit, implicit_as_printed = b / (1 + b * norm_squared(key)), -b / (1 - b * norm_squared(key))
plus_not_zero = assume(Ne(1 + b * norm_squared(key), 0), "the step divides by it")
minus_not_zero = assume(Ne(1 - b * norm_squared(key), 0), "the step divides by it")
by_inverse = Closed((S_0 + b * value @ key.T) @ (eye(d_k) + b * key @ key.T).I, name="S_1")
by_step = Closed(S_0 + implicit * (value - S_0 @ key) @ key.T, name="S_1")

# the released code: a step Delta for each channel of the values, and k . k in the place of k k^T
Delta = ChannelGate("Delta", n, d_v)
per_channel = Recurrence(S, update=S + diag(Delta[t]) @ (v - S @ k) @ k.T, readout=S @ q)
released = Recurrence(
    S, update=S.hadamard(Ones(d_v, d_k) - Delta[t] @ k.hadamard(k).T) + Delta[t].hadamard(v) @ k.T, readout=S @ q
)
# with one step for all channels it is a gate for each channel of the keys, as in gated linear attention
e = Gate("epsilon")
fade = Ones(d_k, 1) - e[t] * k.hadamard(k)
released_alike = Recurrence(S, update=S @ diag(fade) + e[t] * v @ k.T, readout=S @ q)
B = CumulativeProduct(Ones(n, d_k) - diag(e) @ K.hadamard(K))
gated = Closed((Q.hadamard(B) @ K.hadamard(reciprocal(B)).T).hadamard(M) @ diag(e) @ V)
fade_not_zero = nonzero(fade, "the keys are divided by the products of gates")

x, s = Scalar("x", real=True), Scalar("s", real=True)  # x is beta |k|^2

longhorn = Derivation(
    "longhorn",
    title="Longhorn",
    summary="DeltaNet whose step size is that of an implicit step, so that it is stable for every beta > 0.",
    forms={"recurrence": recurrence, "matrix": matrix, "chunkwise": chunkwise, "released": released},
    identities=[
        Identity(
            "slope_is_zero",
            slope(1, implicit),
            zero,
            assumptions=(plus_not_zero,),
            says="Where eps = beta / (1 + beta |k|^2) leads, the loss has no slope in any direction.",
        ),
        Identity(
            "by_an_inverse",
            by_inverse,
            by_step,
            assumptions=(plus_not_zero,),
            says="The normal equation (S_0 + beta v k^T) (I + beta k k^T)^-1, solved by Sherman and Morrison.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            assumptions=(beta_nonnegative,),
            says="It is DeltaNet's matrix form with M for M^- in the system: a token's own key is on its diagonal.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            assumptions=(beta_nonnegative,),
            says="Token by token and block by block, in WY form, carry the same state.",
        ),
        Identity(
            "explicit_for_implicit",
            recurrence,
            deltanet_matrix.substitute({eta: beta}),
            expected="refuted",
            says="DeltaNet with beta for eta takes the explicit step.",
        ),
        Identity(
            "printed_sign",
            slope(-1, implicit),
            zero,
            expected="refuted",
            says="With a minus between the two terms the loss still has a slope there.",
            source="arXiv 2412.06464, table 1",
        ),
        Identity(
            "printed_sign_has_another_step",
            slope(-1, implicit_as_printed),
            zero,
            assumptions=(minus_not_zero,),
            says="The printed loss has no slope at eps = -beta / (1 - beta |k|^2), away from v for small beta.",
            source="arXiv 2412.06464, table 1",
        ),
        Identity(
            "diagonal_for_outer_product",
            per_channel,
            released,
            expected="refuted",
            says="The released update, 1 - Delta k^2 for each entry of the state, isn't the implicit step.",
            source="Cranial-XIX/longhorn, models/longhorn.py",
        ),
        Identity(
            "released_is_gated_linear_attention",
            released_alike,
            gated,
            assumptions=(fade_not_zero,),
            says="With one Delta for all channels that update is linear attention with the gates 1 - Delta k^2.",
        ),
    ],
    sources=[Source("Longhorn", "Liu et al. 2024", "arXiv:2407.14207")],
    facts=[
        Fact(
            "step_is_stable",
            RangeWithin(x / (1 + x), x, POSITIVE, Interval.open(0, 1)),
            says="eps |k|^2 lies between 0 and 1 for every beta |k|^2 > 0.",
        ),
        Fact(
            "what_is_kept",
            Equal(1 - x / (1 + x), 1 / (1 + x)),
            says="Along the key the old state is multiplied by 1 / (1 + beta |k|^2).",
        ),
        Fact(
            "printed_sign_is_unstable",
            RangeWithin(1 + x / (1 - x), x, Interval.open(0, 1), Interval(-1, 1)),
            expected="refuted",
            says="With the printed minus the old state grows along the key, by 1 / (1 - beta |k|^2).",
            source="arXiv 2412.06464, table 1",
        ),
        Fact(
            "printed_sign_is_unbounded",
            Equal(Limit(s**2 - 2 * s**2, s, oo), -oo),
            says="With S_0 = v = 0, k = 1 and beta = 2 the printed loss is s^2 - 2 s^2, which has no minimum.",
            source="arXiv 2412.06464, table 1",
        ),
    ],
)
