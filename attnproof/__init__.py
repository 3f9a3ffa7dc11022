"""attnproof: checks formulas of linear attention, and says where a false one is false.

    import attnproof

    found = attnproof.verify("deltanet")
    found.ok, [report.verdict for report in found.reports]

Importing attnproof imports neither Torch nor SymPy: each name of the API is loaded when it is first used.
"""

from __future__ import annotations

from attnproof import shadowing

shadowing.check()

from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

if TYPE_CHECKING:
    from attnproof.catalogue import BrokenModule, Catalogue, CatalogueError, load_catalogue
    from attnproof.exactly import ExactRun, compare_exactly, exact
    from attnproof.implementation_cases import Case
    from attnproof.oracle.conventions import linear, log, log2, rate
    from attnproof.oracle.identification import Identification
    from attnproof.oracle.identifying import identify
    from attnproof.oracle.judging import check_kernel
    from attnproof.oracle.report import KernelReport
    from attnproof.triton_on_cpu import interpret_triton
    from attnproof.verification import Verification, verify
    from gpu.exact_mode.errors import NoExactMeaning
    from gpu.registry import Argument, Implementation
    from numerics.evidence import Counterexample, Evidence
    from numerics.exact_runs import Comparison
    from numerics.head_layouts import HeadSizes
    from numerics.proofs.facts import counted
    from numerics.proofs.ladder import Report
    from numerics.proofs.tolerances import Roundings, tolerances_of

    __version__: str

HOMES = {
    "Argument": "gpu.registry",
    "BrokenModule": "attnproof.catalogue",
    "Case": "attnproof.implementation_cases",
    "Catalogue": "attnproof.catalogue",
    "CatalogueError": "attnproof.catalogue",
    "Comparison": "numerics.exact_runs",
    "Counterexample": "numerics.evidence",
    "Evidence": "numerics.evidence",
    "ExactRun": "attnproof.exactly",
    "HeadSizes": "numerics.head_layouts",
    "Identification": "attnproof.oracle.identification",
    "Implementation": "gpu.registry",
    "KernelReport": "attnproof.oracle.report",
    "NoExactMeaning": "gpu.exact_mode.errors",
    "Report": "numerics.proofs.ladder",
    "Roundings": "numerics.proofs.tolerances",
    "Verification": "attnproof.verification",
    "check_kernel": "attnproof.oracle.judging",
    "compare_exactly": "attnproof.exactly",
    "counted": "numerics.proofs.facts",
    "exact": "attnproof.exactly",
    "identify": "attnproof.oracle.identifying",
    "interpret_triton": "attnproof.triton_on_cpu",
    "linear": "attnproof.oracle.conventions",
    "load_catalogue": "attnproof.catalogue",
    "log": "attnproof.oracle.conventions",
    "log2": "attnproof.oracle.conventions",
    "rate": "attnproof.oracle.conventions",
    "tolerances_of": "numerics.proofs.tolerances",
    "verify": "attnproof.verification",
}
"""Where each name of the API lives."""

__all__ = [
    "Argument",
    "BrokenModule",
    "Case",
    "Catalogue",
    "CatalogueError",
    "Comparison",
    "Counterexample",
    "Evidence",
    "ExactRun",
    "HeadSizes",
    "Identification",
    "Implementation",
    "KernelReport",
    "NoExactMeaning",
    "Report",
    "Roundings",
    "Verification",
    "__version__",
    "check_kernel",
    "compare_exactly",
    "counted",
    "exact",
    "identify",
    "interpret_triton",
    "linear",
    "load_catalogue",
    "log",
    "log2",
    "rate",
    "tolerances_of",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("attnproof")
    if name not in HOMES:
        raise AttributeError(f"module 'attnproof' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
