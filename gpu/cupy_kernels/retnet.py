r"""RetNet (Sun et al. 2023, arXiv 2307.08621): the state fades and turns.

    S_t = gamma_t R_t^T S_{t-1} + k_t v_t^T,   o_t = S_t^T q_t,   R = [[c, -s], [s, c]] for each pair of channels

Between tokens j and i a score is gamma_{j+1} ... gamma_i k_j^T R_{j+1} ... R_i q_i. Queries are turned from the middle
between them and keys up to there: rounded cosines and sines are off the circle, by more with each further product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from gpu.cupy_kernels.carried import written
from gpu.cupy_kernels.decays import Reach, TokenDecay, halves_of, moved_down, scores_by_halves
from gpu.cupy_kernels.layouts import Layout

Array = Any


def retnet(
    q: Array,
    k: Array,
    v: Array,
    log_gate: Array,
    cosine: Array,
    sine: Array,
    initial_state: Array | None = None,
    *,
    chunk_size: int = 64,
) -> tuple[Array, Array]:
    """The output "b t g v" and the final state "b g k v".

    Args:
        q, k: queries and keys, "b t h k"; channels 2 a and 2 a + 1 are a pair.
        v: values, "b t g v", g a multiple of h.
        log_gate: log gamma, at most zero, "b t g".
        cosine, sine: of the angle between a token and the one before it, "b t h p" with p = k / 2, a pair each.
        initial_state: the state before the first token, "b g k v"; zero where None.
        chunk_size: tokens in a chunk, a power of two.

    Raises:
        ValueError: an argument has another layout or dtype, or k is odd.
    """
    layout = Layout.of(q, k, v, chunk_size).with_pairs()
    gates = TurningDecay(
        TokenDecay(layout.tokens("log_gate", log_gate, "b t g")),
        Turn(layout.tokens("cosine", cosine, "b t h p", filling=1), layout.tokens("sine", sine, "b t h p")),
    )
    state = layout.state("initial_state", initial_state)
    output, state = written(gates, state, *layout.queries_keys_values(q, k, v))
    return layout.joined(output), state


@dataclass(frozen=True)
class Turn:
    """R for each pair of channels and each token: cosines and sines (..., C, p)."""

    cosine: Array
    sine: Array

    def of(self, x: Array) -> Array:
        """R x for each pair of channels (2 a, 2 a + 1) of (..., C, k)."""
        xp = array_namespace(x)
        first, second = x[..., 0::2], x[..., 1::2]
        pairs = (self.cosine * first - self.sine * second, self.sine * first + self.cosine * second)
        return xp.reshape(xp.stack(pairs, axis=-1), x.shape)

    def back(self) -> Turn:
        """R^T."""
        return Turn(self.cosine, -self.sine)

    def from_start(self, reach: Reach = "inclusive") -> Turn:
        """R_1 ... R_i, without R_i for "before", in log2(C) steps that double what has been multiplied up."""
        xp, c, s, done = array_namespace(self.cosine), self.cosine, self.sine, 1
        while done < c.shape[-2]:
            earlier_c, earlier_s = c[..., :-done, :], s[..., :-done, :]
            later_c, later_s = c[..., done:, :], s[..., done:, :]
            products = earlier_c * later_c - earlier_s * later_s, earlier_s * later_c + earlier_c * later_s
            c, s = (xp.concat([x[..., :done, :], y], axis=-2) for x, y in zip((c, s), products, strict=True))
            done *= 2
        return Turn(moved_down(c, first=1), moved_down(s)) if reach == "before" else Turn(c, s)

    def to_end(self) -> Turn:
        """R_{i+1} ... R_C."""
        flip = array_namespace(self.cosine).flip
        flipped = Turn(flip(self.cosine, axis=-2), flip(self.sine, axis=-2)).from_start("before")
        return Turn(flip(flipped.cosine, axis=-2), flip(flipped.sine, axis=-2))


@dataclass(frozen=True)
class TurningDecay:
    """A gate and a turn for each token."""

    gates: TokenDecay
    turn: Turn

    def scores(self, rows: Array, columns: Array, reach: Reach) -> Array:
        return scores_by_halves(self, rows, columns, reach)

    def from_start(self, rows: Array, reach: Reach) -> Array:
        return self.gates.from_start(self.turn.from_start(reach).of(rows), reach)

    def to_end(self, rows: Array) -> Array:
        return self.gates.to_end(self.turn.to_end().back().of(rows))

    def carried(self, state: Array, chunk: int) -> Array:
        transpose = array_namespace(state).matrix_transpose
        of_chunk = Turn(self.turn.cosine[:, :, chunk, ...], self.turn.sine[:, :, chunk, ...]).from_start()
        whole = Turn(of_chunk.cosine[..., -1:, :], of_chunk.sine[..., -1:, :])
        return self.gates.carried(transpose(whole.back().of(transpose(state))), chunk)

    def halved(self, half: int) -> tuple[TurningDecay, TurningDecay]:
        gates, cosines, sines = (halves_of(x, half) for x in (self.gates.log_gates, self.turn.cosine, self.turn.sine))
        earlier, later = (
            TurningDecay(TokenDecay(g), Turn(c, s)) for g, c, s in zip(gates, cosines, sines, strict=True)
        )
        return earlier, later
