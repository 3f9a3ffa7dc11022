"""Inputs for one form of a derivation, drawn from what its identities assume of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sympy import Eq

from derivations.language.assumptions import Assumption
from derivations.language.forms import Form
from derivations.language.statements import Derivation, Identity
from derivations.language.symbols import State
from numerics.float_inputs import float_inputs
from numerics.inputs import Sizes


def drawn_for(derivation: Derivation, form: Form, sizes: Sizes, seed: int, matrices: int) -> dict[Any, Any]:
    """Float64 inputs of a form and its initial states, with a leading dimension of so many matrices.

    They come from NumPy's PCG64 with this seed, symbol by symbol in the order of their names.

    Raises:
        CannotDraw: no draw fulfils what is assumed.
    """
    identity = Identity("drawn", form, form, assumptions=assumed(derivation, form))
    env = float_inputs(identity, sizes, np.random.Generator(np.random.PCG64(seed)), batch=matrices)
    return {x: value @ value.swapaxes(-1, -2) if _is_sum_of_squares(x) else value for x, value in env.items()}


def _is_sum_of_squares(x: Any) -> bool:
    """Whether a state is square, as a sum of k k^T is: it is then drawn without negative eigenvalues."""
    return isinstance(x, State) and x.shape[0] == x.shape[1] != 1


def assumed(derivation: Derivation, form: Form) -> tuple[Assumption, ...]:
    """What the identities in which a form stands ask of its inputs; not the values that make it a special case."""
    found: dict[str, Assumption] = {}
    for identity in derivation.identities:
        if identity.expected == "holds" and any(side is form for side in (identity.left, identity.right)):
            for assumption in identity.assumptions:
                if assumption.subjects() <= form.symbols() and not _gives_a_value(assumption):
                    found[str(assumption)] = assumption
    return tuple(found.values())


def _gives_a_value(assumption: Assumption) -> bool:
    related = assumption.norm_of is not None or assumption.circle_of is not None
    return isinstance(assumption.condition, Eq) and not related
