"""Faults in how a right kernel is called and what becomes of its results: states, packing, memory, gradients, heads.

Each takes the kernel, its keyword arguments, and a dictionary that it keeps from call to call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.oracle_score.kernels.backward_faults import ReadsGradientByStrides
from benchmarks.oracle_score.kernels.frame import BLOCK, Kernel

Arguments = dict[str, Any]
Around = Callable[[Kernel, Arguments, dict[Any, Any]], Any]
AROUND: dict[str, Around] = {}
"""By fault: what is done around the kernel."""
TF32 = 2.0**10


def planted(fault: str) -> Callable[[Around], Around]:
    """Registers what is done around a kernel under the name of the fault."""

    def registered(around: Around) -> Around:
        AROUND[fault] = around
        return around

    return registered


def wrapped(kernel: Kernel, fault: str) -> Kernel:
    """The kernel with a fault of AROUND."""
    around, kept = AROUND[fault], {}

    def faulty(**given: Any) -> Any:
        return around(kernel, given, kept)

    faulty.__qualname__ = faulty.__name__ = f"{kernel.__name__.removesuffix('no fault')}{fault}"
    faulty.__signature__ = kernel.__signature__  # type: ignore[attr-defined]
    return faulty


def _output_changed(found: Any, change: Callable[[Tensor], Tensor]) -> Any:
    return (change(found[0]), *found[1:]) if isinstance(found, tuple) else change(found)


def _state_changed(found: Any, change: Callable[[Tensor], Tensor]) -> Any:
    return (found[0], change(found[1]), *found[2:])


def _transposed(state: Tensor) -> Tensor:
    return state.mT.contiguous() if state.shape[-1] == state.shape[-2] else state


def _value(given: Arguments) -> str:
    return "x" if "x" in given else "v"


# states


@planted("initial state ignored")
def _ignored(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return kernel(**given | {"initial_state": None})


@planted("initial state ignored where the batch is one")
def _ignored_alone(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return kernel(**given | ({"initial_state": None} if given[_value(given)].shape[0] == 1 else {}))


@planted("initial state read transposed")
def _read_transposed(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    state = given.get("initial_state")
    return kernel(**given | {"initial_state": state if state is None else _transposed(state)})


@planted("final state stored transposed")
def _stored_transposed(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return _state_changed(kernel(**given), _transposed)


@planted("final state misses the last token")
def _one_behind(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    tokens = given[_value(given)].shape[1]
    sequences = {x: v[:, : tokens - 1] for x, v in given.items() if _is_sequence(v, tokens)}
    found = kernel(**given)
    return (found[0], *kernel(**given | sequences)[1:]) if tokens > 1 else found


@planted("final state is that of the last full chunk")
def _last_full_chunk(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    tokens = given[_value(given)].shape[1]
    full = tokens // BLOCK * BLOCK
    sequences = {x: v[:, :full] for x, v in given.items() if _is_sequence(v, tokens)}
    found = kernel(**given)
    return (found[0], *kernel(**given | sequences)[1:]) if full else found


def _is_sequence(value: Any, tokens: int) -> bool:
    return isinstance(value, Tensor) and value.ndim in (3, 4) and value.shape[1] == tokens and value.is_floating_point()


@planted("carry dropped between chunks")
def _carry_dropped(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    tokens, rows, own = given[_value(given)].shape[1], [], dict(given)
    for start in range(0, max(tokens, 1), BLOCK):
        part = {x: v[:, start : start + BLOCK] for x, v in given.items() if x not in STATES and _is_tokens(v, tokens)}
        output, *states = kernel(**own | part)
        rows.append(output)
        own |= dict.fromkeys(STATES & own.keys())
    return torch.cat(rows, 1), *states


STATES = {"initial_state", "initial_normaliser", "initial_curvature"}


def _is_tokens(value: Any, tokens: int) -> bool:
    return isinstance(value, Tensor) and value.ndim >= 3 and value.shape[1] == tokens


# scales and gates


@planted("q scaled by d_k^-1/2")
def _scaled(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    name = "q" if "q" in given else "r"
    return kernel(**given | {name: given[name] * given[name].shape[-1] ** -0.5})


@planted("scale put on the keys")
def _scale_on_keys(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return kernel(**given | {"k": given["k"] * given.get("scale", 1.0), "scale": 1.0})


@planted("scale ignored")
def _scale_ignored(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return kernel(**given | {"scale": 1.0})


@planted("gate taken to the base 2")
def _base_2(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return kernel(**given | {"g": given["g"] * 0.6931471805599453})


@planted("gate not used")
def _ungated(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return kernel(**given | {"g": torch.zeros_like(given["g"])})


@planted("strength read through a sigmoid")
def _sigmoid(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return kernel(**given | {"eta": given["eta"].sigmoid()})


# heads, widths, strides


@planted("query heads in the wrong order")
def _heads_repeated(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    groups = given[_value(given)].shape[2]
    own = {
        x: v.repeat(1, 1, groups // v.shape[2], 1)
        for x, v in given.items()
        if x in ("q", "k", "p", "w", "r", "kappa") and isinstance(v, Tensor) and v.shape[2] < groups
    }
    return kernel(**given | own)


@planted("strengths of the first head")
def _first_head(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return kernel(**given | {"beta": given["beta"][:, :, :1].expand_as(given["beta"])})


@planted("second tile of value channels is the first")
def _first_tile(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    tile = 8
    if given[_value(given)].shape[-1] <= tile:
        return kernel(**given)
    return _output_changed(kernel(**given), lambda x: torch.cat([x[..., :tile], x[..., :-tile]], -1))


@planted("arguments read as if contiguous")
def _ignores_strides(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    own = {x: _as_contiguous(v) for x, v in given.items() if isinstance(v, Tensor) and v.is_floating_point()}
    return kernel(**given | own)


def _as_contiguous(x: Tensor) -> Tensor:
    """What a kernel reads that takes the strides of a contiguous array for granted."""
    if x.is_contiguous():
        return x
    return torch.as_strided(x, x.shape, torch.empty(x.shape, device="meta").stride())


@planted("last row not written")
def _last_row(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return _output_changed(kernel(**given), lambda x: torch.cat([x[:, :-1], torch.zeros_like(x[:, -1:])], 1))


@planted("rows behind the last full chunk not written")
def _tail(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    tokens = given[_value(given)].shape[1]
    full = tokens // BLOCK * BLOCK
    keep = (torch.arange(tokens) < full)[:, None, None] | torch.tensor(full == 0)
    return _output_changed(kernel(**given), lambda x: x.where(keep.to(x.device), 0.0))


# precision


@planted("products in TF32")
def _tf32(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    rounded = {x: _to_tf32(given[x]) for x in ("q", "k", "v") if x in given}
    return kernel(**given | rounded)


def _to_tf32(x: Tensor) -> Tensor:
    """x to 11 significant bits."""
    mantissa, exponent = torch.frexp(x.float())
    return torch.ldexp((mantissa * 2 * TF32).round() / (2 * TF32), exponent).to(x.dtype)


@planted("state handed on in bfloat16")
def _narrow_state(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return _state_changed(kernel(**given), lambda x: x.bfloat16().to(x.dtype))


# packed sequences


def _offsets(given: Arguments) -> list[int]:
    return [] if given.get("cu_seqlens") is None else [int(x) for x in given["cu_seqlens"]]


@planted("carry fades from the chunk's start, not the sequence's")
def _packed_from_chunk(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    starts, state = _offsets(given)[:-1], given.get("initial_state")
    if not starts or state is None:
        return kernel(**given)
    gates = [given["g"][0, start // BLOCK * BLOCK : start].float().sum(0) for start in starts]
    return kernel(**given | {"initial_state": state * torch.stack(gates).exp()[..., None, None].to(state)})


@planted("an empty sequence gives NaN")
def _empty_is_nan(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    offsets = torch.tensor(_offsets(given))
    if not len(offsets):
        return kernel(**given)
    empty = (offsets.diff() == 0)[:, None, None, None]
    return _state_changed(kernel(**given), lambda x: x.masked_fill(empty, torch.nan))


@planted("first sequence's state for all")
def _first_state(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    state = given.get("initial_state")
    shared = _offsets(given) and state is not None
    return kernel(**given | ({"initial_state": state[:1].expand_as(state)} if shared else {}))


@planted("boundaries of sequences not seen")
def _one_sequence(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    found, offsets, state = kernel(**given), _offsets(given), given.get("initial_state")
    if not offsets:
        return found
    first = {"initial_state": None if state is None else state[:1]}
    return kernel(**given | first | {"cu_seqlens": None})[0], *found[1:]


@planted("padding fades the state of shorter sequences")
def _padded(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    offsets = torch.tensor(_offsets(given))
    if not len(offsets):
        return kernel(**given)
    missing = (offsets.diff().max() - offsets.diff()).to(torch.float32)
    return _state_changed(kernel(**given), lambda x: x * (-0.1 * missing).exp()[:, None, None, None].to(x))


@planted("offsets counted from one")
def _late_offsets(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    offsets = _offsets(given)
    moved = [min(x + 1, offsets[-1]) if 0 < k < len(offsets) - 1 else x for k, x in enumerate(offsets)]
    return kernel(**given | ({"cu_seqlens": torch.tensor(moved)} if offsets else {}))


# memory


@planted("v overwritten")
def _overwritten(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    found = kernel(**given)
    given["v"].detach().mul_(given["eta"].detach()[..., None])
    return found


@planted("gates summed up in place")
def _in_place(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    found = kernel(**given)
    given["g"].detach().cumsum_(1)
    return found


@planted("initial state updated in place")
def _state_in_place(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    output, state = kernel(**given)
    if given.get("initial_state") is not None:
        given["initial_state"].detach().copy_(state.detach())
    return output, state


@planted("initial state returned where there are no tokens")
def _same_state(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    state = given.get("initial_state")
    return _state_changed(kernel(**given), lambda x: state if state is not None and not given["v"].shape[1] else x)


@planted("one buffer for the outputs of all calls")
def _one_buffer(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    found = kernel(**given)
    if found[0].requires_grad:
        return found
    buffer = kept.setdefault((found[0].shape, found[0].dtype), torch.empty_like(found[0]))
    return buffer.copy_(found[0]), *found[1:]


@planted("result kept by shape")
def _cached(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    key = tuple((x, v.shape, v.dtype) for x, v in given.items() if isinstance(v, Tensor))
    if any(isinstance(v, Tensor) and v.requires_grad for v in given.values()):
        return kernel(**given)
    return kept.setdefault(key, kernel(**given))


@planted("state in memory that isn't zeroed")
def _not_zeroed(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    if given.get("initial_state") is not None or given.get("cu_seqlens") is not None:
        return kernel(**given)
    b, _, g, d_v = given["v"].shape
    wide = torch.promote_types(given["v"].dtype, torch.float32)
    return kernel(**given | {"initial_state": torch.empty(b, g, given["k"].shape[-1], d_v, dtype=wide)})


@planted("output in memory that isn't all written")
def _unwritten(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    output, *states = kernel(**given)
    memory = torch.empty_like(output)
    written = output.shape[1] // BLOCK * BLOCK or output.shape[1]
    return torch.cat([output[:, :written], memory[:, written:]], 1), *states


# nondeterminism


@planted("race: now and then the last chunk reads an old carry")
def _race(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    found = kernel(**given)
    kept["calls"] = kept.get("calls", 0) + 1
    if kept["calls"] % 3 or given["v"].shape[1] <= BLOCK or given.get("cu_seqlens") is not None:
        return found
    start = (given["v"].shape[1] - 1) // BLOCK * BLOCK
    tokens = given["v"].shape[1]
    tail = {x: v[:, start:] for x, v in given.items() if x not in STATES and _is_tokens(v, tokens)}
    return torch.cat([found[0][:, :start], kernel(**given | tail)[0]], 1), *found[1:]


@planted("sums in another order in each call")
def _other_order(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    width = given["k"].shape[-1]
    kept["calls"] = kept.get("calls", 0) + 1
    order = torch.randperm(width, generator=torch.Generator().manual_seed(kept["calls"]))
    state = given.get("initial_state")
    own = {x: given[x][..., order] for x in ("q", "k")}
    own |= {} if state is None else {"initial_state": state[..., order, :]}
    return _state_changed(kernel(**given | own), lambda x: x[..., order.argsort(), :])


# gradients


@planted("dg lacks the final state's share")
def _dg_of_output(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return kernel(**given)[0], *kernel(**given | {"g": given["g"].detach()})[1:]


@planted("gradient of the initial state lost")
def _no_dstate(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    state = given.get("initial_state")
    return kernel(**given | {"initial_state": None if state is None else state.detach()})


@planted("gradient of the initial state lost for one or two tokens")
def _no_dstate_of_few(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return _no_dstate(kernel, given, kept) if given["v"].shape[1] <= 2 else kernel(**given)


@planted("final state detached")
def _no_gradient_from_state(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return _state_changed(kernel(**given), torch.detach)


@planted("upstream gradient read as if contiguous")
def _gradient_by_strides(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    return _output_changed(kernel(**given), ReadsGradientByStrides.apply)


@planted("gradient of keys doubled for grouped heads")
def _grouped_dk(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    groups = given["v"].shape[2] // given["k"].shape[2]
    k = given["k"]
    return kernel(**given | {"k": k.detach() + groups * (k - k.detach())})


@planted("dbeta lost in the last chunk")
def _dbeta_of_tail(kernel: Kernel, given: Arguments, kept: Arguments) -> Any:
    beta, full = given["beta"], given["beta"].shape[1] // BLOCK * BLOCK
    return kernel(**given | {"beta": torch.cat([beta[:, :full], beta[:, full:].detach()], 1)})
