"""The walk over an expression that writes it as code: (Q K^T . M) V becomes `((q @ k.mT) * M) @ v`.

Every array is (batch, heads, rows, columns) or broadcasts to it; a scalar is 1 x 1. What is to the right of an inverse
is the right side of its linear system.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sympy import Add, Basic, Integer, Mul, Pow, Rational, S, Symbol, sstr

from attnproof.emitting.names import is_dimension
from attnproof.emitting.targets import LIKE, Target
from derivations.language import expressions as nodes
from derivations.language import masks
from derivations.language.errors import StatementError
from derivations.language.structure import structure
from derivations.language.symbols import GateToken, Named, Token

SUM, TIMES, MATMUL, ATOM = range(4)
"""How tightly a piece of code binds. Python gives `*` and `@` the same precedence; `TIMES` keeps them apart."""

Parts = tuple[str, int]


class NotEmittable(StatementError):
    """A form, or a part of one, that can't be written as code; the message names it."""


@dataclass
class Writer:
    """Writes expressions as code.

    Args:
        target: the array library.
        names: what symbols, tokens at hand and shared subexpressions are called.
        shifts: positions in scope: what each is as a number counted from 0.
        columns: sequences that are being computed: the list of the columns so far.
        used: the names that were written, so that nothing is defined in vain.
        helpers: the functions of `HELPERS` that were called.
    """

    target: Target
    names: dict[Basic, str]
    shifts: dict[Symbol, str] = field(default_factory=dict)
    columns: dict[Basic, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    helpers: set[str] = field(default_factory=set)

    def __call__(self, e: Basic) -> str:
        """An expression as code."""
        return self.parts(e)[0]

    def within(self, names: Mapping[Basic, str], **changes: Any) -> Writer:
        """A writer for an inner scope, where more has a name."""
        inner = {**vars(self), **changes}
        return Writer(**{**inner, "names": self.names | dict(names)})

    def at_least(self, e: Basic, level: int) -> str:
        """`e`, in brackets if it binds less tightly than `level`."""
        text, own = self.parts(e)
        return text if own >= level else f"({text})"

    def parts(self, e: Basic) -> Parts:
        """The code, and how tightly it binds."""
        if e in self.names:
            self.used.add(self.names[e])
            return self.names[e], ATOM
        kind: Any = type(e)
        return _rule_for(kind)(self, e)

    def number(self, e: Basic) -> str:
        """A size, or a position counted from 0, as Python's own number."""
        positions = {x: Symbol(name, integer=True) + 1 for x, name in self.shifts.items()}
        sizes = {x: Symbol(self._size(x), integer=True) for x in e.free_symbols if is_dimension(x)}
        unknown = e.free_symbols - positions.keys() - sizes.keys()
        if unknown:
            raise NotEmittable(f"{', '.join(map(str, unknown))} is neither a size nor a position here")
        return _difference(e.xreplace(positions | sizes))

    def _size(self, dimension: Basic) -> str:
        name = self.names[dimension]
        self.used.add(name)
        return name

    def made(self, function: str, *sides: Basic) -> str:
        """Zeros, ones or an identity of these sizes."""
        return self.constant(function, [self.number(side) for side in sides])

    def constant(self, function: str, sizes: Sequence[str]) -> str:
        """Zeros, ones or an identity of sizes that are written already."""
        self.used.add(LIKE)
        return self.target.made(function, sizes)

    def helper(self, name: str, *arguments: Basic) -> Parts:
        """A call of a function that the code brings along."""
        self.helpers.add(name)
        return f"{name}({', '.join(map(self, arguments))})", ATOM

    def function(self, name: str, argument: Basic) -> Parts:
        """A call of a function of the library."""
        return self.target.call(name, self(argument)), ATOM


def _difference(e: Any) -> str:
    """A whole number as it is read: t - j, not -j + t."""
    terms = sorted(e.args if isinstance(e, Add) else [e], key=lambda x: (x.could_extract_minus_sign(), x.is_number))
    return _added([(re.sub(r"(?<!\*)\*(?!\*)", " * ", sstr(x)), SUM) for x in terms])


Rule = Callable[[Writer, Any], Parts]


@cache
def _rule_for(kind: Any) -> Rule:
    rule = RULES.get(kind) or next((r for base, r in RULES.items() if issubclass(kind, base)), None)
    if rule is None:
        raise NotEmittable(f"there is no rule that writes {kind.__name__} as code")
    return rule


def _product(write: Writer, e: Any) -> Parts:
    first, *others = e.args
    if isinstance(first, nodes.Scaled) and first.args[1].has(nodes.Inverted) and first not in write.names:
        return write.parts(nodes.Scaled(first.args[0], nodes.Product(first.args[1], *others)))
    factors = _spliced(write, list(e.args))
    solved = next((k for k, x in enumerate(factors) if _is_solved(write, x)), None)
    if solved is None:
        return _chain(write, factors)
    left, system, right = factors[:solved], factors[solved], factors[solved + 1 :]
    if right:
        return _joined(write, left, _solution(write, system, nodes.product_of(right)))
    turned = nodes.Product(nodes.Inverted(system.args[0].T), nodes.product_of(left).T)
    return transposed(write.at_least(turned, ATOM)), ATOM


def _is_solved(write: Writer, e: Any) -> bool:
    return isinstance(e, nodes.Inverted) and e not in write.names


def _spliced(write: Writer, factors: list[Any]) -> list[Any]:
    """Brackets around a product with an inverse are opened where something follows: it is the system's right side."""
    out = []
    for k, x in enumerate(factors):
        opens = isinstance(x, nodes.Product) and x not in write.names and x.has(nodes.Inverted) and k + 1 < len(factors)
        out += _spliced(write, [*x.args, factors[-1]])[:-1] if opens else [x]
    return out


def _solution(write: Writer, inverse: Any, right: Basic) -> Parts:
    """A^-1 B; by a diagonal matrix it is divided."""
    matrix = inverse.args[0]
    if isinstance(matrix, nodes.Diagonal) and matrix not in write.names:
        return f"{write.at_least(right, MATMUL)} / {write.at_least(matrix.args[0], ATOM)}", TIMES
    form = structure(matrix)
    return write.target.solved(write(matrix), write(right), form.lower, form.unit), ATOM


def _chain(write: Writer, factors: Sequence[Any]) -> Parts:
    """A product without systems: a diagonal matrix scales what follows it, or the columns before it if it is last."""
    last = factors[-1]
    if len(factors) > 1 and _is_ones_column(write, last):
        summed = _chain(write, factors[:-1])
        return f"{_bracketed(summed, ATOM)}.sum({write.target.along(-1, keep=True)})", ATOM
    if isinstance(last, nodes.Diagonal) and last not in write.names and len(factors) > 1:
        own = write.at_least(last.args[0], ATOM)
        return f"{_bracketed(_chain(write, factors[:-1]), MATMUL)} * {transposed(own)}", TIMES
    return _joined(write, factors[:-1], _factor(write, last, leftmost=len(factors) == 1))


def _is_ones_column(write: Writer, e: Any) -> bool:
    return isinstance(e, nodes.Ones) and e.shape[1] == 1 and e not in write.names


def _joined(write: Writer, left: Sequence[Any], right: Parts) -> Parts:
    """Factors in front of something that is written already."""
    diagonal = next((k for k in reversed(range(len(left))) if _is_diagonal(write, left[k])), None)
    if diagonal is None:
        factors = [_bracketed(_factor(write, x, leftmost=k == 0), MATMUL) for k, x in enumerate(left)]
        return (" @ ".join([*factors, _bracketed(right, ATOM if left else SUM)]), MATMUL) if left else right
    between = _joined(write, left[diagonal + 1 :], right)
    scaled = f"{write.at_least(left[diagonal].args[0], ATOM)} * {_bracketed(between, ATOM)}", TIMES
    return _joined(write, left[:diagonal], scaled)


def _is_diagonal(write: Writer, e: Any) -> bool:
    return isinstance(e, nodes.Diagonal) and e not in write.names


def _factor(write: Writer, e: Any, leftmost: bool) -> Parts:
    text, own = write.parts(e)
    scales = isinstance(e, nodes.Scaled) and leftmost and own == TIMES
    return (text, MATMUL) if scales else (text, own) if own >= (MATMUL if leftmost else ATOM) else (f"({text})", ATOM)


def _bracketed(parts: Parts, level: int) -> str:
    text, own = parts
    return text if own >= level else f"({text})"


def _scaled(write: Writer, e: Any) -> Parts:
    factor, matrix = e.args
    inner = write.at_least(matrix, MATMUL)
    if factor == -1:
        return f"-{inner}", SUM
    if isinstance(factor, Pow) and factor.exp == -1 and factor not in write.names:
        return f"{inner} / {write.at_least(factor.base, ATOM)}", TIMES
    text, own = write.parts(factor)
    if text.startswith("-") and not isinstance(factor, Add):
        return f"{text} * {inner}", SUM
    return f"{_bracketed((text, own), TIMES)} * {inner}", TIMES


def _sum(write: Writer, e: Any) -> Parts:
    return _added([write.parts(term) for term in e.args]), SUM


def _added(terms: Sequence[Parts]) -> str:
    out = terms[0][0]
    for text, _ in terms[1:]:
        out += f" - {text[1:]}" if text.startswith("-") else f" + {text}"
    return out


def _hadamard(write: Writer, e: Any) -> Parts:
    out = write.at_least(e.args[0], ATOM)
    for factor in e.args[1:]:
        divides = isinstance(factor, nodes.Reciprocal) and factor not in write.names
        out += " / " if divides else " * "
        out += write.at_least(factor.args[0] if divides else factor, ATOM)
    return out, TIMES


def _transposed(write: Writer, e: Any) -> Parts:
    return transposed(write.at_least(e.args[0], ATOM)), ATOM


def transposed(text: str) -> str:
    """The transpose of what is written so."""
    return text.removesuffix(".mT") if text.endswith(".mT") else f"{text}.mT"


def _joined_blocks(name: str) -> Rule:
    return lambda write, e: write.helper(name, *e.args) if len(e.args) > 1 else write.parts(e.args[0])


def _diagonal(write: Writer, e: Any) -> Parts:
    return f"{write.at_least(e.args[0], ATOM)} * {write(nodes.Eye(e.shape[0]))}", TIMES


def _trace(write: Writer, e: Any) -> Parts:
    return f"{write.target.call('einsum', repr('...ii->...'), write(e.args[0]))}[..., None, None]", ATOM


def _reciprocal(write: Writer, e: Any) -> Parts:
    return f"1 / {write.at_least(e.args[0], ATOM)}", TIMES


def _strict_decay(write: Writer, e: Any) -> Parts:
    return write.target.call("tril", write(masks.Decay(e.args[0])), "-1"), ATOM


def _lower(below: int) -> Rule:
    def rule(write: Writer, e: Any) -> Parts:
        write.used.add(LIKE)
        return write.target.lower(write.number(e.args[0]), below), ATOM

    return rule


def _products_so_far(write: Writer, e: Any) -> Parts:
    return write.target.call("cumprod", write(e.args[0]), write.target.along(-2)), ATOM


def _product_of_all(write: Writer, e: Any) -> Parts:
    return write.target.call("prod", write(e.args[0]), write.target.along(-2, keep=True)), ATOM


def _products_of_all(write: Writer, e: Any) -> Parts:
    return transposed(_product_of_all(write, e)[0]), ATOM


def _exponential(write: Writer, e: Any) -> Parts:
    """exp(X + log Y) = exp(X) . Y: log 0 would be -oo, and its derivative not a number."""
    terms = list(e.args[0].args) if isinstance(e.args[0], nodes.Sum) else [e.args[0]]
    masks_of, rest = [x for x in terms if isinstance(x, nodes.Logarithm)], [x for x in terms if not _is_log(x)]
    if not rest:
        return _hadamard(write, nodes.Hadamard(*(x.args[0] for x in masks_of)))
    text, own = write.function("exp", rest[0] if len(rest) == 1 else nodes.Sum(*rest))
    factors = [write.at_least(x.args[0], ATOM) for x in masks_of]
    return " * ".join([text, *factors]), TIMES if factors else own


def _is_log(e: Any) -> bool:
    return isinstance(e, nodes.Logarithm)


def _token(write: Writer, e: Any) -> Parts:
    if e.sequence in write.columns:
        return f"{write.columns[e.sequence]}[{write.number(e.index - 1)}]", ATOM
    place = write.number(e.index - 1)
    if place.startswith("-") or not _is_certain(e.index):
        raise NotEmittable(f"{e} may lie before the first token")
    write.helpers.add("token")
    return f"token({write(e.sequence)}, {place})", ATOM


def _is_certain(index: Any) -> bool:
    """Whether a position is a token for sure: a running position, a number, or the last one."""
    return isinstance(index, Symbol | Integer)


def _token_sum(write: Writer, e: Any) -> Parts:
    summand, index, lower, upper = e.args
    name = str(index)
    body = write.within({}, shifts={**write.shifts, index: name})(summand)
    run = f"for {name} in range({_from_to(write, lower, upper)})"
    if lower == 1 and isinstance(upper, Symbol):  # at least one token
        return f"sum({body} {run})", ATOM
    return f"sum(({body} {run}), {write.made('zeros', *e.shape)})", ATOM


def _from_to(write: Writer, lower: Basic, upper: Basic) -> str:
    first, stop = write.number(lower - 1), write.number(upper)
    return stop if first == "0" else f"{first}, {stop}"


def _gate_product(write: Writer, e: Any) -> Parts:
    """The product over some rows: in the factor, a gate at the running position is the column of these rows."""
    factor, index, lower, upper = e.args
    gates = {x for x in factor.atoms(GateToken) if x.index == index and x.sequence not in write.columns}
    if not gates or factor.xreplace(dict.fromkeys(gates, S.One)).has(index):
        raise NotEmittable(f"{e}: a product over tokens is written for gates alone")
    some = f"[:, :, {write.number(lower - 1)} : {write.number(upper)}]"
    columns = write.within({x: f"{write(x.sequence)}{some}" for x in gates})
    return write.target.call("prod", columns(factor), write.target.along(-2, keep=True)), ATOM


def _added_scalars(write: Writer, e: Any) -> Parts:
    return _added([write.parts(term) for term in e.args]), SUM


def _multiplied_scalars(write: Writer, e: Any) -> Parts:
    coefficient, rest = e.as_coeff_Mul()
    if coefficient.is_negative:
        return f"-{write.at_least(-coefficient * rest, TIMES)}", SUM
    below = [x for x in e.args if isinstance(x, Pow) and x.exp.is_negative]
    above = [x for x in e.args if x not in below]
    out = " * ".join(write.at_least(x, ATOM) for x in above) or "1"
    return "".join([out, *(f" / {write.at_least(1 / x, ATOM)}" for x in below)]), TIMES


def _power(write: Writer, e: Any) -> Parts:
    base, exponent = e.as_base_exp()
    if exponent.is_negative:
        return f"1 / {write.at_least(1 / e, ATOM)}", TIMES
    if exponent.is_Rational and exponent.q == 2:
        root = write.function("sqrt", base)
        return root if exponent.p == 1 else (f"{root[0]} ** {exponent.p}", TIMES)
    own = str(exponent) if exponent.is_Integer else f"({write.number(exponent)})"
    return f"{write.at_least(base, ATOM)} ** {own.strip('()') if own[1:-1].isidentifier() else own}", TIMES


def _rational(write: Writer, e: Any) -> Parts:
    del write
    if e.is_negative:
        return str(e), SUM
    dyadic = e.q & (e.q - 1) == 0
    return (str(e.p) if e.q == 1 else str(float(e)), ATOM) if dyadic else (f"{e.p} / {e.q}", TIMES)


def _symbol(write: Writer, e: Any) -> Parts:
    if e in write.shifts:
        text = write.number(e)
        return text, ATOM if text.isidentifier() else SUM
    raise NotEmittable(f"{e} has no value here")


def _missing(write: Writer, e: Any) -> Parts:
    del write
    raise NotEmittable(f"{e} has no value here: it isn't an input of the form")


RULES: dict[type, Rule] = {
    nodes.Product: _product,
    nodes.Scaled: _scaled,
    nodes.Sum: _sum,
    nodes.Hadamard: _hadamard,
    nodes.Transposed: _transposed,
    nodes.Inverted: lambda write, e: write.function("linalg.inv", e.args[0]),
    nodes.Diagonal: _diagonal,
    nodes.TraceOf: _trace,
    nodes.ScalarOf: lambda write, e: write.parts(e.args[0]),
    nodes.Eye: lambda write, e: (write.made("eye", e.shape[0]), ATOM),
    nodes.Zeros: lambda write, e: (write.made("zeros", *e.shape), ATOM),
    nodes.Ones: lambda write, e: (write.made("ones", *e.shape), ATOM),
    masks.StrictMask: _lower(1),
    masks.CausalMask: _lower(0),
    masks.StrictDecay: _strict_decay,
    masks.ShiftedDecay: lambda write, e: write.helper("shifted_decay", *e.args),
    masks.Decay: lambda write, e: write.helper("decay", *e.args),
    masks.CumulativeProduct: _products_so_far,
    masks.PrecedingProduct: lambda write, e: write.helper("preceding_product", *e.args),
    masks.RemainingProduct: lambda write, e: write.helper("remaining_product", *e.args),
    masks.TotalProduct: _product_of_all,
    masks.TotalProducts: _products_of_all,
    masks.Toeplitz: lambda write, e: write.helper("toeplitz", *e.args),
    nodes.Exponential: _exponential,
    nodes.ScalarExponential: lambda write, e: write.function("exp", *e.args),
    nodes.Logarithm: lambda write, e: write.function("log", *e.args),
    nodes.Reciprocal: _reciprocal,
    nodes.Below: _joined_blocks("below"),
    nodes.Beside: _joined_blocks("beside"),
    nodes.RowProducts: lambda write, e: write.helper("row_products", *e.args),
    Token: _token,
    GateToken: _token,
    masks.TokenSum: _token_sum,
    masks.GateProduct: _gate_product,
    Named: _missing,
    Add: _added_scalars,
    Mul: _multiplied_scalars,
    Pow: _power,
    Rational: _rational,
    Symbol: _symbol,
}
"""A rule for every kind of node; masks before what they inherit from."""
