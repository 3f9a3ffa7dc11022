"""How a kernel is called, in the words of a statement: which parameter stands for which input, in which layout.

A preset knows the names and scales of a library. It is fitted to the kernel's own signature by name, never by place;
where that can't be done the error shows both sides.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attnproof.implementation_cases import QUERIES
from gpu.registry import Argument, Scale
from gpu.torch_kernels.signatures import ARGUMENTS

OUTPUT = "O"
ALIASES: dict[str, tuple[str, ...]] = {
    "q": ("q", "query", "Q", "queries"),
    "k": ("k", "key", "K", "keys"),
    "v": ("v", "value", "V", "values"),
    "r": ("r", "q", "receptance"),
    "x": ("x", "X", "v", "hidden_states"),
    "log_gate": ("log_gate", "g", "gk", "gate", "alpha", "gamma", "decay", "log_decay", "w"),
    "log_a": ("log_a", "g", "A", "dA"),
    "beta": ("beta", "b", "eta", "lr"),
    "eta": ("eta", "beta", "b", "lr"),
    "bonus": ("bonus", "u"),
    "step": ("step", "dt", "delta"),
    "initial_state": ("initial_state", "h0", "state", "initial_states", "S0"),
}
"""By the name of an argument in `gpu.torch_kernels.signatures`: what kernels call it."""


class WrongConvention(ValueError):
    """A convention doesn't fit a kernel's signature."""


@dataclass(frozen=True)
class Library:
    """What a library's kernels have in common.

    Attributes:
        gates: on which scale they take gates; a rate is one number for each head.
        state: the layout of a state.
        scaled: whether they multiply queries by d_k^-1/2 themselves.
        constants: other parameters, passed where the signature has them.
    """

    gates: Scale = "log"
    state: str = "n g k v"
    scaled: bool = False
    constants: Mapping[str, Any] = field(default_factory=dict)


UNSCALED = {"scale": 1.0, "output_final_state": True, "use_qk_l2norm_in_kernel": False}
LIBRARIES: dict[str, Library] = {
    "attnproof": Library(),
    "fla": Library(constants=UNSCALED),
    "transformers": Library(scaled=True, constants={k: v for k, v in UNSCALED.items() if k != "scale"}),
    "flashinfer": Library("linear", "n g v k", constants=UNSCALED),
    "mlx": Library("linear", "n g v k"),
    "opengdn": Library("linear", "n g v k"),
    "attention-gym": Library("log2", constants=UNSCALED),
    "mamba-ssm": Library("rate", "n g v k", constants={"return_final_states": True, "dt_softplus": False}),
}
"""Conventions of libraries, by name."""


@dataclass(frozen=True)
class Convention:
    """How one kernel is called.

    Attributes:
        derivation: the name of the derivation.
        arguments: its array arguments; `name` is the kernel's parameter.
        returns: the output and the last states, each with its layout.
        constants: what else is passed.
        offsets: the parameter that takes the offsets of packed sequences; None where there is none.
    """

    derivation: str
    arguments: tuple[Argument, ...]
    returns: tuple[tuple[str, str], ...]
    constants: Mapping[str, Any]
    offsets: str | None = None

    @property
    def state(self) -> Argument | None:
        """The argument for the initial state, if there is one."""
        return next((x for x in self.arguments if x.layout.startswith("n ")), None)

    @property
    def step(self) -> Argument:
        """The argument for the step size, by which a rate is multiplied."""
        return next(x for x in self.arguments if x.stands_for == "Delta")


def linear(layout: str, stands_for: str = "") -> Argument:
    """An argument that the statement takes as it is: `alpha=linear("b t h")`."""
    return Argument("", stands_for, layout)


def log(layout: str, stands_for: str = "") -> Argument:
    """An argument whose exponential the statement takes: `g=log("b t h")`."""
    return Argument("", stands_for, layout, "log")


def log2(layout: str, stands_for: str = "") -> Argument:
    """An argument such that the statement takes two to its power."""
    return Argument("", stands_for, layout, "log2")


def rate(layout: str, stands_for: str = "") -> Argument:
    """An argument such that the statement takes the exponential of it times the step size: Mamba's A."""
    return Argument("", stands_for, layout, "rate")


Layout = str | Mapping[str, str | Argument]


def convention_of(
    kernel: Callable[..., Any],
    derivation: str,
    layout: Layout = "attnproof",
    constants: Mapping[str, Any] | None = None,
    chunk_size: int | None = None,
) -> Convention:
    """The convention by which a kernel is called.

    Args:
        kernel: what is called.
        derivation: the name of the derivation that it should compute.
        layout: the name of a library, or for each parameter its layout: "b t h k", `log("b t h")`; `returns` may be
            among them, a layout for the output and for each last state.
        constants: other keyword arguments.
        chunk_size: what is passed for a parameter of that name that has no default.

    Raises:
        WrongConvention: it doesn't fit the kernel's signature; the message shows both sides.
    """
    if derivation not in ARGUMENTS:
        known = ", ".join(sorted(ARGUMENTS))
        raise WrongConvention(f"no convention is known for {derivation!r}; there are: {known}")
    names, passed = parameters(kernel), dict(constants or {})
    if chunk_size is not None and names and names.get("chunk_size"):
        passed.setdefault("chunk_size", chunk_size)
    if isinstance(layout, str):
        return _preset(layout, derivation, names, passed)
    return _given(dict(layout), derivation, names, passed)


class Parameters(dict[str, bool]):
    """The names of a kernel's parameters, and whether each is required.

    Attributes:
        takes_others: whether it takes further keyword arguments, whatever their names are.
    """

    takes_others = False


def parameters(kernel: Callable[..., Any]) -> Parameters | None:
    """The parameters of a kernel; None where none has a name."""
    try:
        found = inspect.signature(kernel).parameters.values()
    except (TypeError, ValueError):
        return None
    by_place = [x.name for x in found if x.kind is x.POSITIONAL_ONLY]
    if by_place:
        raise WrongConvention(f"the kernel takes {', '.join(by_place)} by place only: wrap it so that they have names")
    named = Parameters((x.name, x.default is x.empty) for x in found if x.kind not in (x.VAR_POSITIONAL, x.VAR_KEYWORD))
    named.takes_others = any(x.kind is x.VAR_KEYWORD for x in found)
    return named if named or not named.takes_others else None


def _preset(name: str, derivation: str, names: Parameters | None, constants: dict[str, Any]) -> Convention:
    if name not in LIBRARIES:
        raise WrongConvention(f"no layout is named {name!r}; there are: {', '.join(sorted(LIBRARIES))}")
    library = LIBRARIES[name]
    arguments = [_of_library(x, library, names) for x in ARGUMENTS[derivation]]
    missing = [
        x.name for x, found in zip(ARGUMENTS[derivation], arguments, strict=True) if found is None and not x.optional
    ]
    if missing:
        wanted = "; ".join(f"{x} ({' or '.join(ALIASES.get(x, (x,)))})" for x in missing)
        raise WrongConvention(
            f"the layout {name!r} doesn't fit: {derivation} needs {wanted}, and the kernel has {_listed(names)}"
        )
    found = tuple(x for x in arguments if x is not None)
    states = tuple((x.stands_for, library.state if x.layout == "n g k v" else x.layout) for x in found if _is_state(x))
    own = {key: value for key, value in library.constants.items() if names is None or key in names}
    return _checked(
        Convention(derivation, found, ((OUTPUT, "b t g v"), *states), own | constants, _offsets(names)), names
    )


def _of_library(argument: Argument, library: Library, names: Parameters | None) -> Argument | None:
    choices = ALIASES.get(argument.name, (argument.name,))
    name = choices[0] if names is None else next((x for x in choices if x in names), None)
    if name is None:
        return None
    layout = library.state if argument.layout == "n g k v" else argument.layout
    scale = library.gates if argument.scale == "log" else argument.scale
    layout = "g" if scale == "rate" else layout
    scaled = library.scaled and argument.layout == "b t h k" and argument.stands_for in QUERIES
    optional = argument.optional and not (names is not None and names.get(name, False))
    return replace(argument, name=name, layout=layout, scale=scale, scaled=scaled, optional=optional)


def _given(layout: dict[str, Any], derivation: str, names: Parameters | None, constants: dict[str, Any]) -> Convention:
    returns = layout.pop("returns", None)
    arguments = tuple(_own(name, given, derivation, names or {}) for name, given in layout.items())
    states = tuple((x.stands_for, x.layout) for x in arguments if _is_state(x))
    stated = [x.stands_for for x in arguments]
    inputs = [x.stands_for for x in ARGUMENTS[derivation]]
    unknown = [x for x in stated if x not in inputs]
    if unknown:
        raise WrongConvention(f"{derivation} has no input {' or '.join(unknown)}; it has {', '.join(inputs)}")
    missing = [x.stands_for for x in ARGUMENTS[derivation] if x.stands_for not in stated and not x.optional]
    if missing:
        raise WrongConvention(f"no parameter stands for {' and '.join(missing)} of {derivation}")
    found = tuple(returns.items()) if returns else ((OUTPUT, "b t g v"), *states)
    return _checked(Convention(derivation, arguments, found, constants, _offsets(names)), names)


def _own(name: str, given: str | Argument, derivation: str, names: Mapping[str, bool]) -> Argument:
    argument = linear(given) if isinstance(given, str) else given
    stands_for = argument.stands_for or _guessed(name, derivation)
    optional = _is_state(argument) and not names.get(name, False)
    return replace(argument, name=name, stands_for=stands_for, optional=optional)


def _guessed(name: str, derivation: str) -> str:
    for known in ARGUMENTS[derivation]:
        if name in ALIASES.get(known.name, (known.name,)) or name in (known.name, known.stands_for):
            return known.stands_for
    wanted = ", ".join(x.stands_for for x in ARGUMENTS[derivation])
    raise WrongConvention(f"say what {name} stands for: {name}=linear(..., stands_for=...), one of {wanted}")


def _checked(convention: Convention, names: Parameters | None) -> Convention:
    if any(x.scale == "rate" for x in convention.arguments) and all(
        x.stands_for != "Delta" for x in convention.arguments
    ):
        raise WrongConvention(f"a rate is multiplied by the step size, and {convention.derivation} has none")
    if names is None:
        return convention
    passed = {x.name for x in convention.arguments} | set(convention.constants)
    unknown = [] if names.takes_others else sorted(passed - names.keys())
    lacking = sorted(name for name, required in names.items() if required and name not in passed)
    if unknown or lacking:
        sides = [f"the kernel has no {', '.join(unknown)}"] if unknown else []
        sides += [f"nothing is passed for {', '.join(lacking)}"] if lacking else []
        raise WrongConvention(f"{' and '.join(sides)}: it has {_listed(names)}, and gets {', '.join(sorted(passed))}")
    return convention


def _is_state(argument: Argument) -> bool:
    return argument.layout.startswith("n ")


def _offsets(names: Parameters | None) -> str | None:
    return next((x for x in ("cu_seqlens", "offsets") if names is not None and x in names), None)


def _listed(names: Parameters | None) -> str:
    return "(anything)" if names is None else ", ".join(names)
