"""The planted faults: in which system, of what kind, where each was found, and what a diagnosis must say of it.

A fault of the kind "formula" is another formula, the same for every token; a diagnosis has to name it, and has to name
some of the faults of states too. The other kinds depend on where chunks end or on sizes, are no more than inaccurate,
or are right but for gradients, memory or repeated calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.oracle_score.kernels import (
    calls,
    channel_gates,
    decay,
    delta_rules,
    exponentials,
    gradient_faults,
    linear_attention,
    mamba2,
    memory_faults,
    mesanet,
    packing_faults,
    rwkv7,
    shape_faults,
    state_faults,
)
from benchmarks.oracle_score.kernels.frame import Core, Kernel, kernel_of

CORES: dict[str, Core] = {
    "linear_attention": linear_attention.linear_attention,
    "feature_maps": linear_attention.feature_maps,
    "decay": decay.decay,
    "retnet": decay.retnet,
    "mamba2": mamba2.mamba2,
    "gla": channel_gates.gla,
    "rwkv6": channel_gates.rwkv6,
    "deltanet": delta_rules.deltanet,
    "gated_deltanet": delta_rules.gated_deltanet,
    "kda": delta_rules.kda,
    "path_attention": delta_rules.path_attention,
    "comba": delta_rules.comba,
    "rwkv7": rwkv7.rwkv7,
    "mesanet": mesanet.mesanet,
    "forgetting_attention": exponentials.forgetting_attention,
    "deltaformer": exponentials.deltaformer,
}
"""By system: its kernel's core."""
AROUND_A_KERNEL = (state_faults, shape_faults, packing_faults, memory_faults, gradient_faults)
"""Importing them fills `calls.AROUND`."""
KINDS = (
    "formula",
    "chunk",
    "state",
    "causality",
    "tail",
    "shape",
    "backward",
    "varlen",
    "overflow",
    "precision",
    "mutation",
    "aliasing",
    "memory",
    "nondeterminism",
)


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        system: the name of the derivation.
        name: what is wrong.
        kind: one of KINDS.
        says: what a diagnosis must contain, one of these; empty where it need not name the fault.
        source: where it was found, "" where it was made up.
        note: what a report that holds must remark, of a fault that is no more than rounding.
    """

    system: str
    name: str
    kind: str
    says: tuple[str, ...] = ()
    source: str = ""
    note: str = ""

    @property
    def id(self) -> str:
        """`system: name`."""
        return f"{self.system}: {self.name}"

    def kernel(self) -> Kernel:
        """A new kernel with the fault; what it keeps from call to call is its own."""
        honest = kernel_of(self.system, CORES[self.system])
        if self.name in calls.AROUND:
            return calls.wrapped(honest, self.name)
        return kernel_of(self.system, CORES[self.system], self.name)


def _of(system: str) -> Callable[..., Fault]:
    return lambda name, kind, *says, source="", note="": Fault(system, name, kind, says, source, note)


linear, features, decayed, ret, mamba, gated_linear = map(
    _of, ("linear_attention", "feature_maps", "decay", "retnet", "mamba2", "gla")
)
rwkv_6, rwkv_7, delta, gated_delta, kimi, com = map(
    _of, ("rwkv6", "rwkv7", "deltanet", "gated_deltanet", "kda", "comba")
)
path, mesa, fox, former = map(_of, ("path_attention", "mesanet", "forgetting_attention", "deltaformer"))

FAULTS: tuple[Fault, ...] = (
    linear("sees its whole chunk", "causality"),
    linear("own token left out", "formula", "o_t = S_{t-1} q"),
    linear("carry not read", "chunk"),
    linear("carry overwritten", "state", "what is carried is dropped after every 16"),
    linear("q scaled by d_k^-1/2", "formula", "q is scaled by d_k^-1/2 too much"),
    linear("scale put on the keys", "formula", "k is scaled", "scale is put on k", source="fla 47"),
    linear("scale ignored", "formula", "scale is ignored", "scale isn't used"),
    linear("initial state ignored", "state", "initial S is ignored"),
    linear("products in TF32", "precision"),
    linear("second tile of value channels is the first", "shape"),
    features("not normalised", "formula", "Linear attention:", "without the factor", "not divided"),
    features("own token not in the normaliser", "formula", "z_{t-1}", "M⁻) 𝟏"),
    features("normaliser starts anew in each chunk", "chunk"),
    features("normalised by all tokens", "causality"),
    features("cumulative sum outside of autograd", "backward", source="fla 875"),
    decayed("own write fades", "formula", "own write", "gamma_t (S_{t-1} + v_t k_tᵀ)", "gamma_t v_t k_tᵀ"),
    decayed("gate of the token before", "formula", "g of the token before"),
    decayed("the query's gate left out", "formula", "S_{t-1} q_t", "without its own gate", "RWKV-6"),
    decayed("no decay within a chunk", "chunk"),
    decayed("carry doesn't fade", "chunk"),
    decayed("keys not faded to the chunk's end", "chunk"),
    decayed("gates summed up twice", "formula", "twice", "summed up", source="GPU MODE, Gated DeltaNet problems"),
    decayed("gate taken to the base 2", "formula", "g is taken to the base 2"),
    decayed("gate not used", "formula", "g isn't used", "Linear attention:"),
    decayed("exp before the mask", "overflow", source="fla 77, mamba 352"),
    decayed("later gates change rounding", "causality", source="fla 1242", note="change by rounding"),
    decayed("fold of dg behind the last token", "backward", source="fla 1142"),
    decayed("dg lacks the final state's share", "backward", source="fla 459"),
    decayed("carry fades from the chunk's start, not the sequence's", "varlen", source="vllm 23279"),
    decayed("rows behind the last full chunk not written", "tail"),
    ret("turns the other way", "formula", "the other way", "s_t; s_t, c_t] transposed"),
    ret("own write turns", "formula", "own write", "(S_{t-1} + v_t k_tᵀ)"),
    ret("turned, and not faded", "formula", "g isn't used"),
    ret("the last state is turned once more", "state"),
    mamba("values without steps", "formula", "without the factor Delta_t"),
    mamba("steps twice", "formula", "factor Delta_t twice"),
    mamba("own write fades", "formula", "own write", "a_t (S_{t-1} +", "a_t*Delta_t x_t", "Delta_t*a_t x_t"),
    mamba("step in the gate again", "formula", "a_t**Delta_t", "times the step", "step in the gate"),
    mamba("sum over the wrong chunk axis", "causality", source="transformers 34817, 47246"),
    mamba("carry from the chunk before alone", "chunk"),
    mamba("mask of a fixed width drops the tail", "tail", source="fla 906"),
    mamba("padding fades the state", "tail", source="fla 1272"),
    mamba("exp before the mask", "overflow", source="fla 77, mamba 352"),
    mamba("final state is that of the last full chunk", "tail"),
    gated_linear("own write fades", "formula", "own write", "(S_{t-1} + v_t k_tᵀ)"),
    gated_linear("the query's gate left out", "formula", "S_{t-1} q_t", "without its own gate", "RWKV-6"),
    gated_linear("one gate for all channels", "formula", "one gate", "mean of the channels"),
    gated_linear("own token without the mask", "causality"),
    gated_linear("carry fades along the values", "state"),
    gated_linear("two exponentials with a common reference", "overflow", source="transformers 48455, flashinfer 5032"),
    gated_linear("cumulated gates clamped", "overflow"),
    gated_linear("final state stored transposed", "state", "final S is transposed", source="sgl-kernel-npu 640"),
    gated_linear("arguments read as if contiguous", "shape"),
    rwkv_6("read after the write", "formula", "o_t = S_t r_t", "GLA", "Gated linear attention"),
    rwkv_6("own token twice", "formula", "o_t = S_t r_t +", "twice", "after"),
    rwkv_6("fades before it is read", "formula", "S_{t-1} Diag(w_t) r_t", "before it is read", "S_{t-1} diag(w_t) r_t"),
    rwkv_6("no bonus", "formula", "u isn't used", "readout: without u"),
    rwkv_6("bonus of the first head", "shape"),
    rwkv_6("dbonus of the first batch alone", "backward"),
    rwkv_6("final state misses the last token", "state"),
    delta(
        "beta missing in the system",
        "formula",
        "(I - k_t k_tᵀ) + eta_t v_t k_tᵀ",
        "eta is missing where the state is removed",
    ),
    delta(
        "beta missing on the right",
        "formula",
        "eta is missing where values are written",
        "PaTH attention (recurrence_with_beta) with W = K",
    ),
    delta("sign of the system", "formula", "sign"),
    delta("first order of the inverse", "precision"),
    delta("diagonal in the system", "formula", "Longhorn"),
    delta("carry not predicted", "chunk"),
    delta("powers of the inverse end too early", "precision"),
    delta("system solved in bfloat16", "precision"),
    delta("system transposed", "causality"),
    delta("dbeta divided by beta", "backward", source="attention-gym 475"),
    delta("gradient of the initial state lost", "backward"),
    delta("gradient of the initial state lost for one or two tokens", "backward", source="fla 1140"),
    delta("v overwritten", "mutation"),
    delta("strength read through a sigmoid", "formula", "sigmoid"),
    gated_delta("error before the decay", "formula", "Comba", source="fla 885"),
    gated_delta("M in the place of Gamma", "formula", "M⁻", source="NVlabs/GatedDeltaNet 13, 15"),
    gated_delta("no beta on the right", "formula", "beta is missing where values are written"),
    gated_delta("scores don't fade", "chunk"),
    gated_delta("gates summed up twice", "formula", "twice", "summed up", source="GPU MODE, Gated DeltaNet problems"),
    gated_delta("scale put on the keys", "formula", "k is scaled", "scale is put on k", source="fla 47"),
    gated_delta("carry dropped", "state", "what is carried is dropped after every 16"),
    gated_delta("carry dropped between chunks", "state", "what is carried is dropped after every 16"),
    gated_delta("initial state ignored where the batch is one", "state", "initial S is ignored", source="vllm 22034"),
    gated_delta("initial state read transposed", "state", "initial S is read transposed", source="vllm 40956"),
    gated_delta("final state stored transposed", "state", "final S is transposed", source="sgl-kernel-npu 640"),
    gated_delta("state handed on in bfloat16", "precision"),
    gated_delta("query heads in the wrong order", "shape"),
    gated_delta("strengths of the first head", "shape"),
    gated_delta("fold of dg behind the last token", "backward", source="fla 1142"),
    gated_delta("dg lacks the final state's share", "backward", source="fla 459"),
    gated_delta("final state detached", "backward"),
    gated_delta("upstream gradient read as if contiguous", "backward"),
    gated_delta("gradient of keys doubled for grouped heads", "backward"),
    gated_delta("dbeta lost in the last chunk", "backward"),
    gated_delta("carry fades from the chunk's start, not the sequence's", "varlen", source="vllm 23279"),
    gated_delta("an empty sequence gives NaN", "varlen", source="fla 103"),
    gated_delta("first sequence's state for all", "varlen"),
    gated_delta("boundaries of sequences not seen", "varlen"),
    gated_delta("padding fades the state of shorter sequences", "varlen", source="fla 1272"),
    gated_delta("offsets counted from one", "varlen"),
    gated_delta("gates summed up in place", "mutation"),
    gated_delta("initial state updated in place", "mutation"),
    gated_delta("one buffer for the outputs of all calls", "aliasing"),
    gated_delta("result kept by shape", "memory"),
    gated_delta("state in memory that isn't zeroed", "memory"),
    gated_delta("output in memory that isn't all written", "memory"),
    gated_delta("race: now and then the last chunk reads an old carry", "nondeterminism"),
    gated_delta("sums in another order in each call", "nondeterminism"),
    kimi("error before the decay", "formula", "(v_t - S_{t-1} k_t)"),
    kimi("one gate for all channels", "formula", "one gate", "mean of the channels", "Gated DeltaNet"),
    kimi("keys not faded to the chunk's end", "chunk"),
    kimi("two exponentials with a common reference", "overflow", source="transformers 48455, attention-gym 394"),
    kimi("gate taken to the base 2", "formula", "g is taken to the base 2"),
    kimi("dg lacks the final state's share", "backward", source="fla 459"),
    com(
        "decays before the error",
        "formula",
        "gamma_t S_{t-1} p_t",
        "decay_first",
        "Gated DeltaNet",
        source="fla, comba/naive.py",
    ),
    com("predicts with k", "formula", "P = K", "(v_t - S_{t-1} k_t)", "k for p", "k_t for p_t"),
    com("keys and predictors exchanged", "formula", "k and p are exchanged"),
    com("sign", "formula", "sign of"),
    com("gate read as linear", "formula", "as a gate, and not as its logarithm"),
    com("initial state updated in place", "mutation"),
    rwkv_7("removed after it has faded", "formula", "after it has faded", "w_t) kappa_t"),
    rwkv_7("removed without a", "formula", "without the factor a_t", "without a_t"),
    rwkv_7("removed along k", "formula", "(k_t ⊙ a_t)ᵀ"),
    rwkv_7("sign of what is removed", "formula", "sign of"),
    rwkv_7("a in what is written", "formula", "factor a_t", "a_t in what is written"),
    rwkv_7("read before the write", "formula", "o_t = S_{t-1} r"),
    rwkv_7("kappa detached", "backward"),
    rwkv_7("initial state read transposed", "state", "initial S is read transposed", source="vllm 40956"),
    path("beta once too few", "formula", "beta once", "without the factor beta_t"),
    path("own write reflected", "formula", "own write", "(S_{t-1} + v_t k_tᵀ)"),
    path("keys reflect", "formula", "W = K", "(I - beta_t k_t k_tᵀ)", "k_t for w_t"),
    path("reflected the other way", "formula", "sign of"),
    path("initial state ignored where the batch is one", "state", "initial S is ignored", source="vllm 22034"),
    mesa("curvature doesn't fade", "formula", "H_t = H_{t-1} +"),
    mesa("queries not solved for", "formula", "Decayed linear attention", "o_t = G_t q_t"),
    mesa("ridge squared", "formula", "Lambda_t**2", "factor Lambda_t twice"),
    mesa("ridge of the first channel", "shape"),
    mesa("two steps of conjugate gradients", "precision"),
    mesa("ridge detached", "backward"),
    fox("own gate too", "formula", "own gate", "g of the token before"),
    fox("the query's gate left out", "formula", "Gamma^sh", "own gate"),
    fox("gates outside of the softmax", "formula", "outside", "𝟏)⁻¹ exp(Q Kᵀ + log(Γ)) V"),
    fox("gates in base 2", "formula", "g is taken to the base 2"),
    fox("gates not used", "formula", "g isn't used", "Softmax attention"),
    fox("gates of the keys alone", "overflow"),
    fox("no maximum is subtracted", "overflow"),
    fox("sums not rescaled", "chunk"),
    fox("denominator not rescaled", "chunk"),
    former("keys ask", "formula", "K for W", "k is taken for w: W = K"),
    former("mask of the system a token late", "formula", "mask"),
    former("no exponential in the system", "formula", "(I + (W Kᵀ) ⊙ M⁻)"),
    former("first order of the inverse", "precision"),
    former("sign of the system", "formula", "sign of"),
    former("own token left out", "formula", "(exp(Q Kᵀ) ⊙ M⁻)"),
    former("exp before the mask", "overflow", source="fla 77, mamba 352"),
)
