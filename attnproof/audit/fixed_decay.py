"""Adapters for `attnproof.audit.stated`: functions that fix their decays, RWKV-4's, Mamba's, and MesaNet's.

All arrays are (heads, rows, columns), as in the statement; functions get a batch of one.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from attnproof.audit.stated import Named
from attnproof.audit.subjects import Kernel


def retention_gates(inputs: Named) -> Named:
    """RetNet's: 1 - 2^(-5 - h) for head h, at every token."""
    heads, tokens, _ = inputs["gamma"].shape
    by_head = 1 - 2.0 ** (-5 - np.arange(heads))
    return {"gamma": np.broadcast_to(by_head[:, None, None], (heads, tokens, 1))}


def retention(function: Any) -> Kernel:
    """`naive_retention(q, k, v)` with (b, h, t, d), which multiplies q by d_k^-1/2."""

    def call(Q: Any, K: Any, V: Any, gamma: Any) -> Any:
        return [function((Q * Q.shape[-1] ** 0.5)[None], K[None], V[None])[0]]

    return call


def retention_kernel(function: Any) -> Kernel:
    """`chunk_retention(q, k, v, scale, initial_state, output_final_state)` with (b, t, h, d), states d_k d_v."""

    def call(Q: Any, K: Any, V: Any, gamma: Any, S: Any = None) -> Any:
        q, k, v = (x.transpose(0, 1)[None] for x in (Q, K, V))
        state = None if S is None else S.mT[None]
        output, last = function(q, k, v, scale=1.0, initial_state=state, output_final_state=True)
        return output[0].transpose(0, 1), last[0].mT

    return call


def lightning_gates(inputs: Named) -> Named:
    """MiniMax's: exp(-slope) for each head, the slopes as the layer has them."""
    from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

    heads, tokens, _ = inputs["gamma"].shape
    layer: Any = SimpleNamespace(num_attention_heads=heads, layer_idx=1, num_hidden_layers=4)
    slopes = MiniMaxLightningAttention.get_slope_rate(layer).double().numpy().reshape(heads, 1, 1)
    return {"gamma": np.broadcast_to(np.exp(-slopes), (heads, tokens, 1))}


class _Cache:
    """Hands a state over and takes one."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def get_linear_cache(self, layer: int) -> Any:
        del layer
        return self.state

    def set_linear_cache(self, layer: int, state: Any) -> None:
        del layer
        self.state = state


def lightning(layer_class: Any) -> Kernel:
    """The layer with identities in place of its projections, activation, norm and output gate, in blocks of 16 tokens.
    With a state in its cache it goes token by token.
    """

    def call(Q: Any, K: Any, V: Any, gamma: Any, S: Any = None) -> Any:
        import torch
        from transformers import MiniMaxConfig

        heads, tokens, width = Q.shape
        size = heads * width
        config = MiniMaxConfig(
            hidden_size=size,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            head_dim=width,
            num_hidden_layers=4,
            block_size=16,
            layer_types=["linear_attention"] * 4,
        )
        layer = layer_class(config, 1)
        layer.act_fn = layer.norm = layer.out_proj = layer.qkv_proj = torch.nn.Identity()
        layer.output_gate = torch.nn.Linear(1, 1)
        layer.output_gate.forward = lambda hidden: torch.full((1, tokens, size), torch.inf)
        hidden = torch.cat([x.transpose(0, 1) for x in (Q, K, V)], dim=-1).reshape(1, tokens, 3 * size)
        cache = _Cache(None if S is None else S.mT[None])
        output, state = layer(hidden, None, None, cache)
        return output.reshape(tokens, heads, width).transpose(0, 1), state[0].mT

    return call


def rwkv4(function: Any) -> Kernel:
    """`rwkv_linear_attention_cpu(time_decay, time_first, key, value, state, return_state)`, where the decay is
    -exp(time_decay) and the state is kept as its quotient by exp(max_state). Heads are a batch of independent channels.
    """

    def call(K: Any, V: Any, w: Any, u: Any, a: Any = None, b: Any = None) -> Any:
        import torch

        rows = []
        for h in range(len(K)):
            state = None
            if a is not None:
                state = [a[h].mT, b[h].mT, torch.zeros_like(a[h].mT)]
            output, last = function(w[h, :, 0].log(), u[h, :, 0], K[h][None], V[h][None], state, True)
            scale = last[2].exp()
            rows.append((output[0], (last[0] * scale).mT, (last[1] * scale).mT))
        return [torch.stack(x) for x in zip(*rows, strict=True)]

    return call


def positive_decays(inputs: Named) -> Named:
    """RWKV-4's w is exp of a parameter."""
    return {"w": abs(inputs["w"]) + 0.05}


def constant_ridge(inputs: Named) -> Named:
    """Lambda is one diagonal for all tokens there, and positive."""
    ridge = abs(inputs["Lambda"][:, :1]) + 0.25
    return {"Lambda": np.broadcast_to(ridge, inputs["Lambda"].shape)} | (
        {"H": inputs["H"] @ inputs["H"].swapaxes(-1, -2)} if "H" in inputs else {}
    )


def mesa(function: Any) -> Kernel:
    """`naive_mesa_net_exact(q, k, v, g, lamb, beta, h_kk_init, h_kv_init)` with a strength beta of one."""

    def call(Q: Any, K: Any, V: Any, gamma: Any, Lambda: Any, G: Any = None, H: Any = None) -> Any:
        import torch

        q, k, v = (x.transpose(0, 1)[None] for x in (Q, K, V))
        g = gamma[..., 0].T[None].log()
        states = {} if G is None or H is None else {"h_kk_init": H[None], "h_kv_init": G.mT[None]}
        output, curvature, last = function(q, k, v, g, Lambda[:, 0], torch.ones_like(g), **states)
        return output[0].transpose(0, 1), last[0].mT, curvature[0]

    return call


def negative_rates(inputs: Named) -> Named:
    """Mamba's A, which is minus an exponential."""
    return {"A": -abs(inputs["A"]) - 0.1}


def mamba(function: Any) -> Kernel:
    """`mamba_selective_scan(hidden_states, dt, A, B, C, D)` with (b, channels, t), an A for each channel and state."""

    def call(X: Any, Delta: Any, A: Any, B: Any, C: Any, D: Any) -> Any:
        import torch

        rows = []
        for h in range(len(X)):
            x, dt, b, c = (y[h].T[None] for y in (X, Delta, B, C))
            output, last = function(x, dt, A[h], b, c, D=D[h, :, 0], return_last_state=True)
            rows.append((output[0].T, last[0]))
        return [torch.stack(y) for y in zip(*rows, strict=True)]

    return call


def mamba_method(function: Any) -> Kernel:
    """mambapy's `selective_scan(self, x, delta, A, B, C, D)` with (b, t, channels)."""

    def call(X: Any, Delta: Any, A: Any, B: Any, C: Any, D: Any) -> Any:
        import torch

        rows = [
            function(None, *(y[h][None] for y in (X, Delta)), A[h], B[h][None], C[h][None], D[h, :, 0])
            for h in range(len(X))
        ]
        return [torch.cat(rows)]

    return call
