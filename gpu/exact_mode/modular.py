"""Arithmetic modulo p = 2^31 - 1, and modulo p - 1 for exponents, on int64 tensors of any device.

w = 7 generates the p - 1 units, so that w^(a + b) = w^a w^b holds for exponents modulo p - 1. Products of residues stay
below 2^62. A matrix product is computed by float64 products of a matrix with pieces of the other one, of so few bits
that no sum exceeds 2^53.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from derivations.language.errors import UndefinedValue

PRIME = 2**31 - 1
UNITS = PRIME - 1
GENERATOR = 7
FLOAT_BITS, RESIDUE_BITS = 53, 31
DIGIT = 11
"""Bits of an exponent that are looked up at once: three digits, 2048 powers each."""
LARGE = 2**12
"""From this many entries on the two passes of a Mersenne reduction are faster than one division each."""

Integers = Tensor | int
"""Residues: a tensor, or a Python integer for a single number."""


def product(a: Integers, b: Integers, modulus: int = PRIME) -> Tensor:
    """The entrywise product of residues; at least one of them is a tensor."""
    result = a * b
    assert isinstance(result, Tensor)
    return reduced(result, modulus)


def reduced(a: Tensor, modulus: int = PRIME) -> Tensor:
    """The residues of numbers from 0 to below 2^62."""
    if modulus != PRIME or a.numel() < LARGE:
        return a % modulus
    folded = (a & PRIME).add_(a >> RESIDUE_BITS)  # 2^31 = 1, so that this is below 2 p
    folded -= PRIME
    return folded.add_((folded >> 63) & PRIME)


def matmul(a: Tensor, b: Tensor, modulus: int = PRIME) -> Tensor:
    """The matrix product of residues below 2^31, with the batch dimensions of torch.matmul."""
    inner = max(a.shape[-1], 1)
    bits = FLOAT_BITS - RESIDUE_BITS - (inner - 1).bit_length()
    if bits < 1:
        raise UndefinedValue(f"a sum of {inner} products is too long for exact float64 sums: split the matrix product")
    whole, mask = a.double(), (1 << bits) - 1
    value: Tensor | None = None
    for shift in reversed(range(0, RESIDUE_BITS, bits)):
        piece = torch.matmul(whole, ((b >> shift) & mask).double()).long()
        value = reduced(piece if value is None else piece.add_(value << bits), modulus)
    assert value is not None
    return value


def power(base: Tensor, exponent: int) -> Tensor:
    """base^exponent modulo p for an exponent >= 0, by squaring."""
    result = torch.ones_like(base)
    for bit in f"{exponent:b}":
        result = product(result, result)
        if bit == "1":
            result = product(result, base)
    return result


def powers(base: Tensor, exponents: Tensor) -> Tensor:
    """base^exponents modulo p entry by entry, for exponents >= 0 that are reduced modulo p - 1 where base isn't 0."""
    result = torch.ones_like(base * exponents)
    for bit in reversed(range(int(exponents.max()).bit_length() if exponents.numel() else 0)):
        result = product(result, result)
        result = torch.where((exponents >> bit) & 1 == 1, product(result, base), result)
    return result


def inverse(a: Tensor) -> Tensor:
    """1 / a modulo p, by Fermat's a^(p - 2).

    Raises:
        UndefinedValue: an entry is zero.
    """
    if bool((a == 0).any()):
        raise UndefinedValue("division by zero (by chance only with probability 2^-31 a number: try another seed)")
    return power(a, PRIME - 2)


def exponential(exponents: Tensor) -> Tensor:
    """w^e modulo p, digit by digit of e."""
    first, *rest = (
        table[(exponents >> shift) & ((1 << DIGIT) - 1)]
        for shift, table in zip(range(0, RESIDUE_BITS, DIGIT), _tables(exponents.device), strict=True)
    )
    for factor in rest:
        first = product(first, factor)
    return first


@cache
def _tables(device: torch.device) -> tuple[Tensor, ...]:
    """For each digit the powers of w that it stands for."""
    shifts = range(0, RESIDUE_BITS, DIGIT)
    return tuple(
        torch.tensor([pow(GENERATOR, digit << shift, PRIME) for digit in range(1 << DIGIT)], device=device)
        for shift in shifts
    )
