"""All subjects."""

from __future__ import annotations

from attnproof.audit import table_apart, table_fla, table_others, table_transformers, table_triton
from attnproof.audit.subjects import Library, Subject

TABLES = (table_transformers, table_fla, table_triton, table_others, table_apart)
SUBJECTS: tuple[Subject, ...] = tuple(sorted((x for table in TABLES for x in table.SUBJECTS), key=lambda x: x.name))


def subject(name: str) -> Subject:
    """A subject by its name.

    Raises:
        KeyError: there is none.
    """
    return {x.name: x for x in SUBJECTS}[name]


def libraries() -> list[Library]:
    """The libraries, in the order of the table."""
    return list(dict.fromkeys(x.library for x in SUBJECTS))
