r"""LaCT: fast weights that take one gradient step for each large block of tokens. With linear weights S,

    O = Q S^T,   S <- S + V^T D_eta K

Zhang et al. 2025 (arXiv 2505.23884): the block is applied first and trained on afterwards, with the loss -v^T f(k). The
released code has f(x) = W_1 (silu(W_0 x) . (W_2 x)), may replace a gradient X by a few Newton and Schulz steps

    X <- a X + b (X X^T) X + c (X X^T)^2 X

and gives each row of the weights its old norm back.
"""

from fractions import Fraction

from sympy import Derivative, Expr, Matrix, Rational, exp, sqrt, symbols
from sympy import Symbol as Scalar

from derivations.language import K, Ones, Parameter, Q, S, Sequence, State, Symbol, V, d_k, d_v, eta, eye, n, t, v
from derivations.language import Chunkwise, Closed, Computed, Derivation, Eq, Equal, Fact, Finding, Identity, Source
from derivations.language import Statement, assume, block, derivative, diag, dimension, norm_squared, trace
from derivations.linear_attention import recurrence as linear_attention

trained = S + V.T @ diag(eta) @ K
chunkwise = Chunkwise(S, update=trained, readout=Q @ S.T)
train_first = Chunkwise(S, update=trained, readout=Q @ trained.T)
unmasked = Chunkwise(S, update=trained, readout=Q @ S.T + (Q @ K.T) @ diag(eta) @ V)
weighted = linear_attention.substitute({v: eta[t] * v})

# momentum from block to block
R, mu = State("R", d_v, d_k), Symbol("mu")
pushed = mu * R + V.T @ diag(eta) @ K
momentum = Chunkwise((S, R), update=(S + pushed, pushed), readout=Q @ S.T)

# the gradient of the block's loss, by its product with every direction
E = Parameter("E", d_v, d_k)
block_loss = -trace(K.T @ diag(eta) @ V @ S)
slope = Closed(derivative(block_loss, S, along=E) * Ones(1, 1), name="slope")
slope_of_gradient = Closed(-trace(E.T @ V.T @ diag(eta) @ K) * Ones(1, 1), name="slope")

# SwiGLU: A are the activations silu(W_0 k), A_slope the slopes there; near W_0 silu is its tangent
d_h = dimension("d_h")
W_0, W_1, W_2 = Parameter("W_0", d_h, d_k), Parameter("W_1", d_v, d_h), Parameter("W_2", d_h, d_k)
E_0, E_1, E_2 = Parameter("E_0", d_h, d_k), Parameter("E_1", d_v, d_h), Parameter("E_2", d_h, d_k)
A, A_slope, near = Sequence("A", n, d_h), Sequence("A_slope", n, d_h), Parameter("W", d_h, d_k)
hidden, upstream = K @ W_2.T, V @ W_1


def in_a_row(*scalars: Expr) -> Closed:
    """Scalars as a matrix of one row."""
    return Closed(block([[x * Ones(1, 1) for x in scalars]]), name="slopes")


def swiglu_loss(activations: Statement) -> Expr:
    """-sum_t v_t^T f(k_t)."""
    return -trace(V.T @ activations.hadamard(hidden) @ W_1.T)


slopes = in_a_row(
    derivative(swiglu_loss(A + A_slope.hadamard(K @ (near - W_0).T)), near, along=E_0),
    derivative(swiglu_loss(A), W_1, along=E_1),
    derivative(swiglu_loss(A), W_2, along=E_2),
).substitute({near: W_0})
slopes_of_gradients = in_a_row(
    -trace(E_0.T @ upstream.hadamard(hidden).hadamard(A_slope).T @ K),
    -trace(E_1.T @ V.T @ A.hadamard(hidden)),
    -trace(E_2.T @ upstream.hadamard(A).T @ K),
)

# Newton and Schulz
X, Y, a, b, c = Parameter("X", d_v, d_k), Parameter("X", d_k, d_v), *(Symbol(name) for name in "abc")
W, sigma = Sequence("W", 1, d_k), Parameter("sigma", d_k)


def step(X: Statement) -> Statement:
    """a X + b (X X^T) X + c (X X^T)^2 X."""
    return a * X + b * X @ X.T @ X + c * X @ X.T @ X @ X.T @ X


reflection = eye(d_k) - W.T @ W
reflects = assume(Eq(norm_squared(W[t]), 2), "only then is I - w w^T orthogonal")
cubed = sigma.hadamard(sigma).hadamard(sigma)
on_singular_values = a * sigma + b * cubed + c * cubed.hadamard(sigma).hadamard(sigma)

COEFFICIENTS = (
    ("4.0848", "-6.8946", "2.9270"),
    ("3.9505", "-6.3029", "2.6377"),
    ("3.7418", "-5.5913", "2.3037"),
    ("2.8769", "-3.1427", "1.2046"),
    ("2.8366", "-3.0525", "1.2012"),
)
"""a, b and c of the five steps in the released code."""


def five_steps() -> Finding:
    """Where the singular values 0.01, 0.02, ..., 1 come to lie."""
    ends = []
    for k in range(1, 101):
        value = Fraction(k, 100)
        for linear, cubic, fifth in COEFFICIENTS:
            square = value * value
            value = value * (Fraction(linear) + square * (Fraction(cubic) + square * Fraction(fifth)))
        ends.append(value)
    lowest, highest = min(ends), max(ends)
    shown = f"from {float(lowest):.4f} to {float(highest):.4f}"
    return Finding(Fraction(95, 100) < lowest and highest < Fraction(105, 100), shown)


x = Scalar("x", real=True)
sigmoid = 1 / (1 + exp(-x))
quintic = Rational(15, 8) * x - Rational(10, 8) * x**3 + Rational(3, 8) * x**5
first, second, norm = symbols("x_1 x_2 r", positive=True)
length = sqrt(first**2 + second**2)

lact = Derivation(
    "lact",
    title="LaCT",
    summary="Fast weights trained on one large block of tokens at a time, by gradients that may be orthogonalised.",
    forms={"chunkwise": chunkwise, "momentum": momentum, "train_first": train_first},
    identities=[
        Identity(
            "gradient_of_the_block",
            slope,
            slope_of_gradient,
            says="The gradient of -sum eta v^T S k is -V^T D_eta K, whatever S is.",
        ),
        Identity(
            "last_state_is_linear_attention",
            chunkwise.final(),
            linear_attention.final().substitute({v: eta[t] * v}),
            says="Linear weights end where linear attention's state ends, whatever the size of the blocks.",
        ),
        Identity(
            "applied_first",
            weighted,
            chunkwise,
            expected="refuted",
            says="Applied first, the outputs see nothing of their own block, where linear attention has the mask M.",
        ),
        Identity(
            "trained_first",
            train_first,
            unmasked,
            says="Trained first, they see all of their own block, later tokens as well.",
        ),
        Identity(
            "trained_first_for_applied_first",
            chunkwise,
            train_first,
            expected="refuted",
            says="The order of applying and training matters.",
        ),
        Identity(
            "momentum_in_the_end",
            momentum.final((1 - mu) * S + mu * R),
            chunkwise.final(),
            says="With momentum, (1 - mu) S + mu R takes the plain steps.",
        ),
        Identity(
            "gradients_of_swiglu",
            slopes,
            slopes_of_gradients,
            says="The three gradients of the released code, with silu and its slope as free inputs.",
            source="a1600012888/LaCT, lact_llm/lact_model/ttt_operation.py",
        ),
        Identity(
            "step_of_the_transpose",
            Closed(step(X.T), name="X"),
            Closed(step(X).T, name="X"),
            says="A Newton and Schulz step may be taken on X^T, where X X^T is the smaller matrix.",
        ),
        Identity(
            "step_of_the_reflected",
            Closed(step(reflection @ Y), name="X"),
            Closed(reflection @ step(Y), name="X"),
            assumptions=(reflects,),
            says="It commutes with reflections, and so with orthogonal matrices: singular vectors stay as they are.",
        ),
        Identity(
            "step_of_singular_values",
            Closed(step(diag(sigma)), name="X"),
            Closed(diag(on_singular_values), name="X"),
            says="On a diagonal matrix, and so on singular values, it is the polynomial a x + b x^3 + c x^5.",
        ),
        Identity(
            "orthogonalised_in_the_place_of_added",
            Closed(S + step(X), name="W"),
            Closed(step(X) + X, name="W"),
            expected="refuted",
            says="The bidirectional layer overwrites the weights with the orthogonalised gradient and adds the raw.",
            source="a1600012888/LaCT, minimal_implementations/bidirectional_lact_layer.py",
        ),
    ],
    sources=[Source("Test-Time Training Done Right", "Zhang et al. 2025", "arXiv:2505.23884")],
    facts=[
        Fact(
            "slope_of_silu",
            Equal(Derivative(x * sigmoid, x), sigmoid * (1 + x * (1 - sigmoid))),
            says="The slope of silu is sigmoid(x) (1 + x (1 - sigmoid(x))).",
            source="a1600012888/LaCT, lact_llm/lact_model/ttt_operation.py",
        ),
        Fact(
            "row_norm_is_restored",
            Equal((norm * first / length) ** 2 + (norm * second / length) ** 2, norm**2),
            says="A row divided by its length, times its old length, has its old length.",
        ),
        Fact(
            "classical_step",
            Equal(Matrix([quintic.diff(x, k).subs(x, 1) for k in range(3)]), Matrix([1, 0, 0])),
            says="With (15, -10, 3) / 8 the singular value 1 stays, and values near it come closer by the third power.",
        ),
        Fact(
            "tuned_step",
            Equal(sum(map(Rational, COEFFICIENTS[0])), 1),
            expected="refuted",
            says="With the released coefficients a step does not leave 1 where it is.",
        ),
        Fact(
            "five_tuned_steps",
            Computed(five_steps),
            says="The five released steps take the singular values 0.01, 0.02, ..., 1 to within 5 percent of 1.",
        ),
    ],
)
