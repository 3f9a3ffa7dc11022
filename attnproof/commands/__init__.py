"""The commands of `attnproof`, one module each; importing this package makes them known to the group."""

from attnproof.commands import (
    audit,
    browse,
    check,
    claims,
    cost,
    docs,
    emit,
    family,
    identify,
    mutants,
    vectors,
    verify,
)
from attnproof.commands.group import attnproof

__all__ = [
    "attnproof",
    "audit",
    "browse",
    "check",
    "claims",
    "cost",
    "docs",
    "emit",
    "family",
    "identify",
    "mutants",
    "vectors",
    "verify",
]
