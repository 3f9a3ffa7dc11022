"""The chunkwise functions in GF(p), the same lines: equal to the recurrences as stated, which know nothing of chunks.

Residues are drawn uniformly, log gates as exponents. The statement gets 7^e in their place, from Python's own pow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnproof.implementation_cases import Case, as_stated, environment, named, statement
from gpu.cupy_kernels import blocks, carried, decays
from gpu.cupy_kernels.declared import CHUNKWISE, RECURRENT
from gpu.field_array import GENERATOR, PRIME, ExactArray, ExponentArray, FieldArray, NoExactMeaning
from gpu.registry import Argument, Implementation
from numerics.algebras.contract import Algebra
from numerics.algebras.finite_field import FiniteField
from numerics.algebras.with_exponents import Exponents, PowersOfAGenerator, WithExponents, plain
from numerics.run import run

STATED = {x.derivation: x.form for x in RECURRENT} | {"mesanet": "recurrence"}
RATIONAL = [replace(x, form=STATED[x.derivation]) for x in CHUNKWISE if x.rational]
EXAMPLES = max(settings().max_examples // 5, 1)

power_of_seven = np.vectorize(lambda exponent: pow(GENERATOR, int(exponent), PRIME), otypes=[np.int64])
Drawn = dict[str, tuple[ExactArray, np.ndarray]]
"""For each argument what the function gets, and the residues that the statement gets."""


def exact_arguments(implementation: Implementation, case: Case, rng: np.random.Generator) -> Drawn:
    sizes = case.sizes(implementation)

    def of(argument: Argument) -> tuple[ExactArray, np.ndarray]:
        shape = sizes.shape(argument.layout)
        if argument.scale == "log":
            exponents = rng.integers(0, PRIME - 1, shape)
            return ExponentArray(exponents), power_of_seven(exponents)
        residues = rng.integers(0, PRIME, shape)
        if argument.stands_for == "H":  # symmetric
            residues = (residues + residues.swapaxes(-1, -2)) % PRIME
        return FieldArray(residues), residues

    wanted = [x for x in implementation.arguments if case.with_state or not x.optional]
    return {x.name: of(x) for x in wanted}


def stated(
    implementation: Implementation, case: Case, values: dict[str, Any], algebra: Algebra
) -> dict[str, np.ndarray]:
    """The statement's output and states by name."""
    symbols, form = named(implementation), statement(implementation)
    env: dict[Any, Any] = dict(environment(implementation, {}, case))
    for argument in implementation.arguments:
        if argument.name in values:
            env[symbols[argument.stands_for]] = values[argument.name]
    outcome = run(form, env, algebra)
    return dict(zip(["O", *map(str, form.states)], map(plain, (outcome.output, *outcome.states)), strict=True))


def differing(implementation: Implementation, case: Case, returned: Any, expected: dict[str, np.ndarray]) -> list[str]:
    """The names of the returned values that aren't the statement's."""
    results = returned if isinstance(returned, tuple) else (returned,)
    symbols, sizes = named(implementation), case.sizes(implementation)
    pairs = zip(implementation.returns, results, strict=True)
    return [
        name
        for (name, layout), value in pairs
        if not np.array_equal(as_stated(value.values, layout, symbols[name], sizes), expected[name])
    ]


def wrong(implementation: Implementation, case: Case) -> list[str]:
    """The same, for a draw from the case's seed."""
    drawn = exact_arguments(implementation, case, np.random.default_rng(case.seed))
    returned = implementation.load()(**{name: x for name, (x, _) in drawn.items()}, chunk_size=case.chunk_size)
    symbols, sizes = named(implementation), case.sizes(implementation)
    layouts = {x.name: (x.layout, symbols[x.stands_for]) for x in implementation.arguments}
    values = {name: as_stated(residues, *layouts[name], sizes) for name, (_, residues) in drawn.items()}
    return differing(implementation, case, returned, stated(implementation, case, values, FiniteField()))


@pytest.mark.parametrize("implementation", RATIONAL, ids=lambda x: x.derivation)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_it_equals_its_statement(implementation: Implementation, data: st.DataObject) -> None:
    case = Case(
        int(300 ** data.draw(st.floats(0, 1))),
        with_state=data.draw(st.booleans()),
        seed=data.draw(st.integers(0, 2**16)),
        heads=data.draw(st.integers(1, 2)),
        key_width=data.draw(st.integers(1, 4)),
        value_width=data.draw(st.integers(1, 3)),
        chunk_size=data.draw(st.sampled_from([1, 4, 16, 64])),
    )
    assert wrong(implementation, case) == []


@pytest.mark.parametrize("implementation", RATIONAL, ids=lambda x: x.derivation)
def test_a_long_one_from_a_state(implementation: Implementation) -> None:
    assert wrong(implementation, Case(300, groups=1, key_width=2, value_width=1, chunk_size=64)) == []


def test_exponentials_of_scores() -> None:
    """DeltaFormer's queries and keys are exponents: their inner products count modulo p - 1."""
    implementation, case = next(x for x in CHUNKWISE if x.derivation == "deltaformer"), Case(40, value_width=2)
    sizes, symbols, rng = case.sizes(implementation), named(implementation), np.random.default_rng(0)
    algebra = WithExponents(FiniteField(), Exponents(), PowersOfAGenerator())
    given_, lifted = {}, {}
    for argument in implementation.arguments:
        integers = rng.integers(0, PRIME - 1, sizes.shape(argument.layout))
        given_[argument.name] = FieldArray(integers) if argument.name == "v" else ExponentArray(integers)
        stated_ = as_stated(integers, argument.layout, symbols[argument.stands_for], sizes)
        lifted[argument.name] = algebra.lift(stated_ % PRIME, stated_)
    returned = implementation.load()(**given_, chunk_size=16)
    assert differing(implementation, case, returned, stated(implementation, case, lifted, algebra)) == []


def test_a_maximum_has_no_exact_meaning() -> None:
    """Forgetting attention keeps its sums at the scale of the largest score."""
    implementation, case = next(x for x in CHUNKWISE if x.derivation == "forgetting_attention"), Case(5)
    drawn = exact_arguments(implementation, case, np.random.default_rng(0))
    exponents = {name: x for name, (x, _) in drawn.items()}
    exponents |= {name: ExponentArray(drawn[name][1]) for name in ("q", "k")}
    with pytest.raises(NoExactMeaning, match="max has no exact meaning"):
        implementation.load()(**exponents)


PLANTED = {
    "a gate too many": (decays, "moved_down", lambda x, first=0: x, "gla", ["O", "S"]),
    "the mask's diagonal": (decays, "_mask", lambda reach: "strict", "decay", ["O"]),
    "a block of the inverse": (
        carried,
        "unit_lower_inverse",
        lambda x: blocks.unit_lower_inverse(x) - x,
        "kda",
        ["O", "S"],
    ),
    "no decay between chunks": (decays, "faded_state", lambda gates, state, chunk: state, "rwkv7", ["O", "S"]),
}


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_found(error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home, function, planted, name, expected = PLANTED[error]
    implementation = next(x for x in RATIONAL if x.derivation == name)
    monkeypatch.setattr(home, function, planted)
    assert wrong(implementation, Case(20, chunk_size=8)) == expected
