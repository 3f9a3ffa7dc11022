"""Subjects of fla-core that are Triton kernels: on a CPU, Triton's interpreter runs them (`attnproof.triton_on_cpu`).

Blocks have 64 tokens, as the kernels have them. The interpreter doesn't compute in bfloat16.
"""

from __future__ import annotations

from attnproof.audit import adapters, fixed_decay
from attnproof.audit.adapters import composed, heads_repeated, without_gradients
from attnproof.audit.stated import Stated
from attnproof.audit.subjects import NOTHING, Adapter, Expected, Library, Subject, as_it_is
from attnproof.audit.table_fla import COMBA, HEADS, REPEATED, RWKV7, RWKV7_REPEATED
from attnproof.oracle.conventions import Layout, linear

FLA = Library("fla-core", "fla", "0.6.0", triton="3.7.1")
UNSCALED_RWKV7 = RWKV7 | {"r": linear("b t h k", "R")}
RWKV6_REPEATED = heads_repeated("r", "k")
HALF = "in float16 with sums in float32, since it refuses float32"
FORWARD = f"{HEADS}; forward only, since its backward pass raises NotImplementedError"


def _kernel(
    function: str,
    module: str,
    derivation: str,
    adapter: Adapter = REPEATED,
    layout: Layout = "fla",
    called: str = HEADS,
    arrays: str = "torch",
    dtype: str = "float32",
    expected: Expected = NOTHING,
    **constants: object,
) -> Subject:
    return Subject(
        f"fla-core.{function}",
        FLA,
        f"fla.ops.{module}:{function}",
        derivation,
        layout,
        adapter,
        called,
        constants,
        chunk_size=64,
        arrays=arrays,
        dtype=dtype,
        expected=expected,
    )


SUBJECTS: tuple[Subject, ...] = (
    _kernel("chunk_linear_attn", "linear_attn.chunk", "linear_attention", normalize=False),
    _kernel("fused_chunk_linear_attn", "linear_attn.fused_chunk", "linear_attention", normalize=False),
    _kernel("fused_recurrent_linear_attn", "linear_attn.fused_recurrent", "linear_attention", normalize=False),
    _kernel("chunk_simple_gla", "simple_gla.chunk", "decay"),
    _kernel("fused_chunk_simple_gla", "simple_gla.fused_chunk", "decay"),
    _kernel("fused_recurrent_simple_gla", "simple_gla.fused_recurrent", "decay"),
    _kernel("parallel_simple_gla", "simple_gla.parallel", "decay"),
    _kernel("chunk_gla", "gla.chunk", "gla"),
    _kernel("fused_recurrent_gla", "gla.fused_recurrent", "gla"),
    _kernel("chunk_delta_rule", "delta_rule.chunk", "deltanet", called=f"{HEADS}; {HALF}", dtype="float16"),
    _kernel("fused_recurrent_delta_rule", "delta_rule.fused_recurrent", "deltanet"),
    _kernel("chunk_gated_delta_rule", "gated_delta_rule.chunk", "gated_deltanet"),
    _kernel(
        "fused_recurrent_gated_delta_rule",
        "gated_delta_rule.fused_recurrent",
        "gated_deltanet",
        composed(REPEATED, without_gradients),
        called=FORWARD,
        arrays="numpy",
    ),
    _kernel(
        "chunk_gated_delta_product",
        "gated_delta_product.chunk",
        "gated_deltanet",
        called=f"{HEADS}; one Householder factor, which is Gated DeltaNet; {HALF}",
        dtype="float16",
        num_householder=1,
    ),
    _kernel("chunk_kda", "kda.chunk", "kda", as_it_is, called="as it is"),
    _kernel(
        "fused_recurrent_kda",
        "kda.fused_recurrent",
        "kda",
        without_gradients,
        called="as it is; it has no backward pass",
        arrays="numpy",
    ),
    _kernel("chunk_comba", "comba.chunk", "comba", COMBA),
    _kernel(
        "fused_recurrent_comba",
        "comba.fused_recurrent",
        "comba",
        composed(COMBA, without_gradients),
        called=FORWARD,
        arrays="numpy",
    ),
    _kernel("chunk_rwkv6", "rwkv6.chunk", "rwkv6", RWKV6_REPEATED),
    _kernel(
        "fused_recurrent_rwkv6",
        "rwkv6.fused_recurrent",
        "rwkv6",
        RWKV6_REPEATED,
        expected=Expected(
            frozenset({"gradients"}),
            "A loss on the last state has no part in the derivatives by k, v and w: `backward(ctx, do, dht)` doesn't "
            "read dht, the cotangent of that state. With a loss on the output alone all derivatives are right. The "
            "library's chunked kernel reads it.",
            also=frozenset({"gradients in norm"}),
        ),
    ),
    _kernel(
        "chunk_rwkv7",
        "rwkv7.chunk",
        "rwkv7",
        composed(adapters.rwkv7_kernel, RWKV7_REPEATED),
        UNSCALED_RWKV7,
        "a = -kappa, b = kappa . a",
        scale=1.0,
        output_final_state=True,
    ),
    _kernel(
        "fused_recurrent_rwkv7",
        "rwkv7.fused_recurrent",
        "rwkv7",
        composed(adapters.rwkv7_kernel, RWKV7_REPEATED, without_gradients),
        UNSCALED_RWKV7,
        "a = -kappa, b = kappa . a; forward only, since its backward pass raises NotImplementedError",
        arrays="numpy",
        scale=1.0,
        output_final_state=True,
    ),
    _kernel("parallel_forgetting_attn", "forgetting_attn.parallel", "forgetting_attention"),
    _kernel(
        "parallel_path_attn",
        "path_attn.parallel",
        "path_fox",
        composed(adapters.channels_padded(16), heads_repeated("q", "k", "w")),
        called=f"{HEADS}; channels padded to 16, the least width that it takes",
        expected=Expected(
            frozenset({"gate sweep"}),
            "A question of precision: of float32 inputs, `w` and what is computed of it are rounded to float16 before "
            "queries go through the reflections of earlier blocks, so that from the second block on, with weak gates, "
            "errors are some hundred times what sums in float32 explain.",
            also=frozenset({"limits", "drawn inputs"}),
        ),
        scale=1.0,
    ),
    Stated(
        "fla-core.chunk_retention",
        FLA,
        "fla.ops.retention.chunk:chunk_retention",
        "decay",
        adapter=fixed_decay.retention_kernel,
        called="its own decays 1 - 2^(-5 - h); no rotation; scale = 1",
        forms=("recurrence", "chunkwise"),
        fixed=fixed_decay.retention_gates,
    ),
)
