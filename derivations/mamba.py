r"""Mamba (S6): a linear system in each channel, whose step Delta, input B and output C are chosen by the token.

    H_t = exp(Delta_t A) . H_{t-1} + (Delta_t . x_t) B_t^T,   y_t = H_t C_t + D . x_t

Gu & Dao 2023 (arXiv 2312.00752, Algorithm 2). H has a row for each channel; row c decays by exp(Delta_tc A_c), and A
is the same for all tokens. Each channel is a masked product, and its mask is made of its own steps.
"""

from typing import Any

from sympy import Derivative, FiniteSet, Integral, Limit, Matrix, Rational, Reals, log, solveset, symbols
from sympy import exp as exponential

from derivations.language import ChannelGate, Gate, M, Parameter, Sequence, State, Statement, d_k, d_v, n, t
from derivations.language import Closed, Derivation, Identity, Recurrence, Source
from derivations.language import Computed, Equal, Fact, Finding, HasShape, rank_is
from derivations.language import Ones, Zeros, block, diag, exp, nonzero, reciprocal

B, C = Sequence("B", n, d_k), Sequence("C", n, d_k)


def selective_scan(channels: Any) -> Recurrence:
    """The recurrence for so many channels, each with d_k entries of the state."""
    X, Delta = Sequence("X", n, channels), ChannelGate("Delta", n, channels)
    A, D, H = Parameter("A", channels, d_k), Parameter("D", channels), State("H", channels, d_k)
    return Recurrence(
        H,
        update=exp(diag(Delta[t]) @ A).hadamard(H) + Delta[t].hadamard(X[t]) @ B[t].T,
        readout=H @ C[t] + D.hadamard(X[t]),
    )


def masked_product(Delta: Statement, a: Statement, x: Statement) -> Statement:
    """One channel: (((C . F)(B / F)^T) . M)(Delta . x) with F_t = exp((Delta_1 + ... + Delta_t) a)."""
    exponents = a @ (M @ Delta).T
    return (C.hadamard(exp(exponents).T) @ B.hadamard(exp(-exponents).T).T).hadamard(M) @ diag(Delta) @ x


recurrence = selective_scan(d_v)

# one channel, whose row of H is the column h, and two of them side by side; D only passes the input on
x, Delta, a, h = Sequence("x", n, 1), Gate("Delta"), Parameter("a", d_k), State("h", d_k)
channel = Recurrence(h, update=exp(Delta[t] * a).hadamard(h) + Delta[t] * B[t] @ x[t], readout=C[t].T @ h)
channel_matrix = Closed(masked_product(Delta, a, x), name="Y")
X_2, Delta_2, A_2, D_2 = Sequence("X", n, 2), ChannelGate("Delta", n, 2), Parameter("A", 2, d_k), Parameter("D", 2)
of_channel = (block([[Ones(1, 1)], [Zeros(1, 1)]]), block([[Zeros(1, 1)], [Ones(1, 1)]]))
side_by_side = block([[masked_product(Delta_2 @ one, A_2.T @ one, X_2 @ one) for one in of_channel]])
two_channels = Closed(side_by_side + X_2 @ diag(D_2), name="Y")

# eq. 4 has (Delta A)^-1 (exp(Delta A) - I) Delta B, the zero-order hold, where the code has Delta B
held = (exp(Delta[t] * a) - Ones(d_k, 1)).hadamard(reciprocal(a)).hadamard(B[t])
zero_order_hold = Recurrence(h, update=exp(Delta[t] * a).hadamard(h) + held @ x[t], readout=C[t].T @ h)
a_not_zero = nonzero(a, "the zero-order hold divides by A")

# neighbours: the inputs aren't scaled by their steps, or fade by their own step at once
unscaled = Recurrence(h, update=exp(Delta[t] * a).hadamard(h) + B[t] @ x[t], readout=C[t].T @ h)
own_write_fades = Recurrence(h, update=exp(Delta[t] * a).hadamard(h + Delta[t] * B[t] @ x[t]), readout=C[t].T @ h)

# facts: one entry of the state, with a step, a rate A < 0, and an input that stays the same for one step
step, time, start, z = symbols("Delta s h_0 z", real=True)
rate, drive = symbols("A", negative=True), symbols("u", real=True)  # u is B x
decayed = exponential(rate * step)
solution = decayed * start + (decayed - 1) / rate * drive
softplus, sigmoid = log(1 + exponential(z)), 1 / (1 + exponential(-z))

# two entries of the state in each of two channels
steps, rates = symbols("Delta_1 Delta_2", real=True), symbols("A_1 A_2", real=True)
gate = Matrix(2, 2, lambda c, m: exponential(steps[c] * rates[m]))
spread = (steps[0] - steps[1]) * (rates[0] - rates[1])


def of_each_token(*names: str) -> Computed:
    """Whether these inputs of the recurrence are sequences; what isn't is the same for all tokens."""

    def find() -> Finding:
        kinds = {str(x): isinstance(x, Sequence) for x in recurrence.symbols()}
        texts = (f"{name} is {'a sequence' if kinds[name] else 'a parameter'}" for name in names)
        return Finding(all(kinds[name] for name in names), ", ".join(texts))

    return Computed(find, "reading")


def only_zero_of_the_determinant() -> Finding:
    """Where 1 - exp(-x) is zero."""
    zeros = solveset(1 - exponential(-z), z, Reals)
    return Finding(zeros == FiniteSet(0), f"1 - exp(-x) = 0 for x in {zeros}")


mamba = Derivation(
    "mamba",
    title="Mamba",
    summary="A linear system in each channel that changes with the token: its step, what it takes in, what it gives.",
    forms={
        "recurrence": recurrence,
        "channel": channel,
        "channel_matrix": channel_matrix,
        "zero_order_hold": zero_order_hold,
    },
    identities=[
        Identity(
            "channel_is_matrix",
            channel,
            channel_matrix,
            says="One channel is linear attention with B, C and Delta x, scaled by exp of the sums of its steps.",
        ),
        Identity(
            "channels_side_by_side",
            selective_scan(2),
            two_channels,
            says="Channels share B and C; each has a mask of its own, made of its own steps and row of A.",
        ),
        Identity(
            "code_is_zero_order_hold",
            channel,
            zero_order_hold,
            assumptions=(a_not_zero,),
            expected="refuted",
            says="The code's Delta B isn't the zero-order hold of the paper: it is Euler's step for the input.",
            source="Mamba, eq. 4, against the reference code of its selective scan",
        ),
        Identity(
            "inputs_without_steps",
            unscaled,
            channel_matrix,
            expected="refuted",
            says="What a token writes is scaled by its step.",
        ),
        Identity(
            "own_write_fades",
            own_write_fades,
            channel_matrix,
            expected="refuted",
            says="What a token writes doesn't fade by its own step.",
        ),
    ],
    facts=[
        Fact(
            "inputs_of_each_token",
            of_each_token("B", "C", "Delta"),
            says="The step, B and C are chosen by the token.",
            source="document 000, Mamba",
        ),
        Fact(
            "A_of_each_token",
            of_each_token("A", "B", "C"),
            expected="refuted",
            says="A isn't: it is the same for all tokens, and only exp(Delta A) changes.",
            source="document 003, on Mamba's A, B and C",
        ),
        Fact(
            "shape_of_the_state",
            HasShape(recurrence.final(), (d_v, d_k)),
            says="The state has d_k entries for each channel.",
        ),
        Fact(
            "zero_order_hold",
            Equal(Integral(exponential(rate * time) * drive, (time, 0, step)), (decayed - 1) / rate * drive),
            says="An input B x that is held for a step adds the integral of exp(A s) B x: (exp(Delta A) - 1) / A B x.",
            source="Mamba, eq. 4",
        ),
        Fact(
            "zero_order_hold_solves_the_system",
            Equal(Derivative(solution, step), rate * solution + drive),
            says="With it the recurrence is the solution of h' = A h + B x where x is constant.",
        ),
        Fact(
            "euler_is_of_first_order",
            Equal(Limit(((decayed - 1) / rate - step) / step**2, step, 0), rate / 2),
            says="Delta B is the zero-order hold but for A B Delta^2 / 2 and higher powers.",
        ),
        Fact(
            "decay_of_theorem_1",
            Equal(exponential(-softplus), 1 - sigmoid),
            says="With A = -1 and Delta = softplus(z) the state keeps 1 - sigmoid(z).",
            source="Mamba, theorem 1",
        ),
        Fact(
            "gate_of_theorem_1",
            Equal(((decayed - 1) / rate).subs({rate: -1, step: softplus}), sigmoid),
            says="With the zero-order hold the input is written with the gate sigmoid(z).",
            source="Mamba, theorem 1",
        ),
        Fact(
            "gate_of_the_code",
            Equal(softplus.subs(z, 0), Rational(1, 2)),
            expected="refuted",
            says="With the code's Delta B it is written with softplus(z): log 2 at z = 0, and not 1/2.",
        ),
        Fact(
            "determinant_of_the_gate",
            Equal(gate.det(), exponential(steps[0] * rates[0] + steps[1] * rates[1]) * (1 - exponential(-spread))),
            says="For two channels and two entries the gate's determinant has 1 - exp(-x) as a factor, with "
            "x = (Delta_1 - Delta_2)(A_1 - A_2).",
        ),
        Fact(
            "gate_is_an_outer_product_only_if",
            Computed(only_zero_of_the_determinant, "SymPy"),
            says="It is zero, and the gate an outer product, only if x = 0: the same step, or the same rate.",
            source="document 001, on outer products",
        ),
        Fact(
            "gate_with_one_step",
            rank_is(gate.subs(steps[1], steps[0]), 1),
            says="With one step for all channels the gate is an outer product.",
        ),
    ],
    sources=[Source("Mamba", "Gu & Dao 2023, eq. 4, theorem 1 and Algorithm 2", "arXiv:2312.00752")],
)
