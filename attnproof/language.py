"""The language of statements, for derivations that live outside attnproof.

from attnproof.language import K, Q, S, V, Closed, Derivation, Identity, Recurrence
"""

from derivations.language import *  # noqa: F403
from derivations.language import __all__ as __all__
