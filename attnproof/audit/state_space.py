"""Adapters for Mamba and Mamba-2, S_t = exp(dt_t A) S_{t-1} + dt_t x_t B_t^T.

Mamba has an A for every channel and state, and Mamba-2 one for every head. Mamba is called here with the same A for all
channels and states of a head, which makes it Mamba-2; a head has d_v channels. B and C belong to a group of heads.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from attnproof.audit.methods import Methods
from attnproof.audit.subjects import Kernel


def one_head_update(function: Any) -> Kernel:
    """Mamba-2's update, called token by token: state (b, heads, p, n)."""

    def kernel(C: Any, B: Any, x: Any, dt: Any, A: Any, initial_state: Any = None) -> Any:
        import torch

        state = x.new_zeros(*x.shape[:1], *x.shape[2:], B.shape[-1]) if initial_state is None else initial_state.clone()
        # dt and A for each channel and state, as mamba_ssm has them
        spread, own = dt[..., None].expand(x.shape), A[:, None, None].expand(state.shape[1:])
        rows = [function(state, x[:, t], spread[:, t], own, B[:, t], C[:, t]) for t in range(x.shape[1])]
        return torch.stack(rows, dim=1), state

    return kernel


def _channels(C: Any, B: Any, x: Any, dt: Any, A: Any) -> tuple[Any, ...]:
    """Channels (b, t, c), their dt, A (c, n) and B, C (b, t, n) of Mamba, whose channels are the heads' (g v)."""
    width = x.shape[3]
    own = A.repeat_interleave(width)[:, None].expand(-1, B.shape[-1])
    return x.flatten(2), dt.repeat_interleave(width, dim=2), own, B[:, :, 0], C[:, :, 0]


def _output(y: Any, x: Any) -> Any:
    """(b, t, c) as (b, t, g, v)."""
    return y.reshape(x.shape)


def by_group(kernel: Kernel) -> Kernel:
    """One call for each group of heads that shares B and C, since A belongs to the channels."""

    def whole(C: Any, B: Any, x: Any, dt: Any, A: Any, **states: Any) -> Any:
        import torch

        groups, heads = B.shape[2], x.shape[2] // B.shape[2]
        parts = []
        for h in range(groups):
            own = slice(h * heads, (h + 1) * heads)
            given = {name: s if s is None else s[:, own] for name, s in states.items()}
            part = kernel(C[:, :, [h]], B[:, :, [h]], x[:, :, own], dt[:, :, own], A[own], **given)
            parts.append(part if isinstance(part, tuple) else (part,))
        output, *last = zip(*parts, strict=True)
        return (torch.cat(output, dim=2), *(torch.cat(s, dim=1) for s in last))

    return whole


def selective_scan(function: Any) -> Kernel:
    """Mamba's scan with (b, channels, t), where the last state comes back too."""

    def kernel(C: Any, B: Any, x: Any, dt: Any, A: Any) -> Any:
        u, steps, own, b, c = _channels(C, B, x, dt, A)
        u, steps, b, c = (y.transpose(1, 2) for y in (u, steps, b, c))
        y, state = function(u, steps, own, b, c, return_last_state=True)
        return _output(y.transpose(1, 2), x), state.reshape(*x.shape[:1], *x.shape[2:], -1)

    return by_group(kernel)


def selective_update(function: Any) -> Kernel:
    """Mamba's update, called token by token: state (b, channels, n)."""

    def kernel(C: Any, B: Any, x: Any, dt: Any, A: Any, initial_state: Any = None) -> Any:
        import torch

        u, steps, own, b, c = _channels(C, B, x, dt, A)
        state = x.new_zeros(*u.shape[::2], B.shape[-1])
        if initial_state is not None:
            state = initial_state.reshape(state.shape).clone()
        rows = [function(state, u[:, t], steps[:, t], own, b[:, t], c[:, t]) for t in range(x.shape[1])]
        return _output(torch.stack(rows, dim=1), x), state.reshape(*x.shape[:1], *x.shape[2:], -1)

    return by_group(kernel)


def scan_method(function: Any) -> Kernel:
    """`selective_scan(self, x, delta, A, B, C, D)` with (b, t, channels)."""

    def kernel(C: Any, B: Any, x: Any, dt: Any, A: Any) -> Any:
        u, steps, own, b, c = _channels(C, B, x, dt, A)
        owner = SimpleNamespace(config=SimpleNamespace(d_inner=own.shape[0], d_state=own.shape[1]))
        return _output(function(owner, u, steps, own, b, c, u.new_zeros(u.shape[-1])), x)

    return by_group(kernel)


def forward_method(function: Any) -> Kernel:
    """minimamba's `_selective_scan_forward(self, u, delta, A, B, C, D, z)`, with a gate z of one."""

    def kernel(C: Any, B: Any, x: Any, dt: Any, A: Any) -> Any:
        u, steps, own, b, c = _channels(C, B, x, dt, A)
        none, one = u.new_zeros(u.shape[-1]), u.new_ones(u.shape[-1])
        return _output(function(Methods(function), u, steps, own, b, c, none, one), x)

    return by_group(kernel)
