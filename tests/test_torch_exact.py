"""In a finite field the rational implementations equal their statements, forward and backward, with no tolerance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from torch_cases import BY_NAME, case_for, statement

from attnproof.exactly import compare_exactly
from derivations.language.forms import Recurrence
from gpu.registry import Implementation
from numerics.exact_runs import Comparison
from numerics.head_layouts import HeadSizes

GRADIENTS = "torch.mesanet.conjugate_gradients"
RATIONAL = [name for name, x in BY_NAME.items() if x.rational]
IN_CHUNKS = [name for name in RATIONAL if "chunk_size" in BY_NAME[name].options]


def recurrence_of(implementation: Implementation) -> Recurrence | None:
    """The recurrence to compare with where the derivation doesn't single one out."""
    if implementation.derivation != "path_attention":
        return None
    form = statement(BY_NAME["torch.path_attention.recurrent"])
    assert isinstance(form, Recurrence)
    return form


def without_pairs(implementation: Implementation) -> tuple[Any, Implementation]:
    """The function and its description with one angle for each token: the statement has one pair of channels."""
    function = implementation.load()
    if implementation.derivation != "retnet":
        return function, implementation
    flat = tuple(replace(x, layout=x.layout.removesuffix(" p")) for x in implementation.arguments)

    def with_pairs(*, cosine: Any, sine: Any, **others: Any) -> Any:
        return function(cosine=cosine.unsqueeze(-1), sine=sine.unsqueeze(-1), **others)

    return with_pairs, replace(implementation, arguments=flat)


def compared(name: str, sizes: HeadSizes, **options: Any) -> Comparison:
    function, described = without_pairs(BY_NAME[name])
    return compare_exactly(function, described, sizes, statement=recurrence_of(described), options=options)


def width(name: str) -> int:
    return case_for(BY_NAME[name], 1).sizes.d_k


@pytest.mark.parametrize("name", IN_CHUNKS)
def test_chunks_and_a_ragged_tail(name: str) -> None:
    found = compared(name, HeadSizes(9, min(width(name), 3), 2, 1, 2, 1), chunk_size=4)
    assert found.ok, str(found)


@pytest.mark.parametrize("name", RATIONAL)
def test_packed_sequences(name: str) -> None:
    options = dict.fromkeys(BY_NAME[name].options, 2)
    found = compared(name, HeadSizes.packed([2, 0, 3], min(width(name), 3), 2, 1, 2), **options)
    assert found.ok, str(found)


def test_as_many_conjugate_gradients_as_channels_solve_every_system() -> None:
    sizes = HeadSizes.packed([2, 0, 5], 3, 2, 1, 2)
    found = compared(GRADIENTS, sizes, chunk_size=2, steps=3)
    assert found.ok, str(found)
    assert not compared(GRADIENTS, sizes, chunk_size=2, steps=2).ok
