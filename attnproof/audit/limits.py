"""Where a failed check says nothing about a function: limits of the oracle and of adapters, each with its reason.

A check that fails and is listed here is shown as unclear, which is neither a pass nor a finding.
"""

from __future__ import annotations

CUMULATED_GRADIENT = {
    "gradients": "the derivative by a log gate is the backward of a cumulative sum over a block, whose rounding "
    "error at early tokens is that of the largest term of the sum; the oracle takes each token's tolerance from that "
    "token's own terms. With a loss on the last state these are smaller by orders of magnitude.",
}
CUMULATED = {
    "gate sweep": "a gate is the exponential of a difference of two cumulated logarithms, each of which is rounded; "
    "the oracle's tolerance knows the error of the single logarithm only.",
}
STEPS_DIVIDED = {
    "gradients": "the adapter divides by the log gate, and the derivatives along the two paths cancel.",
}
