"""The derivatives of a statement by its inputs, and how far each of their rows may be off.

Of a recurrence they are those of its derived backward pass, with the rounding noise of that pass. Attention matrices
have no such pass: Torch differentiates the statement's own evaluation in float64, and the tolerance is how far the
derivative moves with inputs that are rounded.

A gate that a kernel computes from a logarithm is off by a factor 1 + epsilon; the derivative by the logarithm, which is
the gate times the derivative by the gate, is off by that factor as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from attnproof.catalogue import load_catalogue
from attnproof.oracle.conventions import OUTPUT
from attnproof.oracle.statements import forms_of, symbols_of
from attnproof.oracle.subject import Arrays
from attnproof.oracle.trials import Trial
from derivations.language.adjoint import adjoint, cotangent_of, cotangent_of_output, inputs_of
from derivations.language.forms import Form, Recurrence
from derivations.language.symbols import n
from numerics.algebras.contract import Algebra
from numerics.algebras.floats import Floats, numpy_float64
from numerics.backward import cotangents
from numerics.head_layouts import to_heads
from numerics.proofs.tolerances import MARGIN, tolerances_of_values
from numerics.run import run

Derivatives = dict[Any, tuple[np.ndarray, np.ndarray]]
"""By input of the statement: the derivative, and the tolerance of each of its rows."""
WITHOUT_LOGARITHMS = {"forgetting_attention": "decayed", "path_fox": "decayed"}
"""Forms that are equal to the statement and don't take the logarithm of a mask, whose derivative is 0 / 0."""


def derivatives(trial: Trial, given: Arrays) -> tuple[Derivatives, dict[str, np.ndarray]]:
    """The derivatives of <given, what is returned>, and the cotangents as matrices of the statement, by their names.

    Args:
        trial: the inputs.
        given: cotangents of what is returned, in the kernel's layouts; what isn't there has none.
    """
    form = forms_of(trial.subject.convention.derivation)[0]
    of_output = _of_output(trial, given)
    if not isinstance(form, Recurrence):
        known = load_catalogue().derivations[trial.subject.convention.derivation].forms
        form = known.get(WITHOUT_LOGARITHMS.get(trial.subject.convention.derivation, ""), form)
        return _by_autograd(trial, form, of_output), {OUTPUT: of_output}
    of_states = _of_states(trial, form, given)
    given_back = {cotangent_of(x): value for x, value in of_states.items()} | {cotangent_of_output(form): of_output}
    named = {str(x): value for x, value in of_states.items()}
    return _by_adjoint(trial, form, trial.env | given_back), {OUTPUT: of_output} | named


def of_a_sum(trial: Trial, derived: Derivatives, stated: Mapping[str, np.ndarray]) -> np.ndarray:
    """How far the derivative by the logarithm of each token's gate may be off, where a kernel sums it up from the end.

    That derivative is the sum, over this token and all later ones, of what the cumulated logarithms get: differences of
    terms like q_s^T dq_s and k_s^T dk_s, and S^T dS at the last token. Where gates are strong the sum is far smaller
    than its terms, and what is rounded are these: each is taken to be off by a rounding of its size.
    """
    size = np.zeros(trial.values[OUTPUT].shape[:-1])
    for x, (value, _) in derived.items():
        if x.shape[0] == n and x.shape[1] != 1 and x in trial.env:
            size = size + abs(trial.env[x] * value).sum(axis=-1)
    size = size + abs(trial.values[OUTPUT] * stated[OUTPUT]).sum(axis=-1)
    for name in trial.names[1:]:
        size[..., -1] += abs(trial.values[name] * stated[name]).sum(axis=(-1, -2))
    later = np.flip(np.cumsum(np.flip(size**2, axis=-1), axis=-1), axis=-1)
    return MARGIN * trial.subject.of_sums * np.sqrt(later)


def _of_output(trial: Trial, given: Arrays) -> np.ndarray:
    if OUTPUT not in given:
        return np.zeros_like(trial.values[OUTPUT])
    return trial.stated(OUTPUT, dict(trial.subject.convention.returns)[OUTPUT], given[OUTPUT])


def _of_states(trial: Trial, form: Recurrence, given: Arrays) -> dict[Any, np.ndarray]:
    layouts, symbols = dict(trial.subject.convention.returns), symbols_of(trial.subject.convention.derivation)
    heads = len(trial.values[OUTPUT])
    return {
        x: to_heads(given[str(x)], layouts[str(x)], symbols[str(x)], trial.sizes)
        if str(x) in given
        else np.zeros((heads, *trial.values[str(x)].shape[1:]))
        for x in form.states
    }


def _by_adjoint(trial: Trial, form: Recurrence, env: Mapping[Any, Any]) -> Derivatives:
    backward = adjoint(form)
    inputs = sorted({*inputs_of(form), *form.states}, key=str)

    def values(own: Mapping[Any, Any], algebra: Algebra) -> list[np.ndarray]:
        found = cotangents(backward, own, algebra)
        return [_by_what_is_given(found[x], x, own, trial) for x in inputs]

    tolerances = tolerances_of_values(values, env, trial.roundings, np.random.default_rng((trial.case.seed, 3)))
    return dict(zip(inputs, zip(values(env, numpy_float64()), tolerances, strict=True), strict=True))


def _by_autograd(trial: Trial, form: Form, of_output: np.ndarray) -> Derivatives:
    inputs = [x for x, value in trial.env.items() if not isinstance(value, int)]

    def values(own: Mapping[Any, Any], algebra: Algebra) -> list[np.ndarray]:
        found = _differentiated(form, own, inputs, of_output)
        return [_by_what_is_given(value, x, own, trial) for x, value in zip(inputs, found, strict=True)]

    subject = trial.subject
    once = subject.unit_roundoff / subject.of_sums
    how = replace(trial.roundings, computed={**dict.fromkeys(inputs, once), **trial.roundings.computed})
    tolerances = tolerances_of_values(values, trial.env, how, np.random.default_rng((trial.case.seed, 3)))
    whole = _differentiated(form, trial.env, inputs, of_output)
    of_scores = _of_cancelled_scores(trial, form, inputs, of_output)
    allowed = [np.maximum(x, of_scores.get(str(name), 0.0)) for name, x in zip(inputs, tolerances, strict=True)]
    return dict(zip(inputs, zip(whole, allowed, strict=True), strict=True))


def _by_what_is_given(derivative: np.ndarray, x: Any, own: Mapping[Any, Any], trial: Trial) -> np.ndarray:
    """A derivative by an input as it should be, of one by the input as the kernel computes it: times their quotient."""
    if x not in trial.computed_by_the_kernel:
        return derivative
    used, right = np.broadcast_arrays(own[x], trial.env[x])
    return derivative * np.divide(used, right, out=np.ones(used.shape), where=right != 0)


def _of_cancelled_scores(trial: Trial, form: Form, inputs: list[Any], of_output: np.ndarray) -> dict[str, np.ndarray]:
    """How far derivatives by queries and keys may be off since those by their scores are differences, per row.

    Of a softmax, dA_ij = p_ij (do_i^T v_j - do_i^T o_i): where one token has nearly all the weight, that is the
    difference of two equal numbers, each of which is rounded: o_i was, to the kernel's precision, when it was returned.
    With what do_i^T o_i is off by, dq_i is off along all keys and dk_j along the queries that look at it, with p_ij;
    what turns keys on the way is off with all queries behind it.
    """
    by_name = {str(x): x for x in trial.env}
    off = np.linalg.norm(of_output * trial.values[OUTPUT], axis=-1) * trial.subject.unit_roundoff / 3**0.5
    lengths = {name: np.linalg.norm(trial.env[by_name[name]], axis=-1) for name in ("Q", "K")}
    longest = lengths["K"].max(axis=-1, keepdims=True)
    along_queries = off * lengths["Q"]
    weights = np.broadcast_to(along_queries[..., None], of_output.shape)
    seen = dict(zip(map(str, inputs), _differentiated(form, trial.env, inputs, weights), strict=True))["V"]
    behind = np.flip(np.cumsum(np.flip(along_queries**2, axis=-1), axis=-1), axis=-1) ** 0.5 * longest
    rows = {"Q": off * longest, "K": abs(seen).max(axis=-1), "W": behind}
    return {name: MARGIN * x for name, x in rows.items()}


def _differentiated(form: Form, env: Mapping[Any, Any], inputs: list[Any], of_output: np.ndarray) -> list[np.ndarray]:
    torch, namespace = import_module("torch"), import_module("array_api_compat.torch")
    tensors = {x: torch.tensor(env[x], dtype=torch.float64, requires_grad=True) for x in inputs}
    output = run(form, {**env, **tensors}, Floats(namespace, torch.float64)).output
    weights = torch.tensor(of_output).expand(output.shape)
    found = torch.autograd.grad(output, list(tensors.values()), weights, allow_unused=True)
    return [np.zeros(np.shape(env[x])) if g is None else g.numpy() for x, g in zip(inputs, found, strict=True)]
