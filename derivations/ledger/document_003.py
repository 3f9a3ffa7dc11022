r"""Document 003: lesson "adv13 - Linear Attention / SSM". Each of its claims, and what decides it.

The lesson replaces softmax(Q K^T) V by phi(Q) (phi(K)^T V), whose middle is a d x d state in the place of an n x n
matrix. A claim is one sentence in our own words, with its line and the ids of the identities and facts that decide it.
What only this lesson needs is decided by the derivation of this file: its numbers, and its code, executed as printed.
"""

import ast
import struct
from collections.abc import Callable
from inspect import signature
from math import exp as float_exp
from types import SimpleNamespace
from typing import Any

from sympy import Function, Integer, Limit, Matrix, Sum, oo, pi, sin, solveset
from sympy import Symbol as Scalar
from sympy import exp as e_to
from sympy import log as ln
from sympy import zeros as zero_matrix

from derivations.language import K, Q, S, Sequence, V, d_k, d_v, dimension, exp, k, n, q, scalar, softmax, t, v
from derivations.language import REALS, Claim, Computed, Counts, Document, Equal, Fact, Finding, HasShape, Printed
from derivations.language import Closed, Derivation, Identity, Ones, Parameter, Rational, Recurrence, State, Symbol
from derivations.language import TokenRows, diag, norm_squared
from derivations import mamba, s4
from derivations.decay import retention_matrix
from derivations.linear_attention import matrix, noncausal_state, recurrence
from derivations.softmax_attention import streaming

# (Q K^T) V and Q (K^T V), with the brackets as they stand; and the state as the lesson writes it, k v^T read by a row
A, KV, R = Sequence("A", n, n), Parameter("KV", d_k, d_v), State("R", d_k, d_v)
scores_first = Closed(A @ V).where(A, Closed(Q @ K.T))
state_first = Closed(Q @ KV).where(KV, Closed(K.T @ V))
in_rows = Recurrence(R, update=R + k @ v.T, readout=R.T @ q)

# the two loops of the non-causal form: all tokens are written, then every query reads the last state
last = Parameter("S_n", d_v, d_k)
two_loops = Closed(Q @ last.T).where(last, recurrence.final())

# one row of softmax attention, without a mask; scale is 1 / sqrt(d)
scale = Symbol("scale")
row = exp(scale * (K @ q))
standard_attention = Closed(softmax(scale * (Q @ K.T)) @ V)
standard_row = TokenRows(V.T @ (row / scalar(Ones(1, n) @ row)))

m = dimension("m")
phi_Q, phi_K = Sequence("phi_Q", n, m), Sequence("phi_K", n, m)
x_times_norm = {q: norm_squared(q) * q, k: norm_squared(k) * k}

# one channel of Mamba, as the lesson writes it
step = exp(mamba.Delta[t] * mamba.a)
linear_system = Recurrence(
    mamba.h, update=diag(step) @ mamba.h + mamba.Delta[t] * mamba.B[t] @ mamba.x[t], readout=mamba.C[t].T @ mamba.h
)

# how many multiplications the two orders take, and how many numbers are kept for the gradients
scores_first_cost, state_first_cost = n**2 * (d_k + d_v), 2 * n * d_k * d_v
loop_keeps, matrix_keeps = n * d_k * d_v + 2 * n * d_k + n * d_v, n**2 + 2 * n * d_k + n * d_v
d = Scalar("d", positive=True)
one_width = {d_k: d, d_v: d}
run_sizes = {n: 16, d_k: 32, d_v: 32}


def scores(tokens: int) -> int:
    """Bytes of the scores of so many tokens in float32, for one head."""
    return 4 * tokens**2


KIB, MIB, GIB, GB = 2**10, 2**20, 2**30, 10**9

PRINTED_WEIGHTS = Matrix(4, 4, [9, 1, 0, 0, 3, 5, 2, 0, 1, 2, 6, 1, 0, 1, 3, 6]) / 10
QUERIES = Matrix(4, 2, [31, -4, 5, 9, -6, 9, -10, 2]) / 10
KEYS = Matrix(4, 2, [12, 0, 5, 9, -11, 9, -21, -13]) / 10
"""Four tokens of width two whose weights are those, rounded to one digit."""


def softmax_of(scores: Matrix) -> Matrix:
    """The softmax of each row, exactly."""
    weights = scores.applyfunc(e_to)
    return Matrix(*scores.shape, lambda i, j: weights[i, j] / sum(weights.row(i)))


def differ(left: Callable[[], Any], right: Callable[[], Any]) -> Computed:
    """Two values or matrices aren't equal."""

    def find() -> Finding:
        one, other = Matrix([left()]), Matrix([right()])
        return Finding(not (one - other).is_zero_matrix, f"{one.tolist()} against {other.tolist()}")

    return Computed(find, "SymPy")


def rows_sum_to_one() -> Finding:
    """Every row of the printed weights is a probability distribution."""
    sums = [sum(PRINTED_WEIGHTS.row(i)) for i in range(4)]
    return Finding(set(sums) == {1} and min(PRINTED_WEIGHTS) >= 0, f"the rows sum to {sums}")


def witness_rounds_to_the_print() -> Finding:
    """The weights of QUERIES and KEYS, rounded to one digit."""
    exact = softmax_of(QUERIES * KEYS.T)
    rounded = exact.applyfunc(lambda weight: Integer(round(10 * weight.evalf(30))) / 10)
    return Finding(rounded == PRINTED_WEIGHTS, f"{exact.evalf(3).tolist()} for q = {QUERIES.tolist()}")


def an_exponential_is_zero() -> Finding:
    """Whether exp(s) = 0 has a real solution."""
    s = Scalar("s", real=True)
    solutions = solveset(e_to(s), s, REALS)
    return Finding(not solutions.is_empty, f"exp(s) = 0 for s in {solutions}")


# the lesson's code, lines 170-174, 180-182 and 228-235
PRINTED_LOOP = """
qf, kf = φ(q), φ(k)
S = zeros(d, d)
for t in range(seq):
    S += outer(kf[t], v[t])
    out[t] = qf[t] @ S
"""
PRINTED_MATRIX = """
qf, kf = φ(q), φ(k)
S = kf.T @ v
out = qf @ S
"""
PRINTED_LAYER = """
class LinearAttentionLayer(nn.Module):
    def __init__(self, d_model):
        self.wq = nn.Linear(d_model, d_model, bias=False)
        self.wk = nn.Linear(d_model, d_model, bias=False)
        self.wv = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        return linear_attention(wq(x), wk(x), wv(x))
"""
INITIALISED_LAYER = PRINTED_LAYER.replace("d_model):\n", "d_model):\n        super().__init__()\n", 1)
CORRECTED_LAYER = INITIALISED_LAYER.replace("(wq(x), wk(x), wv(x))", "(self.wq(x), self.wk(x), self.wv(x))")
CORRECTED_LOOP = PRINTED_LOOP.replace("S += outer", "S = S + outer")


class Rows(list):
    """A matrix whose items are its rows, as a tensor's are."""

    def __init__(self, matrix: Matrix) -> None:
        super().__init__(matrix.row(i) for i in range(matrix.rows))


def outer(one: Matrix, other: Matrix) -> Matrix:
    """The outer product of two rows."""
    return one.T * other


def looped(Q: Matrix, K: Matrix, V: Matrix, feature: Callable[[Any], Any] = lambda entry: entry) -> Matrix:
    """The output of the lesson's loop, for an entrywise feature map."""
    out: dict[int, Matrix] = {}
    given = {"q": Q, "k": K, "v": Rows(V), "φ": lambda x: Rows(x.applyfunc(feature)), "out": out}
    exec(PRINTED_LOOP, {**given, "zeros": zero_matrix, "outer": outer, "d": V.cols, "seq": V.rows})
    return Matrix.vstack(*(out[row] for row in range(V.rows)))


def masked(Q: Matrix, K: Matrix, V: Matrix) -> Matrix:
    """((Q K^T) . M) V."""
    similarities = Q * K.T
    return Matrix(V.rows, V.rows, lambda i, j: similarities[i, j] if i >= j else 0) * V


def of_symbols(name: str) -> Matrix:
    """Three tokens of width two, entries without values."""
    return Matrix(3, 2, lambda i, j: Scalar(f"{name}_{i + 1}{j + 1}"))


def of_numbers(first: int) -> Matrix:
    """Three tokens of width two, small rational numbers."""
    return Matrix(3, 2, lambda i, j: Rational(first + i * i - 2 * j, 1 + i))


TOKENS = tuple(map(of_numbers, (1, 2, 3)))


def loop_is_masked_product() -> Finding:
    """The lesson's loop on symbols, with an undefined feature map."""
    Q, K, V, phi = of_symbols("q"), of_symbols("k"), of_symbols("v"), Function("phi")
    gap = looped(Q, K, V, phi) - masked(Q.applyfunc(phi), K.applyfunc(phi), V)
    return Finding(gap.expand().is_zero_matrix, "out[t] = the sum over j <= t of phi(q_t) phi(k_j)^T v_j, for 3 tokens")


def matrix_code_is_sum_over_all() -> Finding:
    """The lesson's matrix form on symbols, with an undefined feature map."""
    Q, K, V, phi = of_symbols("q"), of_symbols("k"), of_symbols("v"), Function("phi")
    given: dict[str, Any] = {"q": Q, "k": K, "v": V, "φ": lambda x: x.applyfunc(phi)}
    exec(PRINTED_MATRIX, given)
    gap = given["out"] - (Q.applyfunc(phi) * K.applyfunc(phi).T) * V
    return Finding(gap.expand().is_zero_matrix, "out = (phi(Q) phi(K)^T) V, for 3 tokens")


def causal_forms_differ() -> Finding:
    """The loop against the masked product, on numbers."""
    left, right = looped(*TOKENS), masked(*TOKENS)
    return Finding(left != right, f"both {left.tolist()}" if left == right else f"{left - right}")


def rows_differ(rows: list[int]) -> Computed:
    """The loop and (Q K^T) V, which has no mask, differ in each of these rows."""

    def find() -> Finding:
        Q, K, V = TOKENS
        gap = looped(Q, K, V) - Q * K.T * V
        return Finding(all(not gap.row(i).is_zero_matrix for i in rows), f"the differences are {gap.tolist()}")

    return Computed(find, "executed")


def brackets_need_an_entrywise_map() -> Finding:
    """For x -> x |x|^2: is it entrywise, wherever (phi(Q) phi(K)^T) V = phi(Q) (phi(K)^T V)?"""

    def phi(x: Matrix) -> Matrix:
        return Matrix.vstack(*(x.row(i) * x.row(i).dot(x.row(i)) for i in range(x.rows)))

    Q, K, V = TOKENS
    moves = (phi(Q) * phi(K).T) * V == phi(Q) * (phi(K).T * V)
    entrywise = phi(Matrix([[1, 0]]))[0] == phi(Matrix([[1, 1]]))[0]
    return Finding(entrywise or not moves, f"the brackets move: {moves}; the map is entrywise: {entrywise}")


def printed_code_never_divides() -> Finding:
    """Looks for a division, or a call of anything that might divide, in the loop and in the matrix form."""
    nodes = [node for code in (PRINTED_LOOP, PRINTED_MATRIX) for node in ast.walk(ast.parse(code))]
    divisions = sum(isinstance(node, ast.Div) for node in nodes)
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    holds = divisions == 0 and called <= {"φ", "zeros", "outer", "range"}
    return Finding(holds, f"{divisions} divisions; calls of {', '.join(sorted(called))}")


def elu_plus_one(entry: Any) -> Any:
    """elu(x) + 1 with alpha = 1."""
    return entry + 1 if entry > 0 else e_to(entry)


class Module:
    """Of torch.nn.Module, what the layer meets: a module is kept only by one that was initialised."""

    def __init__(self) -> None:
        self.__dict__["modules"] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if "modules" not in self.__dict__:
            raise AttributeError("cannot assign module before Module.__init__() call")
        self.modules[name] = value

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["modules"][name]

    def __call__(self, *inputs: Any) -> Any:
        return self.forward(*inputs)


class Linear(Module):
    """x W^T, with some integers for W."""

    def __init__(self, inputs: int, outputs: int, bias: bool) -> None:
        self.__dict__["weight"] = Matrix(outputs, inputs, lambda i, j: 1 + i - 2 * j)

    def forward(self, x: Matrix) -> Matrix:
        return x * self.weight.T


def layer(code: str) -> Any:
    """The printed layer, made for width two, from its code or a corrected one."""
    given: dict[str, Any] = {"nn": SimpleNamespace(Module=Module, Linear=Linear), "linear_attention": looped}
    exec(code, given)
    return given["LinearAttentionLayer"](2)


def runs(code: str, *inputs: Matrix) -> Computed:
    """The layer can be made, and called with these inputs."""

    def find() -> Finding:
        try:
            output = layer(code)(*inputs)
        except (AttributeError, NameError, TypeError) as error:
            return Finding(False, f"{type(error).__name__}: {error}")
        return Finding(True, f"it returns {output.tolist()}")

    return Computed(find, "executed")


def corrected_layer_is_masked_product() -> Finding:
    """The corrected layer's output, and ((Q K^T) . M) V of its projections."""
    made = layer(CORRECTED_LAYER)
    x = TOKENS[0]
    expected = masked(made.wq(x), made.wk(x), made.wv(x))
    return Finding(made(x) == expected, f"{made(x).tolist()}")


def layer_takes_x_alone() -> Finding:
    """The corrected layer's parameters and projections, and what it returns."""
    made, x = layer(CORRECTED_LAYER), TOKENS[0]
    parameters, output = list(signature(made.forward).parameters), made(x)
    holds = parameters == ["x"] and isinstance(output, Matrix) and output.shape == x.shape and len(made.modules) == 3
    return Finding(
        holds, f"forward({', '.join(parameters)}), projections {', '.join(made.modules)}, one matrix returned"
    )


class Tracked:
    """A state that counts how often it was changed in place; every read that a gradient needs notes the count."""

    def __init__(self, reads: list[tuple["Tracked", int]]) -> None:
        self.version, self.reads = 0, reads

    def __iadd__(self, write: Matrix) -> "Tracked":
        self.version += 1
        return self

    def __add__(self, write: Matrix) -> "Tracked":
        return Tracked(self.reads)

    def __rmatmul__(self, query: Matrix) -> Matrix:
        self.reads.append((self, self.version))
        return query


def has_a_gradient(code: str) -> Computed:
    """After the loop, every state that a product keeps for its gradient is unchanged since that product."""

    def find() -> Finding:
        reads: list[tuple[Tracked, int]] = []
        rows = Rows(TOKENS[0])
        given = {"q": rows, "k": rows, "v": rows, "φ": lambda x: x, "outer": outer, "out": {}, "d": 2, "seq": 3}
        exec(code, {**given, "zeros": lambda *shape: Tracked(reads)})
        versions = ", ".join(f"{seen} of {state.version}" for state, seen in reads)
        unchanged = all(state.version == seen for state, seen in reads)
        return Finding(bool(reads) and unchanged, f"the products read the states' versions {versions}")

    return Computed(find, "executed")


def single(number: float) -> float:
    """The nearest number of float32."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def positive_in_float32() -> Finding:
    """elu(-20) + 1, each operation rounded to float32."""
    value = single(single(single(float_exp(-20)) - 1) + 1)
    return Finding(value > 0, f"exp(-20) = {float_exp(-20):.3g}, elu(-20) + 1 = {value}")


def state_leaves_the_interval(value: Callable[[int], int]) -> Computed:
    """With k = 1, the absolute value of the state exceeds one within a hundred tokens."""

    def find() -> Finding:
        states, state = [], 0
        for token in range(1, 101):
            state += value(token)
            states.append(abs(state))
        return Finding(max(states) > 1, f"the state is at most {max(states)} in absolute value")

    return Computed(find, "executed")


def s4_depends_on_the_token() -> Finding:
    """Whether any matrix of S4's recurrence is a sequence: the inputs U alone should be."""
    kinds = {str(matrix): isinstance(matrix, Sequence) for matrix in s4.recurrence.symbols() if matrix != s4.U}
    return Finding(any(kinds.values()), f"{', '.join(sorted(kinds))}: the same at all tokens")


def at_least(part: Any, whole: Any, share: Any) -> Computed:
    """A part is at least such a share of the whole."""

    def find() -> Finding:
        found = Rational(part, whole)
        return Finding(bool(found >= share), f"{part} / {whole} = {float(found):.3g}")

    return Computed(find, "arithmetic")


statements = Derivation(
    "document_003",
    title="What document 003 claims by itself",
    summary="The numbers, shapes, costs and the code of the lesson on linear attention.",
    forms={},
    identities=[
        Identity(
            "brackets",
            scores_first,
            state_first,
            says="(Q K^T) V = Q (K^T V): a product of matrices may be bracketed either way.",
        ),
        Identity(
            "standard_attention",
            standard_attention,
            standard_row,
            says="Row i of softmax(s Q K^T) V is V^T w, with w_j = exp(s k_j^T q_i) divided by the sum over all j.",
        ),
        Identity(
            "state_in_rows",
            in_rows,
            recurrence,
            matching={R: S.T},
            says="The lesson's state k v^T, read by a row q S, is the transpose of v k^T, read by a column S q.",
        ),
        Identity(
            "two_loops",
            two_loops,
            noncausal_state,
            says="Writing all tokens first and reading the last state with every query is Q (K^T V).",
        ),
        Identity(
            "retention_weights_sum_to_one",
            retention_matrix.substitute({V: Ones(n, d_v)}),
            Closed(Ones(n, d_v)),
            expected="refuted",
            says="RetNet's weights don't sum to one: whatever normalises its output, it isn't Z.",
        ),
        Identity(
            "mamba_is_a_linear_system",
            linear_system,
            mamba.channel,
            says="A channel of Mamba is h_t = A_t h_{t-1} + B_t x_t with the matrix A_t = Diag(exp(Delta_t a)).",
        ),
        Identity(
            "map_of_whole_rows",
            recurrence.substitute(x_times_norm),
            matrix.substitute(x_times_norm),
            says="With phi(x) = x |x|^2, which isn't entrywise, the recurrence is the masked product too.",
        ),
    ],
    facts=[
        Fact("scores_shape", HasShape(Q @ K.T, (n, n)), says="Q K^T is n x n."),
        Fact("state_shape", HasShape(K.T @ V, (d_k, d_v)), says="K^T V is d_k x d_v, whatever n is."),
        Fact("output_shape", HasShape(Q @ (K.T @ V), (n, d_v)), says="Q (K^T V) is n x d_v."),
        Fact(
            "one_width_for_all",
            HasShape(K.T @ Sequence("V", n, d_k), (d_k, d_k)),
            says="With values of the keys' width d the state is d x d.",
        ),
        Fact(
            "any_feature_map_keeps_the_state_square",
            HasShape(phi_K.T @ V, (d_k, d_k)),
            expected="refuted",
            says="For features and values of other widths the state isn't square.",
        ),
        Fact(
            "four_tokens",
            HasShape(Parameter("A", 4, 4) @ Parameter("V", 4, 2), (4, 2)),
            says="A 4 x 4 matrix of weights times values of width two is 4 x 2.",
        ),
        Fact(
            "run_shape_standard",
            HasShape(softmax(Parameter("Q", 16, 32) @ Parameter("K", 16, 32).T) @ Parameter("V", 16, 32), (16, 32)),
            says="Softmax attention of 16 tokens of width 32 is 16 x 32.",
        ),
        Fact(
            "run_shape_linear",
            HasShape(Parameter("Q", 16, 32) @ (Parameter("K", 16, 32).T @ Parameter("V", 16, 32)), (16, 32)),
            says="Linear attention of 16 tokens of width 32 is 16 x 32.",
        ),
        Fact(
            "scores_first_cost",
            Counts(scores_first, "multiplications", scores_first_cost),
            says="(Q K^T) V takes n^2 (d_k + d_v) multiplications.",
        ),
        Fact(
            "scores_first_memory",
            Counts(scores_first, "largest value", n**2),
            says="(Q K^T) V makes n^2 numbers on the way.",
        ),
        Fact(
            "state_first_cost",
            Counts(state_first, "multiplications", state_first_cost),
            says="Q (K^T V) takes 2 n d_k d_v multiplications.",
        ),
        Fact(
            "recurrence_cost",
            Counts(recurrence, "multiplications", 2 * n * d_k * d_v),
            says="The recurrence takes 2 d_k d_v multiplications for each token, however many came before.",
        ),
        Fact(
            "recurrence_memory",
            Counts(recurrence, "largest value", d_k * d_v),
            says="Nothing that the recurrence makes on the way is larger than its state.",
        ),
        Fact(
            "mamba_cost",
            Counts(mamba.recurrence, "multiplications", n * (4 * d_k * d_v + 2 * d_v)),
            says="Mamba takes 4 d_k d_v + 2 d_v multiplications for each token, with d_v channels.",
        ),
        Fact(
            "mamba_state_is_square",
            HasShape(mamba.recurrence.final(), (d_k, d_k)),
            expected="refuted",
            says="Mamba's state has a row for each channel, and isn't square in general.",
        ),
        Fact(
            "s4_depends_on_the_token",
            Computed(s4_depends_on_the_token, "reading"),
            expected="refuted",
            says="S4's A, B and C are the same for all tokens.",
        ),
        Fact(
            "gain",
            Equal((scores_first_cost / state_first_cost).subs(one_width), n / d),
            says="With one width d, Q (K^T V) takes n / d times fewer multiplications: it gains where n > d.",
        ),
        Fact(
            "loss_at_the_run_size",
            Equal((state_first_cost / scores_first_cost).subs(run_sizes), 2),
            says="At the lesson's own size, 16 tokens of width 32, it takes twice as many.",
        ),
        Fact(
            "streaming_softmax_needs_n_squared",
            Counts(streaming, "largest value", n**2),
            expected="refuted",
            says="Softmax attention taken up token by token never has n^2 numbers at once.",
        ),
        Fact(
            "loop_keeps_states",
            Counts(recurrence, "saved for backward", loop_keeps),
            says="For its gradients the loop keeps every state: n d_k d_v + 2 n d_k + n d_v numbers.",
        ),
        Fact(
            "loop_keeps_one_state",
            Counts(recurrence, "saved for backward", d_k * d_v),
            expected="refuted",
            says="For its gradients one state isn't enough.",
        ),
        Fact(
            "matrix_form_keeps",
            Counts(matrix, "saved for backward", matrix_keeps),
            says="For its gradients the masked product keeps n^2 + 2 n d_k + n d_v numbers.",
        ),
        Fact(
            "loop_keeps_more_below",
            Equal((loop_keeps - matrix_keeps).subs(one_width), n * (d**2 - n)),
            says="With one width d, the loop keeps more than the masked product until n = d^2.",
        ),
        Fact(
            "scores_1k",
            Printed(Rational(scores(KIB), MIB), "4", "MiB"),
            says="1024^2 scores in float32, 1024^2 B = 1 MiB.",
        ),
        Fact(
            "scores_4k", Printed(Rational(scores(4 * KIB), MIB), "64", "MiB"), says="4096^2 scores in float32, in MiB."
        ),
        Fact(
            "scores_16k",
            Printed(Rational(scores(16 * KIB), GIB), "1", "GiB"),
            says="16384^2 scores in float32, 1024^3 B = 1 GiB.",
        ),
        Fact(
            "scores_32k",
            Printed(Rational(scores(32 * KIB), GIB), "4", "GiB"),
            says="32768^2 scores in float32, in GiB.",
        ),
        Fact(
            "scores_32k_strain_80_gb",
            at_least(scores(32 * KIB), 80 * GB, Rational(1, 2)),
            expected="refuted",
            says="The scores of 32768 tokens take far less than half of 80 GB.",
        ),
        Fact(
            "share_of_80_gb",
            Printed(Rational(100 * scores(32 * KIB), 80 * GB), "5.4", "%"),
            says="The scores of 32768 tokens take 5.4 % of 80 GB (10^9 B each).",
        ),
        Fact(
            "nineteen_heads_fill_80_gb",
            at_least(19 * scores(32 * KIB), 80 * GB, 1),
            says="It takes 19 heads (times batch) to fill 80 GB with them.",
        ),
        Fact(
            "pairs_of_128k",
            Printed(Rational(128000**2, 10**9), "16", "10^9"),
            says="With K = 1000, 128K x 128K is 16 * 10^9 to two digits (16.384 * 10^9).",
        ),
        Fact(
            "pairs_of_128_ki",
            Printed(Rational((128 * KIB) ** 2, 10**9), "16", "10^9"),
            expected="refuted",
            says="With K = 1024, as in the lesson's table, 128K x 128K isn't 16 * 10^9, but 17.18 * 10^9.",
        ),
        Fact("state_of_128", Printed(Rational(128**2, KIB), "16", "Ki"), says="128 x 128 numbers, in units of 1024."),
        Fact(
            "printed_rows_sum_to_one",
            Computed(rows_sum_to_one, "arithmetic"),
            says="Each row of the 4 x 4 example sums to one, and no entry is negative.",
        ),
        Fact(
            "weights_may_be_zero",
            Computed(an_exponential_is_zero, "SymPy"),
            expected="refuted",
            says="No weight of softmax attention is zero exactly.",
        ),
        Fact(
            "printed_weights_after_rounding",
            Computed(witness_rounds_to_the_print, "30 digits"),
            says="Some queries and keys of width two have the printed weights, rounded to one digit.",
        ),
        Fact(
            "sine_of_a_sum",
            differ(lambda: sin(pi / 2 + pi / 2), lambda: sin(pi / 2) + sin(pi / 2)),
            says="sin(a + b) and sin a + sin b differ at a = b = pi / 2.",
        ),
        Fact(
            "softmax_reassociated_differs",
            differ(
                lambda: softmax_of(Matrix([ln(2), 0]) * Matrix([[1, 0]])) * Matrix([1, 0]),
                lambda: Matrix([ln(2), 0]) * (softmax_of(Matrix([[1, 0]])) * Matrix([1, 0])),
            ),
            says="softmax(Q K^T) V and Q softmax(K^T) V differ for q = (ln 2, 0), k = v = (1, 0).",
        ),
        Fact(
            "weight_without_normaliser",
            differ(
                lambda: softmax_of(zero_matrix(2, 2)),
                lambda: zero_matrix(2, 1).applyfunc(elu_plus_one) * zero_matrix(1, 2).applyfunc(elu_plus_one),
            ),
            says="For q = k = 0 and two tokens, softmax weighs 1/2 and elu + 1 without normaliser weighs 1.",
        ),
        Fact(
            "weight_is_the_product",
            Equal(1 / Sum(elu_plus_one(Integer(0)) ** 2, (Scalar("j"), 1, 2)), elu_plus_one(Integer(0)) ** 2),
            expected="refuted",
            says="For q = k = 0 and two tokens phi(q)^T phi(k) = 1, and its share of the row's sum is 1/2.",
        ),
        Fact(
            "brackets_need_an_entrywise_map",
            Computed(brackets_need_an_entrywise_map, "executed"),
            expected="refuted",
            says="The brackets can be moved for phi(x) = x |x|^2, which isn't entrywise.",
        ),
        Fact(
            "loop_is_masked_product",
            Computed(loop_is_masked_product, "executed"),
            says="The lesson's loop, executed, gives ((phi(Q) phi(K)^T) . M) V.",
        ),
        Fact(
            "matrix_code_is_sum_over_all",
            Computed(matrix_code_is_sum_over_all, "executed"),
            says="The lesson's matrix form, executed, gives (phi(Q) phi(K)^T) V.",
        ),
        Fact(
            "printed_code_never_divides",
            Computed(printed_code_never_divides, "reading"),
            says="Neither the lesson's loop nor its matrix form divides, or calls what might.",
        ),
        Fact(
            "outputs_for_values_of_one",
            differ(lambda: looped(TOKENS[0], TOKENS[1], Matrix.ones(3, 2), elu_plus_one), lambda: Matrix.ones(3, 2)),
            says="Values that are all one don't come back as one: no row of weights is divided by its sum.",
        ),
        Fact(
            "causal_forms_differ",
            Computed(causal_forms_differ, "executed"),
            expected="refuted",
            says="In causal mode the loop and the masked product are equal.",
        ),
        Fact(
            "earlier_rows_differ",
            rows_differ([0, 1]),
            says="The causal loop and the full matrix differ in every row before the last.",
        ),
        Fact(
            "last_row_differs",
            rows_differ([2]),
            expected="refuted",
            says="Their last rows are equal.",
        ),
        Fact(
            "constant_writes",
            Equal(Limit(Sum(1, (Scalar("j"), 1, n)).doit(), n, oo), oo),
            says="With k = v = 1 at every token the state grows without bound.",
        ),
        Fact(
            "alternating_writes_grow",
            state_leaves_the_interval(lambda token: -((-1) ** token)),
            expected="refuted",
            says="With k = 1 and v = 1, -1, 1, ... the state never exceeds one.",
        ),
        Fact(
            "positive_in_float32",
            Computed(positive_in_float32, "rounding"),
            expected="refuted",
            says="In float32 elu(-20) + 1 is zero.",
        ),
        Fact(
            "layer_can_be_made",
            runs(PRINTED_LAYER, TOKENS[0]),
            expected="refuted",
            says="The printed layer can't be made: it doesn't call super().__init__().",
        ),
        Fact(
            "initialised_layer_runs",
            runs(INITIALISED_LAYER, TOKENS[0]),
            expected="refuted",
            says="With super().__init__() it still doesn't run: wq lacks its self.",
        ),
        Fact(
            "loop_has_a_gradient",
            has_a_gradient(PRINTED_LOOP),
            expected="refuted",
            says="S += ... changes in place what the products before need for their gradients.",
        ),
        Fact(
            "corrected_layer",
            Computed(corrected_layer_is_masked_product, "executed"),
            says="With super().__init__() and self.wq the layer runs, and is the masked product of its projections.",
        ),
        Fact(
            "corrected_loop",
            has_a_gradient(CORRECTED_LOOP),
            says="With S = S + outer(...) every product keeps a state of its own.",
        ),
        Fact(
            "layer_takes_query_key_value",
            runs(CORRECTED_LAYER, *TOKENS),
            expected="refuted",
            says="The layer can't be called with query, key and value, as multi-head attention is.",
        ),
        Fact(
            "layer_takes_x_alone",
            Computed(layer_takes_x_alone, "executed"),
            says="The corrected layer takes x, has three projections and none for the output, and returns a matrix.",
        ),
    ],
)

document = Document(
    "document_003",
    "Lesson adv13: linear attention and state space models",
    claims=[
        Claim(
            "S3-01",
            "Softmax attention needs memory that is quadratic in the length.",
            "lines 5 and 16",
            "holds under assumptions",
            by="softmax_attention.largest_matrix",
            only_if={"the n x n weights are stored": "document_003.streaming_softmax_needs_n_squared"},
        ),
        Claim(
            "S3-02",
            "Linear attention is linear in the length.",
            "line 14",
            "holds",
            by=("document_003.recurrence_cost", "document_003.state_first_cost"),
            note="with d_k and d_v fixed",
        ),
        Claim(
            "S3-03",
            "Q K^T is n x n, and that is where the quadratic cost comes from.",
            "line 16",
            "holds",
            by=("document_003.scores_shape", "document_003.scores_first_cost"),
        ),
        Claim(
            "S3-04",
            "Associativity turns (Q K^T) V into Q (K^T V).",
            "lines 18 and 47",
            "holds under assumptions",
            by="document_003.brackets",
            only_if={
                "there is no softmax": "softmax_attention.softmax_reassociated",
                "there is no mask": "linear_attention.causal_is_noncausal",
            },
        ),
        Claim(
            "S3-05",
            "For n much larger than d, compute and memory drop a lot.",
            "line 18",
            "holds",
            by=(
                "document_003.gain",
                "document_003.scores_first_cost",
                "document_003.state_first_cost",
                "document_003.scores_first_memory",
                "document_003.state_shape",
            ),
            note="there is a gain from n > d on",
        ),
        Claim(
            "S3-06",
            "The diagram's shapes: n x n scores, a d x d state, n x d outputs.",
            "lines 20-24",
            "holds",
            by=("document_003.scores_shape", "document_003.one_width_for_all", "document_003.output_shape"),
        ),
        Claim(
            "S3-07",
            "As a recurrence, inference costs d^2 for each step.",
            "line 26",
            "holds",
            by="document_003.recurrence_cost",
        ),
        Claim(
            "S3-08",
            "Softmax attention costs n d for each step of inference.",
            "line 26",
            "holds",
            by="softmax_attention.next_token",
            note="with all keys and values kept",
        ),
        Claim("S3-09", "The scores are n x n.", "line 32", "holds", by="document_003.scores_shape"),
        Claim(
            "S3-10",
            "Its memory grows with the square of the length.",
            "line 36",
            "holds",
            by="softmax_attention.largest_matrix",
            note="as printed, with the weights stored",
        ),
        Claim("S3-11", "1K tokens: 4 MB of float32 scores.", "line 38", "holds", by="document_003.scores_1k"),
        Claim("S3-12", "4K tokens: 64 MB.", "line 39", "holds", by="document_003.scores_4k"),
        Claim("S3-13", "16K tokens: 1 GB.", "line 40", "holds", by="document_003.scores_16k"),
        Claim(
            "S3-14",
            "32K tokens: 4 GB.",
            "line 41",
            "holds",
            by="document_003.scores_32k",
            note="all four for one head of one sequence",
        ),
        Claim(
            "S3-15",
            "That already strains an A100 with 80 GB.",
            "line 41",
            "refuted",
            by=("document_003.share_of_80_gb", "document_003.nineteen_heads_fill_80_gb"),
            false="document_003.scores_32k_strain_80_gb",
        ),
        Claim(
            "S3-16",
            "At 128K tokens the quadratic cost is unbearable.",
            "line 43",
            "empirical",
            would_decide="a run at 128K tokens on a given device; kernels that store no scores exist",
        ),
        Claim(
            "S3-17",
            "Other brackets make the quadratic cost linear.",
            "line 47",
            "holds under assumptions",
            by=("document_003.brackets", "document_003.scores_first_cost", "document_003.state_first_cost"),
            only_if={
                "there is no softmax": "softmax_attention.softmax_reassociated",
                "there is no mask": "linear_attention.causal_is_noncausal",
            },
        ),
        Claim(
            "S3-18",
            "Output i is the sum of the values v_j with the weights (i, j).",
            "line 55",
            "holds",
            by="document_003.standard_attention",
        ),
        Claim(
            "S3-19",
            "The weight (i, j) is proportional to exp(q_i . k_j).",
            "line 57",
            "holds",
            by="document_003.standard_attention",
            note="here with the scale one; lines 32 and 123 have 1 / sqrt(d)",
        ),
        Claim(
            "S3-20",
            "Each printed row is a probability distribution.",
            "lines 61-65",
            "holds",
            by="document_003.printed_rows_sum_to_one",
        ),
        Claim(
            "S3-21",
            "Some of the printed weights are 0.0.",
            "lines 62-65",
            "holds under assumptions",
            by="document_003.printed_weights_after_rounding",
            only_if={"the weights are rounded to one digit": "document_003.weights_may_be_zero"},
        ),
        Claim("S3-22", "[4, 4] times [4, 2] is [4, 2].", "line 67", "holds", by="document_003.four_tokens"),
        Claim(
            "S3-23",
            "128K x 128K is 16 billion numbers.",
            "line 69",
            "holds under assumptions",
            by="document_003.pairs_of_128k",
            only_if={"K is 1000": "document_003.pairs_of_128_ki"},
        ),
        Claim(
            "S3-24",
            "Matrix multiplication is associative.",
            "line 71",
            "holds",
            by="document_003.brackets",
            note="of exact numbers; floats round",
        ),
        Claim(
            "S3-25",
            "K^T V is d x d, and Q times it n x d: no n x n matrix is made.",
            "line 73",
            "holds",
            by=("document_003.one_width_for_all", "document_003.output_shape", "document_003.brackets"),
        ),
        Claim("S3-26", "128 x 128 is 16K numbers.", "line 79", "holds", by="document_003.state_of_128"),
        Claim(
            "S3-27",
            "The softmax destroys associativity.",
            "line 81",
            "holds",
            by="softmax_attention.softmax_has_full_rank",
            note="its matrix isn't a product through width d",
        ),
        Claim(
            "S3-28",
            "sin(a + b) can't be split into sin a + sin b.",
            "line 83",
            "holds",
            by="document_003.sine_of_a_sum",
        ),
        Claim(
            "S3-29",
            "softmax(Q K^T) V isn't Q softmax(K^T) V.",
            "line 85",
            "holds",
            by="document_003.softmax_reassociated_differs",
        ),
        Claim(
            "S3-30",
            "That phi is entrywise is what keeps the inner products, so that associativity can be used.",
            "lines 89 and 99",
            "refuted",
            by="document_003.map_of_whole_rows",
            false="document_003.brackets_need_an_entrywise_map",
            note="any map of rows does; the weight has to be an inner product of features of q and of k",
        ),
        Claim(
            "S3-31",
            "The weight (i, j) is the inner product of phi(q_i) and phi(k_j).",
            "line 91",
            "holds",
            by=("linear_attention.noncausal_is_component_sum", "document_003.matrix_code_is_sum_over_all"),
        ),
        Claim(
            "S3-32",
            "The sum over j moves inside: phi(q_i)^T S with S the sum of phi(k_j) v_j^T.",
            "lines 95-97",
            "holds",
            by=("linear_attention.noncausal_is_component_sum", "document_003.two_loops"),
        ),
        Claim(
            "S3-33",
            "S is d x d.",
            "line 97",
            "holds under assumptions",
            by="document_003.one_width_for_all",
            only_if={"phi and the values have width d": "document_003.any_feature_map_keeps_the_state_square"},
        ),
        Claim(
            "S3-34",
            "In the causal form S_t is S_{t-1} plus token t, and the answer is q_t S_t.",
            "lines 103-113",
            "holds",
            by=("linear_attention.recurrent_is_component_sum", "document_003.state_in_rows"),
        ),
        Claim(
            "S3-35",
            "So that a step of inference costs d^2, not n d.",
            "line 116",
            "holds",
            by=("document_003.recurrence_cost", "softmax_attention.next_token"),
        ),
        Claim(
            "S3-36",
            "A_ij is exp(q_i . k_j / sqrt(d)) / Z_i, Z_i the sum of these over j.",
            "line 123",
            "holds",
            by="document_003.standard_attention",
        ),
        Claim(
            "S3-37",
            "elu + 1 is a feature map without negative values.",
            "line 127",
            "holds under assumptions",
            by=("feature_maps.elu_above_zero", "feature_maps.elu_is_positive"),
            only_if={"alpha <= 1": "feature_maps.elu_is_positive_for_alpha_two"},
        ),
        Claim(
            "S3-38",
            "A_ij is approximately phi(q_i)^T phi(k_j).",
            "line 127",
            "refuted",
            by=("feature_maps.weights_sum_to_one", "document_003.weight_without_normaliser"),
            false=("feature_maps.normaliser_left_out_of_A", "document_003.weight_is_the_product"),
            note="what is missing is the division by the sum of phi(q_i)^T phi(k_j) over j",
        ),
        Claim(
            "S3-39",
            "The sum of phi(q_i)^T phi(k_j) v_j is phi(q_i)^T times the sum of phi(k_j) v_j^T.",
            "line 128",
            "holds",
            by="linear_attention.noncausal_is_component_sum",
        ),
        Claim(
            "S3-40",
            "S_t = S_{t-1} + outer(phi(k_t), v_t) and o_t = phi(q_t) S_t.",
            "lines 143-144",
            "holds",
            by=("document_003.state_in_rows", "linear_attention.recurrent_is_matrix"),
        ),
        Claim(
            "S3-41",
            "All of a sequence costs n d^2, against n^2 d.",
            "line 146",
            "holds",
            by=("document_003.recurrence_cost", "softmax_attention.multiplications"),
        ),
        Claim(
            "S3-42",
            "The table's times: n^2 d for standard attention, n d^2 for linear attention.",
            "lines 151-154",
            "holds",
            by=("softmax_attention.multiplications", "document_003.recurrence_cost"),
        ),
        Claim(
            "S3-43",
            "The memory that matters in linear attention is the d x d state.",
            "lines 151-154",
            "holds under assumptions",
            by=(
                "document_003.recurrence_memory",
                "document_003.loop_keeps_states",
                "document_003.matrix_form_keeps",
                "document_003.loop_keeps_more_below",
            ),
            only_if={"no gradient is taken": "document_003.loop_keeps_one_state"},
            note="the loop keeps every state for its gradient, the masked product n^2 numbers: more from n = d^2 on",
        ),
        Claim(
            "S3-44",
            "For n much larger than d, linear attention saves a lot of memory and compute.",
            "line 157",
            "holds",
            by=("document_003.gain", "document_003.recurrence_memory", "document_003.loss_at_the_run_size"),
            note="at the lesson's own size, n = 16 and d = 32, it costs twice as much",
        ),
        Claim(
            "S3-45",
            "Standard attention is softmax(q k^T / sqrt(d)) v.",
            "lines 165-166",
            "holds",
            by="document_003.standard_attention",
        ),
        Claim(
            "S3-46",
            "The printed loop is the causal recurrence.",
            "lines 170-174",
            "holds",
            by=("document_003.loop_is_masked_product", "linear_attention.recurrent_is_matrix"),
        ),
        Claim(
            "S3-47",
            "S = phi(K)^T V, then phi(Q) S, is the non-causal form.",
            "lines 180-182",
            "holds",
            by=("document_003.matrix_code_is_sum_over_all", "linear_attention.noncausal_is_component_sum"),
        ),
        Claim(
            "S3-48",
            "It is strictly equal to the non-causal recurrence.",
            "line 184",
            "holds",
            by="document_003.two_loops",
            note="in exact numbers; floats round",
        ),
        Claim(
            "S3-49",
            "Linear and standard attention give different numbers.",
            "line 186",
            "holds",
            by=("document_003.outputs_for_values_of_one", "document_003.weight_without_normaliser"),
        ),
        Claim(
            "S3-50",
            "elu(x) + 1 approximates exp(x).",
            "line 188",
            "refuted",
            by=("feature_maps.the_exponential_outgrows_it", "feature_maps.product_below_zero"),
            false="feature_maps.approximates_the_exponential",
            note="for x < 0 it is exp(x); there the product of two features is exp(q + k), not exp(q k)",
        ),
        Claim(
            "S3-51",
            "Softmax's normaliser Z is missing.",
            "line 188",
            "holds",
            by=("document_003.printed_code_never_divides", "document_003.outputs_for_values_of_one"),
        ),
        Claim(
            "S3-52",
            "The outputs have the same shape and a similar meaning.",
            "line 189",
            "empirical",
            would_decide="a measure of similar meaning, on a trained model; the shapes are the same",
        ),
        Claim(
            "S3-53",
            "Real systems such as RetNet and GLA add a normaliser.",
            "line 190",
            "holds under assumptions",
            by=("transnormer.mean_square_is_one", "transnormer.denominator_cancels"),
            only_if={"a norm of the output is meant, not Z": "document_003.retention_weights_sum_to_one"},
            note="RetNet's GroupNorm and GLA's RMSNorm see one output at a time; Z would have no effect before them",
        ),
        Claim(
            "S3-54",
            "What matters is that phi isn't negative and the weight an inner product, not that exp is approximated.",
            "line 196",
            "holds under assumptions",
            by=("feature_maps.recurrent_is_matrix", "feature_maps.weights_sum_to_one"),
            only_if={"no row of similarities is all zero": "feature_maps.nonnegative_features_can_be_normalised"},
            note="for the recurrence the inner product suffices; nonnegative weights keep outputs in the values' hull",
        ),
        Claim(
            "S3-55",
            "phi(x) >= 0, as exp(x) > 0.",
            "line 201",
            "holds under assumptions",
            by=("feature_maps.elu_above_zero", "feature_maps.elu_is_positive"),
            only_if={
                "alpha <= 1": "feature_maps.elu_is_positive_for_alpha_two",
                "nothing is rounded": "document_003.positive_in_float32",
            },
        ),
        Claim("S3-56", "elu(x) + 1 = x + 1 for x > 0.", "line 205", "holds", by="feature_maps.elu_above_zero"),
        Claim(
            "S3-57",
            "elu(x) + 1 is about alpha exp(x) + 1 for x < 0.",
            "line 206",
            "refuted",
            by="feature_maps.elu_below_zero_with_alpha",
            false="feature_maps.elu_below_zero_as_printed",
            note="off by alpha, everywhere",
        ),
        Claim(
            "S3-58",
            "It tends to a positive value there.",
            "line 206",
            "refuted",
            by="feature_maps.elu_far_below_zero",
            false="feature_maps.elu_tends_to_a_positive_value",
        ),
        Claim(
            "S3-59",
            "elu + 1 guarantees that no feature is negative.",
            "line 208",
            "holds under assumptions",
            by=("feature_maps.elu_above_zero", "feature_maps.elu_is_positive"),
            only_if={"alpha <= 1": "feature_maps.elu_is_positive_for_alpha_two"},
        ),
        Claim(
            "S3-60",
            "It isn't the softmax: there is no denominator Z.",
            "line 208",
            "holds",
            by=("document_003.outputs_for_values_of_one", "document_003.weight_without_normaliser"),
        ),
        Claim(
            "S3-61",
            "Without normalisation the state grows with the length, and the outputs explode.",
            "line 214",
            "holds under assumptions",
            by="document_003.constant_writes",
            only_if={"the writes don't cancel": "document_003.alternating_writes_grow"},
        ),
        Claim(
            "S3-62",
            "RetNet's decay factor is gamma^t.",
            "line 216",
            "refuted",
            by=("decay.retention_is_component_sum", "decay.retention_is_matrix"),
            false="decay.retention_with_power_of_t",
            note="a step's factor is gamma, as the formula beside it has it; gamma^(t-j) is what accumulates",
        ),
        Claim(
            "S3-63",
            "GLA's gates control what is forgotten.",
            "line 217",
            "holds",
            by=("gla.gate_of_the_whole_state", "gla.final_state", "gla.sigmoid_is_never_zero"),
        ),
        Claim(
            "S3-64",
            "Layer normalisation of the output controls its magnitude.",
            "line 218",
            "holds under assumptions",
            by=("transnormer.mean_square_is_one", "transnormer.scale_cancels"),
            only_if={
                "epsilon is zero": "transnormer.scale_cancels_with_epsilon",
                "factors are positive": "transnormer.negative_scale_cancels",
            },
        ),
        Claim(
            "S3-65",
            "The recurrent and the matrix form are equal in the non-causal mode only.",
            "line 224",
            "refuted",
            by="linear_attention.recurrent_is_matrix",
            false="document_003.causal_forms_differ",
            note="they are equal where both have the same mask",
        ),
        Claim(
            "S3-66",
            "The causal recurrence and the full matrix form differ.",
            "line 224",
            "holds under assumptions",
            by="document_003.earlier_rows_differ",
            only_if={"in a row before the last": "document_003.last_row_differs"},
            note="the last token sees all others in both",
        ),
        Claim(
            "S3-67",
            "The printed LinearAttentionLayer works.",
            "lines 228-235",
            "refuted",
            by=("document_003.corrected_layer", "document_003.corrected_loop"),
            false=(
                "document_003.layer_can_be_made",
                "document_003.initialised_layer_runs",
                "document_003.loop_has_a_gradient",
            ),
        ),
        Claim(
            "S3-68",
            "It can replace a Transformer's multi-head attention as it is.",
            "line 237",
            "refuted",
            by="document_003.layer_takes_x_alone",
            false="document_003.layer_takes_query_key_value",
        ),
        Claim(
            "S3-69",
            "Performer approximates exp by random features.",
            "line 245",
            "holds",
            by=("random_features.positive_features_are_unbiased", "random_features.positive_features_of_vectors"),
        ),
        Claim(
            "S3-70",
            "RetNet is causal and decays by gamma.",
            "line 246",
            "holds",
            by=("decay.retention_is_component_sum", "decay.retention_is_matrix"),
        ),
        Claim(
            "S3-71",
            "GLA is unified with state space models.",
            "line 247",
            "empirical",
            would_decide="an agreed taxonomy",
        ),
        Claim(
            "S3-72",
            "RWKV decays exponentially and runs as an RNN.",
            "line 248",
            "holds",
            by=("rwkv4.recurrent_is_component_sum", "rwkv4.recurrent_is_matrix"),
        ),
        Claim(
            "S3-73",
            "Both families are recurrences that are linear in the length.",
            "line 252",
            "holds",
            by=("document_003.recurrence_cost", "document_003.mamba_cost"),
        ),
        Claim(
            "S3-74",
            "Linear attention forgets nothing: its state is a plain sum.",
            "lines 255 and 264",
            "holds under assumptions",
            by="linear_attention.recurrent_is_component_sum",
            only_if={"it has no gate": "decay.gates_left_out"},
        ),
        Claim(
            "S3-75",
            "Mamba (S4, SSM) is h_t = A_t h_{t-1} + B_t x_t, with A_t depending on the input.",
            "lines 258-260",
            "holds under assumptions",
            by=("document_003.mamba_is_a_linear_system", "mamba.inputs_of_each_token"),
            only_if={"it is Mamba, not S4": "document_003.s4_depends_on_the_token"},
            note="A_t = exp(Delta_t A); S4 is the same for all tokens",
        ),
        Claim(
            "S3-76",
            "Mamba's A, B and C are generated from the input.",
            "line 263",
            "refuted",
            by=("mamba.inputs_of_each_token", "document_003.mamba_is_a_linear_system"),
            false="mamba.A_of_each_token",
            note="A is a parameter; exp(Delta_t A) depends on the input through Delta_t",
        ),
        Claim(
            "S3-77",
            "Mamba trains by a parallel scan, and infers as an RNN with constant cost for each step.",
            "line 265",
            "holds",
            by=(
                "rg_lru.recurrent_is_associative_scan",
                "deltanet.scan_operator_is_associative",
                "document_003.mamba_cost",
            ),
        ),
        Claim(
            "S3-78",
            "The family has in common inference linear in the length and a d x d state.",
            "line 277",
            "holds under assumptions",
            by=("document_003.recurrence_cost", "document_003.one_width_for_all"),
            only_if={"it isn't Mamba, with d_k entries for each channel": "document_003.mamba_state_is_square"},
        ),
        Claim(
            "S3-79",
            "Both outputs are 16 x 32.",
            "line 286",
            "holds",
            by=("document_003.run_shape_standard", "document_003.run_shape_linear"),
        ),
        Claim(
            "S3-80",
            "The two non-causal forms differ by about 1e-7 at most.",
            "line 288",
            "empirical",
            would_decide="runs of the lesson's script with a stated seed; normal inputs in float32 give about 6e-5",
        ),
        Claim(
            "S3-81",
            "They agree to atol = 1e-5.",
            "line 289",
            "empirical",
            would_decide="runs with many seeds, the relative tolerance stated",
        ),
    ],
)
