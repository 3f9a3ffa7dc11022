"""Checks of calls: splitting a sequence, packing several, later tokens, repeated calls, and what happens to memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import accumulate
from typing import Any
from unittest.mock import patch

import numpy as np

from attnproof.implementation_cases import Case
from attnproof.oracle.arrays import integers, memory_of, on_host, with_gaps
from attnproof.oracle.conventions import OUTPUT, Convention
from attnproof.oracle.findings import Finding, broken, described_case, said, skipped
from attnproof.oracle.statements import carries_a_state, described, is_gate, presented
from attnproof.oracle.subject import Arrays, Misbehaved, Subject
from attnproof.oracle.trials import Trial, check_shape, in_tolerances


def splits(subject: Subject, case: Case) -> Finding:
    """Two calls with the state handed over give what one call gives."""
    name = "split"
    if subject.convention.state is None or not carries_a_state(subject.convention):
        return skipped(name, "the kernel takes no initial state")
    case = replace(case, tokens=2 * case.chunk_size + 3)
    try:
        trial = Trial(subject, case)
        ratios = {cut: _split_at(cut, trial) for cut in (1, case.chunk_size - 1, case.chunk_size + 2)}
    except Misbehaved as error:
        return broken(name, case, error)
    cut, ratio = max(ratios.items(), key=lambda x: x[1])
    if ratio <= 1:
        return Finding(name, "holds", ratio)
    message = (
        f"the rest of a sequence is off by {ratio:.3g} tolerances where the state is handed over after {cut} tokens"
    )
    return Finding(name, "refuted", ratio, 0.0, message, case)


def _split_at(cut: int, trial: Trial) -> float:
    """The second part's error over tolerance: both parts round, so that twice the tolerance is allowed."""
    subject = trial.subject
    first = cut_to(trial.arguments, subject.convention, range(cut))
    second = cut_to(trial.arguments, subject.convention, range(cut, trial.case.tokens))
    carried = _called(trial, first, cut)
    for x in subject.convention.arguments:
        if x.layout.startswith("n "):
            second[x.name] = carried[x.stands_for]
    output = _called(trial, second, trial.case.tokens - cut)[OUTPUT]
    layout = dict(subject.convention.returns)[OUTPUT]
    whole = np.concatenate([carried[OUTPUT], output], axis=layout.split().index("t"))
    error = abs(trial.stated(OUTPUT, layout, whole) - trial.values[OUTPUT]).max(axis=-1)
    return float(in_tolerances(error, 2 * trial.tolerances[OUTPUT]).max())


def _called(trial: Trial, arguments: Mapping[str, np.ndarray], tokens: int) -> Arrays:
    """What the kernel returns for some of the tokens, in the shapes that this must have."""
    returned = trial.subject.call(arguments)
    for name, layout in trial.subject.convention.returns:
        check_shape(name, returned[name], layout, replace(trial.sizes, tokens=tokens))
    return returned


def cut_to(arguments: Mapping[str, np.ndarray], convention: Convention, tokens: Sequence[int]) -> dict[str, np.ndarray]:
    """The arguments of some of the tokens."""
    layouts = {x.name: x.layout.split() for x in convention.arguments}
    return {
        name: np.take(value, tokens, layouts[name].index("t")) if "t" in layouts[name] else value
        for name, value in arguments.items()
    }


def causality(subject: Subject, case: Case) -> Finding:
    """Other tokens from one place on leave what was before it as it was, to the bit or within the tolerance: also where
    their gates are so strong that earlier, weak ones would drown in a sum of both.
    """
    whole = replace(case, tokens=2 * case.chunk_size + 3)
    pairs = [(whole, replace(whole, seed=case.seed + 1), case.chunk_size + 2)]
    if any(is_gate(x, subject) for x in subject.convention.arguments):
        weak, strong = replace(whole, strongest=0.01), replace(whole, seed=case.seed + 1, strongest=20.0)
        pairs.append((weak, strong, case.chunk_size + case.chunk_size // 2))
    worst, bits = 0.0, ""
    for own, later, cut in pairs:
        found = _causal(subject, own, later, cut)
        if found.verdict == "refuted":
            return found
        worst, bits = max(worst, found.ratio), bits or found.message
    return Finding("causality", "holds", worst, message=bits)


def _causal(subject: Subject, case: Case, later: Case, cut: int) -> Finding:
    """Whether the rows before a token stay when it and those behind it are another case's."""
    name = "causality"
    try:
        trial = Trial(subject, case)
        changed = _joined(trial, Trial(subject, later), cut)
        before, after = (_called(trial, given, case.tokens)[OUTPUT] for given in (trial.arguments, changed))
    except Misbehaved as error:
        return broken(name, case, error)
    layout = dict(subject.convention.returns)[OUTPUT]
    rows = [trial.stated(OUTPUT, layout, x)[:, :cut] for x in (before, after)]
    gap = abs(rows[0] - rows[1]).max(axis=-1)
    ratio = in_tolerances(gap, trial.tolerances[OUTPUT][:, :cut])
    if ratio.max() > 1:
        token = int(np.flatnonzero((ratio > 1).any(axis=0))[0])
        message = f"{described_case(case)}: token {token} changes with the tokens from {cut} on"
        return Finding(name, "refuted", float(ratio.max()), 0.0, message, case)
    bits = "" if not gap.any() else f"earlier rows change by rounding (up to {gap.max():.2g})"
    return Finding(name, "holds", float(ratio.max()), message=bits)


def _joined(trial: Trial, other: Trial, cut: int) -> dict[str, np.ndarray]:
    """The first tokens of one trial's arguments, and the rest of another's."""
    convention = trial.subject.convention
    head = cut_to(trial.arguments, convention, range(cut))
    tail = cut_to(other.arguments, convention, range(cut, trial.case.tokens))
    layouts = {x.name: x.layout.split() for x in convention.arguments}
    return {
        name: np.concatenate([value, tail[name]], axis=layouts[name].index("t")) if "t" in layouts[name] else value
        for name, value in head.items()
    }


def packed(subject: Subject, case: Case) -> Finding:
    """Packed sequences, empty ones and one of a single token among them, are the same as separate ones."""
    name, c = "packed sequences", case.chunk_size
    if subject.convention.offsets is None:
        return skipped(name, "the kernel takes no offsets of packed sequences")
    sizes = (0, c + 1, 1, 2 * c - 1, 0, 3)
    whole = replace(case, tokens=sum(sizes), batch=1)
    try:
        return _packed(name, subject, whole, sizes)
    except Misbehaved as error:
        message = f"packed sequences of {', '.join(map(str, sizes))} tokens: {error}"
        return Finding(name, "refuted", np.inf, message=message)


def _packed(name: str, subject: Subject, case: Case, sizes: Sequence[int]) -> Finding:
    convention = subject.convention
    own = {x.name for x in convention.arguments if {"t", "n"} & set(x.layout.split())}
    first = presented(subject, replace(case, tokens=1))
    shared = {key: value for key, value in first.items() if key not in own}
    each = [replace(case, tokens=max(size, 1), seed=case.seed + k) for k, size in enumerate(sizes)]
    trials = [Trial(subject, x, shared) for x in each]
    parts = [cut_to(x.arguments, convention, range(size)) for x, size in zip(trials, sizes, strict=True)]
    layouts = {x.name: x.layout.split() for x in convention.arguments}
    axes = {key: next((layouts[key].index(x) for x in ("t", "n") if x in layouts[key]), None) for key in first}
    together = {
        key: shared[key] if axis is None else np.concatenate([part[key] for part in parts], axis)
        for key, axis in axes.items()
    }
    offsets = integers([0, *accumulate(sizes)], subject.library, subject.device)
    assert convention.offsets is not None
    returned = subject.call(together, **{convention.offsets: offsets})
    return _separated(name, returned, trials, sizes, parts)


def _separated(
    name: str,
    returned: Arrays,
    trials: Sequence[Trial],
    sizes: Sequence[int],
    parts: Sequence[Mapping[str, np.ndarray]],
) -> Finding:
    """What was returned for packed sequences, against each sequence's own values."""
    convention, starts = trials[0].subject.convention, [0, *accumulate(sizes)]
    whole = replace(trials[0].sizes, tokens=sum(sizes), lengths=tuple(sizes))
    for key, layout in convention.returns:
        check_shape(key, returned[key], layout, whole)
    ratio = sharpness = 0.0
    for k, (trial, size) in enumerate(zip(trials, sizes, strict=True)):
        own = {}
        for key, layout in convention.returns:
            axis, places = (
                (layout.split().index("t"), range(starts[k], starts[k] + size))
                if "t" in layout.split()
                else (layout.split().index("n"), range(k, k + 1))
            )
            own[key] = np.take(returned[key], places, axis)
        if not size:
            _check_untouched(own, trial.subject, parts[k], k)
            continue
        worst = max(trial.gaps(own), key=lambda gap: gap.ratio)
        ratio, sharpness = max(ratio, worst.ratio), max(sharpness, worst.sharpness)
        if worst.ratio > 1:
            which = f"sequence {k} of {len(sizes)} packed ones ({', '.join(map(str, sizes))} tokens)"
            return Finding(name, "refuted", worst.ratio, 0.0, f"{which}: {said(worst)}")
    return Finding(name, "holds", ratio, sharpness)


def _check_untouched(
    returned: Arrays, subject: Subject, given: Mapping[str, np.ndarray], sequence: int | None = None
) -> None:
    """The last states of a sequence without tokens are its initial ones.

    Raises:
        Misbehaved: they aren't.
    """
    layouts, given_as = dict(subject.convention.returns), subject.arrays(given)
    for x in subject.convention.arguments:
        if x.layout.startswith("n ") and x.name in given and x.stands_for in returned:
            if layouts[x.stands_for] != x.layout:
                continue  # handed back in another layout than it is taken
            if not np.array_equal(returned[x.stands_for], on_host(given_as[x.name])):
                which = "" if sequence is None else f" (sequence {sequence})"
                raise Misbehaved(f"without tokens{which} the final {x.stands_for} isn't the initial one")


def no_tokens(subject: Subject, case: Case) -> Finding:
    """A sequence without tokens: an empty output, and the state as it was. A kernel may refuse it by an exception."""
    name = "zero tokens"
    given = cut_to(presented(subject, replace(case, tokens=1)), subject.convention, range(0))
    try:
        returned = subject.call(given)
        sizes = replace(case, tokens=0).sizes(described(subject.convention))
        check_shape(OUTPUT, returned[OUTPUT], dict(subject.convention.returns)[OUTPUT], sizes)
        _check_untouched(returned, subject, given)
    except Misbehaved as error:
        if "raised" in str(error):
            return skipped(name, f"the kernel refuses it: {error}")
        return Finding(name, "refuted", np.inf, message=f"n = 0: {error}")
    return Finding(name, "holds")


def repeated(subject: Subject, case: Case) -> Finding:
    """The same answer twice, and arguments that lie in memory in another order."""
    name, case = "repeated calls", replace(case, tokens=case.chunk_size + 3)
    try:
        trial = Trial(subject, case)
        first, second = (subject.call(trial.arguments) for _ in range(2))
        differs = [x for x in first if not np.array_equal(first[x], second[x], equal_nan=True)]
        if differs:
            raise Misbehaved(f"{differs[0]} is another one in a second call")
        strided = subject.returned({x: with_gaps(value) for x, value in subject.arrays(trial.arguments).items()})
        gaps = trial.gaps({x: on_host(value) for x, value in strided.items()})
    except Misbehaved as error:
        return broken(name, case, error)
    worst = max(gaps, key=lambda gap: gap.ratio)
    if worst.ratio > 1:
        message = f"with arguments that aren't contiguous {said(worst)}"
        return Finding(name, "refuted", worst.ratio, worst.sharpness, message, case)
    return Finding(name, "holds", worst.ratio, worst.sharpness)


def memory(subject: Subject, case: Case) -> Finding:
    """Outputs share no memory with inputs, stay as they are in later calls, and depend on no memory that wasn't
    written: all that is allocated in a call begins as NaN.
    """
    name, case = "memory", replace(case, tokens=case.chunk_size + 3)
    try:
        trial, other = Trial(subject, case), Trial(subject, replace(case, seed=case.seed + 1))
        given = subject.arrays(trial.arguments)
        returned = subject.returned(given)
        _check_apart(given, returned)
        kept = {x: on_host(value) for x, value in returned.items()}
        later = other.gaps(subject.call(other.arguments))
        changed = [x for x, value in returned.items() if not np.array_equal(on_host(value), kept[x], equal_nan=True)]
        if changed:
            raise Misbehaved(f"a later call changes the {changed[0]} that an earlier one returned")
        with poisoned(subject.library):
            gaps = [*later, *trial.gaps(subject.call(trial.arguments))]
    except Misbehaved as error:
        return broken(name, case, error)
    worst = max(gaps, key=lambda gap: gap.ratio)
    if worst.ratio > 1:
        return Finding(name, "refuted", worst.ratio, 0.0, f"{described_case(case)}, called again: {said(worst)}", case)
    return Finding(name, "holds", worst.ratio, worst.sharpness)


def _check_apart(given: Mapping[str, Any], returned: Mapping[str, Any]) -> None:
    for result, value in returned.items():
        for argument, x in given.items():
            mine, theirs = memory_of(value), memory_of(x)
            if mine and theirs and mine[0] < theirs[1] and theirs[0] < mine[1]:
                raise Misbehaved(f"{result} lies in the memory of {argument}")


@contextmanager
def poisoned(library: str) -> Iterator[None]:
    """Memory that is allocated without being written holds NaN."""
    if library == "torch":
        torch = import_module("torch")
        before, warns = (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.use_deterministic_algorithms(True, warn_only=True)  # and fills what `empty` returns
            try:
                yield
            finally:
                torch.use_deterministic_algorithms(before, warn_only=warns)
    elif library in ("numpy", "cupy"):
        module = import_module(library)
        filled = {name: _filled(getattr(module, name)) for name in ("empty", "empty_like")}
        with patch.multiple(module, **filled):
            yield
    else:
        yield


def _filled(allocate: Any) -> Any:
    def allocated(*args: Any, **kwargs: Any) -> Any:
        found = allocate(*args, **kwargs)
        if found.dtype.kind == "f":
            found.fill(np.nan)
        return found

    return allocated
