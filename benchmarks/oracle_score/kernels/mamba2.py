r"""Mamba-2 (SSD) in the four steps of its paper, all chunks at once. Dao & Gu 2024 (arXiv 2405.21060).

    S_t = a_t S_{t-1} + B_t (Delta_t x_t)^T,   y_t = S_t^T C_t

1. within chunks, Y = (L . (C B^T)) D_Delta X; 2. what each chunk adds to the state; 3. the states at the chunks'
starts, a product with a lower triangular matrix of the chunks' decays; 4. what the states at the starts give to Y.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from benchmarks.oracle_score.kernels.decay import masked_too_late
from benchmarks.oracle_score.kernels.frame import BLOCK
from benchmarks.oracle_score.kernels.parts import Results, decays, gate_sums, to_end

FIXED_WIDTH = 3 * BLOCK
"""Of a mask that was made once, in the fault that drops the tail: 65536 in the wild."""


def mamba2(C: Tensor, B: Tensor, x: Tensor, step: Tensor, g: Tensor, initial_state: Tensor, fault: str = "") -> Results:
    """The whole sequence in chunks of BLOCK tokens, the last one filled up with zeros."""
    tokens = x.shape[-2]
    written = x if fault == "values without steps" else step[..., None] * x
    if fault == "steps twice":
        written = step[..., None] * written
    if fault == "mask of a fixed width drops the tail":
        written = written * (torch.arange(tokens) < FIXED_WIDTH).to(written)[:, None]
    gates = step * g if fault == "step in the gate again" else g
    queries, keys, values = (_in_chunks(part) for part in (C, B, written))
    gates = _in_chunks(gates[..., None], -0.5 if fault == "padding fades the state" else 0.0)[..., 0]
    added = (keys * to_end(gates)[..., None]).mT @ values
    states = _at_starts(added, gates.sum(-1), initial_state, fault)
    within = (queries @ keys.mT * _within(gates, fault)) @ values
    carried = gates.cumsum(-1).exp()[..., None] * (queries @ states[..., :-1, :, :])
    return (within + carried).flatten(-3, -2)[..., :tokens, :], states[..., -1, :, :]


def _in_chunks(sequence: Tensor, fill: float = 0.0) -> Tensor:
    """`... t k` as `... chunks BLOCK k`."""
    filled = pad(sequence, (0, 0, 0, -sequence.shape[-2] % BLOCK), value=fill)
    return filled.unflatten(-2, (filled.shape[-2] // BLOCK, BLOCK))


def _within(gates: Tensor, fault: str) -> Tensor:
    if fault == "own write fades":
        return (gate_sums(gates) + gates[..., None, :]).exp().tril()
    if fault == "exp before the mask":
        return masked_too_late(gates)
    return decays(gates)


def _at_starts(added: Tensor, totals: Tensor, initial_state: Tensor, fault: str) -> Tensor:
    """The states before each chunk, and the last one, `... chunks + 1 k v`."""
    fades = decays(pad(totals, (1, 0)))
    if fault == "sum over the wrong chunk axis":
        fades = fades.mT
    if fault == "carry from the chunk before alone":
        fades = fades.triu(-1)
    sources = torch.cat([initial_state.unsqueeze(-3), added], -3)
    return (fades @ sources.flatten(-2)).unflatten(-1, sources.shape[-2:])
