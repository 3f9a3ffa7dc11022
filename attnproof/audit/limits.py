"""Where a failed check says nothing about a function: limits of the oracle, each with its reason.

A check that fails and is listed here is shown as unclear, which is neither a pass nor a finding.
"""

from __future__ import annotations

from attnproof.audit.subjects import Limit

CUMULATED_GRADIENT = {
    "gradients": Limit(
        "the derivative by a log gate is the backward of a cumulative sum over a block, whose rounding error at early "
        "tokens is that of the largest term of the sum; the oracle takes each token's tolerance from that token's own "
        "terms, which are smaller by orders of magnitude. *Gradients in norm* is the check that counts here."
    ),
}
LOGARITHMS = Limit(
    "a gate is the exponential of a difference of two cumulated logarithms, each of which is rounded; the oracle's "
    "tolerance knows the error of the single logarithm, which is smaller by as much as there are tokens in between.",
    up_to=16.0,
)
CUMULATED = {"gate sweep": LOGARITHMS, "drawn inputs": LOGARITHMS}
SOFTMAX_SCALE = {
    "scale": Limit("the oracle takes the output to be linear in `scale`, which a softmax isn't."),
}
ZERO_STEP = {
    "gradients": Limit(
        "with a step of zero the oracle's tolerance for the derivative by the step is zero where its rounding error "
        "isn't. *Gradients in norm* is the check that counts here."
    ),
}
