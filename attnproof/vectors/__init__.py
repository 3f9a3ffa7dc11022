"""Golden vectors for kernels in other languages: inputs, results and tolerances as files, and a judge."""

from attnproof.vectors.files import VectorError, write_folder
from attnproof.vectors.judging import Judged, Verdict, judge
from attnproof.vectors.making import EXPECTED, INPUTS, TOLERANCE, Shape, Vectors, make

__all__ = [
    "EXPECTED",
    "INPUTS",
    "TOLERANCE",
    "Judged",
    "Shape",
    "VectorError",
    "Vectors",
    "Verdict",
    "judge",
    "make",
    "write_folder",
]
