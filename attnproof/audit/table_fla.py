"""Subjects of fla-core: its naive references in PyTorch.

Importing `fla.ops` needs Triton, whose kernels it defines; the references themselves need Torch alone, so that their
modules are loaded from the installed files.
"""

from __future__ import annotations

from attnproof.audit import adapters, scans
from attnproof.audit.adapters import composed, heads_first, heads_repeated, padded, without_gradients
from attnproof.audit.subjects import Expected, Instead, Library, Subject, another_formula
from attnproof.oracle.conventions import linear, log
from gpu.registry import Argument

FLA = Library("fla-core", "fla", "0.6.0", by_file=True)
FINAL = {"output_final_state": True}
REPEATED = heads_repeated("q", "k")
COMBA = heads_repeated("q", "k", "p")
RWKV7_REPEATED = heads_repeated("r", "k", "kappa")
SCALED = Argument("", "Q", "b t h k", scaled=True)
DELTA = {
    "q": SCALED,
    "k": linear("b t h k", "K"),
    "v": linear("b t g v", "V"),
    "beta": linear("b t g", "eta"),
}
STATE = {"initial_state": linear("n g k v", "S")}
RWKV7 = STATE | {
    "r": Argument("", "R", "b t h k", scaled=True),
    "k": linear("b t h k", "K"),
    "kappa": linear("b t h k", "kappa"),
    "v": linear("b t g v", "V"),
    "w": log("b t g k", "w"),
    "a": linear("b t g k", "a"),
}
RWKV6 = {
    "k": linear("b t h k", "K"),
    "v": linear("b t g v", "V"),
    "w": log("b t g k", "w"),
    "u": linear("g k", "u"),
}
HEADS = "queries and keys repeated for each value head"
FIRST = f"{HEADS}; heads before tokens"


def _subject(name: str, home: str, derivation: str, **given: object) -> Subject:
    return Subject(f"fla-core.{name}", FLA, f"fla.ops.{home}", derivation, **given)  # type: ignore[arg-type]


SUBJECTS = (
    _subject(
        "linear_attn.recurrent",
        "linear_attn.naive:naive_recurrent_linear_attn",
        "linear_attention",
        adapter=REPEATED,
        called=HEADS,
    ),
    _subject(
        "linear_attn.chunk",
        "linear_attn.naive:naive_chunk_linear_attn",
        "linear_attention",
        adapter=composed(REPEATED, padded(64)),
        called=f"{HEADS}; padded to a multiple of 64",
        chunk_size=64,
    ),
    _subject(
        "simple_gla.recurrent",
        "simple_gla.naive:naive_recurrent_simple_gla",
        "decay",
        adapter=REPEATED,
        called=HEADS,
    ),
    _subject(
        "simple_gla.chunk",
        "simple_gla.naive:naive_chunk_simple_gla",
        "decay",
        adapter=REPEATED,
        called=HEADS,
        constants={"chunk_size": 16},
    ),
    _subject(
        "simple_gla.parallel",
        "simple_gla.naive:naive_parallel_simple_gla",
        "decay",
        adapter=REPEATED,
        called=HEADS,
    ),
    _subject(
        "gla.recurrent",
        "gla.naive:naive_recurrent_gla",
        "gla",
        layout="transformers",
        adapter=REPEATED,
        called=HEADS,
    ),
    _subject(
        "delta_rule.recurrent",
        "delta_rule.naive:delta_rule_recurrence",
        "deltanet",
        layout=DELTA | STATE,
        adapter=composed(heads_first, REPEATED),
        called=FIRST,
    ),
    _subject(
        "delta_rule.chunk",
        "delta_rule.naive:delta_rule_chunkwise",
        "deltanet",
        layout=DELTA | {"returns": {"O": "b t g v", "S": "n g k v"}},
        adapter=composed(heads_first, padded(64), REPEATED),
        called=f"{FIRST}; padded to a multiple of the block",
        constants={"chunk_size": 16},
    ),
    _subject(
        "delta_rule.parallel",
        "delta_rule.naive:delta_rule_parallel",
        "deltanet",
        layout=DELTA,
        adapter=composed(heads_first, padded(32), REPEATED),
        called=f"{FIRST}; padded to a multiple of the block",
        constants={"BM": 32, "BN": 16},
    ),
    _subject(
        "gated_delta_rule.recurrent",
        "gated_delta_rule.naive:naive_recurrent_gated_delta_rule",
        "gated_deltanet",
        adapter=REPEATED,
        called=HEADS,
    ),
    _subject(
        "gated_delta_rule.chunk",
        "gated_delta_rule.naive:naive_chunk_gated_delta_rule",
        "gated_deltanet",
        adapter=REPEATED,
        called=HEADS,
        constants={"chunk_size": 16},
    ),
    _subject(
        "gated_delta_product.one_householder",
        "gated_delta_product.naive:naive_recurrent_gated_delta_product",
        "gated_deltanet",
        adapter=REPEATED,
        called=f"{HEADS}; one Householder factor, which is Gated DeltaNet",
        constants={"num_householder": 1},
    ),
    _subject("kda.recurrent", "kda.naive:naive_recurrent_kda", "kda"),
    _subject(
        "kda.chunk",
        "kda.naive:naive_chunk_kda",
        "kda",
        adapter=padded(64),
        called="padded to a multiple of the block",
        constants={"chunk_size": 16},
        expected=Expected(
            frozenset({"gradients", "gradients in norm"}),
            "With strong gates the output is right and derivatives are NaN: exp of the difference of two cumulated log "
            "gates is taken for all pairs of tokens of a block and masked afterwards. For a later token it overflows "
            "where the gates in between multiply to less than e^-88, and the backward pass has inf * 0.",
        ),
    ),
    _subject(
        "comba.recurrent",
        "comba.naive:naive_recurrent_comba",
        "comba",
        adapter=COMBA,
        called=HEADS,
        expected=another_formula(
            "It decays the state before it predicts, S_t = gamma_t S_{t-1} + beta_t (v_t - gamma_t S_{t-1} p_t) "
            "k_t^T, where Comba as the paper (arXiv 2506.02475) and the library's chunked reference and kernels have "
            "it predicts with the state before the decay. The two references in the file therefore differ for every "
            "input with gates other than one and a state that isn't zero.",
            Instead(
                composed(COMBA, adapters.predicting_vectors_divided),
                "With p_t divided by gamma_t before the call it is Comba.",
            ),
        ),
    ),
    _subject(
        "comba.chunk",
        "comba.naive:naive_chunk_comba",
        "comba",
        adapter=COMBA,
        called=HEADS,
        constants={"chunk_size": 16},
    ),
    _subject(
        "rwkv6.recurrent",
        "rwkv6.recurrent_naive:naive_recurrent_rwkv6",
        "rwkv6",
        layout=RWKV6 | STATE | {"q": linear("b t h k", "R")},
        adapter=composed(heads_first, REPEATED),
        called=FIRST,
        constants=FINAL | {"scale": 1.0},
    ),
    _subject(
        "rwkv6.chunk",
        "rwkv6.chunk_naive:naive_chunk_rwkv6",
        "rwkv6",
        layout=RWKV6 | {"q": linear("b t h k", "R")},
        adapter=composed(heads_first, padded(64), REPEATED, without_gradients),
        called=f"{FIRST}; padded to a multiple of the block; forward only, since Torch refuses the backward pass of "
        "three blocks and more, whose states are written into one array",
        constants={"chunk_size": 16},
        arrays="numpy",
    ),
    _subject(
        "dplr.recurrent",
        "generalized_delta_rule.dplr.naive:dplr_recurrence",
        "rwkv7",
        layout=RWKV7,
        adapter=composed(heads_first, adapters.low_rank_pair, RWKV7_REPEATED),
        called="RWKV-7 with alpha = -kappa, beta = kappa . a; heads before tokens",
    ),
    _subject(
        "dplr.chunk",
        "generalized_delta_rule.dplr.naive:dplr_chunkwise",
        "rwkv7",
        layout=RWKV7,
        adapter=composed(heads_first, padded(32), adapters.low_rank_pair, RWKV7_REPEATED),
        called="RWKV-7 with alpha = -kappa, beta = kappa . a; heads before tokens; padded to a multiple of the block",
        chunk_size=32,
    ),
    _subject(
        "hgrn.recurrent",
        "hgrn.naive:naive_recurrent_hgrn",
        "gla",
        layout="attnproof",
        adapter=scans.bank(scans.hgrn, with_state=True),
        called="HGRN's scan for each entry of the state of GLA",
    ),
    _subject(
        "hgrn.chunk",
        "hgrn.naive:naive_chunk_hgrn",
        "gla",
        layout="attnproof",
        adapter=scans.bank(scans.hgrn_in_chunks, with_state=True),
        called="HGRN's scan for each entry of the state of GLA, padded to a multiple of the block",
        expected=another_formula(
            "It raises unless the sequence is one block long: the gates are viewed as (B, chunk_size, D) to be "
            "cumulated. For one block it is right.",
        ),
    ),
    _subject(
        "forgetting_attn",
        "forgetting_attn.naive:naive_forgetting_attn",
        "forgetting_attention",
        adapter=REPEATED,
        called=HEADS,
    ),
    _subject(
        "path_attn.unreflected",
        "path_attn.naive:naive_path_attn",
        "forgetting_attention",
        layout={
            "q": SCALED,
            "k": linear("b t h k", "K"),
            "v": linear("b t g v", "V"),
            "g": log("b t g", "gamma"),
        },
        adapter=adapters.unreflected,
        called="without reflections, w = 0, which leaves forgetting attention; scale = d_k^-1/2",
        constants={"chunk_size": 16},
        expected=another_formula(
            "A question of convention: the log gates are added to the scores before these are multiplied by `scale`, "
            "so that a gate counts as its `scale`-th power. The kernels of the library do the same, and the paper of "
            "PaTH (arXiv 2505.16381) has no scale; in the library's `naive_forgetting_attn` the scores alone are "
            "scaled. With scale = 1 the two are one formula.",
            Instead(
                adapters.unreflected_gates_divided,
                "With log gates divided by `scale` before the call it is forgetting attention.",
            ),
        ),
    ),
)
