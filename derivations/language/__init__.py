"""The language of statements: everything that a module of `derivations/` is written with.

from derivations.language import *
"""

from sympy import Eq, Ne, Rational, Symbol, sqrt

from derivations.language.adjoint import Cotangent
from derivations.language.assumptions import Assumption, assume, invertible, nonzero, on_unit_circle
from derivations.language.derivative import derivative
from derivations.language.errors import NoMeaning, ShapeError, StatementError, UndefinedValue
from derivations.language.expressions import (
    Ones,
    RowProducts,
    Statement,
    Zeros,
    block,
    diag,
    dimension,
    exp,
    log,
    norm_squared,
    normalised,
    reciprocal,
    scalar,
    softmax,
    trace,
)
from derivations.language.forms import (
    Algorithm,
    Chunkwise,
    Closed,
    FinalState,
    Form,
    Recurrence,
    SumOfSquares,
    TokenRows,
    Transport,
)
from derivations.language.masks import (
    CausalMask,
    CumulativeProduct,
    Decay,
    GateProduct,
    PrecedingProduct,
    RemainingProduct,
    ShiftedDecay,
    StrictDecay,
    StrictMask,
    Toeplitz,
    TokenSum,
    TotalProduct,
    TotalProducts,
    constant,
    eye,
    total,
)
from derivations.language.claims import Claim, Document
from derivations.language.facts import NEGATIVE, POSITIVE, REALS, Computed, Counts, Equal, Fact, Finding, HasShape
from derivations.language.facts import Printed, RangeWithin, is_free_of, rank_is
from derivations.language.statements import Derivation, Identity, Reduction, Source
from derivations.language.symbols import ChannelGate, Gate, Parameter, Sequence, State
from derivations.language.symbols import d_k, d_v, i, j, n, position, s, t, tau

Q, K, V = Sequence("Q", n, d_k), Sequence("K", n, d_k), Sequence("V", n, d_v)
"""Queries, keys and values."""
q, k, v = Q[t], K[t], V[t]
"""The current token's query, key and value."""
S = State("S", d_v, d_k)
"""The usual state, d_v x d_k, read as o = S q."""
M, M_strict, I = CausalMask(n), StrictMask(n), eye(n)
"""The causal mask, the mask without its diagonal, and the identity, all n x n."""
gamma, eta, beta, alpha = Gate("gamma"), Gate("eta"), Gate("beta"), Gate("alpha")
"""Gates: the decay gamma (alpha in some papers), the write strength eta (or beta)."""
Gamma, Gamma_strict, Gamma_shifted = Decay(gamma), StrictDecay(gamma), ShiftedDecay(gamma)
"""The decay masks of gamma."""

__all__ = [
    "NEGATIVE",
    "POSITIVE",
    "REALS",
    "Algorithm",
    "Assumption",
    "CausalMask",
    "ChannelGate",
    "Chunkwise",
    "Claim",
    "Closed",
    "Computed",
    "Cotangent",
    "Counts",
    "CumulativeProduct",
    "Decay",
    "Derivation",
    "Document",
    "Eq",
    "Equal",
    "Fact",
    "FinalState",
    "Finding",
    "Form",
    "Gamma",
    "Gamma_shifted",
    "Gamma_strict",
    "Gate",
    "GateProduct",
    "HasShape",
    "I",
    "Identity",
    "K",
    "M",
    "M_strict",
    "Ne",
    "NoMeaning",
    "Ones",
    "Parameter",
    "PrecedingProduct",
    "Printed",
    "Q",
    "RangeWithin",
    "Rational",
    "Recurrence",
    "Reduction",
    "RemainingProduct",
    "RowProducts",
    "S",
    "Sequence",
    "ShapeError",
    "ShiftedDecay",
    "Source",
    "State",
    "Statement",
    "StatementError",
    "StrictDecay",
    "StrictMask",
    "SumOfSquares",
    "Symbol",
    "Toeplitz",
    "TokenRows",
    "TokenSum",
    "TotalProduct",
    "TotalProducts",
    "Transport",
    "UndefinedValue",
    "V",
    "Zeros",
    "alpha",
    "assume",
    "beta",
    "block",
    "constant",
    "d_k",
    "d_v",
    "derivative",
    "diag",
    "dimension",
    "eta",
    "exp",
    "eye",
    "gamma",
    "i",
    "invertible",
    "is_free_of",
    "j",
    "k",
    "log",
    "n",
    "nonzero",
    "norm_squared",
    "normalised",
    "on_unit_circle",
    "position",
    "q",
    "rank_is",
    "reciprocal",
    "s",
    "scalar",
    "softmax",
    "sqrt",
    "t",
    "tau",
    "total",
    "trace",
    "v",
]
