"""A lesson on linear attention that checks what it says: o_t = S_t phi(q_t) with S_t = S_{t-1} + v_t phi(k_t)^T.

    python examples/linear_attention_lesson.py [--seeds N]

Softmax attention forms an n x n matrix of scores. Where the weights are inner products phi(q_i)^T phi(k_j) instead,
the keys and values can be summed up first, in a d x d state, whatever phi is. This file has both attentions and a
layer, then holds them against each other and against attnproof's statements, with tolerances from rounding noise and
with costs that are counted. The exit status is 0 where everything is as expected. It needs torch.

Often told differently, and shown below:
- The causal recurrence is a matrix form too, with a mask: ((phi(Q) phi(K)^T) . M) V. Only the unmasked form can be
  bracketed as phi(Q) (phi(K)^T V).
- Linear attention without a normaliser isn't an approximation of softmax attention: its weights aren't divided by
  their sum, and its outputs are some hundred times as large here.
- It is cheaper only for n >= d, and trained as a plain loop it keeps far more than softmax attention does.
- Two orders of one computation don't agree to an absolute 1e-5 in float32.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from sympy import Expr, Symbol, expand, solve
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import elu

import attnproof
from attnproof.language import Closed, Form, K, Q, Recurrence, S, V, d_k, d_v, dimension, exp, n, normalised
from attnproof.language import Sequence as Rows

TOKENS, WIDTH, HEADS, BATCH = 16, 32, 4, 2
FLOAT32 = 2.0**-24
MEMORY = 80 * 10**9
FAR = 100.0
"""Two functions count as different ones where they are this many tolerances apart."""
DEFAULT = 1e-5
"""The relative tolerance of torch.allclose and numpy.allclose where none is given."""
SEEDS_AT_ONCE = 5
"""More at once are slower: their states don't fit into a cache."""

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]

# The functions. They take q, k, v of shape (..., n, d) with any leading dimensions, such as batch and heads.


def phi(x: Tensor) -> Tensor:
    """The feature map elu(x) + 1: x + 1 for x > 0, e^x below. It is positive, so that weights are too."""
    return elu(x) + 1


def standard_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(d)) V, without a mask."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    return scores.softmax(dim=-1) @ v


def by_token(x: Tensor) -> tuple[Tensor, ...]:
    """The rows of x, as views of shape (..., 1, d)."""
    return x.split(1, dim=-2)


def states(k: Tensor, v: Tensor) -> Iterator[Tensor]:
    """S_1, S_2, ..., each transposed, as d_k x d_v. Each is a new tensor: with `state += ...` autograd would find the
    states that it has kept for the queries' gradients changed.
    """
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    for key, value in zip(by_token(k), by_token(v), strict=True):
        state = state + key.mT @ value
        yield state


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal: token t reads S_t."""
    read = zip(by_token(phi(q)), states(phi(k), v), strict=True)
    return torch.cat([query @ state for query, state in read], dim=-2)


def linear_attention_masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same in one matrix form: ((phi(Q) phi(K)^T) . M) V."""
    return (phi(q) @ phi(k).mT).tril() @ v


def linear_attention_noncausal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every token reads the last state, S_n."""
    *_, last = states(phi(k), v)
    return torch.cat([query @ last for query in by_token(phi(q))], dim=-2)


def linear_attention_matrix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same in one matrix form: phi(Q) (phi(K)^T V)."""
    return phi(q) @ (phi(k).mT @ v)


class LinearAttentionLayer(nn.Module):
    """Self-attention of (..., n, width) with several heads and an output projection.

    It takes one input and returns one output, which isn't the interface of `nn.MultiheadAttention`.
    """

    def __init__(self, width: int, heads: int = 1, causal: bool = True) -> None:
        super().__init__()  # before any submodule: without it `self.wq = ...` is an AttributeError
        if width % heads:
            raise ValueError(f"{heads} heads don't divide a width of {width}")
        self.heads = heads
        self.attention: Attention = linear_attention if causal else linear_attention_matrix
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """Attention within each head, and the heads mixed by the output projection."""
        q, k, v = (self._by_head(w(x)) for w in (self.wq, self.wk, self.wv))
        out: Tensor = self.wo(self.attention(q, k, v).transpose(-3, -2).flatten(-2))
        return out

    def _by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)


FUNCTIONS: dict[str, Attention] = {
    "causal recurrence": linear_attention,
    "causal masked matrix": linear_attention_masked,
    "non-causal recurrence": linear_attention_noncausal,
    "non-causal matrix": linear_attention_matrix,
}


@cache
def statements() -> dict[str, Form]:
    """The forms of the catalogue that the functions compute, in their order of operations, on phi(Q) and phi(K)."""
    stated = attnproof.load_catalogue().derivations["linear_attention"].forms
    recurrence = stated["recurrence"]
    assert isinstance(recurrence, Recurrence)
    forms = (recurrence, stated["matrix"], recurrence.final(Q @ S.T), stated["noncausal"])
    return dict(zip(FUNCTIONS, forms, strict=True))


def draw(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Normal queries, keys and values in float32, 16 tokens of width 32."""
    q, k, v = torch.randn(3, TOKENS, WIDTH, generator=torch.Generator().manual_seed(seed))
    return q.clone(), k.clone(), v.clone()  # a storage each, so that one can see which of them is kept


# 2: one function in two orders of computation.


@dataclass(frozen=True)
class Pair:
    """Two functions, the identity that compares their statements, and whether they are one function."""

    first: str
    second: str
    identity: str
    same: bool


PAIRS = (
    Pair("non-causal recurrence", "non-causal matrix", "linear_attention.noncausal_reassociated", True),
    Pair("causal recurrence", "causal masked matrix", "linear_attention.recurrent_is_matrix", True),
    Pair("causal recurrence", "non-causal matrix", "linear_attention.causal_is_noncausal", False),
)


def exactly(pair: Pair) -> str:
    """The verdict on the identity, with every input symbolic: it doesn't matter which feature map they come from."""
    return attnproof.verify(pair.identity, rungs=["exact"]).reports[0].verdict


def outputs(name: str, seeds: int) -> Tensor:
    """What a function gives at each seed, (seeds, n, d)."""
    return torch.stack([FUNCTIONS[name](*draw(seed)) for seed in range(seeds)])


@cache
def tolerances(name: str, seeds: int) -> np.ndarray:
    """How far off rounding may put each row, (seeds, n), in the order of operations of the function.

    The features count as given: two orders get the same ones, with the same rounding in them.
    """
    rng, found = np.random.default_rng(0), []
    for first in range(0, seeds, SEEDS_AT_ONCE):
        drawn = [draw(seed) for seed in range(first, min(first + SEEDS_AT_ONCE, seeds))]
        inputs = zip(*((phi(q), phi(k), v) for q, k, v in drawn), strict=True)
        env: dict[Any, Any] = {x: torch.stack(rows).double().numpy() for x, rows in zip((Q, K, V), inputs, strict=True)}
        env |= {n: TOKENS, d_k: WIDTH, d_v: WIDTH}
        found.append(attnproof.tolerances_of(statements()[name], env, FLOAT32, rng)[0])
    return np.concatenate(found)


def errors_over_tolerance(pair: Pair, left: Tensor, right: Tensor) -> np.ndarray:
    """The largest error of any row at each seed, from 0 on, in units of what rounding may do to that row's values."""
    errors = (left.double() - right.double()).abs().amax(dim=-1).numpy()
    allowed = tolerances(pair.first, len(left)) + tolerances(pair.second, len(left))
    return (errors / allowed).max(axis=-1)


def verdict(ratios: np.ndarray) -> str:
    """ "same" within the tolerance at every seed, "different" far outside it at every seed, else "unclear"."""
    return "same" if np.all(ratios <= 1) else "different" if np.all(ratios > FAR) else "unclear"


def not_close(left: Tensor, right: Tensor, rtol: float) -> int:
    """How many seeds torch.allclose tells apart, with an absolute 1e-5."""
    return sum(not torch.allclose(a, b, rtol=rtol, atol=1e-5) for a, b in zip(left, right, strict=True))


def largest(name: str, seeds: int) -> float:
    """The largest entry of a function's output, at the median seed."""
    return float(outputs(name, seeds).abs().amax(dim=(-2, -1)).median())


# 3: gradients.


def whole_numbers(layer: LinearAttentionLayer, seed: int) -> LinearAttentionLayer:
    """The layer in float64 with weights 0, 1 and 2. On positive whole inputs phi(x) = x + 1, and nothing is rounded."""
    generator = torch.Generator().manual_seed(seed)
    layer = layer.double()
    for weights in layer.parameters():
        weights.data = torch.randint(0, 3, weights.shape, generator=generator).double()
    return layer


def gradients(layer: LinearAttentionLayer, x: Tensor, attention: Attention) -> list[Tensor]:
    """The gradients of a weighted sum of outputs with respect to the input and every parameter."""
    layer.attention = attention
    x = x.clone().requires_grad_()
    out = layer(x)
    weights = torch.arange(out.numel(), dtype=out.dtype).reshape(out.shape) % 7 - 3
    return list(torch.autograd.grad((out * weights).sum(), [x, *layer.parameters()]))


def gradients_agree() -> bool:
    """Whether the recurrence and the masked matrix give one gradient, bit for bit, and none of it vanishes."""
    layer = whole_numbers(LinearAttentionLayer(WIDTH, HEADS), seed=0)
    x = torch.randint(1, 4, (BATCH, TOKENS, WIDTH), generator=torch.Generator().manual_seed(1)).double()
    pairs = zip(*(gradients(layer, x, f) for f in (linear_attention, linear_attention_masked)), strict=True)
    return all(torch.equal(a, b) and bool(a.any()) for a, b in pairs)


def from_the_future(layer: LinearAttentionLayer, x: Tensor) -> float:
    """The largest derivative of an output in the first half by an input in the second."""
    x = x.clone().requires_grad_()
    half = x.shape[-2] // 2
    (gradient,) = torch.autograd.grad(layer(x)[..., :half, :].square().sum(), [x])
    return float(gradient[..., half:, :].abs().max())


# 4: costs, counted from the statements.

d = dimension("d")
A = Rows("A", n, n)
SOFTMAX = Closed(normalised(A) @ V).where(A, Closed(exp(Q @ K.T)))
"""Softmax attention. The scale 1/sqrt(d) is left out: it can be a part of Q."""


def counted(form: Form, quantity: Any) -> Expr:
    """A count for keys and values of one width: a polynomial in n and d."""
    return attnproof.counted(form, quantity).subs({d_k: d, d_v: d})


def kept_by_softmax() -> Expr:
    """What its two products keep. The softmax between them keeps its own result, which is an operand of the second."""
    return counted(Closed(Q @ K.T), "saved for backward") + counted(Closed(A @ V), "saved for backward")


def kept_by(form: Form) -> Expr:
    """What a form of linear attention keeps, and the inputs of elu for queries and keys."""
    return counted(form, "saved for backward") + 2 * n * d


def numbers_kept(function: Attention) -> int:
    """How many numbers autograd does keep at 16 tokens of width 32, each storage counted once."""
    storages: dict[int, Tensor] = {}

    def note(x: Tensor) -> Tensor:
        storages[x.untyped_storage().data_ptr()] = x  # kept alive, so that no address is used twice
        return x

    q, k, v = (x.requires_grad_() for x in draw(0))
    with saved_tensors_hooks(note, lambda x: x):
        function(q, k, v)
    return sum(x.untyped_storage().nbytes() // x.element_size() for x in storages.values())


@dataclass(frozen=True)
class Cost:
    """Multiplications, numbers kept for the backward pass, and how many were seen to be kept."""

    multiplications: Expr
    kept: Expr
    measured: int


@cache
def costs() -> dict[str, Cost]:
    """Of softmax attention and of every form of linear attention."""
    softmax = Cost(counted(SOFTMAX, "multiplications"), kept_by_softmax(), numbers_kept(standard_attention))
    linear = {
        name: Cost(counted(form, "multiplications"), kept_by(form), numbers_kept(FUNCTIONS[name]))
        for name, form in statements().items()
    }
    return {"softmax": softmax, **linear}


def at(count: Expr, tokens: int = TOKENS) -> int:
    """The value of a count at width 32."""
    return int(count.subs({n: tokens, d: WIDTH}))


def equal_at(linear: Expr, softmax: Expr) -> Expr:
    """The length, in terms of d, above which linear attention has the smaller count."""
    length = Symbol("length")  # not n, which is a whole number
    (found,) = (root for root in solve((linear - softmax).subs(n, length), length) if root != 0)
    return expand(found)


def first_above(length: Expr) -> int:
    """The first number of tokens above a length, at width 32."""
    return int(length.subs(d, WIDTH) // 1) + 1


def score_bytes(tokens: int) -> int:
    """The bytes of one head's scores in float32: the largest value on the way to softmax attention."""
    return 4 * at(counted(SOFTMAX, "largest value"), tokens)


def more_than(memory: int, size: int) -> int:
    """How many of this size it takes to be more than the memory."""
    return memory // size + 1


# What is printed. Each part says whether everything is as expected.


def show_shapes() -> bool:
    """Assertion 1: one row of width d per token, from both attentions."""
    print(f"1  Shapes, of q, k and v: {(TOKENS, WIDTH)}")
    found = {"softmax": standard_attention(*draw(0)), "linear": linear_attention(*draw(0))}
    for name, out in found.items():
        print(f"   {name:<9}{tuple(out.shape)}   largest entry {float(out.abs().max()):6.1f}")
    print("   One shape, but two functions: linear attention isn't divided by the sum of its weights.")
    return all(tuple(out.shape) == (TOKENS, WIDTH) for out in found.values())


def show_orders(seeds: int) -> bool:
    """Assertion 2: each matrix form is its recurrence, up to rounding."""
    print(f"\n2  One function in two orders of computation, in float32 at {seeds} seeds")
    columns = f"{'exactly':<9}{'in floats':<11}{'error/derived':>13}{'1e-5':>9}{'and rel':>9}{'derived':>9}"
    print(f"   {'':<78}{'seeds that fail a tolerance':>27}\n   {'':<45}{columns}")
    expected = True
    for pair in PAIRS:
        left, right = outputs(pair.first, seeds), outputs(pair.second, seeds)
        ratios, exact = errors_over_tolerance(pair, left, right), exactly(pair)
        fails = (not_close(left, right, 0), not_close(left, right, DEFAULT), (ratios > 1).sum())
        numbers = "".join(f"{count:>9}" for count in fails)
        row = f"{exact:<9}{verdict(ratios):<11}{ratios.max():>13.2g}{numbers}"
        print(f"   {pair.first:<23}{pair.second:<22}{row}")
        expected &= (verdict(ratios), exact) == (("same", "holds") if pair.same else ("different", "refuted"))
    size = largest("non-causal matrix", seeds)
    step = np.spacing(np.float32(size))
    print(f"   Entries reach {size:.0f}, where neighbours in float32 are {step:.1e} apart: 1e-5 forbids all rounding.")
    print("   Another 1e-5 of the entry does nothing for entries near zero, where large terms cancel.")
    return expected


def show_layer() -> bool:
    """Assertion 3: the layer runs forward and backward."""
    torch.manual_seed(0)
    x = torch.randn(BATCH, TOKENS, WIDTH)
    causal, whole = (LinearAttentionLayer(WIDTH, HEADS, causal=causal) for causal in (True, False))
    leaks = [from_the_future(layer, x) for layer in (causal, whole)]
    agree = gradients_agree()
    print(f"\n3  The layer, with {HEADS} heads")
    for given in (x[0], x):
        print(f"   {tuple(given.shape)} -> {tuple(causal(given).shape)}")
    print(f"   gradients on whole numbers, recurrence against masked matrix: {'equal' if agree else 'different'}")
    print(f"   largest derivative by a later token: causal {leaks[0]:.2g}, non-causal {leaks[1]:.2g}")
    return agree and leaks[0] == 0 < leaks[1] and all(causal(given).shape == given.shape for given in (x[0], x))


def show_costs() -> bool:
    """What is counted, against what autograd keeps."""
    found = costs()
    print(f"\n4  Costs, counted from the statements; the numbers are for n = {TOKENS}, d = {WIDTH}")
    print(f"   {'':<23}{'multiplications':<27}{'kept for the backward pass':<29}{'measured':>8}")
    for name, cost in found.items():
        counts = "".join(f"{text(count):<16}{at(count):>8,}   " for count in (cost.multiplications, cost.kept))
        print(f"   {name:<23}{counts}{cost.measured:>10,}")
    loop, softmax = found["causal recurrence"], found["softmax"]
    fewer, smaller = (equal_at(getattr(loop, cost), getattr(softmax, cost)) for cost in ("multiplications", "kept"))
    besides = [text(counted(SOFTMAX, quantity)) for quantity in ("exponentials", "divisions")]
    print(f"   Softmax takes {besides[0]} exponentials and {besides[1]} divisions besides.")
    print(
        f"   The recurrence multiplies less than softmax if n > {text(fewer)}: from {first_above(fewer):,} tokens on."
    )
    print(f"   Trained as a plain loop, it keeps less if n > {text(smaller)}: from {first_above(smaller):,} tokens on.")
    return all(at(cost.kept) == cost.measured for cost in found.values())


def show_memory() -> bool:
    """The memory of a score matrix that is formed; a fused kernel forms none."""
    print("\n5  One head's scores in float32, where the matrix is formed, and how many of them don't fit into 80 GB")
    sizes = {tokens: score_bytes(1024 * tokens) for tokens in (1, 4, 16, 32)}
    for tokens, size in sizes.items():
        mebibytes, share, many = f"{size / 2**20:,.0f}", f"{size / MEMORY:.3%}", f"{more_than(MEMORY, size):,}"
        print(f"   {tokens:>3}K tokens   {mebibytes:>5} MiB   {share} of 80 GB   {many:>6} heads")
    state = 4 * at(counted(statements()["causal recurrence"], "largest value"))
    print(f"   The state of the recurrence: {state / 2**10:.0f} KiB, at any length.")
    return [size / 2**20 for size in sizes.values()] == [4, 64, 1024, 4096]


def text(count: Expr) -> str:
    """A polynomial as one writes it."""
    return str(count).replace("**", "^").replace("*", " ")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the lesson; 0 where everything is as expected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    seeds = parser.parse_args(arguments).seeds
    parts = [show_shapes(), show_orders(seeds), show_layer(), show_costs(), show_memory()]
    wrong = [str(number) for number, expected in enumerate(parts, 1) if not expected]
    print(f"\nnot as expected: part {', '.join(wrong)}" if wrong else "\nall as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
