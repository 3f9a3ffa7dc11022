"""Exact mode: eager PyTorch code runs in GF(p), p = 2^31 - 1, unchanged, forward and backward.

    with ExactMode():
        o = kernel(ExactTensor(...), ...)

Equal formulas give equal residues, whatever the order of the operations; different ones differ, but for an accident of
probability degree / p (Schwartz-Zippel). `gpu.exact_mode.running` draws inputs and runs a function on them.
"""

from gpu.exact_mode import arithmetic, linear_systems, moving
from gpu.exact_mode.errors import NoExactMeaning, UndefinedHere
from gpu.exact_mode.mode import ExactMode
from gpu.exact_mode.numbers import Numbers
from gpu.exact_mode.tensor import ExactTensor

_RULES = (arithmetic, linear_systems, moving)
"""Modules that give operators their rules when they are imported."""

__all__ = ["ExactMode", "ExactTensor", "NoExactMeaning", "Numbers", "UndefinedHere"]
