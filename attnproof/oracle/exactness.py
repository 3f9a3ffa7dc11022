"""The check without a tolerance: a Torch kernel runs modulo p, and equals the statement in every entry or doesn't.

Outputs, last states and all gradients, see attnproof/exactly.py. Kernels that call what has no meaning in a finite
field, or aren't eager Torch code, can't be tried so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from attnproof.implementation_cases import Case
from attnproof.oracle.findings import Finding, skipped
from attnproof.oracle.statements import described, forms_of, presented
from attnproof.oracle.subject import Subject, raised
from derivations.language.errors import NoMeaning, StatementError
from derivations.language.forms import Recurrence
from numerics.head_layouts import HeadSizes

NAME = "exact"
WIDTH = 4
"""d_k: its root is a fraction, so that a scale of d_k^-1/2 is."""


def exact(subject: Subject, case: Case) -> Finding:
    """Over the end of a block, two value heads for a query head where the kernel has groups."""
    form = forms_of(subject.convention.derivation)[0]
    scales = {x.scale for x in subject.convention.arguments}
    if subject.library != "torch" or not isinstance(form, Recurrence):
        return skipped(NAME, "exact mode runs Torch, and knows statements that go token by token")
    if scales & {"log2", "rate"}:
        return skipped(NAME, "powers of two and rates have no meaning in exact mode")
    if any(x.layout.endswith(" p") for x in subject.convention.arguments):
        return skipped(NAME, "the statement has one pair of channels")
    return _compared(subject, case, form)


def _compared(subject: Subject, case: Case, form: Recurrence) -> Finding:
    from attnproof.exactly import compare_exactly

    grouped = {"h", "g"} <= {letter for x in subject.convention.arguments for letter in x.layout.split()}
    sizes = HeadSizes(case.chunk_size + 3, WIDTH, 3, 1, 2 if grouped else 1, 1)
    own = described(subject.convention, as_called=True)
    try:
        found = compare_exactly(
            _what_is_described(subject),
            own,
            sizes,
            statement=form,
            seed=case.seed,
            factors={x.name: Fraction(1, 2) for x in own.arguments if x.scaled},
            options=subject.convention.constants,
        )
    except (NoMeaning, StatementError) as error:
        return skipped(NAME, str(error).splitlines()[0])
    except (Exception, SystemExit) as error:
        return skipped(NAME, f"it can't be run exactly, {raised('it', error)}")
    forward_only = not subject.differentiable(presented(subject, replace(case, tokens=1)))
    differences = {
        name: x for name, x in found.differences.items() if not (forward_only and name.startswith("gradient of"))
    }
    wrong = [str(x) for x in differences.values() if x is not None]
    if wrong:
        right = [name for name, x in differences.items() if x is None]
        also = f"; right: {', '.join(right)}" if right else ""
        message = f"n = {sizes.tokens}, modulo 2^31 - 1: {'; '.join(wrong)}{also}"
        return Finding(NAME, "refuted", np.inf, message=message)
    return Finding(NAME, "holds", message=f"{', '.join(differences)}, modulo 2^31 - 1, n = {sizes.tokens}")


def _what_is_described(subject: Subject) -> Callable[..., Any]:
    """The kernel, without what it returns besides."""

    def called(**arguments: Any) -> Any:
        found = subject.kernel(**arguments)
        return found[: len(subject.convention.returns)] if isinstance(found, tuple | list) else found

    return called
