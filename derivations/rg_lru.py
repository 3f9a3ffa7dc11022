r"""RG-LRU: a gated linear recurrence in each channel. h_t = a_t . h_{t-1} + b_t . x_t, b_t = sqrt(1 - a_t^2) . i_t.

De et al. 2024 (arXiv 2402.19427), with an input gate i_t and log a_t = -c sigmoid(r_t) softplus(Lambda). HGRN (Qin et
al. 2023, arXiv 2311.04823) has b_t = 1 - a_t. In parallel, with A_t = a_1 . ... . a_t:

    H = A . (M ((b . X) / A))

Channels don't mix, and there are no keys: the state has the size of a token. What is said of a and b holds for all
gates; which functions of the input they are is said in the facts.
"""

from typing import Any

from sympy import Interval, exp, log, symbols

from derivations.language import M, M_strict, d_v, n, t
from derivations.language import (
    REALS,
    Algorithm,
    ChannelGate,
    Chunkwise,
    Closed,
    CumulativeProduct,
    Derivation,
    Fact,
    Identity,
    Ones,
    RangeWithin,
    Recurrence,
    RemainingProduct,
    Sequence,
    Source,
    State,
)
from derivations.language import nonzero, on_unit_circle, reciprocal, total

h = State("h", d_v, 1)
X, a, b = Sequence("X", n, d_v), ChannelGate("a", n, d_v), ChannelGate("b", n, d_v)
x = X[t]

recurrence = Recurrence(h, update=a[t].hadamard(h) + b[t].hadamard(x), readout=h)

A, to_end = CumulativeProduct(a), RemainingProduct(a)
within = A.hadamard(M @ b.hadamard(X).hadamard(reciprocal(A)))
matrix = Closed(within, name="H")
chunkwise = Chunkwise(
    h,
    update=total(a).hadamard(h) + b.hadamard(X).hadamard(to_end).T @ Ones(n, 1),
    readout=A.hadamard(Ones(n, 1) @ h.T) + within,
)
a_not_zero = nonzero(a[t], "what is written is divided by the products of gates")


def scanned(algebra: Any, X: Any, a: Any, b: Any) -> Any:
    """h_t by the associative scan of the pairs (a_t, b_t . x_t): each round doubles the tokens that a pair spans."""
    fades, sums = a, algebra.multiply(b, X)
    length, span = X.shape[-2], 1
    while span < length:
        late_fades, late_sums = algebra.block(fades, span, length), algebra.block(sums, span, length)
        early_fades, early_sums = algebra.block(fades, 0, length - span), algebra.block(sums, 0, length - span)
        late_sums = algebra.add(algebra.multiply(late_fades, early_sums), late_sums)
        late_fades = algebra.multiply(late_fades, early_fades)
        fades = algebra.concatenate([algebra.block(fades, 0, span), late_fades])
        sums = algebra.concatenate([algebra.block(sums, 0, span), late_sums])
        span *= 2
    return sums


associative_scan = Algorithm(scanned, inputs=(X, a, b), shape=(n, d_v))

# neighbours: what a token writes fades at once, or the state is read before it
own_write_fades = Recurrence(h, update=a[t].hadamard(h + b[t].hadamard(x)), readout=h)
strict_matrix = Closed(A.hadamard(M_strict @ b.hadamard(X).hadamard(reciprocal(A))), name="H")

# the variance of h, if inputs are independent of each other with mean zero and variance one, and h starts like them
variance = State("P", d_v, 1)
variances = Recurrence(
    variance,
    update=a[t].hadamard(a[t]).hadamard(variance) + b[t].hadamard(b[t]),
    readout=variance,
    initial=Ones(d_v, 1),
)
always_one = Closed(Ones(n, d_v), name="P")
on_the_circle = on_unit_circle(a, b, "the variance of h is otherwise another one than that of its inputs")

# HGRN: h_t is a mean of the inputs and of the state before the first
interpolated = {b: Ones(n, d_v) - a}
equal_inputs = recurrence.substitute({b: Ones(n, d_v) - a, X: Ones(n, d_v)})
weights_of_inputs = Closed(Ones(n, d_v) - A, name="H")

z = symbols("z", real=True)
c, strength, depth = symbols("c s w", positive=True)
sigmoid, softplus = 1 / (1 + exp(-z)), log(1 + exp(z))
bound = 1 / (1 + depth)  # any number between 0 and 1

rg_lru = Derivation(
    "rg_lru",
    title="RG-LRU and HGRN",
    summary="A linear recurrence without keys: each channel fades at its own rate, which the input decides.",
    forms={
        "recurrence": recurrence,
        "matrix": matrix,
        "chunkwise": chunkwise,
        "associative_scan": associative_scan,
    },
    identities=[
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            assumptions=(a_not_zero,),
            says="In each channel the recurrence is a cumulative sum, divided and multiplied by products of gates.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            assumptions=(a_not_zero,),
            says="Token by token and block by block carry the same state.",
        ),
        Identity(
            "recurrent_is_associative_scan",
            recurrence,
            associative_scan,
            says="A scan of the pairs (a_t, b_t . x_t) takes log2 n rounds and divides by nothing.",
            source="document 001, on prefix sums",
        ),
        Identity(
            "own_write_fades",
            own_write_fades,
            recurrence,
            expected="refuted",
            says="A state that fades after the write fades the token's own input too.",
        ),
        Identity(
            "read_before_is_strict",
            recurrence.reading("before"),
            strict_matrix,
            assumptions=(a_not_zero,),
            expected="refuted",
            says="Dropping the mask's diagonal doesn't give the state before the write: it has one gate too many.",
        ),
        Identity(
            "variance_is_kept",
            variances,
            always_one,
            assumptions=(on_the_circle,),
            says="With a^2 + b^2 = 1 the state keeps the variance of its inputs, whatever the gates are.",
        ),
        Identity(
            "variance_of_a_mean",
            variances.substitute(interpolated),
            always_one,
            expected="refuted",
            says="With b = 1 - a, as in HGRN, it doesn't.",
        ),
        Identity(
            "weights_sum_to_one",
            equal_inputs,
            weights_of_inputs,
            says="With b = 1 - a the weights of the inputs sum to 1 - A_t, and the state before the first has A_t.",
        ),
    ],
    facts=[
        Fact(
            "sigmoid_is_positive",
            RangeWithin(sigmoid, z, REALS, Interval.open(0, 1)),
            says="sigmoid(r) lies between 0 and 1.",
        ),
        Fact(
            "gate_is_below_one",
            RangeWithin(exp(-c * strength * softplus), z, REALS, Interval.open(0, 1)),
            says="exp(-c s softplus(Lambda)) lies between 0 and 1 if c and s are positive: sqrt(1 - a^2) is real.",
        ),
        Fact(
            "forget_gate_is_above_its_bound",
            RangeWithin(bound + (1 - bound) * sigmoid, z, REALS, Interval.open(bound, 1)),
            says="HGRN's forget gate l + (1 - l) sigmoid lies between its lower bound l and 1.",
        ),
    ],
    sources=[
        Source("Griffin", "De et al. 2024", "arXiv:2402.19427"),
        Source("Hierarchically Gated Recurrent Neural Network", "Qin et al. 2023", "arXiv:2311.04823"),
    ],
)
