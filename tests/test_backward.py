"""Backward passes over the catalogue: derived for every recurrence, right at every entry, and wrong once an error is
planted.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner
from sympy import Basic, Symbol

from attnproof.catalogue import Entry, load_catalogue
from attnproof.commands import attnproof
from derivations.language import (
    Chunkwise,
    Closed,
    Cotangent,
    Derivation,
    Identity,
    K,
    M,
    NoMeaning,
    Ones,
    Parameter,
    Q,
    Recurrence,
    S,
    Sequence,
    StatementError,
    V,
    Zeros,
    beta,
    d_k,
    d_v,
    gamma,
    k,
    n,
    q,
    t,
    trace,
    v,
)
from derivations.language.adjoint import adjoint, cotangent_of, goes_backward, inputs_of, written
from derivations.language.forms import text_lines
from derivations.language.printing import LATEX, TEXT
from derivations.language.statements import Backward
from derivations.language.two_modes import ForwardMode, ReverseMode, direction
from numerics.inputs import Sizes
from numerics.proofs import backward, counterexample, exact, field, mutants, typed
from numerics.proofs.ladder import climb

CATALOGUE = load_catalogue()
PASSES = [entry for entry in CATALOGUE.entries() if isinstance(entry.statement, Backward)]
dS, do = cotangent_of(S), Sequence("dO", n, d_v)[t]
S_t = written(S)


def named(id_: str) -> Backward:
    found = next(entry.statement for entry in PASSES if entry.id == id_)
    assert isinstance(found, Backward)
    return found


def test_every_recurrence_of_the_catalogue_has_one() -> None:
    forms = [form for derivation in CATALOGUE.derivations.values() for form in derivation.forms.values()]
    recurrences = {form for form in forms if isinstance(form, Recurrence) and not isinstance(form, Chunkwise)}
    assert {passed.statement.recurrence for passed in PASSES} == recurrences
    assert len(recurrences) > 50


def test_those_that_have_none_say_why() -> None:
    without = {d.name: d.without_backward for d in CATALOGUE.derivations.values() if d.without_backward}
    assert {name: list(forms) for name, forms in without.items()} == {
        "random_features": ["recurrence"],
        "s4": ["bilinear"],
    }
    shown = CliRunner().invoke(attnproof, ["show", "s4", "--no-evidence"]).output
    assert "bilinear has no backward pass: its inputs are made of other inputs" in shown


@pytest.mark.parametrize("passed", PASSES, ids=lambda passed: passed.id)
def test_typed_and_exact(passed: Entry) -> None:
    statement = passed.statement
    assert isinstance(statement, Backward)
    assert typed.check(statement.identity).verdict == "holds"
    evidence = backward.exact_check(statement)
    assert evidence.verdict == "holds", evidence.message
    begins = statement.recurrence.initial is not None
    assert len(evidence.sizes) == 4 + begins * len(backward.ONE_TOKEN), "a size was skipped"


@pytest.mark.parametrize(
    "id_", ["linear_attention.backward", "gated_deltanet.backward", "rwkv6.backward", "mesanet.backward_of_rls"]
)
def test_field(id_: str) -> None:
    evidence = backward.field_check(named(id_), seed=3)
    assert evidence.verdict == "holds", evidence.message
    assert max(size["n"] for size in evidence.sizes) >= 256
    assert evidence.details["error_bound"] < 2.0**-60
    assert ("bound_for" in evidence.details) == (id_ == "mesanet.backward_of_rls")


def test_scores_in_exponents_have_room() -> None:
    """Exponentials of inner products count as independent only where tokens are wider than the sequence is long."""
    size = field.production_sizes(named("alibi.backward").identity, usual=backward.LONG)
    assert size.d_k > size.n >= 256


GDN = "gated_deltanet.backward_of_error_form"
"""S_t = gamma_t S_{t-1} + beta_t (v_t - gamma_t S_{t-1} k_t) k_t^T"""
PLANTED: dict[str, tuple[str, str, Basic]] = {
    "a sign": ("linear_attention.backward", "dk_t", -(dS.T @ v)),
    "the state is read before the write": ("linear_attention.backward", "dq_t", S.T @ do),
    "the state is read after the write": ("rwkv6.backward", "dr_t", S_t.T @ do),
    "the output isn't taken up": ("linear_attention.backward", "taken up by dS", 0 * dS),
    "the output is taken up twice": ("linear_attention.backward", "taken up by dS", 2 * do @ q.T),
    "what comes after is forgotten": ("linear_attention.backward", "carried dS", 0 * dS),
    "no decay": ("decay.backward", "carried dS", dS),
    "the gate reads the state after the write": ("decay.backward", "dgamma_t", trace(S_t.T @ dS)),
    "beta is missing": (GDN, "dv_t", dS @ k),
    "the erased part is missing": (GDN, "dk_t", beta[t] * dS.T @ (v - gamma[t] * S @ k)),
    "the error is that of the state before its decay": (
        GDN,
        "dk_t",
        -beta[t] * gamma[t] * S.T @ dS @ k + beta[t] * dS.T @ (v - S @ k),
    ),
    "the gate forgets the prediction": (GDN, "dgamma_t", trace(S.T @ dS)),
    "the carried state isn't erased": (GDN, "carried dS", gamma[t] * dS),
    "the first state says nothing": ("ttt_linear.backward_of_primal", "dS_0 from the beginning", 0 * dS),
    "the other gate is missing": ("dfw.backward", "df_t", dS.hadamard(S) @ Ones(d_k, 1)),
}


def falsified(id_: str, part: str, e: Basic) -> Identity:
    """The identity of a backward pass one of whose formulas is replaced."""
    statement = named(id_)
    assert statement.adjoint.expressions()[part] != e
    wrong = statement.adjoint.with_expressions({part: e})
    return statement.identity.with_sides(statement.identity.left, ReverseMode(wrong))


def is_refuted(identity: Identity) -> None:
    """In exact arithmetic, modulo p, and by numbers that a person can check."""
    assert exact.check(identity, backward.SMALL).verdict == "refuted"
    assert field.differing(identity, Sizes(9, 3, 2), seed=0, trials=1)
    found = counterexample.smallest(identity)
    assert found is not None
    assert found.left != found.right


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_error_is_refuted(planted: tuple[str, str, Basic]) -> None:
    is_refuted(falsified(*planted))


@pytest.mark.parametrize("forgotten", [q, k, gamma[t]], ids=str)
def test_a_forgotten_input_is_refuted(forgotten: Basic) -> None:
    """A backward pass that has no row for something that is read."""
    statement = named(GDN)
    rows = {x: e for x, e in statement.adjoint.rows.items() if x != forgotten}
    assert len(rows) == len(statement.adjoint.rows) - 1
    right = ReverseMode(replace(statement.adjoint, rows=rows))
    is_refuted(statement.identity.with_sides(statement.identity.left, right))


@pytest.mark.parametrize("id_", ["linear_attention.backward", "rwkv6.backward", GDN])
def test_a_forgotten_final_state_is_refuted(id_: str) -> None:
    """A backward pass that starts from zero, as where nobody thought of dS_n."""
    identity = named(id_).identity
    is_refuted(identity.with_sides(identity.left, identity.right.substitute({dS: Zeros(d_v, d_k)})))


def test_the_counterexample_names_the_derivative_that_is_wrong() -> None:
    found = counterexample.smallest(falsified(*PLANTED["beta is missing"]))
    assert found is not None
    assert "Vdot" in found.gap or "vdot" in found.gap
    assert found.sizes["n"] == 1


@pytest.mark.parametrize("id_", ["linear_attention.backward", "deltanet.backward", "gla.backward", "rwkv6.backward"])
def test_mutants(id_: str) -> None:
    """Every small change to the recurrence or to its backward pass is found, or proved to be none."""
    found = mutants.fates(named(id_).identity)
    refuted = [fate for fate in found if fate.verdict == "refuted"]
    assert [fate.mutant.change for fate in found if fate.verdict == "hole"] == []
    assert len(refuted) >= 20
    assert {fate.mutant.change.split(":")[0] for fate in refuted} == {"left", "right"}


def test_the_pass_of_linear_attention_as_text_and_latex() -> None:
    found = adjoint(CATALOGUE.derivations["decay"].forms["recurrence"])
    assert [f"{left} | {right}" for left, right in found.lines(TEXT)] == [
        "dS_t <- | dS_t + do_t q_tᵀ",
        "dq_t | S_tᵀ do_t",
        "dgamma_t | tr(S_{t-1}ᵀ dS_t)",
        "dv_t | dS_t k_t",
        "dk_t | dS_tᵀ v_t",
        "dS_{t-1} | gamma_t dS_t",
    ]
    latex = dict(found.lines(LATEX))
    assert latex[r"d\gamma_{t}"] == r"\operatorname{tr}\left(S_{t-1}^{\top} dS_{t}\right)"


def test_a_read_before_the_write_goes_with_the_carried_state() -> None:
    found = adjoint(Recurrence(S, update=S + v @ k.T, readout=S @ q, read="before"))
    assert dict(found.lines(TEXT)) == {
        "dq_t": "S_{t-1}ᵀ do_t",
        "dv_t": "dS_t k_t",
        "dk_t": "dS_tᵀ v_t",
        "dS_{t-1}": "do_t q_tᵀ + dS_t",
    }


def test_parameters_and_the_first_state_are_summed_up() -> None:
    found = dict(named("mesanet.backward_of_rls").adjoint.lines(TEXT))
    assert found["dlambda"] == "-(Diag(lambda)⁻¹ ⊙ (Diag(lambda)⁻¹ dP_0ᵀ)) 𝟏"
    assert dict(named("decay.backward_of_retention").adjoint.lines(TEXT))["dgamma"] == "Σ_{t=1..n} tr(S_{t-1}ᵀ dS_t)"


def test_one_cotangent_as_a_form() -> None:
    recurrence = CATALOGUE.derivations["linear_attention"].forms["recurrence"]
    assert isinstance(recurrence, Recurrence)
    form = Cotangent(recurrence, of=K)
    assert form.shape == (n, d_k)
    assert text_lines(form)[form.output_line] == "dk_t = dS_tᵀ v_t"
    assert {str(x) for x in form.symbols()} == {"Q", "K", "V", "S", "dO", "dS"}
    with_state = Closed(K).where(K, form)
    assert goes_backward(with_state)
    assert not goes_backward(Closed(K))
    with pytest.raises(StatementError, match="gamma isn't an input of the recurrence"):
        Cotangent(recurrence, of=gamma)


def test_what_nothing_reads_has_cotangent_zero() -> None:
    """The keys of a state that no output reads, with a loss that doesn't read the last state."""
    forgetful = Recurrence(S, update=v @ k.T, readout=v)
    gradient = Cotangent(forgetful, of=S)
    assert exact.check(Identity("zero", gradient, Closed(0 * dS))).verdict == "holds"


@pytest.mark.parametrize(
    ("recurrence", "said"),
    [
        (Chunkwise(S, update=S + V.T @ K, readout=Q @ S.T), "block"),
        (Recurrence(S, update=S + v @ K[t - 1].T, readout=S @ q), "where token t is read alone"),
        (Recurrence(S, update=S + V.T @ K, readout=S @ q), "the whole sequence"),
        (Recurrence(S, update=gamma[t] ** t * S, readout=S @ q), "no rule for the pullback of Pow"),
    ],
    ids=["blocks", "another token", "a whole sequence", "a power of the position"],
)
def test_no_pass(recurrence: Recurrence, said: str) -> None:
    with pytest.raises(NoMeaning, match=said):
        adjoint(recurrence)


def test_an_input_can_not_have_the_name_of_a_cotangent() -> None:
    taken = Recurrence(S, update=S + Parameter("dS", d_v, d_k), readout=S @ q)
    with pytest.raises(StatementError, match="dS can't be the name of an input"):
        adjoint(taken)


def test_directions_have_a_dot() -> None:
    assert str(direction(K)) == "Kdot"
    assert str(direction(Symbol("lambda_1"))) == "lambdadot_1"
    assert direction(gamma).shape == gamma.shape


def test_a_derivation_of_ones_own_gets_its_passes() -> None:
    own = Derivation(
        "own",
        title="Own",
        summary="",
        forms={
            "recurrence": Recurrence(S, update=S + v @ k.T, readout=S @ q),
            "faded": Recurrence(S, update=gamma[t] * S + v @ k.T, readout=S @ q),
            "powers": Recurrence(S, update=gamma[t] ** t * S, readout=S @ q),
            "matrix": Closed((Q @ K.T).hadamard(M) @ V),
        },
        identities=[],
    )
    assert [statement.name for statement in own.statements] == ["backward", "backward_of_faded"]
    assert list(own.without_backward) == ["powers"]
    report = climb(own, own.backward[0])
    assert [evidence.rung for evidence in report.evidence] == ["typed", "exact", "field"]
    assert report.ok
    assert report.as_json()["kind"] == "backward"


def test_a_page_shows_its_backward_formulas() -> None:
    shown = CliRunner().invoke(attnproof, ["show", "deltanet", "--no-latex"]).output
    section = shown[shown.index("backward passes") :]
    for line in ("deltanet.backward", "dv_t = eta_t dS_t k_t", "evidence: typed holds, exact holds (n <= 3)"):
        assert line in section


@pytest.mark.parametrize("passed", PASSES, ids=lambda passed: passed.id)
def test_everything_that_is_read_has_a_cotangent(passed: Entry) -> None:
    statement = passed.statement
    assert isinstance(statement, Backward)
    assert set(statement.adjoint.inputs) == inputs_of(statement.recurrence)
    for x in statement.adjoint.inputs:
        form = Cotangent(statement.recurrence, of=x)
        left = [line.split(" ")[0] for line in text_lines(form)][form.output_line]
        name = "t-1" if x in statement.recurrence.states else ""
        assert left.lower().startswith(f"d{x}".lower())
        assert name in left


def test_both_modes_as_text() -> None:
    recurrence = named("deltanet.backward").recurrence
    forward, reverse = ForwardMode(recurrence), ReverseMode(adjoint(recurrence))
    assert forward.symbols() == reverse.symbols()
    assert text_lines(forward)[-1] == "Ldot = <dO, Odot> + <dS_n, Sdot_n>"
    assert text_lines(reverse)[-1] == "Ldot = <dQ, Qdot> + <dV, Vdot> + <dK, Kdot> + <deta, etadot> + <dS, Sdot>"
