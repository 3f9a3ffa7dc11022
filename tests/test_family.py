"""The family: reductions between systems that exist, sides that are those systems' own, and no way back."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from graphlib import TopologicalSorter

import pytest
from click.testing import CliRunner

from attnproof.catalogue import Catalogue, load_catalogue
from attnproof.commands import attnproof, group
from attnproof.family import graph, systems
from derivations.family import g
from derivations.language import Closed, Derivation, Form, Gate, K, NoMeaning, Q, Reduction, StatementError, derivative
from derivations.language.forms import Substituted
from numerics.proofs.ladder import Report

AT_LEAST = 30
STATED_ANEW = {
    ("family.mesanet_is_decay", "mesanet"),  # its covariance is held at the identity instead of being summed up
    ("cope.linear_embedding", "alibi"),  # ALiBi's weights times exp(-m)
}
"""The sides that no form of their system is put on inputs for, by the reduction's id and the system."""

REDUCTION = """
own = Derivation("own", "My own", "", {{}}, [
    Reduction("gate_of_one", Closed((Q @ K.T).hadamard(Gamma) @ V){inputs}, Closed((Q @ K.T).hadamard(M) @ V),
        general="own", special="linear_attention", condition="gamma = 1"),
])
"""


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue()


def comes_from(side: Form, system: Derivation) -> bool:
    """Whether a side, once its inputs are taken off, is written in expressions that the system's forms and identities
    are written in, or in their derivatives along g.
    """
    inputs: dict = {}
    while isinstance(side, Substituted):
        inputs |= side.mapping
        side = side.form
    identities = [identity for identity in system.identities if not isinstance(identity, Reduction)]
    forms = [*system.forms.values(), *(form for identity in identities for form in (identity.left, identity.right))]
    stated = [e for form in forms for e in form.expressions().values()]
    written = {str(e) for e in stated}
    if any(e.has(g) for e in side.expressions().values()):
        for strength in (x for x in inputs if isinstance(x, Gate)):
            for e in (e for e in stated if e.has(strength)):
                with suppress(NoMeaning):
                    written.add(str(derivative(e, strength, along=g)))
    return all(str(e) in written for e in side.expressions().values())


def test_the_systems_exist_and_differ(catalogue: Catalogue) -> None:
    reductions = [reduction for _, reduction in catalogue.reductions()]
    assert len(reductions) >= AT_LEAST
    for reduction in reductions:
        assert {reduction.general, reduction.special} <= set(catalogue.derivations) - {"family"}, reduction.name
        assert reduction.general != reduction.special
        assert reduction.expected == "holds"
        assert reduction.condition.strip()


def test_two_systems_are_joined_once_under_a_condition(catalogue: Catalogue) -> None:
    joined = [(reduction.general, reduction.special, reduction.condition) for _, reduction in catalogue.reductions()]
    assert len(set(joined)) == len(joined)


def test_no_system_is_a_special_case_of_itself_in_a_roundabout_way(catalogue: Catalogue) -> None:
    order = TopologicalSorter()
    for _, reduction in catalogue.reductions():
        order.add(reduction.special, reduction.general)
    order.prepare()  # raises where there is a cycle


def test_both_sides_come_from_the_systems_that_are_named(catalogue: Catalogue) -> None:
    others = {
        (entry.id, name)
        for entry, reduction in catalogue.reductions()
        for side, name in ((reduction.left, reduction.general), (reduction.right, reduction.special))
        if not comes_from(side, catalogue.derivations[name])
    }
    assert others == STATED_ANEW


@pytest.mark.parametrize(
    ("name", "other"),
    [("kda_is_gla", "gla"), ("gated_deltanet_is_deltanet", "kda"), ("titans_is_comba", "deltanet")],
)
def test_a_side_of_another_system_is_noticed(catalogue: Catalogue, name: str, other: str) -> None:
    assert not comes_from(catalogue.derivations["family"].identity(name).left, catalogue.derivations[other])


@pytest.mark.parametrize("missing", ["general", "special", "condition"])
def test_a_reduction_names_its_systems_and_its_condition(missing: str) -> None:
    named = {"general": "a", "special": "b", "condition": "gamma = 1"}
    form = Closed(Q @ K.T)
    assert Reduction("x", form, form, **named).says == "With gamma = 1, a is b."
    with pytest.raises(StatementError, match="its general and its special system, and a condition"):
        Reduction("x", form, form, **named | {missing: ""})


def test_a_reduction_without_a_report_is_no_edge(catalogue: Catalogue) -> None:
    reports = [Report(f"family.{name}", "holds", ()) for name in ("rwkv7_is_kda", "kda_is_gla")]
    edges = graph(catalogue, [*reports, Report("kda.recurrent_is_matrix", "holds", ())])
    assert [(edge.general, edge.special) for edge in edges] == [("kda", "gla"), ("rwkv7", "kda")]
    assert [system["name"] for system in systems(catalogue, edges)] == ["gla", "kda", "rwkv7"]


def test_the_command_checks_every_reduction_and_writes_the_graph(write, tmp_path, catalogue: Catalogue) -> None:
    folder = write("own", REDUCTION.format(inputs=".substitute({gamma: Ones(n, 1)})")).parent
    record = tmp_path / "family.json"
    arguments = ["family", "--jobs", "1", "--json", str(record), "--derivations", str(folder)]
    found = CliRunner().invoke(attnproof, arguments)
    assert found.exit_code == 0
    rows = [line.split() for line in found.stdout.splitlines()]
    assert ["own", "linear_attention", "gamma", "=", "1", "own.gate_of_one", "holds"] in rows
    written = json.loads(record.read_text())
    assert list(written) == ["ok", "systems", "reductions"]
    assert written["ok"]
    ids = {entry.id for entry, _ in catalogue.reductions()} | {"own.gate_of_one"}
    assert {edge["identity"] for edge in written["reductions"]} == ids
    assert {edge["verdict"] for edge in written["reductions"]} == {"holds"}
    assert written["reductions"][-1].items() >= {"general": "ttt_linear", "special": "linear_attention"}.items()
    titles = {system["name"]: system["title"] for system in written["systems"]}
    assert set(titles) == {edge[end] for edge in written["reductions"] for end in ("general", "special")}
    assert (titles["own"], titles["kda"]) == ("My own", "KDA")
    assert f"{len(ids)} reductions between {len(titles)} systems\n{len(ids)} identities: " in found.stdout


def test_a_reduction_that_is_false_is_status_1(write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write("own", REDUCTION.format(inputs="")).parent
    whole = load_catalogue([folder])
    only = replace(whole, derivations={"own": whole.derivations["own"]})
    monkeypatch.setattr(group, "load_catalogue", lambda folders: only)
    found = CliRunner().invoke(attnproof, ["family", "--jobs", "1", "--derivations", str(folder)])
    assert found.exit_code == 1
    assert "own.gate_of_one  refuted\n" in found.stdout
    assert "own.gate_of_one: refuted, expected: holds" in found.stdout
    assert "gap in row 2: (gamma_2 - 1) k_1 q_2 v_1\n" in found.stdout


def test_a_reduction_of_a_system_that_is_not_there_is_a_broken_module(write) -> None:
    text = REDUCTION.format(inputs=".substitute({gamma: Ones(n, 1)})").replace("linear_attention", "elsewhere")
    found = load_catalogue([write("own", text).parent])
    assert [module.error for module in found.broken] == [
        "the reduction 'gate_of_one' names 'elsewhere', and there is no such derivation"
    ]
    assert {"name": "elsewhere", "title": "elsewhere"} in systems(
        found, graph(found, [Report("own.gate_of_one", "holds", ())])
    )
