r"""Document 000: notes on the history of linear attention, after Su Jianlin's post of June 2025.

    exp(Q K^T + log M) V,   (Q K^T . M) V,   (Q K^T . Gamma) V,   (Q K^T . M)(I + K K^T . M^-)^-1 V

It goes from softmax attention over forgetting, test-time training and the delta rule back to softmax attention. Its 96
claims are read as their author would accept them; M is the causal mask unless a claim says otherwise.
"""

from itertools import pairwise
from math import inf

from sympy import Interval, Limit, Matrix, Rational, Symbol, log as real_log, oo

from derivations.deltanet import recurrence as gradient_descent
from derivations.language import I, K, M_strict, S, V, d_k, d_v, eta, gamma, n, t
from derivations.language import Claim, Closed, Computed, Counts, Derivation, Document, Equal, Fact, Finding, HasShape
from derivations.language import Identity, Ones, RangeWithin, REALS, derivative, diag, trace
from derivations.language.structure import structure
from derivations.mesanet import E, curvature, g, loss, one
from derivations.softmax_attention import streaming
from derivations.titans import recurrence as titans, theta

triangular_system = Closed((I + (K @ K.T).hadamard(M_strict)).I @ V)

# what the regression's slope is, before anything is assumed
slope = Closed(derivative(loss, S, along=E.T) * one)
normal_equations = Closed(trace((S @ curvature - V.T @ diag(g) @ K) @ E) * one)


def overflow_is_masked() -> Finding:
    """exp(710) is beyond float64: as a factor, the mask makes inf . 0 of it."""
    product = inf * 0.0
    return Finding(product == 0, f"inf . 0 is {product} in floating point")


def orthonormal_keys_are_read_exactly() -> Finding:
    """S = sum_j v_j e_j^T with the unit vectors as keys, each read with its own key."""
    values = Matrix(2, 4, range(1, 9))
    state = sum((values[:, j] * Matrix.eye(4)[:, j].T for j in range(4)), Matrix.zeros(2, 4))
    blurred = [j for j in range(4) if state * Matrix.eye(4)[:, j] != values[:, j]]
    return Finding(bool(blurred), f"{len(blurred)} of 4 values are read inexactly")


def powers_of_two(size: int) -> Matrix:
    """exp(q_i k_j) for q_i = i ln 2 and k_j = j: the score matrix [2^(i j)], a Vandermonde matrix."""
    return Matrix(size, size, lambda i, j: 2 ** (i * j))


def features_of_width_four_are_enough() -> Finding:
    """Whether some phi of width 4 gives every exp(q k): then no matrix of them has a rank above 4."""
    ranks = {size: powers_of_two(size).rank() for size in (3, 5, 8)}
    return Finding(max(ranks.values()) <= 4, f"[2^(i j)] has the ranks {ranks}")


def a_negative_gate_has_a_real_logarithm() -> Finding:
    """log of a gate of -1/2."""
    value = real_log(Rational(-1, 2))
    return Finding(bool(value.is_real), f"log(-1/2) = {value}")


def system_of_mesanet_is_triangular() -> Finding:
    """Whether H + Lambda = K^T D K + Lambda is triangular by how it is made, as I + K K^T . M^- is."""
    mesa, delta = structure(curvature), structure(I + (K @ K.T).hadamard(M_strict))
    return Finding(mesa.lower or mesa.upper, f"H + Lambda: {mesa}; I + K K^T . M^-: {delta}")


def weights_fall(rate: Rational) -> Finding:
    """Whether the weights rate^(t-j) of a token grow smaller the older it is."""
    weights = [rate**age for age in range(8)]
    return Finding(all(older < newer for newer, older in pairwise(weights)), f"weights {', '.join(map(str, weights))}")


width, length = Symbol("d", positive=True), Symbol("n", positive=True)
count, x = Symbol("t", positive=True), Symbol("x", real=True)

statements = Derivation(
    "document_000",
    title="Document 000, what only it says",
    summary="Costs, numbers and readings that decide claims of document 000 and belong to no single system.",
    forms={},
    identities=[
        Identity(
            "normal_equations",
            slope,
            normal_equations,
            says="The regression's slope along E is tr((S (H + Lambda) - G) E), zero for all E at S (H + Lambda) = G.",
            source="lines 174 to 176",
        ),
        Identity(
            "titans_is_a_gradient_step",
            titans.substitute({gamma: Ones(n, 1)}),
            gradient_descent.substitute({eta[t]: 2 * theta[t]}),
            carries=False,
            expected="refuted",
            says="Momentum adds a second state: even without decay Titans isn't gradient descent on the squared error.",
            source="line 69",
        ),
    ],
    facts=[
        Fact(
            "overflow_is_masked",
            Computed(overflow_is_masked, "float64"),
            says="As a factor, a mask doesn't hide a score whose exponential has overflowed: inf . 0 isn't 0.",
            expected="refuted",
            source="line 14",
        ),
        Fact(
            "any_algorithm_forms_the_matrix",
            Counts(streaming, "largest value", n**2),
            says="The streaming sums give softmax attention without a matrix of n^2 numbers.",
            expected="refuted",
            source="line 20",
        ),
        Fact("state_size", HasShape(S, (d_v, d_k)), says="The state is d_v x d_k, whatever n is.", source="line 32"),
        Fact(
            "share_of_a_token",
            Equal(Limit(1 / count, count, oo), 0),
            says="In the mean of t tokens each has the share 1 / t, which tends to 0.",
            source="line 38",
        ),
        Fact(
            "blurred_with_orthonormal_keys",
            Computed(orthonormal_keys_are_read_exactly, "fractions"),
            says="With orthonormal keys, up to d_k of them, nothing is blurred: each value is read exactly.",
            expected="refuted",
            source="line 38",
        ),
        Fact(
            "older_tokens_weigh_less",
            Computed(lambda: weights_fall(Rational(1, 2)), "fractions"),
            says="With gamma = 1/2 a token weighs less the older it is.",
            source="line 43",
        ),
        Fact(
            "older_tokens_weigh_less_for_any_decay",
            Computed(lambda: weights_fall(Rational(2)), "fractions"),
            says="With gamma = 2 a token weighs more the older it is.",
            expected="refuted",
            source="line 43",
        ),
        Fact(
            "squared_error_is_least_at_the_target",
            RangeWithin(x**2 / 2, x, REALS, Interval(0, oo)),
            says="|S k - v|^2 / 2 is a sum of x^2 / 2 over the entries x of S k - v, each at least 0.",
            source="line 86",
        ),
        Fact(
            "finite_feature_map",
            Computed(features_of_width_four_are_enough, "rank"),
            says="No feature map of width 4 has phi(q)^T phi(k) = exp(q k): eight numbers give scores of rank eight.",
            expected="refuted",
            source="lines 134 and 138",
        ),
        Fact(
            "inverse_costs_more_than_softmax",
            Equal(Limit((length**3 / 3) / (2 * length**2 * width), length, oo), oo),
            says="n^3 / 3 multiplications of an elimination outgrow the 2 n^2 d of softmax attention.",
            source="line 111",
        ),
        Fact(
            "solve_costs_n_squared_whatever_d",
            Counts(triangular_system, "multiplications", n * (n - 1) / 2),
            says="Not in n (n - 1) / 2 multiplications: d_k and d_v count too.",
            expected="refuted",
            source="lines 111 and 170",
        ),
        Fact(
            "logarithm_of_a_negative_gate",
            Computed(a_negative_gate_has_a_real_logarithm, "SymPy"),
            says="For negative gates log Gamma isn't real.",
            expected="refuted",
            source="line 146",
        ),
        Fact(
            "mesanet_system_is_triangular",
            Computed(system_of_mesanet_is_triangular, "structure"),
            says="H + Lambda isn't triangular, so that substitution doesn't solve it.",
            expected="refuted",
            source="line 184",
        ),
    ],
)

document = Document(
    "document_000",
    "Notes on the history of linear attention",
    claims=[
        Claim(
            "S0-01",
            "Adding log M to the scores is multiplying their exponentials by the mask M.",
            "line 14",
            "holds under assumptions",
            by="softmax_attention.log_mask_is_a_factor",
            only_if={
                "the exponentials of masked scores are finite in floating point": "document_000.overflow_is_masked"
            },
            note="log 0 is -oo. float64 overflows beyond a score of 709.78, float32 beyond 88.72.",
        ),
        Claim(
            "S0-02",
            "Softmax attention is D^-1 A V with D = Diag(A 1).",
            "line 18",
            "holds under assumptions",
            by=("softmax_attention.softmax_is_matrix", "softmax_attention.any_mask"),
        ),
        Claim(
            "S0-03",
            "Softmax attention has to compute and store the n x n matrix of weights.",
            "line 20",
            "refuted",
            false="document_000.any_algorithm_forms_the_matrix",
            by=("softmax_attention.streaming_is_matrix", "softmax_attention.streaming_is_chunkwise"),
            note="True of the formula as written; two rescaled sums per query give the same output.",
        ),
        Claim(
            "S0-04",
            "Softmax attention takes time O(n^2 d).",
            "line 20",
            "holds",
            by="softmax_attention.multiplications",
        ),
        Claim(
            "S0-05",
            "The matrix of weights takes O(n^2) numbers.",
            "line 20",
            "holds",
            by="softmax_attention.largest_matrix",
        ),
        Claim(
            "S0-06",
            "The first linear attention is O = ((Q K^T) . M) V.",
            "line 26",
            "holds",
            by="linear_attention.recurrent_is_matrix",
        ),
        Claim(
            "S0-07",
            "Dropping the exponential alone doesn't lower the cost.",
            "line 28",
            "holds",
            by=("linear_attention.multiplications_of_the_matrix", "softmax_attention.multiplications"),
        ),
        Claim(
            "S0-08",
            "Without the exponential the products can be reassociated, with prefix sums in the place of the matrix.",
            "line 28",
            "holds under assumptions",
            by=("linear_attention.noncausal_reassociated", "linear_attention.recurrent_is_matrix"),
            only_if={"no mask, if associativity is to do it alone": "linear_attention.causal_is_noncausal"},
        ),
        Claim(
            "S0-09",
            "sum_j v_j (k_j^T q_t) is (sum_j v_j k_j^T) q_t.",
            "line 30",
            "holds",
            by="linear_attention.recurrent_is_component_sum",
        ),
        Claim(
            "S0-10",
            "o_t = S_t q_t with S_t = S_{t-1} + v_t k_t^T.",
            "line 30",
            "holds",
            by=("linear_attention.recurrent_is_component_sum", "linear_attention.recurrent_is_matrix"),
        ),
        Claim(
            "S0-11",
            "The recurrence takes time O(n d_k d_v).",
            "line 32",
            "holds",
            by="linear_attention.multiplications_of_the_recurrence",
        ),
        Claim("S0-12", "Its extra state takes O(d_k d_v).", "line 32", "holds", by="document_000.state_size"),
        Claim(
            "S0-13",
            "In n, for fixed d, the time falls from O(n^2) to O(n).",
            "line 32",
            "holds",
            by=(
                "linear_attention.multiplications_of_the_matrix",
                "linear_attention.multiplications_of_the_recurrence",
                "linear_attention.crossover",
            ),
            note="Below n = d the recurrence costs more.",
        ),
        Claim(
            "S0-14",
            "Linear attention is a cumulative sum in which all of the past has the same weight.",
            "line 38",
            "holds",
            by="linear_attention.recurrent_is_component_sum",
        ),
        Claim(
            "S0-15",
            "With many tokens each one's share becomes tiny, and the memory blurred.",
            "line 38",
            "holds under assumptions",
            by="document_000.share_of_a_token",
            only_if={
                "more than d_k keys, or keys that aren't orthogonal": "document_000.blurred_with_orthonormal_keys"
            },
        ),
        Claim(
            "S0-16",
            "With a decay, S_t = gamma S_{t-1} + v_t k_t^T.",
            "line 41",
            "holds",
            by=("decay.retention_is_matrix", "decay.retention_is_component_sum"),
        ),
        Claim(
            "S0-17",
            "The decay favours recent tokens.",
            "line 43",
            "holds under assumptions",
            by=("document_000.older_tokens_weigh_less", "decay.retention_is_component_sum"),
            only_if={"|gamma| < 1": "document_000.older_tokens_weigh_less_for_any_decay"},
            note="What resolution this gives is a matter of measurement.",
        ),
        Claim(
            "S0-18",
            "gamma may be learnt, diagonal, or depend on the token.",
            "line 43",
            "holds",
            by=("decay.recurrent_is_matrix", "gla.gate_of_the_whole_state", "gla.final_state"),
        ),
        Claim(
            "S0-19",
            "The gate of DFW is a low-rank matrix.",
            "line 46",
            "holds under assumptions",
            by=("dfw.gate_on_both_sides", "dfw.rank_one_gates_multiply"),
            only_if={"the rank is one": "dfw.products_of_low_rank_keep_their_rank"},
        ),
        Claim(
            "S0-20",
            "S_t = G_t . S_{t-1} + v_t k_t^T.",
            "line 48",
            "holds",
            by="dfw.gate_on_both_sides",
        ),
        Claim(
            "S0-21",
            "DFW's aim is to fine-tune trained Transformers into recurrences of constant state.",
            "line 46",
            "empirical",
            would_decide="reading the paper's aim, and measuring such models",
        ),
        Claim(
            "S0-22",
            "In Mamba the step, B and C depend on the input.",
            "line 50",
            "holds",
            by="mamba.inputs_of_each_token",
        ),
        Claim(
            "S0-23",
            "Mamba-2 restricts the transition to a scalar times the identity.",
            "line 52",
            "holds",
            by=("mamba2.recurrent_is_matrix", "mamba2.mamba_with_one_rate"),
        ),
        Claim(
            "S0-24",
            "O = (L . Q K^T) V with L_ij = a_{j+1} ... a_i.",
            "line 54",
            "holds",
            by="decay.recurrent_is_matrix",
        ),
        Claim(
            "S0-25",
            "Mamba-2 gives up freedom of the transition: a scalar in the place of a diagonal.",
            "line 56",
            "holds",
            by="mamba2.mamba_with_one_rate",
        ),
        Claim(
            "S0-26",
            "Its core layer was reported to be 2 to 8 times as fast as Mamba's.",
            "line 56",
            "empirical",
            would_decide="timing both layers on one machine",
        ),
        Claim(
            "S0-27",
            "State space models and attention may be the recurrent and the parallel form of one structured matrix.",
            "line 56",
            "holds under assumptions",
            by="decay.recurrent_is_matrix",
            only_if={"attention without the softmax, which has no finite state": "document_000.finite_feature_map"},
        ),
        Claim(
            "S0-28",
            "GLA is S_t = G_t . S_{t-1} + v_t k_t^T, o_t = S_t q_t.",
            "line 60",
            "holds",
            by=("gla.gate_of_the_whole_state", "gla.final_state"),
        ),
        Claim(
            "S0-29",
            "To predict a full d_v x d_k gate would be too expensive.",
            "line 62",
            "holds",
            by=("gla.full_gate_parameters", "gla.low_rank_parameters"),
        ),
        Claim(
            "S0-30",
            "All these updates are gradient steps S_t = S_{t-1} - eta_t grad L.",
            "line 69",
            "holds under assumptions",
            by=("linear_attention.gradient_step", "retnet.gradient_step", "deltanet.gradient_step"),
            only_if={"no momentum, which adds a second state": "document_000.titans_is_a_gradient_step"},
        ),
        Claim(
            "S0-31",
            "o_t = f(S_t; q_t): the state is read after the update.",
            "line 73",
            "holds",
            by=("linear_attention.recurrent_is_matrix", "decay.read_before_is_shifted"),
            note="A convention, which masks with a full diagonal follow. RWKV-4 and RWKV-6 read before the update.",
        ),
        Claim(
            "S0-32",
            "Linear attention has the loss -v^T S k.",
            "line 83",
            "holds",
            by=("linear_attention.gradient_of_the_loss", "linear_attention.gradient_step"),
        ),
        Claim(
            "S0-33",
            "That loss has no lower bound, so that the state may diverge.",
            "line 83",
            "holds",
            by="linear_attention.loss_is_unbounded",
        ),
        Claim(
            "S0-34",
            "RetNet's decay is a regulariser added to that loss.",
            "line 83",
            "holds",
            by=("retnet.gradient_of_the_loss", "retnet.gradient_step"),
            note="With the step eta the regulariser is (1 - gamma) / (2 eta) |S|^2.",
        ),
        Claim(
            "S0-35",
            "The inner product doesn't ask for S k to be near v.",
            "line 83",
            "holds",
            by="retnet.minimiser_scales_the_value",
        ),
        Claim(
            "S0-36",
            "The natural loss is |S k - v|^2 / 2.",
            "line 86",
            "holds",
            by=("document_000.squared_error_is_least_at_the_target", "deltanet.gradient_of_the_loss"),
        ),
        Claim(
            "S0-37",
            "One step of gradient descent on it is S_t = S_{t-1} + eta_t (v_t - S_{t-1} k_t) k_t^T.",
            "line 90",
            "holds",
            by=("deltanet.gradient_of_the_loss", "deltanet.gradient_step"),
        ),
        Claim(
            "S0-38",
            "eta_t can always be absorbed into k_t and v_t.",
            "line 92",
            "holds under assumptions",
            by="deltanet.eta_absorbed",
            only_if={"both k and v take it in": "deltanet.eta_absorbed_in_v_alone"},
        ),
        Claim(
            "S0-39",
            "Multiplied out, eta = 1 gives S_{t-1} (I - k_t k_t^T) + v_t k_t^T.",
            "line 94",
            "holds",
            by=("deltanet.unit_removed_then_written", "deltanet.unit_transition"),
        ),
        Claim(
            "S0-40",
            "S_{t-1} k_t is what the old state predicts for k_t.",
            "line 96",
            "holds",
            by="deltanet.prediction_moves_to_v",
        ),
        Claim(
            "S0-41",
            "It removes the old association first, then writes the new one.",
            "line 97",
            "holds under assumptions",
            by=("deltanet.unit_removed_then_written", "deltanet.prediction_moves_to_v", "deltanet.overwritten"),
            note="Complete only where eta |k|^2 = 1.",
        ),
        Claim(
            "S0-42",
            "With u_t = v_t - S_{t-1} k_t, S_t = S_{t-1} + u_t k_t^T.",
            "line 103",
            "holds",
            by="deltanet.only_V_is_replaced",
        ),
        Claim("S0-43", "Only V is replaced, by U.", "line 103", "holds", by="deltanet.only_V_is_replaced"),
        Claim("S0-44", "u_t = v_t - sum_{j<t} u_j (k_j^T k_t).", "line 103", "holds", by="deltanet.correction_by_sum"),
        Claim("S0-45", "U = V - (K K^T . M^-) U, M^- = M - I.", "line 107", "holds", by="deltanet.linear_system"),
        Claim("S0-46", "U = (I + B)^-1 V.", "line 109", "holds", by="deltanet.linear_system_solved"),
        Claim(
            "S0-47",
            "The inverse of an n x n matrix takes O(n^3).",
            "line 111",
            "holds",
            by="deltanet.general_inverse_multiplications",
        ),
        Claim(
            "S0-48",
            "That is more than softmax attention.",
            "line 111",
            "holds",
            by=(
                "deltanet.general_inverse_multiplications",
                "softmax_attention.multiplications",
                "document_000.inverse_costs_more_than_softmax",
            ),
        ),
        Claim(
            "S0-49",
            "To solve (I + B) U = V takes O(n^2).",
            "line 111",
            "holds under assumptions",
            by="deltanet.triangular_solve_multiplications",
            only_if={"d_k and d_v are fixed": "document_000.solve_costs_n_squared_whatever_d"},
        ),
        Claim(
            "S0-50",
            "B has a low-rank structure.",
            "line 111",
            "holds under assumptions",
            by="deltanet.blocks_below_the_diagonal_have_low_rank",
            only_if={"its blocks below the diagonal are meant, not B": "deltanet.mask_keeps_the_rank"},
        ),
        Claim(
            "S0-51",
            "The cost can be made linear in n.",
            "line 111",
            "holds",
            by=("deltanet.recurrent_is_chunkwise", "deltanet.chunkwise_multiplications"),
        ),
        Claim(
            "S0-52",
            "The gated version is S_t = gamma_t S_{t-1} + eta_t (v_t - S_{t-1} k_t) k_t^T.",
            "line 118",
            "holds under assumptions",
            by=("gated_deltanet.gated_deltanet_as_printed", "gated_deltanet.printed_as_gated_deltanet"),
            note="It is Comba's recurrence; Gated DeltaNet's predicts with the decayed state.",
        ),
        Claim(
            "S0-53",
            "The table's first row: softmax attention is (exp(Q K^T) . M) V.",
            "line 124",
            "holds under assumptions",
            by="softmax_attention.softmax_is_matrix",
            only_if={"up to the normaliser": "softmax_attention.numerator_alone"},
        ),
        Claim(
            "S0-54",
            "Second row: (Q K^T . M) V.",
            "line 124",
            "holds",
            by="linear_attention.recurrent_is_matrix",
        ),
        Claim("S0-55", "Third row: (Q K^T . Gamma) V.", "line 124", "holds", by="decay.recurrent_is_matrix"),
        Claim("S0-56", "Fourth row: (Q K^T . M)(I + K K^T . M^-)^-1 V.", "line 124", "holds", by="deltanet.table_row"),
        Claim(
            "S0-57",
            "Fifth row: both expressions for Gated DeltaNet are equal.",
            "line 124",
            "holds",
            by="gated_deltanet.gamma_rewrite",
            note="With Gamma^- = Gamma - I and the matrix product binding tighter than the entrywise one.",
        ),
        Claim(
            "S0-58",
            "The recurrence printed above the table is that of its fifth row.",
            "lines 118 and 124",
            "refuted",
            false="gated_deltanet.printed_recurrence",
            by=("gated_deltanet.recurrent_is_matrix", "gated_deltanet.printed_recurrence_is_shifted_matrix"),
        ),
        Claim(
            "S0-59",
            "Gamma_ij is the product of the gates after j up to i.",
            "line 128",
            "holds",
            by=("decay.recurrent_is_component_sum", "decay.recurrent_is_matrix"),
        ),
        Claim(
            "S0-60",
            "Softmax attention has been going back, linear attention forward.",
            "line 122",
            "empirical",
            would_decide="an agreed measure of progress, followed over the years",
        ),
        Claim(
            "S0-61",
            "Forget gate and delta rule were derived from the linear inner product.",
            "line 134",
            "empirical",
            would_decide="the history of the papers",
        ),
        Claim(
            "S0-62",
            "exp(Q K^T) = phi(Q) phi(K)^T.",
            "lines 134 and 138",
            "holds under assumptions",
            by=("kernel_trick.second_power", "kernel_trick.exponential_series"),
            only_if={"phi has infinitely many features": "document_000.finite_feature_map"},
        ),
        Claim(
            "S0-63",
            "phi(Q) and phi(K) put into the table, with the exponential restored, give new variants.",
            "line 138",
            "holds",
            by="deltaformer.recurrent_is_matrix",
        ),
        Claim(
            "S0-64",
            "What results first is softmax(Q K^T) V.",
            "line 141",
            "holds under assumptions",
            by="softmax_attention.softmax_is_matrix",
            only_if={"without the causal mask": "softmax_attention.mask_left_out"},
        ),
        Claim(
            "S0-65",
            "Softmax attention is a linear attention of infinite dimension.",
            "line 143",
            "holds under assumptions",
            by=("kernel_trick.softmax_is_a_ratio", "kernel_trick.exponential_series"),
            only_if={"its state has no finite size": "document_000.finite_feature_map"},
        ),
        Claim(
            "S0-66",
            "(phi(Q) phi(K)^T . Gamma) V = exp(Q K^T + log Gamma) V.",
            "line 146",
            "holds under assumptions",
            by="forgetting_attention.log_decay_is_a_factor",
            only_if={"gamma >= 0": "document_000.logarithm_of_a_negative_gate"},
        ),
        Claim(
            "S0-67",
            "A constant rate gives a bias by distance, like ALiBi's.",
            "line 148",
            "holds under assumptions",
            by="alibi.decay_is_a_bias",
            only_if={"rows are normalised": "alibi.not_without_the_normaliser"},
        ),
        Claim(
            "S0-68",
            "A rate that depends on the input gives FoX.",
            "line 149",
            "holds under assumptions",
            by="forgetting_attention.decay_is_a_bias",
            only_if={"rows are normalised": "forgetting_attention.not_without_the_normaliser"},
        ),
        Claim(
            "S0-69",
            "DeltaNet in the exponential kernel is DeltaFormer.",
            "line 150",
            "holds under assumptions",
            by="deltaformer.recurrent_is_matrix",
            only_if={"before rows are normalised": "deltaformer.strict_softmax_has_a_first_row"},
        ),
        Claim(
            "S0-70",
            "I - w w^T is a Householder reflection where |w| = sqrt(2).",
            "line 161",
            "holds",
            by="path_attention.factor_squared",
        ),
        Claim(
            "S0-71",
            "The product describes the transform from position j to i.",
            "line 161",
            "holds",
            by="path_attention.product_is_matrix",
            note="In descending order, the factor of i leftmost.",
        ),
        Claim(
            "S0-72",
            "The similarity depends on the tokens between.",
            "line 161",
            "holds",
            by="path_attention.product_is_matrix",
        ),
        Claim(
            "S0-73",
            "PaTH's positions depend on the content, RoPE's are fixed beforehand.",
            "line 163",
            "empirical",
            would_decide="an agreed meaning of position encoding",
        ),
        Claim(
            "S0-74",
            "With W = K it comes close to DeltaNet.",
            "line 163",
            "holds",
            by="path_attention.deltanet_at_w_equal_k",
        ),
        Claim(
            "S0-75",
            "With orthogonal factors the relative transform is two absolute ones.",
            "line 163",
            "holds under assumptions",
            by="path_attention.reflections_split",
        ),
        Claim(
            "S0-76",
            "A = Q K^T . M - (Q W^T . M)(I + W W^T . M^-)^-1 (W K^T . M^-).",
            "line 166",
            "holds",
            by="path_attention.product_is_matrix",
        ),
        Claim(
            "S0-77",
            "PaTH is a kind of contextual position encoding.",
            "line 168",
            "empirical",
            would_decide="an agreed meaning of position encoding",
        ),
        Claim(
            "S0-78",
            "FoX is a contextual ALiBi.",
            "line 168",
            "holds",
            by="forgetting_attention.constant_gate",
        ),
        Claim(
            "S0-79",
            "A direct inverse takes O(n^3).",
            "line 170",
            "holds",
            by="deltanet.general_inverse_multiplications",
        ),
        Claim(
            "S0-80",
            "The low rank of W W^T brings it to O(n^2).",
            "line 170",
            "holds under assumptions",
            by=("deltanet.triangular_solve_multiplications", "deltanet.blocks_below_the_diagonal_have_low_rank"),
            only_if={
                "d_k and d_v are fixed": "document_000.solve_costs_n_squared_whatever_d",
                "the rank of the blocks below the diagonal is meant": "deltanet.mask_keeps_the_rank",
            },
        ),
        Claim("S0-81", "S_t = G_t H_t^-1.", "line 176", "holds under assumptions", by="mesanet.ungated_state"),
        Claim(
            "S0-82",
            "S k is linear regression, which has a closed form.",
            "line 174",
            "holds",
            by="document_000.normal_equations",
        ),
        Claim(
            "S0-83",
            "DeltaNet takes gradient steps on the squared loss.",
            "line 174",
            "holds",
            by=("deltanet.gradient_of_the_loss", "deltanet.gradient_step"),
        ),
        Claim(
            "S0-84",
            "o_t = G_t (H_t + Lambda_t)^-1 q_t with gated G and H.",
            "line 180",
            "holds under assumptions",
            by=(
                "mesanet.state_in_closed_form",
                "mesanet.gradient_is_zero",
                "mesanet.hessian_is_positive_definite",
            ),
        ),
        Claim(
            "S0-85",
            "The diagonal Lambda avoids a singular matrix.",
            "line 178",
            "holds under assumptions",
            by="mesanet.hessian_is_positive_definite",
            only_if={"Lambda is positive definite": "mesanet.any_lambda_avoids_singularity"},
        ),
        Claim(
            "S0-86",
            "DeltaNet is least mean squares, MesaNet is recursive least squares.",
            "line 182",
            "holds under assumptions",
            by=("deltanet.gradient_step", "mesanet.rls", "mesanet.rls_with_discounted_lambda"),
            only_if={"gamma = 1, or Lambda is discounted too": "mesanet.rls_with_constant_lambda"},
        ),
        Claim(
            "S0-87",
            "The closed form is often nearer to the local optimum than one gradient step.",
            "line 182",
            "holds under assumptions",
            by="mesanet.closed_form_has_the_lower_loss",
            only_if={"its own loss over all tokens is meant": "mesanet.closed_form_is_nearer_on_the_newest_pair"},
        ),
        Claim(
            "S0-88",
            "H_t + Lambda_t isn't triangular, so that solving with it costs more.",
            "line 184",
            "holds",
            by="mesanet.general_solve_multiplications",
        ),
        Claim(
            "S0-89",
            "Conjugate gradients solve it approximately.",
            "line 185",
            "holds under assumptions",
            by="mesanet.conjugate_gradients",
            only_if={"fewer than d_k steps are taken": "mesanet.one_step_of_conjugate_gradients"},
        ),
        Claim(
            "S0-90",
            "The closed form may be gone if the loss or the model changes.",
            "line 186",
            "empirical",
            would_decide="a class of losses and models to look at",
        ),
        Claim(
            "S0-91",
            "It fits all of the history, which may blur it.",
            "line 187",
            "holds under assumptions",
            by="mesanet.same_key_twice_returns_the_mean",
            only_if={"gamma = 1": "mesanet.same_key_twice_returns_the_mean_with_decay"},
        ),
        Claim(
            "S0-92",
            "The delta rule overwrites actively.",
            "line 188",
            "holds under assumptions",
            by="deltanet.overwritten",
        ),
        Claim(
            "S0-93",
            "The delta rule needn't be the weaker one for long and precise memory.",
            "line 188",
            "empirical",
            would_decide="recall tasks on trained models of both kinds",
        ),
        Claim(
            "S0-94",
            "DFW, Mamba, Mamba-2 and GLA share that the input decides what is kept, written and read.",
            "line 44",
            "empirical",
            would_decide="an agreed taxonomy",
        ),
        Claim(
            "S0-95",
            "The form that uses matrix products is the fastest on a GPU.",
            "line 101",
            "empirical",
            would_decide="timings on the GPUs in question",
        ),
        Claim(
            "S0-96",
            "The state is an archive, f the decompressor, the optimiser the compressor, the loss the quality.",
            "line 75",
            "empirical",
            would_decide="nothing: it is an analogy",
        ),
    ],
)
