"""Systems of linear equations modulo p: triangular ones by halves, general ones by a factorisation P A = L U.

All take batches, and answer as torch.linalg does: L and U in one matrix, pivots counted from 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from derivations.language.errors import UndefinedValue
from gpu.exact_mode.modular import PRIME, inverse, matmul, product, reduced

BLOCK = 32
"""Up to this size a unit triangular matrix is inverted as a product, above it by halves."""


def solve_triangular(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """x with a x = b; of a only the triangle is read, and the diagonal unless it is `unit`."""
    if upper:
        flipped = solve_triangular(a.flip(-2, -1), b.flip(-2), upper=False, unit=unit)
        return flipped.flip(-2)
    if not unit:
        scale = inverse(a.diagonal(dim1=-2, dim2=-1))[..., None]
        a, b = product(a, scale), product(b, scale)
    return _forward(a.tril(-1), b)


def _forward(strict: Tensor, b: Tensor) -> Tensor:
    """x with (I + strict) x = b."""
    size = strict.shape[-1]
    if size <= BLOCK:
        return matmul(_inverse_of_unit(strict), b)
    half = size // 2
    top = _forward(strict[..., :half, :half], b[..., :half, :])
    rest = reduced(b[..., half:, :] + (PRIME - matmul(strict[..., half:, :half], top)))
    bottom = _forward(strict[..., half:, half:], rest)
    return torch.cat([top.expand(*bottom.shape[:-2], *top.shape[-2:]), bottom], dim=-2)


def _inverse_of_unit(strict: Tensor) -> Tensor:
    """(I + N)^-1 = (I - N) (I + N^2) (I + N^4) ..., which ends since N is nilpotent."""
    size = strict.shape[-1]
    eye = torch.eye(size, dtype=torch.int64, device=strict.device)
    result, power, reach = (eye - strict) % PRIME, strict, 2
    while reach < size:
        power = matmul(power, power)
        result = reduced(result + matmul(result, power))
        reach *= 2
    return result


def factorise(a: Tensor) -> tuple[Tensor, Tensor]:
    """L and U in one matrix, and the pivots: row k was exchanged with row pivots[k] - 1.

    Raises:
        UndefinedValue: a matrix is singular.
    """
    lu = a.clone()
    size = a.shape[-1]
    pivots = torch.empty(a.shape[:-1], dtype=torch.int32, device=a.device)
    for k in range(size):
        chosen = k + (lu[..., k:, k] != 0).byte().argmax(-1)
        pivots[..., k] = chosen + 1
        lu = _exchanged(lu, k, chosen)
        pivot = lu[..., k, k]
        if bool((pivot == 0).any()):
            raise UndefinedValue("a matrix that is inverted is singular")
        factors = product(lu[..., k + 1 :, k], inverse(pivot)[..., None])
        lu[..., k + 1 :, k] = factors
        lu[..., k + 1 :, k + 1 :] -= product(factors[..., None], lu[..., k, None, k + 1 :])
        lu[..., k + 1 :, k + 1 :] %= PRIME
    return lu, pivots


def _exchanged(rows: Tensor, k: int, other: Tensor) -> Tensor:
    """Row k and row other[...] of each matrix exchanged."""
    order = torch.arange(rows.shape[-2], device=rows.device).expand(*rows.shape[:-2], -1).clone()
    order[..., k] = other
    order.scatter_(-1, other[..., None], k)
    return rows.gather(-2, order[..., None].expand(rows.shape))


def solve_factorised(lu: Tensor, pivots: Tensor, b: Tensor, transposed: bool) -> Tensor:
    """x with A x = b, or with A^T x = b, for P A = L U."""
    batch = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    b = b.expand(*batch, *b.shape[-2:])
    swaps = [(k, pivots[..., k].long().expand(batch) - 1) for k in range(lu.shape[-1])]
    if not transposed:
        for k, other in swaps:
            b = _exchanged(b, k, other)
        return solve_triangular(lu, solve_triangular(lu, b, upper=False, unit=True), upper=True, unit=False)
    x = solve_triangular(lu.mT, solve_triangular(lu.mT, b, upper=False, unit=False), upper=True, unit=True)
    for k, other in reversed(swaps):
        x = _exchanged(x, k, other)
    return x
