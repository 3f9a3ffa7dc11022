"""Random statements of the language, emitted and run, compute what the walk in float64 does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st
from random_statements import matrices
from test_emit_rules import stating
from test_emit_values import function_of, names_in_signature

from attnproof.emitting import emit
from derivations.language import K, TokenRows, UndefinedValue, d_k, d_v, n, t
from derivations.language.forms import Form
from derivations.language.statements import Identity
from numerics.algebras.floats import numpy_float64
from numerics.float_inputs import float_inputs
from numerics.inputs import Sizes
from numerics.proofs.tolerances import tolerances_of
from numerics.run import run

SIZES = Sizes(4, 3, 2)
HOPELESS = 1e-7
"""What is known to a smaller part than this, in float64, is badly conditioned: rounding decides what comes out."""

ROWS = st.one_of(
    matrices((d_v, 1), 3),
    matrices((n, 1), 2),
    matrices((d_k, d_k), 2).map(lambda e: e @ K[t]),
)


def drawn(form: Form) -> dict[Any, Any]:
    identity = Identity("drawn", form, form)
    return float_inputs(identity, SIZES, np.random.default_rng(0), batch=1)


def in_one_head(form: Form, env: dict[Any, Any]) -> tuple[list[str], dict[str, np.ndarray]]:
    """Layouts without batch and heads, rows before columns; and the arrays."""
    words, given_ = [], {}
    for x in form.symbols():
        sides = [{n: "t", d_k: "k", d_v: "v"}.get(side, "") for side in getattr(x, "shape", (1, 1))]
        layout = [sides[0], sides[1].upper() if sides[0] == sides[1] else sides[1]]
        words.append(f"{x}={' '.join(word for word in layout if word)}")
        given_[str(x)] = env[x][0].reshape([size for size, word in zip(env[x][0].shape, layout, strict=True) if word])
    return words, given_


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(ROWS)
def test_random_statements(row: Any) -> None:
    form = TokenRows(row)
    env = drawn(form)
    try:
        wanted = run(form, env, numpy_float64()).output
        (tolerance,) = tolerances_of(form, env, 2.0**-53, np.random.default_rng(1))
    except (UndefinedValue, np.linalg.LinAlgError):
        assume(False)
    assume(np.all(tolerance <= HOPELESS * abs(wanted).max(axis=-1)))
    layouts, arrays = in_one_head(form, env)
    column = {n: "T", d_k: "k", d_v: "v"}[row.shape[0]]
    source = emit(stating(form), "only", "numpy", [*layouts, f"o=t {column}"])
    note(source)
    own = {name: arrays[name if name in arrays else name.upper()] for name in names_in_signature(source)}
    output = function_of(source)(**own)
    assert np.all(abs(output - wanted[0]).max(axis=-1) <= tolerance[0])
