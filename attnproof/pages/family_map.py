"""The family map: systems in layers, general ones to the left, and a line for each reduction.

The layers and the order in them are igraph's (Sugiyama, Tagawa & Toda 1981, with few crossings).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import igraph

from attnproof.family import Edge
from attnproof.pages.spacing import apart

COLUMN, ROW = 230.0, 42.0
"""From layer to layer, and from system to system, in units of the drawing."""
BOX = (150.0, 28.0)
MARGIN = 16.0

Point = tuple[float, float]


@dataclass(frozen=True)
class Node:
    """A system: its name, title, and the upper left corner of its box."""

    name: str
    title: str
    x: float
    y: float


@dataclass(frozen=True)
class Line:
    """A reduction: the edge, the curve as an SVG path, and where its condition is written."""

    edge: Edge
    path: str
    label: Point


@dataclass(frozen=True)
class Map:
    """Boxes and lines, the size of the drawing and of a box."""

    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]
    width: float
    height: float
    box: Point = BOX


def draw(edges: Sequence[Edge], titles: Mapping[str, str]) -> Map:
    """Where everything stands.

    Args:
        edges: the reductions.
        titles: of the systems, by name.
    """
    names = sorted({name for edge in edges for name in (edge.general, edge.special)})
    index = {name: number for number, name in enumerate(names)}
    ends = [(index[edge.general], index[edge.special]) for edge in edges]
    centres, bends = _layout(len(names), ends)
    nodes = tuple(
        Node(name, titles.get(name, name), x - BOX[0] / 2, y - BOX[1] / 2)
        for name, (x, y) in zip(names, centres, strict=True)
    )
    lines = tuple(
        Line(edge, *_curve([centres[start], *bends[number], centres[end]]))
        for number, (edge, (start, end)) in enumerate(zip(edges, ends, strict=True))
    )
    points = [*centres, *(point for own in bends for point in own)]
    width = max((x for x, _ in points), default=0) + BOX[0] / 2 + MARGIN
    height = max((y for _, y in points), default=0) + BOX[1] / 2 + MARGIN
    return Map(nodes, lines, width, height)


def _layout(systems: int, ends: Sequence[tuple[int, int]]) -> tuple[list[Point], list[list[Point]]]:
    """The centres of the systems, and the bends of each edge, where it passes through layers between its own.

    An edge gets a vertex of its own in each layer that it passes through: igraph orders these with the systems.
    """
    layers = _layers(systems, ends)
    passes: list[list[int]] = []
    for start, end in ends:
        between = range(layers[start] + 1, layers[end])
        passes.append([*range(len(layers), len(layers) + len(between))])
        layers += between
    chains = [[start, *own, end] for (start, end), own in zip(ends, passes, strict=True)]
    segments = [pair for chain in chains for pair in pairwise(chain)]
    drawn = igraph.Graph(len(layers), segments, directed=True).layout_sugiyama(layers=layers, maxiter=1000)
    rows = _rows([x for x, _ in drawn.coords], layers)
    points = [
        (MARGIN + BOX[0] / 2 + COLUMN * layer, MARGIN + BOX[1] / 2 + ROW * row)
        for layer, row in zip(layers, rows, strict=True)
    ]
    return points[:systems], [[points[vertex] for vertex in own] for own in passes]


def _rows(places: Sequence[float], layers: Sequence[int]) -> list[float]:
    """The row of each vertex, from zero on. igraph centres layers, and may put two vertices closer than one row."""
    found = [0.0] * len(places)
    for layer in set(layers):
        own = sorted((place, vertex) for vertex, place in enumerate(places) if layers[vertex] == layer)
        for (_, vertex), row in zip(own, apart([place - min(places) for place, _ in own], 1.0), strict=True):
            found[vertex] = row
    return found


def _layers(systems: int, ends: Sequence[tuple[int, int]]) -> list[int]:
    """For each system its layer: as far left of those that it reduces to as the longest way there is."""
    graph = igraph.Graph(systems, list(ends), directed=True)
    graph.delete_edges(graph.feedback_arc_set())  # two systems that are each a case of the other
    steps = [0] * systems
    for vertex in reversed(graph.topological_sorting()):
        steps[vertex] = max((steps[other] + 1 for other in graph.successors(vertex)), default=0)
    return [max(steps, default=0) - own for own in steps]


def _curve(points: Sequence[Point]) -> tuple[str, Point]:
    """A smooth path from the right side of the first box to the left side of the last, and where it begins to bend.

    It is level where it passes a layer, so that it doesn't cross the boxes beside it.
    """
    start, *bends, end = points
    half = BOX[0] / 2
    levels = [(start[0] + half, start[0] + half, start[1])]
    levels += [(x - half, x + half, y) for x, y in bends]
    levels += [(end[0] - half, end[0] - half, end[1])]
    path = f"M{levels[0][0]:.0f} {levels[0][2]:.0f}"
    for (_, x, y), (to_x, level_to, to_y) in pairwise(levels):
        middle = (x + to_x) / 2
        path += f" C{middle:.0f} {y:.0f} {middle:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f} H{level_to:.0f}"
    half_way = (len(levels) - 1) // 2
    (_, x, y), (to_x, _, to_y) = levels[half_way : half_way + 2]
    return path, ((x + to_x) / 2, (y + to_y) / 2)
