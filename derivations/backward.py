r"""Backward passes of one block in matrix form, as kernels compute them, each held to the derived backward recurrence.

A block gets the state S before it, dO, and dS, the cotangent of the state after it. For linear attention

    dQ = dO S + ((dO V^T) . M) K,         dK = V dS + ((V dO^T) . M^T) Q,
    dV = K dS^T + ((K Q^T) . M^T) dO,     dS_0 = dS + dO^T Q

Dao & Gu 2024 (arXiv 2405.21060), Yang et al. 2023 (2312.06635, section 4), 2024 (2406.06484) and Yang, Kautz &
Hatamizadeh 2024 (2412.06464). The delta rules solve their triangular system once more, transposed: with U = A^-1 R the
corrected values and dU what the block's outputs and its last state say about them, A^-T dU is the cotangent of R.
"""

from collections.abc import Mapping

from derivations import decay, deltanet, gated_deltanet, gla, linear_attention, mamba2
from derivations.gla import alpha, alpha_not_zero
from derivations.language import Gamma, Gamma_strict, I, K, M, M_strict, Q, S, V, beta, d_k, d_v, eta, gamma, n
from derivations.language import (
    Closed,
    Cotangent,
    CumulativeProduct,
    Decay,
    Derivation,
    Form,
    Gate,
    Identity,
    Parameter,
    Recurrence,
    Sequence,
    Source,
    State,
    Statement,
)
from derivations.language import Ones, RemainingProduct, TotalProduct, diag, reciprocal, total

dO, dS = Sequence("dO", n, d_v), Parameter("dS", d_v, d_k)
ones_v = Ones(d_v, 1)

Formulas = Mapping[Sequence | Gate | State, Statement]
"""By input the formula of its cotangent."""
Meanings = Mapping[Sequence | Parameter, Statement]
"""Names in a formula with what they mean, each made of those before it."""
NO_NAMES: Meanings = {}


def decayed(queries: Statement, keys: Statement, values: Statement, gates: Gate) -> dict[str, Statement]:
    """What a block of decayed attention hands back: dq, dk, dv of its queries, keys and values, and dS_0."""
    mask, so_far, to_end = Decay(gates), diag(CumulativeProduct(gates)), diag(RemainingProduct(gates))
    return {
        "q": so_far @ dO @ S + (dO @ values.T).hadamard(mask) @ keys,
        "k": to_end @ values @ dS + (values @ dO.T).hadamard(mask.T) @ queries,
        "v": to_end @ keys @ dS.T + (keys @ queries.T).hadamard(mask.T) @ dO,
        "S": TotalProduct(gates) * dS + (so_far @ dO).T @ queries,
    }


of_linear_attention: Formulas = {
    Q: dO @ S + (dO @ V.T).hadamard(M) @ K,
    K: V @ dS + (V @ dO.T).hadamard(M.T) @ Q,
    V: K @ dS.T + (K @ Q.T).hadamard(M.T) @ dO,
    S: dS + dO.T @ Q,
}

of_decay: Formulas = dict(zip((Q, K, V, S), decayed(Q, K, V, gamma).values(), strict=True))

# Mamba-2: the values are Delta x, so that dx and dDelta are read off their cotangent
B, C, X, Delta, a = mamba2.B, mamba2.C, mamba2.X, mamba2.Delta, mamba2.a
of_steps = decayed(C, B, diag(Delta) @ X, a)
of_mamba2: Formulas = {
    C: of_steps["q"],
    B: of_steps["k"],
    X: diag(Delta) @ of_steps["v"],
    Delta: of_steps["v"].hadamard(X) @ ones_v,
    S: of_steps["S"],
}

# GLA: products of gates by channel, moved into Q and K as in the forward pass
b, to_end = CumulativeProduct(alpha), RemainingProduct(alpha)
Q_faded, K_raised = Q.hadamard(b), K.hadamard(reciprocal(b))
of_gla: Formulas = {
    Q: b.hadamard(dO @ S + (dO @ V.T).hadamard(M) @ K_raised),
    K: reciprocal(b).hadamard((V @ dO.T).hadamard(M.T) @ Q_faded) + to_end.hadamard(V @ dS),
    V: K.hadamard(to_end) @ dS.T + (K_raised @ Q_faded.T).hadamard(M.T) @ dO,
    S: dS @ diag(total(alpha)) + dO.T @ Q_faded,
}

# DeltaNet: U are the corrected values, eta_t (v_t - S_{t-1} k_t) in row t, with O = Q S^T + ((Q K^T) . M) U; dR is the
# cotangent of what the system is solved for, and E what the system's own matrix says about K K^T
U, dU, dR, dV = (Sequence(name, n, d_v) for name in ("U", "dU", "dR", "dV"))
E = Parameter("E", n, n)
A = I + diag(eta) @ (K @ K.T).hadamard(M_strict)
solved: Meanings = {
    U: A.I @ diag(eta) @ (V - K @ S.T),
    dU: K @ dS.T + (K @ Q.T).hadamard(M.T) @ dO,
    dR: A.T.I @ dU,
    dV: diag(eta) @ dR,
    E: (dV @ U.T).hadamard(M_strict),
}
of_deltanet: Formulas = {
    Q: dO @ S + (dO @ U.T).hadamard(M) @ K,
    K: U @ dS + (U @ dO.T).hadamard(M.T) @ Q - dV @ S - (E + E.T) @ K,
    V: dV,
    eta: dR.hadamard(V - K @ S.T - (K @ K.T).hadamard(M_strict) @ U) @ ones_v,
    S: dS + dO.T @ Q - dV.T @ K,
}

# Gated DeltaNet: the same with the decay in every mask, and the state before the block faded
faded, left_over = diag(CumulativeProduct(gamma)), diag(RemainingProduct(gamma))
A_gated = I + diag(beta) @ (K @ K.T).hadamard(Gamma_strict)
solved_gated: Meanings = {
    U: A_gated.I @ diag(beta) @ (V - faded @ K @ S.T),
    dU: left_over @ K @ dS.T + (K @ Q.T).hadamard(Gamma.T) @ dO,
    dR: A_gated.T.I @ dU,
    dV: diag(beta) @ dR,
    E: (dV @ U.T).hadamard(Gamma_strict),
}
of_gated_deltanet: Formulas = {
    Q: faded @ dO @ S + (dO @ U.T).hadamard(Gamma) @ K,
    K: left_over @ U @ dS + (U @ dO.T).hadamard(Gamma.T) @ Q - faded @ dV @ S - (E + E.T) @ K,
    V: dV,
    beta: dR.hadamard(V - faded @ K @ S.T - (K @ K.T).hadamard(Gamma_strict) @ U) @ ones_v,
    S: TotalProduct(gamma) * dS + (faded @ dO).T @ Q - (faded @ dV).T @ K,
}


def closed(formula: Statement, name: str, meanings: Meanings) -> Form:
    """A formula, and what the names in it mean: each may be made of those before it."""
    form: Form = Closed(formula, name=name)
    for x, meaning in reversed(list(meanings.items())):
        if x in form.symbols():
            form = form.where(x, Closed(meaning))
    return form


def of_block(system: str, recurrence: Recurrence, formulas: Formulas, meanings: Meanings = NO_NAMES) -> list[Identity]:
    """For every input, that the backward recurrence gives the block's formula."""
    return [
        Identity(
            f"{system}_d{x}",
            Cotangent(recurrence, of=x),
            closed(formula, f"d{x}", meanings),
            says=f"d{x} of a block of {system.replace('_', ' ')}, from the state before it and dS after it.",
            assumptions=(alpha_not_zero,) if formula.has(K_raised) else (),
        )
        for x, formula in formulas.items()
    ]


backward = Derivation(
    "backward",
    title="Backward passes of a block",
    summary="What kernels compute from dO and the cotangent of a block's last state, in matrix form.",
    forms={},
    identities=[
        *of_block("linear_attention", linear_attention.recurrence, of_linear_attention),
        *of_block("decay", decay.recurrence, of_decay),
        *of_block("mamba2", mamba2.recurrence, of_mamba2),
        *of_block("gla", gla.recurrence, of_gla),
        *of_block("deltanet", deltanet.recurrence, of_deltanet, solved),
        *of_block("gated_deltanet", gated_deltanet.recurrence, of_gated_deltanet, solved_gated),
    ],
    sources=[
        Source("Gated Linear Attention Transformers", "Yang et al. 2023", "arXiv:2312.06635"),
        Source("Transformers are SSMs", "Dao & Gu 2024", "arXiv:2405.21060"),
        Source("Parallelizing Linear Transformers with the Delta Rule", "Yang et al. 2024", "arXiv:2406.06484"),
        Source("Gated Delta Networks", "Yang, Kautz & Hatamizadeh 2024", "arXiv:2412.06464"),
    ],
)
