r"""The family: which system is a special case of which, each reduction an identity of its own.

    KDA -- one gate for all channels --> Gated DeltaNet -- gamma = 1 --> DeltaNet -- eta to first order --> linear

A general system is put on special inputs, and compared with the special one, final states included wherever both have
the same states. "To first order" is the derivative by the write strength at zero: a system that corrects what it
predicts forgets its correction there. ALiBi, FoX, CoPE and DeltaFormer have their reductions in their own modules.
"""

from sympy import Integer

from derivations import comba, decay, deltanet, dfw, gated_deltanet, gated_deltaproduct
from derivations import gla, kda, lact, linear_attention, longhorn, mamba, mamba2, mesanet, path_attention, retnet, rope
from derivations import rwkv6, rwkv7, titans, ttt_linear
from derivations.language import Gamma, K, M, Q, S, V, beta, d_k, d_v, eta, eye, gamma, k, n, q, t, v
from derivations.language import ChannelGate, Chunkwise, Closed, Derivation, Form, Gate, Ones, Parameter, Recurrence
from derivations.language import Reduction, Zeros, derivative, exp, norm_squared, reciprocal

ONE = Integer(1)
no_gate = Ones(n, 1)
all_channels = Ones(d_k, 1)
g = Gate("g")  # how strongly each token is written, to first order


def first_order(form: Closed, strength: Gate) -> Form:
    """What a closed form becomes for small write strengths: its derivative along g, at zero."""
    return Closed(derivative(form.expression, strength, along=g)).substitute({strength: Zeros(n, 1)})


def first_block(form: Chunkwise) -> Form:
    """What a chunkwise form gives for a sequence that is one block, from the state zero."""
    return Closed(form.readout).substitute({S: Zeros(d_v, d_k)})


# Mamba's inputs for all channels at once
A, Delta, D = Parameter("A", d_v, d_k), ChannelGate("Delta", n, d_v), Parameter("D", d_v)

# MesaNet, if the covariance of the keys were always the identity
G, H = mesanet.G, mesanet.H
white_keys = Recurrence((G, H), update=(mesanet.write[0], H), readout=G @ H.I @ q, initial=(Zeros(d_v, d_k), eye(d_k)))

family = Derivation(
    "family",
    title="The family",
    summary="Reductions between the systems: what each becomes on special inputs.",
    forms={},
    identities=[
        Reduction(
            "gated_deltanet_is_deltanet",
            gated_deltanet.recurrence.substitute({gamma[t]: ONE}),
            deltanet.recurrence.substitute({eta[t]: beta[t]}),
            general="gated_deltanet",
            special="deltanet",
            condition="gamma = 1",
        ),
        Reduction(
            "gated_deltanet_is_decay",
            first_order(gated_deltanet.matrix, beta),
            decay.matrix.substitute({v: g[t] * v}),
            general="gated_deltanet",
            special="decay",
            condition="beta to first order",
        ),
        Reduction(
            "deltanet_is_linear_attention",
            first_order(deltanet.matrix, eta),
            linear_attention.matrix.substitute({v: g[t] * v}),
            general="deltanet",
            special="linear_attention",
            condition="eta to first order",
        ),
        Reduction(
            "deltanet_is_longhorn",
            deltanet.recurrence.substitute({eta[t]: beta[t] / (1 + beta[t] * norm_squared(k))}),
            longhorn.recurrence,
            general="deltanet",
            special="longhorn",
            condition="eta = beta / (1 + beta |k|^2)",
        ),
        Reduction(
            "kda_is_gated_deltanet",
            kda.recurrence.substitute({gla.alpha[t]: gamma[t] * all_channels}),
            gated_deltanet.recurrence,
            general="kda",
            special="gated_deltanet",
            condition="one gate for all channels",
        ),
        Reduction(
            "kda_is_gla",
            first_order(kda.matrix, beta),
            gla.matrix.substitute({v: g[t] * v}),
            assumptions=(gla.alpha_not_zero,),
            general="kda",
            special="gla",
            condition="beta to first order",
        ),
        Reduction(
            "gla_is_decay",
            gla.recurrence.substitute({gla.alpha[t]: gamma[t] * all_channels}),
            decay.recurrence,
            general="gla",
            special="decay",
            condition="one gate for all channels",
        ),
        Reduction(
            "dfw_is_gla",
            dfw.recurrence.substitute({dfw.f[t]: Ones(d_v, 1), dfw.g: gla.alpha}),
            gla.recurrence,
            general="dfw",
            special="gla",
            condition="f = 1, no gate on the values' side",
        ),
        Reduction(
            "dfw_is_decay",
            dfw.recurrence.substitute({dfw.f[t]: gamma[t] * Ones(d_v, 1), dfw.g[t]: all_channels}),
            decay.recurrence,
            general="dfw",
            special="decay",
            condition="f = gamma and g = 1",
        ),
        Reduction(
            "rwkv7_is_kda",
            rwkv7.recurrence.substitute(
                {
                    rwkv7.R: Q,
                    rwkv7.w: gla.alpha,
                    rwkv7.kappa[t]: gla.alpha[t].hadamard(k),
                    rwkv7.a[t]: beta[t] * reciprocal(gla.alpha[t]),
                    v: beta[t] * v,
                }
            ),
            kda.recurrence,
            assumptions=(gla.alpha_not_zero,),
            general="rwkv7",
            special="kda",
            condition="kappa = alpha . k and a = beta / alpha",
        ),
        Reduction(
            "rwkv7_is_gla",
            rwkv7.recurrence.substitute({rwkv7.R: Q, rwkv7.w: gla.alpha, rwkv7.a: Zeros(n, d_k)}),
            gla.recurrence,
            general="rwkv7",
            special="gla",
            condition="a = 0, nothing is removed",
        ),
        Reduction(
            "rwkv6_is_linear_attention",
            rwkv6.recurrence.substitute({rwkv6.R: Q, rwkv6.w: Ones(n, d_k), rwkv6.u: all_channels}),
            linear_attention.recurrence,
            general="rwkv6",
            special="linear_attention",
            condition="w = 1 and u = 1",
        ),
        Reduction(
            "comba_is_gated_deltanet",
            comba.recurrence.substitute({comba.p: gamma[t] * k}),
            gated_deltanet.recurrence,
            general="comba",
            special="gated_deltanet",
            condition="p = gamma k",
        ),
        Reduction(
            "comba_is_deltanet",
            comba.recurrence.substitute({comba.p: k, gamma[t]: ONE}),
            deltanet.recurrence.substitute({eta[t]: beta[t]}),
            general="comba",
            special="deltanet",
            condition="p = k and gamma = 1",
        ),
        Reduction(
            "comba_is_decay",
            comba.recurrence.substitute({comba.P: Zeros(n, d_k)}),
            decay.recurrence.substitute({v: beta[t] * v}),
            general="comba",
            special="decay",
            condition="p = 0, nothing is predicted",
        ),
        Reduction(
            "gated_deltaproduct_is_gated_deltanet",
            gated_deltaproduct.recurrence.substitute(
                {
                    gated_deltaproduct.beta_2: Zeros(n, 1),
                    gated_deltaproduct.beta_1: beta,
                    gated_deltaproduct.K_1: K,
                    gated_deltaproduct.V_1: V,
                }
            ),
            gated_deltanet.recurrence,
            general="gated_deltaproduct",
            special="gated_deltanet",
            condition="beta_2 = 0, one step a token",
        ),
        Reduction(
            "retnet_is_decay",
            retnet.recurrence.substitute({retnet.cosine: no_gate, retnet.sine: Zeros(n, 1)}),
            Closed((retnet.Q @ retnet.K.T).hadamard(Gamma) @ V),
            general="retnet",
            special="decay",
            condition="theta = 0, no rotation",
        ),
        Reduction(
            "retnet_is_rope",
            retnet.recurrence.substitute({gamma: no_gate}),
            rope.recurrence.substitute({rope.C: retnet.cosine, rope.Z: retnet.sine}),
            general="retnet",
            special="rope",
            condition="gamma = 1",
        ),
        Reduction(
            "rope_is_linear_attention",
            rope.recurrence.substitute({rope.C: no_gate, rope.Z: Zeros(n, 1)}),
            Closed((rope.Q @ rope.K.T).hadamard(M) @ V),
            general="rope",
            special="linear_attention",
            condition="theta = 0, no rotation",
        ),
        Reduction(
            "decay_is_linear_attention",
            decay.recurrence.substitute({gamma[t]: ONE}),
            linear_attention.recurrence,
            general="decay",
            special="linear_attention",
            condition="gamma = 1",
        ),
        Reduction(
            "gla_is_linear_attention",
            gla.recurrence.substitute({gla.alpha: Ones(n, d_k)}),
            linear_attention.recurrence,
            general="gla",
            special="linear_attention",
            condition="alpha = 1",
        ),
        Reduction(
            "path_attention_is_deltanet",
            path_attention.recurrence.substitute({path_attention.W: K}),
            deltanet.recurrence.substitute({eta[t]: ONE}),
            general="path_attention",
            special="deltanet",
            condition="W = K",
        ),
        Reduction(
            "path_attention_is_linear_attention",
            path_attention.recurrence.substitute({path_attention.W: Zeros(n, d_k)}),
            linear_attention.recurrence,
            general="path_attention",
            special="linear_attention",
            condition="W = 0",
        ),
        Reduction(
            "mesanet_is_decay",
            white_keys,
            decay.matrix,
            general="mesanet",
            special="decay",
            condition="H + Lambda = I, white keys",
        ),
        Reduction(
            "mamba_is_mamba2",
            mamba.recurrence.substitute(
                {A: mamba2.A * Ones(d_v, d_k), Delta: mamba2.Delta @ Ones(1, d_v), D: Zeros(d_v, 1)}
            ),
            mamba2.recurrence.substitute({mamba2.a[t]: exp(mamba2.A * mamba2.Delta[t])}),
            carries=False,
            general="mamba",
            special="mamba2",
            condition="one rate A, and one step for all channels",
        ),
        Reduction(
            "mamba2_is_decay",
            mamba2.recurrence.substitute(
                {mamba2.Delta[t]: ONE, mamba2.X: V, mamba2.B: K, mamba2.C: Q, mamba2.a: gamma}
            ),
            decay.recurrence,
            general="mamba2",
            special="decay",
            condition="values that are scaled by their steps beforehand",
        ),
        Reduction(
            "titans_is_comba",
            titans.recurrence.substitute({eta: Zeros(n, 1), titans.theta[t]: beta[t] / 2}),
            comba.recurrence.substitute({comba.p: k}),
            carries=False,
            general="titans",
            special="comba",
            condition="no momentum, theta = beta / 2 and p = k",
        ),
        Reduction(
            "titans_is_deltanet",
            titans.recurrence.substitute({eta: Zeros(n, 1), gamma: no_gate, titans.theta[t]: beta[t] / 2}),
            deltanet.recurrence.substitute({eta[t]: beta[t]}),
            carries=False,
            general="titans",
            special="deltanet",
            condition="no momentum and no decay, theta = beta / 2",
        ),
        Reduction(
            "ttt_linear_is_linear_attention",
            ttt_linear.primal.substitute({ttt_linear.S_0: Zeros(d_v, d_k), eta[t]: ONE}),
            linear_attention.matrix,
            general="ttt_linear",
            special="linear_attention",
            condition="one batch from W_0 = 0 with eta = 1",
        ),
        Reduction(
            "ttt_linear_is_deltanet",
            ttt_linear.one_token,
            deltanet.recurrence,
            general="ttt_linear",
            special="deltanet",
            condition="batches of one token",
        ),
        Reduction(
            "lact_is_linear_attention",
            first_block(lact.unmasked),
            linear_attention.noncausal_state.substitute({v: eta[t] * v}),
            general="lact",
            special="linear_attention",
            condition="one block from W = 0, with its own values read too",
        ),
    ],
)
