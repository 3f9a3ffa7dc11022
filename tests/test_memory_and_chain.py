"""Peak memory against programs that allocate and free by hand, and dependency chains against the longest path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import expand

from derivations import decay, deltanet, linear_attention
from derivations.language import (
    Closed,
    CumulativeProduct,
    Form,
    Gamma,
    I,
    K,
    M,
    M_strict,
    NoMeaning,
    Q,
    Sequence,
    TokenRows,
    V,
    beta,
    d_k,
    d_v,
    diag,
    exp,
    gamma,
    n,
    v,
)
from numerics.algebras.trace import Operation
from numerics.costs.chain import longest_chain
from numerics.costs.forms import CountedForm
from numerics.costs.greatest import greatest
from numerics.costs.memory import live_numbers
from numerics.costs.walks import walk
from numerics.evaluate import CHUNK as C

Sizes = dict[Any, int]
U = Sequence("U", n, d_v)


class Heap:
    """Numbers that are allocated and freed by hand."""

    def __init__(self) -> None:
        self.live = self.peak = 0

    def new(self, size: int) -> int:
        self.live += size
        self.peak = max(self.peak, self.live)
        return size

    def free(self, *sizes: int) -> None:
        self.live -= sum(sizes)


def recurrence(x: Sizes, heap: Heap) -> None:
    state = 0  # the initial one is an input
    for _ in range(x[n]):
        write = heap.new(x[d_v] * x[d_k])
        after = heap.new(x[d_v] * x[d_k])
        heap.free(state, write)
        state = after  # S q is a part of the output


def scores_of_exponentials(x: Sizes, heap: Heap) -> None:
    scores = heap.new(x[n] ** 2)
    weights = heap.new(x[n] ** 2)
    heap.free(scores)
    heap.free(weights)  # their product with V is the output


def chunkwise(x: Sizes, heap: Heap) -> None:
    state = 0
    for _ in range(0, x[n], x[C]):
        write = heap.new(x[d_v] * x[d_k])
        after = heap.new(x[d_v] * x[d_k])
        heap.free(write)
        read = heap.new(x[C] * x[d_v])
        heap.free(state)
        scores = heap.new(x[C] ** 2)
        mixed = heap.new(x[C] * x[d_v])
        heap.free(scores)
        heap.free(read, mixed)  # their sum is a part of the output
        state = after


PROGRAMS: dict[str, tuple[Form, Callable[[Sizes, Heap], None]]] = {
    "recurrence": (linear_attention.recurrence, recurrence),
    "exponentials of scores": (Closed(exp(Q @ K.T) @ V), scores_of_exponentials),
    "blocks": (linear_attention.chunkwise, chunkwise),
}


@pytest.mark.parametrize("sizes", [(12, 3, 2, 4), (8, 4, 9, 2), (10, 5, 2, 11), (24, 8, 7, 6)], ids=str)
@pytest.mark.parametrize(("form", "program"), PROGRAMS.values(), ids=PROGRAMS.keys())
def test_peak_memory_is_that_of_a_program(form: Form, program: Any, sizes: tuple[int, ...]) -> None:
    x, heap = dict(zip((n, C, d_k, d_v), sizes, strict=True)), Heap()
    program(x, heap)
    assert max(walk(form, x).live) == heap.peak
    assert max(p.subs(x) for p in CountedForm(form).count("peak memory")) == heap.peak


PEAKS = {
    "the output is no value on the way": (Closed(Q @ K.T), [0]),
    "nor are its rows": (TokenRows(v + v), [0]),
    "a product is taken from the right": (Closed(Q @ K.T @ V), [d_k * d_v]),
    "a mask makes no copy": (Closed((Q @ K.T).hadamard(M) @ V), [n**2]),
    "a decay and the scores": (Closed((Q @ K.T).hadamard(Gamma) @ V), [3 * n**2]),
    "one of two is larger": (Closed(exp(Q) @ (K.T @ V)), [n * d_k + d_k * d_v]),
    "what is read later stays": (Closed(exp(V) + Q @ K.T @ V), [2 * n * d_v + d_k * d_v]),
}


@pytest.mark.parametrize(("form", "stated"), PEAKS.values(), ids=PEAKS.keys())
def test_peaks_by_hand(form: Form, stated: list[Any]) -> None:
    assert set(CountedForm(form).count("peak memory")) == {expand(p) for p in stated}


CHAINS = {
    "a write for each token, then a read": (linear_attention.recurrence, n + 2),
    "two products": (linear_attention.matrix, 2),
    "a state for each block": (linear_attention.chunkwise, n / C + 2),
    "a fade and a sum for each token": (decay.recurrence, 2 * n + 1),
    "row after row": (Closed((Q @ K.T).hadamard(M).I @ V), n + 1),
    "elimination": (Closed((I + Q @ K.T).I @ V), 3 * n + 2),
    "a diagonal": (Closed(diag(beta).I @ V), 1),
    "gate after gate": (Closed(diag(CumulativeProduct(gamma)) @ V), n),
    "a sum is one step": (Closed(Q.T @ K), 1),
    "side by side": (Closed(Q @ K.T + Q @ Q.T), 2),
    "a system for all keys": (Closed((I + (K @ K.T).hadamard(M_strict)).I @ V), n + 2),
}


@pytest.mark.parametrize(("form", "stated"), CHAINS.values(), ids=CHAINS.keys())
def test_chains_by_hand(form: Form, stated: Any) -> None:
    assert CountedForm(form).count("longest chain") == (stated,)


def test_rows_are_ready_one_by_one() -> None:
    """A second recurrence over the first one's outputs runs one token behind, not after all of them."""
    first = linear_attention.recurrence
    (chain,) = CountedForm(first.substitute({V: first})).count("longest chain")
    assert chain.coeff(n) == 1
    (chain,) = CountedForm(Closed(U.T @ K).where(U, first)).count("longest chain")
    assert chain == n + 3


def test_a_system_in_each_block_waits_for_the_state() -> None:
    (chain,) = CountedForm(deltanet.chunkwise).count("longest chain")
    assert chain.coeff(n, 1).subs(C, 8) > 1


def test_no_greatest_is_made_up() -> None:
    found = greatest(lambda point: [point[0] * point[1], point[1] ** 2], (n, range(6, 9)), [d_k], [(20, 5), (7, 30)])
    assert set(found) == {n * d_k, d_k**2}
    with pytest.raises(NoMeaning, match="isn't the greatest of some polynomials"):
        greatest(lambda point: [point[0] * point[1] + (point[1] > 20)], (n, range(6, 9)), [d_k], [(20, 5), (7, 30)])
    with pytest.raises(NoMeaning, match="of degree 2"):  # though at the further sizes the first one is the greatest
        greatest(lambda point: [99 * point[0] * point[1], point[1] ** 3], (n, range(6, 9)), [d_k], [(20, 5), (7, 6)])
    with pytest.raises(NoMeaning, match="changes with the sizes"):
        greatest(lambda point: [0] * point[1], (n, range(6, 9)), [d_k], [])
    with pytest.raises(NoMeaning, match="more and more operations"):
        greatest(lambda point: [k * point[1] + (9 - k) ** 2 for k in range(point[0])], (n, range(6, 9)), [d_k], [])


def test_a_width_of_one_may_be_another_case() -> None:
    counts = lambda point: [0 if point[1] == 1 else point[0] * point[1]]
    assert greatest(counts, (n, range(6, 9)), [d_k], [(20, 5), (7, 30)]) == [n * d_k]


@st.composite
def traces(draw: st.DrawFn) -> list[Operation]:
    trace: list[Operation] = []
    for place in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["given", "view", "computed", "computed"])) if place else "given"
        operands = draw(st.lists(st.integers(-1, place - 1), min_size=1, max_size=2)) if kind != "given" else []
        size, steps = (draw(st.integers(1, 9)), draw(st.integers(1, 3))) if kind == "computed" else (0, 0)
        trace.append(Operation(kind, 1, tuple(operands), size=size, steps=steps))
    return trace


def holds(trace: list[Operation], place: int, number: int) -> bool:
    """Whether the result of an operation shows the numbers that another one has computed."""
    if place == number:
        return trace[place].kind == "computed"
    return place >= 0 and trace[place].kind == "view" and any(holds(trace, x, number) for x in trace[place].operands)


@given(traces(), st.data())
def test_a_number_is_alive_until_it_is_read_for_the_last_time(trace: list[Operation], data: st.DataObject) -> None:
    places = st.integers(0, len(trace) - 1)
    output, states = data.draw(places), data.draw(st.lists(places, max_size=2))
    found = live_numbers(trace, output, states)
    for now in range(len(trace)):
        alive = 0
        for number in range(now + 1):
            later = [p for p in range(now, len(trace)) if p > number and trace[p].kind == "computed"]
            read = any(holds(trace, x, number) for p in later for x in trace[p].operands)
            kept = read or number == now or any(holds(trace, x, number) for x in states)
            alive += trace[number].size * (kept and not holds(trace, output, number))
        assert found[now] == alive


@given(traces(), st.data())
def test_a_chain_is_a_longest_path(trace: list[Operation], data: st.DataObject) -> None:
    def longest(place: int) -> int:
        return 0 if place < 0 else trace[place].steps + max(map(longest, trace[place].operands), default=0)

    end = data.draw(st.integers(0, len(trace) - 1))
    assert longest_chain(trace, [end]) == longest(end)
