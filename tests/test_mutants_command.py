"""`attnproof mutants`: how many errors were planted, and which of them nothing refutes."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from attnproof.commands import attnproof

HEADS = ["identity", "mutants", "refuted", "equivalent", "holes"]

# `late` has no value for n < 4, and there the exact rung looks at mutants: that diagonal matrices commute isn't proved
PLANTED = """
B, G = diag(beta), diag(gamma)
late = scalar(Ones(1, n) @ M_strict @ M_strict @ M_strict @ eta)
planted = Derivation("planted", "", "", {}, [
    Identity("early", Closed(B @ G @ V), Closed(G @ B @ V)),
    Identity("late", Closed(B @ G @ V / late), Closed(G @ B @ V / late)),
    Identity("masked", Closed(Q @ K.T), Closed((Q @ K.T).hadamard(M)), expected="refuted"),
    Identity("wrong", Closed(Q @ K.T), Closed((Q @ K.T).hadamard(M))),
], facts=[Fact("fact", Equal(1, 1))])
"""


@pytest.fixture
def mutants(write):
    def run(*names: str) -> Result:
        folder = write("planted", PLANTED).parent
        return CliRunner().invoke(attnproof, ["mutants", *names, "--jobs", "1", "--derivations", str(folder)])

    return run


def table(found: Result) -> dict[str, list[int]]:
    lines = found.stdout.splitlines()
    start = next(k for k, line in enumerate(lines) if line.split() == HEADS)
    rows = [line.split() for line in lines[start + 1 : lines.index("", start)]]
    return {name: [int(count) for count in counts] for name, *counts in rows}


def test_each_planted_error_is_counted(mutants) -> None:
    found = mutants("planted.early")
    assert found.exit_code == 0
    counts = table(found)
    planted, refuted, equivalent, holes = counts.pop("planted.early")
    assert (planted, equivalent, holes) == (refuted + 2, 2, 0)
    assert refuted >= 10
    assert not counts
    total = f"{planted} planted errors in 1 identity: {refuted} refuted, 2 proved equivalent, 0 holes\n"
    assert total in found.stdout


def test_a_hole_is_named_and_is_status_1(mutants) -> None:
    found = mutants("planted.early", "planted.late")
    assert found.exit_code == 1
    counts = table(found)
    assert {name: holes for name, (*_, holes) in counts.items()} == {"planted.early": 0, "planted.late": 2}
    planted, refuted, equivalent, holes = map(sum, zip(*counts.values(), strict=True))
    assert planted == refuted + equivalent + holes
    assert f"\n{planted} planted errors in 2 identities: {refuted} refuted, 2 proved equivalent, 2 h" in found.stdout
    swapped = (
        "left: expression: Diag(beta) and Diag(gamma) swapped; right: expression: Diag(gamma) and Diag(beta) swapped"
    )
    assert f"  mutants: not refuted: {swapped}\n" in found.stdout


@pytest.mark.parametrize("name", ["planted.masked", "planted.fact"])
def test_nothing_planted_is_not_a_success(mutants, name: str) -> None:
    found = mutants(name)
    assert "errors are planted in identities that are expected to hold" in found.stderr
    assert found.exit_code == 2


def test_an_identity_that_is_false_itself_is_status_1(mutants) -> None:
    found = mutants("planted.wrong")
    assert table(found)["planted.wrong"][-1] == 0
    assert "planted.wrong: refuted, expected: holds" in found.stdout
    assert found.exit_code == 1
