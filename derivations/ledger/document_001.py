r"""Document 001: excerpts of a post on the history of linear attention. Each of its claims, and what decides it.

A claim is one sentence in our own words, with its line and the ids of the identities and facts that decide it. The
formulas that the post has between its lines are missing in the excerpts: what a sentence points at is taken from the
systems' own modules. What only this document needs is decided by the derivation of this file.
"""

from collections.abc import Callable

from sympy import Matrix, eye, sqrt, symbols
from sympy import exp as e_to
from sympy import Symbol as Scalar

from derivations.language import K, M, Q, S, Sequence, V, block, d_k, d_v, n, q, k, scalar, t, v
from derivations.language import Claim, Closed, Computed, Derivation, Document, Fact, Finding, HasShape
from derivations.language import Identity, Parameter, Rational, Recurrence, Symbol, Zeros, rank_is

# zeros beside Q, K and V: one width d_k + d_v for all of them
zeros_k, zeros_v = Zeros(n, d_k), Zeros(n, d_v)
wide_Q, wide_K, wide_V = block([[Q, zeros_v]]), block([[K, zeros_v]]), block([[zeros_k, V]])
wide = Closed((wide_Q @ wide_K.T).hadamard(M) @ wide_V)
narrow = Closed(block([[zeros_k, (Q @ K.T).hadamard(M) @ V]]))

# a linear RNN: the state is a linear function of what is written and of the state before
a, b, W, S_0 = Symbol("a"), Symbol("b"), Sequence("W", n, d_v), Parameter("S_0", d_v, d_k)
of_combined = Recurrence(S, update=S + (a * v + b * W[t]) @ k.T, readout=S @ q, initial=S_0).final()
combined = Closed(S_0 + a * V.T @ K + b * W.T @ K, name="S_n")

# with the normaliser the readout is a ratio of two states, and twice the states are read as once
z_0, x = Parameter("z_0", d_k), Parameter("x", d_k)
ratio = S_0 @ x / scalar(z_0.T @ x)
ratio_of_twice, twice_the_ratio = Closed((S_0 + S_0) @ x / scalar((z_0 + z_0).T @ x)), Closed(ratio + ratio)

PAPERS = {
    "RFA-Gate": "2103.02143",
    "S4": "2111.00396",
    "DFW": "2210.04243",
    "LRU": "2303.06349",
    "RetNet": "2307.08621",
}
"""arXiv ids: year, month and number of submission, so that they sort by date."""


def before(first: str, *later: str) -> Computed:
    """A paper was submitted before each of the others, by their arXiv ids."""

    def find() -> Finding:
        names = (first, *later)
        return Finding(
            all(float(PAPERS[first]) < float(PAPERS[name]) for name in later),
            ", ".join(f"{name} {PAPERS[name]}" for name in names),
        )

    return Computed(find, "dates")


# Mamba's gate where two channels step alike
step, a_1, a_2 = (Scalar(name, positive=True) for name in ("Delta", "A_1", "A_2"))
gate_of_equal_steps = Matrix(2, 2, [e_to(-step * a_1), e_to(-step * a_2)] * 2)


def step_of_deltanet_is_a_gate() -> Finding:
    """Whether S (I - k k^T) keeps the zeros of S, as every entrywise gate does."""
    k, state = Matrix([1, 1]), Matrix([[1, 0]])
    after = state * (eye(2) - k * k.T)
    kept = all(new == 0 for old, new in zip(state, after, strict=True) if old == 0)
    return Finding(kept, f"k = (1, 1) takes the state {state.tolist()} to {after.tolist()}")


STEP_SIZE, BETA_1, BETA_2, EPSILON = map(Rational, ("1/10", "1/2", "3/4", "1/100"))
TARGETS = (1, 3, 2)
"""What three batches of one number each pull the parameter towards."""


def adam_step(theta: Rational, first: Rational, second: Rational, steps: int) -> Rational:
    """The parameter after a step, from the two means of gradients before they are corrected for their start."""
    first, second = first / (1 - BETA_1**steps), second / (1 - BETA_2**steps)
    return theta - STEP_SIZE * first / (sqrt(second) + EPSILON)


def adam_from_history() -> list[Rational]:
    """The parameters, each step from all gradients so far."""
    theta, gradients, parameters = Rational(0), [], []
    for steps, target in enumerate(TARGETS, start=1):
        gradients.append(theta - target)
        ages = range(steps)
        first = sum((1 - BETA_1) * BETA_1**age * gradients[-1 - age] for age in ages)
        second = sum((1 - BETA_2) * BETA_2**age * gradients[-1 - age] ** 2 for age in ages)
        theta = adam_step(theta, first, second, steps)
        parameters.append(theta)
    return parameters


def adam_as_a_cell() -> list[Rational]:
    """The parameters, each step from the last state (theta, m, v, t) and the new batch alone."""
    state, parameters = (Rational(0),) * 3 + (0,), []
    for target in TARGETS:
        theta, first, second, steps = state
        gradient = theta - target
        first = BETA_1 * first + (1 - BETA_1) * gradient
        second = BETA_2 * second + (1 - BETA_2) * gradient**2
        state = (adam_step(theta, first, second, steps + 1), first, second, steps + 1)
        parameters.append(state[0])
    return parameters


def adam_is_a_cell() -> Finding:
    """Adam from the history of its gradients, and as a recurrence."""
    gaps = [(one - other).equals(0) for one, other in zip(adam_from_history(), adam_as_a_cell(), strict=True)]
    return Finding(all(gaps), f"the parameters are {[theta.n(4) for theta in adam_as_a_cell()]}")


# a state of three numbers that is trained on a batch of two pairs (key, value), by models of more than one kind
STATES = symbols("s_1:4")
BATCH = ((1, Matrix([1, 0, 2])), (2, Matrix([0, 1, 1])))


def linear_model(key: int) -> Matrix:
    """The state as a matrix of three rows, times the key."""
    return Matrix(STATES) * key


def with_layer_norm(key: int) -> Matrix:
    """Layer normalisation after that."""
    centred = linear_model(key) - Matrix([1, 1, 1]) * sum(linear_model(key)) / 3
    return centred / sqrt(centred.dot(centred) / 3)


def with_a_layer_between(key: int) -> Matrix:
    """An MLP with one hidden unit and a sigmoid: two outputs and the third zero."""
    hidden = 1 / (1 + e_to(-STATES[0] * key))
    return Matrix([STATES[1] * hidden, STATES[2] * hidden, 0])


def nonlinear(model: Callable[[int], Matrix]) -> Computed:
    """A step of gradient descent on the batch doesn't take the middle of two states to the middle of their images."""

    def find() -> Finding:
        loss = sum((model(key) - value).dot(model(key) - value) / 2 for key, value in BATCH)
        moved = Matrix([state - loss.diff(state) / 4 for state in STATES])
        one, other = Matrix([1, 2, 4]), Matrix([3, 0, 1])
        images = [moved.subs(dict(zip(STATES, at, strict=True))) for at in (one, other, (one + other) / 2)]
        gap = images[2] - (images[0] + images[1]) / 2
        off = max(abs(entry.n(30)) for entry in gap)
        return Finding(bool(off > Rational(1, 10**20)), f"off by {off.n(3)} at most")

    return Computed(find, "SymPy")


statements = Derivation(
    "document_001",
    title="Document 001, what only it says",
    summary="Widths, dates, linearity and optimisers, as far as they decide claims of document 001.",
    forms={},
    identities=[
        Identity(
            "zeros_make_widths_equal",
            wide,
            narrow,
            says="Padded with zeros, queries, keys and values have one width d_k + d_v, and the output is the same.",
        ),
        Identity(
            "states_combine_linearly",
            of_combined,
            combined,
            says="Linear attention's last state is linear in the first one and in what is written, a V + b W.",
        ),
        Identity(
            "normalised_readout_is_linear",
            ratio_of_twice,
            twice_the_ratio,
            expected="refuted",
            says="With the normaliser the output isn't linear in the states: twice both states are read as once.",
        ),
    ],
    facts=[
        Fact(
            "keys_as_values",
            HasShape((Q @ K.T).hadamard(M) @ K, (n, d_v)),
            expected="refuted",
            says="With the keys for values, outputs have the keys' width: then d_k and d_v have to be equal.",
        ),
        Fact("s4_before_retnet", before("S4", "RetNet"), says="S4 was submitted before RetNet (arXiv ids)."),
        Fact("lru_before_retnet", before("LRU", "RetNet"), says="LRU was submitted before RetNet (arXiv ids)."),
        Fact(
            "retnet_first",
            before("RetNet", "RFA-Gate", "DFW"),
            expected="refuted",
            says="RetNet wasn't the first with a decay in linear attention: the arXiv ids of RFA and DFW are lower.",
        ),
        Fact(
            "rfa_gate_first",
            before("RFA-Gate", "DFW", "RetNet"),
            says="RFA's gate was submitted before DFW and RetNet (arXiv ids).",
        ),
        Fact(
            "mamba_gate_of_equal_steps",
            rank_is(gate_of_equal_steps, 2),
            expected="refuted",
            says="Where all channels have the same Delta, Mamba's gate has rank one, and not two.",
        ),
        Fact(
            "every_matrix_form_has_a_gate",
            Computed(step_of_deltanet_is_a_gate, "arithmetic"),
            expected="refuted",
            says="DeltaNet has a matrix form, and its step is no entrywise gate: it fills in a zero of the state.",
        ),
        Fact(
            "ttt_with_layer_norm",
            nonlinear(with_layer_norm),
            says="With a layer norm in its model, TTT's step isn't affine in the state.",
        ),
        Fact(
            "ttt_with_an_mlp",
            nonlinear(with_a_layer_between),
            says="With an MLP for its model, TTT's step isn't affine in the state.",
        ),
        Fact(
            "ttt_with_neither",
            nonlinear(linear_model),
            expected="refuted",
            says="With a matrix for its model, and no layer norm, TTT's step is affine in the state.",
        ),
        Fact(
            "adam_is_a_cell",
            Computed(adam_is_a_cell, "executed"),
            says="Adam is a recurrence with the state (theta, m, v, t): no earlier gradient is looked at again.",
        ),
    ],
)


document = Document(
    "document_001",
    "A short history of linear attention, excerpts",
    claims=[
        Claim(
            "S1-01",
            "Linear attention had no advantage in BERT's time, when sequences were short.",
            "line 5",
            "empirical",
            would_decide="trained encoders of both kinds at those lengths; by count it takes n > d",
        ),
        Claim(
            "S1-02",
            "Generation with a decoder alone fits linear attention's form as an RNN.",
            "line 7",
            "holds",
            by=("linear_attention.recurrent_is_component_sum", "linear_attention.recurrent_is_matrix"),
        ),
        Claim(
            "S1-03",
            "Softmax attention is quadratic in the length.",
            "line 7",
            "holds",
            by=("softmax_attention.multiplications", "softmax_attention.exponentials"),
            note="in time; for memory see S3-01",
        ),
        Claim(
            "S1-04",
            "Q and K may have another width than V and O; making the widths equal loses nothing.",
            "line 11",
            "holds under assumptions",
            by=("document_001.zeros_make_widths_equal", "linear_attention.recurrent_is_matrix"),
            only_if={"no keys serve as values": "document_001.keys_as_values"},
        ),
        Claim(
            "S1-05",
            "The standard softmax attention is that of 'Attention Is All You Need'.",
            "line 13",
            "holds",
            by=(
                "softmax_attention.softmax_is_matrix",
                "softmax_attention.matrix_is_component_sum",
                "softmax_attention.scaled_scores",
            ),
            note="with the causal mask; its scale 1 / sqrt(d) is one of the queries",
        ),
        Claim(
            "S1-06",
            "Linear attention is a special linear RNN.",
            "line 15",
            "holds under assumptions",
            by="document_001.states_combine_linearly",
            only_if={"it has no normaliser": "document_001.normalised_readout_is_linear"},
        ),
        Claim(
            "S1-07",
            "To be normalised, the similarities k^T q must not be negative.",
            "line 17",
            "refuted",
            by=("feature_maps.weights_sum_to_one", "feature_maps.negative_weights_leave_the_hull"),
            false="feature_maps.negative_similarities_cant_be_normalised",
            note="the sum of a row must not be zero; nonnegative features aren't enough for that",
        ),
        Claim(
            "S1-08",
            "Performer and RFA start from an approximation of exp(Q K^T).",
            "line 17",
            "holds under assumptions",
            by=(
                "random_features.positive_features_are_unbiased",
                "random_features.positive_features_of_vectors",
                "random_features.trigonometric_features_are_unbiased",
                "random_features.exponential_by_the_gaussian_kernel",
            ),
            only_if={"RFA is allowed negative weights": "random_features.trigonometric_weights_are_nonnegative"},
            note="Performer's features are positive, RFA's cosines aren't; each has the exponential for its mean",
        ),
        Claim(
            "S1-09",
            "Normalising along the sequence doesn't quite avoid numerical instability.",
            "line 19",
            "holds",
            by=(
                "feature_maps.slope_of_a_normalised_weight",
                "feature_maps.slope_is_unbounded",
                "feature_maps.slope_of_softmax",
            ),
        ),
        Claim(
            "S1-10",
            "Normalising the output afterwards is better.",
            "line 19",
            "empirical",
            would_decide="training runs with either normalisation",
        ),
        Claim(
            "S1-11",
            "Decays were there before RetNet, in LRU and in state space models.",
            "line 21",
            "holds",
            by=(
                "document_001.s4_before_retnet",
                "document_001.lru_before_retnet",
                "lru.recurrent_is_convolution",
                "s4.recurrent_is_convolution",
            ),
        ),
        Claim(
            "S1-12",
            "RetNet was the first to combine a decay with linear attention.",
            "line 21",
            "refuted",
            by=("document_001.rfa_gate_first", "rfa_gate.recurrent_is_matrix"),
            false="document_001.retnet_first",
            note="RFA's gate is a decay of linear attention in 2021, DFW's in 2022",
        ),
        Claim(
            "S1-13",
            "A decay forgets what is far away and keeps what is recent.",
            "line 23",
            "holds under assumptions",
            by=("decay.retention_is_component_sum", "retnet.weights_vanish"),
            only_if={"|gamma| < 1": "retnet.weights_vanish_above_one"},
        ),
        Claim(
            "S1-14",
            "So that it usually works better.",
            "line 23",
            "empirical",
            would_decide="language models trained with and without a decay",
        ),
        Claim(
            "S1-15",
            "RoPE on Q and K makes the decay complex, gamma e^(i theta).",
            "line 25",
            "holds under assumptions",
            by=("retnet.complex_decay", "retnet.recurrent_is_matrix"),
            only_if={"the real part is taken": "retnet.imaginary_part_is_zero"},
        ),
        Claim(
            "S1-16",
            "Seen from LRU, these are complex eigenvalues.",
            "line 25",
            "holds",
            by=("retnet.eigenvalues", "lru.eigenvalues", "lru.real_state"),
        ),
        Claim(
            "S1-17",
            "RoPE helps linear attention somewhat.",
            "line 27",
            "empirical",
            would_decide="linear attention trained with and without RoPE",
        ),
        Claim(
            "S1-18",
            "The general way to run in parallel is a prefix sum by an associative scan.",
            "line 29",
            "holds",
            by=(
                "deltanet.scan_operator",
                "deltanet.scan_operator_is_associative",
                "decay.recurrent_is_associative_scan",
            ),
        ),
        Claim(
            "S1-19",
            "That general way isn't efficient on GPUs, matrix products are.",
            "line 31",
            "empirical",
            would_decide="timings of both on the GPUs in question",
        ),
        Claim(
            "S1-20",
            "Only a forget gate that is an outer product allows a form by matrix products.",
            "line 33",
            "refuted",
            by=("deltanet.recurrent_is_matrix", "path_attention.recurrent_is_matrix"),
            false="document_001.every_matrix_form_has_a_gate",
            note="true of gates that act entry by entry (document 000); the delta rule's transition isn't one",
        ),
        Claim(
            "S1-21",
            "Mamba's forget gate isn't an outer product.",
            "line 33",
            "holds under assumptions",
            by=("dfw.mamba_minor", "dfw.mamba_minor_is_not_zero"),
            only_if={"the channels have different steps Delta": "document_001.mamba_gate_of_equal_steps"},
        ),
        Claim(
            "S1-22",
            "Mamba-2 and GLA changed it into one.",
            "line 33",
            "holds",
            by=("dfw.mamba2_gate", "dfw.gla_gate", "dfw.rank_one_gates_multiply", "gla.gate_of_the_whole_state"),
        ),
        Claim(
            "S1-23",
            "Optimisers such as SGD and Adam are RNNs of the parameters.",
            "line 35",
            "holds",
            by=("deltanet.gradient_step", "document_001.adam_is_a_cell"),
        ),
        Claim(
            "S1-24",
            "This has been known since 2017, when an RNN was used to imitate a better optimiser.",
            "line 37",
            "empirical",
            would_decide="the literature of that time",
        ),
        Claim(
            "S1-25",
            "TTT is about non-linear RNNs by mini-batches.",
            "line 39",
            "holds under assumptions",
            by=(
                "document_001.ttt_with_layer_norm",
                "document_001.ttt_with_an_mlp",
                "ttt_linear.gradient_of_the_batch",
                "ttt_linear.primal_is_dual",
            ),
            only_if={"the model has a layer norm, or is an MLP": "document_001.ttt_with_neither"},
        ),
        Claim(
            "S1-26",
            "Titans adds momentum to TTT's gradient descent.",
            "line 39",
            "holds",
            by=("titans.gradient_of_the_loss", "titans.momentum_is_a_heavy_ball", "titans.without_momentum"),
            note="and weight decay",
        ),
        Claim(
            "S1-27",
            "'Test-Time Training Done Right' takes large batches, and TTT with Muon.",
            "line 39",
            "holds",
            by=(
                "lact.gradient_of_the_block",
                "lact.last_state_is_linear_attention",
                "lact.step_of_singular_values",
                "lact.five_tuned_steps",
            ),
            note="Muon's step takes the singular values of a gradient to about one, by Newton and Schulz",
        ),
    ],
)
