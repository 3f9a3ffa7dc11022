"""The commands of `attnproof`, one module each; importing this package makes them known to the group."""

from attnproof.commands import browse, claims, cost, family, mutants, verify
from attnproof.commands.group import attnproof

__all__ = ["attnproof", "browse", "claims", "cost", "family", "mutants", "verify"]
