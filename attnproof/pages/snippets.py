"""Code to copy: a kernel held against a statement, the statement as an oracle, and the statement as plain code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnproof.emitting import TARGETS, NotEmittable, emit
from attnproof.pages.implementations import Fast
from derivations.language.forms import Recurrence
from derivations.language.statements import Derivation

CHECK = """\
import attnproof
from my_package import my_kernel  # takes {arguments}

report = attnproof.check_kernel(my_kernel, "{derivation}")
print(report)
report.raise_if_wrong()
"""

ORACLE = """\
import attnproof
import numpy as np
from attnproof.language import d_k, d_v, n
from numerics.algebras.floats import numpy_float64
from numerics.run import run

form = attnproof.load_catalogue().derivations["{derivation}"].forms["{form}"]
rng = np.random.default_rng(0)
sizes = {{n: 32, d_k: 8, d_v: 6}}
shapes = {{x: [int(side.subs(sizes)) for side in x.shape] for x in form.symbols()}}
inputs = {{x: rng.uniform(0.1, 0.4, shape) for x, shape in shapes.items()}}

# exact.output is n x d_v, exact.states are the final states; there is a tolerance for each row of each
exact = run(form, sizes | inputs, numpy_float64())
tolerances = attnproof.tolerances_of(form, sizes | inputs, 2.0**-24, rng)
# your kernel on `inputs` has to be this close:
# assert (abs(yours - exact.output).max(axis=-1) <= tolerances[0]).all()
"""
DIMENSIONS = {"n", "d_k", "d_v"}


def oracle(derivation: Derivation) -> str:
    """Code that runs as it is; nothing where no recurrence reads plain arrays of the usual dimensions alone."""
    for name, form in derivation.forms.items():
        if type(form) is Recurrence and all(_is_plain(x) for x in (*form.symbols(), *form.states)):
            return ORACLE.format(derivation=derivation.name, form=name)
    return ""


def _is_plain(x: object) -> bool:
    shape = getattr(x, "shape", None)
    return isinstance(shape, tuple) and {str(y) for side in shape for y in side.free_symbols} <= DIMENSIONS


def check(derivation: Derivation, fast: Sequence[Fast]) -> str:
    """A call that checks a kernel with the arguments of the first implementation; nothing where there is none."""
    if not fast:
        return ""
    arguments = ", ".join(argument.name for argument in fast[0].declared.arguments)
    return CHECK.format(derivation=derivation.name, arguments=arguments)


def reference_code(derivation: Derivation) -> tuple[str, list[tuple[str, str]]]:
    """The name of the first form that can be written as plain code, and the code for each array library."""
    for name in derivation.forms:
        found = list(_written(derivation, name))
        if found:
            return name, found
    return "", []


def _written(derivation: Derivation, form: str) -> Iterator[tuple[str, str]]:
    for target in TARGETS:
        try:
            yield target, emit(derivation, form, target)
        except NotEmittable:
            return
