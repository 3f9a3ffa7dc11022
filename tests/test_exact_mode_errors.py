"""Operators without an exact meaning stop with an error that names them and the line that called them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

import attnproof  # noqa: E402
from derivations.language.errors import UndefinedValue  # noqa: E402
from gpu.exact_mode import NoExactMeaning, UndefinedHere  # noqa: E402

X = torch.zeros(3, 4)
Function = Callable[[Tensor], Any]

REFUSED: dict[str, tuple[Function, str]] = {
    "sqrt": (lambda x: x.sqrt(), "root"),
    "rsqrt": (lambda x: torch.rsqrt(x), "root"),
    "pow": (lambda x: x**0.5, "root"),
    "linalg_vector_norm": (lambda x: functional.normalize(x), "root"),
    "linalg_cholesky_ex": (lambda x: torch.linalg.cholesky(x @ x.mT), "root"),
    "native_layer_norm": (lambda x: functional.layer_norm(x, (4,)), "root"),
    "std": (lambda x: x.std(), "root"),
    "softmax": (lambda x: torch.softmax(x, -1), "rational"),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), "rational"),
    "sigmoid": (lambda x: x.sigmoid(), "rational"),
    "silu": (lambda x: functional.silu(x), "rational"),
    "softplus": (lambda x: functional.softplus(x), "rational"),
    "log_sigmoid_forward": (lambda x: functional.logsigmoid(x), "rational"),
    "log": (lambda x: x.log(), "rational"),
    "exp": (lambda x: x.exp(), "log gates"),
    "exp2": (lambda x: torch.exp2(x), "log gates"),
    "tanh_": (lambda x: (x * 1).tanh_(), "rational"),
    "gt": (lambda x: x > 0, "ordered"),
    "eq": (lambda x: x == x, "ordered"),
    "lt": (lambda x: torch.where(x < 1, x, 0), "ordered"),
    "abs": (lambda x: abs(x), "ordered"),
    "max": (lambda x: x.max(), "ordered"),
    "amax": (lambda x: x.amax(-1), "ordered"),
    "argmax": (lambda x: x.argmax(), "ordered"),
    "sort": (lambda x: x.sort(), "ordered"),
    "topk": (lambda x: x.topk(2), "ordered"),
    "clamp": (lambda x: x.clamp(0, 1), "ordered"),
    "clamp_min": (lambda x: torch.clamp_min(x, 0), "ordered"),
    "relu": (lambda x: functional.relu(x), "ordered"),
    "relu_": (lambda x: (x * 1).relu_(), "ordered"),
    "maximum": (lambda x: torch.maximum(x, x), "ordered"),
    "nonzero": (lambda x: x.nonzero(), "ordered"),
    "round": (lambda x: x.round(), "rounded"),
    "floor": (lambda x: x.floor(), "rounded"),
    "div": (lambda x: torch.div(x, 2, rounding_mode="floor"), "rounded"),
    "floor_divide": (lambda x: x // 2, "rounded"),
    "remainder": (lambda x: x % 2, "rounded"),
    "to": (lambda x: x.long(), "rounded to torch.int64"),
    "view": (lambda x: x.view(torch.int32), "rounded"),
    "item": (lambda x: float(x[0, 0]), "Python number"),
    "is_nonzero": (lambda x: 1 if x[0, 0] else 0, "Python number"),
    "rand_like": (lambda x: x + torch.rand_like(x), "draws"),
    "bernoulli_": (lambda x: functional.dropout(x), "draws"),
    "normal_": (lambda x: torch.empty_like(x).normal_(), "draws"),
    "data_ptr": (lambda x: x.data_ptr(), "compiled kernel"),
    "fft_r2c": (lambda x: torch.fft.fft(x), "no rule"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_refused(name: str) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(NoExactMeaning, match=reason) as raised:
        attnproof.exact(function, X)
    assert raised.value.operator in (name, "item")  # `if x` reads it as well
    assert str(raised.value).startswith(f"{raised.value.operator} has no exact meaning: ")
    assert "test_exact_mode_errors.py:" in raised.value.place
    assert f'"{name}": (lambda x:' in raised.value.place


def helper(x: Tensor) -> Tensor:
    scaled = x * 2
    return scaled.rsqrt()


def test_the_line_is_that_of_the_innermost_function() -> None:
    with pytest.raises(NoExactMeaning) as raised:
        attnproof.exact(lambda x: helper(x + 1), X)
    assert raised.value.place.endswith("(in helper): return scaled.rsqrt()")


def test_the_line_behind_a_library() -> None:
    """Torch's own Python code isn't user code."""
    layer = torch.nn.RMSNorm(4)
    with pytest.raises(NoExactMeaning, match="rsqrt") as raised:
        attnproof.exact(
            lambda x: layer(x),
            X,
        )
    assert raised.value.place.endswith("lambda x: layer(x),")


class WithARoot(torch.autograd.Function):
    """A function that only its backward pass takes a root in."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        return upstream.sqrt()


def test_a_backward_pass_by_hand() -> None:
    with pytest.raises(NoExactMeaning, match="sqrt") as raised:
        attnproof.exact(WithARoot.apply, X)
    assert raised.value.place.endswith("(in backward): return upstream.sqrt()")
    assert list(attnproof.exact(WithARoot.apply, X, gradients=False).outputs) == ["output"]


def test_a_backward_pass_of_torch() -> None:
    """There is no line to name: it is the operation that is being differentiated."""
    with pytest.raises(NoExactMeaning) as raised:
        attnproof.exact(lambda x: torch.full((3, 4), 2.0) ** x, X, log=["x"])
    assert raised.value.place == "the backward pass of PowBackward1"
    with pytest.raises(UndefinedHere, match="division by zero") as undefined:
        attnproof.exact(lambda x: (x * torch.tensor([[1], [0], [1]])).pow(-1), X)
    assert "pow" in str(undefined.value)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x / torch.zeros(4), "div: division by zero"),
        (lambda x: (x - x).reciprocal(), "reciprocal: division by zero"),
        (lambda x: torch.linalg.solve(x.mT @ x, x[0]), "linalg_solve_ex: a matrix that is inverted is singular"),
        (lambda x: torch.linalg.inv(x.mT @ x), "linalg_inv_ex: a matrix that is inverted is singular"),
        (lambda x: x * 2.0**-31 / (2**31 - 1), "division by zero"),
    ],
)
def test_undefined(function: Function, said: str) -> None:
    with pytest.raises(UndefinedValue, match=said) as raised:
        attnproof.exact(function, X)
    assert "test_exact_mode_errors.py:" in str(raised.value)


def test_a_comparison_of_plain_tensors_is_fine() -> None:
    def masked(x: Tensor) -> Tensor:
        position = torch.arange(4.0)
        mask = (position[None] > position[:3, None]) & (position.max() == 3)
        return x.masked_fill(mask, 0) * position.clamp(max=2).sqrt().round()

    found = attnproof.exact(masked, X)
    assert found.differences(attnproof.exact(lambda x: x.tril() * torch.tensor([0.0, 1, 1, 1]), X)) == []


def test_autograd_may_ask_for_zeros_and_user_code_may_not() -> None:
    assert attnproof.exact(lambda x: x.cumprod(0), X).gradients["x"].any()
    with pytest.raises(NoExactMeaning, match="ordered"):
        attnproof.exact(lambda x: torch.where(x == 0, x, 1), X)
