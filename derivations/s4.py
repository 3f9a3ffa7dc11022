r"""S4: a linear system in continuous time, x' = A x + B u with y = C x, sampled with a step Delta by the bilinear rule.

    x_k = A_bar x_{k-1} + B_bar u_k,  y_k = C x_k
    A_bar = (I - Delta/2 A)^-1 (I + Delta/2 A),  B_bar = (I - Delta/2 A)^-1 Delta B

Gu, Goel & Re 2021 (arXiv 2111.00396). A, B, C and Delta are the same for all tokens: that makes it a convolution, and
it is what Mamba gives up. One input, one output, and a state with d_k entries.
"""

from sympy import Interval, Limit, Rational
from sympy import exp as exponential

from derivations.language import Parameter, Sequence, State, Symbol, d_k, eye, gamma, n, t
from derivations.language import Closed, Derivation, Identity, Recurrence, Source, Toeplitz, invertible
from derivations.language import NEGATIVE, Equal, Fact, RangeWithin

U, kernel = Sequence("U", n, 1), Sequence("kernel", n, 1)
x, A_bar, B_bar, C = State("x", d_k), Parameter("A_bar", d_k, d_k), Parameter("B_bar", d_k), Parameter("C", 1, d_k)

# in discrete time; the kernel C A_bar^m B_bar, m = 0, 1, ..., is what a single one as input gives
recurrence = Recurrence(x, update=A_bar @ x + B_bar @ U[t], readout=C @ x)
impulse_response = Recurrence(x, update=A_bar @ x, readout=C @ x, read="before", initial=B_bar)
convolution = Closed(Toeplitz(kernel) @ U).where(kernel, impulse_response)

# from continuous time
A, B, Delta = Parameter("A", d_k, d_k), Parameter("B", d_k), Symbol("Delta")
explicit, implicit = eye(d_k) + Delta / 2 * A, eye(d_k) - Delta / 2 * A
bilinear = recurrence.substitute({A_bar: implicit.I @ explicit, B_bar: Delta * implicit.I @ B})
forward_euler = recurrence.substitute({A_bar: eye(d_k) + Delta * A, B_bar: Delta * B})
solvable = invertible(implicit, "a step of the bilinear rule solves a system with this matrix")

# one step from any x_{k-1} with any u_k, and the trapezoid rule for x_k - x_{k-1}
u = Parameter("u", 1)
x_next = implicit.I @ explicit @ x + Delta * implicit.I @ B @ u
increment = Closed(x_next - x, name="dx")
trapezoid = Closed(Delta / 2 * A @ (x + x_next) + Delta * B @ u, name="dx")

# neighbours: a kernel that begins with C A_bar B_bar, and a system that changes from token to token
late_convolution = Closed(Toeplitz(kernel) @ U).where(kernel, impulse_response.reading("after"))
varying = Recurrence(x, update=gamma[t] * A_bar @ x + B_bar @ U[t], readout=C @ x)
varying_response = Recurrence(x, update=gamma[t] * A_bar @ x, readout=C @ x, read="before", initial=B_bar)
varying_convolution = Closed(Toeplitz(kernel) @ U).where(kernel, varying_response)

# in a basis of eigenvectors a rule is a function of z, Delta times an eigenvalue of A, and the exact one is exp(z)
z = Symbol("z", real=True)
bilinear_factor, euler_factor = (1 + z / 2) / (1 - z / 2), 1 + z

s4 = Derivation(
    "s4",
    title="S4",
    summary="A linear system in continuous time, sampled: a recurrence that never changes, and so a convolution.",
    forms={"recurrence": recurrence, "convolution": convolution, "bilinear": bilinear},
    identities=[
        Identity(
            "recurrent_is_convolution",
            recurrence,
            convolution,
            says="The outputs are the inputs convolved with C A_bar^m B_bar, m = 0, 1, ..., for every discretisation.",
        ),
        Identity(
            "bilinear_is_trapezoid",
            increment,
            trapezoid,
            assumptions=(solvable,),
            says="A bilinear step is the trapezoid rule for x' = A x + B u, with the input of its end.",
        ),
        Identity(
            "euler_is_bilinear",
            forward_euler,
            bilinear,
            assumptions=(solvable,),
            expected="refuted",
            says="Euler's step with I + Delta A and Delta B is another discretisation.",
        ),
        Identity(
            "kernel_from_the_first_power",
            recurrence,
            late_convolution,
            expected="refuted",
            says="The kernel begins with C B_bar: a token's own input isn't multiplied by A_bar.",
        ),
        Identity(
            "varying_system_is_convolution",
            varying,
            varying_convolution,
            expected="refuted",
            says="A system that changes from token to token isn't a convolution with its own response.",
        ),
    ],
    facts=[
        Fact(
            "bilinear_is_of_second_order",
            Equal(Limit((bilinear_factor - exponential(z)) / z**3, z, 0), Rational(1, 12)),
            says="A bilinear step differs from the exact one, exp(z), by z^3 / 12 for small z.",
        ),
        Fact(
            "euler_is_of_first_order",
            Equal(Limit((euler_factor - exponential(z)) / z**2, z, 0), -Rational(1, 2)),
            says="A step of Euler's differs from it by -z^2 / 2.",
        ),
        Fact(
            "bilinear_is_stable",
            RangeWithin(bilinear_factor, z, NEGATIVE, Interval.open(-1, 1)),
            says="What decays in continuous time, with a real eigenvalue below zero, decays at every step size.",
        ),
        Fact(
            "euler_is_stable",
            RangeWithin(euler_factor, z, NEGATIVE, Interval.open(-1, 1)),
            expected="refuted",
            says="With Euler's step it grows where Delta times the eigenvalue is below -2.",
        ),
    ],
    sources=[
        Source("Efficiently Modeling Long Sequences with Structured State Spaces", "Gu et al. 2021", "arXiv:2111.00396")
    ],
)
