"""Mistakes that are the statement on other inputs: a gate cumulated twice, a strength left out, two inputs exchanged.

    S_t = gamma_t (S_{t-1} + v_t k_t^T)  is decayed linear attention with gamma_t v_t in the place of v_t.

Each is a change of the environment in which the statement is evaluated, and what it is in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from attnproof.oracle.statements import is_gate, symbols_of
from attnproof.oracle.subject import Subject
from derivations.language.symbols import d_v, n
from gpu.registry import Argument

Environment = Mapping[Any, Any]
Change = Callable[[Environment], dict[Any, np.ndarray]]
"""The inputs that are changed, from all of them."""
Named = Mapping[str, Any]
STRENGTHS = ("beta", "eta")
BLOCKS = (16, 32, 64, 128)
"""Sizes of blocks at whose starts a cumulative product may begin anew."""


def misreadings(subject: Subject) -> Iterator[tuple[str, Change]]:
    """In words, and the change."""
    known = symbols_of(subject.convention.derivation)
    arguments = [x for x in subject.convention.arguments if x.stands_for in known]
    for argument in arguments:
        x = known[argument.stands_for]
        if is_gate(argument, subject):
            yield from _of_a_gate(argument.name, x, known)
        elif argument.stands_for in STRENGTHS:
            yield from _of_a_strength(argument.name, x, known)
    yield from _of_systems(known)
    yield from _exchanged(arguments, known)


def _of_a_gate(name: str, gate: Any, known: Named) -> Iterator[tuple[str, Change]]:
    """Of single tokens; a gate for each channel of the key multiplies keys, one for all of them values."""
    yield f"{name} isn't used: no token fades", lambda env: {gate: np.ones_like(env[gate])}
    yield f"{name} is read as a gate, and not as its logarithm", lambda env: {gate: np.log(env[gate])}
    yield f"the exponential of {name} is taken where the gate was given", lambda env: {gate: np.exp(env[gate])}
    yield f"{name} is taken to the base 2", lambda env: {gate: 2 ** np.log(env[gate])}
    yield f"{name} of the token before is used", lambda env: {gate: _late(env[gate])}
    if gate.shape[0] != n:
        return
    yield f"{name} is summed up twice", lambda env: {gate: np.cumprod(env[gate], axis=-2)}
    for size in BLOCKS:
        what = f"{name} is summed up twice, anew in each block of {size}"
        yield what, partial(_cumulated, gate, size)
    if gate.shape[1] != 1:
        yield f"the mean of the channels of {name} is one gate for all", lambda env: {gate: _mean(env[gate])}
        yield f"one gate for all channels: the first of {name}", lambda env: {gate: 0 * env[gate] + env[gate][..., :1]}
    written = known.get("K") if gate.shape[1] != 1 else known.get("V", known.get("X"))
    if written is not None:
        what = f"the own write fades by {name} too: {gate}_t (S_{{t-1}} + ...)"
        yield what, lambda env: {written: env[gate] * env[written]}


def _of_a_strength(name: str, strength: Any, known: Named) -> Iterator[tuple[str, Change]]:
    yield f"{name} isn't used: it is one", lambda env: {strength: np.ones_like(env[strength])}
    yield f"{name} is read through a sigmoid", lambda env: {strength: 1 / (1 + np.exp(-env[strength]))}
    yield f"the factor {name} stands there twice", lambda env: {strength: env[strength] ** 2}
    values = known.get("V")
    if values is None:
        return
    yield (
        f"the factor {name} is missing where the state is removed, and stands where values are written",
        lambda env: {strength: np.ones_like(env[strength]), values: env[strength] * env[values]},
    )
    yield (
        f"the factor {name} is missing where values are written, and stands where the state is removed",
        lambda env: {values: env[values] / env[strength]},
    )


def _of_systems(known: Named) -> Iterator[tuple[str, Change]]:
    """Mistakes in what only some systems have: angles, step sizes, reflections, removals, ridges."""
    have = lambda *names: all(name in known for name in names)
    if have("c", "s", "K"):
        yield "the own write is turned too", lambda env: {known["K"]: _turned(env, known, 1)}
        yield "the own write is turned back", lambda env: {known["K"]: _turned(env, known, -1)}
        yield "angles turn the other way", lambda env: {known["s"]: -env[known["s"]]}
    if have("Delta", "a"):
        yield (
            "the step is in the gate again: a_t**Delta_t",
            lambda env: {known["a"]: env[known["a"]] ** env[known["Delta"]]},
        )
    if have("W", "K", "beta"):
        yield "the own write is reflected too", lambda env: {known["K"]: _reflected(env, known)}
    if have("kappa", "w", "a"):
        yield (
            "what is removed is removed after it has faded",
            lambda env: {
                known["kappa"]: env[known["w"]] * env[known["kappa"]],
                known["a"]: env[known["a"]] / env[known["w"]],
            },
        )
        yield "the factor a_t is in what is written too", lambda env: {known["K"]: env[known["a"]] * env[known["K"]]}
    if have("Lambda"):
        yield "the ridge is squared: Lambda_t**2", lambda env: {known["Lambda"]: env[known["Lambda"]] ** 2}


def _exchanged(arguments: list[Argument], known: Named) -> Iterator[tuple[str, Change]]:
    """An input in the place of another one of its shape."""
    own = [x for x in arguments if known[x.stands_for].shape[0] == n and known[x.stands_for].shape[1] not in (1, d_v)]
    for a, b in permutations(own, 2):
        if known[a.stands_for].shape != known[b.stands_for].shape:
            continue
        first, second = known[a.stands_for], known[b.stands_for]
        if a.name < b.name:
            what = f"{a.name} and {b.name} are exchanged ({first}_t for {second}_t, and the other way)"
            yield what, partial(_taken, {first: second, second: first})
        what = f"{b.name} is taken for {a.name}: {first} = {second}"
        yield what, partial(_taken, {first: second})


def _late(gates: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones_like(gates[..., :1, :]), gates[..., :-1, :]], axis=-2)


def _taken(instead: Mapping[Any, Any], env: Environment) -> dict[Any, np.ndarray]:
    return {x: env[other] for x, other in instead.items()}


def _cumulated(gate: Any, size: int, env: Environment) -> dict[Any, np.ndarray]:
    blocks = [env[gate][..., k : k + size, :] for k in range(0, env[gate].shape[-2], size)]
    return {gate: np.concatenate([np.cumprod(block, axis=-2) for block in blocks], axis=-2)}


def _mean(gates: np.ndarray) -> np.ndarray:
    logs = np.log(np.maximum(gates, 1e-300)).mean(axis=-1, keepdims=True)
    return np.broadcast_to(np.exp(logs), gates.shape)


def _turned(env: Environment, known: Named, sign: int) -> np.ndarray:
    keys, c, s = env[known["K"]], env[known["c"]], sign * env[known["s"]]
    first, second = keys[..., :1], keys[..., 1:]
    return np.concatenate([c * first - s * second, s * first + c * second], axis=-1)


def _reflected(env: Environment, known: Named) -> np.ndarray:
    w, keys = env[known["W"]], env[known["K"]]
    return keys - env[known["beta"]] * w * (w * keys).sum(axis=-1, keepdims=True)
