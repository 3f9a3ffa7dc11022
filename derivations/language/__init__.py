"""The language of statements: everything that a module of `derivations/` is written with.

from derivations.language import *
"""

from sympy import Eq, Ne, Rational, Symbol, sqrt

from derivations.language.assumptions import Assumption, assume, invertible
from derivations.language.derivative import derivative
from derivations.language.errors import NoMeaning, ShapeError, StatementError, UndefinedValue
from derivations.language.expressions import Ones, Statement, Zeros, diag, dimension, norm_squared, scalar, trace
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
    RemainingProduct,
    ShiftedDecay,
    StrictDecay,
    StrictMask,
    TokenSum,
    TotalProduct,
    constant,
    eye,
)
from derivations.language.statements import Derivation, Identity, Source
from derivations.language.symbols import Gate, Parameter, Sequence, State, d_k, d_v, i, j, n, position, s, t, tau

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
    "Algorithm",
    "Assumption",
    "CausalMask",
    "Chunkwise",
    "Closed",
    "CumulativeProduct",
    "Decay",
    "Derivation",
    "Eq",
    "FinalState",
    "Form",
    "Gamma",
    "Gamma_shifted",
    "Gamma_strict",
    "Gate",
    "GateProduct",
    "I",
    "Identity",
    "K",
    "M",
    "M_strict",
    "Ne",
    "NoMeaning",
    "Ones",
    "Parameter",
    "Q",
    "Rational",
    "Recurrence",
    "RemainingProduct",
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
    "TokenRows",
    "TokenSum",
    "TotalProduct",
    "Transport",
    "UndefinedValue",
    "V",
    "Zeros",
    "alpha",
    "assume",
    "beta",
    "constant",
    "d_k",
    "d_v",
    "derivative",
    "diag",
    "dimension",
    "eta",
    "eye",
    "gamma",
    "i",
    "invertible",
    "j",
    "k",
    "n",
    "norm_squared",
    "position",
    "q",
    "s",
    "scalar",
    "sqrt",
    "t",
    "tau",
    "trace",
    "v",
]
