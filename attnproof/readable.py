"""What was found, in words: the cells of the table, reasons, and counterexamples as a person would write them down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from attnproof.catalogue import BrokenModule
from attnproof.checking import Unfinished
from derivations.language.facts import Fact
from derivations.language.statements import Backward, Identity, compared_in
from numerics.evidence import Counterexample, Evidence
from numerics.inputs import label
from numerics.proofs.ladder import BackwardReport, FactReport, Report

Rows = list[list[str]]

LISTED_ENTRIES = 8
"""Up to so many entries that aren't 1 are listed one by one; beyond, whole inputs are written."""


def counterexample_lines(identity: Identity, found: Counterexample) -> list[str]:
    """The inputs, both sides, and the factorised gap.

    refuted by n = 2, d_k = 1, d_v = 1: gamma_2 = 1/2, everything else 1
      left  (1, 1)    right  (1, 1/2)
      gap in row 2: (1 - gamma_2) k_1 k_2^2 q_2 v_1
    """
    sizes = ", ".join(
        f"{name} = {found.sizes[name]}" for name in sorted(found.sizes, key=lambda name: (name != "n", name))
    )
    inputs = _inputs(identity, found)
    row, column = found.entry
    where = f"row {row}" if len(found.left[0]) == 1 else f"row {row}, column {column}"
    compared = "" if found.compared == "output" else f"{found.compared}, "
    return [
        f"refuted by {sizes}: {inputs[0]}",
        *(f"  {line}" for line in inputs[1:]),
        *(f"  {line}" for line in _side_by_side("left", found.left, "right", found.right)),
        f"  gap in {compared}{where}: {readable(found.gap)}",
    ]


def readable(gap: str) -> str:
    """A polynomial in SymPy's syntax as it is written by hand: -1*k_1**2*q_2 is -k_1^2 q_2."""
    return re.sub(r"(?<![\w*])-1\*(?!\*)", "-", gap).replace("**", "^").replace("*", " ")


def _inputs(identity: Identity, found: Counterexample) -> list[str]:
    """What the inputs are, in one line; in more where many entries differ from 1."""
    entries = _entries(identity, found)
    others = {name: value for name, value in entries.items() if value != "1"}
    if len(others) > LISTED_ENTRIES:
        return ["these inputs", *(f"{name} = {_in_line(rows)}" for name, rows in found.inputs.items())]
    listed = [f"{name} = {value}" for name, value in others.items()]
    if len(others) < len(entries):
        listed.append("everything else 1" if others else "everything 1")
    return [", ".join(listed)]


def _entries(identity: Identity, found: Counterexample) -> dict[str, str]:
    """The entries of all inputs under the names that the gap has for them."""
    symbols: dict[str, Any] = {str(x): x for x in identity.inputs()}
    return {
        label(symbols[name], row, column, (len(rows), len(rows[0]))): value
        for name, rows in found.inputs.items()
        for row, values in enumerate(rows)
        for column, value in enumerate(values)
    }


def _in_line(rows: Rows) -> str:
    """(1, 2) for a column, (1, 2; 3, 4) for a matrix."""
    if len(rows[0]) == 1:
        return f"({', '.join(row[0] for row in rows)})"
    return f"({'; '.join(', '.join(row) for row in rows)})"


def _side_by_side(left_name: str, left: Rows, right_name: str, right: Rows) -> list[str]:
    blocks = [_block(left_name, left), _block(right_name, right)]
    width = max(map(len, blocks[0]))
    return [f"{a:{width}}    {b}".rstrip() for a, b in zip_longest(*blocks, fillvalue="")]


def _block(name: str, rows: Rows) -> list[str]:
    """A column as a row, a matrix as aligned lines."""
    if len(rows[0]) == 1:
        return [f"{name}  {_in_line(rows)}"]
    width = max(len(entry) for row in rows for entry in row)
    lines = ["  ".join(entry.rjust(width) for entry in row) for row in rows]
    return [f"{name if k == 0 else ' ' * len(name)}  {line}" for k, line in enumerate(lines)]


def cell(evidence: Evidence) -> str:
    """One rung of one identity, short enough for a table: the verdict, and how far it reaches where it holds."""
    reach = _reach(evidence) if evidence.verdict == "holds" else ""
    return reach or evidence.verdict


def _reach(evidence: Evidence) -> str:
    """The longest n, the error bound, every n, the worst error in tolerances, or how many assumptions are needed or
    mutants refuted.
    """
    match evidence.rung, evidence.details:
        case "exact", {"method": str(method)}:
            return method
        case "exact", _ if evidence.sizes:
            return f"n <= {max(size['n'] for size in evidence.sizes)}"
        case "field", {"error_bound_log2": bits}:
            return f"2^{bits:.0f}"
        case "every-length", _:
            return "every n"
        case "floats", {"error_over_tolerance": dict(errors)} if errors:
            return f"{max(errors.values()):.2f} tol"
        case "assumptions", details:
            return f"{len(details['needed'])} needed" if "needed" in details else "none"
        case "mutants", {"mutants": int(planted), "refuted": int(refuted)} if planted:
            return f"{refuted}/{planted}"
    return ""


def why(statement: Identity | Fact | Backward, report: Report) -> list[str]:
    """Why a verdict isn't the expected one: what each rung says, and the counterexample. No lines where it is."""
    if report.ok:
        return []
    said = [f"{e.rung}: {e.message}" for e in report.evidence if e.message]
    if isinstance(report, Unfinished):
        said.append(report.message)
    if report.verdict == report.expected:
        said.append("no counterexample was found at small sizes, so that the refutation can't be checked by hand")
    if report.counterexample is not None and not isinstance(statement, Fact):
        said += counterexample_lines(compared_in(statement), report.counterexample)
    head = f"{report.id}: {report.verdict}, expected: {report.expected} ({statement.place})"
    return [head, *(f"  {line}" for line in said)]


def summary_of(reports: Sequence[Report], broken: Sequence[BrokenModule]) -> str:
    """29 identities: 24 hold, 5 refuted as expected, 0 unexpected; 2 broken modules."""
    expected = [report.verdict for report in reports if report.ok]
    holding, refuted = expected.count("holds"), expected.count("refuted")
    text = (
        f"{_kinds_of(reports)}: {counted(holding, 'holds', 'hold')}, "
        f"{refuted} refuted as expected, {len(reports) - len(expected)} unexpected"
    )
    return f"{text}; {counted(len(broken), 'broken module', 'broken modules')}" if broken else text


def _kinds_of(reports: Sequence[Report]) -> str:
    """29 identities, 3 facts and 2 backward passes; what there is none of isn't named."""
    facts, passes = (sum(isinstance(r, kind) for r in reports) for kind in (FactReport, BackwardReport))
    kinds = [counted(facts, "fact", "facts")] if facts else []
    kinds += [counted(passes, "backward pass", "backward passes")] if passes else []
    identities = len(reports) - facts - passes
    if identities or not kinds:
        kinds.insert(0, counted(identities, "identity", "identities"))
    return " and ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)


def counted(number: int, one: str, many: str) -> str:
    """1 identity, 2 identities."""
    return f"{number} {one if number == 1 else many}"
