r"""Forgetting attention (FoX): softmax attention whose scores fade by a gate per token.

    O = softmax(Q K^T + log Gamma) V,   log Gamma_ij = g_{j+1} + ... + g_i  for i >= j

Lin et al. 2025 (arXiv 2503.02130). A block of queries sees its keys at once; its scores are computed again in the
backward pass, so that memory is linear in the tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from gpu.torch_kernels.blocks import by_blocks, by_rows


@by_blocks("forgetting_attention")
def blockwise(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, *, block_size: int) -> Tensor:
    """Forgetting attention by blocks of queries; memory is linear in the tokens, time quadratic."""
    return by_rows(_rows, q, k, v, log_gate, block_size=block_size)


def _rows(queries: Tensor, k: Tensor, v: Tensor, log_gate: Tensor) -> Tensor:
    """The last rows of the output: those of the given queries, from all keys up to the last one's."""
    return weighted_mean(queries @ k.mT, v, log_gate)


def weighted_mean(scores: Tensor, v: Tensor, log_gate: Tensor) -> Tensor:
    """softmax(scores + log Gamma) V in the last rows.

    Args:
        scores: `... rows tokens`.
        v: `... tokens v`.
        log_gate: `... tokens`.
    """
    rows, past = scores.shape[-2], scores.shape[-1] - scores.shape[-2]
    faded = scores + log_decays(log_gate, rows)
    future = torch.ones(rows, rows, dtype=torch.bool, device=scores.device).triu(1)
    return faded.masked_fill(pad(future, (past, 0)), -torch.inf).softmax(-1) @ v


def log_decays(log_gate: Tensor, rows: int) -> Tensor:
    """log Gamma in the last rows, `... rows tokens`, and zeros above its diagonal; sums of log gates, not differences.

    Args:
        log_gate: `... tokens`.
        rows: how many.
    """
    past = log_gate.shape[-1] - rows
    own = log_gate[..., past:]
    within = own.unsqueeze(-1).expand(*own.shape, rows).tril(-1).cumsum(-2)
    # of a token before these rows: its successors' gates up to them
    later = torch.cat([log_gate[..., 1:past], torch.zeros_like(log_gate[..., : min(past, 1)])], dim=-1)
    since = later.flip(-1).cumsum(-1).flip(-1)
    return torch.cat([own.cumsum(-1).unsqueeze(-1) + since.unsqueeze(-2), within], dim=-1)
