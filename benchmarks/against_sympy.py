"""The exact rung against SymPy's own matrices: the same identities at the same sizes, and the ratio of the times.

    python benchmarks/against_sympy.py [--limit SECONDS] [--tokens N]... [--json FILE] [ID ...]

SymPy's side is what one would write by hand: `Matrix` products, `LUsolve` for an inverse, recurrences unrolled token
by token, and then `expand`, `cancel` or `simplify` on each entry of left - right. It is driven by the same walk over
the same statement. Each measurement runs in a process of its own with a time limit, since SymPy may not end; the time
is taken inside it, without start and imports.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sympy import Expr, Matrix, Rational, Symbol, cancel, expand, simplify

from attnproof import load_catalogue
from derivations.language.statements import Identity
from derivations.language.structure import Structure
from numerics.algebras.contract import Value
from numerics.algebras.objects import ObjectAlgebra
from numerics.evaluate import RootOf
from numerics.inputs import Sizes, add_values, plan, shape_of, symbolic_inputs
from numerics.proofs.compare import sides
from numerics.proofs.exact import gap_at

IDENTITIES = (
    "linear_attention.recurrent_is_matrix",
    "deltanet.recurrent_is_matrix",
    "gated_deltanet.recurrent_is_matrix",
    "gated_deltanet.recurrent_is_chunkwise",
    "gated_deltanet.gamma_rewrite",
    "gated_deltanet.printed_as_gated_deltanet",
)
TOKENS = (2, 3, 4, 6)
D_K, D_V = 2, 1
METHODS: dict[str, Callable[[Expr], Expr]] = {"expand": expand, "cancel": cancel, "simplify": simplify}
OURS = "exact rung"


class SymPyMatrices(ObjectAlgebra):
    """Entries are SymPy expressions; products and linear systems are SymPy's own."""

    name = "SymPy matrices"

    def entry(self, value: Rational) -> Expr:
        return value

    def entry_reciprocal(self, entry: Expr) -> Expr:
        return 1 / entry

    def matmul(self, a: Value, b: Value) -> Value:
        return np.array(Matrix(a) * Matrix(b), dtype=object)

    def solve(self, a: Value, b: Value, structure: Structure) -> Value:
        del structure  # SymPy isn't told that a system is triangular
        return np.array(Matrix(a).LUsolve(Matrix(b)), dtype=object)


def symbols(identity: Identity, sizes: Sizes) -> dict[Any, Any]:
    """Every entry of every input as a SymPy symbol."""
    how, env = plan(identity), dict(sizes.environment(identity))
    for name, (x, row, column) in symbolic_inputs(identity, sizes).entries.items():
        key = RootOf(x) if x in how.squares else x
        env.setdefault(key, np.empty(shape_of(x, env), dtype=object))[row, column] = Symbol(name)
    for x in how.squares:
        env[x] = env[RootOf(x)] ** 2
    add_values(how, env, SymPyMatrices())
    return env


def shown_by_sympy(identity: Identity, sizes: Sizes, method: Callable[[Expr], Expr]) -> bool:
    """Whether a method of SymPy's brings every entry of left - right to zero."""
    env = symbols(identity, sizes)
    pairs = sides(identity, env, SymPyMatrices())
    return all(method(entry) == 0 for _, left, right in pairs for entry in (left - right).flat)


def measure(name: str, tokens: int, method: str) -> tuple[float, bool]:
    """Seconds, and whether the identity was shown, in this process; one token before it warms the caches up."""
    (entry,) = load_catalogue().select([name])

    def shown(sizes: Sizes) -> bool:
        if method == OURS:
            return gap_at(entry.identity, sizes) is None
        return shown_by_sympy(entry.identity, sizes, METHODS[method])

    shown(Sizes(1, D_K, D_V, chunk=2))
    begun = perf_counter()
    found = shown(Sizes(tokens, D_K, D_V, chunk=2))
    return perf_counter() - begun, found


def measure_apart(name: str, tokens: int, method: str, limit: float) -> tuple[float, bool] | None:
    """The same in a process of its own; None where it didn't end in time."""
    command = [sys.executable, __file__, "--one", name, str(tokens), method]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=True)
    except subprocess.TimeoutExpired:
        return None
    seconds, shown = done.stdout.split()
    return float(seconds), shown == "True"


def cell(ours: float, measured: tuple[float, bool] | None, limit: float) -> str:
    """Seconds and the ratio to the exact rung's."""
    if measured is None:
        return f"did not end within {limit:g} s"
    seconds, shown = measured
    return f"{seconds:.3g} s, {seconds / ours:.0f} x" + ("" if shown else ", not shown")


def rows_of(name: str, tokens: Sequence[int], limit: float) -> Iterator[dict[str, Any]]:
    """Prints the rows of one identity, and yields them. A method that didn't end isn't tried at a larger size."""
    given_up: set[str] = set()
    for length in tokens:
        ours = measure_apart(name, length, OURS, limit)
        if ours is None or not ours[1]:
            raise SystemExit(f"the exact rung doesn't show {name} at n = {length} within {limit:g} s")
        row: dict[str, Any] = {"identity": name, "tokens": length, OURS: ours[0]}
        cells = []
        for method in METHODS:
            found = None if method in given_up else measure_apart(name, length, method, limit)
            cells.append("not tried" if method in given_up else cell(ours[0], found, limit))
            row[method] = None if found is None else found[0]
            given_up |= {method} if found is None else set()
        print(line(name, str(length), f"{ours[0]:.3g} s", *cells), flush=True)
        yield row


def line(name: str, tokens: str, ours: str, *cells: str) -> str:
    """One line of the table."""
    return (f"{name:<42}{tokens:>2}  {ours:<12}" + "".join(f"{text:<27}" for text in cells)).rstrip()


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table, and writes it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("ids", nargs="*", default=IDENTITIES, metavar="ID")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for each measurement, start and imports too")
    parser.add_argument("--tokens", type=int, action="append", help="a length; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="seconds by method; null where one didn't end")
    parser.add_argument("--one", nargs=3, metavar=("ID", "N", "METHOD"), help="one measurement in this process")
    options = parser.parse_args(arguments)
    if options.one:
        name, tokens, method = options.one
        print(*measure(name, int(tokens), method))
        return
    print(line("identity", "n", OURS, *METHODS))
    rows = [row for name in options.ids for row in rows_of(name, options.tokens or TOKENS, options.limit)]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
