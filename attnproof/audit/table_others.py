"""Subjects of smaller libraries."""

from __future__ import annotations

from attnproof.audit import adapters, scans, state_space
from attnproof.audit.adapters import composed, heads_repeated
from attnproof.audit.subjects import Expected, Instead, Library, Subject, another_formula
from attnproof.audit.table_fla import RWKV7_REPEATED
from attnproof.audit.table_transformers import AS_MAMBA2, MAMBA2
from attnproof.oracle.conventions import linear, log

OPENGDN = Library("opengdn", "opengdn", "0.1.0")
MAMBAPY = Library("mambapy", "mambapy", "1.2.0")
MINIMAMBA = Library("minimamba", "minimamba", "1.0.1")
RWKV7_HF = Library("rwkv7-hf", "rwkv7_hf", "0.9.0")
ACCELERATED_SCAN = Library("accelerated-scan", "accelerated_scan", "0.3.1")
HEADS = "queries and keys repeated for each value head"
BANK = "a scan for each entry of the state of GLA"

SUBJECTS = (
    Subject(
        "opengdn.reference",
        OPENGDN,
        "opengdn.reference:gated_delta",
        "gated_deltanet",
        "opengdn",
        heads_repeated("q", "k"),
        HEADS,
    ),
    Subject(
        "opengdn.chunkwise",
        OPENGDN,
        "opengdn.chunkwise:gated_delta_chunkwise",
        "gated_deltanet",
        "opengdn",
        heads_repeated("q", "k"),
        HEADS,
        constants={"chunk_size": 16},
        expected=Expected(
            frozenset({"gradients in norm"}),
            "Where the gates of a block multiply to less than about e^-88 but not to zero, the output is right and "
            "derivatives are NaN: cumulated gates are divided by one another for all pairs of tokens, and what is "
            "above the diagonal overflows before it is masked. Where the product is zero the function goes token by "
            "token and is right.",
        ),
    ),
    Subject(
        "rwkv7-hf.recurrent",
        RWKV7_HF,
        "rwkv7_hf.ops_rwkv7:rwkv7_recurrent",
        "rwkv7",
        {
            "r": linear("b t h k", "R"),
            "k": linear("b t h k", "K"),
            "kappa": linear("b t h k", "kappa"),
            "v": linear("b t g v", "V"),
            "w": log("b t g k", "w"),
            "a": linear("b t g k", "a"),
            "initial_state": linear("n g k v", "S"),
        },
        composed(adapters.rwkv7_recurrence, RWKV7_REPEATED),
        "a = -kappa, b = kappa . a, gates and no logarithms",
    ),
    Subject(
        "mambapy.pscan",
        MAMBAPY,
        "mambapy.pscan:pscan",
        "gla",
        "attnproof",
        scans.bank(scans.with_a_state_width),
        BANK,
    ),
    Subject(
        "mambapy.selective_scan",
        MAMBAPY,
        "mambapy.mamba:MambaBlock.selective_scan",
        "mamba2",
        MAMBA2,
        state_space.scan_method,
        AS_MAMBA2,
    ),
    Subject(
        "mambapy.selective_scan_seq",
        MAMBAPY,
        "mambapy.mamba:MambaBlock.selective_scan_seq",
        "mamba2",
        MAMBA2,
        state_space.scan_method,
        AS_MAMBA2,
    ),
    Subject(
        "minimamba.selective_scan",
        MINIMAMBA,
        "minimamba.s6:S6._selective_scan_forward",
        "mamba2",
        MAMBA2,
        state_space.forward_method,
        AS_MAMBA2,
    ),
    Subject(
        "minimamba.log_space_scan",
        MINIMAMBA,
        "minimamba.s6:S6._parallel_scan_log_space",
        "gla",
        "attnproof",
        scans.bank(scans.method_with_a_state_width),
        BANK,
        expected=another_formula(
            "Between 9 and 128 tokens the sum over earlier tokens has the inverse of the gates in between, exp(c_j - "
            "c_i) for exp(c_i - c_j), so that the past grows. It is a private method that the package itself doesn't "
            "call; `_selective_scan_forward`, which it does call, agrees.",
            Instead(
                scans.bank(scans.method_with_inverse_gates),
                "With inverse gates from 9 tokens on it is the scan.",
            ),
        ),
    ),
    Subject(
        "accelerated-scan.reference",
        ACCELERATED_SCAN,
        "accelerated_scan.ref:scan",
        "gla",
        "attnproof",
        scans.bank(scans.channels_first),
        BANK,
        expected=Expected(
            frozenset({"lengths"}),
            "It raises for a sequence of one token: the tree has no level, and one is taken all the same. From two "
            "tokens on it is right.",
            also=frozenset({"drawn inputs", "gradients"}),
        ),
    ),
)
