"""The kernel that is judged: called with arrays of its own library, watched for what a call must not do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from attnproof.implementation_cases import UNIT_ROUNDOFF
from attnproof.oracle.arrays import Library, array, on_host, precision_of
from attnproof.oracle.conventions import OUTPUT, Convention

Arrays = dict[str, np.ndarray]


class Misbehaved(Exception):
    """A call did something that no kernel may do; the message says what."""


SAID = 300
"""How much of an exception's text is shown."""


def raised(what: str, error: BaseException) -> Misbehaved:
    """That a kernel raised, in one line that isn't too long."""
    text = " ".join(str(error)[: 2 * SAID].split())
    return Misbehaved(f"{what} raised {type(error).__name__}: {text if len(text) <= SAID else text[:SAID] + ' ...'}")


@dataclass(frozen=True)
class Subject:
    """A kernel, how it is called, and on which arrays.

    Attributes:
        dtype: the precision of its inputs, a key of UNIT_ROUNDOFF.
        accumulation: the precision in which it keeps sums and states.
        device: where Torch's arrays lie.
    """

    kernel: Callable[..., Any]
    convention: Convention
    library: Library
    dtype: str
    accumulation: str
    device: str = "cpu"

    @property
    def unit_roundoff(self) -> float:
        """Of its inputs, and of the operands of products."""
        return UNIT_ROUNDOFF[self.dtype]

    @property
    def of_sums(self) -> float:
        """The unit roundoff of sums and states."""
        return UNIT_ROUNDOFF[self.accumulation]

    @property
    def name(self) -> str:
        return str(getattr(self.kernel, "__qualname__", type(self.kernel).__name__))

    def arrays(self, arguments: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Float64 arrays by argument, in the kernel's library and precision; states in the precision of sums."""
        states = {x.name for x in self.convention.arguments if x.layout.startswith("n ")}
        kept = self.accumulation if self.of_sums < self.unit_roundoff else self.dtype
        return {
            name: array(value, self.library, kept if name in states else self.dtype, self.device)
            for name, value in arguments.items()
        }

    def call(self, arguments: Mapping[str, np.ndarray], **options: Any) -> Arrays:
        """What the kernel returns, by the names of the statement, as float64.

        Raises:
            Misbehaved: it raised, or returned something else than it should, or wrote into its inputs.
        """
        given = self.arrays(arguments)
        before = {name: on_host(x) for name, x in given.items()}
        returned = self.returned(given, **options)
        changed = [name for name, x in given.items() if not np.array_equal(on_host(x), before[name], equal_nan=True)]
        if changed:
            raise Misbehaved(f"it has written into {' and '.join(changed)}")
        return {name: on_host(x) for name, x in returned.items()}

    def returned(self, given: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """The kernel's own arrays, by the names of the statement.

        Raises:
            Misbehaved: it raised, or returned too little, or what isn't an array, or is of another precision.
        """
        try:
            found = self.kernel(**given, **{**self.convention.constants, **options})
        except (Exception, SystemExit) as error:
            raise raised("it", error) from error
        values = list(found) if isinstance(found, Sequence) else [found]
        names = [name for name, _ in self.convention.returns]
        if len(values) < len(names):
            raise Misbehaved(f"it returned {len(values)} value(s) where {', '.join(names)} were expected")
        named = dict(zip(names, values, strict=False))
        for name, value in named.items():
            self._check(name, value)
        return named

    def _check(self, name: str, value: Any) -> None:
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            raise Misbehaved(f"it returned {type(value).__name__} for {name}")
        found, allowed = precision_of(value), {self.dtype, self.accumulation}
        if found not in (allowed if name == OUTPUT else {*allowed, "float32", "float64"}):
            raise Misbehaved(f"{name} comes back in {found}, its inputs are {self.dtype}")

    def differentiable(self, arguments: Mapping[str, np.ndarray]) -> bool:
        """Whether what the kernel returns has a gradient at all, as far as Torch knows."""
        if self.library != "torch":
            return self.library == "jax"
        try:
            returned = self.returned({name: x.requires_grad_() for name, x in self.arrays(arguments).items()})
        except Misbehaved:
            return True  # and the check says what is the matter
        return any(x.requires_grad for x in returned.values())

    def pullback(
        self, arguments: Mapping[str, np.ndarray], cotangents: Callable[[Arrays], Arrays]
    ) -> tuple[Arrays, dict[str, np.ndarray | None]]:
        """What the kernel returns, and the derivatives by its arguments of <cotangents, returned>.

        Args:
            arguments: by name.
            cotangents: those of what is returned, by the names of the statement, from its values.
        """
        differentiate = _through_jax if self.library == "jax" else _through_torch
        return differentiate(self, arguments, cotangents)


Gradients = tuple[Arrays, dict[str, np.ndarray | None]]


def _through_torch(
    subject: Subject, arguments: Mapping[str, np.ndarray], cotangents: Callable[[Arrays], Arrays]
) -> Gradients:
    torch = import_module("torch")
    tensors = {name: x.requires_grad_() for name, x in subject.arrays(arguments).items()}
    returned = subject.returned(tensors)
    values = {name: on_host(x) for name, x in returned.items()}
    given = cotangents(values)
    reached = [(returned[name], own) for name, own in given.items() if returned[name].requires_grad]
    if not reached:
        return values, dict.fromkeys(tensors)
    outputs = [x for x, _ in reached]
    weights = [_weights(torch, x, own) for x, own in reached]
    try:
        found = torch.autograd.grad(outputs, list(tensors.values()), weights, allow_unused=True)
    except (Exception, SystemExit) as error:
        raise raised("its backward pass", error) from error
    gradients = [None if x is None else on_host(x) for x in found]
    return values, dict(zip(tensors, gradients, strict=True))


def _weights(torch: Any, x: Any, own: np.ndarray) -> Any:
    """Cotangents as autograd has them: those of a sum are one number that is expanded, and not contiguous."""
    if own.size and np.ptp(own) == 0:
        return torch.tensor(own.flat[0], dtype=x.dtype, device=x.device).expand(x.shape)
    return torch.tensor(own, dtype=x.dtype, device=x.device)


def _through_jax(
    subject: Subject, arguments: Mapping[str, np.ndarray], cotangents: Callable[[Arrays], Arrays]
) -> Gradients:
    jax = import_module("jax")
    try:
        returned, back = jax.vjp(subject.returned, subject.arrays(arguments))
    except Misbehaved:
        raise
    except Exception as error:
        raise raised("its backward pass", error) from error
    values = {name: on_host(x) for name, x in returned.items()}
    own = {name: np.zeros(x.shape) for name, x in returned.items()} | cotangents(values)
    given = {name: array(own[name], "jax", precision_of(x)) for name, x in returned.items()}
    return values, {name: on_host(x) for name, x in back(given)[0].items()}
