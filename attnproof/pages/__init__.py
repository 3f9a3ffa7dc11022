"""The pages: a static site and a page for GitHub, made from statements and evidence; nothing computable is typed.

The words of the pages are in `en.toml`, their looks in `templates/` and `static/`. Nothing here judges: verdicts come
from `numerics.evidence` and `attnproof.claims`, by the same functions as on the command line.
"""
