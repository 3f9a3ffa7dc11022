r"""TransNormer: linear attention without a denominator, each output divided by its root mean square.

    O = RMSNorm(((Q K^T) . M) V),   RMSNorm(o) = o / sqrt(|o|^2 / d_v)

Qin et al. 2022 (arXiv 2210.10340), here without feature map. A root has no exact meaning, so that the forms state
RMSNorm(o) times its component along any vector u, which is o (o^T u) / (|o|^2 / d_v): for all u together that is
RMSNorm(o) but for its sign.
"""

from sympy import Derivative, Expr, Limit, MatrixBase, factor, oo, symbols
from sympy import Matrix as Column

from derivations.language import K, M, Ones, Parameter, Q, S, Sequence, V, d_v, k, n, q, t, v
from derivations.language import Chunkwise, Closed, Derivation, Form, Identity, Recurrence, Source
from derivations.language import Equal, Fact, Gate, Ne, Symbol, assume, diag, norm_squared, normalised, scalar, sqrt
from derivations.linear_attention import matrix as unnormalised_matrix
from derivations.linear_attention import recurrence as unnormalised

O, u = Sequence("O", n, d_v), Parameter("u", d_v)
one = Ones(n, 1)
mean_square = O.hadamard(O) @ Ones(d_v, 1) / d_v
epsilon = Symbol("epsilon")  # an implementation adds it to the mean square


def along_u(output: Form) -> Form:
    """RMSNorm(o) (RMSNorm(o)^T u) for each row o of a form's output O."""
    return Closed(diag(mean_square).I @ diag(O @ u) @ O, name="P").where(O, output)


def along_u_with_epsilon(output: Form) -> Form:
    """The same with epsilon under the root."""
    return Closed(diag(mean_square + epsilon * one).I @ diag(O @ u) @ O, name="P").where(O, output)


o = S @ q
recurrence = Recurrence(S, update=S + v @ k.T, readout=scalar(o.T @ u) / (norm_squared(o) / d_v) * o)
matrix = along_u(unnormalised_matrix)
O_block = Q @ S.T + (Q @ K.T).hadamard(M) @ V
mean_square_block = O_block.hadamard(O_block) @ Ones(d_v, 1) / d_v
chunkwise = Chunkwise(S, update=S + V.T @ K, readout=diag(mean_square_block).I @ diag(O_block @ u) @ O_block)

# a denominator before the norm, or any other factor of a row
divided = Closed(normalised((Q @ K.T).hadamard(M)) @ V)
c = Gate("c")
c_not_zero = assume(Ne(c[t], 0), "a row of zeros can't be normalised")
mean_square_after = Closed(diag(mean_square).I @ O.hadamard(O) @ Ones(d_v, 1) / d_v, name="x")


def rms_norm(x: MatrixBase, epsilon: Expr | int = 0) -> MatrixBase:
    """RMSNorm of a column of scalars."""
    return x / sqrt(factor((x.T * x)[0] / x.rows) + epsilon)


x = Column(symbols("x_1:4", real=True))
scale, size = Symbol("c", positive=True), Symbol("s", positive=True)
small = rms_norm(Column([x[0], size]))[0]
small_with_epsilon = rms_norm(Column([x[0], size]), Symbol("epsilon", positive=True))[0]

transnormer = Derivation(
    "transnormer",
    title="TransNormer",
    summary="Linear attention normalised after the sum, each output by itself, instead of along the sequence.",
    forms={"recurrence": recurrence, "matrix": matrix, "chunkwise": chunkwise},
    identities=[
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="The norm sees one output at a time: the recurrence stays linear attention's, with a norm after it.",
        ),
        Identity(
            "recurrent_is_chunkwise",
            recurrence,
            chunkwise,
            says="Block by block the norm comes after both parts of an output are added.",
        ),
        Identity(
            "denominator_cancels",
            along_u(divided),
            matrix,
            says="RMSNorm(D^-1 A V) = RMSNorm(A V), up to the sign of D: a denominator before the norm has no effect.",
            source="document 001, on normalising afterwards",
        ),
        Identity(
            "scale_of_queries_cancels",
            matrix.substitute({q: c[t] * q}),
            matrix,
            assumptions=(c_not_zero,),
            says="So does any factor of a query.",
        ),
        Identity(
            "scale_of_keys_cancels",
            matrix.substitute({k: c[t] * k}),
            matrix,
            expected="refuted",
            says="A factor of a key doesn't: it weighs the tokens against one another.",
        ),
        Identity(
            "mean_square_is_one",
            mean_square_after.where(O, unnormalised),
            Closed(one, name="x"),
            says="However large the state has grown, the output has mean square one.",
            source="document 003, question 2",
        ),
        Identity(
            "denominator_cancels_with_epsilon",
            along_u_with_epsilon(divided),
            along_u_with_epsilon(unnormalised_matrix),
            expected="refuted",
            says="With an epsilon under the root the denominator has an effect.",
        ),
    ],
    facts=[
        Fact(
            "scale_cancels",
            Equal(rms_norm(scale * x), rms_norm(x)),
            says="RMSNorm(c x) = RMSNorm(x) for c > 0, here with three entries.",
        ),
        Fact(
            "negative_scale_flips_the_sign",
            Equal(rms_norm(-scale * x), -rms_norm(x)),
            says="A negative factor leaves its sign behind: a denominator cancels if it is positive.",
        ),
        Fact(
            "negative_scale_cancels",
            Equal(rms_norm(-scale * x), rms_norm(x)),
            expected="refuted",
            says="A negative factor doesn't cancel.",
        ),
        Fact(
            "scale_cancels_with_epsilon",
            Equal(rms_norm(scale * x, 1), rms_norm(x, 1)),
            expected="refuted",
            says="With epsilon (1 here) under the root no factor but 1 and -1 keeps the size.",
        ),
        Fact(
            "slope_is_unbounded_as_well",
            Equal(Limit(Derivative(small, x[0]).doit().subs(x[0], 0), size, 0), oo),
            says="Near zero RMSNorm without epsilon is as steep as a division by the sum of the weights.",
        ),
        Fact(
            "slope_with_epsilon",
            Equal(
                Limit(Derivative(small_with_epsilon, x[0]).doit().subs(x[0], 0), size, 0),
                1 / sqrt(Symbol("epsilon", positive=True)),
            ),
            says="With epsilon its slope at zero is 1 / sqrt(epsilon).",
        ),
    ],
    sources=[Source("The Devil in Linear Transformer", "Qin et al. 2022", "arXiv:2210.10340")],
)
