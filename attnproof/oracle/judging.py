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
from attnproof.implementation_cases import UNIT_ROUNDOFF, Case
from attnproof.oracle.checks import QUICK, USUAL, Check, Finding, compared, described_case
from attnproof.oracle.conventions import Layout, convention_of
from attnproof.oracle.diagnosis import diagnosed
from attnproof.oracle.report import KernelReport
from attnproof.oracle.subject import Subject, has_torch

EFFORTS: dict[str, tuple[Check, ...]] = {"quick": QUICK, "usual": USUAL}


def check_kernel(
    kernel: Callable[..., Any],
    derivation: str,
    layout: Layout = "attnproof",
    *,
    dtype: str = "float32",
    library: Literal["torch", "numpy"] | None = None,
    device: str = "cpu",
    chunk_size: int = 64,
    effort: Literal["quick", "usual"] = "usual",
    seed: int = 0,
    constants: Mapping[str, Any] | None = None,
    case: Case | None = None,
    done: Callable[[Finding], None] = lambda finding: None,
) -> KernelReport:
    """Holds a kernel against a statement.

    Args:
        kernel: any callable on arrays of Torch or NumPy; it is called with keyword arguments.
        derivation: the system that it should compute, "gated_deltanet".
        layout: a library's conventions by name ("fla", "transformers", "mlx", ...), or a layout for each parameter:
            {"q": "b t h k", "g": log("b t h"), "initial_state": "n g k v"}.
        dtype: the precision of its inputs: float64, float32, float16 or bfloat16.
        library: whose arrays it takes; Torch's where that is installed.
        device: where Torch's arrays lie.
        chunk_size: the kernel's blocks: lengths are tried around its multiples.
        effort: "quick" for lengths and gradients, "usual" for everything.
        seed: where inputs are drawn from.
        constants: other keyword arguments of the kernel.
        case: a single input, as a report prints it; nothing else is tried then.
        done: called with each finding as it comes.

    Raises:
        WrongConvention: the layout doesn't fit the kernel's signature.
        ValueError: no such precision, library or derivation.
    """
    begun = perf_counter()
    if dtype not in UNIT_ROUNDOFF:
        raise ValueError(f"no precision is named {dtype!r}; there are: {', '.join(UNIT_ROUNDOFF)}")
    convention = convention_of(kernel, derivation, layout, constants)
    subject = Subject(kernel, convention, library or ("torch" if has_torch() else "numpy"), dtype, device)
    whole = Case(2 * chunk_size + 3, seed=seed, chunk_size=chunk_size, with_state=convention.state is not None)
    findings = []
    for finding in _findings(subject, whole, EFFORTS[effort], case):
        findings.append(finding)
        done(finding)
    title = load_catalogue().derivations[derivation].title
    name = getattr(kernel, "__qualname__", type(kernel).__name__)
    report = KernelReport(name, derivation, title, dtype, tuple(findings), 0.0)
    if any(x.verdict == "refuted" for x in findings):
        report = _explained(report, subject, whole, findings)
    return replace(report, seconds=perf_counter() - begun)


def _findings(subject: Subject, whole: Case, checks: Sequence[Check], case: Case | None) -> Iterator[Finding]:
    if case is not None:
        yield compared("this input", subject, [case])
        return
    for check in checks:
        begun = perf_counter()
        yield replace(check(subject, whole), seconds=perf_counter() - begun)


def _explained(report: KernelReport, subject: Subject, whole: Case, findings: Sequence[Finding]) -> KernelReport:
    """The report with what the kernel computes instead, and the smallest input on which that shows."""
    failing = next((x.case for x in findings if x.verdict == "refuted" and x.case), None)
    small = _smallest(subject, whole, failing)
    failing = small or failing
    if failing is None:
        return report
    return replace(
        report,
        diagnosis=diagnosed(subject, whole),
        smallest=described_case(small) if small else "",
        replay=(
            f"attnproof.check_kernel(kernel, {report.derivation!r}, ..., dtype={report.dtype!r}, "
            f"case=attnproof.{_written(failing)})"
        ),
    )


def _smallest(subject: Subject, whole: Case, failing: Case | None) -> Case | None:
    """The smallest input on which output or states are off: few tokens, or as many as failed, and few channels."""
    lengths = [*range(1, 7), *([failing.tokens] if failing else [])]
    given = subject.convention.state
    states = [False] if given is None else [False, True] if given.optional else [True]
    for n, d, state in [(n, d, s) for n in lengths for d in (1, 2, 3) for s in states]:
        case = replace(whole, tokens=n, key_width=d, value_width=d, with_state=state, heads=1, groups=1, batch=1)
        if compared("", subject, [case]).verdict == "refuted":
            return case
    return None


def _written(case: Case) -> str:
    """A case as it is typed, without what is usual."""
    usual = Case(case.tokens)
    changed = [x.name for x in fields(Case) if getattr(case, x.name) != getattr(usual, x.name)]
    return f"Case({', '.join([str(case.tokens), *(f'{name}={getattr(case, name)!r}' for name in changed)])})"
