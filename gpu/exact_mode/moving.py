"""Operators that put numbers elsewhere, and those that add them up: Torch's own, run on the residues."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from gpu.exact_mode.dispatch import leaves, lifted, lowered, mapped, nominal_dtype, number, register, written_into
from gpu.exact_mode.modular import UNITS
from gpu.exact_mode.numbers import Numbers, added, moved
from gpu.exact_mode.tensor import ExactTensor

aten = torch.ops.aten

VIEWS = (
    *(aten.view.default, aten._unsafe_view.default, aten._reshape_alias.default, aten.as_strided.default),
    *(aten.transpose.int, aten.permute.default, aten.t.default, aten.expand.default, aten.alias.default),
    *(aten.slice.Tensor, aten.select.int, aten.unsqueeze.default, aten.diagonal.default, aten.unfold.default),
    *(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.detach.default, aten.lift_fresh.default),
    *(aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int),
)
"""What they return shares the memory of their argument."""
VIEWS_IN_PLACE = {
    aten.squeeze_.default: aten.squeeze.default,
    aten.squeeze_.dim: aten.squeeze.dim,
    aten.unsqueeze_.default: aten.unsqueeze.default,
    aten.transpose_.default: aten.transpose.int,
    aten.t_.default: aten.t.default,
}
MOVING = (
    *(aten.clone.default, aten.copy.default, aten.cat.default, aten.stack.default, aten.repeat.default),
    *(aten.tril.default, aten.triu.default, aten.constant_pad_nd.default, aten.flip.default, aten.roll.default),
    *(aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_select.default, aten.gather.default),
    *(aten.masked_select.default, aten.take.default, aten.embedding.default, aten.diag_embed.default),
    *(aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.masked_scatter.default, aten.fill.Scalar),
    *(aten.fill.Tensor, aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar),
    *(aten.scatter.src, aten.scatter.value, aten.index_copy.default, aten.index_fill.int_Scalar),
    *(aten.index_fill.int_Tensor, aten.slice_scatter.default, aten.select_scatter.default),
    *(aten.diagonal_scatter.default, aten.as_strided_scatter.default, aten.slice_backward.default),
    *(aten.select_backward.default, aten.diagonal_backward.default),
)
ADDING = (
    *(aten.sum.default, aten.sum.dim_IntList, aten.cumsum.default, aten.trace.default, aten.scatter_add.default),
    *(aten.unfold_backward.default, aten.embedding_dense_backward.default),
)
INDEX_PUT = (aten.index_put.default, aten._unsafe_index_put.default, aten._index_put_impl.default, aten.put.default)

Combine = Callable[..., Any]


def on_residues(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], combine: Combine) -> Any:
    """An operator of Torch, run on the residues of those arguments that are numbers; `combine` is moved or added."""
    positional, named = lifted(func, args, kwargs)

    def operation(*residues: Any) -> Any:
        following = iter(residues)
        put = lambda x: next(following) if isinstance(x, Numbers) else x
        return func(*(mapped(put, x) for x in positional), **{name: mapped(put, x) for name, x in named.items()})

    return combine(operation, *(x for x in leaves(positional, named) if isinstance(x, Numbers)))


@register(*VIEWS)
def view(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Views keep the dtype, and share what is known of the exponents."""
    base: ExactTensor = args[0]
    on = lambda part: func(part, *args[1:], **kwargs)
    residues, exponents = on(base.residues), None
    if base.exponents is not None:
        exponents = on(base.exponents)
    if isinstance(residues, Tensor):
        return ExactTensor(Numbers(residues, exponents), base.dtype, base.shared)
    each = exponents or [None] * len(residues)
    return [ExactTensor(Numbers(r, e), base.dtype, base.shared) for r, e in zip(residues, each, strict=True)]


@register(*VIEWS_IN_PLACE)
def view_in_place(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The tensor itself becomes a view: its sizes change, and no number."""
    target: ExactTensor = args[0]
    seen = view(VIEWS_IN_PLACE[func], args, kwargs)
    target.residues, target.exponents = seen.residues, seen.exponents
    with torch._C._DisableTorchDispatch():
        func(*args, **kwargs)
    return target


@register(*MOVING)
def move(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Entries of the result are entries of the arguments."""
    return lowered(on_residues(func, args, kwargs, moved), nominal_dtype(args, kwargs))


@register(*ADDING)
def add_up(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Entries of the result are sums of entries of the arguments."""
    return lowered(on_residues(func, args, kwargs, added), nominal_dtype(args, kwargs))


@register(*INDEX_PUT)
def index_put(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Entries are replaced, or added to."""
    accumulate = kwargs.get("accumulate", len(args) > 3 and args[3])
    return (add_up if accumulate else move)(func, args, kwargs)


@register(aten._to_copy.default)
def to_copy(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A cast to another float dtype changes the dtype that is seen, and no number."""
    options = {name: value for name, value in kwargs.items() if name not in ("dtype", "layout", "pin_memory")}
    copied = lambda part: func(part, **options)
    return lowered(moved(copied, number(args[0])), _new_dtype(args, kwargs))


@register(aten.copy_.default)
def copy_into(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The numbers of the second tensor are written into the first."""
    written_into(args[0]).write(number(args[1]))
    return args[0]


CREATED = {
    aten.zeros_like.default: (aten.empty_like.default, 0),
    aten.new_zeros.default: (aten.new_empty.default, 0),
    aten.zero.default: (aten.empty_like.default, 0),
    aten.ones_like.default: (aten.empty_like.default, 1),
    aten.new_ones.default: (aten.new_empty.default, 1),
    aten.full_like.default: (aten.empty_like.default, None),
    aten.new_full.default: (aten.new_empty.default, None),
}
"""How the memory is made for a new tensor of one number, and the number; None where it is the last argument."""
UNINITIALISED = (aten.empty_like.default, aten.new_empty.default, aten.new_empty_strided.default)


@register(*CREATED)
def create(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor like an exact one, filled with one number."""
    if not _new_dtype(args, kwargs).is_floating_point:
        return func(args[0].residues, *args[1:], **kwargs)
    make, value = CREATED[func]
    *shape, value = args if value is None else (*args, value)
    memory, filled = _memory(make, tuple(shape), kwargs), number(value)
    exponents = None if filled.exponents is None else memory.clone().fill_(filled.exponents)
    numbers = Numbers(memory.fill_(filled.residues), exponents, filled.infinite)
    return ExactTensor(numbers, _new_dtype(args, kwargs))


@register(*UNINITIALISED)
def create_uninitialised(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Whoever reads memory that nobody has written finds random numbers."""
    if not _new_dtype(args, kwargs).is_floating_point:
        return func(args[0].residues, *args[1:], **kwargs)
    memory = arbitrary(_memory(func, args, kwargs))
    return ExactTensor(Numbers(memory, memory.clone()), _new_dtype(args, kwargs))


def _new_dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.dtype:
    dtype: torch.dtype = kwargs.get("dtype") or args[0].dtype
    return dtype


def _memory(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Memory for residues, with the strides that floats would have."""
    options = {name: value for name, value in kwargs.items() if name in ("device", "memory_format")}
    memory: Tensor = func(args[0].residues, *args[1:], **options)
    return memory


@cache
def _generator(device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(0)


def arbitrary(memory: Tensor) -> Tensor:
    """Integers at random, from a generator of their own: user code's is left alone."""
    return memory.random_(0, UNITS, generator=_generator(memory.device))
