"""The cases of `attnproof.implementation_cases` on Torch tensors, and the Torch implementations by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnproof.implementation_cases import Case, drawn, errors_over_tolerance
from gpu.registry import Implementation, implementations

BY_NAME = {x.name: x for x in implementations(library="torch")}
WITH_STATE = [name for name, x in BY_NAME.items() if len(x.returns) > 1]
RATIONAL = [name for name, x in BY_NAME.items() if x.rational]
QUADRATIC = [name for name, x in BY_NAME.items() if "block_size" in x.options]
DTYPES = ("float64", "float32", "bfloat16", "float16")
Named = dict[str, Tensor]


def case_for(tokens: int, **changes: Any) -> Case:
    """A small case: two batches, one query head, two value heads, d_k and d_v different."""
    return Case(tokens, **{"batch": 2, "key_width": 5, "value_width": 3, **changes})


def tensors(implementation: Implementation, case: Case, dtype: str = "float64") -> Named:
    """The arguments by name. The same case gives the same numbers in every precision but for their rounding."""
    converted = drawn(implementation, case, dtype)
    return {name: torch.tensor(x, dtype=getattr(torch, dtype)) for name, x in converted.items()}


def in_order(results: Any) -> tuple[Tensor, ...]:
    """What was returned: the output, then the states."""
    return results if isinstance(results, tuple) else (results,)


def called(implementation: Implementation, given: Mapping[str, Tensor], size: int, **options: Any) -> tuple[Any, ...]:
    """What the implementation returns with chunks or blocks of a size."""
    return in_order(implementation.load()(**given, **dict.fromkeys(implementation.options, size), **options))


def ratios(
    implementation: Implementation, results: Any, given: Mapping[str, Tensor], case: Case, dtype: str = "float64"
) -> list[float]:
    """The largest error of any row of the output and of each last state, in tolerances."""
    in_float64 = lambda x: x.detach().double().numpy()
    arguments = {name: in_float64(x) for name, x in given.items()}
    returned = [in_float64(x) for x in in_order(results)]
    return list(errors_over_tolerance(implementation, returned, arguments, case, dtype).values())
