"""The call: `attnproof.check_kernel(kernel, "gated_deltanet", layout="fla")`.

report = attnproof.check_kernel(my_kernel, "gated_deltanet", layout="fla", dtype="bfloat16")
report.raise_if_wrong()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from time import perf_counter
from typing import Any, Literal

from attnproof.catalogue import load_catalogue
from attnproof.implementation_cases import Case
from attnproof.oracle import arrays
from attnproof.oracle.checks import EFFORTS, OF_THE_BACKWARD_PASS
from attnproof.oracle.conventions import Layout, convention_of
from attnproof.oracle.coverage import coverage
from attnproof.oracle.diagnosis import diagnosed
from attnproof.oracle.findings import Check, Finding, compared, described_case
from attnproof.oracle.localising import localised
from attnproof.oracle.report import KernelReport
from attnproof.oracle.subject import Misbehaved, Subject
from attnproof.oracle.trials import Trial
from attnproof.oracle.values import has_groups

Effort = Literal["quick", "usual", "deep"]


def check_kernel(
    kernel: Callable[..., Any],
    derivation: str,
    layout: Layout = "attnproof",
    *,
    dtype: str = "float32",
    accumulation: str | None = None,
    library: arrays.Library | None = None,
    device: str = "cpu",
    chunk_size: int = 64,
    effort: Effort = "usual",
    backward: bool | None = None,
    seed: int = 0,
    constants: Mapping[str, Any] | None = None,
    case: Case | None = None,
    done: Callable[[Finding], None] = lambda finding: None,
) -> KernelReport:
    """Holds a kernel against a statement.

    Args:
        kernel: any callable on arrays of Torch, NumPy, JAX or CuPy; it is called with keyword arguments.
        derivation: the system that it should compute, "gated_deltanet".
        layout: a library's conventions by name ("fla", "transformers", "mlx", ...), or a layout for each parameter:
            {"q": "b t h k", "g": log("b t h"), "initial_state": "n g k v"}.
        dtype: the precision of its inputs: float64, float32, float16 or bfloat16.
        accumulation: the precision in which it keeps sums and states; float32 for inputs that are narrower.
        library: whose arrays it takes; Torch's where that is installed.
        device: where Torch's arrays lie.
        chunk_size: the kernel's blocks: lengths are tried around its multiples.
        effort: "quick" for the checks that find the most, "usual" for all, "deep" for many more drawn inputs.
        backward: whether gradients are judged; where None, if the kernel has any.
        seed: where inputs are drawn from.
        constants: other keyword arguments of the kernel.
        case: a single input, as a report prints it; nothing else is tried then.
        done: called with each finding as it comes.

    Raises:
        WrongConvention: the layout doesn't fit the kernel's signature, or there is no such precision or library.
    """
    begun = perf_counter()
    library = library or arrays.usual_library()
    accumulation = accumulation or ("float64" if dtype == "float64" else "float32")
    for precision in (dtype, accumulation):
        arrays.check(library, precision)
    convention = convention_of(kernel, derivation, layout, constants, chunk_size)
    subject = Subject(kernel, convention, library, dtype, accumulation, device)
    state, groups = convention.state is not None, 2 if has_groups(subject) else 1
    whole = Case(2 * chunk_size + 3, seed=seed, chunk_size=chunk_size, with_state=state, groups=groups)
    findings = []
    for finding in _findings(subject, whole, chosen(effort, backward), case, backward):
        findings.append(finding)
        done(finding)
    title = load_catalogue().derivations[derivation].title
    report = KernelReport(subject.name, derivation, title, dtype, accumulation, tuple(findings), 0.0)
    if any(x.verdict == "refuted" for x in findings):
        report = _explained(report, subject, whole, findings)
    return replace(report, seconds=perf_counter() - begun)


def chosen(effort: str, backward: bool | None = None) -> tuple[Check, ...]:
    """The checks of an effort."""
    return tuple(x for x in EFFORTS[effort] if backward is not False or x not in OF_THE_BACKWARD_PASS)


def _findings(
    subject: Subject, whole: Case, checks: Sequence[Check], case: Case | None, backward: bool | None
) -> Iterator[Finding]:
    if case is not None:
        yield compared("this input", subject, [case])
        return
    found = []
    for check in checks:
        begun = perf_counter()
        finding = check(subject, whole)
        if backward and check in OF_THE_BACKWARD_PASS and finding.verdict == "skipped":
            finding = replace(finding, verdict="vacuous")
        found.append(replace(finding, seconds=perf_counter() - begun))
        yield found[-1]
    yield coverage(subject, found)


def _explained(report: KernelReport, subject: Subject, whole: Case, findings: Sequence[Finding]) -> KernelReport:
    """The report with what the kernel computes instead, and the smallest input on which that shows."""
    failing = next((x.case for x in findings if x.verdict == "refuted" and x.case), None)
    small = _smallest(subject, whole, failing)
    shown = small or failing
    return replace(
        report,
        diagnosis=diagnosed(subject, whole) or _by_precision(subject, failing),
        begins=localised(subject, whole, findings),
        smallest=described_case(small) if small else "",
        replay=(
            f"attnproof.check_kernel(kernel, {report.derivation!r}, ..., dtype={report.dtype!r}, "
            f"case=attnproof.{_written(shown)})"
            if shown
            else ""
        ),
    )


def _by_precision(subject: Subject, failing: Case | None) -> str:
    """That the errors are those of sums in the precision of the inputs, if they are."""
    if failing is None or subject.accumulation == subject.dtype:
        return ""
    if compared("", subject, [failing]).verdict != "refuted":
        return ""  # what fails there aren't the values
    trial = Trial(replace(subject, accumulation=subject.dtype), failing)
    try:
        if any(gap.ratio > 1 for gap in trial.gaps(subject.call(trial.arguments))):
            return ""
    except Misbehaved:
        return ""
    return (
        f"its errors are those of sums and states in {subject.dtype}, not {subject.accumulation}: "
        f"accumulation={subject.dtype!r} allows for them"
    )


def _smallest(subject: Subject, whole: Case, failing: Case | None) -> Case | None:
    """The smallest input on which output or states are off: few tokens, or as many as failed, and few channels."""
    base = replace(whole, strongest=failing.strongest, set_to=failing.set_to) if failing else whole
    lengths = [*range(1, 7), *([failing.tokens] if failing else [])]
    given = subject.convention.state
    states = [False] if given is None else [False, True] if given.optional else [True]
    for n, d, state in [(n, d, s) for n in lengths for d in (1, 2, 3) for s in states]:
        case = replace(base, tokens=n, key_width=d, value_width=d, with_state=state, heads=1, groups=1, batch=1)
        if compared("", subject, [case]).verdict == "refuted":
            return case
    return None


def _written(case: Case) -> str:
    """A case as it is typed, without what is usual."""
    usual = Case(case.tokens)
    changed = [x.name for x in fields(Case) if getattr(case, x.name) != getattr(usual, x.name)]
    return f"Case({', '.join([str(case.tokens), *(f'{name}={getattr(case, name)!r}' for name in changed)])})"
