"""attnproof.exact: which arguments are replaced, what comes back, how two runs are compared."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

import attnproof  # noqa: E402
from attnproof.exactly import ExactRun  # noqa: E402

PRIME = 2**31 - 1
Q, K, V, G = (torch.zeros(shape) for shape in ((2, 6, 3), (2, 6, 3), (2, 6, 4), (2, 6)))


def recurrent(q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """S_t = exp(g_t) S_{t-1} + k_t v_t^T, o_t = S_t^T q_t."""
    s = torch.zeros(q.shape[0], q.shape[2], v.shape[2]) if state is None else state
    outputs = []
    for t in range(q.shape[1]):
        s = s * g[:, t, None, None].exp() + k[:, t, :, None] * v[:, t, None]
        outputs.append(torch.einsum("bk,bkv->bv", q[:, t], s))
    return torch.stack(outputs, 1), s


def matrix(q: Tensor, k: Tensor, v: Tensor, g: Tensor, late: bool = False) -> tuple[Tensor, Tensor]:
    """The same as a masked product; `late` lets a token's own gate be the next one's."""
    total = g.cumsum(1) - g if late else g.cumsum(1)
    outside = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
    between = (total[:, :, None] - total[:, None]).masked_fill(outside, float("-inf")).exp()
    return (q @ k.mT * between) @ v, (k * (total[:, -1:] - total).exp()[..., None]).mT @ v


def test_two_functions_that_compute_the_same() -> None:
    one, other = attnproof.exact(recurrent, Q, K, V, G, log=["g"]), attnproof.exact(matrix, Q, K, V, G, log=["g"])
    assert one.differences(other) == []
    assert list(one.outputs) == ["output[0]", "output[1]"]
    assert list(one.gradients) == ["q", "k", "v", "g"]
    for name, x in {**one.outputs, **one.gradients}.items():
        assert x.dtype == np.int64, name
        assert 0 <= x.min() < x.max() < PRIME
        assert len(np.unique(x)) > x.size / 2


def test_two_functions_that_dont() -> None:
    one = attnproof.exact(matrix, Q, K, V, G, log=["g"], late=True)
    found = one.differences(attnproof.exact(recurrent, Q, K, V, G, log=["g"]))
    assert {x.of for x in found} >= {"output[0]", "gradient of q", "gradient of g"}
    first = found[0]
    assert first.place == "dimension-0 0, dimension-1 1, dimension-2 0"  # exp(g_0) in the place of exp(g_1)
    assert first.found != first.expected
    assert str(first).startswith("output[0] differs at dimension-0 0")


def test_by_hand() -> None:
    """The residues are those of the formula, at the numbers that were drawn."""
    found = attnproof.exact(lambda x, y: (x * 1, y * 1, x * x * y), torch.zeros(5), torch.zeros(5), seed=4)
    x, y, product = (value.astype(object) for value in found.outputs.values())
    assert (product == x * x * y % PRIME).all()
    upstream = attnproof.exact(lambda x, y: (x, y, x + y), torch.zeros(5), torch.zeros(5), seed=4).gradients
    # d x = c_1 + 2 x y c_3 and d y = c_2 + x^2 c_3, where the sums give c_1 + c_3 and c_2 + c_3
    gap = (found.gradients["x"].astype(object) - upstream["x"].astype(object)) * x * x
    assert ((gap - (2 * x * y - 1) * _third(found, upstream, x) * x * x) % PRIME == 0).all()


def _third(found: ExactRun, upstream: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """c_3, from d y."""
    gap = (found.gradients["y"].astype(object) - upstream["y"].astype(object)) % PRIME
    return np.array([g * pow(int(s * s - 1), -1, PRIME) % PRIME for g, s in zip(gap, x, strict=True)])


def test_seeds() -> None:
    run = lambda seed: attnproof.exact(recurrent, Q, K, V, G, log=["g"], seed=seed)
    assert run(1).differences(run(1)) == []
    shares = {x.of: x.share for x in run(1).differences(run(2))}
    assert shares.pop("gradient of g") == 5 / 6  # there is no state that the first gate could fade
    assert set(shares.values()) == {1.0}


def test_arguments_differ_from_one_another() -> None:
    """Two arguments of one shape get different numbers, and a log gate is no power of its exponent."""
    found = attnproof.exact(lambda q, k, g: (q * 1, k * 1, g * 1, g.exp()), G, G, G, log=["g"]).outputs.values()
    values = [x.ravel().tolist() for x in found]
    assert len({tuple(x) for x in values}) == 4


def test_everything_else_is_passed_on() -> None:
    def function(x: Tensor, places: Tensor, *more: Tensor, scale: float, names: dict[str, Any], mask: Tensor) -> Tensor:
        assert places.tolist() == [1, 0]
        assert (scale, names["flag"], names["nothing"]) == (0.5, True, None)
        assert mask.tolist() == [True, False]
        return x[places] * mask * scale + more[0] + more[1] + names["weights"][0]

    two = torch.zeros(2)
    options = {"weights": [two], "flag": True, "nothing": None}
    found = attnproof.exact(
        function,
        two,
        torch.tensor([1, 0]),
        two,
        two,
        scale=0.5,
        names=options,
        mask=torch.tensor([True, False]),
    )
    assert list(found.gradients) == ["x", "args[2]", "args[3]", "names['weights'][0]"]
    assert options["weights"][0] is two
    assert two.tolist() == [0, 0]


def test_log_names_a_whole_argument() -> None:
    function = lambda gates, x: gates["a"].exp() * gates["b"][0].exp() * x
    found = attnproof.exact(function, {"a": G, "b": [G]}, x=G, log=["gates"])
    assert list(found.gradients) == ["gates['a']", "gates['b'][0]", "x"]


def test_constants_keep_their_values() -> None:
    rate = torch.tensor([0.5, 0.1])
    found = attnproof.exact(lambda x, rate: x * rate, torch.zeros(2), rate, constant=["rate"])
    assert found.differences(attnproof.exact(lambda x: torch.stack([x[0] / 2, x[1] / 10]), torch.zeros(2))) == []


def test_a_gate_that_is_a_keyword() -> None:
    bound = functools.partial(recurrent, g=G)
    with pytest.raises(ValueError, match=r"'g' is no argument with float tensors; those are k, q, v"):
        attnproof.exact(bound, Q, K, V, log=["g"])
    one = attnproof.exact(recurrent, Q, K, V, g=G, log=["g"])
    assert one.differences(attnproof.exact(matrix, Q, K, V, g=G, log=["g"])) == []


@pytest.mark.parametrize("where", ["log", "constant"])
def test_a_name_that_is_none(where: str) -> None:
    with pytest.raises(ValueError, match=r"'gate' is no argument with float tensors; those are g, k, q, v"):
        attnproof.exact(recurrent, Q, K, V, G, **{where: ["gate"]})


def test_an_input_without_effect_has_gradient_zero() -> None:
    found = attnproof.exact(lambda x, y: x * 2, torch.zeros(2), torch.zeros(3))
    assert found.gradients["y"].tolist() == [0, 0, 0]
    assert attnproof.exact(lambda x: torch.ones(2), torch.zeros(2)).gradients["x"].tolist() == [0, 0]
    assert attnproof.exact(lambda x: x, torch.zeros(2), gradients=False).gradients == {}


def test_precisions_are_names_only() -> None:
    """What float16 would round or overflow stays exact."""
    wide, narrow = (
        attnproof.exact(recurrent, *(x.to(dtype) for x in (Q, K, V, G)), log=["g"])
        for dtype in (torch.float64, torch.float16)
    )
    assert wide.differences(narrow) == []


def test_runs_that_dont_compare() -> None:
    one = attnproof.exact(recurrent, Q, K, V, G, log=["g"])
    with pytest.raises(ValueError, match=r"the other output$"):
        one.differences(attnproof.exact(lambda q: q, Q))
    with pytest.raises(ValueError, match=r"output has the shape \(2, 6, 3\)"):
        attnproof.exact(lambda q: q, Q).differences(attnproof.exact(lambda q: q[:, :5], Q))


def test_a_builtin() -> None:
    found = attnproof.exact(torch.add, torch.zeros(2), torch.zeros(2))
    assert found.differences(attnproof.exact(lambda x, y: x + y, torch.zeros(2), torch.zeros(2))) == []
