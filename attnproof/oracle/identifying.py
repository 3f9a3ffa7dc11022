"""The call `attnproof.identify(kernel)`: which system of the catalogue is this?

Every system whose arguments fit the kernel's signature is a hypothesis, in every way of calling: gates as they are, as
logarithms or exponents of two, states one way round or the other, queries scaled or not. The kernel is called on
inputs of each, small ones first, and compared with the statement within its tolerance. It is forward values and last
states alone that are compared: `attnproof.check_kernel` says whether all else is right too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from attnproof.catalogue import load_catalogue
from attnproof.implementation_cases import QUERIES, Case
from attnproof.oracle import arrays
from attnproof.oracle.conventions import LIBRARIES, Convention, Layout, WrongConvention, convention_of, parameters
from attnproof.oracle.diagnosis import diagnosed
from attnproof.oracle.identification import Identification, Reading
from attnproof.oracle.subject import Misbehaved, Subject
from attnproof.oracle.trials import NO_VALUE, Trial
from gpu.registry import Argument
from gpu.torch_kernels.declared import ATTENTION, STATES
from gpu.torch_kernels.signatures import ARGUMENTS

SYSTEMS = tuple(x for x in ARGUMENTS if x in STATES or x in ATTENTION)
"""Those that have a statement and a convention."""
PREFERRED = ("fla", *LIBRARIES)
"""Libraries in the order in which their conventions are tried: fla's `scale=1.0` is passed where there is a `scale`."""
TURNED = {"n g k v": "n g v k", "n g v k": "n g k v"}
SCALES = ("log", "linear", "log2")
DIAGNOSED = 4
"""So many readings are searched for what differs: each is compared with the whole catalogue."""


def identify(
    kernel: Callable[..., Any],
    layout: Layout | None = None,
    *,
    dtype: str = "float32",
    accumulation: str | None = None,
    library: arrays.Library | None = None,
    device: str = "cpu",
    chunk_size: int = 64,
    seed: int = 0,
    constants: Mapping[str, Any] | None = None,
) -> Identification:
    """Says which system of the catalogue a kernel computes, or which is the nearest and what differs.

    Args:
        kernel: any callable on arrays; it is called with keyword arguments.
        layout: as for `attnproof.check_kernel`; those of all libraries are tried where None.
        dtype, accumulation, library, device, chunk_size, constants: as for `attnproof.check_kernel`.
        seed: where inputs are drawn from.

    Raises:
        WrongConvention: the kernel takes arguments by place only.
        ValueError: no such precision or library.
    """
    names = parameters(kernel)
    subject = _subject(kernel, dtype, accumulation, library, device)
    cases = [
        Case(3, key_width=4, value_width=4, heads=2, groups=1, seed=seed, chunk_size=chunk_size),
        Case(11, key_width=5, value_width=6, batch=2, groups=1, seed=seed + 1, chunk_size=chunk_size),
        Case(2 * chunk_size + 3, groups=1, seed=seed + 2, chunk_size=chunk_size),
    ]
    fit, unfit = _hypotheses(kernel, layout, constants)
    best: list[tuple[Reading, list[Reading]]] = []
    for conventions in fit.values():
        each = list(_tried(subject, conventions, cases))
        nearest = min(each, key=_order)
        best.append((replace(nearest, layout=_library_of(kernel, nearest.convention, layout, constants)), each))
    ranked = sorted(best, key=lambda x: (_order(x[0]), -len(x[0].convention.arguments)))
    name = getattr(kernel, "__qualname__", type(kernel).__name__)
    listed = "of any arguments" if names is None else f"({', '.join(names)})"
    found = Identification(name, tuple(x for x, _ in ranked), unfit, listed)
    return found if found.matches else _explained(found, [each for _, each in ranked], subject, cases[1])


def _subject(
    kernel: Callable[..., Any], dtype: str, accumulation: str | None, library: arrays.Library | None, device: str
) -> Subject:
    """The kernel, before it is known how it is called."""
    library = library or arrays.usual_library()
    accumulation = accumulation or ("float64" if dtype == "float64" else "float32")
    for precision in (dtype, accumulation):
        arrays.check(library, precision)
    return Subject(kernel, Convention("", (), (), {}), library, dtype, accumulation, device)


def _order(reading: Reading) -> tuple[bool, int, bool, float]:
    """Those that agree first, then those that agree on more inputs, then the nearest."""
    return not reading.agrees, -reading.inputs if not reading.agrees else 0, bool(reading.message), reading.distance


def _hypotheses(
    kernel: Callable[..., Any], layout: Layout | None, constants: Mapping[str, Any] | None
) -> tuple[dict[str, list[Convention]], dict[str, str]]:
    """By system: the ways of calling that fit the signature, or why there is none."""
    fit: dict[str, list[Convention]] = {}
    unfit: dict[str, str] = {}
    for derivation in SYSTEMS:
        found: list[Convention] = []
        for name in PREFERRED if layout is None else (layout,):
            try:
                own = convention_of(kernel, derivation, name, constants)
            except WrongConvention as error:
                unfit.setdefault(derivation, _in_short(str(error)).removeprefix(f"{derivation} "))
                continue
            for reading in _readings(own):
                if not any(_same(reading, known) for known in found):
                    found.append(reading)
        if found:
            fit[derivation] = found
            unfit.pop(derivation, None)
    return fit, unfit


def _in_short(message: str) -> str:
    """A misfit without what is the same for every system."""
    return (
        message.partition("doesn't fit: ")[2].partition(", and the kernel has")[0] or message.partition(": it has")[0]
    )


def _same(a: Convention, b: Convention) -> bool:
    return (a.arguments, a.returns) == (b.arguments, b.returns)


def _readings(convention: Convention) -> Iterator[Convention]:
    """The convention itself first, then others that the signature doesn't tell from it."""
    for scale, turned, scaled in product((None, *SCALES), (False, True), (None, False, True)):
        arguments = tuple(_read(x, convention.derivation, scale, turned, scaled) for x in convention.arguments)
        returns = tuple((x, TURNED.get(y, y) if turned else y) for x, y in convention.returns)
        yield replace(convention, arguments=arguments, returns=returns)


def _read(argument: Argument, derivation: str, scale: Any, turned: bool, scaled: bool | None) -> Argument:
    known = next(x for x in ARGUMENTS[derivation] if x.stands_for == argument.stands_for)
    if known.scale == "log" and argument.scale in SCALES and scale is not None:
        return replace(argument, scale=scale)
    if argument.layout in TURNED and turned:
        return replace(argument, layout=TURNED[argument.layout])
    if argument.stands_for in QUERIES and scaled is not None:
        return replace(argument, scaled=scaled)
    return argument


def _tried(subject: Subject, conventions: list[Convention], cases: list[Case]) -> Iterator[Reading]:
    """One reading after the other, up to one that agrees."""
    for convention in conventions:
        reading = _compared(replace(subject, convention=convention), cases)
        if reading.message.startswith("it returned 1 value"):  # and no last states
            reading = _compared(replace(subject, convention=replace(convention, returns=convention.returns[:1])), cases)
        yield reading
        if reading.agrees:
            return


def _compared(subject: Subject, cases: list[Case]) -> Reading:
    """How far the kernel agrees with one reading: up to the first input on which it doesn't."""
    convention, seen, ratio, sharpness = subject.convention, set[str](), 0.0, 0.0
    for inputs, case in enumerate(_with_states(convention, cases)):
        try:
            trial = Trial(subject, case)
            returned = subject.call(trial.arguments)
            gaps = trial.gaps(returned)
            off = _distance(trial, returned)
        except (Misbehaved, *NO_VALUE) as error:
            return Reading(convention, inputs=inputs, distance=np.inf, message=str(error))
        worst = max((gap.ratio for gap in gaps if gap.counts), default=0.0)
        if worst > 1:
            return Reading(convention, "", worst, inputs, distance=off)
        ratio, sharpness = max(ratio, worst), max([sharpness, *(gap.sharpness for gap in gaps if gap.counts)])
        seen |= {gap.name for gap in gaps if gap.counts}
    if len(seen) < len(gaps):
        return Reading(convention, "", ratio, inputs + 1, message="no input was sharp enough to tell")
    return Reading(convention, "", ratio, inputs + 1, sharpness, agrees=True)


def _with_states(convention: Convention, cases: list[Case]) -> list[Case]:
    """With an initial state where the kernel takes one, and then without, where it may be left out."""
    state = convention.state
    own = [replace(x, with_state=state is not None) for x in cases]
    return [*own, replace(own[1], with_state=False)] if state is not None and state.optional else own


def _distance(trial: Trial, returned: Mapping[str, np.ndarray]) -> float:
    """How far output and states are off, as a share of what is wanted: the largest of the shares."""
    shares = []
    for name, layout in trial.subject.convention.returns:
        wanted = trial.values[name]
        error = trial.stated(name, layout, returned[name]) - wanted
        shares.append(float(np.linalg.norm(error)) / max(float(np.linalg.norm(wanted)), 1e-300))
    return max(shares)


def _library_of(
    kernel: Callable[..., Any], convention: Convention, layout: Layout | None, constants: Mapping[str, Any] | None
) -> str:
    """The library whose conventions these are, as far as this kernel shows them."""
    for name in (layout, *LIBRARIES) if isinstance(layout, str) else LIBRARIES:
        try:
            own = convention_of(kernel, convention.derivation, name, constants)
        except WrongConvention:
            continue
        if _same(own, convention) and own.constants == convention.constants:
            return name
    return ""


def _explained(found: Identification, tried: list[list[Reading]], subject: Subject, case: Case) -> Identification:
    """With what the kernel computes instead, if that is found: from the likeliest reading of each system, then from
    the nearest ones.
    """
    others = sorted((x for each in tried for x in each[1:]), key=_order)
    readings = [x for x in (*(each[0] for each in tried), *others) if np.isfinite(x.distance)]
    for reading in readings[:DIAGNOSED]:
        convention = reading.convention
        own = replace(case, with_state=convention.state is not None)
        differs = diagnosed(replace(subject, convention=convention), own)
        if differs:
            system = _named_in(differs)
            rest = (x for x in found.readings if x.convention.derivation != convention.derivation)
            of = system or convention.derivation
            return replace(found, readings=(reading, *rest), differs=differs, of=of, named=bool(system))
    return found


def _named_in(differs: str) -> str:
    """The system of the catalogue that a diagnosis names."""
    titles = {str(x.title): name for name, x in load_catalogue().derivations.items()}
    named = [title for title in titles if differs.startswith(f"it computes {title}")]
    return titles[max(named, key=len)] if named else ""
