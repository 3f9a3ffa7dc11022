"""Gradients that are lost or read wrongly around a right kernel, whose values are right."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.oracle_score.kernels.backward_faults import ReadsGradientByStrides
from benchmarks.oracle_score.kernels.calls import Arguments, Kept, output_changed, planted, state_changed
from benchmarks.oracle_score.kernels.frame import BLOCK, Kernel


@planted("dg lacks the final state's share")
def _dg_of_output(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return kernel(**given)[0], *kernel(**given | {"g": given["g"].detach()})[1:]


@planted("gradient of the initial state lost")
def _no_dstate(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    state = given.get("initial_state")
    return kernel(**given | {"initial_state": None if state is None else state.detach()})


@planted("gradient of the initial state lost for one or two tokens")
def _no_dstate_of_few(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return _no_dstate(kernel, given, kept) if given["v"].shape[1] <= 2 else kernel(**given)


@planted("final state detached")
def _no_gradient_from_state(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return state_changed(kernel(**given), torch.detach)


@planted("upstream gradient read as if contiguous")
def _gradient_by_strides(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    return output_changed(kernel(**given), ReadsGradientByStrides.apply)


@planted("gradient of keys doubled for grouped heads")
def _grouped_dk(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    groups = given["v"].shape[2] // given["k"].shape[2]
    k = given["k"]
    return kernel(**given | {"k": k.detach() + groups * (k - k.detach())})


@planted("dbeta lost in the last chunk")
def _dbeta_of_tail(kernel: Kernel, given: Arguments, kept: Kept) -> Any:
    beta, full = given["beta"], given["beta"].shape[1] // BLOCK * BLOCK
    return kernel(**given | {"beta": torch.cat([beta[:, :full], beta[:, full:].detach()], 1)})
