"""Subjects of transformers: its PyTorch functions themselves, without the decorator that swaps in other kernels.

Several models have the same function to the letter, since their files are generated from one another. It is audited
once, and that the others still have the same source is checked.
"""

from __future__ import annotations

from attnproof.audit import scans, state_space
from attnproof.audit.adapters import composed, heads_repeated, state_passed, without_gradients
from attnproof.audit.subjects import Library, Subject
from attnproof.oracle.conventions import linear, log, rate
from gpu.registry import Argument

TRANSFORMERS = Library("transformers", "transformers", "5.24.0")
DELTA = {
    "query": Argument("", "Q", "b t h k", scaled=True),
    "key": linear("b t h k", "K"),
    "value": linear("b t g v", "V"),
    "beta": linear("b t g", "beta"),
    "initial_state": linear("n g k v", "S"),
}
GATED_DELTA, KIMI = DELTA | {"g": log("b t g", "gamma")}, DELTA | {"g": log("b t g k", "alpha")}
MAMBA2 = {
    "C": linear("b t h k", "C"),
    "B": linear("b t h k", "B"),
    "x": linear("b t g v", "X"),
    "dt": linear("b t g", "Delta"),
    "A": rate("g", "a"),
}
WITH_STATE = MAMBA2 | {"initial_state": linear("n g v k", "S")}
LAST_STATE = MAMBA2 | {"returns": {"O": "b t g v", "S": "n g v k"}}
CHUNK_SCAN = {name: x for name, x in MAMBA2.items() if name != "x"} | {
    "hidden_states": linear("b t g v", "X"),
    "initial_states": linear("n g v k", "S"),
}
FINAL = {"output_final_state": True}
AS_MAMBA2 = "as Mamba-2: one A for all channels and states of a head, one call for each group of heads"


def places(models: str, function: str) -> tuple[str, ...]:
    """The function in each of several models."""
    return tuple(f"transformers.models.{model}.modeling_{model}:{function}" for model in models.split())


def _subject(name: str, models: str, function: str, derivation: str, **given: object) -> Subject:
    home, *others = places(models, function)
    return Subject(f"transformers.{name}", TRANSFORMERS, home, derivation, same_source=tuple(others), **given)  # type: ignore[arg-type]


QWEN = "qwen3_next qwen3_5 qwen3_5_moe olmo_hybrid qwen4_exp lara_mini"
KIMI_MODELS = "kimi_linear bailing_hybrid glm5_next"
MAMBA2_MODELS = "mamba2 bamba falcon_h1 granitemoehybrid nemotron_h zamba2"
MAMBA_MODELS = "mamba falcon_mamba jamba zamba"
REPEATED = composed(heads_repeated("query", "key", values="value"), state_passed)

SUBJECTS = (
    _subject(
        "gated_delta_rule.chunk",
        QWEN,
        "torch_chunk_gated_delta_rule",
        "gated_deltanet",
        layout=GATED_DELTA,
        constants=FINAL | {"chunk_size": 16},
    ),
    _subject(
        "gated_delta_rule.recurrent",
        QWEN,
        "torch_recurrent_gated_delta_rule",
        "gated_deltanet",
        layout=GATED_DELTA,
        constants=FINAL,
    ),
    _subject(
        "kimi_delta_attention.chunk",
        KIMI_MODELS,
        "chunk_kimi_delta_attention",
        "kda",
        layout=KIMI,
        adapter=REPEATED,
        called="queries and keys repeated for each value head",
        constants=FINAL | {"chunk_size": 16},
    ),
    _subject(
        "kimi_delta_attention.recurrent",
        KIMI_MODELS,
        "recurrent_kimi_delta_attention",
        "kda",
        layout=KIMI,
        adapter=REPEATED,
        called="queries and keys repeated for each value head; no state is None",
        constants=FINAL,
    ),
    _subject(
        "mamba2.chunk_scan",
        MAMBA2_MODELS,
        "mamba2_chunk_scan",
        "mamba2",
        layout=CHUNK_SCAN,
        constants={"chunk_size": 16, "return_final_states": True},
    ),
    _subject(
        "mamba2.state_update",
        MAMBA2_MODELS,
        "mamba2_selective_state_update",
        "mamba2",
        layout=WITH_STATE,
        adapter=composed(state_space.one_head_update, without_gradients),
        called="token by token, forward only",
        arrays="numpy",
    ),
    _subject(
        "mamba.selective_scan",
        MAMBA_MODELS,
        "mamba_selective_scan",
        "mamba2",
        layout=LAST_STATE,
        adapter=state_space.selective_scan,
        called=AS_MAMBA2,
    ),
    _subject(
        "mamba.state_update",
        MAMBA_MODELS,
        "mamba_selective_state_update",
        "mamba2",
        layout=WITH_STATE,
        adapter=composed(state_space.selective_update, without_gradients),
        called=f"token by token, forward only; {AS_MAMBA2}",
        arrays="numpy",
    ),
    _subject(
        "recurrent_gemma.rnn_scan",
        "recurrent_gemma",
        "RecurrentGemmaRglru._rnn_scan",
        "gla",
        layout="attnproof",
        adapter=scans.bank(scans.recurrent_gemma, with_state=True),
        called="the scan of RG-LRU for each entry of the state of GLA; no resets",
    ),
)
