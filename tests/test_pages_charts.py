"""Charts: masks show their numbers, curves their names, and the map of the family keeps its boxes and lines apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pages_site import record, site

from attnproof.family import Edge
from attnproof.pages.charts import (
    GATES,
    LENGTHS,
    VARIABLES,
    Chart,
    cost_curves,
    error_curves,
    masks,
    power_of_ten,
)
from attnproof.pages.family_map import BOX, Map, draw
from attnproof.pages.spacing import apart
from derivations.language.symbols import n

TOKENS = range(len(GATES))


def height(text: ElementTree.Element) -> float:
    """Where a text is, from above."""
    moved = re.search(r"translate\([\d.]+[ ,]+([\d.]+)\)", text.get("transform", ""))
    return float(moved[1] if moved else text.get("y", "nan"))


def by_definition(name: str) -> list[list[float]]:
    """The masks in plain Python, from their definitions."""

    def entry(i: int, j: int) -> float:
        product = 1.0
        for gate in GATES[j + 1 : i + 1] if name != "Gamma_shifted" else GATES[j + 1 : i]:
            product *= gate
        value = 1.0 if name.startswith("M") else product
        return value if i > j or (i == j and name in ("M", "Gamma")) else 0.0

    return [[entry(i, j) for j in TOKENS] for i in TOKENS]


@pytest.mark.parametrize(("name", "chart"), masks(), ids=lambda x: x if isinstance(x, str) else "")
def test_a_heat_map_shows_its_mask(name: str, chart: Chart):
    wanted = by_definition(name)
    numbers = [str(number + 1) for number in TOKENS]
    shown = Counter(text.text for text in ElementTree.fromstring(chart.svg).iter("text"))
    assert shown == Counter([f"{value:.2g}" for row in wanted for value in row] + 2 * numbers + ["i", "j"])
    assert chart.says.endswith("; ".join(" ".join(f"{value:.3g}" for value in row) for row in wanted))


def test_charts_have_the_pages_colours_and_no_others():
    for _, chart in masks():
        root = ElementTree.fromstring(chart.svg)
        assert root.get("role") == "img"
        assert root.get("aria-label") == chart.says
        assert "var(--ink)" in chart.svg
        assert not any(colour in chart.svg for colour in VARIABLES)
        assert "<image" not in chart.svg


def test_a_curve_is_where_its_polynomial_is():
    chart = cost_curves("x", {"linear": 3 * n, "square": n**2 / 2})
    assert chart is not None
    assert f"At n = {LENGTHS[-1]}: linear: {3 * LENGTHS[-1]:.2g}; square: {LENGTHS[-1] ** 2 / 2:.2g}." in chart.says
    texts = {text.text: height(text) for text in ElementTree.fromstring(chart.svg).iter("text")}
    assert texts["square"] < texts["linear"], "the one that takes more is above"
    assert cost_curves("x", {}) is None


def test_powers_of_ten_are_written_with_raised_digits():
    assert [power_of_ten(value) for value in (1.0, 1e3, 1e12, 1e-2)] == ["10⁰", "10³", "10¹²", "10⁻²"]


@given(st.lists(st.floats(0, 1), max_size=8).map(sorted))
def test_names_are_a_gap_apart_and_none_goes_down(heights: list[float]):
    moved = apart(heights, 0.1)
    assert all(later - earlier >= 0.1 - 1e-9 for earlier, later in pairwise(moved))
    assert all(after >= before for before, after in zip(heights, moved, strict=True))


def edges_of(pairs: list[tuple[int, int]]) -> list[Edge]:
    report = next(iter(record().reports.values()))
    return [Edge(f"s{general}", f"s{special}", "x = 0", report) for general, special in pairs]


def numbers(path: str) -> Iterator[float]:
    return (float(number) for number in re.findall(r"-?\d+", path))


def check(drawn: Map) -> None:
    places = {node.name: (node.x, node.y) for node in drawn.nodes}
    for one, other in combinations(drawn.nodes, 2):
        assert abs(one.x - other.x) >= BOX[0] or abs(one.y - other.y) >= BOX[1], (one, other)
    for node in drawn.nodes:
        assert 0 <= node.x <= drawn.width - BOX[0]
        assert 0 <= node.y <= drawn.height - BOX[1]
    for line in drawn.lines:
        first, *_, last = re.findall(r"[MCH][^MCH]*", line.path)
        x, y = numbers(first)
        left, top = places[line.edge.general]
        assert max(abs(x - left - BOX[0]), abs(y - top - BOX[1] / 2)) <= 1
        assert abs(next(numbers(last)) - places[line.edge.special][0]) <= 1
        assert all(0 <= number <= max(drawn.width, drawn.height) for number in numbers(line.path))


def test_the_map_of_the_family_is_drawn_in_order():
    drawn = draw(site().edges, {})
    check(drawn)
    x = {node.name: node.x for node in drawn.nodes}
    assert all(x[edge.general] < x[edge.special] for edge in site().edges)
    assert {node.name for node in drawn.nodes} == {name for e in site().edges for name in (e.general, e.special)}


PAIRS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=14, unique=True)


@example([(1, 0), (1, 2), (2, 4), (3, 1), (3, 4), (3, 5), (4, 0), (5, 1), (6, 0)])  # igraph puts 4 and 6 too close
@given(PAIRS.map(lambda pairs: [(a, b) for a, b in pairs if a != b]).filter(bool))
def test_any_graph_is_drawn_also_one_with_circles(pairs: list[tuple[int, int]]):
    check(draw(edges_of(pairs), {}))


def test_no_reductions_are_an_empty_map():
    drawn = draw([], {})
    assert (drawn.nodes, drawn.lines) == ((), ())


def test_errors_are_drawn_against_length():
    chart = error_curves("x", {"a, float32, gpu": ((1, 0.1), (65, 0.7)), "b, float32, gpu": ()})
    assert chart is not None
    assert "a, float32, gpu: 0.70" in chart.says
    assert "b, float32" not in chart.says
    assert "a, float32, gpu" in [text.text for text in ElementTree.fromstring(chart.svg).iter("text")]
    assert error_curves("x", {"b": ()}) is None
