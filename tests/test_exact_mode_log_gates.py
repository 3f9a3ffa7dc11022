"""Log gates in exact mode: exponents under exp, with exp(a + b) = exp(a) exp(b), and numbers everywhere else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from gpu.exact_mode import NoExactMeaning  # noqa: E402
from gpu.exact_mode.running import exact_tensor, run  # noqa: E402

PRIME, UNITS, W = 2**31 - 1, 2**31 - 2, 7
INF = float("inf")
VALUES, EXPONENTS, OTHER = [11, 22, 33], [5, 2**30, UNITS - 1], [3, 2, 1]
LOWER = torch.ones(3, 3, dtype=torch.bool).tril()


def powers(*exponents: int) -> list[int]:
    return [pow(W, e % UNITS, PRIME) for e in exponents]


def gate() -> Tensor:
    return exact_tensor(np.array(VALUES), np.array(EXPONENTS))


def field() -> Tensor:
    return exact_tensor(np.array(OTHER))


def computed(function: Callable[[Tensor, Tensor], Tensor]) -> list[int]:
    """Of a log gate g and a field number x."""
    g, x = gate(), field()
    return run(lambda: function(g, x), {}, None).outputs["output"].tolist()


def gradients(function: Callable[[Tensor, Tensor], Tensor]) -> dict[str, list[int]]:
    """By g and x, of the sum of the outputs."""
    inputs = {"g": gate(), "x": field()}
    found = run(lambda: function(*inputs.values()), inputs, lambda _, shape: np.ones(shape, dtype=np.int64))
    return {name: x.tolist() for name, x in found.gradients.items()}


EXPONENTIALS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], list[int]]] = {
    "itself": (lambda g, x: g.exp(), powers(*EXPONENTS)),
    "a sum": (lambda g, x: (g + g.flip(0)).exp(), powers(*np.add(EXPONENTS, EXPONENTS[::-1]).tolist())),
    "a difference": (lambda g, x: (g - g[0]).exp(), powers(*(e - 5 for e in EXPONENTS))),
    "minus": (lambda g, x: (-g).exp() * g.exp(), [1, 1, 1]),
    "a multiple": (lambda g, x: (3 * g).exp(), powers(*(3 * e for e in EXPONENTS))),
    "a sum with a factor": (lambda g, x: torch.add(g, g, alpha=2).exp(), powers(*(3 * e for e in EXPONENTS))),
    "an integer more": (lambda g, x: (g + 2).exp(), powers(*(e + 2 for e in EXPONENTS))),
    "a plain tensor more": (lambda g, x: (g + torch.arange(3.0)).exp(), powers(5, 2**30 + 1, UNITS + 1)),
    "cumsum": (lambda g, x: g.cumsum(0).exp(), powers(*np.cumsum(EXPONENTS).tolist())),
    "a matrix of ones": (lambda g, x: (LOWER.float() @ g).exp(), powers(*np.cumsum(EXPONENTS).tolist())),
    "sum": (lambda g, x: g.sum().exp()[None], powers(sum(EXPONENTS))),
    "in another precision": (lambda g, x: g.bfloat16().double().exp(), powers(*EXPONENTS)),
    "product of integers": (lambda g, x: (g * g).exp(), powers(*(e * e for e in EXPONENTS))),
    "expm1": (lambda g, x: torch.expm1(g), [p - 1 for p in powers(*EXPONENTS)]),
    "padded": (lambda g, x: torch.nn.functional.pad(g, (1, 0)).exp(), [1, *powers(*EXPONENTS)]),
    "outside of a triangle": (lambda g, x: g.expand(2, 3).tril().exp()[0], [*powers(5), 1, 1]),
    "masked": (lambda g, x: g.masked_fill(~LOWER[1], -INF).exp(), [*powers(*EXPONENTS[:2]), 0]),
    "minus infinity chosen": (lambda g, x: torch.where(LOWER[0], g, -INF).exp(), [*powers(5), 0, 0]),
    "minus infinity added": (
        lambda g, x: (g + torch.tensor([0, -INF, 0])).exp(),
        [*powers(5), 0, *powers(UNITS - 1)],
    ),
    "minus infinity summed up": (lambda g, x: (g + torch.tensor([0, -INF, 0])).cumsum(0).exp(), [*powers(5), 0, 0]),
    "minus infinity joined": (lambda g, x: torch.cat([g[:1], torch.tensor([-INF])]).exp(), [*powers(5), 0]),
    "written into zeros": (lambda g, x: _written(torch.zeros(3), g).exp(), powers(*EXPONENTS)),
    "written into zeros like another": (lambda g, x: _written(torch.zeros_like(x), g).exp(), powers(*EXPONENTS)),
    "written in part": (lambda g, x: _written(torch.zeros(3), g[:1], 1).exp(), [1, *powers(5), 1]),
    "in place": (lambda g, x: (g * 1).mul_(2).add_(g).exp_(), powers(*(3 * e for e in EXPONENTS))),
    "masked in place": (lambda g, x: (g * 1).masked_fill_(~LOWER[0], -INF).exp(), [*powers(5), 0, 0]),
    "nothing": (lambda g, x: x * (g - g).exp(), OTHER),
}


def _written(memory: Tensor, numbers: Tensor, start: int = 0) -> Tensor:
    memory[start : start + len(numbers)] = numbers
    return memory


@pytest.mark.parametrize("name", EXPONENTIALS)
def test_the_exponential_of(name: str) -> None:
    function, expected = EXPONENTIALS[name]
    assert computed(function) == expected


NO_EXPONENTIAL: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a field number": lambda g, x: x.exp(),
    "a sum with a field number": lambda g, x: (g + x).exp(),
    "a half": lambda g, x: (g / 2).exp(),
    "a fraction": lambda g, x: (g * 0.3).exp(),
    "an exponential": lambda g, x: g.exp().exp(),
    "what a field number was written into": lambda g, x: _written(_written(torch.zeros(3), g), x[:1]).exp(),
    "what was seen before a field number came": lambda g, x: _late(g, x),
    "another base": lambda g, x: torch.exp2(g),
    "softplus": lambda g, x: torch.nn.functional.softplus(g),
    "sigmoid": lambda g, x: g.sigmoid(),
}


def _late(g: Tensor, x: Tensor) -> Tensor:
    """A view of a buffer knows what is written into the buffer afterwards."""
    memory = torch.zeros_like(g)
    memory.copy_(g)
    view = memory[1:]
    memory[0] = x[0]
    return view.exp()


@pytest.mark.parametrize("name", NO_EXPONENTIAL)
def test_no_exponential_of(name: str) -> None:
    with pytest.raises(NoExactMeaning, match=r"only log gates have an exponential"):
        computed(NO_EXPONENTIAL[name])


NO_NUMBER: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "times a field number": lambda g, x: _masked(g) * x,
    "times a number": lambda g, x: _masked(g) * 2,
    "added to a field number": lambda g, x: _masked(g) + x,
    "subtracted": lambda g, x: g - _masked(g),
    "beside field numbers": lambda g, x: torch.stack([_masked(g), x]),
    "in a matrix product": lambda g, x: LOWER.float() @ _masked(g),
    "among field numbers": lambda g, x: x.masked_fill(LOWER[0], -INF),
    "written among field numbers": lambda g, x: _written(x * 1, _masked(g)),
    "returned": lambda g, x: _masked(g),
    "divided": lambda g, x: 1 / _masked(g),
    "plus infinity": lambda g, x: g.masked_fill(LOWER[0], INF),
}


def _masked(g: Tensor) -> Tensor:
    return g.masked_fill(~LOWER[0], -INF)


@pytest.mark.parametrize("name", NO_NUMBER)
def test_minus_infinity_is_no_number(name: str) -> None:
    with pytest.raises(NoExactMeaning, match=r"-inf is an exponent and not a number|inf isn't a number"):
        computed(NO_NUMBER[name])


def test_an_entry_that_is_no_infinity_any_more() -> None:
    """What is asked is whether an entry is infinite, not whether one was."""
    assert computed(lambda g, x: _masked(g)[:1] * x[:1]) == [11 * 3]
    assert computed(lambda g, x: torch.isinf(_masked(g)).float() + torch.isnan(x)) == [0, 1, 1]


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=3, max_size=3), st.integers(0, 2**32 - 1))
def test_exponentials_of_sums_are_products(terms: list[tuple[int, bool]], seed: int) -> None:
    """exp(sum c_i g_i) = prod exp(g_i)^c_i, as tensors and as Python's integers have it."""
    exponents = np.random.default_rng(seed).integers(0, UNITS, (3, 4))
    g = exact_tensor(exponents % PRIME, exponents)

    def both() -> Tensor:
        total = sum(c * g[k] if first else g[k] * c for k, (c, first) in enumerate(terms))
        product = torch.stack([g[k].exp() ** c for k, (c, _) in enumerate(terms)]).prod(0)
        return torch.stack([total.exp(), product])

    together, apart = run(both, {}, None).outputs["output"]
    expected = powers(*sum(c * exponents[k] for k, (c, _) in enumerate(terms)).tolist())
    assert together.tolist() == apart.tolist() == expected


def test_the_gradient_of_an_exponential() -> None:
    """d exp(g) = exp(g) dg, where the right exp(g) is a number."""
    assert gradients(lambda g, x: g.exp() * x)["g"] == [
        p * x % PRIME for p, x in zip(powers(*EXPONENTS), OTHER, strict=True)
    ]


def test_the_gradient_through_a_cumulated_gate() -> None:
    p = powers(*np.cumsum(EXPONENTS).tolist())
    weighted = [a * b % PRIME for a, b in zip(p, OTHER, strict=True)]
    expected = [sum(weighted[k:]) % PRIME for k in range(3)]
    assert gradients(lambda g, x: g.cumsum(0).exp() * x) == {"g": expected, "x": p}


def test_no_gradient_comes_through_minus_infinity() -> None:
    assert gradients(lambda g, x: _masked(g).exp() * x) == {
        "g": [powers(5)[0] * 3 % PRIME, 0, 0],
        "x": [*powers(5), 0, 0],
    }


def test_a_gate_is_a_number_where_it_scales() -> None:
    """d (g x) = x dg + g dx, with g modulo p, whatever g is modulo p - 1."""
    assert computed(lambda g, x: g * x) == [33, 44, 33]
    assert gradients(lambda g, x: g * x) == {"g": OTHER, "x": VALUES}
    both = gradients(lambda g, x: g * g.exp())["g"]
    assert both == [p * (1 + v) % PRIME for p, v in zip(powers(*EXPONENTS), VALUES, strict=True)]


def test_gradients_written_beside_gates() -> None:
    """Memory made like a log gate takes the gradient, which is a number."""

    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx, g: Tensor) -> Tensor:  # type: ignore[no-untyped-def,override]
            ctx.save_for_backward(g)
            return g.exp()

        @staticmethod
        def backward(ctx, upstream: Tensor) -> Tensor:  # type: ignore[no-untyped-def,override]
            (g,) = ctx.saved_tensors
            gradient = torch.empty_like(g)
            for k in range(3):
                gradient[k] = upstream[k] * g[k].exp()
            return gradient

    function = lambda g, x: Exponential.apply(g) * x
    assert gradients(function) == gradients(lambda g, x: g.exp() * x)
