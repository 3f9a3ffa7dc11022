"""What is tried with a kernel: named checks, in the order in which they are tried, by how much effort is asked for.

A check holds where every counted comparison stays within its tolerance; it is vacuous where no input was sharp enough
to count, and skipped where the kernel has nothing to try (no initial state, no gradients).
"""

from __future__ import annotations

from attnproof.oracle import calls, values
from attnproof.oracle.exactness import exact
from attnproof.oracle.findings import Check
from attnproof.oracle.gradients import few_gradients, gradients

OF_CALLS: tuple[Check, ...] = (
    calls.splits,
    calls.causality,
    calls.packed,
    calls.repeated,
    calls.memory,
    calls.no_tokens,
)
OF_VALUES: tuple[Check, ...] = (
    values.lengths,
    values.without_a_state,
    values.shapes,
    values.keys,
    values.gate_sweep,
    values.limits,
    values.scale,
)
EFFORTS: dict[str, tuple[Check, ...]] = {
    "quick": (values.few_lengths, values.without_a_state, values.gate_sweep, calls.packed, calls.memory, few_gradients),
    "usual": (*OF_VALUES, values.drawn_inputs, *OF_CALLS, gradients, exact),
    "deep": (*OF_VALUES, values.many_drawn_inputs, *OF_CALLS, gradients, exact),
}
OF_THE_BACKWARD_PASS: tuple[Check, ...] = (few_gradients, gradients)
