"""Holds the two PyTorch reference functions of transformers' Qwen3-Next against the statement of Gated DeltaNet.

    python examples/check_transformers.py [--decay slow|strong] [--seed N]

The functions compute in float32 and cumulate their gates in logarithms. The statement is evaluated in float64, and
the tolerance of every row comes from the rounding noise of float32 in the order in which the function computes. Each
function must compute eq. 10, and must be told apart from the recurrence that predicts before it decays (`printed`).
With one token and no state before it these two are the same formula, S_1 = beta v k^T, so that there they must agree.

It needs torch and transformers: pip install 'attnproof[audit]'. The exit status is 0 where everything is as expected.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from derivations.gated_deltanet import chunkwise, printed, recurrence
from derivations.language import Form, K, Q, S, V, beta, d_k, d_v, eta, gamma, n
from numerics.algebras.floats import numpy_float64
from numerics.evaluate import CHUNK
from numerics.proofs.tolerances import Roundings, tolerances_of
from numerics.run import run

LENGTHS = (1, 63, 64, 65, 150)
"""One token; around one chunk of 64; a third chunk with a ragged tail, where a wrong carry shows."""
BATCH, HEADS, KEY_WIDTH, VALUE_WIDTH, CHUNK_SIZE = 2, 3, 16, 12, 64
FLOAT32 = 2.0**-24
DECAYS = {"slow": (1e-3, 0.5), "strong": (0.5, 6.0)}
"""The range of -log(gamma) per token."""
FAR = 100.0
"""A formula counts as another one where it is this many tolerances off."""


@dataclass(frozen=True)
class Kernel:
    """A function under test, and the form that says in which order it computes.

    `logs` gives, for log gates (..., T), the size of the logarithms that were rounded before exp was taken.
    """

    name: str
    function: Callable[..., Any]
    order: Form
    logs: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Inputs:
    """Float32 inputs in the functions' layout: q, k `b t h k`, v `b t h v`, gates `b t h`, the state `b h k v`."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    log_gate: np.ndarray
    beta: np.ndarray
    state: np.ndarray | None


def kernels() -> dict[str, Kernel]:
    """The functions themselves, without the decorator that would swap in a fused kernel.

    Raises:
        ImportError: torch or transformers is missing.
    """
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

    names = ("torch_recurrent_gated_delta_rule", "torch_chunk_gated_delta_rule")
    recurrent, chunked = (inspect.unwrap(getattr(qwen3_next, name)) for name in names)
    as_given = np.zeros_like
    return {
        "recurrent": Kernel(names[0], recurrent, recurrence, as_given),
        "chunked": Kernel(names[1], chunked, chunkwise, logs_of_a_difference),
    }


def logs_of_a_difference(logs: np.ndarray) -> np.ndarray:
    """|c_t| + |c_{t-1}| for the sums c_t = g_1 + ... + g_t of a chunk: a gate is exp of a difference of two of them,
    and float32 has rounded both.
    """
    starts = range(0, logs.shape[-1], CHUNK_SIZE)
    sums = [abs(logs[..., first : first + CHUNK_SIZE].cumsum(-1)) for first in starts]
    return np.concatenate([c + np.roll(c, 1, axis=-1) * (np.arange(c.shape[-1]) > 0) for c in sums], axis=-1)


def draw(tokens: int, decay: str, with_state: bool, seed: int) -> Inputs:
    """Random inputs: keys of norm one, as the model normalises them, and log gates spread over the range of a decay."""
    rng = np.random.default_rng((seed, tokens))
    lead = (BATCH, tokens, HEADS)
    keys = rng.normal(size=(*lead, KEY_WIDTH))
    low, high = np.log(DECAYS[decay])
    drawn = (
        rng.normal(size=keys.shape),
        keys / np.linalg.norm(keys, axis=-1, keepdims=True),
        rng.normal(size=(*lead, VALUE_WIDTH)),
        -np.exp(rng.uniform(low, high, lead)),
        rng.uniform(0.05, 1, lead),
        rng.normal(size=(BATCH, HEADS, KEY_WIDTH, VALUE_WIDTH)),
    )
    q, k, v, log_gate, write, state = (x.astype(np.float32) for x in drawn)
    return Inputs(q, k, v, log_gate, write, state if with_state else None)


def by_head(x: np.ndarray) -> np.ndarray:
    """`b t h ...` in float32 to `b h t ...` in float64."""
    return np.moveaxis(x.astype(np.float64), 1, 2)


def environment(inputs: Inputs) -> dict[Any, Any]:
    """The same inputs for the statements: gates instead of their logarithms, scaled queries, states d_v x d_k."""
    write = by_head(inputs.beta)[..., None]
    env: dict[Any, Any] = {
        Q: by_head(inputs.q) * KEY_WIDTH**-0.5,
        K: by_head(inputs.k),
        V: by_head(inputs.v),
        gamma: np.exp(by_head(inputs.log_gate))[..., None],
        beta: write,
        eta: write,
    }
    if inputs.state is not None:
        env[S] = inputs.state.astype(np.float64).swapaxes(-1, -2)
    return env | {n: inputs.q.shape[1], d_k: KEY_WIDTH, d_v: VALUE_WIDTH, CHUNK: CHUNK_SIZE}


def call(function: Callable[..., Any], inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """The function's output and final state, in the layout of the statements."""
    import torch

    arrays = (inputs.q, inputs.k, inputs.v, inputs.log_gate, inputs.beta)
    state = None if inputs.state is None else torch.tensor(inputs.state)
    output, final = function(
        *map(torch.tensor, arrays), initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=False
    )
    return by_head(output.numpy()), final.numpy().astype(np.float64).swapaxes(-1, -2)


STATEMENTS: dict[str, Form] = {"eq. 10": recurrence, "predicts first": printed}


def errors_over_tolerance(kernel: Kernel, inputs: Inputs, seed: int) -> dict[str, float]:
    """For each statement the largest error of any row of output and final state, in units of that row's tolerance."""
    env = environment(inputs)
    # the scaled query and exp are rounded once; an absolute error of the logarithm is a relative one of the gate
    computed: dict[Any, Any] = {Q: 1.0, gamma: 1 + kernel.logs(by_head(inputs.log_gate))[..., None]}
    tolerances = tolerances_of(kernel.order, env, Roundings(FLOAT32, computed), np.random.default_rng(seed))
    found = call(kernel.function, inputs)
    errors = {}
    for name, statement in STATEMENTS.items():
        outcome = run(statement, env, numpy_float64())
        pairs = zip(found, (outcome.output, *outcome.states), tolerances, strict=True)
        ratios = [(abs(value - exact).max(axis=-1) / tolerance).max() for value, exact, tolerance in pairs]
        errors[name] = float(np.max(ratios))  # np.max keeps NaN, and NaN is no agreement
    return errors


def expected_verdict(statement: str, tokens: int, with_state: bool) -> str:
    """ "agrees" for eq. 10, and for the other recurrence where it is the same formula."""
    return "agrees" if statement == "eq. 10" or (tokens == 1 and not with_state) else "differs"


def verdict(ratio: float) -> str:
    """ "agrees" within the tolerance, "differs" far outside it, else "unclear"."""
    return "agrees" if ratio <= 1 else "differs" if ratio > FAR else "unclear"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 0 where every verdict is the expected one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--decay", choices=DECAYS, default="slow")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        functions = kernels()
    except ImportError as error:
        print(f"{error}: pip install 'attnproof[audit]'", file=sys.stderr)
        return 2
    print(f"{'T':>4}  {'function':<34}{'start':<7}{'statement':<16}{'error/tolerance':>15}  verdict")
    unexpected = 0
    for tokens, kernel, with_state in product(LENGTHS, functions.values(), (False, True)):
        inputs = draw(tokens, options.decay, with_state, options.seed)
        for statement, ratio in errors_over_tolerance(kernel, inputs, options.seed).items():
            found, wanted = verdict(ratio), expected_verdict(statement, tokens, with_state)
            unexpected += found != wanted
            remark = "" if found == wanted else f", expected: {wanted}"
            start = "state" if with_state else "zero"
            print(f"{tokens:>4}  {kernel.name:<34}{start:<7}{statement:<16}{ratio:>15.3g}  {found}{remark}")
    print(f"{unexpected} unexpected" if unexpected else "all as expected")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
