"""Forms: the ways to say what a system computes from its sequences.

A *closed* form is one matrix expression. A *recurrence* carries a state from token to token; a *chunkwise* form is a
recurrence whose tokens are blocks. `TokenRows` says each row by itself (component sums), `Transport` says an
attention matrix entry by
entry as q_i^T F_i ... F_{j+1} k_j, and an *algorithm* is a Python function over an abstract number system, for what
none of
these can say.

Inside a chunkwise form the same names Q, K, V, n stand for one block: the formula is that of the matrix form with the
carry added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence as Many
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from sympy import Basic, Expr, Integer, Symbol, sympify

from derivations.language.errors import ShapeError, StatementError
from derivations.language.expressions import Shape, Statement, Sum, same_shape, shape_text
from derivations.language.masks import TokenSum
from derivations.language.printing import LATEX, TEXT, Printer, Style
from derivations.language.symbols import Gate, GateToken, Named, Sequence, State, Token, i, j, n, t

States = tuple[State, ...]
Matrices = tuple[Statement, ...]


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


class Form:
    """What all forms share: an output shape, the symbols they read, and the two ways to modify them."""

    shape: Shape
    states: States = ()

    def expressions(self) -> dict[str, Basic]:
        """The parts of the form that are expressions, by name; `with_expressions` puts changed ones back."""
        raise NotImplementedError

    def with_expressions(self, changed: Mapping[str, Basic]) -> Form:
        """The same form with some of its expressions replaced."""
        raise NotImplementedError

    def symbols(self) -> set[Basic]:
        """Every named matrix and free scalar that the form reads from outside."""
        found: set[Basic] = set()
        for expression in self.expressions().values():
            found |= free_inputs(expression)
        return found - set(self.states)

    def substitute(self, mapping: Mapping[Any, Any]) -> Substituted:
        """The form on other inputs: `form.substitute({V[t]: gamma[t] * V[t], beta[t]: eta[t] / gamma[t]})`.

        All replacements happen at once; a key may be a token (its value is taken at every t), a whole sequence or a
        scalar.
        """
        values = {key: value if isinstance(value, Form) else sympify(value) for key, value in mapping.items()}
        return Substituted(self, values)

    def where(self, defined: Token | GateToken | Named, definition: Basic | Form) -> Defined:
        """The form with one of its sequences defined token by token; the definition of u_t may read u_j for j < t."""
        return Defined(self, defined, definition)

    def lines(self, style: Style) -> list[tuple[str, str]]:
        """The form as equations: (left side, right side) in the given style."""
        raise NotImplementedError

    @property
    def output_line(self) -> int:
        """Which of the lines says what the output is."""
        return -1


@lru_cache(4096)
def free_inputs(expression: Basic) -> frozenset[Basic]:
    """Named matrices, and scalar symbols that are neither dimensions nor positions."""
    named = expression.atoms(Named)
    names = {m.args[0] for m in named}
    scalars = {x for x in expression.atoms(Symbol) if x not in names and not x.is_integer}
    return frozenset(named | scalars)


@dataclass(frozen=True)
class Closed(Form):
    """One matrix expression, n x d_v for an output and n x n for an attention matrix."""

    expression: Statement
    name: str = "O"

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.expression.shape

    def expressions(self) -> dict[str, Basic]:
        return {"expression": self.expression}

    def with_expressions(self, changed: Mapping[str, Basic]) -> Closed:
        return replace(self, **changed)

    def lines(self, style: Style) -> list[tuple[str, str]]:
        return [(self.name, Printer(style)(self.expression))]


@dataclass(frozen=True)
class TokenRows(Form):
    """Row t of the output, as a column that may contain sums over tokens."""

    row: Statement
    name: str = "o"

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return n, self.row.shape[0]

    def __post_init__(self) -> None:
        if self.row.shape[1] != 1:
            raise ShapeError(f"a row is stated as a column (its transpose); {self.row} is {shape_text(self.row.shape)}")

    def expressions(self) -> dict[str, Basic]:
        return {"row": self.row}

    def with_expressions(self, changed: Mapping[str, Basic]) -> TokenRows:
        return replace(self, **changed)

    def lines(self, style: Style) -> list[tuple[str, str]]:
        return [(style.subscript(self.name, style.scalar(t)), Printer(style)(self.row))]


@dataclass(frozen=True, init=False)
class SumOfSquares(Form):
    """A quadratic form as a sum of squares, 1 x 1: the certificate that it is positive.

    Each term is (weight, column, index, upper): the sum of weight |column|^2 over index = 1 .. upper. The typed rung
    shows that the assumptions make every weight nonnegative.
    """

    terms: tuple[tuple[Expr, Statement, Symbol, Expr], ...]

    def __init__(self, *terms: tuple[Expr, Statement, Symbol, Expr]) -> None:
        object.__setattr__(self, "terms", terms)

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return Integer(1), Integer(1)

    @property
    def expression(self) -> Statement:
        """The sum as a matrix expression."""
        sums = [TokenSum(weight * (column.T @ column), index, 1, upper) for weight, column, index, upper in self.terms]
        return sums[0] if len(sums) == 1 else Sum(*sums)

    def expressions(self) -> dict[str, Basic]:
        weights = {f"weight {number}": term[0] for number, term in enumerate(self.terms)}
        return weights | {f"column {number}": term[1] for number, term in enumerate(self.terms)}

    def with_expressions(self, changed: Mapping[str, Basic]) -> SumOfSquares:
        parts: dict[str, Any] = self.expressions() | dict(changed)
        numbered = enumerate(self.terms)
        return SumOfSquares(
            *((parts[f"weight {k}"], parts[f"column {k}"], index, upper) for k, (*_, index, upper) in numbered)
        )

    def lines(self, style: Style) -> list[tuple[str, str]]:
        return [("x", Printer(style)(self.expression))]


@dataclass(frozen=True)
class Transport(Form):
    """An attention matrix entry by entry: A_ij = left_i^T F_i F_{i-1} ... F_{j+1} right_j for i >= j, else 0.

    `left` is stated at position i, `right` at j, `factor` at s. In "ascending" order the product is F_{j+1} ... F_i.
    """

    left: Statement
    factor: Statement
    right: Statement
    order: Literal["descending", "ascending"] = "descending"

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return n, n

    def __post_init__(self) -> None:
        same_shape(
            "transport with a factor of shape",
            self.factor.shape,
            (self.left.shape[0],) * 2,
            (str(self.factor), str(self.left)),
        )
        same_shape("compare", self.left.shape, self.right.shape, (str(self.left), str(self.right)))

    def expressions(self) -> dict[str, Basic]:
        return {"left": self.left, "factor": self.factor, "right": self.right}

    def with_expressions(self, changed: Mapping[str, Basic]) -> Transport:
        return replace(self, **changed)

    def lines(self, style: Style) -> list[tuple[str, str]]:
        write = Printer(style)
        lower, upper = ("i", "j+1") if self.order == "descending" else ("j+1", "i")
        product = style.big("prod", "s", lower, upper, write.at_least(self.factor, 3))
        indices = style.scalar(i) + style.scalar(j)
        return [
            (
                style.subscript("A", indices),
                f"{write(self.left.T)} {style.brackets.format(product)} {write(self.right)}  (i >= j)",
            )
        ]


@dataclass(frozen=True, init=False)
class Recurrence(Form):
    """A state, how each token updates it, and what is read from it.

    Args:
        state: one State or a tuple of them.
        update: the new state(s), from the old one(s) and tokens at position t.
        readout: the output of token t as a column, from the state(s) and tokens.
        read: "after" the write (o_t = S_t q_t, the usual) or "before" it (o_t reads S_{t-1}).
        initial: the state(s) before the first token; zero where None. (An identity of two recurrences starts from any
        state.)
    """

    states: States
    updates: Matrices
    readout: Statement
    read: Literal["after", "before"] = "after"
    initial: Matrices | None = None

    def __init__(
        self,
        state: State | Many[State],
        update: Statement | Many[Statement],
        readout: Statement,
        read: Literal["after", "before"] = "after",
        initial: Statement | Many[Statement] | None = None,
    ) -> None:
        states, updates = _as_tuple(state), _as_tuple(update)
        start = None if initial is None else _as_tuple(initial)
        _check_states(states, updates, start)
        if read not in ("after", "before"):
            raise StatementError(f"read is 'after' or 'before' the write, not {read!r}")
        self._check_readout(readout)
        for name, value in (
            ("states", states),
            ("updates", updates),
            ("readout", readout),
            ("read", read),
            ("initial", start),
        ):
            object.__setattr__(self, name, value)

    def _check_readout(self, readout: Statement) -> None:
        if readout.shape[1] != 1:
            raise ShapeError(f"a readout is a column; {readout} is {shape_text(readout.shape)}")

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return n, self.readout.shape[0]

    def expressions(self) -> dict[str, Basic]:
        parts: dict[str, Basic] = {
            f"update {state}": update for state, update in zip(self.states, self.updates, strict=True)
        }
        parts["readout"] = self.readout
        if self.initial is not None:
            parts |= {f"initial {state}": value for state, value in zip(self.states, self.initial, strict=True)}
        return parts

    def with_expressions(self, changed: Mapping[str, Basic]) -> Recurrence:
        parts = self.expressions() | dict(changed)
        updates = tuple(parts[f"update {state}"] for state in self.states)
        initial = None if self.initial is None else tuple(parts[f"initial {state}"] for state in self.states)
        return type(self)(self.states, updates, parts["readout"], self.read, initial)

    def reading(self, read: Literal["after", "before"]) -> Recurrence:
        """The same recurrence with the read before or after the write."""
        return type(self)(self.states, self.updates, self.readout, read, self.initial)

    def final(self, value: Statement | None = None) -> FinalState:
        """The state after the last token, or an expression of it."""
        return FinalState(self, self.states[0] if value is None else value)

    def _names(self, style: Style) -> tuple[dict[Basic, str], dict[Basic, str]]:
        before = {x: style.subscript(Printer(style)(x), "t-1") for x in self.states}
        after = {x: style.subscript(Printer(style)(x), "t") for x in self.states}
        return before, after

    def lines(self, style: Style) -> list[tuple[str, str]]:
        before, after = self._names(style)
        out = [(after[x], Printer(style, before)(update)) for x, update in zip(self.states, self.updates, strict=True)]
        out.append((self._output_name(style), Printer(style, after if self.read == "after" else before)(self.readout)))
        if self.initial is not None:
            zero = {x: style.subscript(Printer(style)(x), "0") for x in self.states}
            out += [(zero[x], Printer(style)(value)) for x, value in zip(self.states, self.initial, strict=True)]
        return out

    @property
    def output_line(self) -> int:
        return len(self.states)

    def _output_name(self, style: Style) -> str:
        return style.subscript("o", "t")


def _check_states(states: States, updates: Matrices, initial: Matrices | None) -> None:
    if len(states) != len(updates) or (initial is not None and len(initial) != len(states)):
        raise StatementError(f"{len(states)} states need as many updates (and initial values), not {len(updates)}")
    for state, update in zip(states, updates, strict=True):
        same_shape("write the update into the state:", state.shape, update.shape, (str(state), str(update)))
    for state, value in zip(states, initial or (), strict=bool(initial)):
        same_shape("start the state at this value:", state.shape, value.shape, (str(state), str(value)))


class Chunkwise(Recurrence):
    """A recurrence whose tokens are blocks of C tokens (the last one may be shorter). It reads the state before the
    block.
    """

    def __init__(
        self,
        state: State | Many[State],
        update: Statement | Many[Statement],
        readout: Statement,
        read: Literal["after", "before"] = "before",
        initial: Statement | Many[Statement] | None = None,
    ) -> None:
        super().__init__(state, update, readout, read, initial)

    def _check_readout(self, readout: Statement) -> None:
        if readout.shape[0] != n:
            raise ShapeError(f"the readout of a block has one row per token; {readout} is {shape_text(readout.shape)}")

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.readout.shape

    def _names(self, style: Style) -> tuple[dict[Basic, str], dict[Basic, str]]:
        reads = self.symbols()
        blocks = {x: style.subscript(Printer(style)(x), "[i]") for x in reads if isinstance(x, Sequence | Gate)}
        now = {x: style.subscript(Printer(style)(x), "[i]") for x in self.states}
        after = {x: style.subscript(Printer(style)(x), "[i+1]") for x in self.states}
        return blocks | now, blocks | after

    def _output_name(self, style: Style) -> str:
        return style.subscript("O", "[i]")


@dataclass(frozen=True)
class FinalState(Form):
    """What is read from the state of a recurrence after the last token."""

    recurrence: Recurrence
    value: Statement

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.value.shape

    def expressions(self) -> dict[str, Basic]:
        inner = {key: e for key, e in self.recurrence.expressions().items() if key != "readout"}
        return inner | {"value": self.value}

    def with_expressions(self, changed: Mapping[str, Basic]) -> FinalState:
        inner = {key: e for key, e in changed.items() if key != "value"}
        return FinalState(self.recurrence.with_expressions(inner), changed.get("value", self.value))

    def symbols(self) -> set[Basic]:
        return super().symbols() - set(self.recurrence.states)

    def lines(self, style: Style) -> list[tuple[str, str]]:
        final = {x: style.subscript(Printer(style)(x), "n") for x in self.recurrence.states}
        return [
            *self.recurrence.lines(style)[: len(self.recurrence.states)],
            ("final", Printer(style, final)(self.value)),
        ]


@dataclass(frozen=True)
class Algorithm(Form):
    """A Python function over an abstract number system.

    `function(algebra, **inputs)` gets the values of `inputs` by name and returns the output matrix. It must use the
    algebra's operations alone, so that the same lines run on polynomials, field elements and floats.
    """

    function: Callable[..., Any]
    inputs: tuple[Named | Symbol, ...]
    shape: Shape = field(default=(n, n))

    def expressions(self) -> dict[str, Basic]:
        return {}

    def with_expressions(self, changed: Mapping[str, Basic]) -> Algorithm:
        del changed
        return self

    def symbols(self) -> set[Basic]:
        return set(self.inputs)

    def lines(self, style: Style) -> list[tuple[str, str]]:
        del style
        first = (self.function.__doc__ or self.function.__name__).strip().splitlines()[0]
        return [("O", f"{self.function.__name__}: {first}")]


def sequence_of(token: Basic) -> Basic:
    """The sequence that a token belongs to; anything else is returned as it is."""
    return token.sequence if isinstance(token, Token | GateToken) else token


def _reads_token_t(value: Any) -> bool:
    """Whether an expression means another thing at every token."""
    if isinstance(value, Form):
        return False
    return any(x.index == t for x in sympify(value).atoms(Token, GateToken)) and not value.atoms(TokenSum)


@dataclass(frozen=True)
class Substituted(Form):
    """A form on other inputs, see `Form.substitute`."""

    form: Form
    mapping: dict[Any, Any]

    def __post_init__(self) -> None:
        for key, value in self.mapping.items():
            if isinstance(key, Token | GateToken) and key.index != t:
                raise StatementError(f"a token is replaced at position t, not at {key.index}")
            if not isinstance(key, Token | GateToken | Form) and _reads_token_t(value):
                raise StatementError(f"{value} is read at token t, and {key} has no token: replace a sequence's token")
            expected = getattr(key, "shape", (1, 1))
            same_shape("substitute", expected, getattr(value, "shape", (1, 1)), (str(key), str(value)))

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.form.shape

    @property
    def states(self) -> States:  # type: ignore[override]
        return self.form.states

    @property
    def output_line(self) -> int:
        return self.form.output_line if self.form.output_line >= 0 else len(self.form.lines(TEXT)) - 1

    def expressions(self) -> dict[str, Basic]:
        found = self.form.expressions()
        for key, value in self.mapping.items():
            own = value.expressions() if isinstance(value, Form) else {"": value}
            found |= {f"for {key}: {part}": e for part, e in own.items()}
        return found

    def with_expressions(self, changed: Mapping[str, Basic]) -> Substituted:
        def replaced(key: Any, value: Any) -> Any:
            prefix = f"for {key}: "
            own = {part.removeprefix(prefix): e for part, e in changed.items() if part.startswith(prefix)}
            return value.with_expressions(own) if isinstance(value, Form) else own.get("", value)

        prefixes = tuple(f"for {key}: " for key in self.mapping)
        inner = {part: e for part, e in changed.items() if not part.startswith(prefixes)}
        values = {key: replaced(key, value) for key, value in self.mapping.items()}
        return Substituted(self.form.with_expressions(inner), values)

    def symbols(self) -> set[Basic]:
        found = self.form.symbols() - {sequence_of(key) for key in self.mapping}
        for value in self.mapping.values():
            found |= value.symbols() if isinstance(value, Form) else free_inputs(sympify(value))
        return found

    def lines(self, style: Style) -> list[tuple[str, str]]:
        write = Printer(style)
        arrow = r"\leftarrow" if style is LATEX else "<-"
        lines = self.form.lines(style)
        for key, value in self.mapping.items():
            if isinstance(value, Form):
                own, output = value.lines(style), value.output_line
                own[output] = (f"{write(key)} {arrow}", own[output][1])
                lines += own
            else:
                lines.append((f"{write(key)} {arrow}", write(value)))
        return lines


@dataclass(frozen=True)
class Defined(Form):
    """A form one of whose sequences is defined token by token, or as the output of another form, see `Form.where`."""

    form: Form
    defined: Token | GateToken | Named
    definition: Basic | Form

    def __post_init__(self) -> None:
        own = getattr(self.defined, "shape", (1, 1))
        same_shape("define", own, getattr(self.definition, "shape", (1, 1)), (str(self.defined), "its definition"))

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.form.shape

    @property
    def states(self) -> States:  # type: ignore[override]
        return self.form.states

    @property
    def output_line(self) -> int:
        return self.form.output_line if self.form.output_line >= 0 else len(self.form.lines(TEXT)) - 1

    def expressions(self) -> dict[str, Basic]:
        own = self.definition.expressions() if isinstance(self.definition, Form) else {"": self.definition}
        return self.form.expressions() | {f"{self._prefix}{key}": e for key, e in own.items()}

    @property
    def _prefix(self) -> str:
        return f"where {self.defined}: "

    def with_expressions(self, changed: Mapping[str, Basic]) -> Defined:
        inner = {key: e for key, e in changed.items() if not key.startswith(self._prefix)}
        own = {key.removeprefix(self._prefix): e for key, e in changed.items() if key.startswith(self._prefix)}
        if isinstance(self.definition, Form):
            definition: Basic | Form = self.definition.with_expressions(own)
        else:
            definition = own.get("", self.definition)
        return Defined(self.form.with_expressions(inner), self.defined, definition)

    def symbols(self) -> set[Basic]:
        inner = self.definition.symbols() if isinstance(self.definition, Form) else free_inputs(self.definition)
        return (self.form.symbols() | inner) - {sequence_of(self.defined)}

    def lines(self, style: Style) -> list[tuple[str, str]]:
        write = Printer(style)
        if isinstance(self.definition, Form):
            own = self.definition.lines(style)
            output = self.definition.output_line
            own[output] = (write(self.defined), own[output][1])
        else:
            own = [(write(self.defined), write(self.definition))]
        return [*self.form.lines(style), *own]


def equations(lines: Iterable[tuple[str, str]]) -> list[str]:
    """Left and right sides as equations; a left side that ends with an arrow has its sign already."""
    return [f"{left} {right}" if left.endswith(("<-", "arrow")) else f"{left} = {right}" for left, right in lines]


def text_lines(form: Form) -> list[str]:
    """The form as lines of plain text."""
    return equations(form.lines(TEXT))


def latex_lines(form: Form) -> list[str]:
    """The form as lines of LaTeX."""
    return equations(form.lines(LATEX))


def recurrence_or_none(form: Form) -> Recurrence | None:
    """The recurrence inside a form, if there is one."""
    while not isinstance(form, Recurrence):
        inner: Any = form.recurrence if isinstance(form, FinalState) else getattr(form, "form", None)
        if inner is None:
            return None
        form = inner
    return form
