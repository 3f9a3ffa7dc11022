r"""RoPE: queries and keys are rotated, each by the angle of its position, so that scores depend on distances alone.

    A_ij = (R_1 ... R_i q_i)^T (R_1 ... R_j k_j) = q_i^T R_i^T ... R_{j+1}^T k_j

Su et al. 2021 (arXiv 2104.09864). The channels go in pairs, each pair with an angle of its own. With c and s the
cosines and sines of the angles of h pairs, and pair a made of the channels a and h + a,

    R = [ Diag(c)  -Diag(s) ]
        [ Diag(s)   Diag(c) ]

The scores of several pairs add up, so that one pair is enough for statements about tokens: d_k = 2 there. The angle
may differ from token to token, R_t being the rotation between tokens t - 1 and t; in the paper it is always the same.
"""

from sympy import Expr, Matrix, cos, sin, symbols

from derivations.language import Closed, Derivation, Equal, Fact, Form, Identity, Parameter, Recurrence, Sequence
from derivations.language import M, Source, State, Statement, Transport, V, block, d_v, diag, dimension, eye, i, j, n
from derivations.language import on_unit_circle, t, v
from derivations.language import s as between


def rotation(cosine: Statement, sine: Statement) -> Statement:
    """R of a column of cosines and one of sines."""
    return block([[diag(cosine), -diag(sine)], [diag(sine), diag(cosine)]])


# h pairs of channels
h = dimension("h")
c_a, s_a, c_b, s_b = (Parameter(name, h) for name in ("c_a", "s_a", "c_b", "s_b"))
R_a, R_b = rotation(c_a, s_a), rotation(c_b, s_b)
both = rotation(c_a.hadamard(c_b) - s_a.hadamard(s_b), s_a.hadamard(c_b) + c_a.hadamard(s_b))
x = Parameter("x", 2 * h)

# one pair of channels, and tokens that are turned from one to the next
Q, K = Sequence("Q", n, 2), Sequence("K", n, 2)
q, k = Q[t], K[t]
C, Z = Sequence("C", n, 1), Sequence("Z", n, 1)  # cosines and sines


def turn(at: object) -> Statement:
    """The rotation at one token."""
    return rotation(C[at], Z[at])


relative = Transport(Q[i], turn(between).T, K[j])
T, no_turn = State("T", 2, 2), eye(2)


def turned(token: Statement, start: Statement) -> Recurrence:
    """Each token turned by all rotations up to its own."""
    return Recurrence(T, update=T @ turn(t), readout=T @ token, initial=start)


Q_turned, K_turned = Sequence("Q_R", n, 2), Sequence("K_R", n, 2)
scores = (Q_turned @ K_turned.T).hadamard(M)


def with_turned(expression: Statement, start: Statement = no_turn, name: str = "A") -> Form:
    """A matrix expression of turned queries and keys, with the rotation at the first token."""
    return Closed(expression, name).where(Q_turned, turned(q, start)).where(K_turned, turned(k, start))


absolute = with_turned(scores)
turned_back = Recurrence(T, update=T @ turn(t), readout=T.T @ k, initial=no_turn)
against_each_other = Closed(scores, name="A").where(Q_turned, turned(q, no_turn)).where(K_turned, turned_back)

S = State("S", d_v, 2)
recurrence = Recurrence(S, update=S @ turn(t) + v @ k.T, readout=S @ q)
other_way = Recurrence(S, update=S @ turn(t).T + v @ k.T, readout=S @ q)
matrix = with_turned(scores @ V, name="O")

# from any angle at the first token
c_0, s_0 = Parameter("c_0", 1), Parameter("s_0", 1)
started = with_turned(scores, rotation(c_0, s_0))

# the same angle at every token, with real cosines
theta, l, m = symbols("theta l m", real=True)


def by_angle(angle: Expr) -> Matrix:
    """The rotation of one pair by an angle."""
    return Matrix([[cos(angle), -sin(angle)], [sin(angle), cos(angle)]])


a_on_circle = on_unit_circle(c_a, s_a, "R is a rotation only then")
on_circle = on_unit_circle(C, Z, "R_t is a rotation only then")
start_on_circle = on_unit_circle(c_0, s_0, "the first rotation has to be one, too")

rope = Derivation(
    "rope",
    title="RoPE",
    summary="Rotary position embedding: a product of two absolute rotations that depends on the relative one alone.",
    forms={"relative": relative, "absolute": absolute, "recurrence": recurrence, "matrix": matrix},
    identities=[
        Identity(
            "angles_add",
            Closed(R_a @ R_b, name="R"),
            Closed(both, name="R"),
            says="Two rotations one after the other are one, by the sum of the angles, pair by pair.",
        ),
        Identity(
            "inverse_is_transpose",
            Closed(R_a.T @ R_a, name="R"),
            Closed(eye(2 * h), name="R"),
            assumptions=(a_on_circle,),
            says="R^T turns back what R turned.",
        ),
        Identity(
            "norm_is_kept",
            Closed((R_a @ x).T @ (R_a @ x)),
            Closed(x.T @ x),
            assumptions=(a_on_circle,),
            says="A rotation leaves lengths as they are.",
        ),
        Identity(
            "relative_is_absolute",
            relative,
            absolute,
            assumptions=(on_circle,),
            says="With queries and keys turned by all angles up to their own, the score sees those in between alone.",
        ),
        Identity(
            "start_is_free",
            relative,
            started,
            assumptions=(on_circle, start_on_circle),
            says="From whatever angle the first token starts, it cancels.",
        ),
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            assumptions=(on_circle,),
            says="In linear attention, RoPE is a state that is turned by R from the right before each write.",
            source="document 001, RoPE as a complex decay",
        ),
        Identity(
            "state_turned_the_other_way",
            other_way,
            matrix,
            assumptions=(on_circle,),
            expected="refuted",
            says="It is turned by R, not by R^T: the state is multiplied with queries, which are further on.",
        ),
        Identity(
            "keys_turned_the_other_way",
            relative,
            against_each_other,
            assumptions=(on_circle,),
            expected="refuted",
            says="Keys that are turned against the queries make scores of the sum of two positions.",
        ),
    ],
    facts=[
        Fact(
            "constant_angle",
            Equal(by_angle(l * theta).T * by_angle(m * theta), by_angle((m - l) * theta)),
            says="By the same angle at every token: R(l theta)^T R(m theta) = R((m - l) theta).",
        ),
    ],
    sources=[Source("RoFormer", "Su et al. 2021", "arXiv:2104.09864")],
)
