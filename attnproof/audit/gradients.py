"""Derivatives of a subject beside those of this project's own implementation in float64, on the same inputs.

It is used where the oracle's gradient check isn't enough: with strong gates, where a mask after the exponential gives
inf * 0 in the backward pass, and to tell rounding from a wrong derivative where the oracle can't. Errors are in units
of the unit roundoff and of the largest entry of a derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import attnproof
from attnproof.audit.subjects import Kernel, Subject
from attnproof.oracle.conventions import convention_of
from gpu.registry import Argument, Implementation, implementations

UNIT_ROUNDOFF = 2.0**-24
LEAST = 2.0**-126 / UNIT_ROUNDOFF
"""Where a derivative is smaller, float32 rounds it to a multiple of its least number, and not relatively."""
STRONG = (1.0, 3.0, 6.0, 20.0)
"""Log gates lie between minus this and zero. With 3 a block of 64 tokens fades to what float32 can just represent."""
BLOCK = 64
"""Tokens of a block, as is usual in libraries: longer blocks overflow sooner."""
MARGIN = 12.0
"""As in `numerics.proofs.tolerances`."""


class Captured(BaseException):
    """Ends a check once the kernel has been called: what follows isn't needed. No kernel catches it."""


@dataclass(frozen=True)
class Derivatives:
    """What one backward pass gave.

    Attributes:
        tokens, strongest, loss: the case.
        errors: by parameter, the largest error in units of u and of the largest entry of the right derivative.
        not_finite: the parameters whose derivative has inf or NaN where the right one hasn't.
    """

    tokens: int
    strongest: float
    loss: str
    errors: Mapping[str, float]
    not_finite: tuple[str, ...]

    @property
    def allowed(self) -> float:
        """What rounding explains, in the units of errors: a kernel takes exponentials of cumulated log gates, whose
        absolute error is u times their size, and sums up as many terms as there are tokens.
        """
        return MARGIN * (1 + self.tokens * max(self.strongest, 1.0))

    @property
    def ratio(self) -> float:
        """The largest error over what is allowed; infinite where something isn't finite."""
        return float("inf") if self.not_finite else max(self.errors.values(), default=0.0) / self.allowed

    def __str__(self) -> str:
        gates = f"n = {self.tokens}, log gates down to {-self.strongest:g}, a loss on the {self.loss}"
        if self.not_finite:
            return f"{gates}: {' and '.join(f'd{x}' for x in self.not_finite)} not finite"
        worst = max(self.errors, key=lambda name: self.errors[name], default="")
        return f"{gates}: d{worst} is off by {self.errors.get(worst, 0.0):.3g} u of its largest entry"


def derivatives(subject: Subject, tokens: int, strongest: float, loss: str, width: int = 0) -> Derivatives:
    """One backward pass of a subject, with blocks of the size that is usual in libraries.

    Args:
        subject: what is called.
        tokens: how many.
        strongest: log gates lie between minus this and zero.
        loss: "output and state" or "state".
        width: d_k = d_v; the case's usual widths where 0.

    Raises:
        Exception: what the subject or its backward pass raised.
    """
    kernel, constants = subject.kernel(), dict(subject.constants)
    if "chunk_size" in constants:
        constants["chunk_size"] = BLOCK
    convention, found = convention_of(kernel, subject.derivation, subject.layout, constants), list[Derivatives]()

    @wraps(kernel)
    def spied(**arguments: Any) -> Any:
        names = [name for name, _ in convention.returns]
        try:
            found.append(Derivatives(tokens, strongest, loss, *_compared(kernel, arguments, convention, names, loss)))
        except Exception as error:
            raise Captured(error) from error
        raise Captured

    widths: dict[str, Any] = {"key_width": width, "value_width": width, "groups": 1} if width else {}
    case = attnproof.Case(tokens, strongest=strongest, with_state=convention.state is not None, **widths)
    try:
        attnproof.check_kernel(spied, subject.derivation, subject.layout, constants=constants, case=case)
    except Captured as captured:
        if captured.__cause__:
            raise captured.__cause__ from None
    return found[0]


def _compared(
    kernel: Kernel, arguments: Mapping[str, Any], convention: Any, names: Sequence[str], loss: str
) -> tuple[dict[str, float], tuple[str, ...]]:
    import torch

    arrays = {x.name: arguments[x.name] for x in convention.arguments if x.name in arguments}
    constants = {name: x for name, x in arguments.items() if name not in arrays}
    right = _ours(convention, names)
    own, theirs = (
        _by_loss(lambda a: _sequence(kernel(**a, **constants)), arrays, names, loss),
        _by_loss(right, {name: x.double() for name, x in arrays.items()}, names, loss),
    )
    bad = tuple(
        name for name in arrays if not torch.isfinite(own[name]).all() and bool(torch.isfinite(theirs[name]).all())
    )
    errors = {
        name: float((own[name].double() - theirs[name]).abs().max() / theirs[name].abs().max().clamp(min=LEAST))
        / UNIT_ROUNDOFF
        for name in arrays
        if name not in bad
    }
    return errors, bad


def _by_loss(
    function: Callable[[dict[str, Any]], Sequence[Any]], arrays: Mapping[str, Any], names: Sequence[str], loss: str
) -> dict[str, Any]:
    """Derivatives of a sum of what is returned with fixed weights, by every array."""
    import torch

    leaves = {name: x.detach().clone().requires_grad_() for name, x in arrays.items()}
    returned = [x for x in function(dict(leaves)) if x is not None][: len(names)]
    chosen = [x for name, x in zip(names, returned, strict=True) if loss != "state" or name != "O"]
    weights = torch.Generator().manual_seed(0)
    total = sum((x.double() * torch.randn(x.shape, generator=weights, dtype=torch.float64)).sum() for x in chosen)
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return {name: torch.zeros_like(x) if g is None else g for (name, x), g in zip(leaves.items(), found, strict=True)}


def _ours(convention: Any, names: Sequence[str]) -> Callable[[dict[str, Any]], Sequence[Any]]:
    """Our token by token implementation behind a subject's convention."""
    known = implementations(convention.derivation, "torch")
    ours: Implementation = next(x for x in known if x.name.endswith((".recurrent", ".blockwise")))
    function, layouts = ours.load(), dict(ours.returns)

    def call(arrays: dict[str, Any]) -> Sequence[Any]:
        taken = {x.stands_for: x for x in convention.arguments if x.name in arrays}
        given = {
            x.name: _canonical(arrays, taken[x.stands_for], x, taken) for x in ours.arguments if x.stands_for in taken
        }
        returned = dict(zip(layouts, _sequence(function(**given)), strict=True))
        return [_moved(returned[name], layouts[name], dict(convention.returns)[name]) for name in names]

    return call


def _canonical(arrays: Mapping[str, Any], argument: Argument, ours: Argument, taken: Mapping[str, Argument]) -> Any:
    """An argument on the scale and in the layout of ours."""
    x, layout = arrays[argument.name], argument.layout
    if argument.scale == "rate":
        x, layout = x * arrays[taken["Delta"].name], taken["Delta"].layout
    elif ours.scale == "log" and argument.scale == "linear":
        x = x.log()
    moved = _moved(x, layout, ours.layout)
    return moved * moved.shape[-1] ** -0.5 if argument.scaled else moved


def _moved(x: Any, layout: str, wanted: str) -> Any:
    letters = layout.split()
    return x if layout == wanted else x.permute([letters.index(letter) for letter in wanted.split()])


def _sequence(returned: Any) -> Sequence[Any]:
    return returned if isinstance(returned, tuple | list) else [returned]
