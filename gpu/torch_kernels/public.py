"""What the functions of all systems have in common in public: how they are called, and what their help says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from typing import Any

from torch import Tensor

from gpu.registry import Argument

Function = Callable[..., Any]
Run = Callable[[Function, Sequence[Tensor | None], dict[str, Any]], Any]
"""Runs a system's own function on tensors, one for each argument, with options."""

HELP = """

Args:
{arguments}
    cu_seqlens: where packed sequences begin and end, [0, ..., t]; b is 1 then, and n the number of sequences.
{options}
Here b is the batch, t tokens, n sequences (b of them where they aren't packed), h query heads, g value heads, a
multiple of h, k is d_k and v is d_v. Queries are taken as they are, without a scale.

Returns:
    The output `b t g v` in the dtype of the values, and the last states, if there are any, in the order of the
    initial ones, in float32 or float64.

Raises:
    ValueError: an argument is wrong; the message says what to change.
"""


def published(
    function: Function, arguments: Sequence[Argument], options: Mapping[str, tuple[Any, str]], run: Run
) -> Function:
    """The public form of a system's own function.

    Args:
        function: its docstring's first sentence says what it is.
        arguments: its tensors, in order; the last ones, the initial states, may be left out.
        options: other keyword arguments, each with its default and a line of help.
        run: what is done with the function.
    """
    names = [x.name for x in arguments]

    def call(*args: Tensor | None, **named: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **named}
        if len(args) + len(named) > len(given) or len(args) > len(names):
            raise TypeError(f"{function.__module__}.{function.__name__} takes {', '.join(names)}, each of them once")
        chosen = {name: given.pop(name, default) for name, (default, _) in options.items()}
        chosen["cu_seqlens"] = given.pop("cu_seqlens", None)
        if unknown := [name for name in given if name not in names]:
            raise TypeError(f"{function.__module__}.{function.__name__} has no argument {', '.join(unknown)}")
        return run(function, [given.get(name) for name in names], chosen)

    update_wrapper(call, function)
    del call.__wrapped__  # type: ignore[attr-defined]  # what it wraps takes chunks
    call.__doc__ = (function.__doc__ or "") + _help(arguments, options)
    call.__signature__ = _signature(arguments, options)  # type: ignore[attr-defined]
    return call


def _help(arguments: Sequence[Argument], options: Mapping[str, tuple[Any, str]]) -> str:
    lines = [f"    {x.name}: {_meaning(x)}, `{x.layout}`{'; zeros where None' * x.optional}." for x in arguments]
    extra = [f"    {name}: {line}\n" for name, (_, line) in options.items()]
    return HELP.format(arguments="\n".join(lines), options="".join(extra))


def _meaning(argument: Argument) -> str:
    return f"log {argument.stands_for}" if argument.scale == "log" else argument.stands_for


def _signature(arguments: Sequence[Argument], options: Mapping[str, tuple[Any, str]]) -> inspect.Signature:
    tensor, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    tensors = [
        inspect.Parameter(x.name, tensor, default=None if x.optional else inspect.Parameter.empty) for x in arguments
    ]
    others = [inspect.Parameter(name, keyword, default=default) for name, (default, _) in options.items()]
    return inspect.Signature([*tensors, *others, inspect.Parameter("cu_seqlens", keyword, default=None)])
