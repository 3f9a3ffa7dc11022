"""The exit statuses of the command that aren't 0 and aren't click's own (2 for wrong usage)."""

UNEXPECTED = 1
"""A verdict isn't the expected one, a module is broken, or nothing was checked."""
INTERRUPTED = 130
"""SIGINT has ended the program, by the shells' convention."""
