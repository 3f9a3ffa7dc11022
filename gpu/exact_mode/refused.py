"""Operators that have no exact meaning for field numbers, by the reason why."""

from __future__ import annotations

REFUSED = {
    "field numbers aren't ordered, so that nothing compares them": """
        eq ne lt le gt ge equal isclose allclose maximum minimum max min amax amin aminmax argmax argmin cummax cummin
        sort argsort topk kthvalue median nanmedian mode clamp clamp_min clamp_max hardtanh relu leaky_relu elu
        threshold sign sgn signbit abs any all nonzero count_nonzero logical_and logical_or logical_not logical_xor
        searchsorted bucketize heaviside unique _unique2 isposinf isneginf fmax fmin nan_to_num hardswish hardsigmoid
        """,
    "a rounded number depends on the order of the numbers, which a field doesn't have": """
        round floor ceil trunc frac fmod remainder floor_divide div nextafter view
        """,
    "a root isn't a rational function of its argument": """
        sqrt rsqrt hypot linalg_vector_norm linalg_matrix_norm norm frobenius_norm cholesky linalg_cholesky_ex
        linalg_qr linalg_eigh _linalg_eigh _linalg_svd std std_mean native_layer_norm native_group_norm
        native_batch_norm _fused_rms_norm _cdist_forward renorm pow
        """,
    "it isn't a rational function of its argument, and only log gates have an exponential": """
        log log2 log10 log1p exp2 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc erfinv
        sigmoid silu gelu mish softplus log_sigmoid_forward logsumexp logcumsumexp logaddexp logaddexp2 logit xlogy
        _softmax softmax _log_softmax log_softmax _safe_softmax lgamma digamma sinc glu selu celu
        _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_efficient_attention _scaled_dot_product_attention_math
        """,
    "what it draws isn't an input: draw it outside, and pass it as an argument": """
        rand_like randn_like randint_like bernoulli native_dropout dropout normal uniform random exponential
        multinomial poisson
        """,
    "a field number can't be read as a Python number, which float(x), x.item() and `if x` do": """
        _local_scalar_dense item is_nonzero
        """,
}
"""Names of operators without their overloads. One that has a rule for some of its overloads is refused for the
others.
"""

_REASONS = {name: reason for reason, names in REFUSED.items() for name in names.split()}


def reason_against(name: str) -> str:
    """Why an operator, in place or not, is refused; nothing where it isn't."""
    return _REASONS.get(name) or _REASONS.get(name.removesuffix("_"), "")
