r"""Linear attention, by chunks: S' = S + K^T V, O = Q S + ((Q K^T) . M) V. Katharopoulos et al. 2020.

With features and a normaliser: z' = z + K^T 1, and O is divided by phi(Q) z + ((phi(Q) phi(K)^T) . M) 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.oracle_score.kernels.parts import Results, chunks, joined


def linear_attention(q: Tensor, k: Tensor, v: Tensor, initial_state: Tensor, fault: str = "") -> Results:
    """Without features: the sum of all writes."""
    state, rows = initial_state, []
    for here in chunks(v.shape[-2]):
        queries, keys, values = q[..., here, :], k[..., here, :], v[..., here, :]
        scores = queries @ keys.mT
        if fault == "sees its whole chunk":
            within = scores @ values
        else:
            within = scores.tril(-1 if fault == "own token left out" else 0) @ values
        rows.append(queries @ state + within)
        if fault == "carry not read" and here.start:
            rows[-1] = within
        state = keys.mT @ values if fault == "carry overwritten" else state + keys.mT @ values
    return joined(rows, v), state


def feature_maps(
    q: Tensor, k: Tensor, v: Tensor, initial_state: Tensor, initial_normaliser: Tensor, fault: str = ""
) -> Results:
    """With a normaliser: the mean of all values, weighted by products of features."""
    state, total, rows = initial_state, initial_normaliser.unsqueeze(-1), []
    whole = total + k.sum(-2).unsqueeze(-1)
    for here in chunks(v.shape[-2]):
        queries, keys, values = q[..., here, :], k[..., here, :], v[..., here, :]
        weights = (queries @ keys.mT).tril()
        numerator = queries @ state + weights @ values
        denominator = queries @ total + _row_sums(weights, queries, keys, fault)
        if fault == "normaliser starts anew in each chunk":
            denominator = weights.sum(-1, keepdim=True) + (queries @ total if not here.start else 0)
        if fault == "normalised by all tokens":
            denominator = queries @ whole
        rows.append(numerator if fault == "not normalised" else numerator / denominator)
        state = state + keys.mT @ values
        total = total + keys.sum(-2).unsqueeze(-1)
    return joined(rows, v), state, total.squeeze(-1)


def _row_sums(weights: Tensor, queries: Tensor, keys: Tensor, fault: str) -> Tensor:
    if fault == "cumulative sum outside of autograd":
        with torch.no_grad():
            summed = keys.cumsum(-2)
        return (queries * summed).sum(-1, keepdim=True)
    if fault == "own token not in the normaliser":
        return weights.tril(-1).sum(-1, keepdim=True)
    return weights.sum(-1, keepdim=True)
