"""`docs/audit.md`, from a record: what was audited, what was found, and how to run each finding again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attnproof.audit.table import libraries
from attnproof.catalogue import load_catalogue

HEAD = """# Kernels audited

`attnproof audit --effort {effort} --backward --json docs/audit.json --markdown docs/audit.md` has written this page;
its verdicts and errors are from that record. The subjects are public functions that install from the package index and
run on a CPU, at pinned versions. Kernels in Triton are run by Triton's interpreter, which says nothing of how they are
compiled. Each is held against the statement of its system in the catalogue, in float32 where nothing else is said, with
blocks of 16 tokens where it takes their size.

A finding says that a function differs from the statement here, in the convention that is given. Whether that is an
error is for its authors to say: a formula may differ from a paper's on purpose. What is said of a finding was read in
the function's code; where its last sentence says what the function computes instead, the run has confirmed it.

{subjects} subjects of {libraries} libraries: {agrees} agree, {finding} with a finding, {unclear} unclear, {not_run}
not run. attnproof {attnproof}, {versions}, seed {seed}.
"""
TRIED = """## What was tried

The checks of [the oracle](oracle.md), and besides:

- *gradients in norm*: derivatives by every argument, of 67 tokens in blocks of 64, with log gates down to -1, -3, -6
  and -20 a step, beside those of this project's own token by token implementation in float64. They must be finite, and
  within 12 u of the largest entry for each token and each unit of the log gates: so much rounding comes from sums of
  logarithms.
- for TTT-Linear and Titans, *derivative of the loss*: one step, against automatic differentiation of the loss.
- that the functions of several models of transformers have the same source; it is audited once.

Error is the largest error over its tolerance among the checks that hold. A subject is unclear if no check failed, but
one tested nothing.
"""


def markdown(recorded: Mapping[str, Any]) -> str:
    """The page."""
    subjects = recorded["subjects"]
    parts = [_head(recorded), _findings(subjects), TRIED]
    parts += [_library(name, subjects) for name in dict.fromkeys(x.name for x in libraries()) if _of(name, subjects)]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _head(recorded: Mapping[str, Any]) -> str:
    subjects = recorded["subjects"]
    verdicts = [x["verdict"] for x in subjects]
    counts = {key: verdicts.count(key.replace("_", " ")) for key in ("agrees", "finding", "unclear", "not_run")}
    versions = ", ".join(f"{name} {x}" for name, x in recorded["versions"].items())
    named = {"subjects": len(subjects), "libraries": len({x["library"] for x in subjects}), "versions": versions}
    own = {key: recorded[key] for key in ("attnproof", "seed", "effort")}
    return HEAD.format(**counts, **named, **own)


def _findings(subjects: Iterable[Mapping[str, Any]]) -> str:
    found = [x for x in subjects if x["verdict"] == "finding"]
    if not found:
        return "## Findings\n\nNone.\n"
    return "## Findings\n\n" + "\n".join(_finding(x) for x in found)


def _finding(x: Mapping[str, Any]) -> str:
    failed = [check for check in x["checks"] if check["verdict"] == "refuted"]
    kept = [check["check"] for check in x["checks"] if check["verdict"] == "holds"]
    lines = [
        f"### {x['name']}\n",
        f"{x['library']} {x['version']}, `{x['home']}`, as {_title(x)}; called: {x['called']}.\n",
        f"{x['finding'] or 'What it is isn’t known yet.'}{' ' + x['confirmed'] if x['confirmed'] else ''}\n",
        *(f"- {check['check']}: {check['message']}" for check in failed[:3]),
    ]
    if len(failed) > 3:
        lines.append(f"- also: {', '.join(check['check'] for check in failed[3:])}")
    if kept:
        lines.append(f"- right: {', '.join(kept)}")
    lines.append(f"- smallest input found: {x['smallest_input']}\n" if x["smallest_input"] else "")
    return "\n".join([*lines, *_code(x["replay"])])


def _code(replay: str) -> Iterator[str]:
    if replay:
        yield "```"
        yield from replay.split("; ")
        yield "```\n"


def _of(library: str, subjects: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [x for x in subjects if x["library"] == library]


def _library(name: str, subjects: Iterable[Mapping[str, Any]]) -> str:
    own = _of(name, subjects)
    rows = ["| function | as | called | tried | error | verdict |", "|---|---|---|---|---|---|", *map(_row, own)]
    return f"## {name} {own[0]['version']}\n\n" + "\n".join(rows) + "\n" + "\n".join(_copies(own))


def _row(x: Mapping[str, Any]) -> str:
    said = ", ".join(c["check"] for c in x["checks"] if c["verdict"] != "skipped")
    error = max((c["error_over_tolerance"] for c in x["checks"] if c["verdict"] == "holds"), default=None)
    verdict = f"{x['verdict']}: {x['why']}" if x["why"] else x["verdict"]
    linked = f"[{verdict}](#{_anchor(x['name'])})" if x["verdict"] == "finding" else verdict
    shown = "" if error is None else f"{error:.2g}"
    return f"| `{x['home']}` | {_title(x)} | {x['called']} | {said} | {shown} | {linked} |"


def _copies(own: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for x in own:
        if x["same_source"]:
            function = x["home"].split(":")[1]
            models = ", ".join(home.split(".")[2] for home in x["same_source"])
            yield f"\n`{function}` has the same source in {models}."


def _anchor(name: str) -> str:
    """As GitHub makes one of a heading."""
    return "".join(c for c in name.lower() if c.isalnum() or c in "-_ ").replace(" ", "-")


def _title(x: Mapping[str, Any]) -> str:
    return load_catalogue().derivations[x["derivation"]].title
