"""What is here, for `gpu.registry`: the chunkwise functions, and the fused recurrent kernel, which needs a device."""

from __future__ import annotations

from dataclasses import replace

from gpu.registry import Argument, Implementation, Scale

PRECISIONS = ("float64", "float32")
CHUNK_SIZES = (16, 64, 128)
Returns = tuple[tuple[str, str], ...]


def _read(name: str, stands_for: str) -> Argument:
    return Argument(name, stands_for, "b t h k")


def _values(name: str, stands_for: str) -> Argument:
    return Argument(name, stands_for, "b t g v")


def _gate(name: str, stands_for: str, layout: str = "b t g", scale: Scale = "linear") -> Argument:
    return Argument(name, stands_for, layout, scale)


def _start(name: str = "initial_state", stands_for: str = "S", layout: str = "b g k v") -> Argument:
    return Argument(name, stands_for, layout, optional=True)


Q, K, V = _read("q", "Q"), _read("k", "K"), _values("v", "V")
R, BETA = _read("r", "R"), _gate("beta", "beta")
GAMMA = _gate("log_gate", "gamma", scale="log")
ALPHA, W = (_gate("log_gate", name, "b t g k", "log") for name in ("alpha", "w"))
TURNS = Argument("cosine", "c", "b t h p"), Argument("sine", "s", "b t h p")

OUTPUT: Returns = (("O", "b t g v"),)
WITH_STATE: Returns = (*OUTPUT, ("S", "b g k v"))
NORMALISED: Returns = (*WITH_STATE, ("z", "b g k"))
REGRESSED: Returns = (*OUTPUT, ("G", "b g k v"), ("H", "b g k k"))

ARGUMENTS: dict[str, tuple[Argument, ...]] = {
    "linear_attention": (Q, K, V, _start()),
    "normalised_linear_attention": (
        _read("q", "phi_Q"),
        _read("k", "phi_K"),
        V,
        _start(),
        _start("initial_normaliser", "z", "b g k"),
    ),
    "decayed_attention": (Q, K, V, GAMMA, _start()),
    "mamba2": (
        _read("C", "C"),
        _read("B", "B"),
        _values("x", "X"),
        _gate("step", "Delta"),
        _gate("log_a", "a", scale="log"),
        _start(),
    ),
    "retnet": (Q, K, V, GAMMA, *TURNS, _start()),
    "gla": (Q, K, V, ALPHA, _start()),
    "rwkv6": (R, K, V, W, Argument("bonus", "u", "g k"), _start()),
    "deltanet": (Q, K, V, _gate("eta", "eta"), _start()),
    "gated_deltanet": (Q, K, V, GAMMA, BETA, _start()),
    "kda": (Q, K, V, ALPHA, BETA, _start()),
    "comba": (Q, K, _read("p", "P"), V, GAMMA, BETA, _start()),
    "rwkv7": (R, K, _read("kappa", "kappa"), V, W, _gate("a", "a", "b t g k"), _start()),
    "path_attention": (Q, K, _read("w", "W"), V, BETA, _start()),
    "mesanet": (
        Q,
        K,
        V,
        GAMMA,
        _gate("ridge", "Lambda", "b t g k"),
        _start(stands_for="G"),
        _start("initial_curvature", "H", "b g k k"),
    ),
    "forgetting_attention": (Q, K, V, GAMMA),
    "deltaformer": (Q, K, _read("w", "W"), V),
}
"""The arguments of each function, in order; the fused kernel takes the same."""


def _chunkwise(
    function: str, derivation: str, form: str, returns: Returns = WITH_STATE, module: str = "", rational: bool = True
) -> Implementation:
    return Implementation(
        f"array_api.{derivation}.chunkwise",
        derivation,
        form,
        home=f"gpu.cupy_kernels.{module or function}:{function}",
        library="array_api",
        arguments=ARGUMENTS[function],
        returns=returns,
        dtypes=PRECISIONS,
        rational=rational,
        orders=("chunkwise",) if form == "recurrence" else (),
        options={"chunk_size": CHUNK_SIZES},
    )


def _recurrent(function: str, derivation: str, form: str = "recurrence") -> Implementation:
    """The fused kernel of a function that is declared as chunkwise: the same arguments and results, another order."""
    chunkwise = next(x for x in CHUNKWISE if x.home.endswith(f":{function}"))
    return replace(
        chunkwise,
        name=f"cupy.{derivation}.recurrent",
        form=form,
        home=f"gpu.cupy_kernels.recurrent:{function}",
        library="cupy",
        needs_device=True,
        rational=False,
        orders=(),
        options={},
        causal_bit_for_bit=True,
    )


CHUNKWISE = [
    _chunkwise("linear_attention", "linear_attention", "chunkwise"),
    _chunkwise("normalised_linear_attention", "feature_maps", "chunkwise", NORMALISED, "linear_attention"),
    _chunkwise("decayed_attention", "decay", "chunkwise", module="decay"),
    _chunkwise("mamba2", "mamba2", "chunkwise", module="decay"),
    _chunkwise("retnet", "retnet", "recurrence"),
    _chunkwise("gla", "gla", "chunkwise", module="decay"),
    _chunkwise("rwkv6", "rwkv6", "chunkwise"),
    _chunkwise("deltanet", "deltanet", "chunkwise"),
    _chunkwise("gated_deltanet", "gated_deltanet", "chunkwise"),
    _chunkwise("kda", "kda", "chunkwise", module="gated_deltanet"),
    _chunkwise("comba", "comba", "chunkwise"),
    _chunkwise("rwkv7", "rwkv7", "chunkwise"),
    _chunkwise("path_attention", "path_attention", "chunkwise_with_beta"),
    _chunkwise("mesanet", "mesanet", "recurrence", REGRESSED),
    _chunkwise("forgetting_attention", "forgetting_attention", "decayed", OUTPUT, rational=False),
    _chunkwise("deltaformer", "deltaformer", "matrix", OUTPUT, rational=False),
]

RECURRENT = [
    _recurrent("linear_attention", "linear_attention"),
    _recurrent("normalised_linear_attention", "feature_maps"),
    _recurrent("decayed_attention", "decay"),
    _recurrent("mamba2", "mamba2"),
    _recurrent("retnet", "retnet"),
    _recurrent("gla", "gla"),
    _recurrent("rwkv6", "rwkv6"),
    _recurrent("deltanet", "deltanet"),
    _recurrent("gated_deltanet", "gated_deltanet"),
    _recurrent("kda", "kda"),
    _recurrent("comba", "comba"),
    _recurrent("rwkv7", "rwkv7"),
    _recurrent("path_attention", "path_attention", "recurrence_with_beta"),
]

IMPLEMENTATIONS = [*CHUNKWISE, *RECURRENT]
