"""Planted errors are found: each operation of the code of several systems in turn, and the rules that write it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from test_emit_values import DERIVATIONS, computed, errors_over_tolerance

from attnproof.emitting import emit, expressions, forms
from attnproof.emitting.expressions import Writer
from attnproof.emitting.forms import Scope
from derivations.language import expressions as nodes
from derivations.language import masks
from derivations.language.forms import Recurrence

PLANTED_IN = [
    ("linear_attention", "recurrence"),
    ("decay", "chunkwise"),
    ("gla", "matrix"),
    ("deltanet", "correction_sum"),
    ("gated_deltanet", "recurrence"),
    ("gated_deltanet", "matrix"),
    ("comba", "chunkwise"),
    ("kda", "recurrence"),
    ("rwkv6", "recurrence"),
    ("rwkv7", "chunkwise"),
    ("mesanet", "recurrence"),
    ("path_attention", "product"),
    ("titans", "recurrence"),
    ("mamba", "recurrence"),
    ("softmax_attention", "matrix"),
    ("retnet", "recurrence"),
]
OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Each arithmetic operation and each transpose of the formulas changed, one at a time."""
    tree = ast.parse(source)
    function = [node for node in tree.body if isinstance(node, ast.FunctionDef)][-1]
    sites = [node for node in ast.walk(function) if isinstance(node, ast.BinOp | ast.Attribute | ast.Constant)]
    for place in range(len(sites)):
        changed = deepcopy(tree)
        own = [node for node in changed.body if isinstance(node, ast.FunctionDef)][-1]
        node = [x for x in ast.walk(own) if isinstance(x, ast.BinOp | ast.Attribute | ast.Constant)][place]
        before = ast.unparse(node)
        if _changed(node):
            yield f"line {node.lineno}: {before}", ast.unparse(changed)


def _changed(node: ast.BinOp | ast.Attribute | ast.Constant) -> bool:
    if isinstance(node, ast.BinOp) and type(node.op) in OTHER:
        node.op = OTHER[type(node.op)]()
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        node.left, node.right = node.right, node.left
        return True
    if isinstance(node, ast.Attribute) and node.attr == "mT":
        node.attr = "real"
        return True
    return False


@pytest.mark.parametrize(("name", "form"), PLANTED_IN)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_planted_errors_are_found(name: str, form: str) -> None:
    survived, planted = [], 0
    for what, source in mutants(emit(DERIVATIONS[name], form, "numpy")):
        planted += 1
        try:
            ratio = errors_over_tolerance(computed(source, name, form, np.asarray), name, form)
        except RAISED:
            continue
        if ratio < 1:
            survived.append(what)
    assert planted >= 4
    assert not survived


Break = Callable[[pytest.MonkeyPatch], None]
WATCHED = [
    *[("linear_attention", "matrix"), ("decay", "matrix"), ("gla", "matrix"), ("gla", "chunkwise")],
    *[
        ("decay", "component_sum"),
        ("deltanet", "correction_sum"),
        ("comba", "matrix"),
        ("gated_deltanet", "recurrence"),
    ],
    *[("gated_deltanet", "matrix"), ("gated_deltanet", "chunkwise"), ("deltanet", "matrix")],
    *[("retnet", "complex_decay"), ("rwkv4", "matrix")],
]
RAISED = (ValueError, TypeError, AttributeError, IndexError, UnboundLocalError, np.linalg.LinAlgError)


def rule(kind: type, other: Callable[[Writer, Any], tuple[str, int]]) -> Break:
    """A rule of the walk is exchanged for another one."""
    return lambda patch: patch.setitem(expressions.RULES, kind, other)


def attribute(owner: object, name: str, other: object) -> Break:
    return lambda patch: patch.setattr(owner, name, other)


def in_turn(form: Recurrence, states: Mapping[Any, str], index: str, scope: Scope) -> None:
    """Each state is written at once, though others still read the old one."""
    for state, update in zip(form.states, form.updates, strict=True):
        scope.line(states[state], f"{state}_{index}", update)


RULES = dict(expressions.RULES)
BROKEN = {
    "the strict mask has a diagonal": rule(masks.StrictMask, RULES[masks.CausalMask]),
    "the mask has none": rule(masks.CausalMask, RULES[masks.StrictMask]),
    "the decay is shifted": rule(masks.Decay, RULES[masks.ShiftedDecay]),
    "the strict decay has a diagonal": rule(masks.StrictDecay, RULES[masks.Decay]),
    "products stop before the token": rule(masks.CumulativeProduct, RULES[masks.PrecedingProduct]),
    "products go on to the end": rule(masks.RemainingProduct, RULES[masks.CumulativeProduct]),
    "nothing is transposed": rule(nodes.Transposed, lambda write, e: write.parts(e.args[0])),
    "scalars are dropped": rule(nodes.Scaled, lambda write, e: write.parts(e.args[1])),
    "the last term is dropped": rule(nodes.Sum, lambda write, e: write.parts(e.args[0])),
    "the reciprocal of nothing": rule(nodes.Reciprocal, lambda write, e: write.parts(e.args[0])),
    "the identity is of ones": rule(nodes.Eye, lambda write, e: (write.made("ones", *e.shape), expressions.ATOM)),
    "an inverse is multiplied with": attribute(
        expressions, "_solution", lambda write, e, right: write.parts(e.args[0] @ right)
    ),
    "a sum starts at the second token": attribute(
        expressions, "_from_to", lambda write, lower, upper: f"1, {write.number(upper)}"
    ),
    "a sum stops a token early": attribute(
        expressions, "_from_to", lambda write, lower, upper: write.number(upper - 1)
    ),
    "one state is read after it is written": attribute(forms, "_updates", in_turn),
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_broken_rule_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BROKEN[what](monkeypatch)
    expressions._rule_for.cache_clear()
    try:
        assert any(is_wrong(name, form) for name, form in WATCHED)
    finally:
        expressions._rule_for.cache_clear()


def is_wrong(name: str, form: str) -> bool:
    try:
        source = emit(DERIVATIONS[name], form, "numpy")
        return errors_over_tolerance(computed(source, name, form, np.asarray), name, form) >= 1
    except RAISED:
        return True
