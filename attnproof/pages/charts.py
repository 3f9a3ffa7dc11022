"""Charts as SVG: masks as heat maps, costs as curves. Their colours are those of the page, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from sympy import Expr, lambdify

from attnproof.pages.spacing import apart
from attnproof.pages.wording import words
from derivations.language import Gamma, Gamma_shifted, Gamma_strict, M, M_strict, gamma
from derivations.language.forms import Closed
from derivations.language.symbols import n
from numerics.algebras.floats import numpy_float64
from numerics.run import run

INK, FAINT, ACCENT = "#000001", "#000002", "#000003"
SERIES = tuple(f"#0000{number:02x}" for number in range(16, 24))
"""Colours that stand for variables of the style sheet, since a chart doesn't know how the page looks."""
VARIABLES = {INK: "--ink", FAINT: "--faint", ACCENT: "--accent"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES, start=1)
}
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)), (0, (4, 1, 1, 1)))
"""Lines differ in their dashes too, and not only in colour."""
LENGTHS = tuple(2**power for power in range(4, 17))
GATES = (0.9, 0.5, 0.8, 0.6, 0.9)
"""The gates of the tokens whose masks are drawn, all different enough for the shift to be seen."""
MASKS = {"M": M, "M_strict": M_strict, "Gamma": Gamma, "Gamma_strict": Gamma_strict, "Gamma_shifted": Gamma_shifted}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DARKEST = 0.5
"""How opaque a one is: the number in the cell stays readable."""
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "attnproof",
    "font.size": 10,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "grid.color": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Chart:
    """A drawing and the same in words."""

    svg: Markup
    says: str


def drawn(figure: Figure, name: str, says: str) -> Chart:
    """A figure as SVG for a page.

    Args:
        figure: what is drawn, in the colours of this module.
        name: unique on its page, for the ids inside.
        says: the text alternative.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.DOTALL)  # it would style the whole page
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text.replace("xlink:href", "href"))
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    text = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg class="chart" role="img" \1>', text, count=1)
    label = Markup('<svg aria-label="{}" ').format(says)
    return Chart(label + Markup(text.removeprefix("<svg ")), says)


def masks() -> list[tuple[str, Chart]]:
    """Each mask of the language for a few tokens: its name and a heat map with its numbers."""
    tokens = len(GATES)
    env = {n: tokens, gamma: np.array(GATES)[:, None]}
    found = []
    for name, mask in MASKS.items():
        values = np.broadcast_to(run(Closed(mask), env, numpy_float64()).output, (tokens, tokens))
        found.append((name, _heat_map(name, values)))
    return found


def _heat_map(name: str, values: np.ndarray) -> Chart:
    rows = "; ".join(" ".join(f"{value:.3g}" for value in row) for row in values)
    says = words()["chart"]["mask"].format(name=words()["mask"][name]["name"], rows=rows)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.6, 2.6))
        axes = figure.add_axes((0.15, 0.17, 0.82, 0.82))
        for (i, j), value in np.ndenumerate(values):
            axes.add_patch(Rectangle((j, i), 1, 1, facecolor=ACCENT, alpha=DARKEST * float(value), linewidth=0))
            axes.text(j + 0.5, i + 0.5, f"{value:.2g}", ha="center", va="center", fontsize=9)
        axes.set(xlim=(0, len(values)), ylim=(len(values), 0), aspect="equal")
        ticks = np.arange(len(values)) + 0.5
        numbers = [str(number) for number in range(1, len(values) + 1)]
        axes.set_xticks(ticks, numbers)
        axes.set_yticks(ticks, numbers)
        axes.tick_params(length=0)
        axes.set_xlabel("j")
        axes.set_ylabel("i", rotation=0, labelpad=8)
        return drawn(figure, f"mask-{name}", says)


def cost_curves(name: str, costs: Mapping[str, Expr]) -> Chart | None:
    """Operations against length for each form, on two logarithmic scales; none where nothing is counted.

    Args:
        name: of the derivation.
        costs: for each form a polynomial in n alone.
    """
    values = {form: _values(cost) for form, cost in costs.items()}
    if not values:
        return None
    listed = "; ".join(f"{form}: {value[-1]:.2g}" for form, value in values.items())
    says = words()["chart"]["costs"].format(length=LENGTHS[-1], listed=listed)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.6))
        axes = figure.add_axes((0.1, 0.14, 0.7, 0.83))
        for number, value in enumerate(values.values()):
            axes.plot(LENGTHS, value, color=SERIES[number % len(SERIES)], linestyle=DASHES[number % len(DASHES)])
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
        axes.yaxis.set_major_formatter(lambda value, _: power_of_ten(value))
        axes.minorticks_off()
        axes.grid(linewidth=0.4, alpha=0.5)
        axes.set_xlabel(words()["chart"]["length"])
        axes.set_ylabel(words()["chart"]["weighted"])
        _names_at_the_ends(axes, values)
        return drawn(figure, f"costs-{name}", says)


def power_of_ten(value: float) -> str:
    """1000 is 10³: characters, since matplotlib's own mathematics is slow."""
    return "10" + str(round(np.log10(value))).translate(RAISED)


def error_curves(name: str, lines: Mapping[str, Sequence[tuple[int, float]]]) -> Chart | None:
    """Error over tolerance against length, for each implementation, precision and device; none without measurements.

    Args:
        name: of the derivation.
        lines: pairs (tokens, largest error over tolerance) by what was measured.
    """
    measured = {label: pairs for label, pairs in lines.items() if pairs}
    if not measured:
        return None
    listed = "; ".join(f"{label}: {max(error for _, error in pairs):.2f}" for label, pairs in measured.items())
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.6))
        axes = figure.add_axes((0.08, 0.14, 0.52, 0.83))
        for number, (label, pairs) in enumerate(measured.items()):
            look: Any = {"color": SERIES[number % len(SERIES)], "linestyle": DASHES[number % len(DASHES)]}
            axes.plot(*zip(*pairs, strict=True), marker="o", markersize=3, label=label, **look)
        axes.axhline(1.0, color=INK, linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
        axes.set_xlabel(words()["chart"]["length"])
        axes.set_ylabel(words()["chart"]["tolerances"])
        figure.legend(loc="center right", frameon=False, fontsize=8)
        return drawn(figure, f"errors-{name}", words()["chart"]["errors"].format(listed=listed))


def _values(cost: Expr) -> np.ndarray:
    function = lambdify(n, cost, "math")
    return np.array([max(float(function(length)), 1.0) for length in LENGTHS])


def _names_at_the_ends(axes: Axes, values: Mapping[str, np.ndarray]) -> None:
    """The name of each curve where it ends, moved apart where two would cover one another."""
    low, high = np.log(axes.get_ylim())
    ends = sorted((np.log(value[-1]), number, form) for number, (form, value) in enumerate(values.items()))
    heights = apart([(end - low) / (high - low) for end, _, _ in ends], 0.075)
    for height, (_, number, form) in zip(heights, ends, strict=True):
        colour = SERIES[number % len(SERIES)]
        axes.text(1.01, height, form.replace("_", " "), transform=axes.transAxes, va="center", color=colour)
