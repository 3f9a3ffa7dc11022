"""Sums, products, quotients and powers of numbers, and the exponential of a log gate: exp(x) = w^x."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from derivations.language.errors import NoMeaning
from gpu.exact_mode import modular
from gpu.exact_mode.dispatch import computes, number, register
from gpu.exact_mode.errors import differentiated
from gpu.exact_mode.modular import UNITS, Integers
from gpu.exact_mode.numbers import MINUS_INFINITY, Numbers, added, multiplied, of_number
from gpu.exact_mode.tensor import ExactTensor

aten = torch.ops.aten
ONE = of_number(1)
ASKS_FOR_ZEROS = frozenset({"CumprodBackward0", "ProdBackward0", "ProdBackward1"})
"""Autograd's formulas for products ask which factors are zero, which a field can tell."""


@computes(aten.add.Tensor, aten.add.Scalar)
def add(a: Numbers, b: Numbers, alpha: Numbers = ONE) -> Numbers:
    """a + alpha b."""
    return added(lambda x, y: x + y, a, b if alpha == ONE else multiply(b, alpha))


@computes(aten.sub.Tensor, aten.sub.Scalar)
def subtract(a: Numbers, b: Numbers, alpha: Numbers = ONE) -> Numbers:
    """a - alpha b."""
    return add(a, negate(b), alpha)


@computes(aten.rsub.Tensor, aten.rsub.Scalar)
def subtract_from(a: Numbers, b: Numbers, alpha: Numbers = ONE) -> Numbers:
    """b - alpha a."""
    return subtract(b, a, alpha)


@computes(aten.neg.default)
def negate(a: Numbers) -> Numbers:
    """-a."""
    return multiplied(_negative, a)


def _negative(a: Integers, modulus: int) -> Integers:
    return -a % modulus if isinstance(a, int) else modular.reduced(modulus - a, modulus)


@computes(aten.mul.Tensor, aten.mul.Scalar)
def multiply(a: Numbers, b: Numbers) -> Numbers:
    """The entrywise product."""
    return multiplied(_product, a, b)


def _product(a: Integers, b: Integers, modulus: int) -> Integers:
    return a * b % modulus if isinstance(a, int) and isinstance(b, int) else modular.product(a, b, modulus)


@computes(aten.reciprocal.default)
def reciprocal(a: Numbers) -> Numbers:
    """1 / a, which isn't an exponent any more."""
    residues = torch.as_tensor(a.finite().residues)
    if differentiated() in ASKS_FOR_ZEROS:
        residues = torch.where(
            residues == 0, 1, residues
        )  # it divides by all factors, and drops what it got from zeros
    return Numbers(modular.inverse(residues))


@computes(aten.div.Tensor, aten.div.Scalar)
def divide(a: Numbers, b: Numbers) -> Numbers:
    """a / b."""
    return multiply(a, reciprocal(b))


@computes(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor)
def power(a: Numbers, exponent: Numbers) -> Numbers:
    """a^e for integers e, modulo p - 1; those above the half of it count as negative."""
    if exponent.exponents is None:
        raise NoMeaning("a root isn't a rational function of its argument")
    base = torch.as_tensor(a.finite().residues)
    e = torch.as_tensor(exponent.finite().exponents).to(base.device)
    negative = e > UNITS // 2
    if bool(negative.any()):
        base, e = torch.where(negative, modular.inverse(torch.where(negative, base, 1)), base), e.where(~negative, -e)
    return Numbers(modular.powers(base, e % UNITS))


@computes(aten.exp.default)
def exponential(a: Numbers) -> Numbers:
    """w^a modulo p, and 0 for -inf."""
    if not isinstance(a.exponents, Tensor):
        raise NoMeaning("only log gates have an exponential: name the argument that it is computed from in `log`")
    values = modular.exponential(a.exponents.clamp(min=0))
    return Numbers(torch.where(a.exponents == MINUS_INFINITY, 0, values) if a.infinite else values)


@computes(aten.expm1.default)
def exponential_minus_one(a: Numbers) -> Numbers:
    """exp(a) - 1."""
    return subtract(exponential(a), ONE)


@computes(aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default, aten.matmul.default)
def matmul(a: Numbers, b: Numbers) -> Numbers:
    """The matrix product."""
    return multiplied(_matmul, a, b)


def _matmul(a: Tensor, b: Tensor, modulus: int) -> Tensor:
    return modular.matmul(a, b, modulus)


@computes(aten.addmm.default, aten.baddbmm.default, aten.addmv.default)
def add_matmul(c: Numbers, a: Numbers, b: Numbers, beta: Numbers = ONE, alpha: Numbers = ONE) -> Numbers:
    """beta c + alpha a b."""
    return add(c if beta == ONE else multiply(c, beta), matmul(a, b), alpha)


@computes(aten.addcmul.default)
def add_product(c: Numbers, a: Numbers, b: Numbers, value: Numbers = ONE) -> Numbers:
    """c + value a b."""
    return add(c, multiply(a, b), value)


@computes(aten.addcdiv.default)
def add_quotient(c: Numbers, a: Numbers, b: Numbers, value: Numbers = ONE) -> Numbers:
    """c + value a / b."""
    return add(c, divide(a, b), value)


@computes(aten.lerp.Scalar, aten.lerp.Tensor)
def interpolate(a: Numbers, b: Numbers, weight: Numbers) -> Numbers:
    """a + weight (b - a)."""
    return add(a, multiply(weight, subtract(b, a)))


@computes(aten.mean.default, aten.mean.dim)
def mean(a: Numbers, dim: Any = None, keepdim: bool = False) -> Numbers:
    """The sum over the number of terms."""
    total = added(lambda x: x.sum(dim, keepdim=keepdim), a)
    assert isinstance(a.residues, Tensor)
    assert isinstance(total.residues, Tensor)
    return divide(total, of_number(a.residues.numel() // max(total.residues.numel(), 1)))


@computes(aten.cumprod.default)
def cumulative_product(a: Numbers, dim: int) -> Numbers:
    """The products of all entries up to each one."""
    return multiplied(lambda x, modulus: _cumulative(x.movedim(dim, -1), modulus).movedim(-1, dim).contiguous(), a)


@computes(aten.prod.default)
def product_of_all(a: Numbers) -> Numbers:
    """The product of all entries."""
    return multiplied(lambda x, modulus: _cumulative(x.flatten(), modulus)[-1], a)


@computes(aten.prod.dim_int)
def product_along(a: Numbers, dim: int, keepdim: bool = False) -> Numbers:
    """The product along a dimension."""

    def last(x: Tensor, modulus: int) -> Tensor:
        whole = _cumulative(x.movedim(dim, -1), modulus)[..., -1].contiguous()
        return whole.unsqueeze(dim) if keepdim else whole

    return multiplied(last, a)


def _cumulative(x: Tensor, modulus: int) -> Tensor:
    """By doubling: after each round an entry is the product of twice as many that end with its own."""
    reach = 1
    while reach < x.shape[-1]:
        x = torch.cat([x[..., :reach], modular.product(x[..., reach:], x[..., :-reach], modulus)], dim=-1)
        reach *= 2
    return x


@register(aten.isnan.default, aten.isinf.default)
def is_special(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """No number of a field is NaN, and none is infinite but -inf as an exponent."""
    indicator = args[0].numbers.indicator().bool()
    return indicator if func is aten.isinf.default else torch.zeros_like(indicator)


@register(aten.eq.Scalar)
def equals(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Which factors are zero, where autograd asks for it."""
    x: ExactTensor = args[0]
    if differentiated() not in ASKS_FOR_ZEROS or args[1] != 0:
        raise NoMeaning("field numbers aren't ordered, so that nothing compares them")
    return number(x).finite().residues == 0
