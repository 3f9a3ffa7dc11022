r"""TTT-Linear: the state is trained by mini-batch gradient descent on |S k_t - v_t|^2 / 2 while tokens come in.

Sun et al. 2024 (arXiv 2407.04620), where S is W. Within a mini-batch all gradients are taken at its first state S_0:

    S_t = S_0 - sum_{s<=t} eta_s (S_0 k_s - v_s) k_s^T,   o_t = S_t q_t

and all at once, in the dual form:

    O = Q S_0^T - ((Q K^T) . M) D_eta (K S_0^T - V)

One batch of everything from S_0 = 0 with eta = 1 is linear attention, batches of one token are DeltaNet. In the paper
the loss has a layer norm in it, whose gradient is among the facts.
"""

from collections.abc import Callable

from sympy import Expr, Poly, Symbol, fraction, symbols, together

from derivations.deltanet import recurrence as deltanet_recurrence
from derivations.language import K, M, Parameter, Q, S, V, d_k, d_v, eta, eye, j, k, q, t, v
from derivations.language import Chunkwise, Closed, Computed, Derivation, Fact, Finding
from derivations.language import Gate, Identity, Ones, Recurrence
from derivations.language import Source, TokenRows, TokenSum, derivative, diag, trace

# one mini-batch from the state S_0: token by token with the gradients at S_0, and at once
S_0 = Parameter("S_0", d_v, d_k)
primal = Recurrence(S, update=S - eta[t] * (S_0 @ k - v) @ k.T, readout=S @ q, initial=S_0)
errors = K @ S.T - V
scores = (Q @ K.T).hadamard(M)
first_errors = K @ S_0.T - V
dual = Closed(Q @ S_0.T - scores @ diag(eta) @ first_errors)
batch_step = Closed(S_0 - first_errors.T @ diag(eta) @ K, name="S_n")

# mini-batches are blocks
chunkwise = Chunkwise(S, update=S - errors.T @ diag(eta) @ K, readout=Q @ S.T - scores @ diag(eta) @ errors)
affine = Chunkwise(
    S,
    update=S @ (eye(d_k) - K.T @ diag(eta) @ K) + V.T @ diag(eta) @ K,
    readout=(Q - scores @ diag(eta) @ K) @ S.T + scores @ diag(eta) @ V,
)

# the gradient of the batch's loss at S_0, by its product with every direction
E = Parameter("E", d_v, d_k)
batch_loss = trace((K @ S.T - V) @ (K @ S.T - V).T) / 2
slope = Closed(derivative(batch_loss, S, along=E) * Ones(1, 1), name="slope").substitute({S: S_0})
slope_of_gradient = Closed(trace(E.T @ first_errors.T @ K) * Ones(1, 1), name="slope")

# the rate on the row of a query or on the column of a gradient: sum_s eta_s (...), eta_t sum_s (...), the code's both
rate_of_query, rate_of_token = Gate("r"), Gate("c")
code = Closed(Q @ S_0.T - (rate_of_query @ rate_of_token.T).hadamard(scores) @ first_errors)
code_primal = TokenRows(
    S_0 @ q - rate_of_query[t] * TokenSum(rate_of_token[j] * (S_0 @ K[j] - V[j]) @ (K[j].T @ q), j, 1, t)
)
row_rates = Closed(Q @ S_0.T - diag(eta) @ scores @ first_errors)

# the dual form of a mini-batch of one token, which is DeltaNet
one_token = Recurrence(
    S, update=S - eta[t] * (S @ k - v) @ k.T, readout=S @ q - eta[t] * (S @ k - v) @ (k.T @ q), read="before"
)


Entries = list[Expr]


def layer_norm_gradient(width: int, claimed: Callable[[Entries, Entries, Expr], Entries]) -> Computed:
    """A check of the gradient in x of |w . x^ + b - v|^2 / 2, x^ = (x - mean) / sigma, against SymPy's derivative.

    `claimed` gets g = (w . x^ + b - v) . w, x^ and sigma. sigma is a symbol, everything a quotient of polynomials,
    reduced by sigma^2 = the variance.
    """

    def find() -> Finding:
        x, w, b, v = (symbols(f"{name}_1:{width + 1}") for name in "xwbv")
        sigma = Symbol("sigma", positive=True)
        mean = sum(x) / width
        variance = Poly(sigma**2 - sum((a - mean) ** 2 for a in x) / width, sigma)
        normed = [(a - mean) / sigma for a in x]
        errors = [scale * a + shift - target for scale, a, shift, target in zip(w, normed, b, v, strict=True)]
        loss = sum(error**2 for error in errors) / 2
        others = claimed([error * scale for error, scale in zip(errors, w, strict=True)], normed, sigma)
        for entry, a, other in zip(x, normed, others, strict=True):
            own = loss.diff(entry) + loss.diff(sigma) * a / width  # sigma has the derivative x^ / width
            numerator, _ = fraction(together(own - other))
            if not Poly(numerator, sigma).rem(variance).is_zero:
                return Finding(False, f"the entry of {entry} differs")
        return Finding(True, f"all {width} entries agree")

    return Computed(find, "SymPy")


def layer_norm_backward(g: Entries, normed: Entries, sigma: Expr) -> Entries:
    """(D g - sum g - x^ (x^ . g)) / (D sigma)."""
    along = sum(a * c for a, c in zip(normed, g, strict=True))
    return [(len(g) * c - sum(g) - a * along) / (len(g) * sigma) for a, c in zip(normed, g, strict=True)]


def without_brackets(g: Entries, normed: Entries, sigma: Expr) -> Entries:
    """D g - (sum g) / (D sigma) - x^ (x^ . g) / (D sigma)."""
    along, scale = sum(a * c for a, c in zip(normed, g, strict=True)), len(g) * sigma
    return [len(g) * c - sum(g) / scale - a * along / scale for a, c in zip(normed, g, strict=True)]


ttt_linear = Derivation(
    "ttt_linear",
    title="TTT-Linear",
    summary="The state as a linear model, trained on keys and values by mini-batch gradient descent.",
    forms={"primal": primal, "dual": dual, "chunkwise": chunkwise, "one_token": one_token},
    identities=[
        Identity(
            "gradient_of_the_batch",
            slope,
            slope_of_gradient,
            says="The gradient of the batch's loss at S_0 is (K S_0^T - V)^T K.",
        ),
        Identity(
            "primal_is_dual",
            primal,
            dual,
            says="Adding up the gradients token by token and reading is one masked product.",
        ),
        Identity(
            "state_after_a_batch",
            primal.final(),
            batch_step,
            says="A batch ends at one step of gradient descent on all of its tokens.",
        ),
        Identity(
            "block_is_affine",
            chunkwise,
            affine,
            says="A batch is linear attention with other queries for the carry: it is affine in the state.",
        ),
        Identity(
            "frozen_gradients",
            chunkwise,
            deltanet_recurrence,
            expected="refuted",
            says="In batches of more tokens the gradients are old ones, and it isn't DeltaNet.",
        ),
        Identity(
            "rate_of_the_query_and_of_the_token",
            code_primal,
            code,
            says="A rate in front of the sum scales a row of the scores, one inside the sum a column.",
            source="test-time-training/ttt-lm-pytorch, ttt.py",
        ),
        Identity(
            "row_for_column",
            dual,
            row_rates,
            expected="refuted",
            says="Rates of the gradients' own tokens on the rows, in the place of the columns, are another system.",
        ),
    ],
    sources=[Source("Learning to (Learn at Test Time)", "Sun et al. 2024", "arXiv:2407.04620")],
    facts=[
        Fact(
            "layer_norm_gradient",
            layer_norm_gradient(3, layer_norm_backward),
            says="Through a layer norm, the gradient is (D g - sum g - x^ (x^ . g)) / (D sigma), for D = 3.",
        ),
        Fact(
            "layer_norm_gradient_of_two",
            layer_norm_gradient(2, layer_norm_backward),
            says="The same for D = 2.",
        ),
        Fact(
            "layer_norm_gradient_without_brackets",
            layer_norm_gradient(3, without_brackets),
            expected="refuted",
            says="With only the last two terms divided by D sigma it isn't the gradient.",
            source="flash-linear-attention, fla/ops/titans/naive.py",
        ),
    ],
)
