r"""CoPE, contextual position encoding: a query counts the tokens that it cares about.

    p_ij = s_ij + s_i,j+1 + ... + s_ii   for i >= j,   s_il = sigmoid(q_i^T k_l)

Golovneva et al. 2024 (arXiv 2405.18719). The count p_ij takes the place of the distance i - j + 1, and an embedding of
it, interpolated between whole numbers, is added to the key. As one matrix, P = (G . M) M with G_il = s_il.

The entries of G are symbols of their own here: what follows holds for any gates.
"""

from typing import Any

from sympy import Matrix, ones, symbols

from derivations.alibi import biased_weights as alibi_weights
from derivations.alibi import counted, m, p
from derivations.forgetting_attention import decayed_weights, g, of_logarithms
from derivations.language import Algorithm, Closed, Derivation, Equal, Fact, Identity, K, M, Ones, Q, Reduction
from derivations.language import Sequence, Source, diag, exp, log, n
from derivations.softmax_attention import mean_of_values

G = Sequence("G", n, n)
P = G.hadamard(M) @ M
positions = Closed(P, name="P")
column = Ones(n, 1)


def counted_back(algebra: Any, G: Any) -> Any:
    """p_ij = p_i,j+1 + s_ij, from the query's own token backwards."""
    length = G.shape[-2]
    gates = algebra.multiply(G, algebra.lower(length, 0))
    count, columns = None, []
    for j in reversed(range(length)):
        own = algebra.token(algebra.transpose(gates), j)
        count = own if count is None else algebra.add(count, own)
        columns.append(count)
    return algebra.transpose(algebra.stack(columns[::-1]))


# an embedding that falls by m for each token counted
linear_weights = Closed(exp(Q @ K.T - m * P + log(M)), name="A")
linear = mean_of_values(linear_weights.expression)
log_gates = Closed(exp(Q @ K.T + P + log(M)), name="A")

# P for three tokens, and the second difference in which any c_i - c_j cancels: rows 2 and 3, columns 1 and 2
s = Matrix(3, 3, symbols("s_(1:4)(1:4)"))
lower = ones(3).lower_triangular()
counts = s.multiply_elementwise(lower) * lower
c = Matrix(symbols("c_1:4"))
separable = c * ones(1, 3) - ones(3, 1) * c.T


def second_difference(of: Any) -> Any:
    """p_31 - p_21 - p_32 + p_22."""
    return of[2, 0] - of[1, 0] - of[2, 1] + of[1, 1]


cope = Derivation(
    "cope",
    title="CoPE",
    summary="Positions that depend on the query: each one counts, by gates of its own, the tokens since a key.",
    forms={"positions": positions, "linear": linear},
    identities=[
        Identity(
            "positions_are_counted_back",
            positions,
            Algorithm(counted_back, inputs=(G,)),
            says="(G . M) M sums each row of gates from the key up to the query.",
        ),
        Identity(
            "gates_of_one",
            positions.substitute({G: Ones(n, n)}),
            Closed((counted @ column.T - column @ counted.T + Ones(n, n)).hadamard(M), name="P"),
            says="With all gates one, p_ij is the distance i - j + 1.",
        ),
        Identity(
            "gates_of_the_keys",
            log_gates.substitute({G: column @ g.T}),
            Closed(decayed_weights.expression @ diag(exp(g)), name="A").substitute(of_logarithms),
            says="With gates g_l that no query changes, exp(P) is FoX's Gamma, each key's own gate included.",
        ),
        Identity(
            "gates_of_the_keys_as_fox",
            log_gates.substitute({G: column @ g.T}),
            decayed_weights.substitute(of_logarithms),
            expected="refuted",
            says="CoPE's sum begins with the key's own gate, FoX's after it.",
        ),
        Reduction(
            "linear_embedding",
            linear_weights.substitute({G: Ones(n, n)}),
            Closed(exp(-m) * alibi_weights.expression, name="A").substitute({p: counted}),
            general="cope",
            special="alibi",
            condition="s_il = 1 for all i and l, and an embedding that falls linearly with slope m",
            says="The weights are then ALiBi's times exp(-m), which the normalisation cancels.",
        ),
    ],
    facts=[
        Fact(
            "second_difference_of_fox",
            Equal(second_difference(separable), 0),
            says="c_i - c_j has no second difference: what it adds to row i doesn't depend on the key.",
        ),
        Fact(
            "second_difference",
            Equal(second_difference(counts), s[2, 0] - s[1, 0]),
            says="That of p_ij is s_31 - s_21, the difference of two queries' gates for one key.",
        ),
        Fact(
            "is_fox",
            Equal(second_difference(counts), 0),
            expected="refuted",
            says="So p_ij isn't c_i - c_j for any c: FoX's gates can't depend on the query.",
        ),
    ],
    sources=[Source("Contextual Position Encoding", "Golovneva et al. 2024", "arXiv:2405.18719")],
)
