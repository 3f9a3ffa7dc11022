r"""LRU: a linear recurrence with a complex eigenvalue for each channel of its state.

    x_t = lambda . x_{t-1} + gamma . (B u_t),   y_t = Re(C x_t) + D u_t
    lambda = exp(-exp(nu) + i exp(theta)),      gamma = sqrt(1 - |lambda|^2) at the start of training

Orvieto et al. 2023 (arXiv 2303.06349). It stands here in real numbers: lambda = a + i b, and x, B and C by their real
and imaginary parts. The inputs u are V.
"""

from sympy import Abs, I, Interval, Limit, Matrix, Sum, oo, symbols
from sympy import exp as exponential

from derivations.language import REALS, Equal, Fact, Parameter, RangeWithin, Sequence, State, d_v, n, t, v
from derivations.language import Closed, Derivation, Identity, Recurrence, Source, Toeplitz
from derivations.language import block, diag, dimension, invertible

h = dimension("h")  # channels, each of them complex
x_re, x_im = State("x_re", h), State("x_im", h)
a, b, gamma = Parameter("a", h), Parameter("b", h), Parameter("gamma", h)
B_re, B_im = Parameter("B_re", h, d_v), Parameter("B_im", h, d_v)
C_re, C_im, D = Parameter("C_re", d_v, h), Parameter("C_im", d_v, h), Parameter("D", d_v, d_v)

turned_re = a.hadamard(x_re) - b.hadamard(x_im)
turned_im = b.hadamard(x_re) + a.hadamard(x_im)
recurrence = Recurrence(
    (x_re, x_im),
    update=(turned_re + gamma.hadamard(B_re @ v), turned_im + gamma.hadamard(B_im @ v)),
    readout=C_re @ x_re - C_im @ x_im + D @ v,
)

# one real state, twice as long: each lambda turns a pair of its entries and shrinks it
x = State("x", 2 * h)
turn = block([[diag(a), -diag(b)], [diag(b), diag(a)]])
write = block([[gamma.hadamard(B_re @ v)], [gamma.hadamard(B_im @ v)]])
real_state = Recurrence(x, update=turn @ x + write, readout=block([[C_re, -C_im]]) @ x + D @ v)

# neighbours: the other one of two conjugate eigenvalues, and no imaginary parts at all
conjugated = recurrence.substitute({b: -b, B_im: -B_im, C_im: -C_im})
turned_back = recurrence.substitute({b: -b})
decay_alone = Recurrence(x_re, update=a.hadamard(x_re) + gamma.hadamard(B_re @ v), readout=C_re @ x_re + D @ v)

# one input and one output: a convolution, whose kernel is Re(C lambda^m (gamma . B)) for m = 0, 1, ...
U, kernel = Sequence("U", n, 1), Sequence("kernel", n, 1)
b_re, b_im, c_re, c_im = (Parameter(name, h) for name in ("B_re", "B_im", "C_re", "C_im"))
one_channel = Recurrence(
    (x_re, x_im),
    update=(turned_re + gamma.hadamard(b_re) @ U[t], turned_im + gamma.hadamard(b_im) @ U[t]),
    readout=c_re.T @ x_re - c_im.T @ x_im,
)
powers = Recurrence(
    (x_re, x_im),
    update=(turned_re, turned_im),
    readout=one_channel.readout,
    read="before",
    initial=(gamma.hadamard(b_re), gamma.hadamard(b_im)),
)
convolution = Closed(Toeplitz(kernel) @ U).where(kernel, powers)

# a real system x_t = A x_{t-1} + B u_t with one pair of eigenvalues a +- i b: A = P R P^-1
pair, A, P = State("x", 2), Parameter("A", 2, 2), Parameter("P", 2, 2)
B, C = Parameter("B", 2, d_v), Parameter("C", d_v, 2)
a_1, b_1 = Parameter("a", 1), Parameter("b", 1)
eigenvalues = block([[a_1, -b_1], [b_1, a_1]])
system = Recurrence(pair, update=A @ pair + B @ v, readout=C @ pair)
mixed = system.substitute({A: P @ eigenvalues @ P.I})
diagonal = system.substitute({A: eigenvalues, B: P.I @ B, C: C @ P})
basis = invertible(P, "a without a basis of eigenvectors A isn't of this form")

# scalars of the facts
real_part, imaginary_part, root = symbols("a b x")
nu, theta = symbols("nu theta", real=True)
modulus = exponential(-exponential(nu))
power, size = symbols("m r", nonnegative=True)

lru = Derivation(
    "lru",
    title="LRU",
    summary="A linear recurrence whose state decays and turns: one complex eigenvalue for each channel.",
    forms={"recurrence": recurrence, "real_state": real_state, "convolution": convolution},
    identities=[
        Identity(
            "real_state",
            real_state,
            recurrence,
            matching={x: block([[x_re], [x_im]])},
            says="Multiplying by a + i b is the 2 x 2 matrix with rows (a, -b) and (b, a) on real and imaginary part.",
        ),
        Identity(
            "recurrent_is_convolution",
            one_channel,
            convolution,
            says="From one input to one output it is a convolution with the kernel Re(C lambda^m gamma B).",
        ),
        Identity(
            "diagonalised",
            mixed,
            diagonal,
            assumptions=(basis,),
            carries=False,
            says="A real system with eigenvalues a +- i b is diagonal in another basis, which B and C take in.",
        ),
        Identity(
            "conjugate_channel",
            recurrence,
            conjugated,
            carries=False,
            says="Conjugate lambda, B and C have the same real output: one of a pair of eigenvalues is enough.",
        ),
        Identity(
            "conjugate_eigenvalue_alone",
            recurrence,
            turned_back,
            carries=False,
            expected="refuted",
            says="With the same B and C, turning the other way is another system.",
        ),
        Identity(
            "real_parts_alone",
            recurrence,
            decay_alone,
            expected="refuted",
            says="The imaginary part of the state can't be left out: the next step turns it into the real part.",
        ),
    ],
    facts=[
        Fact(
            "eigenvalues",
            Equal(
                Matrix([[real_part - root, -imaginary_part], [imaginary_part, real_part - root]]).det(),
                (real_part + I * imaginary_part - root) * (real_part - I * imaginary_part - root),
            ),
            says="The characteristic polynomial of the 2 x 2 matrix has the roots a + i b and a - i b.",
        ),
        Fact(
            "modulus",
            Equal(Abs(exponential(-exponential(nu) + I * exponential(theta))), modulus),
            says="The modulus of lambda is exp(-exp(nu)), whatever theta is.",
        ),
        Fact(
            "inside_the_unit_circle",
            RangeWithin(modulus, nu, REALS, Interval.open(0, 1)),
            says="For every real nu the modulus is below one: the recurrence is stable by its parametrisation.",
        ),
        Fact(
            "variance_of_the_state",
            Equal(Sum(modulus ** (2 * power) * (1 - modulus**2), (power, 0, oo)), 1),
            says="With gamma = sqrt(1 - |lambda|^2), white noise of variance one gives a state of variance one.",
        ),
        Fact(
            "variance_without_gamma",
            Equal(Limit(1 / (1 - size**2), size, 1, "-"), oo),
            says="Without gamma the variance is 1 / (1 - |lambda|^2), which grows without bound near the circle.",
        ),
    ],
    sources=[
        Source("Resurrecting Recurrent Neural Networks for Long Sequences", "Orvieto et al. 2023", "arXiv:2303.06349")
    ],
)
