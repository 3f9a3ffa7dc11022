"""The sheet of a derivation or identity: its statement as text and LaTeX, assumptions, sources, and evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attnproof.catalogue import Entry
from attnproof.checking import Unfinished
from attnproof.readable import cell, counterexample_lines
from derivations.language.assumptions import Assumption
from derivations.language.facts import Fact
from derivations.language.forms import Form, equations, latex_lines, text_lines
from derivations.language.printing import LATEX, TEXT
from derivations.language.statements import Backward, Derivation, Identity
from numerics.evidence import Evidence
from numerics.proofs.ladder import Report

NOTHING: Mapping[str, Sequence[str]] = {}
Decided = Mapping[str, Sequence[str]]
"""The claims that rest on each identity and fact, by its id."""


def derivation_lines(
    derivation: Derivation, reports: Mapping[str, Report], latex: bool = True, decided: Decided = NOTHING
) -> list[str]:
    """A derivation: what it is, its forms, its identities with their evidence, its sources.

    Args:
        derivation: what is shown.
        reports: the evidence by the identities' ids; an identity without a report is shown without evidence.
        latex: whether forms are also written in LaTeX.
        decided: the claims that rest on each identity and fact.
    """
    statements: tuple[Identity | Fact, ...] = (*derivation.identities, *derivation.facts)
    lines = [f"{derivation.title} ({derivation.name})", derivation.summary, str(derivation.place), "", "forms"]
    for name, form in derivation.forms.items():
        lines += _indented([name, *_indented(_form_lines(form, latex))])
    lines += ["", "identities and facts" if derivation.facts else "identities"]
    for entry in (Entry(derivation, statement) for statement in statements):
        lines += [*_indented(identity_lines(entry, reports.get(entry.id), latex, True, decided)), ""]
    lines += _backward_section(derivation, reports, latex, decided)
    return [*lines, *_source_lines(derivation)]


def entry_lines(entry: Entry, report: Report | None, latex: bool = True, decided: Decided = NOTHING) -> list[str]:
    """An identity by itself, with both sides written out and its derivation's sources."""
    return [*identity_lines(entry, report, latex, decided=decided), "", *_source_lines(entry.derivation)]


def identity_lines(
    entry: Entry, report: Report | None, latex: bool = True, named: bool = False, decided: Decided = NOTHING
) -> list[str]:
    """An identity: what it says, both sides, assumptions, where it was printed, its evidence and counterexample.

    Args:
        entry: what is shown.
        report: its evidence, if there is any.
        latex: whether the sides are also written in LaTeX.
        named: whether a side that is one of the derivation's forms is given by its name.
        decided: the claims that rest on each identity and fact.
    """
    if isinstance(entry.statement, Fact):
        return _fact_lines(entry, entry.statement, report, decided)
    if isinstance(entry.statement, Backward):
        return _backward_lines(entry, entry.statement, report, latex, decided)
    identity = entry.statement
    lines = [entry.id, *_indented([identity.says] if identity.says else [])]
    body = [f"expected: {identity.expected}"]
    for name, side in (("left", identity.left), ("right", identity.right)):
        known = _name_of(side, entry.derivation) if named else ""
        body += [f"{name}: {known}"] if known else [f"{name}:", *_indented(_form_lines(side, latex))]
    if identity.assumptions:
        body += ["assumptions:", *_indented(_assumption_line(a, latex) for a in identity.assumptions)]
    body += [f"printed in: {identity.source}"] if identity.source else []
    body += [*_decides(entry, decided), f"stated in: {identity.place}"]
    return [*lines, *_indented([*body, *(_evidence_lines(entry, report) if report else [])])]


def _decides(entry: Entry, decided: Decided) -> list[str]:
    claims = decided.get(entry.id, ())
    return [f"decides: {', '.join(claims)}"] if claims else []


def _fact_lines(entry: Entry, fact: Fact, report: Report | None, decided: Decided) -> list[str]:
    """A fact: what it says, how it is decided, and what that showed."""
    body = [f"expected: {fact.expected}", f"decided by: {fact.check.method}"]
    body += [f"printed in: {fact.source}"] if fact.source else []
    body += [*_decides(entry, decided), f"stated in: {fact.place}"]
    if report is not None:
        shown = [f"shown: {e.details.get('shown', e.message)}" for e in report.evidence]
        body += [_verdict_line(report), *shown]
    return [entry.id, *_indented([fact.says] if fact.says else []), *_indented(body)]


def _backward_section(
    derivation: Derivation, reports: Mapping[str, Report], latex: bool, decided: Decided
) -> list[str]:
    """The backward passes of the forms, and the recurrences for which none can be derived."""
    lines: list[str] = []
    for entry in (Entry(derivation, statement) for statement in derivation.backward):
        lines += [*_indented(identity_lines(entry, reports.get(entry.id), latex, True, decided)), ""]
    for form, reason in derivation.without_backward.items():
        lines += [f"  {form} has no backward pass: {reason}", ""]
    return ["backward passes", *lines] if lines else []


def _backward_lines(
    entry: Entry, statement: Backward, report: Report | None, latex: bool, decided: Decided
) -> list[str]:
    """A backward pass: its formulas, and what they were compared with."""
    body = ["given dO and dS_n, from the last token to the first, with the states of the forward pass:"]
    body += _indented(equations(statement.adjoint.lines(TEXT)))
    if latex:
        body += _indented(rf"LaTeX  {line}" for line in equations(statement.adjoint.lines(LATEX)))
    body += _decides(entry, decided)
    if report is not None:
        body += _evidence_lines(entry, report)
    return [entry.id, *_indented([statement.says]), *_indented(body)]


def _evidence_lines(entry: Entry, report: Report) -> list[str]:
    climbed = [e for e in report.evidence if e.rung != "assumptions" or entry.identity.assumptions]
    messages = [f"{e.rung}: {e.message}" for e in report.evidence if e.message]
    if isinstance(report, Unfinished):
        messages.append(report.message)
    lines = [
        _verdict_line(report),
        f"evidence: {', '.join(_rung_text(e) for e in climbed) or 'none'}",
        *_indented(messages),
    ]
    if report.counterexample is not None:
        lines += counterexample_lines(entry.identity, report.counterexample)
    return lines


def _verdict_line(report: Report) -> str:
    return f"verdict: {report.verdict} ({'as' if report.ok else 'not as'} expected)"


def _rung_text(evidence: Evidence) -> str:
    reach = cell(evidence)
    return f"{evidence.rung} {evidence.verdict}" + (f" ({reach})" if reach != evidence.verdict else "")


def _form_lines(form: Form, latex: bool) -> list[str]:
    return [*text_lines(form), *([rf"LaTeX  {line}" for line in latex_lines(form)] if latex else [])]


def _assumption_line(assumption: Assumption, latex: bool) -> str:
    needed = f", since {assumption.needed_because}" if assumption.needed_because else ""
    return f"{assumption}{needed}" + (f"    LaTeX  {assumption.write(LATEX)}" if latex else "")


def _name_of(form: Form, derivation: Derivation) -> str:
    return next((name for name, known in derivation.forms.items() if known is form), "")


def _source_lines(derivation: Derivation) -> Sequence[str]:
    return ["sources", *_indented(map(str, derivation.sources))] if derivation.sources else []


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]
