"""Every operator of exact mode against float64: on small integers, whose results float64 has as short fractions.

One table of functions. For each, outputs and gradients in exact mode are the residues of what Torch computes in floats,
whatever the strides of the arguments are.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

from gpu.exact_mode import (  # noqa: E402
    NoExactMeaning,
    UndefinedHere,
    arithmetic,
    linear_systems,
    mode,
    modular,
    numbers,
    tensor,
)
from gpu.exact_mode.running import exact_tensor, run  # noqa: E402

PRIME = 2**31 - 1
INDEX = torch.tensor([2, 0, 2])
PLACES = torch.tensor([[[0, 2, 1, 0]], [[1, 1, 0, 2]]])
MASK = torch.tensor([[True, False, True, True], [False, False, True, False], [True, True, True, False]])
Operator = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def into(x: Tensor, write: Callable[[Tensor], object]) -> Tensor:
    """A copy of x that is written into."""
    copied = x * 1
    write(copied)
    return copied


def filled(like: Tensor, write: Callable[[Tensor], object]) -> Tensor:
    """A tensor that knows nothing of x, written into."""
    plain = torch.zeros(like.shape, dtype=like.dtype)
    write(plain)
    return plain


def unit(a: Tensor) -> Tensor:
    return a.tril(-1) + torch.eye(4, dtype=a.dtype)


OPERATORS: dict[str, Operator] = {
    "add": lambda x, y, w, a: x + y,
    "add a number": lambda x, y, w, a: 3 + x,
    "add with a factor": lambda x, y, w, a: torch.add(x, y, alpha=3),
    "add a plain tensor": lambda x, y, w, a: x + torch.arange(4),
    "sub": lambda x, y, w, a: x - y,
    "sub from a number": lambda x, y, w, a: 2 - x,
    "sub with a factor": lambda x, y, w, a: torch.sub(x, y, alpha=2),
    "neg": lambda x, y, w, a: -x,
    "mul": lambda x, y, w, a: x * y,
    "mul broadcast": lambda x, y, w, a: x[:, :1] * y[:1],
    "mul by a binary float": lambda x, y, w, a: 0.375 * x,
    "mul by a decimal float": lambda x, y, w, a: x * 0.1,
    "mul by a third": lambda x, y, w, a: x * (1 / 3),
    "mul by a plain float tensor": lambda x, y, w, a: x * torch.tensor([0.5, 0.2, -1.0, 3.0], dtype=torch.float64),
    "div": lambda x, y, w, a: x / y,
    "div by a number": lambda x, y, w, a: x / 8,
    "number div": lambda x, y, w, a: 2 / y,
    "reciprocal": lambda x, y, w, a: y.reciprocal(),
    "square": lambda x, y, w, a: x.square(),
    "cube": lambda x, y, w, a: x**3,
    "negative power": lambda x, y, w, a: y**-2,
    "powers of a tensor": lambda x, y, w, a: x[:, :1] ** torch.arange(4),
    "addcmul": lambda x, y, w, a: torch.addcmul(x, x, y, value=2),
    "addcdiv": lambda x, y, w, a: torch.addcdiv(x, x, y),
    "lerp": lambda x, y, w, a: torch.lerp(x, y, 0.25),
    "lerp by a tensor": lambda x, y, w, a: torch.lerp(x, y, x),
    "matmul": lambda x, y, w, a: x @ w,
    "matmul of batches": lambda x, y, w, a: x @ y.mT,
    "matmul broadcast": lambda x, y, w, a: x[:, None] @ y.mT[None],
    "matmul with a vector": lambda x, y, w, a: x @ w[:, 0],
    "vector with a matrix": lambda x, y, w, a: x[0, 0] @ w,
    "dot": lambda x, y, w, a: torch.dot(x[0, 0], y[0, 0]),
    "outer": lambda x, y, w, a: torch.outer(x[0, 0], y[0, 0]),
    "linear": lambda x, y, w, a: functional.linear(x, w.mT, w[0]),
    "addmm": lambda x, y, w, a: torch.addmm(w[:3], x[0], w, beta=2, alpha=3),
    "baddbmm": lambda x, y, w, a: torch.baddbmm(a[:, :3, :3], x, y.mT, alpha=-1),
    "baddbmm without its first": lambda x, y, w, a: torch.baddbmm(torch.full_like(a[:, :3, :3], 7), x, y.mT, beta=0),
    "addmv": lambda x, y, w, a: torch.addmv(x[0, 0], a[0], y[0, 0]),
    "einsum": lambda x, y, w, a: torch.einsum("bik,bjk->bij", x, y),
    "einsum of three": lambda x, y, w, a: torch.einsum("bik,bjk,kl->bl", x, y, w),
    "einsum of a diagonal": lambda x, y, w, a: torch.einsum("bii->b", a),
    "einsum with a plain tensor": lambda x, y, w, a: torch.einsum("bik,ij->bjk", x, torch.eye(3, dtype=x.dtype)),
    "vecdot": lambda x, y, w, a: torch.linalg.vecdot(x, y),
    "kron": lambda x, y, w, a: torch.kron(x[0], y[0]),
    "triangular": lambda x, y, w, a: torch.linalg.solve_triangular(unit(a), y.mT, upper=False, unitriangular=True),
    "triangular, not unit": lambda x, y, w, a: torch.linalg.solve_triangular(
        a.tril(-1) + torch.diag_embed(y[:, 0]), x.mT, upper=False
    ),
    "upper triangular": lambda x, y, w, a: torch.linalg.solve_triangular(
        unit(a).mT, y.mT, upper=True, unitriangular=True
    ),
    "triangular from the right": lambda x, y, w, a: torch.linalg.solve_triangular(
        unit(a), y, upper=False, left=False, unitriangular=True
    ),
    "solve": lambda x, y, w, a: torch.linalg.solve(unit(a) @ unit(a).mT, y.mT),
    "solve with another stride": lambda x, y, w, a: torch.linalg.solve((unit(a) @ unit(a).mT).mT, y.mT),
    "solve with a swap of rows": lambda x, y, w, a: torch.linalg.solve(unit(a).flip(-2), y.mT),
    "solve from the right": lambda x, y, w, a: torch.linalg.solve(unit(a), y, left=False),
    "solve for a vector": lambda x, y, w, a: torch.linalg.solve(unit(a)[0], y[0, 0]),
    "solve for vectors": lambda x, y, w, a: torch.linalg.solve(unit(a), y[:, 0]),
    "inverse": lambda x, y, w, a: torch.linalg.inv(unit(a) @ unit(a).mT.flip(-1)),
    "sum": lambda x, y, w, a: x.sum(),
    "sum along": lambda x, y, w, a: x.sum(1, keepdim=True),
    "sum along two": lambda x, y, w, a: x.sum((0, 2)),
    "mean": lambda x, y, w, a: x.mean(),
    "mean along": lambda x, y, w, a: x.mean(-1, keepdim=True),
    "cumsum": lambda x, y, w, a: x.cumsum(1),
    "cumprod": lambda x, y, w, a: y.cumprod(1),
    "cumprod with a zero": lambda x, y, w, a: (y * torch.tensor([1, 0, 1])[:, None]).cumprod(1),
    "prod": lambda x, y, w, a: y[:, :, :2].prod(),
    "prod along": lambda x, y, w, a: y.prod(1, keepdim=True),
    "trace": lambda x, y, w, a: a[0].trace(),
    "view": lambda x, y, w, a: x.contiguous().view(6, 4),
    "reshape": lambda x, y, w, a: x.transpose(1, 2).reshape(4, -1),
    "permute": lambda x, y, w, a: x.permute(2, 0, 1),
    "movedim": lambda x, y, w, a: x.movedim(0, 2),
    "expand": lambda x, y, w, a: x[:, :1].expand(2, 5, 4),
    "unsqueeze": lambda x, y, w, a: x[:, None, ..., None].squeeze(1),
    "flatten": lambda x, y, w, a: x.flatten(1),
    "unflatten": lambda x, y, w, a: x.unflatten(2, (2, 2)),
    "unfold": lambda x, y, w, a: x.unfold(1, 2, 1),
    "diagonal": lambda x, y, w, a: a.diagonal(dim1=1, dim2=2),
    "diag_embed": lambda x, y, w, a: torch.diag_embed(x),
    "as_strided": lambda x, y, w, a: torch.as_strided(x.contiguous(), (2, 2), (4, 1), 1),
    "slice": lambda x, y, w, a: x[:, 1:, ::2],
    "select": lambda x, y, w, a: x[1, :, -1],
    "index by integers": lambda x, y, w, a: x[:, INDEX],
    "index by two": lambda x, y, w, a: x[torch.tensor([0, 1, 1]), INDEX],
    "index by a mask": lambda x, y, w, a: x[:, MASK],
    "index_select": lambda x, y, w, a: x.index_select(1, INDEX),
    "gather": lambda x, y, w, a: x.gather(1, PLACES),
    "take_along_dim": lambda x, y, w, a: torch.take_along_dim(x, PLACES, 1),
    "take": lambda x, y, w, a: x.take(INDEX),
    "masked_select": lambda x, y, w, a: x.masked_select(MASK),
    "masked_fill": lambda x, y, w, a: x.masked_fill(MASK, 5),
    "where": lambda x, y, w, a: torch.where(MASK, x, y),
    "where with a number": lambda x, y, w, a: torch.where(MASK, x, 0.5),
    "tril": lambda x, y, w, a: a.tril(-1),
    "triu": lambda x, y, w, a: a.triu(1),
    "pad": lambda x, y, w, a: functional.pad(x, (1, 0, 0, 2), value=3),
    "crop": lambda x, y, w, a: functional.pad(x, (-1, 0, 0, -1)),
    "flip": lambda x, y, w, a: x.flip(1),
    "roll": lambda x, y, w, a: x.roll(1, 1),
    "repeat": lambda x, y, w, a: x.repeat(1, 2, 1),
    "repeat_interleave": lambda x, y, w, a: x.repeat_interleave(2, 1),
    "repeat_interleave by counts": lambda x, y, w, a: x.repeat_interleave(torch.tensor([1, 0, 3]), 1),
    "cat": lambda x, y, w, a: torch.cat([x, y[:, :1], torch.ones(2, 1, 4, dtype=x.dtype)], 1),
    "stack": lambda x, y, w, a: torch.stack([x, y], 2),
    "split": lambda x, y, w, a: torch.cat(x.split([1, 3], 2)[::-1], 2),
    "chunk": lambda x, y, w, a: x.chunk(2, 2)[1],
    "unbind": lambda x, y, w, a: x.unbind(1)[1] * y.unbind(1)[2],
    "scatter": lambda x, y, w, a: x.scatter(1, PLACES, y[:, :1]),
    "scatter a number": lambda x, y, w, a: x.scatter(1, PLACES, 2.0),
    "scatter_add": lambda x, y, w, a: x.scatter_add(1, PLACES, y[:, :1]),
    "index_add": lambda x, y, w, a: x.index_add(1, INDEX, y),
    "index_add with a factor": lambda x, y, w, a: x.index_add(1, INDEX, y, alpha=3),
    "index_copy": lambda x, y, w, a: x.index_copy(1, torch.tensor([2, 0]), y[:, :2]),
    "index_fill": lambda x, y, w, a: x.index_fill(1, INDEX, 4),
    "index_put": lambda x, y, w, a: x.index_put((torch.tensor([0, 1]), INDEX[:2]), y[:, 0]),
    "index_put, adding up": lambda x, y, w, a: x.index_put((torch.tensor([0, 0, 1]), INDEX), y[:1, 0], accumulate=True),
    "embedding": lambda x, y, w, a: functional.embedding(INDEX, w),
    "slice_scatter": lambda x, y, w, a: x.slice_scatter(y[:, :1], 1, 1, 2),
    "select_scatter": lambda x, y, w, a: x.select_scatter(y[:, 0], 1, 2),
    "diagonal_scatter": lambda x, y, w, a: a.diagonal_scatter(x[:, :, 0].sum(1)[:, None].expand(2, 4), dim1=1, dim2=2),
    "clone": lambda x, y, w, a: x.clone(),
    "contiguous": lambda x, y, w, a: x.mT.contiguous(),
    "to another precision": lambda x, y, w, a: (x.to(torch.float32) * y.float()).double(),
    "like others": lambda x, y, w, a: (
        x * torch.full_like(y, 3) + torch.ones_like(x) - x.new_ones(4) + x.new_full((4,), 2)
    ),
    "in-place arithmetic": lambda x, y, w, a: into(x, lambda z: z.add_(y).mul_(2).sub_(1).neg_().div_(4)),
    "in-place through a slice": lambda x, y, w, a: into(x, lambda z: z[:, 1].mul_(y[:, 0])),
    "in-place through a transpose": lambda x, y, w, a: into(x, lambda z: z.transpose(1, 2)[:, 1:3].copy_(y.mT[:, :2])),
    "slice assignment": lambda x, y, w, a: into(x, lambda z: z.__setitem__((slice(None), 1), y[:, 2])),
    "assignment by a mask": lambda x, y, w, a: into(x, lambda z: z.__setitem__((slice(None), MASK), 7)),
    "assignment by integers": lambda x, y, w, a: into(x, lambda z: z.__setitem__((slice(None), INDEX[:2]), y[:, :2])),
    "in-place masks": lambda x, y, w, a: into(x, lambda z: z.masked_fill_(MASK, 2).tril_()),
    "zero_ and fill_": lambda x, y, w, a: into(x, lambda z: (z[:, 0].zero_(), z[:, 1].fill_(5))),
    "index_add_": lambda x, y, w, a: into(x, lambda z: z.index_add_(1, INDEX, y)),
    "scatter_add_": lambda x, y, w, a: into(x, lambda z: z.scatter_add_(1, PLACES, y[:, :1])),
    "addmm_": lambda x, y, w, a: into(x[0, :, :3], lambda z: z.addmm_(x[0], y[0].mT)),
    "written into a plain tensor": lambda x, y, w, a: filled(x, lambda z: z.__setitem__((slice(None), 1), x[:, 2] * 2)),
    "added to a plain tensor": lambda x, y, w, a: filled(x, lambda z: z.add_(x).mul_(y)),
    "written through a view of a plain tensor": lambda x, y, w, a: filled(x, lambda z: z.mT[:, 1].copy_(x[:, :, 0])),
    "addr": lambda x, y, w, a: torch.addr(w[:3, :4], x[0, :, 0], y[0, 1], beta=2),
    "mean squared error": lambda x, y, w, a: functional.mse_loss(x, y),
    "cross": lambda x, y, w, a: torch.linalg.cross(x, y, dim=1),
    "diff": lambda x, y, w, a: x.diff(dim=1),
    "tensordot": lambda x, y, w, a: torch.tensordot(x, w, 1),
    "block_diag": lambda x, y, w, a: torch.block_diag(x[0], y[1]),
    "tile": lambda x, y, w, a: torch.tile(x, (2, 1)),
    "rot90": lambda x, y, w, a: torch.rot90(x, 1, (1, 2)),
    "matrix_power": lambda x, y, w, a: torch.linalg.matrix_power(a, 3),
    "multi_dot": lambda x, y, w, a: torch.linalg.multi_dot([x[0], a[0], w]),
    "sum_to_size": lambda x, y, w, a: x.sum_to_size(3, 1),
    "hstack": lambda x, y, w, a: torch.hstack([x, y]),
    "broadcast": lambda x, y, w, a: torch.stack(torch.broadcast_tensors(x, y[:1])),
    "trapezoid": lambda x, y, w, a: torch.trapezoid(x, dim=1),
    "index_put_ on a view": lambda x, y, w, a: into(x, lambda z: z[1].index_put_((INDEX,), y[0], accumulate=True)),
    "addcmul_": lambda x, y, w, a: into(x, lambda z: z.addcmul_(x, y, value=3).addcdiv_(x, y)),
    "lerp_": lambda x, y, w, a: into(x, lambda z: z.lerp_(y, 0.5)),
    "unsqueeze_ and squeeze_": lambda x, y, w, a: into(
        x, lambda z: z.unsqueeze_(0).mul_(2).squeeze_(0).transpose_(0, 1)
    ),
    "detached": lambda x, y, w, a: x * y.detach(),
}


def small_integers(seed: int, *shape: int, nonzero: bool = False) -> np.ndarray:
    values = np.random.default_rng([seed, *shape]).integers(-3, 4, shape)
    return np.where(values == 0, 2, values) if nonzero else values


def arguments(seed: int) -> dict[str, np.ndarray]:
    """x and y b i k, w k l, a b k k, with no zero in y, so that it can be divided by."""
    shapes = {"x": (2, 3, 4), "w": (4, 5), "a": (2, 4, 4)}
    drawn = {name: small_integers(seed, *shape) for name, shape in shapes.items()}
    return {"x": drawn["x"], "y": small_integers(seed + 1, 2, 3, 4, nonzero=True), "w": drawn["w"], "a": drawn["a"]}


def in_floats(operator: Operator, values: dict[str, np.ndarray]) -> tuple[Tensor, list[Tensor | None], np.ndarray]:
    """The output, the gradients, and the cotangent that they belong to."""
    tensors = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in values.values()]
    output = operator(*tensors)
    upstream = small_integers(9, *output.shape)
    gradients = torch.autograd.grad(output, tensors, torch.tensor(upstream, dtype=torch.float64), allow_unused=True)
    return output, list(gradients), upstream


def residues(x: Tensor) -> np.ndarray:
    """Of short fractions."""
    fractions = [Fraction(value).limit_denominator(10**5) for value in x.detach().flatten().tolist()]
    assert all(abs(f - Fraction(v)) < 1e-9 for f, v in zip(fractions, x.flatten().tolist(), strict=True))
    found = [f.numerator * pow(f.denominator, -1, PRIME) % PRIME for f in fractions]
    return np.array(found, dtype=np.int64).reshape(x.shape)


def turned(x: np.ndarray) -> torch.Tensor:
    """An exact tensor with the strides of a transpose."""
    exact = exact_tensor(np.ascontiguousarray(np.swapaxes(x, 0, -1)) % PRIME, dtype=torch.float64)
    return exact.transpose(0, -1)


def in_rows(x: np.ndarray) -> Tensor:
    return exact_tensor(x % PRIME, dtype=torch.float64)


def looks(x: Tensor) -> tuple[object, ...]:
    return x.shape, x.stride(), x.dtype, x.is_contiguous()


def check(name: str, make: Callable[[np.ndarray], Tensor]) -> None:
    operator, values = OPERATORS[name], arguments(seed=len(name))
    output, gradients, upstream = in_floats(operator, values)
    tensors, returned = {key: make(x) for key, x in values.items()}, []

    def call() -> Tensor:
        returned.append(operator(*tensors.values()))
        return returned[0]

    found = run(call, tensors, lambda *_: upstream % PRIME)
    assert np.array_equal(found.outputs["output"], residues(output))
    for (key, gradient), expected in zip(found.gradients.items(), gradients, strict=True):
        wanted = np.zeros(values[key].shape) if expected is None else residues(expected)
        assert np.array_equal(gradient, wanted), f"gradient of {key}"
    if make is in_rows:
        assert looks(returned[0]) == looks(output)


@pytest.mark.parametrize("make", [in_rows, turned])
@pytest.mark.parametrize("name", OPERATORS)
def test_agrees_with_floats(name: str, make: Callable[[np.ndarray], Tensor]) -> None:
    check(name, make)


def fails(name: str) -> bool:
    """Whether the comparison finds something wrong."""
    try:
        check(name, in_rows)
    except (AssertionError, RuntimeError, NoExactMeaning, UndefinedHere):
        return True
    return False


def _changed(module: object, name: str, change: Callable[..., object]) -> tuple[object, str, Callable[..., object]]:
    original = getattr(module, name)
    return module, name, lambda *given, **options: change(original, *given, **options)


PLANTED = {
    "products aren't reduced to the last": (
        _changed(modular, "product", lambda f, a, b, m=PRIME: f(a, b, m) + (f(a, b, m) == 4)),
        "mul",
    ),
    "the lowest piece is forgotten": (_changed(modular, "matmul", lambda f, a, b, m=PRIME: f(a, b & ~1, m)), "matmul"),
    "inverses have a sign": (_changed(modular, "inverse", lambda f, a: PRIME - f(a)), "div"),
    "the triangle is the other one": (
        _changed(linear_systems, "solve_triangular", lambda f, a, b, upper, unit: f(a.mT, b, upper, unit)),
        "triangular",
    ),
    "the diagonal is read": (
        _changed(linear_systems, "solve_triangular", lambda f, a, b, upper, unit: f(2 * a, b, upper, unit)),
        "triangular",
    ),
    "the factors are solved for the transpose": (
        _changed(linear_systems, "solve_factorised", lambda f, lu, p, b, transposed: f(lu, p, b, not transposed)),
        "solve with a swap of rows",
    ),
    "rows aren't exchanged": (
        _changed(
            linear_systems,
            "solve_factorised",
            lambda f, lu, p, b, transposed: f(lu, p * 0 + torch.arange(1, 5), b, transposed),
        ),
        "solve with a swap of rows",
    ),
    "a write is lost": (_changed(tensor.ExactTensor, "write", lambda f, self, x: None), "in-place arithmetic"),
    "plain memory forgets what was written": (
        _changed(mode.ExactMode, "exact", lambda f, self, x: x),
        "written into a plain tensor",
    ),
    "a decimal is read as it is in binary": (
        _changed(numbers, "_near", lambda f, value, roundoff, longest: value),
        "mul by a decimal float",
    ),
    "autograd divides by zeros": (
        _changed(arithmetic, "differentiated", lambda f: ""),
        "cumprod with a zero",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_an_error_in_exact_mode_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted, operator = PLANTED[name]
    assert not fails(operator)
    monkeypatch.setattr(*planted)
    assert fails(operator)
