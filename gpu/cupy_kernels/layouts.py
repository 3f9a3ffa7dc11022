"""Arguments in and out: shapes are checked, heads repeated, and tokens cut into chunks, "b t h k" to (b, g, N, C, k).

The last chunk is filled up with zero rows. A zero key writes nothing, and a log gate of zero keeps the state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from array_api_compat import array_namespace, device

Array = Any
Sizes = dict[str, int]


@dataclass(frozen=True)
class Layout:
    """The sizes of a call, by their letters, and the arrays' own library.

    Attributes:
        xp: the array-API namespace of the arguments.
        sizes: b, t, h, g, k and v.
        chunk_size: C, a power of two.
        like: an argument; what is made anew has its dtype and device.
    """

    xp: Any
    sizes: Sizes
    chunk_size: int
    like: Array

    @classmethod
    def of(cls, q: Array, k: Array, v: Array, chunk_size: int) -> Layout:
        """The layout of a call with these queries "b t h k", keys "b t h k" and values "b t g v".

        Raises:
            ValueError: sizes don't fit together, or the chunk size isn't a power of two. It says what to change.
        """
        if chunk_size < 1 or chunk_size & (chunk_size - 1):
            raise ValueError(f"chunk_size is a power of two, such as 64, not {chunk_size}")
        for name, x in (("q", q), ("k", k), ("v", v)):
            if len(x.shape) != 4:
                raise ValueError(f"{name} has 4 dimensions, batch, tokens, heads, width; not the shape {x.shape}")
        sizes = dict(zip("bthk", q.shape, strict=True)) | {"g": v.shape[2], "v": v.shape[3]}
        if not sizes["t"]:
            raise ValueError("a sequence has one token or more; these are empty")
        if not sizes["h"] or sizes["g"] % sizes["h"]:
            raise ValueError(f"the heads of v are a multiple of those of q, not {sizes['g']} for {sizes['h']}")
        layout = cls(array_namespace(q, k, v), sizes, chunk_size, q)
        for name, x, form in (("q", q, "b t h k"), ("k", k, "b t h k"), ("v", v, "b t g v")):
            layout.check(name, x, form)
        return layout

    def with_pairs(self) -> Layout:
        """The same layout with p, the number of pairs of channels.

        Raises:
            ValueError: the width of queries and keys is odd.
        """
        if self.sizes["k"] % 2:
            raise ValueError(f"channels turn in pairs, so that q and k have an even width, not {self.sizes['k']}")
        return replace(self, sizes=self.sizes | {"p": self.sizes["k"] // 2})

    def check(self, name: str, x: Array, form: str) -> None:
        """Raises ValueError where an argument isn't of this form, "b t g", or has another dtype than q."""
        expected = tuple(self.sizes[letter] for letter in form.split())
        if tuple(x.shape) != expected:
            raise ValueError(f"{name} has the layout '{form}', here {expected}; its shape is {tuple(x.shape)}")
        if x.dtype != self.like.dtype:
            raise ValueError(f"{name} is {x.dtype} and q is {self.like.dtype}: convert all arguments to one dtype")

    def tokens(self, name: str, x: Array, form: str, filling: float = 0) -> Array:
        """An argument with tokens in chunks, (b, g, N, C, width); a gate without a width gets the width 1.

        Args:
            filling: what the last chunk is filled up with.
        """
        self.check(name, x, form)
        x = x if len(x.shape) == 4 else self.xp.expand_dims(x, axis=3)
        x = self.per_value_head(self.xp.permute_dims(x, (0, 2, 1, 3)))
        batch, heads, length, width = x.shape
        missing = -length % self.chunk_size
        if missing:
            row = self.xp.full_like(x[:, :, :1, :], filling)
            x = self.xp.concat([x, self.xp.broadcast_to(row, (batch, heads, missing, width))], axis=2)
        return self.xp.reshape(x, (batch, heads, -1, self.chunk_size, width))

    def queries_keys_values(self, q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
        """The three in chunks."""
        return self.tokens("q", q, "b t h k"), self.tokens("k", k, "b t h k"), self.tokens("v", v, "b t g v")

    def per_value_head(self, x: Array) -> Array:
        """(b, h, ...) to (b, g, ...): each query head serves g / h value heads in a row."""
        times = self.sizes["g"] // x.shape[1]
        if times == 1:
            return x
        batch, heads, *rest = x.shape
        repeated = self.xp.broadcast_to(x[:, :, None, ...], (batch, heads, times, *rest))
        return self.xp.reshape(repeated, (batch, heads * times, *rest))

    def state(self, name: str, x: Array | None, form: str = "b g k v") -> Array:
        """An initial state, zero where None."""
        if x is not None:
            self.check(name, x, form)
            return x
        shape = tuple(self.sizes[letter] for letter in form.split())
        return self.xp.full(shape, 0, dtype=self.like.dtype, device=device(self.like))

    def joined(self, chunks: Array) -> Array:
        """Chunks (b, g, N, C, v) as an output "b t g v"."""
        batch, heads, _, _, width = chunks.shape
        rows = self.xp.reshape(chunks, (batch, heads, -1, width))[:, :, : self.sizes["t"], :]
        return self.xp.permute_dims(rows, (0, 2, 1, 3))
