r"""RWKV-4: a mean of the values with weights that fade with distance, and a bonus u for the token itself.

    wkv_t = (sum_{j<t} e^{-(t-1-j) w + k_j} v_j + e^{u + k_t} v_t) / (sum_{j<t} e^{-(t-1-j) w + k_j} + e^{u + k_t})

Peng et al. 2023 (arXiv 2305.13048), eq. 16; in its eqs. 19 to 22 as a recurrence that is read before the write:

    a_t = e^{-w} a_{t-1} + e^{k_t} v_t,   b_t = e^{-w} b_{t-1} + e^{k_t}
    wkv_t = (a_{t-1} + e^{u + k_t} v_t) / (b_{t-1} + e^{u + k_t})

Everything is entry by entry: k_t, v_t, w and u are columns, channels don't mix, the state has the size of two tokens.
"""

from derivations.language import M, M_strict, Sequence, State, Statement, V, d_v, j, n, t, v
from derivations.language import Chunkwise, Closed, CumulativeProduct, Derivation, Identity, Recurrence, Source
from derivations.language import Ones, Parameter, RemainingProduct, TokenRows, TokenSum, Zeros, exp, reciprocal, total

K, w, u = Sequence("K", n, d_v), Parameter("w", d_v), Parameter("u", d_v)
k = K[t]


def mean(weighted: Statement, weights: Statement) -> Statement:
    """A weighted sum over the sum of its weights, entry by entry."""
    return weighted.hadamard(reciprocal(weights))


# eq. 16, with e^{-(t-1-j) w} as e^{W_j - W_t + w}, where row t of W is t w
W = Sequence("W", n, d_v)
past, own = exp(W[j] - W[t] + w + K[j]), exp(u + k)
component_sum = TokenRows(
    mean(TokenSum(past.hadamard(V[j]), j, 1, t - 1) + own.hadamard(v), TokenSum(past, j, 1, t - 1) + own), name="wkv"
).where(W, Closed(M @ Ones(n, 1) @ w.T))

a, b = State("a", d_v, 1), State("b", d_v, 1)
update = (exp(-w).hadamard(a) + exp(k).hadamard(v), exp(-w).hadamard(b) + exp(k))
recurrence = Recurrence((a, b), update, readout=mean(a + own.hadamard(v), b + own), read="before")

# the same with all tokens at once: two masked products, where each channel has the same gate e^{-w} at every token
gates = Ones(n, 1) @ exp(-w).T
B, to_end = CumulativeProduct(gates), RemainingProduct(gates)
B_before, raised, owns = B.hadamard(reciprocal(gates)), exp(K).hadamard(reciprocal(B)), exp(Ones(n, 1) @ u.T + K)
matrix = Closed(
    mean(
        B_before.hadamard(M_strict @ raised.hadamard(V)) + owns.hadamard(V),
        B_before.hadamard(M_strict @ raised) + owns,
    )
)
chunkwise = Chunkwise(
    (a, b),
    update=(
        total(gates).hadamard(a) + exp(K).hadamard(to_end).hadamard(V).T @ Ones(n, 1),
        total(gates).hadamard(b) + exp(K).hadamard(to_end).T @ Ones(n, 1),
    ),
    readout=mean(
        B_before.hadamard(Ones(n, 1) @ a.T + M_strict @ raised.hadamard(V)) + owns.hadamard(V),
        B_before.hadamard(Ones(n, 1) @ b.T + M_strict @ raised) + owns,
    ),
)

# a and b carried as e^-m a and e^-m b, and read as e^-r times what they are; if m_t = p_t and r_t are maxima of what
# stands in the exponents, none of these is positive
a_shifted, b_shifted = State("a'", d_v, 1), State("b'", d_v, 1)
P, R = Sequence("P", n, d_v), Sequence("R", n, d_v)
m, p, r = State("m", d_v, 1), P[t], R[t]
kept, added, seen, own_shifted = exp(m - w - p), exp(k - p), exp(m - r), exp(u + k - r)
shifted = Recurrence(
    (a_shifted, b_shifted, m),
    update=(kept.hadamard(a_shifted) + added.hadamard(v), kept.hadamard(b_shifted) + added, p),
    readout=mean(seen.hadamard(a_shifted) + own_shifted.hadamard(v), seen.hadamard(b_shifted) + own_shifted),
    read="before",
)

# read after the write, where the token itself is one of those that the state has seen
read_after = Recurrence((a, b), update, readout=mean(a, b))
nothing = Zeros(d_v, 1)
without_fading = Closed(mean(M @ exp(K).hadamard(V), M @ exp(K)))

rwkv4 = Derivation(
    "rwkv4",
    title="RWKV-4",
    summary="A mean of the values in each channel, with exponential weights that fade with distance.",
    forms={
        "component_sum": component_sum,
        "recurrence": recurrence,
        "matrix": matrix,
        "chunkwise": chunkwise,
        "shifted": shifted,
    },
    identities=[
        Identity(
            "recurrent_is_component_sum",
            recurrence,
            component_sum,
            says="Two running sums that fade, read before the write, give the weighted mean.",
            source="RWKV, eqs. 16 and 19 to 22",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="In each channel, numerator and denominator are cumulative sums, strictly masked, and the own token.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Token by token and block by block carry the same two sums.",
        ),
        Identity(
            "recurrent_is_shifted",
            recurrence,
            shifted,
            matching={a: exp(m).hadamard(a_shifted), b: exp(m).hadamard(b_shifted)},
            says="Both sums may be carried divided by e^p, and read divided by another factor, whatever p is.",
        ),
        Identity(
            "bonus_of_w",
            recurrence.substitute({u: w}),
            read_after,
            says="With u = w the bonus makes up for the fading: that is the read after the write.",
        ),
        Identity(
            "no_bonus",
            recurrence.substitute({u: nothing}),
            read_after,
            expected="refuted",
            says="u = 0 isn't the read after the write: the past has faded once less.",
        ),
        Identity(
            "no_fading",
            recurrence.substitute({w: nothing, u: nothing}),
            without_fading,
            says="With w = u = 0 it is the running mean with the weights e^k, a softmax over tokens in each channel.",
        ),
    ],
    sources=[Source("RWKV", "Peng et al. 2023, eqs. 16 and 19 to 22", "arXiv:2305.13048")],
)
