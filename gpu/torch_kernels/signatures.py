"""The arguments of each system. They are here, beside no code, so that the registry can be loaded without Torch."""

from __future__ import annotations

from gpu.registry import Argument, Scale


def _read(name: str, stands_for: str) -> Argument:
    return Argument(name, stands_for, "b t h k")


def _strength(name: str, layout: str = "b t g", stands_for: str | None = None) -> Argument:
    return Argument(name, stands_for or name, layout)


def _gate(stands_for: str, layout: str = "b t g", name: str = "log_gate", scale: Scale = "log") -> Argument:
    return Argument(name, stands_for, layout, scale)


def _state(stands_for: str = "S", layout: str = "n g k v", name: str = "initial_state") -> Argument:
    return Argument(name, stands_for, layout, optional=True)


Q, K, V, W, R = _read("q", "Q"), _read("k", "K"), Argument("v", "V", "b t g v"), _read("w", "W"), _read("r", "R")
PHI_Q, PHI_K = _read("q", "phi_Q"), _read("k", "phi_K")
GAMMA, ALPHA, DECAY = _gate("gamma"), _gate("alpha", "b t g k"), _gate("w", "b t g k")
BETA, ETA, S = _strength("beta"), _strength("eta"), _state()
X = Argument("x", "X", "b t g v")
COSINE, SINE = Argument("cosine", "c", "b t h p"), Argument("sine", "s", "b t h p")
BONUS = Argument("bonus", "u", "g k")
RIDGE = _strength("ridge", "b t g k", "Lambda")
G, H, Z = _state("G"), _state("H", "n g k k", "initial_curvature"), _state("z", "n g k", "initial_normaliser")

ARGUMENTS: dict[str, tuple[Argument, ...]] = {
    "linear_attention": (Q, K, V, S),
    "feature_maps": (PHI_Q, PHI_K, V, S, Z),
    "decay": (Q, K, V, GAMMA, S),
    "mamba2": (_read("C", "C"), _read("B", "B"), X, _strength("step", stands_for="Delta"), _gate("a", name="log_a"), S),
    "retnet": (Q, K, V, GAMMA, COSINE, SINE, S),
    "gla": (Q, K, V, ALPHA, S),
    "rwkv6": (R, K, V, DECAY, BONUS, S),
    "deltanet": (Q, K, V, ETA, S),
    "gated_deltanet": (Q, K, V, GAMMA, BETA, S),
    "kda": (Q, K, V, ALPHA, BETA, S),
    "comba": (Q, K, _read("p", "P"), V, GAMMA, BETA, S),
    "rwkv7": (R, K, _read("kappa", "kappa"), V, DECAY, _strength("a", "b t g k"), S),
    "path_attention": (Q, K, W, V, BETA, S),
    "mesanet": (Q, K, V, GAMMA, RIDGE, G, H),
    "forgetting_attention": (Q, K, V, GAMMA),
    "path_fox": (Q, K, W, V, BETA, GAMMA),
    "deltaformer": (Q, K, W, V),
}
"""By module: the arguments of its functions, in order."""
