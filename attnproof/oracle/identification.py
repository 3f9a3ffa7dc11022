"""Which system of the catalogue a kernel is: the answer, in words and as a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from attnproof.catalogue import load_catalogue
from attnproof.implementation_cases import QUERIES
from attnproof.oracle.conventions import Convention
from attnproof.oracle.statements import forms_of
from attnproof.readable import counted
from derivations.language.forms import text_lines
from gpu.registry import Argument
from gpu.torch_kernels.signatures import ARGUMENTS

SCALES = {"log": "log gates", "linear": "gates as they are", "log2": "gates as exponents of two", "rate": "rates"}


@dataclass(frozen=True)
class Reading:
    """A system and a way of calling: what the kernel's values are there, against the statement's.

    Attributes:
        convention: the system, and which argument is what.
        layout: the library that calls like this; "" where none of those known does.
        ratio: the largest error over tolerance on all inputs.
        inputs: how many the kernel agreed on, before one on which it didn't.
        sharpness: the smallest relative error that would have been seen.
        distance: how far it was off on the last one, as a share of what was wanted (root of the mean square).
        message: what went wrong with a call.
        agrees: whether no input told the kernel from the system.
    """

    convention: Convention
    layout: str = ""
    ratio: float = 0.0
    inputs: int = 0
    sharpness: float = 0.0
    distance: float = 0.0
    message: str = ""
    agrees: bool = False

    @property
    def title(self) -> str:
        return str(load_catalogue().derivations[self.convention.derivation].title)

    @property
    def how(self) -> str:
        """The way of calling, in words: scales of gates, layout of states, scale of queries."""
        known = {x.stands_for: x for x in ARGUMENTS[self.convention.derivation]}
        arguments = self.convention.arguments
        words = [SCALES[x.scale] for x in arguments if known[x.stands_for].scale == "log"]
        words += [f"states {x.layout}" for x in arguments if x.layout.startswith("n ")]
        queries = [x for x in arguments if x.stands_for in QUERIES]
        words += ["queries scaled by d_k^-1/2" if x.scaled else "queries as they are" for x in queries]
        return ", ".join(dict.fromkeys([*words, *self._without_states()])) or "its arguments as they are"

    def _without_states(self) -> list[str]:
        taken = any(x.layout.startswith("n ") for x in self.convention.arguments)
        return ["last states not returned"] if taken and len(self.convention.returns) == 1 else []

    def as_json(self) -> dict[str, Any]:
        """A flat record."""
        record: dict[str, Any] = {"derivation": self.convention.derivation, "reading": self.how, "layout": self.layout}
        record |= {"agrees": self.agrees, "inputs": self.inputs, "error_over_tolerance": self.ratio}
        record |= {"smallest_fault_seen": self.sharpness, "distance": self.distance, "message": self.message}
        return record | {"arguments": {x.name: _argument_in_json(x) for x in self.convention.arguments}}


def _argument_in_json(argument: Argument) -> dict[str, str]:
    return {"stands_for": argument.stands_for, "layout": argument.layout, "scale": argument.scale}


@dataclass(frozen=True)
class Identification:
    """Which system a kernel is.

    Attributes:
        kernel: its name.
        readings: the best reading for each system that fits the signature, those that agree first, the more general
            one before its special cases; then the nearest first.
        differs: what the kernel computes instead, as `check_kernel` says it; "" where that isn't known.
        of: the name of the system that it computes according to `differs`, or whose statement with an error it is.
        named: whether `differs` names a system of the catalogue, and not a statement with an error.
        unfit: by name of a system: why it doesn't fit the signature.
        parameters: the kernel's.
    """

    kernel: str
    readings: tuple[Reading, ...]
    unfit: Mapping[str, str]
    parameters: str = ""
    differs: str = ""
    of: str = ""
    named: bool = False

    @property
    def matches(self) -> tuple[Reading, ...]:
        """The readings that agree."""
        return tuple(x for x in self.readings if x.agrees)

    @property
    def ok(self) -> bool:
        """Whether the kernel is a system of the catalogue, as far as the inputs show."""
        return bool(self.matches) or self.named

    def __str__(self) -> str:
        lines = self._found() if self.matches else self._nearest()
        return "\n".join([*lines, *self._others(), *self._unfit()])

    def as_json(self) -> dict[str, Any]:
        """The record of `identify --json`."""
        return {
            "kernel": self.kernel,
            "ok": self.ok,
            "identified_as": [x.convention.derivation for x in self.matches] or ([self.of] if self.named else []),
            "differs": self.differs,
            "nearest": self.of,
            "readings": [x.as_json() for x in self.readings],
            "unfit": dict(self.unfit),
        }

    def _found(self) -> Iterator[str]:
        first, *others = self.matches
        yield f"{self.kernel} computes {first.title} ({first.how})"
        yield f"  {'; '.join(text_lines(forms_of(first.convention.derivation)[0]))}"
        seen = f"would have seen relative errors from {first.sharpness:.1g}"
        yield f"  right on {first.inputs} inputs, {first.ratio:.2g} of the tolerance; {seen}"
        if first.layout:
            yield f"  to try everything: --as {first.convention.derivation} --layout {first.layout}"
        for other in others:
            yield f"  it computes {other.title} too ({other.how}); {told_apart(first.convention, other.convention)}"

    def _nearest(self) -> Iterator[str]:
        if self.named:
            yield f"{self.kernel}: {self.differs}"
        elif self.differs:
            title = load_catalogue().derivations[self.of].title
            yield f"{self.kernel} computes none of them; the nearest is {title}, but {self.differs}"
        elif self.readings:
            fit = f"the {len(self.readings)} systems that fit" if len(self.readings) > 1 else "the system that fits"
            yield f"{self.kernel} computes none of {fit} its signature"
        else:
            yield f"no system fits the signature of {self.kernel}"

    def _others(self) -> Iterator[str]:
        for x in self.readings:
            if not x.agrees:
                off = x.message or f"off by {100 * x.distance:.3g} %"
                then = f", after {counted(x.inputs, 'input', 'inputs')} on which it agrees" if x.inputs else ""
                yield f"  not {x.title} ({x.how}): {off}{then}"

    def _unfit(self) -> Iterator[str]:
        if self.unfit:
            yield f"  {len(self.unfit)} systems don't fit its signature, {self.parameters}:"
        for derivation, reason in self.unfit.items():
            yield f"    {derivation}: {reason}"


def told_apart(general: Convention, special: Convention) -> str:
    """Which inputs would tell two systems apart that a kernel agrees with."""
    one, other = ({x.name: x for x in convention.arguments} for convention in (general, special))
    passed = sorted(one.keys() ^ other.keys())
    layouts = [name for name in one.keys() & other.keys() if one[name].layout != other[name].layout]
    reductions = [x for _, x in load_catalogue().reductions()]
    known = [x.condition for x in reductions if (x.general, x.special) == (general.derivation, special.derivation)]
    special_case = f" (it is the first with {known[0]})" if known else ""
    if passed:
        return f"what tells them apart is {' and '.join(passed)}, which only one of them is given{special_case}"
    if layouts:
        shown = " and ".join(f"{x} as {one[x].layout} and as {other[x].layout}" for x in layouts)
        return f"what tells them apart is {shown}{special_case}"
    return f"they have the same inputs, and those that were tried don't tell them apart{special_case}"
