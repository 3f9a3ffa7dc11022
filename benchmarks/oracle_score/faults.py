"""The planted faults: in which system, of what kind, where each was found, and what a diagnosis must say of it.

A fault of the kind "formula" is another formula, with whatever inputs; a diagnosis has to name it. The other kinds are
right on some inputs, or right but for gradients, memory or repeated calls.
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
        says: what a diagnosis must contain, one of these; empty for what isn't a formula.
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
    linear("own token left out", "formula", "S_{t-1} q", "before", "strict"),
    linear("carry not read", "state", "dropped"),
    linear("carry overwritten", "state", "dropped"),
    linear("q scaled by d_k^-1/2", "formula", "d_k^-1/2"),
    linear("scale put on the keys", "formula", "scale", source="fla 47"),
    linear("scale ignored", "formula", "scale"),
    linear("initial state ignored", "state", "initial S is ignored"),
    linear("products in TF32", "precision"),
    linear("second tile of value channels is the first", "shape"),
    features("not normalised", "formula", "denominator", "z_t", "Linear attention"),
    features("own token not in the normaliser", "formula", "z_{t-1}", "before"),
    features("normaliser starts anew in each chunk", "state", "z"),
    features("normalised by all tokens", "causality"),
    features("cumulative sum outside of autograd", "backward", source="fla 875"),
    decayed("own write fades", "formula", "gamma_t * (S", "gamma_t (S", "own write", "fades"),
    decayed("gate of the token before", "formula", "of the token before"),
    decayed("the query's gate left out", "formula", "Gamma^sh", "Gamma_shifted", "gate"),
    decayed("no decay within a chunk", "state"),
    decayed("carry doesn't fade", "state"),
    decayed("keys not faded to the chunk's end", "state"),
    decayed("gates summed up twice", "formula", "twice", source="GPU MODE, Gated DeltaNet problems"),
    decayed("gate taken to the base 2", "formula", "base 2"),
    decayed("gate not used", "formula", "isn't used", "Linear attention"),
    decayed("exp before the mask", "overflow", source="fla 77, mamba 352"),
    decayed("later gates change rounding", "causality", source="fla 1242", note="change by rounding"),
    decayed("fold of dg behind the last token", "backward", source="fla 1142"),
    decayed("dg lacks the final state's share", "backward", source="fla 459"),
    decayed("carry fades from the chunk's start, not the sequence's", "varlen", source="vllm 23279"),
    decayed("rows behind the last full chunk not written", "tail"),
    ret("turns the other way", "formula", "turn", "R_t", "transpose"),
    ret("own write turns", "formula", "own write", "(S"),
    ret("turned, and not faded", "formula", "gamma"),
    ret("the last state is turned once more", "state"),
    mamba("values without steps", "formula", "Delta"),
    mamba("steps twice", "formula", "Delta"),
    mamba("own write fades", "formula", "a_t (S", "a_t * (S", "own write", "fades"),
    mamba("step in the gate again", "formula", "a_t", "Delta"),
    mamba("sum over the wrong chunk axis", "causality", source="transformers 34817, 47246"),
    mamba("carry from the chunk before alone", "state"),
    mamba("mask of a fixed width drops the tail", "tail", source="fla 906"),
    mamba("padding fades the state", "tail", source="fla 1272"),
    mamba("exp before the mask", "overflow", source="fla 77, mamba 352"),
    mamba("final state is that of the last full chunk", "tail"),
    gated_linear("own write fades", "formula", "(S", "own write", "fades"),
    gated_linear("the query's gate left out", "formula", "gate", "S_{t-1}"),
    gated_linear("one gate for all channels", "formula", "mean", "one gate"),
    gated_linear("own token without the mask", "causality"),
    gated_linear("carry fades along the values", "state"),
    gated_linear("two exponentials with a common reference", "overflow", source="transformers 48455, flashinfer 5032"),
    gated_linear("cumulated gates clamped", "overflow"),
    gated_linear("final state stored transposed", "state", "final S is transposed", source="sgl-kernel-npu 640"),
    gated_linear("arguments read as if contiguous", "shape"),
    rwkv_6("read after the write", "formula", "S_t r", "after", "GLA"),
    rwkv_6("own token twice", "formula", "S_t r", "after", "twice"),
    rwkv_6("fades before it is read", "formula", "w_t", "fade"),
    rwkv_6("no bonus", "formula", "u"),
    rwkv_6("bonus of the first head", "shape"),
    rwkv_6("dbonus of the first batch alone", "backward"),
    rwkv_6("final state misses the last token", "state"),
    delta("beta missing in the system", "formula", "eta", "beta"),
    delta("beta missing on the right", "formula", "eta", "beta"),
    delta("sign of the system", "formula", "sign"),
    delta("first order of the inverse", "formula", "inverse", "first order"),
    delta("diagonal in the system", "formula", "diagonal"),
    delta("carry not predicted", "state"),
    delta("powers of the inverse end too early", "precision"),
    delta("system solved in bfloat16", "precision"),
    delta("system transposed", "formula", "transpose"),
    delta("dbeta divided by beta", "backward", source="attention-gym 475"),
    delta("gradient of the initial state lost", "backward"),
    delta("gradient of the initial state lost for one or two tokens", "backward", source="fla 1140"),
    delta("v overwritten", "mutation"),
    delta("strength read through a sigmoid", "formula", "sigmoid"),
    gated_delta("error before the decay", "formula", "Comba", source="fla 885"),
    gated_delta("M in the place of Gamma", "formula", "Gamma", "M", source="NVlabs/GatedDeltaNet 13, 15"),
    gated_delta("no beta on the right", "formula", "beta"),
    gated_delta("scores don't fade", "formula", "Gamma", "M"),
    gated_delta("gates summed up twice", "formula", "twice", source="GPU MODE, Gated DeltaNet problems"),
    gated_delta("scale put on the keys", "formula", "scale", source="fla 47"),
    gated_delta("carry dropped", "state", "dropped"),
    gated_delta("carry dropped between chunks", "state", "dropped"),
    gated_delta("initial state ignored where the batch is one", "state", "ignored", source="vllm 22034"),
    gated_delta("initial state read transposed", "state", "read transposed", source="vllm 40956"),
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
    gated_delta("initial state returned where there are no tokens", "aliasing"),
    gated_delta("one buffer for the outputs of all calls", "aliasing"),
    gated_delta("result kept by shape", "memory"),
    gated_delta("state in memory that isn't zeroed", "memory"),
    gated_delta("output in memory that isn't all written", "memory"),
    gated_delta("race: now and then the last chunk reads an old carry", "nondeterminism"),
    gated_delta("sums in another order in each call", "nondeterminism"),
    kimi("error before the decay", "formula", "S_{t-1} k", "predict", "decay"),
    kimi("one gate for all channels", "formula", "mean", "one gate"),
    kimi("keys not faded to the chunk's end", "state"),
    kimi("two exponentials with a common reference", "overflow", source="transformers 48455, attention-gym 394"),
    kimi("gate taken to the base 2", "formula", "base 2"),
    kimi("dg lacks the final state's share", "backward", source="fla 459"),
    com("decays before the error", "formula", "Gated DeltaNet", "decay_first", source="fla, comba/naive.py"),
    com("predicts with k", "formula", "P = K", "printed", "with K"),
    com("writes along p", "formula", "P"),
    com("sign", "formula", "sign"),
    com("gate read as linear", "formula", "as a gate, and not as its logarithm"),
    com("initial state updated in place", "mutation"),
    rwkv_7("removed after it has faded", "formula", "faded", "w_t"),
    rwkv_7("removed without a", "formula", "a_t"),
    rwkv_7("removed along k", "formula", "k_t"),
    rwkv_7("sign of what is removed", "formula", "sign"),
    rwkv_7("a in what is written", "formula", "a_t"),
    rwkv_7("read before the write", "formula", "before", "S_{t-1} r"),
    rwkv_7("kappa detached", "backward"),
    rwkv_7("initial state read transposed", "state", "read transposed", source="vllm 40956"),
    path("beta once too few", "formula", "beta"),
    path("own write reflected", "formula", "own write", "(S"),
    path("keys reflect", "formula", "W = K", "K"),
    path("reflected the other way", "formula", "sign"),
    path("initial state ignored where the batch is one", "state", "ignored", source="vllm 22034"),
    mesa("curvature doesn't fade", "formula", "H", "gamma"),
    mesa("queries not solved for", "formula", "Decayed linear attention", "H"),
    mesa("ridge squared", "formula", "Lambda"),
    mesa("ridge of the first channel", "formula", "Lambda"),
    mesa("two steps of conjugate gradients", "precision"),
    mesa("ridge detached", "backward"),
    fox("own gate too", "formula", "gate", "Gamma"),
    fox("the query's gate left out", "formula", "Gamma^sh", "Gamma"),
    fox("gates outside of the softmax", "formula", "outside", "softmax"),
    fox("gates in base 2", "formula", "base 2"),
    fox("gates not used", "formula", "isn't used", "Softmax"),
    fox("gates of the keys alone", "overflow"),
    fox("no maximum is subtracted", "overflow"),
    fox("sums not rescaled", "state"),
    fox("denominator not rescaled", "state"),
    former("keys ask", "formula", "W = K", "K"),
    former("exponentials of masked scores", "formula"),
    former("no exponential in the system", "formula", "exp"),
    former("first order of the inverse", "formula", "inverse", "first order"),
    former("sign of the system", "formula", "sign"),
    former("own token left out", "formula", "M^-", "strict"),
    former("exp before the mask", "overflow", source="fla 77, mamba 352"),
)
