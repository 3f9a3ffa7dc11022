"""Subjects that are held against statements directly, and those that descend a loss."""

from __future__ import annotations

from attnproof.audit import fixed_decay, inner_loss
from attnproof.audit.inner_loss import InnerLoss
from attnproof.audit.stated import SQUARE, Stated
from attnproof.audit.subjects import Expected
from attnproof.audit.table_fla import FLA
from attnproof.audit.table_others import MAMBAPY
from attnproof.audit.table_transformers import TRANSFORMERS

ONE_STEP = "one token; the step that was taken, against the derivative of the loss"
TITANS = Expected(
    frozenset({"derivative of the loss"}),
    "The step isn't the derivative of the loss: `D * grad - grad.sum(-1, keepdim=True) / (rstd * D)` divides the "
    "second term alone, where the derivative through a layer norm is (D g - sum(g) - x sum(g x)) / (rstd D), as in "
    "the library's TTT-Linear, and in a line that is commented out in the function. Both references of the file have "
    "the expression, so that comparing them doesn't show it.",
)

SUBJECTS = (
    Stated(
        "transformers.minimax.lightning_attention",
        TRANSFORMERS,
        "transformers.models.minimax.modeling_minimax:MiniMaxLightningAttention",
        "decay",
        adapter=fixed_decay.lightning,
        called="the layer with identities for projections, activation, norm and gate; its own slopes; d_k = d_v",
        forms=("recurrence", "chunkwise"),
        fixed=fixed_decay.lightning_gates,
        widths=SQUARE,
    ),
    Stated(
        "transformers.rwkv.linear_attention",
        TRANSFORMERS,
        "transformers.models.rwkv.modeling_rwkv:rwkv_linear_attention_cpu",
        "rwkv4",
        adapter=fixed_decay.rwkv4,
        called="w is exp of what is passed; the state is multiplied by exp(max_state)",
        forms=("recurrence",),
        fixed=fixed_decay.positive_decays,
        states=2,
    ),
    Stated(
        "transformers.mamba.selective_scan_by_channel",
        TRANSFORMERS,
        "transformers.models.mamba.modeling_mamba:mamba_selective_scan",
        "mamba",
        adapter=fixed_decay.mamba,
        called="an A for every channel and state, and D",
        forms=("recurrence",),
        fixed=fixed_decay.negative_rates,
        takes_state=False,
    ),
    Stated(
        "mambapy.selective_scan_by_channel",
        MAMBAPY,
        "mambapy.mamba:MambaBlock.selective_scan",
        "mamba",
        adapter=fixed_decay.mamba_method,
        called="an A for every channel and state, and D",
        forms=("recurrence",),
        fixed=fixed_decay.negative_rates,
        takes_state=False,
        states=0,
    ),
    Stated(
        "fla-core.retention",
        FLA,
        "fla.ops.retention.naive:naive_retention",
        "decay",
        adapter=fixed_decay.retention,
        called="its own decays 1 - 2^(-5 - h); no rotation; q multiplied by d_k^1/2, since it divides by it",
        forms=("recurrence", "matrix"),
        fixed=fixed_decay.retention_gates,
        takes_state=False,
        states=0,
    ),
    Stated(
        "fla-core.mesa_net.exact",
        FLA,
        "fla.ops.mesa_net.naive:naive_mesa_net_exact",
        "mesanet",
        adapter=fixed_decay.mesa,
        called="beta = 1; one Lambda for all tokens; d_k = d_v",
        forms=("recurrence",),
        fixed=fixed_decay.constant_ridge,
        widths=SQUARE,
        states=2,
    ),
    InnerLoss(
        "fla-core.ttt_linear",
        FLA,
        "fla.ops.ttt.naive:chunk_ttt_linear_ref",
        "ttt_linear",
        adapter=inner_loss.ttt,
        called=ONE_STEP,
        factor=0.5,
    ),
    InnerLoss(
        "fla-core.titans.chunk",
        FLA,
        "fla.ops.titans.naive:chunk_titans_linear_ref",
        "titans",
        adapter=inner_loss.titans(use_chunk=True),
        called=ONE_STEP,
        needs=("fla.ops.titans.log_impl",),
        factor=1.0,
        printed=inner_loss.precedence,
        expected=TITANS,
    ),
    InnerLoss(
        "fla-core.titans.recurrent",
        FLA,
        "fla.ops.titans.naive:chunk_titans_linear_ref",
        "titans",
        adapter=inner_loss.titans(use_chunk=False),
        called=ONE_STEP,
        needs=("fla.ops.titans.log_impl",),
        factor=1.0,
        printed=inner_loss.precedence,
        expected=TITANS,
    ),
)
