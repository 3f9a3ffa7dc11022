"""`attnproof check`: hold a kernel against a statement."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from attnproof.commands.group import UsageProblem, attnproof, save, with_json
from attnproof.commands.output import progress
from attnproof.implementation_cases import UNIT_ROUNDOFF
from attnproof.oracle.arrays import LIBRARIES as ARRAYS
from attnproof.oracle.checks import EFFORTS
from attnproof.oracle.conventions import LIBRARIES, WrongConvention
from attnproof.oracle.findings import Finding
from attnproof.oracle.isolation import Isolated, in_its_own_process, note
from attnproof.oracle.judging import check_kernel, chosen
from attnproof.statuses import UNEXPECTED
from attnproof.triton_on_cpu import interpret_triton

TRITON_ON_CPU = "--triton-on-cpu"
with_triton = click.option(
    TRITON_ON_CPU, is_flag=True, help="Run Triton kernels without a GPU, by Triton's own interpreter."
)


def interpreted(dtype: str) -> None:
    """Lets Triton's interpreter run the kernels that are imported after this."""
    if dtype == "bfloat16":
        raise UsageProblem("Triton's interpreter computes wrong values in bfloat16: choose --dtype float16 or float32")
    try:
        interpret_triton()
    except ImportError as error:
        raise UsageProblem(str(error)) from error


@attnproof.command(short_help="Hold a kernel against a statement.")
@click.argument("kernel", metavar="MODULE:FUNCTION")
@click.option("--as", "derivation", required=True, metavar="NAME", help="The system that it should compute.")
@click.option(
    "--layout",
    type=click.Choice(sorted(LIBRARIES)),
    default="attnproof",
    show_default=True,
    help="Whose names, layouts and scales it has.",
)
@click.option("--dtype", type=click.Choice(list(UNIT_ROUNDOFF)), default="float32", show_default=True)
@click.option(
    "--accumulation",
    type=click.Choice(list(UNIT_ROUNDOFF)),
    help="The precision of its sums and states; float32 if its inputs are narrower.",
)
@click.option("--library", type=click.Choice(ARRAYS), help="Whose arrays it takes; Torch's if installed.")
@click.option("--device", default="cpu", show_default=True, help="Where Torch's arrays lie.")
@click.option("--chunk-size", type=click.IntRange(min=2), default=64, show_default=True, help="The kernel's blocks.")
@click.option(
    "--backward/--forward", default=None, help="Whether gradients must be right; by default, if there are any."
)
@click.option("--effort", type=click.Choice(list(EFFORTS)), default="usual", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where inputs start.")
@with_triton
@click.option("--isolate", is_flag=True, help="Run it in a process of its own, so that a hang or a crash is a verdict.")
@click.option("--seconds", type=click.FloatRange(min=1), default=120, show_default=True, help="How long that may take.")
@click.option("--memory", type=click.FloatRange(min=0.5), metavar="GIB", help="How much memory that may take.")
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), hidden=True)  # kept where it is isolated
@with_json("Write the report here.")
@click.pass_context
def check(
    ctx: click.Context,
    kernel: str,
    derivation: str,
    layout: str,
    isolate: bool,
    seconds: float,
    memory: float | None,
    journal: Path | None,
    json_file: Path | None,
    triton_on_cpu: bool,
    **options: Any,
) -> None:
    """Hold a kernel against a statement, and say what is wrong with it.

    MODULE:FUNCTION is imported from Python's path and the current folder. The exit status is 0 if it computes the
    system, 1 if not.

    \b
    Examples:
      attnproof check my_kernels:chunk_gated_delta_rule --as gated_deltanet --layout fla
      attnproof check my_kernels:kda --as kda --dtype bfloat16 --isolate --seconds 60
    """
    if triton_on_cpu:
        interpreted(options["dtype"])
    if isolate:
        given = [x for key, value in options.items() if value is not None for x in _typed(key, value)]
        arguments = ["check", kernel, "--as", derivation, "--layout", layout, *given, *[TRITON_ON_CPU] * triton_on_cpu]
        with progress(_checks(options)) as done:
            found = in_its_own_process(arguments, seconds, memory, done)
        record = _record_of(found, kernel, derivation)
        click.echo(_in_words(record))
    else:
        record = _judged(kernel, derivation, layout, journal, options)
    if not record["ok"] and _wants_a_device(record):
        click.echo(ON_A_DEVICE, err=True)
    save(record, json_file)
    ctx.exit(0 if record["ok"] else UNEXPECTED)


ON_A_DEVICE = "a Triton kernel needs --device cuda, or --triton-on-cpu where there is no GPU"


def _wants_a_device(record: Mapping[str, Any]) -> bool:
    """Whether every check ended as Triton ends where arrays lie on a CPU."""
    failed = [x["message"] for x in record["checks"] if x["verdict"] == "refuted"]
    return all("active drivers" in x or "cannot be accessed from Triton" in x for x in failed) and bool(failed)


def _typed(key: str, value: Any) -> list[str]:
    """An option as it is typed."""
    if key == "backward":
        return ["--backward" if value else "--forward"]
    return [f"--{key.replace('_', '-')}={value}"]


def _checks(options: dict[str, Any]) -> int:
    """How many checks there will be, with that of what they have covered."""
    return len(chosen(options["effort"], options["backward"])) + 1


def _judged(kernel: str, derivation: str, layout: str, journal: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    try:
        function = imported(kernel)
        note(journal, {"imported": kernel})
        with progress(_checks(options)) as show:

            def done(finding: Finding) -> None:
                show(finding)
                note(journal, {"check": finding.as_json(), "seconds": finding.seconds})

            report = check_kernel(function, derivation, layout, done=done, **options)
    except (WrongConvention, UsageProblem) as error:
        note(journal, {"usage": str(error)})
        raise UsageProblem(str(error)) from error
    record = report.as_json() | {"text": str(report)}
    note(journal, {"record": record})
    click.echo(str(report))
    return record


def imported(kernel: str) -> Callable[..., Any]:
    """The function that MODULE:FUNCTION names."""
    module, separator, name = kernel.partition(":")
    if not (separator and module and name):
        raise UsageProblem(f"{kernel!r} isn't of the form MODULE:FUNCTION")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # a module may do anything, and one that exits with 0 is no pass
        raise UsageProblem(f"can't import {kernel}: {_said(error)}") from error
    if not callable(found):
        raise UsageProblem(f"{kernel} can't be called")
    function: Callable[..., Any] = found
    return function


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"


def _record_of(found: Isolated, kernel: str, derivation: str) -> dict[str, Any]:
    """The record of a process, or of what became of it."""
    if found.usage:
        raise UsageProblem(found.usage)
    without = {"kernel": kernel, "derivation": derivation, "ok": False, "checks": [*found.checks]}
    return found.record or without | {"diagnosis": found.message}


def _in_words(record: dict[str, Any]) -> str:
    return str(record.get("text") or f"{record['kernel']}: {record['diagnosis']}")
