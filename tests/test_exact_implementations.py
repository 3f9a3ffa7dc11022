"""Every rational Torch implementation of the registry computes its statement modulo p, forward and backward.

Outputs, final states and the gradients of all arguments, from a state and from zero, in several chunk sizes, packed and
not. One test a property, crossed with the registry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings

torch = pytest.importorskip("torch")

import derivations.path_attention  # noqa: E402
from attnproof.exactly import compare_exactly, exact  # noqa: E402
from gpu.registry import Implementation, implementations  # noqa: E402
from numerics.exact_runs import Comparison  # noqa: E402
from numerics.head_layouts import HeadSizes  # noqa: E402

MANY = settings().max_examples > 100
"""Whether there is time for longer sequences: `make test-deep`."""
RATIONAL = [x for x in implementations(library="torch") if x.rational]
D_K, D_V = 6, 5
STATEMENTS = {"path_attention": derivations.path_attention.recurrence_with_beta}
"""Recurrences that aren't among the forms of their derivation."""
PAIRS = {"retnet"}
"""Systems that are stated for one pair of channels."""

every_implementation = pytest.mark.parametrize("implementation", RATIONAL, ids=lambda x: x.name)
Change = Callable[[Callable[..., Any]], Callable[..., Any]]


def compared(
    implementation: Implementation,
    sizes: HeadSizes,
    *,
    chunk: int = 0,
    from_zero: bool = False,
    change: Change = lambda function: function,
    **options: Any,
) -> Comparison:
    """Against the statement; `chunk` says which of the chunk sizes to take."""
    if implementation.derivation in PAIRS:
        sizes = replace(sizes, d_k=2)
    return compare_exactly(
        change(implementation.load()),
        implementation,
        sizes,
        statement=STATEMENTS.get(implementation.derivation),
        without=[x.name for x in implementation.arguments if x.optional and from_zero],
        options={name: values[min(chunk, len(values) - 1)] for name, values in implementation.options.items()},
        **options,
    )


def in_pieces(implementation: Implementation) -> bool:
    """Whether it goes chunk by chunk, so that it is quick."""
    return bool(implementation.options)


def test_there_are_some() -> None:
    """An empty registry would pass all tests below."""
    assert len({x.derivation for x in RATIONAL}) >= 13


@every_implementation
@pytest.mark.parametrize("from_zero", [False, True], ids=["from a state", "from zero"])
def test_computes_its_statement(implementation: Implementation, from_zero: bool) -> None:
    """Several chunks with a ragged tail, more value heads than query heads, more than one of each."""
    sizes = HeadSizes(37, D_K, D_V, 2, 4, batch=1) if in_pieces(implementation) else HeadSizes(5, D_K, D_V, 2, 4)
    found = compared(implementation, sizes, from_zero=from_zero)
    assert found.ok, str(found)
    assert not found.without_effect
    arguments = [x.name for x in implementation.arguments if not (x.optional and from_zero)]
    returned = [name for name, _ in implementation.returns]
    assert list(found.differences) == [*returned, *(f"gradient of {name}" for name in arguments)]


@every_implementation
def test_packed_sequences(implementation: Implementation) -> None:
    """Of different lengths, empty ones among them, at the start and at the end."""
    if not implementation.packed:
        pytest.skip("takes no packed sequences")
    lengths = [0, 5, 17, 0, 1, 16, 0] if in_pieces(implementation) else [0, 2, 0, 1, 3, 0]
    found = compared(implementation, HeadSizes.packed(lengths, D_K, D_V))
    assert found.ok, str(found)


@pytest.mark.parametrize("implementation", [x for x in RATIONAL if in_pieces(x)], ids=lambda x: x.name)
@pytest.mark.parametrize("chunk", [1, 2] if MANY else [1])
def test_larger_chunks(implementation: Implementation, chunk: int) -> None:
    tokens = 300 if MANY else 130
    found = compared(implementation, HeadSizes(tokens, D_K, D_V, 1, 1, batch=1), chunk=chunk, seed=chunk)
    assert found.ok, str(found)


def test_as_many_conjugate_gradients_as_channels_solve_every_system() -> None:
    (implementation,) = (x for x in implementations(library="torch") if x.name == "torch.mesanet.conjugate_gradients")
    sizes = HeadSizes.packed([2, 0, 4], 3, 2, 1, 2)  # full chunks: behind a sequence's end no cotangent is solved for
    of_steps = lambda steps: compare_exactly(
        implementation.load(), implementation, sizes, options={"chunk_size": 2, "steps": steps}
    )
    found = of_steps(3)
    assert found.ok, str(found)
    assert not of_steps(2).ok


@pytest.mark.parametrize("derivation", sorted({x.derivation for x in RATIONAL} & PAIRS))
def test_more_pairs_than_are_stated(derivation: str) -> None:
    """One implementation against the other."""
    first, *others = (x for x in RATIONAL if x.derivation == derivation)
    sizes = HeadSizes(19, D_K, D_V)
    arguments = {x.name: torch.zeros(sizes.shape(x.layout)) for x in first.arguments}
    logs = [x.name for x in first.arguments if x.scale == "log"]
    run = lambda x: exact(x.load(), **arguments, log=logs, **{name: values[0] for name, values in x.options.items()})
    assert others
    for other in others:
        assert run(first).differences(run(other)) == []


PLANTED_IN = RATIONAL if MANY else [x for x in RATIONAL if x.derivation in ("gated_deltanet", "rwkv6")]
planted = pytest.mark.parametrize("implementation", PLANTED_IN, ids=lambda x: x.name)


def detached(name: str) -> Change:
    """Without the gradient of one argument."""
    return lambda function: lambda **given: function(**given | {name: given[name].detach()})


def late(name: str) -> Change:
    """With one argument late by a token."""
    return lambda function: lambda **given: function(**given | {name: given[name].roll(1, 1)})


def without_the_state(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *, initial_state, **given: function(**given, initial_state=initial_state * 0)


def one_returned_row_off(function: Callable[..., Any]) -> Callable[..., Any]:
    def changed(**given: Any) -> Any:
        output, *states = function(**given)
        output = output.clone()
        output[0, -1, -1, -1] += 1
        return output, *states

    return changed


@planted
def test_a_lost_gradient_is_found(implementation: Implementation) -> None:
    """In the argument that it belongs to, and nowhere else."""
    sizes = HeadSizes(3, D_K, D_V, batch=1)
    for argument in implementation.arguments:
        found = compared(implementation, sizes, change=detached(argument.name))
        assert [name for name, x in found.differences.items() if x] == [f"gradient of {argument.name}"]


@planted
def test_planted_errors_are_found(implementation: Implementation) -> None:
    sizes = HeadSizes(3, D_K, D_V, batch=1)
    sequences = [x.name for x in implementation.arguments if x.layout.startswith("b t")]
    for name in sequences:
        assert compared(implementation, sizes, change=late(name)).differences["O"] is not None, name
    assert compared(implementation, sizes, change=without_the_state).differences["O"] is not None
    found = compared(implementation, sizes, change=one_returned_row_off)
    (difference,) = (x for x in found.differences.values() if x is not None)
    assert difference.place == f"batch 0, token 2, value head 1, d_v {D_V - 1}"
    assert difference.found == difference.expected + 1
