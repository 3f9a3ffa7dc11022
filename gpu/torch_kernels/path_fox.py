r"""PaTH-FoX: softmax attention whose scores pass through products of I - beta_s w_s w_s^T, and fade by a gate.

    O = softmax(A + log Gamma) V,   A_ij = q_i^T (I - beta_i w_i w_i^T) ... (I - beta_{j+1} w_{j+1} w_{j+1}^T) k_j

Yang et al. 2025 (arXiv 2505.16381); with log gates of zero it is PaTH. In blocks, with J = (I + D_beta ((W W^T) .
M^-))^-1 D_beta of each: queries are carried to the start of their block and keys to the end of theirs,

    Q' = Q - ((Q W^T) . M) J W,   K' = K - ((W K^T) . M^-)^T J^T W

and each block between takes the carried queries X to X - (X W^T) J W. Memory is linear in the tokens.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from gpu.torch_kernels.blocks import by_blocks, by_rows
from gpu.torch_kernels.forgetting_attention import weighted_mean
from gpu.torch_kernels.triangular import unit_lower_inverse


@by_blocks("path_fox")
def blockwise(q: Tensor, k: Tensor, w: Tensor, v: Tensor, beta: Tensor, log_gate: Tensor, *, block_size: int) -> Tensor:
    """PaTH-FoX by blocks of queries; memory is linear in the tokens, time quadratic."""
    tokens = q.shape[2]
    missing = -tokens % block_size
    q, k, w, v = (pad(x, (0, 0, 0, missing)) for x in (q, k, w, v))
    beta, log_gate = (pad(x, (0, missing)) for x in (beta, log_gate))
    keys, directions, strengths = (x.unflatten(2, (-1, block_size)) for x in (k, w, beta))
    system = unit_lower_inverse((directions @ directions.mT) * strengths.unsqueeze(-1)) * strengths.unsqueeze(-2)
    overlaps = (directions @ keys.mT).tril(-1)
    to_end = keys - overlaps.mT @ (system.mT @ directions)
    of_blocks = (x.flatten(2, 3) for x in (to_end, system @ directions, system @ overlaps))
    rows = partial(_rows, block_size)
    return by_rows(rows, q, k, w, *of_blocks, v, log_gate, block_size=block_size)[:, :, :tokens]


def _rows(
    size: int,
    q: Tensor,
    k: Tensor,
    w: Tensor,
    to_end: Tensor,
    removed: Tensor,
    corrections: Tensor,
    v: Tensor,
    log_gate: Tensor,
) -> Tensor:
    """The last block's rows of the output, from all blocks up to it.

    Args:
        size: of a block.
        q: the block's queries.
        k, w, v, log_gate: of all tokens so far.
        to_end: the keys, each carried to the end of its block.
        removed: J W of each block.
        corrections: J ((W K^T) . M^-) of each block.
    """
    past = k.shape[2] - size
    reached = (q @ w[:, :, past:].mT).tril()
    scores = [q @ k[:, :, past:].mT - reached @ corrections[:, :, past:]]
    carried = q - reached @ removed[:, :, past:]
    for start in reversed(range(0, past, size)):
        block = slice(start, start + size)
        scores.append(carried @ to_end[:, :, block].mT)
        carried = carried - (carried @ w[:, :, block].mT) @ removed[:, :, block]
    return weighted_mean(torch.cat(scores[::-1], dim=-1), v, log_gate)
