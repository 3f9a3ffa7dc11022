"""`attnproof cost`: what each form of a derivation costs, counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from attnproof.catalogue import Catalogue, load_catalogue
from attnproof.commands.group import UsageProblem, attnproof, end, save, with_folders, with_json
from attnproof.commands.output import print_table, table
from attnproof.cost_sheets import (
    NOT_COUNTED,
    best_chunk_lines,
    count_text,
    crossover_text,
    missing_lines,
    number_text,
)
from derivations.language.statements import Derivation
from numerics.costs.best_chunk import SMALLEST
from numerics.costs.comparison import COMPARED, Crossover, Setting, best_chunks, crossovers
from numerics.costs.system import OPERATIONS, FormCosts, costs_of

KEPT = ("saved for backward", "peak memory", "longest chain")
AS_NUMBERS = ("operations", "weighted", "saved for backward", "peak memory", "one more token", "kept")
SIZE = click.IntRange(min=1)
TOKENS = click.IntRange(min=SMALLEST)


@attnproof.command(short_help="Count what each form costs.")
@click.argument("name")
@click.option("--d-k", type=SIZE, default=128, show_default=True, help="The width of queries and keys.")
@click.option("--d-v", type=SIZE, default=128, show_default=True, help="The width of values.")
@click.option("--chunk", type=TOKENS, default=64, show_default=True, help="How many tokens a block has.")
@click.option("--length", type=TOKENS, default=4096, show_default=True, help="How many tokens a sequence has.")
@click.option(
    "--ratio",
    type=SIZE,
    default=16,
    show_default=True,
    help="How many times faster products of matrices are than other operations: an assumption about the machine.",
)
@with_json("Write the polynomials, and what follows from them, here.")
@with_folders
@click.pass_context
def cost(
    ctx: click.Context,
    name: str,
    d_k: int,
    d_v: int,
    chunk: int,
    length: int,
    ratio: int,
    json_file: Path | None,
    folders: tuple[str, ...],
) -> None:
    """Count what each form of a derivation costs: operations, memory, and steps that wait for one another.

    Counts are exact polynomials: for a whole sequence, forwards, and for one more token. At the sizes that are asked
    for they say from which length on one form takes less than another, and which size of a block is best.

    \b
    Examples:
      attnproof cost linear_attention
      attnproof cost gated_deltanet --d-k 64 --d-v 64 --chunk 32 --ratio 8
      attnproof cost mine --derivations my_systems --json cost.json
    """
    catalogue = load_catalogue(folders)
    derivation = _with_forms(catalogue, name)
    setting = Setting(d_k, d_v, chunk, length, ratio)
    costs = [costs_of(form_name, form, chunk) for form_name, form in derivation.forms.items()]
    pairs, best = crossovers(costs, setting), best_chunks(costs, setting)
    click.echo(f"{derivation.name}: {derivation.title}")
    for head, rows in _tables(costs, pairs, setting):
        click.echo(f"\n{head}\n")
        print_table(rows)
    if best_lines := list(best_chunk_lines(costs, best, setting)):
        click.echo(f"\nThe best size of a block, where products of matrices are {ratio} times as fast as the rest\n")
        click.echo("\n".join(best_lines))
    if missing := list(missing_lines(costs)):
        click.echo("\n" + "\n".join(missing))
    counted = any(form.sequence.found for form in costs)
    record = {
        "ok": counted,
        "derivation": name,
        "at": asdict(setting),
        "forms": [form.as_json() for form in costs],
        "crossovers": [asdict(pair) for pair in pairs],
        "best_chunks": {form: found.as_json() for form, found in best.items()},
    }
    save(record, json_file)
    end(ctx, catalogue.broken, counted)


def _with_forms(catalogue: Catalogue, name: str) -> Derivation:
    derivation = catalogue.derivations.get(name)
    if derivation is None:
        owner = catalogue.select([name])[0].derivation.name
        raise UsageProblem(f"{name} isn't a derivation. Costs are those of a whole one, such as {owner}")
    if not derivation.forms:
        raise UsageProblem(f"{name} states no form that could be counted; `attnproof list` shows which have some")
    return derivation


def _tables(costs: Sequence[FormCosts], pairs: Sequence[Crossover], setting: Setting) -> Iterator[tuple[str, Table]]:
    kinds = [kind for kind in OPERATIONS if any(form.takes(kind) for form in costs)]
    none = "".join(f", no {kind}" for kind in OPERATIONS if kind not in kinds)
    yield f"Scalar operations, for a sequence of n tokens{none}", _of_sequence(costs, kinds, setting)
    yield "Numbers kept, and steps that wait for one another", _of_sequence(costs, KEPT, setting)
    yield "Scalar operations for one more token, and the numbers kept for it", _of_token(costs, kinds, setting)
    sizes = ", ".join(f"{x} = {size}" for x, size in setting.sizes(costs).items())
    yield f"At {sizes}; weighted: 1 / {setting.ratio} for products of matrices", _as_numbers(costs, setting)
    if pairs:
        yield "Which of two forms takes less, and from which length on", _crossovers(pairs)


def _of_sequence(costs: Sequence[FormCosts], quantities: Sequence[str], setting: Setting) -> Table:
    rows = table("form", *quantities)
    for form in costs:
        rows.add_row(*map(Text, (form.name, *(count_text(form.sequence, x, setting) for x in quantities))))
    return rows


def _of_token(costs: Sequence[FormCosts], kinds: Sequence[str], setting: Setting) -> Table:
    quantities = (*kinds, "kept")
    rows = table("form", "from its", *quantities)
    for form in costs:
        cells = (count_text(form.token, x, setting) for x in quantities)
        rows.add_row(*map(Text, (form.name, form.token_from, *cells)))
    return rows


def _as_numbers(costs: Sequence[FormCosts], setting: Setting) -> Table:
    rows = table("form", *AS_NUMBERS, numbers=AS_NUMBERS)
    for form in costs:
        sequence, token = form.sequence, form.token
        saved, peak = (sequence.found.get(quantity) for quantity in KEPT[:2])
        totals = (sequence.operations, sequence.weighted(setting.ratio), saved, peak, token.operations)
        kept = token.found.get("kept")
        rows.add_row(Text(form.name), *(number_text(total, setting) for total in (*totals, kept)))
    return rows


def _crossovers(pairs: Sequence[Crossover]) -> Table:
    rows = table("form", "and", *COMPARED)
    cells = {(pair.forms, pair.compared): crossover_text(pair) for pair in pairs}
    for forms in dict.fromkeys(pair.forms for pair in pairs):
        rows.add_row(*map(Text, (*forms, *(cells.get((forms, x), NOT_COUNTED) for x in COMPARED))))
    return rows
