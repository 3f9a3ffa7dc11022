"""Scans h_t = a_t h_{t-1} + x_t of numbers, as gated linear attention: the state has one such scan for each entry.

With a_t = alpha_t for each column of the state and x_t = v_t k_t^T, the scans are S_t = S_{t-1} Diag(alpha_t) +
v_t k_t^T, and o_t = S_t q_t is read off what the function returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attnproof.audit.methods import Methods
from attnproof.audit.subjects import Adapter, Kernel

Scan = Callable[[Any, Any, Any, Any], Any]
"""From the function, gates (b, t, c), inputs (b, t, c) and the first h (b, c) or None: all h, (b, t, c)."""


def bank(scan: Scan, with_state: bool = False) -> Adapter:
    """A kernel of gated linear attention whose state is the scans' (b, g, k, v)."""

    def adapt(function: Any) -> Kernel:
        def kernel(q: Any, k: Any, v: Any, log_gate: Any, initial_state: Any = None) -> Any:
            heads, width = v.shape[2], v.shape[3]
            q, k = (x.repeat_interleave(heads // x.shape[2], dim=2) for x in (q, k))
            written = k[..., None] * v[..., None, :]
            gates = log_gate[..., None].expand(*log_gate.shape, width)
            first = None if initial_state is None else initial_state.flatten(1)
            states = scan(function, gates.flatten(2), written.flatten(2), first).reshape(written.shape)
            return (q[..., None] * states).sum(-2), states[:, -1]

        if with_state:
            return kernel
        return lambda q, k, v, log_gate: kernel(q, k, v, log_gate)

    return adapt


def recurrent_gemma(function: Any, gates: Any, inputs: Any, first: Any) -> Any:
    """RG-LRU's scan: `_rnn_scan(self, hidden_states, recurrent_gate, reset, recurrent_states)`, without resets."""
    import torch

    no_reset = torch.zeros_like(gates, dtype=torch.bool)
    return function(None, inputs, gates.exp(), no_reset, first)[0]


def hgrn(function: Any, gates: Any, inputs: Any, first: Any) -> Any:
    """HGRN's recurrence, which takes log gates."""
    return function(inputs, gates, initial_state=first)[0]


def hgrn_in_chunks(function: Any, gates: Any, inputs: Any, first: Any) -> Any:
    """The same in blocks, with tokens of zeros up to a multiple of the block."""
    from torch.nn.functional import pad

    tokens, size = inputs.shape[1], 16
    gates, inputs = (pad(x, (0, 0, 0, -tokens % size)) for x in (gates, inputs))
    return function(inputs, gates, initial_state=first, chunk_size=size)[0][:, :tokens]


def channels_first(function: Any, gates: Any, inputs: Any, first: Any) -> Any:
    """`scan(gates, tokens)` with (b, c, t)."""
    assert first is None
    return function(gates.exp().transpose(1, 2).contiguous(), inputs.transpose(1, 2).contiguous()).transpose(1, 2)


def with_a_state_width(function: Any, gates: Any, inputs: Any, first: Any) -> Any:
    """`pscan(A, X)` with (b, t, channels, states): one state to a channel."""
    assert first is None
    return function(gates.exp()[..., None], inputs[..., None])[..., 0]


def method_with_a_state_width(function: Any, gates: Any, inputs: Any, first: Any) -> Any:
    """The same for a method that reads nothing from its object but other such methods."""
    owner = Methods(function)
    return with_a_state_width(lambda a, x: function(owner, a, x), gates, inputs, first)


def method_with_inverse_gates(function: Any, gates: Any, inputs: Any, first: Any) -> Any:
    """The same with inverse gates, where there are more than the 8 tokens that minimamba takes one by one."""
    return method_with_a_state_width(function, -gates if gates.shape[1] > 8 else gates, inputs, first)
