"""From an operator of Torch to its rule: arguments become numbers, the rule computes, and results become tensors again.

An operator without a rule of its own may still have one: an in-place operator or one with `out=` is the plain one and
a write; and some are defined by Torch itself in terms of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from derivations.language.errors import NoMeaning
from gpu.exact_mode.errors import explained, name_of
from gpu.exact_mode.numbers import Numbers, of_number, of_tensor
from gpu.exact_mode.refused import reason_against
from gpu.exact_mode.tensor import ExactTensor

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Rule = Callable[[OpOverload, tuple[Any, ...], dict[str, Any]], Any]

RULES: dict[OpOverload, Rule] = {}
"""The rule of each operator; the modules beside this one fill it."""
SELECTORS = frozenset({"index", "indices", "mask", "condition", "repeats"})
"""Arguments that say which entries are meant: they hold positions or truth values, and no numbers."""
OF_A_NEW_TENSOR = frozenset({"dtype", "layout", "device", "pin_memory"})


def leaves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """All arguments of an operator, those in lists one by one; no operator has deeper ones."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, list | tuple):
            yield from x
        else:
            yield x


def mapped(function: Callable[[Any], Any], x: Any) -> Any:
    """An argument with a function applied to it, or to each if it is a list."""
    return type(x)(map(function, x)) if isinstance(x, list | tuple) else function(x)


def apply(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Carries out an operator some of whose arguments are exact.

    Raises:
        NoExactMeaning: it has none.
        UndefinedHere: it divides by zero.
    """
    with explained(func):
        return _rule_for(func)(func, args, kwargs)


@cache
def _rule_for(func: OpOverload) -> Rule:
    if func in RULES:
        return RULES[func]
    functional = _functional(func)
    if functional in RULES:
        return _writing(functional)
    if reason := reason_against(name_of(func)):
        return _refusal(reason)
    if functional is not None:
        return _writing(functional)
    if func in decomposition_table:
        return lambda func, args, kwargs: decomposition_table[func](*args, **kwargs)
    if func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        return lambda func, args, kwargs: func.decompose(*args, **kwargs)
    return _refusal("exact mode has no rule for it")


def _refusal(reason: str) -> Rule:
    def refuse(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NoMeaning(reason)

    return refuse


def _functional(func: OpOverload) -> OpOverload | None:
    """The operator that computes what this one writes into its first argument, or into `out`."""
    if not func._schema.is_mutable:
        return None
    packet = getattr(torch.ops.aten, name_of(func).removesuffix("_"), None)
    for overload in packet.overloads() if packet is not None else ():
        candidate: OpOverload = getattr(packet, overload)
        if not candidate._schema.is_mutable and _types(candidate) == _types(func):
            return candidate
    return None


def _types(func: OpOverload) -> list[tuple[str, str]]:
    return [(x.name, str(x.type)) for x in func._schema.arguments if not x.is_out]


def _writing(functional: OpOverload) -> Rule:
    """The rule of an operator that writes what another one computes."""

    def write(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        options = dict(kwargs)
        target = written_into(options.pop("out", args[0]))
        result = apply(functional, args, options)
        if not isinstance(result, ExactTensor) or result.shape != target.shape:
            raise NoMeaning(f"exact mode writes one tensor, and into one of its shape, {tuple(target.shape)}")
        target.write(result.numbers)
        return target

    return write


def written_into(target: Any) -> ExactTensor:
    """A tensor that is written into, if it can hold exact numbers."""
    if isinstance(target, ExactTensor):
        return target
    raise NoMeaning(f"it writes field numbers into a plain tensor of dtype {getattr(target, 'dtype', type(target))}")


@dataclass(frozen=True)
class _Signature:
    """Which arguments of an operator are numbers: by position, and by name."""

    positions: tuple[bool, ...]
    names: dict[str, bool]


@cache
def _signature(func: OpOverload) -> _Signature:
    arguments = func._schema.arguments
    numeric = {x.name: _is_numeric(str(x.type)) and x.name not in SELECTORS for x in arguments}
    return _Signature(tuple(numeric.values()), numeric)


def _is_numeric(type_: str) -> bool:
    return "Tensor" in type_ or "number" in type_


def lifted(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """The arguments with `Numbers` in the place of all that stands for numbers, and without those that say what a new
    tensor looks like.
    """
    signature = _signature(func)
    positional = tuple(
        mapped(number, x) if numeric else x for x, numeric in zip(args, signature.positions, strict=False)
    )
    named = {
        name: mapped(number, x) if signature.names[name] else x
        for name, x in kwargs.items()
        if name not in OF_A_NEW_TENSOR
    }
    return positional, named


def number(x: Any) -> Any:
    """The numbers of a tensor or of a Python number; None and the like stay."""
    match x:
        case ExactTensor():
            return x.numbers
        case Tensor():
            return of_tensor(x)
        case bool() | int() | float() | complex():
            return of_number(x)
    return x


def nominal_dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.dtype:
    """The dtype that the result has in floats: what is asked for, else what the float arguments are promoted to."""
    asked: torch.dtype | None = kwargs.get("dtype")
    if asked is not None:
        return asked
    tensors = [x for x in leaves(args, kwargs) if isinstance(x, Tensor) and x.is_floating_point()]
    with_dimensions = [x for x in tensors if x.dim()] or tensors
    return reduce(torch.promote_types, (x.dtype for x in with_dimensions))


def register(*operators: OpOverload) -> Callable[[Rule], Rule]:
    """Makes a function the rule of some operators."""

    def registered(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, rule))
        return rule

    return registered


def computes(*operators: OpOverload) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function of `Numbers` the rule of some operators with the same arguments."""

    def registered(compute: Callable[..., Any]) -> Callable[..., Any]:
        def rule(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            positional, named = lifted(func, args, kwargs)
            return lowered(compute(*positional, **named), nominal_dtype(args, kwargs))

        register(*operators)(rule)
        return compute

    return registered


def lowered(result: Any, dtype: torch.dtype) -> Any:
    """Tensors in the place of `Numbers`."""
    if not dtype.is_floating_point:
        raise NoMeaning(f"field numbers can't be rounded to {dtype}")
    return mapped(lambda x: ExactTensor(x, dtype) if isinstance(x, Numbers) else x, result)
