"""Functions that emitted code brings along where its formula needs them, written for NumPy."""

from __future__ import annotations

from collections.abc import Iterable

from attnproof.emitting.targets import Target

HELPERS = {
    "token": '''
def token(x, t):
    """Token t of a sequence (batch, heads, length, d), as a column (batch, heads, d, 1)."""
    return x[:, :, t, :, None]
''',
    "rows": '''
def rows(columns):
    """The matrix whose rows are these columns."""
    return np.concatenate([column.mT for column in columns], axis=-2)
''',
    "decay": '''
def decay(gates):
    """Γ_ij = γ_{j+1} ... γ_i for i >= j, else 0, of a column of gates (..., n, 1)."""
    later = np.tril(np.ones_like(gates * gates.mT), -1) > 0  # i > j
    return np.tril(np.cumprod(np.where(later, gates, 1), axis=-2))
''',
    "shifted_decay": '''
def shifted_decay(gates):
    """Γˢʰ_ij = γ_{j+1} ... γ_{i-1} for i > j, else 0: each row of Γ one row further down."""
    Gamma = decay(gates)
    return np.concatenate([np.zeros_like(Gamma[..., :1, :]), Gamma[..., :-1, :]], axis=-2)
''',
    "preceding_product": '''
def preceding_product(gates):
    """The rows γ_1 ... γ_{i-1}, for each column of gates (..., n, d)."""
    products = np.cumprod(gates, axis=-2)
    return np.concatenate([np.ones_like(gates[..., :1, :]), products[..., :-1, :]], axis=-2)
''',
    "remaining_product": '''
def remaining_product(gates):
    """The rows γ_{i+1} ... γ_n, for each column of gates (..., n, d)."""
    return np.flip(preceding_product(np.flip(gates, (-2,))), (-2,))
''',
    "toeplitz": '''
def toeplitz(column):
    """The convolution with a column: entry (i, j) is c_{i-j+1} for i >= j, else 0."""
    length = column.shape[-2]
    return np.tril(column[..., np.arange(length)[:, None] - np.arange(length), 0])
''',
    "below": '''
def below(*blocks):
    """Matrices below one another."""
    batch = np.broadcast_shapes(*(x.shape[:-2] for x in blocks))
    return np.concatenate([np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in blocks], axis=-2)
''',
    "beside": '''
def beside(*blocks):
    """Matrices beside one another."""
    return below(*(x.mT for x in blocks)).mT
''',
    "row_products": '''
def row_products(a, b):
    """Row by row the Kronecker product of two rows."""
    products = a[..., :, None] * b[..., None, :]
    return products.reshape(*products.shape[:-2], -1)
''',
}
"""By name. A helper that calls another comes after it."""
CALLS = {
    "shifted_decay": ("decay",),
    "remaining_product": ("preceding_product",),
    "beside": ("below",),
}


def helper_texts(used: Iterable[str], target: Target) -> list[str]:
    """The functions that are used, and those that they call, in order."""
    wanted = {name for own in used for name in (own, *CALLS.get(own, ()))}
    return [target.helper(text).strip("\n") for name, text in HELPERS.items() if name in wanted]
