"""What the forms of a system cost, as tables of polynomials and a chart. Counting takes a while: in several processes.

The same counts as those of `attnproof cost`, at the sizes that it takes unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from markupsafe import Markup

from attnproof.catalogue import Catalogue, load_catalogue
from attnproof.cost_sheets import (
    NOT_COUNTED,
    best_chunk_lines,
    crossover_text,
    missing_lines,
    number_text,
    polynomial_text,
)
from attnproof.pages.charts import Chart, cost_curves
from attnproof.pages.mathematics import mathml
from attnproof.threads import one_thread_each
from derivations.language.forms import Form
from derivations.language.statements import Derivation
from numerics.costs.comparison import COMPARED, Crossover, Setting, best_chunks, crossovers
from numerics.costs.system import OPERATIONS, SEQUENCE, Costs, FormCosts, costs_of

SETTING = Setting()
KEPT = SEQUENCE[-3:]
"""What is kept and waited for, of what is counted for a whole sequence."""
TOTALS = ("operations", "weighted", "one_more_token", "kept")


@dataclass(frozen=True)
class Table:
    """A table: what it is of, the names of its columns, and its rows, the first cell of each being its head."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str | Markup, ...], ...]


@dataclass(frozen=True)
class CostSheet:
    """Everything that a page says of the costs of a system."""

    tables: tuple[Table, ...]
    totals: tuple[tuple[str, ...], ...]
    best: tuple[str, ...]
    missing: tuple[str, ...]
    chart: Chart | None


def sheets(catalogue: Catalogue, folders: Sequence[str], jobs: int) -> dict[str, CostSheet]:
    """The sheets of all derivations with forms, by name.

    Args:
        catalogue: what there is.
        folders: the user's folders, which other processes load again.
        jobs: how many processes count.
    """
    names = [name for name, derivation in catalogue.derivations.items() if derivation.forms]
    if jobs == 1:
        return {name: sheet(catalogue.derivations[name]) for name in names}
    ordered = sorted(names, key=lambda name: -_weight(catalogue.derivations[name]))
    with one_thread_each(), ProcessPoolExecutor(jobs, get_context("spawn"), _load, (tuple(folders),)) as pool:
        found = dict(zip(ordered, pool.map(_sheet_named, ordered), strict=True))
    return {name: found[name] for name in names}


def _weight(derivation: Derivation) -> int:
    """About how long counting takes: what takes longest begins first."""
    return sum(_operations(form) for form in derivation.forms.values())


def _operations(form: Form) -> int:
    return sum(int(e.count_ops()) if hasattr(e, "count_ops") else 1 for e in form.expressions().values())


_LOADED: dict[str, Derivation] = {}
"""What a counting process has loaded."""


def _load(folders: tuple[str, ...]) -> None:
    _LOADED.update(load_catalogue(folders).derivations)


def _sheet_named(name: str) -> CostSheet:
    return sheet(_LOADED[name])


def sheet(derivation: Derivation) -> CostSheet:
    """The costs of one derivation."""
    costs = [costs_of(name, form, SETTING.chunk) for name, form in derivation.forms.items()]
    best = best_chunks(costs, SETTING)
    curves = {form.name: form.sequence.weighted(SETTING.ratio) for form in costs}
    in_n = {name: SETTING.in_n(cost) for name, cost in curves.items() if cost is not None}
    return CostSheet(
        tuple(_tables(costs, crossovers(costs, SETTING))),
        tuple(_totals(form) for form in costs),
        tuple(best_chunk_lines(costs, best, SETTING)),
        tuple(missing_lines(costs)),
        cost_curves(derivation.name, in_n),
    )


def _tables(costs: Sequence[FormCosts], pairs: Sequence[Crossover]) -> Iterator[Table]:
    kinds = tuple(kind for kind in OPERATIONS if any(form.takes(kind) for form in costs))
    whole = {form.name: form.sequence for form in costs}
    token = {form.name: form.token for form in costs}
    yield _polynomials("operations", whole, kinds)
    yield _polynomials("kept", whole, KEPT)
    yield _polynomials("token", token, (*kinds, "kept"))
    if pairs:
        cells = {(pair.forms, pair.compared): crossover_text(pair).replace("_", " ") for pair in pairs}
        forms = dict.fromkeys(pair.forms for pair in pairs)
        rows = ((" / ".join(pair), *(cells.get((pair, x), NOT_COUNTED) for x in COMPARED)) for pair in forms)
        yield Table("crossovers", ("forms", *COMPARED), tuple(rows))


def _polynomials(caption: str, counts: Mapping[str, Costs], quantities: Sequence[str]) -> Table:
    rows = ((name, *(_cell(found, quantity) for quantity in quantities)) for name, found in counts.items())
    return Table(caption, ("form", *quantities), tuple(rows))


def _cell(counts: Costs, quantity: str) -> str | Markup:
    """A polynomial; of several the greatest at these sizes."""
    if quantity in counts.missing:
        return NOT_COUNTED
    return mathml(polynomial_text(SETTING.greatest(counts.found[quantity])))


def _totals(form: FormCosts) -> tuple[str, ...]:
    """The form's name and its counts as numbers, in the order of TOTALS."""
    sequence, token = form.sequence, form.token
    counts = (sequence.operations, sequence.weighted(SETTING.ratio), token.operations, token.found.get("kept"))
    return form.name, *(number_text(count, SETTING) for count in counts)
