"""Adapters: a public function under the names and layouts of the oracle. They rename, move axes, pad and split calls.

None computes what the function should. What each does beyond renaming is said in the table, and a function whose state
or gates come out wrong stays wrong behind it.
"""

from __future__ import annotations

import functools
from typing import Any

from attnproof.audit.subjects import Adapter, Kernel

STATE = "initial_state"


def composed(*adapters: Adapter) -> Adapter:
    """The first adapter is next to the function."""

    def adapt(function: Any) -> Kernel:
        return functools.reduce(lambda kernel, adapter: adapter(kernel), adapters, function)

    return adapt


def heads_repeated(*shared: str, values: str = "v") -> Adapter:
    """Queries and keys (b, t, h, k) are repeated for each value head: the function takes as many of both."""

    def adapt(function: Kernel) -> Kernel:
        @functools.wraps(function)
        def kernel(**arguments: Any) -> Any:
            heads = arguments[values].shape[2]
            for name in shared:
                x = arguments[name]
                arguments[name] = x.repeat_interleave(heads // x.shape[2], dim=2)
            return function(**arguments)

        return kernel

    return adapt


def heads_first(function: Kernel) -> Kernel:
    """Arguments and output are (b, h, t, ...) there."""

    @functools.wraps(function)
    def kernel(**arguments: Any) -> Any:
        moved = {name: _swapped(x) if _is_sequence(name, x) else x for name, x in arguments.items()}
        returned = function(**moved)
        output, *states = returned if isinstance(returned, tuple | list) else (returned,)
        return (_swapped(output), *states)

    return kernel


def _is_sequence(name: str, x: Any) -> bool:
    return name != STATE and getattr(x, "ndim", 0) >= 3


def _swapped(x: Any) -> Any:
    return x.transpose(1, 2)


def padded(multiple: int) -> Adapter:
    """Tokens of zeros are appended up to a multiple, as the function demands, and cut off again. With zeros for key,
    value, log gate and strength a token leaves the state as it was.
    """

    def adapt(function: Kernel) -> Kernel:
        @functools.wraps(function)
        def kernel(**arguments: Any) -> Any:
            tokens = max(x.shape[1] for name, x in arguments.items() if _is_sequence(name, x))
            missing = -tokens % multiple
            longer = {name: _longer(x, missing) if _is_sequence(name, x) else x for name, x in arguments.items()}
            returned = function(**longer)
            output, *states = returned if isinstance(returned, tuple | list) else (returned,)
            return (output[:, :tokens], *states)

        return kernel

    return adapt


def _longer(x: Any, missing: int) -> Any:
    from torch.nn.functional import pad

    return pad(x, (*(0 for _ in range(2 * (x.ndim - 2))), 0, missing))


def state_passed(function: Kernel) -> Kernel:
    """No state is passed as None, since the parameter has no default."""

    @functools.wraps(function)
    def kernel(**arguments: Any) -> Any:
        return function(**{STATE: None, **arguments})

    return kernel


def without_gradients(function: Kernel) -> Kernel:
    """NumPy's arrays outside: the function writes into its state, so that it has no backward pass."""

    @functools.wraps(function)
    def kernel(**arguments: Any) -> Any:
        import numpy as np
        import torch

        given = {name: torch.tensor(x) if isinstance(x, np.ndarray) else x for name, x in arguments.items()}
        return [x.numpy() for x in function(**given)]

    return kernel


def predicting_vectors_divided(function: Kernel) -> Kernel:
    """Comba's p is divided by the token's gate before the call."""

    @functools.wraps(function)
    def kernel(*, p: Any, g: Any, **arguments: Any) -> Any:
        return function(p=p / g.exp()[..., None], g=g, **arguments)

    return kernel


def low_rank_pair(function: Kernel) -> Kernel:
    """RWKV-7's transition as Diag(w) + alpha beta^T with alpha = -kappa, beta = kappa . a."""

    def kernel(r: Any, k: Any, kappa: Any, v: Any, w: Any, a: Any, initial_state: Any = None) -> Any:
        return function(q=r, k=k, v=v, alpha=-kappa, beta=kappa * a, gk=w, initial_state=initial_state)

    return kernel


def rwkv7_recurrence(function: Kernel) -> Kernel:
    """The same under the names of rwkv7-hf, which takes gates and no logarithms, and always a state."""

    def kernel(r: Any, k: Any, kappa: Any, v: Any, w: Any, a: Any, initial_state: Any) -> Any:
        return function(r, w.exp(), k, v, -kappa, kappa * a, initial_state)

    return kernel


def rwkv7_kernel(function: Kernel) -> Kernel:
    """The same under the names of fla-core's kernels, a = -kappa and b = kappa . a."""

    def kernel(r: Any, k: Any, kappa: Any, v: Any, w: Any, a: Any, initial_state: Any = None, **constants: Any) -> Any:
        return function(r=r, w=w, k=k, v=v, a=-kappa, b=kappa * a, initial_state=initial_state, **constants)

    return kernel


def channels_padded(least: int) -> Adapter:
    """Channels of zeros are appended up to the least width that the function takes, and cut off again."""

    def adapt(function: Kernel) -> Kernel:
        @functools.wraps(function)
        def kernel(**arguments: Any) -> Any:
            from torch.nn.functional import pad

            width = arguments["v"].shape[-1]
            wide = {
                name: pad(x, (0, max(least - x.shape[-1], 0))) if getattr(x, "ndim", 0) == 4 else x
                for name, x in arguments.items()
            }
            return function(**wide)[0][..., :width]

        return kernel

    return adapt


def unreflected(function: Kernel) -> Kernel:
    """PaTH attention without its reflections, w = 0, which leaves forgetting attention."""

    def kernel(q: Any, k: Any, v: Any, g: Any, chunk_size: int) -> Any:
        heads, scale = v.shape[2], q.shape[-1] ** -0.5
        q, k = (x.repeat_interleave(heads // x.shape[2], dim=2) for x in (q, k))
        return function(q=q, k=k, v=v, w=0 * k, beta=0 * g, g=g, scale=scale, chunk_size=chunk_size)

    return kernel


def unreflected_gates_divided(function: Kernel) -> Kernel:
    """The same, with log gates divided by the scale before the call."""

    def kernel(q: Any, k: Any, v: Any, g: Any, chunk_size: int) -> Any:
        return unreflected(function)(q, k, v, g / q.shape[-1] ** -0.5, chunk_size)

    return kernel
