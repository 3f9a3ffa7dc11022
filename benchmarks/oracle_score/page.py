"""The page docs/oracle_score.md, from a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.oracle_score.record import LARGEST, OTHERS, Scored, false_alarms, scored, totals

HEAD = """# How well the oracle judges

    make oracle-score

plants faults in kernels, one at a time, and asks the oracle; then it asks about implementations that are right. This
page is written by `make oracle-score ARGS=--write`, from benchmarks/oracle_score/record.json.
"""
FAULTS_TEXT = """## Planted faults

The kernels are in benchmarks/oracle_score/kernels: plain Torch, most by chunks of 16 tokens, written from the papers.
"Source" is where a fault was found in public code (repository and issue). "bf16" is what the oracle says with bfloat16
inputs; "small" stands for a fault that stays within twice the oracle's own tolerance for bfloat16 with sums in float32,
where it need not be seen. "Named" says whether the diagnosis says what is wrong, for faults that are another formula.
The last three columns are what other people's checks say in float32, each as its users run it, on T = 128, d_k = d_v =
32: `torch.testing.assert_close` at its defaults on output and state; a global RMS ratio below 0.005 on output, state
and gradients; `allclose` at 1e-2 on the output.
"""
HONEST_TEXT = """## Honest implementations

Each run is the oracle at quick effort with a seed of its own. "Ratio" is the largest error over tolerance of all runs:
what reaches 1 is refuted.
"""


def page(record: dict[str, Any]) -> str:
    """The whole page."""
    sums = "\n".join(f"- {line}" for line in totals(record))
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    parts = [HEAD, f"{sums}\n\nMeasured with {versions}.\n", FAULTS_TEXT, _faults(scored(record)), _missed(record)]
    return "\n".join([*parts, HONEST_TEXT, _honest(record["honest"]), _alarms(record)]).rstrip() + "\n"


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [" | ".join(x.replace("|", r"\|") for x in line) for line in (head, ["---"] * len(head), *rows)]
    return "".join(f"| {line} |\n" for line in lines)


def _faults(faults: Sequence[Scored]) -> str:
    head = ("system", "fault", "kind", "source", "float32", "bf16", "caught by", "named", *OTHERS)
    return table(head, (_row(x) for x in faults))


def _row(x: Scored) -> list[str]:
    bfloat16 = "caught" if x.caught("bfloat16") else "**missed**" if x.larger_than_bfloat16 else "small"
    named = {None: "", True: "yes", False: "no"}[x.named]
    checks = ", ".join(x.by_dtype["float32"]["checks"])
    return [
        x.fault.system,
        x.fault.name,
        x.fault.kind,
        x.fault.source,
        "caught" if x.caught("float32") else "**missed**",
        bfloat16,
        checks,
        named,
        *("caught" if x.others(name) else "missed" for name in OTHERS),
    ]


def _missed(record: dict[str, Any]) -> str:
    missed = [f"- {x.fault.id}: in {' and '.join(x.missed)}" for x in scored(record) if x.missed]
    unnamed = [f"- {x.fault.id}: {x.diagnosis or 'nothing is said'}" for x in scored(record) if x.named is False]
    parts = ["Missed:\n", *missed, ""] if missed else []
    return "\n".join(
        [*parts, *(["Formula faults that aren't named as what they are:\n", *unnamed, ""] if unnamed else [])]
    )


def _honest(rows: Sequence[dict[str, Any]]) -> str:
    by_id: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        by_id.setdefault((row["id"], row["dtype"]), []).append(row)
    head = ("implementation", "precision", "runs", "refuted", "vacuous", "ratio")
    return table(head, (_honest_row(*key, own) for key, own in by_id.items()))


def _honest_row(name: str, dtype: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    verdicts = [row["verdict"] for row in rows]
    ratio = max(row["ratio"] for row in rows)
    counts = [str(len(rows)), str(verdicts.count("refuted")), str(verdicts.count("vacuous"))]
    return [name, dtype, *counts, "infinite" if ratio >= LARGEST else f"{ratio:.2g}"]


def _alarms(record: dict[str, Any]) -> str:
    lines = [f"- {row['id']}: {row['replay']}" for row in false_alarms(record)]
    return "\n".join(["False alarms:\n", *lines, ""]) if lines else ""
