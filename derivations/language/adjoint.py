r"""The adjoint of a recurrence, stated as a recurrence of its own that runs from the last token to the first.

With L = <dO, O> + <dS_n, S_n>, dS_t is the derivative of L by S_t. It arrives from the tokens after t, takes up what
o_t reads, gives a row dk_t for every input, and goes on to token t-1. For S_t = gamma_t S_{t-1} + v_t k_t^T and
o_t = S_t q_t:

    dS_t <- dS_t + do_t q_t^T,  dq_t = S_t^T do_t,  dv_t = dS_t k_t,  dk_t = dS_t^T v_t,
    dgamma_t = <S_{t-1}, dS_t>,  dS_{t-1} = gamma_t dS_t

The states are those of the forward pass. The rules are those of `pullback`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from sympy import Basic, S

from derivations.language.errors import NoMeaning, StatementError
from derivations.language.expressions import Shape, Statement, Zeros
from derivations.language.forms import Chunkwise, Defined, Form, Recurrence, Substituted, sequence_of
from derivations.language.printing import LATEX, PRODUCT, TEXT, Printer, Style
from derivations.language.pullback import pullback
from derivations.language.simplified import added
from derivations.language.symbols import GateToken, Named, Parameter, Sequence, State, Token, n, t

Cotangents = Mapping[Basic, Basic]


@cache
def cotangent_of_output(recurrence: Recurrence) -> Sequence:
    """dO, n x d_v."""
    return Sequence("dO", n, recurrence.readout.shape[0])


@cache
def cotangent_of(state: State) -> Parameter:
    """dS, of the state's shape: what a backward pass is given for the state after the last token."""
    return Parameter(f"d{state}", *state.shape)


@cache
def written(state: State) -> State:
    """S_t, where S stands for S_{t-1}."""
    return State(f"{state} written", *state.shape)


@dataclass(frozen=True)
class Adjoint:
    """The backward pass of a recurrence.

    Args:
        recurrence: the forward pass.
        taken_up: by state what dS_t takes up from o_t, where o_t reads S_t.
        rows: by input its cotangent at token t, from S_{t-1}, S_t, dS_t, do_t and the inputs. What isn't a sequence
            is read by every token, and its cotangent is the sum of these.
        carried: by state dS_{t-1}.
        begun: by input of the initial state what dS_0 adds to its cotangent.
    """

    recurrence: Recurrence
    taken_up: Cotangents
    rows: Cotangents
    carried: Cotangents
    begun: Cotangents = field(default_factory=dict)

    @property
    def states(self) -> tuple[State, ...]:
        return self.recurrence.states

    @property
    def inputs(self) -> list[Basic]:
        """What this pass gives a cotangent for."""
        found = [sequence_of(x) for x in self.rows]
        found += [x for x in self.begun if x not in found]
        return found + (list(self.states) if self.recurrence.initial is None else [])

    def expressions(self) -> dict[str, Basic]:
        """The formulas, by name."""
        named = {f"taken up by d{state}": e for state, e in self.taken_up.items()}
        named |= {f"d{x}": e for x, e in self.rows.items()} | {f"carried d{x}": e for x, e in self.carried.items()}
        return named | {f"d{x} from the beginning": e for x, e in self.begun.items()}

    def with_expressions(self, changed: Mapping[str, Basic]) -> Adjoint:
        """The same pass with some of its formulas replaced."""
        parts = self.expressions() | dict(changed)
        return replace(
            self,
            taken_up={x: parts[f"taken up by d{x}"] for x in self.taken_up},
            rows={x: parts[f"d{x}"] for x in self.rows},
            carried={x: parts[f"carried d{x}"] for x in self.carried},
            begun={x: parts[f"d{x} from the beginning"] for x in self.begun},
        )

    def lines(self, style: Style) -> list[tuple[str, str]]:
        """The pass as equations, in the order in which they are carried out."""
        plain, arrow = Printer(style), r"\leftarrow" if style is LATEX else "<-"
        at = lambda x, index: style.subscript(plain(x), index)
        names = {x: at(x, "t-1") for x in self.states} | {written(x): at(x, "t") for x in self.states}
        own: dict[Basic, str] = {cotangent_of(x): f"d{at(x, 't')}" for x in self.states}
        write = Printer(style, names | own)
        lines = [(f"d{at(x, 't')} {arrow}", write(added([cotangent_of(x), e]))) for x, e in self.taken_up.items()]
        for x, e in self.rows.items():
            body = write(e) if is_row(x) else style.big("sum", "t", "1", "n", write.at_least(e, PRODUCT))
            lines.append((f"d{plain(x)}", body))
        lines += [(f"d{at(x, 't-1')}", write(e)) for x, e in self.carried.items()]
        first = Printer(style, {cotangent_of(x): f"d{at(x, '0')}" for x in self.states})
        for x, e in self.begun.items():
            before = f"d{plain(x)} + " if x in self.rows else ""
            lines.append((f"d{plain(x)} {arrow}" if before else f"d{plain(x)}", before + first(e)))
        return lines


def is_row(x: Basic) -> bool:
    """Whether each token has an input of its own, and so a row of the cotangent."""
    return isinstance(x, Token | GateToken)


@cache
def adjoint(recurrence: Recurrence) -> Adjoint:
    """The backward pass of a recurrence, derived from its statement.

    Raises:
        NoMeaning: it goes block by block, reads another token than t, or contains an operation without a rule.
    """
    if isinstance(recurrence, Chunkwise):
        raise NoMeaning("the backward pass is derived token by token; state that of a block as an identity")
    _check_names(recurrence)
    output = pullback(recurrence.readout, cotangent_of_output(recurrence)[t])
    after = recurrence.read == "after"
    if after:
        moved = {state: written(state) for state in recurrence.states}
        output = {x: e.xreplace(moved) for x, e in output.items()}
    taken_up = {x: output[x] for x in recurrence.states if x in output} if after else {}
    rest = {x: e for x, e in output.items() if x not in taken_up}
    updates = zip(recurrence.states, recurrence.updates, strict=True)
    together = _together([rest, *(pullback(e, cotangent_of(x)) for x, e in updates)])
    return Adjoint(
        recurrence,
        taken_up,
        {x: e for x, e in together.items() if x not in recurrence.states},
        {x: together.get(x, zero_of(x)) for x in recurrence.states},
        _of_the_beginning(recurrence),
    )


def _check_names(recurrence: Recurrence) -> None:
    own = {str(x) for x in (cotangent_of_output(recurrence), *map(cotangent_of, recurrence.states))}
    taken = sorted(own & {str(x) for x in recurrence.symbols()})
    if taken:
        raise StatementError(f"{', '.join(taken)} can't be the name of an input: the backward pass is stated with it")


def _together(parts: list[dict[Basic, Basic]]) -> dict[Basic, Basic]:
    """The cotangents from the output and from each update, added up."""
    terms: dict[Basic, list[Basic]] = {}
    for x, e in (item for part in parts for item in part.items()):
        if isinstance(x, Token | GateToken) and x.index != t:
            raise NoMeaning(f"{x} is read at token t: a backward pass is derived where token t is read alone")
        if isinstance(x, Named) and x.shape[0] == n:
            raise NoMeaning(f"the whole sequence {x} is read at token t: a backward pass is derived token by token")
        terms.setdefault(x, []).append(e)
    return {x: added(found) for x, found in terms.items()}


def _of_the_beginning(recurrence: Recurrence) -> dict[Basic, Basic]:
    initial = recurrence.initial or ()
    return _together([pullback(e, cotangent_of(x)) for x, e in zip(recurrence.states, initial, strict=bool(initial))])


def zero_of(x: Basic) -> Basic:
    """Zero, of the shape of an input."""
    return Zeros(*x.shape) if isinstance(x, Statement) else S.Zero


def inputs_of(recurrence: Recurrence) -> set[Basic]:
    """What a recurrence can be differentiated by: everything that it reads, and the initial states that are free."""
    return recurrence.symbols() | (set(recurrence.states) if recurrence.initial is None else set())


def given_to(recurrence: Recurrence) -> set[Basic]:
    """What both passes read from outside: the inputs, dO and dS_n."""
    return inputs_of(recurrence) | {cotangent_of_output(recurrence), *map(cotangent_of, recurrence.states)}


def shape_of_input(x: Basic) -> Shape:
    """The shape of an input and of its cotangent; a scalar is 1 x 1."""
    return x.shape if isinstance(x, Statement) else (S.One, S.One)


@dataclass(frozen=True)
class Cotangent(Form):
    """The derivative of <dO, O> + <dS_n, S_n> by one input of a recurrence, or by its initial state.

    It reads what the recurrence reads, from any initial state unless the recurrence has one of its own, and dO and dS.
    """

    recurrence: Recurrence
    of: Basic

    def __post_init__(self) -> None:
        _check_names(self.recurrence)
        known = inputs_of(self.recurrence)
        if self.of not in known:
            raise StatementError(f"{self.of} isn't an input of the recurrence: {', '.join(sorted(map(str, known)))}")

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return shape_of_input(self.of)

    def expressions(self) -> dict[str, Basic]:
        return self.recurrence.expressions()

    def with_expressions(self, changed: Mapping[str, Basic]) -> Cotangent:
        return replace(self, recurrence=self.recurrence.with_expressions(changed))

    def symbols(self) -> set[Basic]:
        return given_to(self.recurrence)

    def lines(self, style: Style) -> list[tuple[str, str]]:
        return [*self.recurrence.lines(style), *adjoint(self.recurrence).lines(style)]

    @property
    def output_line(self) -> int:
        backward = adjoint(self.recurrence)
        said = [*map(sequence_of, backward.rows), *backward.carried, *backward.begun]
        last = max(k for k, x in enumerate(said) if x == self.of)
        return len(self.recurrence.lines(TEXT)) + len(backward.taken_up) + last


def goes_backward(form: Form) -> bool:
    """Whether a form contains a backward pass."""
    if isinstance(form, Cotangent):
        return True
    inner = [form.form] if isinstance(form, Defined | Substituted) else []
    inner += [form.definition] if isinstance(form, Defined) and isinstance(form.definition, Form) else []
    return any(map(goes_backward, inner))
