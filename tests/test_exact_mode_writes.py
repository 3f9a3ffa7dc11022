"""Random programs that write in place, through views and into plain tensors: exact mode does what float64 does.

A program is a list of steps, each a function of a pool of matrices. On small integers float64 is exact, so that outputs
and gradients are compared entry by entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from gpu.exact_mode import NoExactMeaning  # noqa: E402
from gpu.exact_mode.running import Run, exact_tensor, run  # noqa: E402

PRIME = 2**31 - 1
SIZE, LIMIT = 3, 2.0**40
Pool = list[Tensor]
Step = Callable[[Pool, int, int, int], None]


def _new(x: Tensor) -> Tensor:
    return x.clone()


STEPS: dict[str, Step] = {
    "sum": lambda pool, i, j, k: pool.append(pool[i] + pool[j]),
    "difference": lambda pool, i, j, k: pool.append(k * pool[i] - pool[j]),
    "product": lambda pool, i, j, k: pool.append(pool[i] * pool[j]),
    "matrix product": lambda pool, i, j, k: pool.append(pool[i] @ pool[j]),
    "copy": lambda pool, i, j, k: pool.append(_new(pool[i])),
    "plain zeros": lambda pool, i, j, k: pool.append(torch.zeros(SIZE, SIZE, dtype=torch.float64)),
    "plain numbers": lambda pool, i, j, k: pool.append(torch.arange(9.0, dtype=torch.float64).view(SIZE, SIZE) - k),
    "transposed view": lambda pool, i, j, k: pool.append(pool[i].mT),
    "detached view": lambda pool, i, j, k: pool.append(pool[i].detach()),
    "scale in place": lambda pool, i, j, k: pool[i].mul_(k),
    "add in place": lambda pool, i, j, k: pool[i].add_(_new(pool[j])),
    "add a scaled one in place": lambda pool, i, j, k: pool[i].add_(_new(pool[j]), alpha=k),
    "write a row": lambda pool, i, j, k: pool[i][k].copy_(_new(pool[j][0])),
    "write a column": lambda pool, i, j, k: pool[i][:, k].copy_(_new(pool[j][1])),
    "assign a slice": lambda pool, i, j, k: pool[i].__setitem__(slice(k, None), _new(pool[j])[k:]),
    "assign a number": lambda pool, i, j, k: pool[i].__setitem__((0, slice(k, None)), k),
    "add to a row": lambda pool, i, j, k: pool[i][k].add_(_new(pool[j])[2]),
    "mask in place": lambda pool, i, j, k: pool[i].masked_fill_(torch.eye(SIZE).bool(), k),
    "accumulate": lambda pool, i, j, k: pool[i].index_add_(0, torch.tensor([k, k]), _new(pool[j])[:2]),
    "put": lambda pool, i, j, k: pool[i].index_put_((torch.tensor([0, k]), torch.tensor([k, 1])), _new(pool[j])[0, :2]),
    "zero": lambda pool, i, j, k: pool[i][k].zero_(),
    "into an output": lambda pool, i, j, k: pool.append(_out(pool[i], pool[j])),
}


def _out(a: Tensor, b: Tensor) -> Tensor:
    """A product into memory that was there before; `out=` isn't differentiated."""
    memory = torch.empty(SIZE, SIZE, dtype=torch.float64)
    torch.mm(a.detach(), b.detach(), out=memory)
    return memory


def executed(program: list[tuple[str, int, int, int]], inputs: Pool) -> Tensor:
    """All matrices of the pool after the program, side by side."""
    pool = [x * 1 for x in inputs]
    for name, i, j, k in program:
        STEPS[name](pool, i % len(pool), j % len(pool), k)
    return torch.cat(pool)


PROGRAMS = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9), st.integers(0, SIZE - 1)),
    min_size=1,
    max_size=10,
)


@given(PROGRAMS, st.integers(0, 2**32 - 1))
def test_random_programs(program: list[tuple[str, int, int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.integers(-2, 3, (SIZE, SIZE)) for _ in range(2)]
    plain = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in values]
    try:
        output = executed(program, plain)
    except RuntimeError as error:  # an in-place write that autograd forbids; the same has to be forbidden in exact mode
        with pytest.raises(RuntimeError, match=re.escape(str(error)[:20])):
            in_exact_mode(program, values)
        return
    upstream = rng.integers(-2, 3, output.shape)
    try:
        gradients = torch.autograd.grad(output, plain, torch.tensor(upstream, dtype=torch.float64), allow_unused=True)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=re.escape(str(error)[:20])):
            in_exact_mode(program, values, upstream)
        return
    if max(x.abs().max() for x in (output, *gradients) if x is not None) > LIMIT:
        return  # float64 isn't exact any more
    found = in_exact_mode(program, values, upstream)
    expected = {"output": output} | {f"x{k}": g for k, g in enumerate(gradients)}
    for name, residues in (found.outputs | found.gradients).items():
        wanted = expected[name]
        integers = np.zeros((SIZE, SIZE)) if wanted is None else wanted.detach().numpy()
        assert np.array_equal(residues, integers.astype(np.int64) % PRIME), name


def in_exact_mode(
    program: list[tuple[str, int, int, int]], values: list[np.ndarray], upstream: np.ndarray | None = None
) -> Run:
    tensors = {f"x{k}": exact_tensor(x % PRIME, dtype=torch.float64) for k, x in enumerate(values)}
    cotangent = (lambda *_: np.zeros(0)) if upstream is None else lambda *_: upstream % PRIME
    return run(lambda: executed(program, list(tensors.values())), tensors, cotangent)


def test_every_step_is_taken() -> None:
    """By itself each step runs, and changes or appends something."""
    rng = np.random.default_rng(0)
    values = [rng.integers(5, 10, (SIZE, SIZE)) for _ in range(2)]
    outputs = lambda program: run(
        lambda: executed(program, [exact_tensor(x, dtype=torch.float64) for x in values]), {}, None
    ).outputs["output"]
    for name in STEPS:
        assert not np.array_equal(outputs([(name, 0, 1, 2)]), outputs([])), name


def once(function: Callable[[Tensor], Tensor]) -> np.ndarray:
    """The output for x = 1, 2, 3."""
    x = exact_tensor(np.array([1, 2, 3]))
    return run(lambda: function(x), {}, None).outputs["output"]


def test_memory_that_nobody_wrote_is_random() -> None:
    """So that a function that reads it differs from one that doesn't; and never NaN, which no field has."""

    def unwritten(x: Tensor) -> Tensor:
        return torch.stack([torch.empty_like(x), x.new_empty(3), torch.empty(3) + x])

    first, second = once(unwritten), once(unwritten)
    assert not (first == second).any()
    assert len(set(first.ravel())) == 9


def test_uninitialised_memory_filled_in_part() -> None:
    def filled(x: Tensor) -> Tensor:
        memory = torch.empty(2, 3)
        memory[1] = x
        return memory[1]

    assert once(filled).tolist() == [1, 2, 3]


def test_random_numbers_of_the_user_stay_as_they_are() -> None:
    torch.manual_seed(3)
    expected = torch.randint(0, 100, (5,)).tolist()
    torch.manual_seed(3)
    once(lambda x: torch.empty_like(x) + torch.empty(3))
    assert torch.randint(0, 100, (5,)).tolist() == expected


def test_views_taken_before_the_write_see_it() -> None:
    def aliased(x: Tensor) -> Tensor:
        memory = torch.zeros(2, 3)
        early = memory.view(6)[3:]
        memory[1] = x
        return early * 1

    assert once(aliased).tolist() == [1, 2, 3]


def test_plain_tensors_of_one_address_in_turn() -> None:
    """Memory that was written into is kept, so that no later tensor has its address, and is taken for it."""

    def function(x: Tensor) -> Tensor:
        total = x * 0
        for _ in range(20):
            fresh = torch.zeros(3)
            total = total + fresh
            fresh += x
            del fresh
        return total

    assert once(function).tolist() == [0, 0, 0]


def test_what_was_in_memory_before_is_never_read() -> None:
    """Here Torch fills new memory with NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        assert once(lambda x: x + 0 * torch.empty(3)).tolist() == [1, 2, 3]
        assert once(lambda x: x + 0 * torch.empty_strided((3,), (2,))).tolist() == [1, 2, 3]
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_write_into_integers_is_refused() -> None:
    with pytest.raises(NoExactMeaning, match=r"copy_ has no exact meaning: it writes field numbers into .*int64"):
        once(lambda x: torch.zeros(3, dtype=torch.int64).copy_(x))


def test_an_empty_write() -> None:
    def function(x: Tensor) -> Tensor:
        memory = torch.zeros(0, 3)
        memory[:] = x[None][:0]
        places = torch.zeros(0, dtype=torch.int64)
        return x[places].sum() + x

    assert once(function).tolist() == [1, 2, 3]


def test_inputs_are_left_alone() -> None:
    x = exact_tensor(np.array([1, 2, 3]))
    run(lambda: (x * 1).mul_(5), {}, None)
    assert x.residues.tolist() == [1, 2, 3]
