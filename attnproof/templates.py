"""The two files that `attnproof new` writes: a derivation that verifies as it is, and its test."""

from __future__ import annotations

from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

from attnproof.catalogue import NOT_DERIVATIONS, Catalogue

DERIVATION = '''r"""NAME: say here what it is and where it was published. Everything marked "yours" is to be replaced.

S_t = gamma_t S_{t-1} + v_t k_t^T, o_t = S_t q_t. As one matrix product: O = ((Q K^T) . Gamma) V
"""

from attnproof.language import Closed, Derivation, Identity, Recurrence, Source
from attnproof.language import Gamma, K, Q, S, V, gamma, k, q, t, v

recurrence = Recurrence(S, update=gamma[t] * S + v @ k.T, readout=S @ q)  # yours
matrix = Closed((Q @ K.T).hadamard(Gamma) @ V)  # yours: what the recurrence is claimed to equal

NAME = Derivation(
    "NAME",
    title="NAME",  # yours: as people call it
    summary="Linear attention whose state decays by a gate.",  # yours
    forms={"recurrence": recurrence, "matrix": matrix},
    identities=[
        Identity(
            "recurrent_is_matrix",
            recurrence,
            matrix,
            says="The recurrence is one matrix product with a decay mask.",  # yours
        ),
    ],
    sources=[Source("Title", "authors and year, equation", "arXiv:0000.00000")],  # yours
)
'''

TEST = '''"""Every identity of NAME has the verdict that it is expected to have."""

from pathlib import Path

import attnproof


def test_every_identity_of_NAME_is_as_expected():
    found = attnproof.verify("NAME", derivations=[Path(__file__).parent])
    for report in found.reports:
        assert report.ok, found.why(report)
'''


class TemplateError(Exception):
    """A name or a place at which no derivation can be written; the message says what to change."""


def write(name: str, folder: Path, catalogue: Catalogue) -> tuple[Path, Path]:
    """Writes NAME.py and test_NAME.py into a folder, which is made where it isn't there, and returns their paths.

    Raises:
        TemplateError: the name can't be used, or one of the files is there already.
    """
    texts = {folder / f"{name}.py": DERIVATION, folder / f"test_{name}.py": TEST}
    for path in texts:
        if path.exists():
            raise TemplateError(f"{path} is there already and isn't overwritten: choose another name, or another --out")
    check_name(name, catalogue)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text.replace("NAME", name), encoding="utf-8")
    except OSError as error:
        raise TemplateError(f"can't write into {folder}: {error.strerror}. Choose another --out") from error
    module, test = texts
    return module, test


def check_name(name: str, catalogue: Catalogue) -> None:
    """Refuses a name that isn't an identifier, that is taken, or whose file would be left alone or be in the way.

    Raises:
        TemplateError: with the reason.
    """
    if not name.isidentifier() or iskeyword(name):
        raise TemplateError(f"{name!r} can't be the name of a derivation: use letters, digits and underscores")
    if name.startswith(NOT_DERIVATIONS):
        raise TemplateError(f"{name!r} can't be the name of a derivation: files that begin so are left alone")
    if name in catalogue.derivations:
        raise TemplateError(f"{name!r} is taken, see {catalogue.derivations[name].place}: choose another name")
    if find_spec(name) is not None:
        raise TemplateError(f"{name!r} is a Python module already, which {name}.py would hide: choose another name")
