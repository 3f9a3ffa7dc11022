"""Backward passes in any number system: forward with every state kept, then from the last token to the first.

    cotangents(adjoint(recurrence), {K: ..., V: ..., Q: ..., dO: ..., dS: ..., n: 8, ...}, algebra)

The other direction, `forward_mode`, differentiates along a direction of the inputs, and shares no rule with it: as
polynomials by the ring's own derivative, in every other number system by dual numbers.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce

from sympy import Basic, Pow, Rational, preorder_traversal

from derivations.language.adjoint import (
    Adjoint,
    Cotangent,
    adjoint,
    cotangent_of,
    cotangent_of_output,
    inputs_of,
    is_row,
    written,
    zero_of,
)
from derivations.language.expressions import Exponential, Reciprocal, ScalarExponential
from derivations.language.forms import Recurrence, sequence_of
from derivations.language.symbols import t
from derivations.language.two_modes import ForwardMode, ReverseMode, direction
from numerics.algebras.contract import Algebra, Value
from numerics.algebras.polynomials import Polynomials
from numerics.algebras.with_tangents import WithTangents
from numerics.evaluate import Environment, evaluate
from numerics.recurrences import States, at_tokens, history, start

Expressions = tuple[Basic, ...]


def cotangent(form: Cotangent, env: Environment, algebra: Algebra) -> Value:
    """The cotangent of one input; zero where nothing reads it."""
    found = cotangents(adjoint(form.recurrence), env, algebra)
    return found[form.of] if form.of in found else evaluate(zero_of(form.of), env, algebra)


def cotangents(backward: Adjoint, env: Environment, algebra: Algebra) -> dict[Basic, Value]:
    """The cotangent of every input, and of the initial states.

    Args:
        backward: what is carried out.
        env: the inputs, dO, and dS for every state: the cotangents of the outputs and of the last states.
        algebra: the number system.
    """
    rows, carried = _from_the_end(backward, env, algebra)
    found = {
        sequence_of(x): algebra.stack(each) if is_row(x) else reduce(algebra.add, each) for x, each in rows.items()
    }
    for x, e in backward.begun.items():
        own = evaluate(e, {**env, **carried}, algebra)
        found[x] = algebra.add(found[x], own) if x in found else own
    return found | {x: carried[cotangent_of(x)] for x in backward.states}


def _from_the_end(backward: Adjoint, env: Environment, algebra: Algebra) -> tuple[dict[Basic, list[Value]], States]:
    """The cotangent of each input at each token, and dS_0."""
    moments = list(history(backward.recurrence, env, start(backward.recurrence, env, algebra), algebra))
    early, later = _shared(backward)
    carried: States = {cotangent_of(x): env[cotangent_of(x)] for x in backward.states}
    rows: dict[Basic, list[Value]] = {x: [] for x in backward.rows}
    for positions, before, after in reversed(moments):
        seen: list[States] = []
        for position, old, new in reversed(list(zip(positions, before, after, strict=True))):
            states = {**old, **{written(x): value for x, value in new.items()}}
            here, carried = _token(backward, {**env, t: position}, states, carried, early, algebra)
            seen.insert(0, here)
        for e in later:
            for here, value in zip(seen, at_tokens(e, env, positions, seen, algebra), strict=True):
                here[e] = value
        for x, e in backward.rows.items():
            rows[x] = at_tokens(e, env, positions, seen, algebra) + rows[x]
    return rows, carried


def _token(
    backward: Adjoint, env: Environment, states: States, carried: States, shared: Expressions, algebra: Algebra
) -> tuple[States, States]:
    """One token: everything that its rows are made of, dS_t with what the output reads taken up; and dS_{t-1}."""
    here = {**states, **carried}
    for x, e in backward.taken_up.items():
        here[cotangent_of(x)] = algebra.add(carried[cotangent_of(x)], evaluate(e, {**env, **states}, algebra))
    for e in shared:
        here[e] = evaluate(e, {**env, **here}, algebra)
    return here, {cotangent_of(x): evaluate(e, {**env, **here}, algebra) for x, e in backward.carried.items()}


def _shared(backward: Adjoint) -> tuple[Expressions, Expressions]:
    """Exponentials and quotients that stand in several formulas, small ones first: they are evaluated once a token.

    Those that dS_{t-1} is made of come first, token by token; the rows alone can have theirs for many tokens at once.
    """
    count: Counter[Basic] = Counter()
    for e in (*backward.rows.values(), *backward.carried.values()):
        count.update(part for part in preorder_traversal(e) if _is_worth_sharing(part))
    often = sorted((e for e, times in count.items() if times > 1), key=lambda e: (e.count_ops(), str(e)))
    early = [e for e in often if any(formula.has(e) for formula in backward.carried.values())]
    return tuple(early), tuple(e for e in often if e not in early)


def _is_worth_sharing(e: Basic) -> bool:
    return isinstance(e, Exponential | ScalarExponential | Reciprocal) or (isinstance(e, Pow) and e.exp.is_negative)


def pairing(a: Value, b: Value, algebra: Algebra) -> Value:
    """<A, B>, the sum of the products of the entries, as a scalar."""
    rows, columns = a.shape[-2:]
    products = algebra.multiply(a, b)
    return algebra.matmul(algebra.matmul(algebra.ones(1, rows), products), algebra.ones(columns, 1))


def reverse_mode(form: ReverseMode, env: Environment, algebra: Algebra) -> Value:
    """The sum of <dx, x'> over the inputs x."""
    found = cotangents(form.adjoint, env, algebra)
    return reduce(algebra.add, (pairing(found[x], env[direction(x)], algebra) for x in form.adjoint.inputs))


def loss(recurrence: Recurrence, env: Environment, algebra: Algebra) -> Value:
    """<dO, O> + <dS_n, S_n>."""
    outputs: list[Value] = []
    states = start(recurrence, env, algebra)
    for positions, before, after in history(recurrence, env, states, algebra):
        read = after if recurrence.read == "after" else before
        outputs += at_tokens(recurrence.readout, env, positions, read, algebra)
        states = after[-1]
    total = pairing(env[cotangent_of_output(recurrence)], algebra.stack(outputs), algebra)
    for x, value in states.items():
        total = algebra.add(total, pairing(env[cotangent_of(x)], value, algebra))
    return total


def forward_mode(form: ForwardMode, env: Environment, algebra: Algebra) -> Value:
    """The derivative of <dO, O> + <dS_n, S_n> along a direction of the inputs."""
    inputs = sorted(inputs_of(form.recurrence), key=str)
    if isinstance(algebra, Polynomials):
        return _along_in_the_ring(loss(form.recurrence, env, algebra), inputs, env, algebra)
    dual = WithTangents(algebra)
    lifted = {x: value if isinstance(value, int) else dual.constant(value) for x, value in env.items()}
    lifted |= {x: dual.lift(env[x], env[direction(x)]) for x in inputs}
    return dual.tangent(loss(form.recurrence, lifted, dual))


def _along_in_the_ring(value: Value, inputs: list[Basic], env: Environment, algebra: Polynomials) -> Value:
    """The sum of x' d/dx over the generators x."""
    total = algebra.number(Rational(0))
    for x in inputs:
        for entry, change in zip(env[x].flat, env[direction(x)].flat, strict=True):
            total[0, 0] = total[0, 0] + change * algebra.derivative(value[0, 0], entry)
    return total
