"""What is here, for `gpu.registry`."""

from __future__ import annotations

from gpu.registry import Implementation
from gpu.torch_kernels.signatures import ARGUMENTS

DTYPES = ("float64", "float32", "bfloat16", "float16")
OUTPUT = (("O", "b t g v"),)
WITH_STATE = (*OUTPUT, ("S", "n g k v"))
NORMALISED = (*WITH_STATE, ("z", "n g k"))
REGRESSED = (*OUTPUT, ("G", "n g k v"), ("H", "n g k k"))

Row = tuple[str, str, tuple[tuple[str, str], ...]]
STATES: dict[str, Row] = {
    "linear_attention": ("chunkwise", "recurrence", WITH_STATE),
    "feature_maps": ("chunkwise", "recurrence", NORMALISED),
    "decay": ("chunkwise", "recurrence", WITH_STATE),
    "mamba2": ("chunkwise", "recurrence", WITH_STATE),
    "retnet": ("recurrence", "recurrence", WITH_STATE),
    "gla": ("recurrence", "recurrence", WITH_STATE),
    "rwkv6": ("recurrence", "recurrence", WITH_STATE),
    "deltanet": ("chunkwise", "recurrence", WITH_STATE),
    "gated_deltanet": ("chunkwise", "error_form", WITH_STATE),
    "kda": ("recurrence", "recurrence", WITH_STATE),
    "comba": ("chunkwise", "recurrence", WITH_STATE),
    "rwkv7": ("recurrence", "recurrence", WITH_STATE),
    "path_attention": ("chunkwise_with_beta", "recurrence_with_beta", WITH_STATE),
    "mesanet": ("recurrence", "recurrence", REGRESSED),
}
"""By derivation: the forms that the chunkwise and the recurrent implementation have the order of, and the results."""
ATTENTION = {"forgetting_attention": "matrix", "path_fox": "matrix", "deltaformer": "matrix"}
"""By derivation without a state: the form."""
ORDERS = dict.fromkeys(("retnet", "gla", "rwkv6", "kda", "rwkv7", "mesanet"), ("chunkwise",))
"""By derivation: forms in whose order chunks are computed, where the form is the recurrence all the same. These forms
divide by products of gates, which may underflow, and no implementation does.
"""
IN_CHUNKS = ("chunkwise", "conjugate_gradients")
OPTIONS: dict[str, dict[str, tuple[int, ...]]] = {
    "chunkwise": {"chunk_size": (16, 64, 128)},
    "conjugate_gradients": {"chunk_size": (16, 64, 128)},
    "blockwise": {"block_size": (16, 128)},
}


def _declared(
    derivation: str, way: str, form: str, returns: tuple[tuple[str, str], ...], rational: bool = True
) -> Implementation:
    return Implementation(
        f"torch.{derivation}.{way}",
        derivation,
        form,
        home=f"gpu.torch_kernels.{derivation}:{way}",
        library="torch",
        arguments=ARGUMENTS[derivation],
        returns=returns,
        dtypes=DTYPES,
        rational=rational,
        orders=ORDERS.get(derivation, ()) if way in IN_CHUNKS else (),
        options=dict(OPTIONS.get(way, {})),
        packed=True,
        causal_bit_for_bit=True,
    )


# MesaNet's formula is rational, but a Cholesky factor has roots; and in exact numbers conjugate gradients divide 0 by 0
# after the d_k steps that are enough there, and aren't in floats
IMPLEMENTATIONS = [
    *(_declared(x, "chunkwise", form, returns, x != "mesanet") for x, (form, _, returns) in STATES.items()),
    *(_declared(x, "recurrent", form, returns, x != "mesanet") for x, (_, form, returns) in STATES.items()),
    _declared("mesanet", "conjugate_gradients", "recurrence", REGRESSED, rational=False),
    *(_declared(x, "blockwise", form, OUTPUT, rational=False) for x, form in ATTENTION.items()),
]
