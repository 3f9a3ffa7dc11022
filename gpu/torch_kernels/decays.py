"""Products of gates within a chunk: of their logarithms only sums are formed.

The decay from token j to token i is exp(g_{j+1} + ... + g_i). As a difference of cumulative sums it would lose its
digits to a strong gate that both sums contain, and as a quotient of products it would be 0 / 0. Here every exponent
is a sum of the log gates that it is made of, and for gates that fade no exponential is larger than one.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Decays(NamedTuple):
    """One gate for each token of a chunk: the decays between its tokens, up to them and from them on.

    Attributes:
        within: from token j to token i, `... i j`: Gamma, with ones on the diagonal and zeros above.
        from_start: up to token i, its own gate included, `... i 1`.
        to_end: from token j on, its own gate left out, `... j 1`.
        total: all gates of the chunk, `... 1 1`.
    """

    within: Tensor
    from_start: Tensor
    to_end: Tensor
    total: Tensor

    @property
    def within_before(self) -> Tensor:
        """From token j up to the token before i: Gamma^sh, with zeros on the diagonal."""
        return torch.cat([torch.zeros_like(self.within[..., :1, :]), self.within[..., :-1, :]], dim=-2)

    @property
    def before(self) -> Tensor:
        """From the start up to the token before i, `... i 1`."""
        return torch.cat([torch.ones_like(self.total), self.from_start[..., :-1, :]], dim=-2)


def decays(log_gate: Tensor) -> Decays:
    """The decays of `... chunk` log gates."""
    size = log_gate.shape[-1]
    # column j holds the gates after token j
    later = log_gate.unsqueeze(-1).expand(*log_gate.shape, size).tril(-1)
    sums = later.cumsum(-2)
    up_to = log_gate.cumsum(-1).exp().unsqueeze(-1)
    return Decays(sums.exp().tril(), up_to, sums[..., -1, :].exp().unsqueeze(-1), up_to[..., -1:, :])


class Between:
    """The products of what lies between any two tokens of a chunk, where there is one factor for each token.

    The chunk is halved again and again. What lies between token j in the first half of a part and token i in the second
    is what lies between j and the middle, times what lies between the middle and i: one factor for each token, so that
    all such pairs take one matrix product. Nothing is divided by.

    Attributes:
        now: from the start up to token i, its own factor included, `... i c`.
        after: from token j on, its own factor left out.
    """

    def __init__(self, factors: Tensor, neutral: Tensor) -> None:
        """Takes `... chunk c` factors, and the one that changes nothing, of the same shape."""
        self._neutral = self.finished(neutral[..., :1, :])
        self._halves: list[tuple[Tensor, Tensor]] = []
        now, after = factors.unsqueeze(-2), neutral.unsqueeze(-2)
        while now.shape[-3] > 1:
            (now_1, now_2), (after_1, after_2) = ((x[..., 0::2, :, :], x[..., 1::2, :, :]) for x in (now, after))
            self._halves.append((self.finished(now_2), self.finished(after_1)))
            now = torch.cat([now_1, self.combined(now_1[..., -1:, :], now_2)], dim=-2)
            after = torch.cat([self.combined(after_1, now_2[..., -1:, :]), after_2], dim=-2)
        self.now, self.after = self.finished(now.squeeze(-3)), self.finished(after.squeeze(-3))

    @property
    def before(self) -> Tensor:
        """From the start up to token i, its own factor left out, `... i c`."""
        return torch.cat([self._neutral, self.now[..., :-1, :]], dim=-2)

    def combined(self, earlier: Tensor, later: Tensor) -> Tensor:
        """The product of two factors."""
        raise NotImplementedError

    def finished(self, factors: Tensor) -> Tensor:
        """Products as they are applied."""
        raise NotImplementedError

    def apply(self, x: Tensor, factors: Tensor, of_row: bool) -> Tensor:
        """A factor applied to a row or to a column."""
        raise NotImplementedError

    def compare(self, rows: Tensor, columns: Tensor, diagonal: Tensor | None = None, own: bool = True) -> Tensor:
        """The inner products of each row with all earlier columns through what is between them, `... i j`.

        Args:
            rows: `... i k`.
            columns: `... j k`.
            diagonal: what stands on the diagonal, `... i`; zeros where None.
            own: whether the row's own factor counts among those between.
        """
        blocks = (torch.zeros_like(rows[..., 0]) if diagonal is None else diagonal)[..., None, None]
        for now, after in self._halves:
            size = after.shape[-2]
            late = rows.unflatten(-2, (-1, 2, size))[..., 1, :, :]
            early = columns.unflatten(-2, (-1, 2, size))[..., 0, :, :]
            if not own:
                first = self._neutral.unsqueeze(-2).expand_as(now[..., :1, :])
                now = torch.cat([first, now[..., :-1, :]], dim=-2)
            between = self.apply(late, now, True) @ self.apply(early, after, False).mT
            blocks = _joined(blocks[..., 0::2, :, :], between, blocks[..., 1::2, :, :])
        return blocks.squeeze(-3)


class ChannelDecays(Between):
    """One gate for each token and channel of the key, from `... chunk k` log gates.

    Attributes:
        total: all gates of the chunk, `... k 1`.
    """

    def __init__(self, log_gate: Tensor) -> None:
        super().__init__(log_gate, torch.zeros_like(log_gate))
        self.total = self.now[..., -1:, :].mT

    def combined(self, earlier: Tensor, later: Tensor) -> Tensor:
        return earlier + later

    def finished(self, factors: Tensor) -> Tensor:
        return factors.exp()

    def apply(self, x: Tensor, factors: Tensor, of_row: bool) -> Tensor:
        return x * factors


class Turns(Between):
    """One angle for each token and pair of channels (2i, 2i + 1), from its `... chunk p` cosines and sines.

    Factors are both, one after the other. Nothing here needs c^2 + s^2 = 1: rounded cosines and sines turn and scale.
    """

    def __init__(self, cosine: Tensor, sine: Tensor) -> None:
        neutral = torch.cat([torch.ones_like(cosine), torch.zeros_like(sine)], dim=-1)
        super().__init__(torch.cat([cosine, sine], dim=-1), neutral)

    def combined(self, earlier: Tensor, later: Tensor) -> Tensor:
        (c, s), (cosine, sine) = earlier.chunk(2, dim=-1), later.chunk(2, dim=-1)
        return torch.cat([c * cosine - s * sine, s * cosine + c * sine], dim=-1)

    def finished(self, factors: Tensor) -> Tensor:
        return factors

    def apply(self, x: Tensor, factors: Tensor, of_row: bool) -> Tensor:
        cosine, sine = factors.chunk(2, dim=-1)
        return turned(x, cosine, sine if of_row else -sine)


def turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Each pair of channels of `... k` turned by an angle, whose cosine and sine are `... k/2`."""
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.stack([cosine * first - sine * second, sine * first + cosine * second], dim=-1).flatten(-2)


def _joined(first: Tensor, between: Tensor, second: Tensor) -> Tensor:
    """The lower triangular blocks [[first, 0], [between, second]]."""
    above = torch.cat([first, torch.zeros_like(first)], dim=-1)
    return torch.cat([above, torch.cat([between, second], dim=-1)], dim=-2)
