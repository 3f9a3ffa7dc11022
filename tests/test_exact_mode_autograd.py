"""What user code does around operators: autograd functions, checkpoints, inner gradients, casts, compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import attnproof  # noqa: E402

A, B = torch.zeros(3, 4), torch.zeros(4, 2)
Function = Callable[[Tensor, Tensor], Any]


def plain(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b).cumsum(0) * a.sum()


class ByHand(torch.autograd.Function):
    """A product whose backward pass is written by hand, into memory of its own."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)
        torch.mm(a, b, out=out)
        return out

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        for_a = torch.empty_like(a)
        for row in range(a.shape[0]):
            for_a[row] = upstream[row] @ b.mT
        return for_a, torch.zeros_like(b).addmm_(a.mT, upstream)


def by_hand(a: Tensor, b: Tensor) -> Tensor:
    return ByHand.apply(a, b).cumsum(0) * a.sum()


def by_hand_with_an_error(a: Tensor, b: Tensor) -> Tensor:
    class Wrong(ByHand):
        @staticmethod
        def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor]:
            for_a, for_b = ByHand.backward(ctx, upstream)
            return for_a, for_b.flip(1)

    return Wrong.apply(a, b).cumsum(0) * a.sum()


def stored_in_pieces(a: Tensor, b: Tensor) -> Tensor:
    rows = torch.zeros(a.shape[0], b.shape[1])
    for row in range(a.shape[0]):
        rows[row] = checkpoint(torch.matmul, a[row], b, use_reentrant=False)
    return rows.cumsum(0) * a.sum()


def recomputed(a: Tensor, b: Tensor) -> Tensor:
    return checkpoint(plain, a, b, use_reentrant=False)


def recomputed_as_of_old(a: Tensor, b: Tensor) -> Tensor:
    a.sum().pow(2).backward()  # a gradient of its own doesn't add to the one that is asked for
    return checkpoint(plain, a, b, use_reentrant=True)


def with_casts(a: Tensor, b: Tensor) -> Tensor:
    a, b = a.to(torch.bfloat16), b.double().float().type_as(a)
    assert a.dtype == torch.bfloat16
    assert (a @ b.to(a.dtype)).dtype == torch.bfloat16
    return plain(a.float(), b.to(torch.float32)).to(a.device)


def with_constants_of_its_own(a: Tensor, b: Tensor) -> Tensor:
    ones = torch.ones(3, 3, dtype=a.dtype).tril()
    assert bool((ones.sum() == 6).item())
    return (ones @ a @ b) * torch.einsum("ij,j->", a, torch.full((4,), 0.5)) * 2


def with_its_gradient_switched_off_and_on(a: Tensor, b: Tensor) -> Tensor:
    with torch.no_grad():
        total = a.sum()
    return (a @ b).cumsum(0) * (total + a.sum() - total)


def by_einsum(a: Tensor, b: Tensor) -> Tensor:
    return torch.einsum("tk,kv,ts->sv", a, b, torch.ones(3, 3).triu()) * torch.einsum("tk->", a)


SAME: dict[str, Function] = {
    "written by hand": by_hand,
    "stored in pieces": stored_in_pieces,
    "recomputed": recomputed,
    "recomputed as of old": recomputed_as_of_old,
    "with casts": with_casts,
    "with constants": with_constants_of_its_own,
    "with its gradient switched off and on": with_its_gradient_switched_off_and_on,
    "by einsum": by_einsum,
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_function(name: str) -> None:
    assert attnproof.exact(SAME[name], A, B).differences(attnproof.exact(plain, A, B)) == []


def test_an_error_in_a_backward_pass_by_hand_is_found() -> None:
    found = attnproof.exact(by_hand_with_an_error, A, B).differences(attnproof.exact(plain, A, B))
    assert [x.of for x in found] == ["gradient of b"]


def test_a_detached_gradient_is_found() -> None:
    found = attnproof.exact(lambda a, b: (a @ b).cumsum(0) * a.sum().detach(), A, B)
    assert [x.of for x in found.differences(attnproof.exact(plain, A, B))] == ["gradient of a"]


def test_a_compiled_function_runs_as_it_was_written() -> None:
    pytest.importorskip("torch._dynamo")
    compiled = torch.compile(plain, backend="eager")
    assert attnproof.exact(compiled, A, B).differences(attnproof.exact(plain, A, B)) == []


def test_gradients_inside() -> None:
    """Of x^3: 3 x^2, and 6 x once more."""

    def derivatives(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = (x**3).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        first.sum().backward(retain_graph=True)
        return first, second, x.grad

    first, second, kept = attnproof.exact(derivatives, torch.zeros(5)).outputs.values()
    expected = attnproof.exact(lambda x: (3 * x**2, 6 * x, 6 * x), torch.zeros(5)).outputs.values()
    assert all(np.array_equal(x, y) for x, y in zip((first, second, kept), expected, strict=True))


def test_a_module_with_weights() -> None:
    """Weights that a function has of its own are constants."""
    layer = torch.nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(8.0).view(2, 4) / 4)
        layer.bias.fill_(0.1)
    found = attnproof.exact(lambda a: layer(a), A)
    expected = attnproof.exact(lambda a: a @ (torch.arange(8.0).view(2, 4) / 4).mT + 0.1, A)
    assert found.differences(expected) == []


def test_code_that_asks_what_it_was_given() -> None:
    def asks(a: Tensor, b: Tensor) -> Tensor:
        assert isinstance(a, Tensor)
        assert (a.dtype, a.device.type, a.ndim, a.shape[1]) == (torch.float32, "cpu", 2, 4)
        assert a.is_floating_point()
        assert a.is_contiguous()
        assert a.requires_grad
        assert not torch.isnan(a).any()
        assert torch.promote_types(a.dtype, torch.float64) == torch.float64
        assert (a * torch.ones(4, dtype=torch.float64)).dtype == torch.float64
        assert (a * torch.tensor(1.0, dtype=torch.float64)).dtype == torch.float32
        assert a.half().sum(dtype=torch.float32).dtype == torch.float32
        assert torch.zeros_like(a, dtype=torch.bool).dtype == torch.bool
        assert "ExactTensor((3, 4), torch.float32" in repr(a)
        return plain(a, b)

    assert attnproof.exact(asks, A, B).differences(attnproof.exact(plain, A, B)) == []
