r"""Errata: formulas that are wrong as printed in papers, posts and code, each refuted and corrected.

    wrong: S_[t+1] = S_[t] + V K^T;   right: S_[t+1] = S_[t] + V^T K

What a system's own module already refutes is only named here. Where an erratum was found in notes at second hand, the
claim says so.
"""

from sympy import Expr

from derivations.deltanet import recurrence as delta_rule
from derivations.gated_deltanet import recurrence as gated_delta_rule
from derivations.gla import B, K_raised, Q_faded, alpha, alpha_not_zero, to_end
from derivations.kda import K_faded, recurrence as kda
from derivations.language import I, K, M, M_strict, Q, S, State, V, beta, d_k, d_v, eta, eye, gamma, k, q, t, v
from derivations.language import Claim, Closed, Computed, CumulativeProduct, Derivation, Document, Fact, Finding
from derivations.language import Identity, Ne, Ones, Parameter, Recurrence, ShapeError, Statement, TokenRows
from derivations.language import assume, derivative, diag, norm_squared, reciprocal, scalar, total, trace
from derivations.linear_attention import matrix as linear_matrix, recurrence as linear_recurrence
from derivations.path_attention import W, product as path_product
from derivations.rwkv7 import collapsed as rwkv7_collapsed, recurrence as rwkv7

one = Ones(1, 1)
E = Parameter("E", d_v, d_k)

# the losses whose gradient step is S <- gamma S + ...: the slope of each along E, against that of the step itself
squared = norm_squared(S @ k - v) / 2
inner = -scalar(v.T @ S @ k)
size = trace(S @ S.T)
eta_not_zero = assume(Ne(eta[t], 0), "the coefficient is divided by eta")


def slope(loss: Expr) -> TokenRows:
    """The derivative along E, at every token."""
    return TokenRows(derivative(loss, S, along=E) * one)


def slope_of_step(gradient: Statement) -> TokenRows:
    """tr(E^T G): the derivative along E of a loss with the gradient G."""
    return TokenRows(trace(E.T @ gradient) * one)


gated_step = slope_of_step((1 - gamma[t]) / eta[t] * S + (S @ k - v) @ k.T)
retention_step = slope_of_step((1 - gamma[t]) * S - v @ k.T)

# dividing by the products of all gates so far makes DeltaNet of Gated DeltaNet
products = CumulativeProduct(gamma)
undecayed = delta_rule.substitute({Q: diag(products) @ Q, V: diag(products).I @ V, eta[t]: beta[t]})
own_gate_to_the_t = TokenRows(gamma[t] ** t * v)
gates_multiplied = Closed(diag(products) @ V)
gates_not_zero = assume(Ne(gamma[t], 0), "values are divided by the products of gates")

# Kimi Linear's P, the product of a chunk's transitions, with products of gates that leave out gate i or keep it
P = State("P", d_k, d_k)
transitions = Recurrence(P, update=(eye(d_k) - beta[t] * k @ k.T) @ diag(alpha[t]) @ P, readout=P @ q, initial=eye(d_k))


def product_of_transitions(keys: Statement) -> Closed:
    """Diag(gamma^n) - sum_i Diag(gamma^(i -> n)) k_i w_i^T; `keys` are the k_i with the gates that the sum adds."""
    scores = K_faded @ keys.hadamard(reciprocal(B)).T
    corrections = (I + diag(beta) @ scores.hadamard(M_strict)).I @ diag(beta) @ K_faded
    return Closed(diag(total(alpha)) - keys.hadamard(to_end).T @ corrections, name="P")


# masks and brackets as they were printed
path_fox_row = Closed((Q @ K.T).hadamard(M) @ (I + (W @ W.T).hadamard(M_strict)).I, name="A")
inverted_mask = (I + diag(beta) @ (K_faded @ K_raised.T).hadamard(M.I)).I @ diag(beta) @ V
kda_as_printed = Closed((Q_faded @ K_raised.T).hadamard(M) @ inverted_mask)


def chunk_update_as_printed() -> Finding:
    """S + V K^T for blocks V, n x d_v, and K, n x d_k."""
    try:
        S + V @ K.T
    except ShapeError as error:
        return Finding(False, str(error))
    return Finding(True, "S + V K^T has a shape")


errata = Derivation(
    "errata",
    title="Errata",
    summary="Formulas that are wrong as printed, with what is right, where no system's own module has them.",
    forms={},
    identities=[
        Identity(
            "squared_loss_with_twice_the_decay",
            slope(squared + (1 - gamma[t]) / eta[t] * size),
            gated_step,
            assumptions=(eta_not_zero,),
            expected="refuted",
            says="(1 - gamma) / eta |S|^2 beside the squared loss gives the decay 2 gamma - 1 instead of gamma.",
            source="Su, 'A brief history of linear attention', text at eq. 18",
        ),
        Identity(
            "squared_loss_with_the_decay",
            slope(squared + (1 - gamma[t]) / (2 * eta[t]) * size),
            gated_step,
            assumptions=(eta_not_zero,),
            says="(1 - gamma) / (2 eta) |S|^2 beside the squared loss gives the decay gamma.",
        ),
        Identity(
            "own_gate_to_the_t",
            own_gate_to_the_t,
            gates_multiplied,
            expected="refuted",
            says="With t for the index of its factors, the product is alpha_t^t, and not that of the gates so far.",
            source="Su, eq. 20",
        ),
        Identity(
            "gates_divided_out",
            gated_delta_rule,
            undecayed,
            assumptions=(gates_not_zero,),
            carries=False,
            says="With queries times the product of the gates so far and values over it, DeltaNet is Gated DeltaNet.",
        ),
        Identity(
            "answered_by_the_old_state",
            linear_recurrence.reading("before"),
            linear_matrix,
            expected="refuted",
            says="A query that is answered by the old state doesn't see its own token.",
            source="Su, text before eq. 11",
        ),
        Identity(
            "retention_loss_with_the_square",
            slope(inner + (1 - gamma[t] ** 2) / 2 * size),
            retention_step,
            expected="refuted",
            says="The regulariser (1 - gamma^2) / 2 |S|^2 gives the decay gamma^2.",
            source="a translation of Su's post, RetNet's loss",
        ),
        Identity(
            "retention_loss",
            slope(inner + (1 - gamma[t]) / 2 * size),
            retention_step,
            says="The regulariser (1 - gamma) / 2 |S|^2 gives the decay gamma, for a step of size 1.",
        ),
        Identity(
            "products_with_the_own_gate",
            transitions.final(),
            product_of_transitions(K.hadamard(alpha)),
            assumptions=(alpha_not_zero,),
            expected="refuted",
            says="With the gates i .. r, gamma^(i -> r) has gate i once too often.",
            source="Kimi Linear, eqs. 3 to 5 with section 2.1",
        ),
        Identity(
            "products_after_the_own_gate",
            transitions.final(),
            product_of_transitions(K),
            assumptions=(alpha_not_zero,),
            says="gamma^(i -> r) is the product of the gates i+1 .. r.",
        ),
        Identity(
            "path_fox_row",
            path_product,
            path_fox_row,
            expected="refuted",
            says="(Q K^T . M)(I + W W^T . M^-)^-1 are PaTH's scores for W = K alone.",
            source="Kimi Linear, table 6, row PaTH-FoX",
        ),
        Identity(
            "rwkv7_row",
            rwkv7,
            rwkv7_collapsed,
            expected="refuted",
            says="One masked product with one inverse takes what is removed for the key that is written.",
            source="Kimi Linear, table 6, row RWKV7",
        ),
        Identity(
            "inverse_of_the_mask",
            kda,
            kda_as_printed,
            assumptions=(alpha_not_zero,),
            expected="refuted",
            says="With the inverse of M inside KDA's inverse, M^-1 for M^-, it is another matrix.",
            source="Kimi Linear, table 6",
        ),
    ],
    facts=[
        Fact(
            "block_of_values_times_keys",
            Computed(chunk_update_as_printed, "shapes"),
            says="V K^T has n rows and n columns, and can't be added to the state: a block is written as V^T K.",
            expected="refuted",
            source="Gated Delta Networks, section 2.1",
        ),
    ],
)

document = Document(
    "errata",
    "Formulas that are wrong as printed",
    claims=[
        Claim(
            "E-01",
            "Beside the squared loss, the regulariser (1 - gamma) / eta |S|^2 gives the decay gamma.",
            "Su, 'A brief history of linear attention', text at eq. 18",
            "refuted",
            false="errata.squared_loss_with_twice_the_decay",
            by="errata.squared_loss_with_the_decay",
            note="It gives 2 gamma - 1.",
        ),
        Claim(
            "E-02",
            "The product of the gates so far is that of alpha_t over j = 1 .. t.",
            "Su, eq. 20",
            "refuted",
            false="errata.own_gate_to_the_t",
            by="errata.gates_divided_out",
            note="The index of the factors is j.",
        ),
        Claim(
            "E-03",
            "The query is answered by the state before the update.",
            "Su, text before eq. 11",
            "refuted",
            false="errata.answered_by_the_old_state",
            by="linear_attention.recurrent_is_matrix",
        ),
        Claim(
            "E-04",
            "RetNet's regulariser is (1 - gamma^2) / 2 |S|^2.",
            "a translation of Su's post",
            "refuted",
            false="errata.retention_loss_with_the_square",
            by="errata.retention_loss",
        ),
        Claim(
            "E-05",
            "Longhorn minimises |S_t - S_{t-1}|^2 - beta |S_t k - v|^2.",
            "Gated Delta Networks, table 1",
            "refuted",
            false="longhorn.printed_sign",
            by=("longhorn.slope_is_zero", "longhorn.by_an_inverse"),
        ),
        Claim(
            "E-06",
            "S_[t+1] = S_[t] + V_[t] K_[t]^T.",
            "Gated Delta Networks, section 2.1",
            "refuted",
            false="errata.block_of_values_times_keys",
            by="linear_attention.recurrent_is_chunkwise",
        ),
        Claim(
            "E-07",
            "The decay from token i to token r takes in the gate of token i.",
            "Kimi Linear, eqs. 3 to 5 with section 2.1",
            "refuted",
            false="errata.products_with_the_own_gate",
            by="errata.products_after_the_own_gate",
        ),
        Claim(
            "E-08",
            "KDA's transition is Diag(alpha)(I - k k^T), with the state d_k x d_v.",
            "Kimi Linear, eq. 12 and table 6",
            "refuted",
            false="kda.overwritten_first",
            by="kda.recurrent_is_matrix",
        ),
        Claim(
            "E-09",
            "PaTH's scores are (Q K^T . M)(I + W W^T . M^-)^-1.",
            "Kimi Linear, table 6, row PaTH-FoX",
            "refuted",
            false="errata.path_fox_row",
            by=("path_attention.product_is_matrix", "path_attention.deltanet_at_w_equal_k"),
            note="Right for W = K.",
        ),
        Claim(
            "E-10",
            "RWKV-7 is one masked product with one inverse.",
            "Kimi Linear, table 6, row RWKV7",
            "refuted",
            false="errata.rwkv7_row",
            by="rwkv7.recurrent_is_matrix",
        ),
        Claim(
            "E-11",
            "The mask inside the inverse is M^-1.",
            "Kimi Linear, table 6, rows KDA and RWKV7",
            "refuted",
            false="errata.inverse_of_the_mask",
            by="kda.recurrent_is_matrix",
            note="M^- was meant.",
        ),
        Claim(
            "E-12",
            "The scan of S M + X combines two steps to (M_1 M_2, M_2 X_1 + X_2).",
            "DeltaNet Explained, part II",
            "refuted",
            false="deltanet.scan_operator_as_printed",
            by=("deltanet.scan_operator", "deltanet.scan_operator_is_associative"),
        ),
        Claim(
            "E-13",
            "Causal attention is softmax(Q K^T . M) V.",
            "DeltaNet Explained, part I",
            "refuted",
            false="softmax_attention.mask_as_a_factor_of_scores",
            by="softmax_attention.log_mask_is_a_factor",
        ),
        Claim(
            "E-14",
            "The gradient of |M k - v|^2 is (M k - v) k^T.",
            "Titans, eqs. 12 and 17",
            "refuted",
            false="titans.factor_two_left_out",
            by="titans.gradient_of_the_loss",
        ),
        Claim(
            "E-15",
            "Mamba's code computes the zero-order hold of the paper.",
            "Mamba, eq. 4 and theorem 1, against its selective scan",
            "refuted",
            false="mamba.code_is_zero_order_hold",
            by="mamba.zero_order_hold",
        ),
        Claim(
            "E-16",
            "The product of I - w_t w_t^T in ascending order is I - W^T T^-1 W with a lower triangular T.",
            "notes on PaTH, at second hand",
            "refuted",
            false="deltanet.ascending_product",
            by="deltanet.product_of_transitions",
        ),
        Claim(
            "E-17",
            "Features of w ~ N(0, sigma^2 I) give the kernel exp(-|x - y|^2 / (2 sigma^2)).",
            "notes on RFA, at second hand",
            "refuted",
            false="random_features.wide_frequencies_give_a_wide_kernel",
            by="random_features.cosine_is_the_gaussian_kernel",
        ),
        Claim(
            "E-18",
            "Decaying and then reading the prediction is Comba.",
            "flash-linear-attention, naive_recurrent_comba",
            "refuted",
            false="comba.decay_then_read",
            by="comba.recurrent_is_matrix",
        ),
        Claim(
            "E-19",
            "The gradient through a layer norm is D g - sum(..) / (sigma D), without brackets around the difference.",
            "flash-linear-attention, titans/naive.py",
            "refuted",
            false="ttt_linear.layer_norm_gradient_without_brackets",
            by="ttt_linear.layer_norm_gradient",
        ),
    ],
)
