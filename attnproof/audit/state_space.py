"""Adapters for Mamba and Mamba-2, S_t = exp(dt_t A) S_{t-1} + dt_t x_t B_t^T: gates and steps of the statement.

The statement's gates a_t and steps Delta_t are free, and a kernel's both come from dt. So dt is log(a_t) / A for
A = -1, -2, -4, ... by head, which is exact, and x_t is multiplied by Delta_t / dt_t.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from attnproof.audit.methods import Methods
from attnproof.audit.subjects import Kernel


def _slopes(heads: int, like: Any) -> Any:
    import torch

    return -(2.0 ** torch.arange(heads)).to(like)


def chunk_scan(function: Any) -> Kernel:
    """Mamba-2's scan in blocks: (b, t, heads, p), B and C (b, t, groups, n)."""

    def kernel(C: Any, B: Any, x: Any, step: Any, log_a: Any, chunk_size: int, initial_state: Any = None) -> Any:
        A = _slopes(x.shape[2], x)
        dt = log_a / A
        return function(
            x * (step / dt)[..., None],
            dt,
            A,
            B,
            C,
            chunk_size,
            initial_states=initial_state,
            return_final_states=True,
        )

    return kernel


def one_head_update(function: Any) -> Kernel:
    """Mamba-2's update, called token by token: state (b, heads, p, n)."""

    def kernel(C: Any, B: Any, x: Any, step: Any, log_a: Any, initial_state: Any = None) -> Any:
        import torch

        A = _slopes(x.shape[2], x)
        dt = log_a / A
        inputs = x * (step / dt)[..., None]
        state = x.new_zeros(*x.shape[:1], *x.shape[2:], B.shape[-1]) if initial_state is None else initial_state.clone()
        # dt and A for each channel and state, as mamba_ssm has them
        spread, own = dt[..., None].expand(x.shape), A[:, None, None].expand(state.shape[1:])
        rows = [function(state, inputs[:, t], spread[:, t], own, B[:, t], C[:, t]) for t in range(x.shape[1])]
        return torch.stack(rows, dim=1), state

    return kernel


def _by_group(x: Any, groups: int) -> Any:
    """(b, t, g, ...) as (b h, t, g / h, ...): a group of heads has its own B and C, and a call takes one of each."""
    b, t, g = x.shape[:3]
    return x.reshape(b, t, groups, g // groups, *x.shape[3:]).transpose(1, 2).flatten(0, 1)


def _channels(C: Any, B: Any, x: Any, step: Any, log_a: Any) -> tuple[Any, ...]:
    """Channels (b h, t, c), their dt, A (c, n) and B, C (b h, t, n) of Mamba, whose channels are (g / h) v."""
    groups, width = B.shape[2], x.shape[3]
    inputs, step, log_a = (_by_group(y, groups) for y in (x, step, log_a))
    A = _slopes(inputs.shape[2], x)
    dt = log_a / A
    channels = (inputs * (step / dt)[..., None]).flatten(2)
    spread = dt.repeat_interleave(width, dim=2)
    own = A.repeat_interleave(width)[:, None].expand(-1, B.shape[-1])
    return channels, spread, own, _by_group(B, groups)[:, :, 0], _by_group(C, groups)[:, :, 0]


def _output(y: Any, x: Any, groups: int) -> Any:
    """(b h, t, c) as (b, t, g, v)."""
    b, t, g, v = x.shape
    return y.reshape(b, groups, t, g // groups, v).transpose(1, 2).reshape(x.shape)


def selective_scan(function: Any) -> Kernel:
    """Mamba's scan with (b, channels, t), where the last state comes back too."""

    def kernel(C: Any, B: Any, x: Any, step: Any, log_a: Any) -> Any:
        u, dt, A, b, c = _channels(C, B, x, step, log_a)
        u, dt, b, c = (y.transpose(1, 2) for y in (u, dt, b, c))
        y, state = function(u, dt, A, b, c, return_last_state=True)
        batch, _, heads, width = x.shape
        return _output(y.transpose(1, 2), x, B.shape[2]), state.reshape(batch, heads, width, -1)

    return kernel


def selective_update(function: Any) -> Kernel:
    """Mamba's update, called token by token: state (b, channels, n)."""

    def kernel(C: Any, B: Any, x: Any, step: Any, log_a: Any, initial_state: Any = None) -> Any:
        import torch

        u, dt, A, b, c = _channels(C, B, x, step, log_a)
        batch, _, heads, width = x.shape
        state = x.new_zeros(*u.shape[::2], B.shape[-1])
        if initial_state is not None:
            state = initial_state.reshape(state.shape).clone()
        rows = [function(state, u[:, t], dt[:, t], A, b[:, t], c[:, t]) for t in range(x.shape[1])]
        return _output(torch.stack(rows, dim=1), x, B.shape[2]), state.reshape(batch, heads, width, -1)

    return kernel


def scan_method(function: Any) -> Kernel:
    """`selective_scan(self, x, delta, A, B, C, D)` with (b, t, channels)."""

    def kernel(C: Any, B: Any, x: Any, step: Any, log_a: Any) -> Any:
        u, dt, A, b, c = _channels(C, B, x, step, log_a)
        owner = SimpleNamespace(config=SimpleNamespace(d_inner=A.shape[0], d_state=A.shape[1]))
        y = function(owner, u, dt, A, b, c, u.new_zeros(u.shape[-1]))
        return _output(y, x, B.shape[2])

    return kernel


def forward_method(function: Any) -> Kernel:
    """minimamba's `_selective_scan_forward(self, u, delta, A, B, C, D, z)`, with a gate z of one."""

    def kernel(C: Any, B: Any, x: Any, step: Any, log_a: Any) -> Any:
        u, dt, A, b, c = _channels(C, B, x, step, log_a)
        y = function(Methods(function), u, dt, A, b, c, u.new_zeros(u.shape[-1]), u.new_ones(u.shape[-1]))
        return _output(y, x, B.shape[2])

    return kernel
