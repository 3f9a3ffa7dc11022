"""`attnproof identify`: which system of the catalogue a kernel computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from attnproof.commands.check import imported, interpreted, with_triton
from attnproof.commands.group import UsageProblem, attnproof, save, with_json
from attnproof.implementation_cases import UNIT_ROUNDOFF
from attnproof.oracle.arrays import LIBRARIES as ARRAYS
from attnproof.oracle.conventions import LIBRARIES
from attnproof.oracle.identifying import identify as identified
from attnproof.statuses import UNEXPECTED


@attnproof.command(short_help="Say which system a kernel computes.")
@click.argument("kernel", metavar="MODULE:FUNCTION")
@click.option("--layout", type=click.Choice(sorted(LIBRARIES)), help="Whose names and layouts it has; all are tried.")
@click.option("--dtype", type=click.Choice(list(UNIT_ROUNDOFF)), default="float32", show_default=True)
@click.option("--library", type=click.Choice(ARRAYS), help="Whose arrays it takes; Torch's if installed.")
@click.option("--device", default="cpu", show_default=True, help="Where Torch's arrays lie.")
@click.option("--chunk-size", type=click.IntRange(min=2), default=64, show_default=True, help="The kernel's blocks.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where inputs start.")
@with_triton
@with_json("Write the answer here.")
@click.pass_context
def identify(ctx: click.Context, kernel: str, json_file: Path | None, triton_on_cpu: bool, **options: Any) -> None:
    """Say which system of the catalogue a kernel computes, or which is the nearest and what differs.

    Forward values and last states are compared, with every system whose arguments fit the kernel's signature. The exit
    status is 0 if it is one of the catalogue, 1 if not.

    \b
    Examples:
      attnproof identify my_kernels:kernel
      attnproof identify my_kernels:kernel --library numpy --json answer.json
    """
    if triton_on_cpu:
        interpreted(options["dtype"])
    function = imported(kernel)
    try:
        found = identified(function, **options)
    except ValueError as error:
        raise UsageProblem(str(error)) from error
    click.echo(str(found))
    save(found.as_json(), json_file)
    ctx.exit(0 if found.ok else UNEXPECTED)
