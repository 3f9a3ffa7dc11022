"""The one walk: a statement and values for its symbols give a value, in whatever number system.

    evaluate((Q @ K.T).hadamard(M) @ V, {Q: ..., K: ..., V: ..., n: 8}, algebra)

An environment maps named matrices, scalars and dimensions to their values, and positions to row numbers counted from
0. Everything that the product says about a formula is this walk in some algebra (numerics/algebras/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sympy import Add, Basic, Integer, Mul, Pow, Rational, Symbol

from derivations.language.errors import NoMeaning, StatementError
from derivations.language.expressions import (
    Below,
    Beside,
    Diagonal,
    Exponential,
    Eye,
    Hadamard,
    Inverted,
    Logarithm,
    Ones,
    Product,
    Reciprocal,
    RowProducts,
    ScalarExponential,
    ScalarOf,
    Scaled,
    Sum,
    TraceOf,
    Transposed,
    Zeros,
    product_of,
)
from derivations.language.forms import sequence_of
from derivations.language.masks import (
    CausalMask,
    CumulativeProduct,
    Decay,
    GateProduct,
    PrecedingProduct,
    RemainingProduct,
    ShiftedDecay,
    StrictDecay,
    StrictMask,
    Toeplitz,
    TokenSum,
    TotalProduct,
    TotalProducts,
)
from derivations.language.structure import structure
from derivations.language.symbols import GateToken, Named, Token
from numerics.algebras.contract import Algebra, Value

Environment = Mapping[Any, Any]
Rule = Callable[[Any, Environment, Algebra], Value]

CHUNK = Symbol("C", integer=True, positive=True)
"""The size of a block of a chunkwise form, as a key of the environment."""


@dataclass(frozen=True)
class RootOf:
    """The key under which an environment keeps the square root of an input that is drawn as a square."""

    subject: Basic


def evaluate(e: Basic, env: Environment, algebra: Algebra) -> Value:
    """The value of a matrix expression or scalar.

    Raises:
        UndefinedValue: there is none at these inputs (a singular matrix, a division by zero).
        NoMeaning: the algebra has no such operation.
        KeyError: a symbol has no value.
    """
    if e in env:
        value = env[e]
        return _as_scalar(e, value, env, algebra) if isinstance(value, int | range) else value
    kind: Any = type(e)
    return _rule_for(kind)(e, env, algebra)


def _as_scalar(e: Basic, value: int | range, env: Environment, algebra: Algebra) -> Value:
    """A dimension, or a position counted from 1."""
    return _one_by_one(e, e, env, algebra) if isinstance(value, range) else algebra.number(Rational(integer(e, env)))


@cache
def _rule_for(kind: Any) -> Rule:
    rule = RULES.get(kind) or next((r for base, r in RULES.items() if issubclass(kind, base)), None)
    if rule is None:
        raise NoMeaning(f"the walk has no rule for {kind.__name__}")
    return rule


def integer(e: Basic, env: Environment) -> int:
    """The value of a dimension, or of a position counted from 1."""
    if isinstance(e, Integer):
        return int(e)
    if isinstance(e, Symbol):
        return env[e] if e.is_positive else env[e] + 1  # dimensions are positive, positions are kept from 0
    if isinstance(e, Pow) and e.exp.is_Integer and e.exp.is_positive:
        return integer(e.base, env) ** int(e.exp)
    if isinstance(e, Add | Mul):
        values = [integer(a, env) for a in e.args]
        return sum(values) if isinstance(e, Add) else _product_of(values)
    raise StatementError(f"{e} isn't a dimension or position")


def _product_of(values: list[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result


def _position(index: Basic, env: Environment) -> Any:
    bound = env.get(index)
    if bound is not None and not index.is_positive:
        return bound
    position = integer(index, env) - 1
    if position < 0:
        raise StatementError(f"there is no token at position {index} = {position + 1}: positions are counted from 1")
    return position


def _product(e: Any, env: Environment, algebra: Algebra) -> Value:
    """From the right, so that an inverse becomes the solution of a system; a trailing inverse is solved from the left
    side.
    """
    factors = list(e.args)
    value = None
    while factors:
        factor = factors.pop()
        if value is not None and isinstance(factor, Product) and factor.has(Inverted):
            factors.extend(factor.args)  # each of its systems is solved for the few columns of the value
        elif value is not None and _has_solved_terms(factor):
            value = _applied(factor, value, env, algebra)
        elif isinstance(factor, Diagonal) and value is not None:
            value = algebra.multiply(evaluate(factor.args[0], env, algebra), value)
        elif not isinstance(factor, Inverted):
            own = evaluate(factor, env, algebra)
            value = own if value is None else algebra.matmul(own, value)
        elif value is not None:
            value = _solved(factor, value, env, algebra)
        elif factors:
            return _solved_from_the_right(factor, evaluate(product_of(factors), env, algebra), env, algebra)
        else:
            value = evaluate(factor, env, algebra)
    return value


@cache
def _has_solved_terms(e: Any) -> bool:
    """Whether a factor is a sum with a system in a term: applied term by term, it is solved for few columns."""
    return isinstance(e, Sum) and any(isinstance(f, Inverted) for term in e.args for f in _factors(term))


def _factors(term: Any) -> tuple[Any, ...]:
    inner = term.args[1] if isinstance(term, Scaled) else term
    return inner.args if isinstance(inner, Product) else (inner,)


def _applied(e: Any, value: Value, env: Environment, algebra: Algebra) -> Value:
    """A sum times a value, term by term."""
    column = Named("applied to", e.shape[1], 1)
    inner = {**env, column: value}
    total = None
    for term in e.args:
        scale, factors = (term.args[0] if isinstance(term, Scaled) else None), _factors(term)
        own = evaluate(Product(*factors, column), inner, algebra)
        if scale is not None:
            own = algebra.multiply(evaluate(scale, env, algebra), own)
        total = own if total is None else algebra.add(total, own)
    return total


def _solved(inverse: Inverted, b: Value, env: Environment, algebra: Algebra) -> Value:
    inner = inverse.args[0]
    return algebra.solve(evaluate(inner, env, algebra), b, structure(inner))


def _solved_from_the_right(inverse: Inverted, b: Value, env: Environment, algebra: Algebra) -> Value:
    """B A^-1 as the transpose of the solution of A^T X = B^T."""
    inner = inverse.args[0]
    a = algebra.transpose(evaluate(inner, env, algebra))
    return algebra.transpose(algebra.solve(a, algebra.transpose(b), structure(inner).transposed))


def _inverse_alone(e: Any, env: Environment, algebra: Algebra) -> Value:
    return _solved(e, algebra.identity(integer(e.shape[0], env)), env, algebra)


def _folded(operation: str) -> Rule:
    def rule(e: Any, env: Environment, algebra: Algebra) -> Value:
        combine = getattr(algebra, operation)
        value = evaluate(e.args[0], env, algebra)
        for argument in e.args[1:]:
            value = combine(value, evaluate(argument, env, algebra))
        return value

    return rule


def _sum(e: Any, env: Environment, algebra: Algebra) -> Value:
    value = evaluate(e.args[0], env, algebra)
    for term in e.args[1:]:
        if isinstance(term, Scaled) and term.args[0] == -1:
            value = algebra.subtract(value, evaluate(term.args[1], env, algebra))
        else:
            value = algebra.add(value, evaluate(term, env, algebra))
    return value


def _scaled(e: Any, env: Environment, algebra: Algebra) -> Value:
    factor, matrix = e.args
    value = evaluate(matrix, env, algebra)
    if factor == -1:
        return algebra.negate(value)
    return algebra.multiply(evaluate(factor, env, algebra), value)


def _token(e: Any, env: Environment, algebra: Algebra) -> Value:
    sequence, position = evaluate(e.sequence, env, algebra), _position(e.index, env)
    last = position if isinstance(position, int) else position.stop - 1
    if last >= sequence.shape[-2]:
        raise StatementError(f"{e} is read at position {last + 1}, the sequence has {sequence.shape[-2]} tokens")
    return algebra.token(sequence, position)


def _power(e: Any, env: Environment, algebra: Algebra) -> Value:
    base, exponent = e.as_base_exp()
    if exponent.is_Integer:
        return algebra.power(evaluate(base, env, algebra), int(exponent))
    if exponent.is_Rational and exponent.q == 2:
        return algebra.power(_root(base, env, algebra), int(exponent.p))
    running = _running(exponent, env)
    if running is not None:
        return _powers(e, running, env, algebra)
    return algebra.power(evaluate(base, env, algebra), integer(exponent, env))


def _running(e: Basic, env: Environment) -> Symbol | None:
    """The position in `e` that is bound to a whole range, if there is one."""
    return next((x for x in _symbols_of(e) if isinstance(env.get(x), range)), None)


@cache
def _symbols_of(e: Basic) -> frozenset[Symbol]:
    return frozenset(e.free_symbols)


def _powers(e: Any, running: Symbol, env: Environment, algebra: Algebra) -> Value:
    """gamma^(t-j) for every j of a range: what remains after each entry of a column that repeats gamma."""
    base, exponent = e.as_base_exp()
    positions = env[running]
    highest = integer(exponent, {**env, running: positions.start})
    falls_by_one = running not in _symbols_of(exponent + running)
    if running in _symbols_of(base) or not falls_by_one or highest < len(positions) - 1:
        return _one_by_one(e, running, env, algebra)
    column = algebra.multiply(evaluate(base, env, algebra), algebra.ones(highest + 1, 1))
    return algebra.token(algebra.remaining_product(column), range(len(positions)))


def _one_by_one(e: Basic, running: Symbol, env: Environment, algebra: Algebra) -> Value:
    """A scalar at each position of a range, where there is no rule for all of them at once."""
    scalars = [evaluate(e, {**env, running: position}, algebra) for position in env[running]]
    return algebra.along(scalars, batch_of(env))


def batch_of(env: Environment) -> tuple[int, ...]:
    """The leading dimensions of the inputs."""
    return max((tuple(value.shape[:-2]) for x, value in env.items() if isinstance(x, Named)), key=len, default=())


def _root(base: Basic, env: Environment, algebra: Algebra) -> Value:
    subject = sequence_of(base)
    root = env.get(RootOf(subject))
    if root is None:
        return algebra.sqrt(evaluate(base, env, algebra))
    return algebra.token(root, _position(base.index, env)) if isinstance(base, GateToken) else root


@cache
def _has(e: Basic, symbol: Symbol) -> bool:
    return bool(e.has(symbol))  # asked again for every token


def _token_sum(e: Any, env: Environment, algebra: Algebra) -> Value:
    summand, index, lower, upper = e.args
    positions = range(integer(lower, env) - 1, integer(upper, env))
    if not positions:
        return algebra.zeros(*(integer(side, env) for side in e.shape))
    if not _at_once(summand, index):
        return _added_up([evaluate(summand, {**env, index: position}, algebra) for position in positions], algebra)
    inner = {**_of_onebatch_of(summand, index, env, algebra), index: positions}
    weight, body = summand.args if isinstance(summand, Scaled) else (None, summand)
    first, rest = (body.args[0], body.args[1:]) if isinstance(body, Product) else (body, ())
    other = product_of(rest) if rest else None
    if other is not None and _has(first, index) and _has(other, index) and not isinstance(first, Inverted):
        right = _inner_products(other, index, inner, algebra)
        if weight is not None:
            right = algebra.multiply(evaluate(weight, inner, algebra), right)
        return algebra.sum_of_products(evaluate(first, inner, algebra), right)
    if not _has(summand, index):
        return algebra.multiply(algebra.count(positions), evaluate(summand, env, algebra))
    return algebra.total(evaluate(summand, inner, algebra))


@cache
def _at_once(summand: Any, index: Symbol) -> bool:
    """Whether a sum can run over a leading dimension: no second sum and no shifted token needs it too."""
    shifted = any(x.index != index for x in summand.atoms(Token, GateToken) if x.index.has(index))
    return not shifted and not any(x.has(index) for x in summand.atoms(TokenSum))


def _of_onebatch_of(summand: Any, index: Symbol, env: Environment, algebra: Algebra) -> Environment:
    """The running sequences with the batch of everything else, so that what follows the leading dimension lines up."""
    named, running = _sequences_of(summand, index)
    ranks = {x: len(env[x].shape) for x in named if x in env}
    widest = max(ranks, key=ranks.__getitem__, default=None)
    narrow = [x for x in running if x in ranks and ranks[x] < ranks[widest]]
    if not narrow:
        return env
    zero = algebra.multiply(algebra.number(Rational(0)), algebra.block(algebra.token(env[widest], 0), 0, 1))
    return {**env, **{x: algebra.add(env[x], zero) for x in narrow}}


@cache
def _sequences_of(summand: Any, index: Symbol) -> tuple[frozenset[Basic], frozenset[Basic]]:
    """The named matrices of a summand, and those whose tokens run with `index`."""
    running = {x.sequence for x in summand.atoms(Token, GateToken) if x.index == index}
    return frozenset(summand.atoms(Named)), frozenset(running)


def _added_up(values: list[Value], algebra: Algebra) -> Value:
    total = values[0]
    for value in values[1:]:
        total = algebra.add(total, value)
    return total


def _inner_products(e: Basic, index: Symbol, env: Environment, algebra: Algebra) -> Value:
    """`e` at all positions of `index`; k_j^T x is a row of K x."""
    if isinstance(e, Product) and isinstance(e.args[0], Transposed):
        token, rest = e.args[0].args[0], e.args[1:]
        if isinstance(token, Token) and token.index == index and not any(_has(a, index) for a in rest):
            positions = env[index]
            rows = algebra.block(evaluate(token.sequence, env, algebra), positions.start, positions.stop)
            column = evaluate(product_of(rest), env, algebra)
            return algebra.token(algebra.matmul(rows, column), range(len(positions)))
    return evaluate(e, env, algebra)


def _gate_product(e: Any, env: Environment, algebra: Algebra) -> Value:
    factor, index, lower, upper = e.args
    running = _running(lower, env) or _running(upper, env)
    if running is not None:
        return _gate_products(e, running, env, algebra)
    value = algebra.number(Rational(1))
    for position in range(integer(lower, env) - 1, integer(upper, env)):
        value = algebra.multiply(value, evaluate(factor, {**env, index: position}, algebra))
    return value


def _gate_products(e: Any, running: Symbol, env: Environment, algebra: Algebra) -> Value:
    """gamma_{j+1} ... gamma_t for every j of a range: what remains after each gate of gamma_j ... gamma_t."""
    factor, index, lower, upper = e.args
    positions = env[running]
    column = isinstance(factor, GateToken) and factor.index == index and running not in _symbols_of(upper)
    if not column or lower != running + 1 or integer(upper, env) < positions.stop:
        return _one_by_one(e, running, env, algebra)
    gates = algebra.block(evaluate(factor.sequence, env, algebra), positions.start, integer(upper, env))
    return algebra.token(algebra.remaining_product(gates), range(len(positions)))


def _of_gates(operation: str) -> Rule:
    return lambda e, env, algebra: getattr(algebra, operation)(evaluate(e.args[0], env, algebra))


def _strict_decay(e: Any, env: Environment, algebra: Algebra) -> Value:
    return algebra.strict_decay(evaluate(e.args[0], env, algebra), integer(e.shape[0], env))


def _exponential(e: Any, env: Environment, algebra: Algebra) -> Value:
    """exp(X + log Y) = exp(X) . Y with log 0 = -oo, in number systems that have no logarithm; as written in floats."""
    exponent = e.args[0]
    if algebra.has_logarithm or not exponent.has(Logarithm):
        return algebra.exponential(evaluate(exponent, env, algebra))
    factors = [_exponential_of_term(term, env, algebra) for term in _terms(exponent)]
    value = factors[0]
    for factor in factors[1:]:
        value = algebra.multiply(value, factor)
    return value


def _terms(e: Any) -> tuple[Any, ...]:
    return e.args if isinstance(e, Sum) else (e,)


def _exponential_of_term(term: Any, env: Environment, algebra: Algebra) -> Value:
    scale, inner = term.args if isinstance(term, Scaled) else (1, term)
    if not isinstance(inner, Logarithm):
        return algebra.exponential(evaluate(term, env, algebra))
    if not getattr(scale, "is_Integer", True):
        raise NoMeaning(f"{algebra.name} has no power {scale} of an entry, as exp({term}) asks for")
    return algebra.power(evaluate(inner.args[0], env, algebra), int(scale))


def _below(e: Any, env: Environment, algebra: Algebra) -> Value:
    return algebra.concatenate([evaluate(a, env, algebra) for a in e.args])


def _beside(e: Any, env: Environment, algebra: Algebra) -> Value:
    return _columns_together([evaluate(a, env, algebra) for a in e.args], algebra)


def _columns_together(values: list[Value], algebra: Algebra) -> Value:
    return algebra.transpose(algebra.concatenate([algebra.transpose(value) for value in values]))


def _row_products(e: Any, env: Environment, algebra: Algebra) -> Value:
    left, right = (evaluate(a, env, algebra) for a in e.args)
    columns = algebra.transpose(left)
    each = (algebra.transpose(algebra.block(columns, k, k + 1)) for k in range(left.shape[-1]))
    return _columns_together([algebra.multiply(column, right) for column in each], algebra)


def _toeplitz(e: Any, env: Environment, algebra: Algebra) -> Value:
    """Column j is the kernel, moved down by j - 1."""
    kernel = evaluate(e.args[0], env, algebra)
    size = kernel.shape[-2]
    zero = algebra.multiply(algebra.number(Rational(0)), algebra.block(kernel, 0, 1))
    columns = [kernel]
    for _ in range(1, size):
        columns.append(algebra.concatenate([zero, algebra.block(columns[-1], 0, size - 1)]))
    return algebra.transpose(algebra.stack(columns))


def _missing(e: Any, env: Environment, algebra: Algebra) -> Value:
    del env, algebra
    raise StatementError(f"{e} has no value here: it isn't an input of the form")


RULES: dict[type, Rule] = {
    Product: _product,
    Scaled: _scaled,
    Sum: _sum,
    Hadamard: _folded("multiply"),
    Transposed: lambda e, env, algebra: algebra.transpose(evaluate(e.args[0], env, algebra)),
    Inverted: _inverse_alone,
    Diagonal: lambda e, env, algebra: algebra.diagonal(evaluate(e.args[0], env, algebra)),
    TraceOf: lambda e, env, algebra: algebra.trace(evaluate(e.args[0], env, algebra)),
    ScalarOf: lambda e, env, algebra: evaluate(e.args[0], env, algebra),
    Eye: lambda e, env, algebra: algebra.identity(integer(e.shape[0], env)),
    Zeros: lambda e, env, algebra: algebra.zeros(*(integer(side, env) for side in e.shape)),
    Ones: lambda e, env, algebra: algebra.ones(*(integer(side, env) for side in e.shape)),
    StrictMask: lambda e, env, algebra: algebra.lower(integer(e.shape[0], env), -1),
    CausalMask: lambda e, env, algebra: algebra.lower(integer(e.shape[0], env), 0),
    StrictDecay: _strict_decay,
    ShiftedDecay: _of_gates("shifted_decay"),
    Decay: _of_gates("decay"),
    CumulativeProduct: _of_gates("cumulative_product"),
    PrecedingProduct: _of_gates("preceding_product"),
    RemainingProduct: _of_gates("remaining_product"),
    TotalProduct: _of_gates("total_product"),
    TotalProducts: _of_gates("total_product"),
    Toeplitz: _toeplitz,
    Exponential: _exponential,
    ScalarExponential: lambda e, env, algebra: algebra.exponential(evaluate(e.args[0], env, algebra)),
    Logarithm: lambda e, env, algebra: algebra.logarithm(evaluate(e.args[0], env, algebra)),
    Reciprocal: lambda e, env, algebra: algebra.reciprocal(evaluate(e.args[0], env, algebra)),
    Below: _below,
    Beside: _beside,
    RowProducts: _row_products,
    Token: _token,
    GateToken: _token,
    TokenSum: _token_sum,
    GateProduct: _gate_product,
    Named: _missing,
    Add: _folded("add"),
    Mul: _folded("multiply"),
    Pow: _power,
    Rational: lambda e, env, algebra: algebra.number(e),
    Symbol: _missing,
}
