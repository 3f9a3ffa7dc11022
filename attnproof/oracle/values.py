"""Checks of values: the kernel's output and last states are the statement's, on inputs of many kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from attnproof.implementation_cases import FAMILIES, MASKED_SCORES, Case
from attnproof.oracle.conventions import OUTPUT
from attnproof.oracle.findings import Finding, broken, compared, described_case, said, skipped
from attnproof.oracle.statements import carries_a_state, is_gate
from attnproof.oracle.subject import Misbehaved, Subject
from attnproof.oracle.trials import Trial
from gpu.registry import Argument

STRENGTHS = ("beta", "eta", "a", "Delta")
"""Inputs that say how much is written: with zero nothing is, with one a key's value is replaced."""
SAME = {"P": "K", "kappa": "K"}
"""Inputs that, equal to others, give a simpler system."""


def lengths(subject: Subject, case: Case) -> Finding:
    """One token, two, and around multiples of the chunk, with an initial state where the kernel takes one; once with
    d_k = d_v, so that a transposed state has the right shape.
    """
    c = case.chunk_size
    square = replace(case, tokens=3, key_width=4, value_width=4)
    cases = [replace(case, tokens=n) for n in (1, 2, c - 1, c, c + 1, 2 * c - 1, 2 * c + 1, 3 * c + 5)]
    return compared("lengths", subject, [*cases[:2], square, *cases[2:]])


def few_lengths(subject: Subject, case: Case) -> Finding:
    """The same for few lengths, those that show the most."""
    c = case.chunk_size
    square = replace(case, tokens=3, key_width=4, value_width=4)
    return compared("lengths", subject, [square, *(replace(case, tokens=n) for n in (1, c, 2 * c + 1))])


def without_a_state(subject: Subject, case: Case) -> Finding:
    """The same without an initial state."""
    name, c = "no initial state", case.chunk_size
    if subject.convention.state is not None and not subject.convention.state.optional:
        return skipped(name, "the kernel can't be called without one")
    return compared(name, subject, [replace(case, tokens=n, with_state=False) for n in (2, 2 * c + 3)])


def shapes(subject: Subject, case: Case) -> Finding:
    """d_k and d_v apart, one head, several batches, grouped heads where the layouts have them."""
    cases = [
        replace(case, tokens=20, key_width=8, value_width=16, batch=3),
        replace(case, tokens=20, key_width=16, value_width=8, heads=3, groups=1),
        replace(case, tokens=20, heads=1, groups=1),
    ]
    if has_groups(subject):
        cases.append(replace(case, tokens=20, heads=2, groups=2))
    return compared("shapes", subject, cases)


def has_groups(subject: Subject) -> bool:
    """Whether the layouts tell query heads and value heads apart."""
    return {letter for x in subject.convention.arguments for letter in x.layout.split()} >= {"h", "g"}


def keys(subject: Subject, case: Case) -> Finding:
    """Keys that are repeated, orthogonal or zero; for attention also scores whose exponentials overflow, those
    that count and those that a mask hides.
    """
    chosen = [family for family in FAMILIES if family != "large keys"]
    cases = [replace(case, tokens=40, family=family) for family in chosen]
    if not carries_a_state(subject.convention):
        cases += [replace(case, tokens=40, query_scale=100.0), replace(case, tokens=40, family=MASKED_SCORES)]
    return compared("structured keys", subject, cases)


def gate_sweep(subject: Subject, case: Case) -> Finding:
    """Gates that let nearly everything through, and gates down to e^-20 a step: finite, and accurate."""
    if not any(is_gate(x, subject) for x in subject.convention.arguments):
        return skipped("gate sweep", "the statement has no gates")
    cases = [replace(case, tokens=2 * case.chunk_size + 3, strongest=x) for x in (1e-3, 0.1, 6.0, 20.0)]
    return compared("gate sweep", subject, cases)


def limits(subject: Subject, case: Case) -> Finding:
    """Gates of one, strengths of zero and one, the predicting vector equal to the key: simpler systems."""
    found = [(x.stands_for, value) for x in subject.convention.arguments for value in _limits_of(x, subject)]
    if not found:
        return skipped("limits", "no input of the statement has a value that makes it a simpler system")
    return compared("limits", subject, [replace(case, tokens=case.chunk_size + 3, set_to=(x,)) for x in found])


def _limits_of(argument: Argument, subject: Subject) -> Iterator[float | str]:
    if is_gate(argument, subject):
        yield 1.0
    elif argument.stands_for in STRENGTHS:
        yield from (0.0, 1.0)
    elif argument.stands_for in SAME:
        yield SAME[argument.stands_for]


def zero_strengths(subject: Subject) -> list[tuple[str, float]]:
    """The strengths of the statement, set to zero."""
    arguments = subject.convention.arguments
    return [(x.stands_for, 0.0) for x in arguments if x.stands_for in STRENGTHS and not is_gate(x, subject)]


def scale(subject: Subject, case: Case) -> Finding:
    """Linear in the values and their states; and in the kernel's own `scale`, if it has one."""
    name, own = "scale", replace(case, tokens=case.chunk_size + 3)
    found = compared(name, subject, [replace(own, value_scale=factor) for factor in (2.0**-8, 2.0**6)])
    if found.verdict != "holds" or subject.convention.constants.get("scale") != 1.0:
        return found
    try:
        trial = Trial(subject, own)
        if not trial.linear_in_queries:  # as a softmax isn't
            return found
        returned = subject.call(trial.arguments, scale=0.5)
        gaps = trial.gaps(returned | {OUTPUT: 2 * returned[OUTPUT]})
    except Misbehaved as error:
        return broken(name, own, error)
    worst = max(gaps, key=lambda gap: gap.ratio)
    if worst.ratio <= 1:
        return found
    return Finding(name, "refuted", worst.ratio, 0.0, f"{described_case(own)}, scale = 0.5: {said(worst)}", own)


def drawn_inputs(subject: Subject, case: Case) -> Finding:
    """Inputs that Hypothesis draws, and shrinks where one fails."""
    return _drawn(subject, case, 8)


def many_drawn_inputs(subject: Subject, case: Case) -> Finding:
    """The same, far more of them."""
    return _drawn(subject, case, 200)


def _drawn(subject: Subject, case: Case, examples: int) -> Finding:
    found: list[Finding] = []

    @seed(case.seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(_cases(subject, case))
    def try_one(own: Case) -> None:
        found.append(compared("drawn inputs", subject, [own]))
        assert found[-1].verdict != "refuted"

    try:
        try_one()
    except Exception:
        wrong = [x for x in found if x.verdict == "refuted"]
        if not wrong:
            raise
        return wrong[-1]  # the smallest; a kernel that isn't wrong each time has none, and makes Hypothesis complain
    counted = [x for x in found if x.verdict == "holds"]
    return Finding(
        "drawn inputs",
        "holds" if counted else "vacuous",
        max((x.ratio for x in counted), default=0.0),
        max((x.sharpness for x in counted), default=0.0),
        f"{len(counted)} of {len(found)} inputs counted",
        tested=frozenset().union(*(x.tested for x in counted)),
    )


def _cases(subject: Subject, case: Case) -> st.SearchStrategy[Case]:
    state = subject.convention.state
    return st.builds(
        replace,
        st.just(case),
        tokens=st.integers(1, 2 * case.chunk_size + 7),
        family=st.sampled_from(FAMILIES),
        strongest=st.sampled_from([1.0, 0.01, 5.0, 20.0]),
        with_state=st.booleans() if state is None or state.optional else st.just(True),
        key_width=st.integers(1, 12),
        value_width=st.integers(1, 12),
        batch=st.integers(1, 2),
        heads=st.integers(1, 2),
        groups=st.integers(1, 2) if has_groups(subject) else st.just(case.groups),
        seed=st.integers(0, 2**16),
    )
