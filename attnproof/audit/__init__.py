"""The audit: public implementations at pinned versions, each held against the system that it is meant to compute.

    from attnproof.audit import audited, subject

    audited(subject("fla-core.comba.recurrent"))["verdict"]

`attnproof audit` runs all of them, and says whether what is found is what the table expects.
"""

from attnproof.audit.gradients import derivatives
from attnproof.audit.judging import audited, check
from attnproof.audit.table import SUBJECTS, subject

__all__ = ["SUBJECTS", "audited", "check", "derivatives", "subject"]
