"""What the cores are made of: chunks, decays between tokens, triangular systems, and reads and writes of one token."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.oracle_score.kernels.frame import BLOCK

Results = tuple[Tensor, ...]


def chunks(tokens: int, size: int = BLOCK) -> list[slice]:
    """The chunks of a sequence; the last one may be shorter."""
    return [slice(start, min(start + size, tokens)) for start in range(0, tokens, max(size, 1))]


def joined(rows: list[Tensor], like: Tensor) -> Tensor:
    """The rows of all chunks or tokens along the tokens, which are the last dimension but one."""
    return torch.cat(rows, -2) if rows else torch.zeros_like(like)


def strictly_lower(tokens: int, like: Tensor) -> Tensor:
    """Whether j < i."""
    return torch.ones(tokens, tokens, dtype=torch.bool, device=like.device).tril(-1)


def past_only(gates: Tensor) -> Tensor:
    """The gate of token i at `... i j` for j < i, zero elsewhere."""
    return gates.unsqueeze(-1).expand(*gates.shape, gates.shape[-1]).tril(-1)


def gate_sums(gates: Tensor) -> Tensor:
    """Sums of the log gates j + 1 ... i, `... i j`, and zero above the diagonal; none is a difference of sums."""
    return past_only(gates).cumsum(-2)


def decays(gates: Tensor) -> Tensor:
    """Gamma: the products of the gates j + 1 ... i, `... i j`, one on the diagonal and zero above it."""
    return gate_sums(gates).exp().tril()


def to_end(gates: Tensor) -> Tensor:
    """The products of the gates behind each token, up to the end."""
    return decays(gates)[..., -1, :]


def channel_decays(gates: Tensor) -> Tensor:
    """The same as `decays` for each channel, `... i j k`, of gates `... t k`."""
    return decays(gates.transpose(-1, -2)).permute(*range(gates.ndim - 2), -2, -1, -3)


def lower_solve(strict: Tensor, right: Tensor) -> Tensor:
    """(I + L)^-1 B for a strictly lower L."""
    return torch.linalg.solve_triangular(strict, right, upper=False, unitriangular=True)


def read(state: Tensor, key: Tensor) -> Tensor:
    """S^T k, of a state `... k v`."""
    return (key.unsqueeze(-2) @ state).squeeze(-2)


def outer(key: Tensor, value: Tensor) -> Tensor:
    """k v^T, `... k v`."""
    return key.unsqueeze(-1) * value.unsqueeze(-2)


def by_tokens(*sequences: Tensor) -> list[tuple[Tensor, ...]]:
    """The tokens of sequences `... t k`, one after another."""
    return list(zip(*(x.unbind(-2) for x in sequences), strict=True))
