r"""Attention by exponentials: forgetting attention by blocks of keys with a running maximum, and DeltaFormer.

FoX (Lin et al. 2025, arXiv 2503.02130): O = softmax(Q K^T + log Gamma) V. DeltaFormer (Zhong et al. 2025, arXiv
2505.19488): O = (exp(Q K^T) . M) U, (I + exp(W K^T) . M^-) U = V.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.oracle_score.kernels.parts import Results, chunks, gate_sums, lower_solve, past_only, strictly_lower


def forgetting_attention(q: Tensor, k: Tensor, v: Tensor, g: Tensor, fault: str = "") -> Results:
    """Scores and sums block by block of keys; what was summed up is rescaled when the maximum grows."""
    tokens = v.shape[-2]
    biases = _biases(g, fault).masked_fill(strictly_lower(tokens, g).mT, -torch.inf)
    largest = torch.full_like(v[..., :1], -torch.inf)
    summed, total = torch.zeros_like(v), torch.zeros_like(v[..., :1])
    for here in chunks(tokens):
        block = q @ k[..., here, :].mT + biases[..., here]
        if fault == "no maximum is subtracted":
            now = torch.zeros_like(largest)
        else:
            now = torch.maximum(largest, block.amax(-1, keepdim=True))
        now = now.detach()
        shrink = (largest - now).exp().nan_to_num(0.0)
        weights = (block - now).exp()
        if fault == "no maximum is subtracted" or fault == "sums not rescaled":
            shrink = torch.ones_like(shrink)
        summed = summed * shrink + weights @ v[..., here, :]
        total = total * (torch.ones_like(shrink) if fault == "denominator not rescaled" else shrink)
        total = total + weights.sum(-1, keepdim=True)
        largest = now
    if fault == "gates outside of the softmax":
        return (_gates_outside(q, k, v, g),)
    return (summed / total,)


def _biases(gates: Tensor, fault: str) -> Tensor:
    """log Gamma; its upper triangle doesn't count."""
    sums = gates.cumsum(-1)
    if fault == "own gate too":
        return gate_sums(gates) + gates[..., None, :]
    if fault == "the query's gate left out":
        return gate_sums(gates) - past_only(gates)
    if fault == "gates in base 2":
        return gate_sums(gates) * 0.6931471805599453
    if fault == "gates not used":
        return torch.zeros_like(gate_sums(gates))
    if fault == "gates of the keys alone":
        return (-sums[..., None, :]).exp().log().expand_as(gate_sums(gates))
    return gate_sums(gates)


def _gates_outside(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
    future = strictly_lower(v.shape[-2], v).mT
    return ((q @ k.mT).masked_fill(future, -torch.inf).softmax(-1) * gate_sums(g).exp()) @ v


def deltaformer(q: Tensor, k: Tensor, w: Tensor, v: Tensor, fault: str = "") -> Results:
    """The whole triangular system at once."""
    if fault == "keys ask":
        w = k
    erased = (w @ k.mT).tril(-1).exp().tril(-1)
    if fault == "exp before the mask":
        erased = (w @ k.mT).exp().where(strictly_lower(v.shape[-2], v), 0.0)
    if fault == "mask of the system a token late":
        erased = (w @ k.mT).tril(-1).exp() * strictly_lower(v.shape[-2], v).tril(-2)
    if fault == "no exponential in the system":
        erased = (w @ k.mT).tril(-1)
    if fault == "first order of the inverse":
        written = v - erased @ v
    else:
        written = lower_solve(-erased if fault == "sign of the system" else erased, v)
    reads = (q @ k.mT).tril().exp().tril(-1 if fault == "own token left out" else 0)
    return (reads @ written,)
