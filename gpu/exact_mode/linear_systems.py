"""Torch's solvers of linear systems, and what their backward formulas call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpu.exact_mode.dispatch import computes
from gpu.exact_mode.numbers import Numbers
from gpu.exact_mode.systems import factorise, solve_factorised, solve_triangular

aten = torch.ops.aten


@computes(aten.linalg_solve_triangular.default)
def triangular(a: Numbers, b: Numbers, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Numbers:
    """x with a x = b, or x a = b where `left` is false."""
    matrix, right = _residues(a), _residues(b)
    if left:
        return Numbers(_by_columns(solve_triangular(matrix, right, upper, unitriangular)))
    return Numbers(_by_columns(solve_triangular(matrix.mT, right.mT, not upper, unitriangular).mT))


@computes(aten._linalg_solve_ex.default)
def general(a: Numbers, b: Numbers, *, left: bool = True, check_errors: bool = False) -> tuple[Any, ...]:
    """x with a x = b, and the factors of `a` that the backward formula uses."""
    matrix, right = _residues(a), _residues(b)
    is_vector = right.dim() == 1 or (right.dim() == matrix.dim() - 1 and right.shape == matrix.shape[:-1])
    columns = right[..., None] if is_vector else right
    lu, pivots = factorise(matrix)
    solved = _from_factors(lu, pivots, columns, left, transposed=False)
    x = solved[..., 0] if is_vector else solved
    return Numbers(_by_columns(x) if left else x.contiguous()), Numbers(lu), pivots, _no_error(matrix)


@computes(aten.linalg_lu_solve.default)
def from_factors(lu: Numbers, pivots: Numbers, b: Numbers, *, left: bool = True, adjoint: bool = False) -> Numbers:
    """x with A x = b, A^T x = b, x A = b or x A^T = b, from the factors of A."""
    return Numbers(_from_factors(_residues(lu), _residues(pivots), _residues(b), left, adjoint))


def _from_factors(lu: Tensor, pivots: Tensor, b: Tensor, left: bool, transposed: bool) -> Tensor:
    if left:
        return solve_factorised(lu, pivots, b, transposed)
    return solve_factorised(lu, pivots, b.mT, not transposed).mT


@computes(aten.linalg_inv_ex.default)
def inverted(a: Numbers, *, check_errors: bool = False) -> tuple[Any, ...]:
    """The inverse, and that nothing went wrong."""
    matrix = _residues(a)
    eye = torch.eye(matrix.shape[-1], dtype=torch.int64, device=matrix.device).expand(matrix.shape)
    return Numbers(_by_columns(solve_factorised(*factorise(matrix), eye, transposed=False))), _no_error(matrix)


def _by_columns(x: Tensor) -> Tensor:
    """With the strides that Torch's solvers return."""
    return x.mT.contiguous().mT if x.dim() > 1 else x.contiguous()


def _no_error(matrix: Tensor) -> Tensor:
    return torch.zeros(matrix.shape[:-2], dtype=torch.int32, device=matrix.device)


def _residues(a: Numbers) -> Tensor:
    residues = a.finite().residues
    assert isinstance(residues, Tensor)
    return residues
