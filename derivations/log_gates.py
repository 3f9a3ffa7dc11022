r"""The derivative by a log gate is a sum from the token to the end, and needs no product of gates.

With gamma_t = exp(g_t), dg_t = gamma_t dgamma_t = <S_{t-1}, dS_{t-1}>. A token changes <S, dS> by what it reads and
writes, so that from the last token on

    dg_t = sum_{s >= t} (<do_s, o_s> - <dk_s, k_s>) + <dS_n, S_n>

where dS_n is the cotangent of the final state. Yang et al. 2023 (arXiv 2312.06635, section 4 and appendix C) state it
for GLA, channel by channel, with a loss that reads the outputs alone. The last term is what kernels forget: where a
sequence is cut in pieces, the loss reads the final state through the pieces that follow. Where the write depends on the
state, as in the delta rules, <dv_s, v_s> takes the place of <dk_s, k_s>.
"""

from derivations import decay, gated_deltanet, gla, mamba2
from derivations.gla import alpha
from derivations.language import (
    Closed,
    Cotangent,
    Derivation,
    Form,
    Gate,
    Identity,
    K,
    M,
    Ones,
    Parameter,
    Q,
    Recurrence,
)
from derivations.language import ChannelGate, Sequence, Source, Statement, V, d_k, d_v, gamma, n, trace

dO, O, S_n, dS = Sequence("dO", n, d_v), Sequence("O", n, d_v), Parameter("S_n", d_v, d_k), Parameter("dS", d_v, d_k)
dQ, dK, dV = Sequence("dQ", n, d_k), Sequence("dK", n, d_k), Sequence("dV", n, d_v)
dX = Sequence("dX", n, d_v)
dgamma, da, dalpha = Gate("dgamma"), Gate("da"), ChannelGate("dalpha", n, d_k)

# a row of each of these is one inner product, <do_s, o_s> and so on; each token gets the same <dS_n, S_n>
read = dO.hadamard(O) @ Ones(d_v, 1)
written_by_key, written_by_value = dK.hadamard(K) @ Ones(d_k, 1), dV.hadamard(V) @ Ones(d_v, 1)
written_by_input = dX.hadamard(mamba2.X) @ Ones(d_v, 1)
carried_on = trace(dS.T @ S_n) * Ones(n, 1)

# GLA, channel by channel: the columns of S_n . dS added up
by_channel = dQ.hadamard(Q) - dK.hadamard(K)
carried_on_by_channel = Ones(n, d_v) @ dS.hadamard(S_n)


def by_gate(recurrence: Recurrence) -> Form:
    """dg = gamma dgamma."""
    return Closed(gamma.hadamard(dgamma), name="dg").where(dgamma, Cotangent(recurrence, of=gamma))


def scan(recurrence: Recurrence, sums: Statement) -> Form:
    """A formula of the outputs, the final state and the cotangents of a recurrence."""
    form: Form = Closed(sums, name="dg")
    meanings: dict[Sequence | Parameter, Form] = {O: recurrence, S_n: recurrence.final()}
    for cotangent, x in ((dQ, Q), (dK, K), (dV, V), (dX, mamba2.X)):
        if sums.has(cotangent):
            meanings[cotangent] = Cotangent(recurrence, of=x)
    for name, meaning in meanings.items():
        form = form.where(name, meaning) if sums.has(name) else form
    return form


of_mamba2 = Closed(mamba2.a.hadamard(da), name="dg").where(da, Cotangent(mamba2.recurrence, of=mamba2.a))
of_gla = Closed(alpha.hadamard(dalpha), name="dg").where(dalpha, Cotangent(gla.recurrence, of=alpha))
FORGOTTEN = "Where the loss reads the final state, the scan alone is short of <dS_n, S_n> at every token."

log_gates = Derivation(
    "log_gates",
    title="Derivatives by log gates",
    summary="The derivative by the logarithm of a gate as a reversed cumulative sum.",
    forms={},
    identities=[
        Identity(
            "decay",
            by_gate(decay.recurrence),
            scan(decay.recurrence, M.T @ (read - written_by_key) + carried_on),
            says="What is read from a token on, less what is written, and what the final state is read with.",
        ),
        Identity(
            "decay_without_final_state",
            by_gate(decay.recurrence),
            scan(decay.recurrence, M.T @ (read - written_by_key)),
            expected="refuted",
            says=FORGOTTEN,
        ),
        Identity(
            "mamba2",
            of_mamba2,
            scan(mamba2.recurrence, M.T @ (read - written_by_input) + carried_on),
            says="The step Delta scales what is written, so that the inputs count as they are: <dx, x>.",
        ),
        Identity(
            "gla",
            of_gla,
            scan(gla.recurrence, M.T @ by_channel + carried_on_by_channel),
            says="The same for each channel: what is read is q . dq, what is written k . dk.",
            source="Yang et al. 2023, section 4 and appendix C",
        ),
        Identity(
            "gla_without_final_state",
            of_gla,
            scan(gla.recurrence, M.T @ by_channel),
            expected="refuted",
            says=FORGOTTEN,
        ),
        Identity(
            "gated_deltanet",
            by_gate(gated_deltanet.recurrence),
            scan(gated_deltanet.recurrence, M.T @ (read - written_by_value) + carried_on),
            says="With the delta rule what a token writes is counted by its value.",
        ),
        Identity(
            "gated_deltanet_by_keys",
            by_gate(gated_deltanet.recurrence),
            scan(gated_deltanet.recurrence, M.T @ (read - written_by_key) + carried_on),
            expected="refuted",
            says="A key of the delta rule also erases: <dk, k> isn't what the token writes.",
        ),
    ],
    sources=[
        Source("Gated Linear Attention Transformers", "Yang et al. 2023, section 4, appendix C", "arXiv:2312.06635"),
        Source(
            "Support dg when dht passed",
            "flash-linear-attention, pull request 459",
            "https://github.com/fla-org/flash-linear-attention/pull/459",
        ),
    ],
)
