"""Reference code to take away: a form of a derivation as a function of PyTorch, NumPy or JAX that stands alone.

The code is written by a walk over the statement, as its value, its LaTeX and its costs are.
"""

from attnproof.emitting.expressions import NotEmittable
from attnproof.emitting.functions import emit
from attnproof.emitting.layouts import Layout, LayoutError, parse_layout
from attnproof.emitting.targets import TARGETS

__all__ = ["TARGETS", "Layout", "LayoutError", "NotEmittable", "emit", "parse_layout"]
