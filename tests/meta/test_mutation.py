"""Tests of mutation testing, by which the verifier is tested: formulas and data are made wrong on purpose (mutants).

Mutation testing must expose a checker that cannot reject anything, and a checker that rejects true claims.
"""

import json
from dataclasses import replace

import pytest
import sympy as sp
from number_cases import Number, Numbers
from typed import command

from bounds import Change, Claim, Form, Hypothesis, Kind, Options, Outcome, Source, Statement, get
from bounds.mutants import index_shifted, power, reversed_comparison, scaled, sign_flipped, without
from bounds.statement import Mutant
from bounds.symbols import t as rounds
from ntkfl.estimate import Estimate
from verification.compare import Comparison, compare
from verification.engine import verify, verify_all
from verification.facts import Data
from verification.false_alarms import FRESH, false_alarms
from verification.json_values import strict_json
from verification.judging import check
from verification.meta_tables import alarms_totals, exposed, matrix_totals, meta_json, score
from verification.mutation.matrix import Fate, mutation_matrix, standard_mutants, true_forms
from verification.verdict import Verdict
from verification.verdict_list import markdown_table

X, Y = sp.symbols("x y", positive=True)
FEW, NUMBERS = Options(trials=25), (Numbers(),)


def claim(formula=2 * X, kind=Kind.UPPER, families=NUMBERS, recorded=Outcome.HOLDS, witness=None, **changes):
    """Returns the statement x <= formula about a number x."""
    given = formula if isinstance(formula, Claim) else Claim(formula)
    standard = Statement(
        id="test/M",
        title="a number against a formula",
        kind=kind,
        source=Source("tests", "M"),
        stated=replace(given, recorded=recorded, witness=witness),
        constants=lambda case: {X: case.value, Y: 1.0},
        measure=lambda case: Estimate.exact(case.value),
        families=lambda options: tuple(replace(d, trials=options.trials or d.trials) for d in families),
        says_left="the number",
        mutants=(scaled(sp.Rational(1, 4)),),
    )
    return replace(standard, **changes)


def fates(statement, options=FEW):
    mutants, _ = mutation_matrix([statement], options)
    return {mutant.name: mutant for mutant in mutants}


# --- mutants ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mutant", "changed"),
    [
        (scaled(sp.Rational(1, 2)), (X**2 + Y) / 2),
        (without(X), 1 + Y),
        (power(X, sp.Rational(1, 2)), X + Y),
        (index_shifted(X, -1), (X - 1) ** 2 + Y),
        (sign_flipped(Y, "y"), X**2 - Y),
        (reversed_comparison(), X**2 + Y),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_each_constructor_makes_the_error_it_is_named_for(mutant, changed):
    assert sp.expand(mutant.change(X**2 + Y) - changed) == 0
    assert mutant.reverse is (mutant.sort is Change.COMPARISON)


@pytest.mark.parametrize("kind", [Kind.UPPER, Kind.LOWER])
def test_a_reversed_comparison_holds_exactly_where_the_other_side_is_larger(kind):
    one, two = Estimate.exact(1.0), Estimate.exact(2.0)
    for left, right in ((one, two), (two, one)):
        outcomes = {compare(kind, left, right, reverse=side).outcome for side in (False, True)}
        assert outcomes == {Outcome.HOLDS, Outcome.VIOLATED}


def test_a_two_sided_claim_is_reversed_at_both_ends():
    inside, low, high = (Estimate.exact(v) for v in (2.0, 1.0, 3.0))
    assert compare(Kind.TWO_SIDED, inside, high, low).outcome is Outcome.HOLDS
    assert compare(Kind.TWO_SIDED, inside, high, low, reverse=True).outcome is Outcome.VIOLATED
    # With reversed ends the left side is above the "upper" and below the "lower" end.
    both = compare(Kind.TWO_SIDED, inside, low, high, reverse=True)
    assert both.outcome is Outcome.HOLDS


def test_standard_mutants_cover_the_five_kinds_and_are_all_different_formulas():
    formula = Claim((1 + X) * rounds**2)
    statement = claim(formula, symbols={X: "a size"})
    made = standard_mutants(statement, Form.STATED)
    assert {m.sort for m in made} == set(Change) - {Change.OTHER}
    changed = [formula.mutated(m.change).parts for m in made if not m.reverse]
    assert len(set(changed)) == len(changed) and formula.parts not in changed
    elsewhere = replace(statement, symbols={X: "a size", rounds: "threshold"})
    assert not any(m.sort is Change.INDEX for m in standard_mutants(elsewhere, Form.STATED))


def test_an_identity_has_no_other_side_and_matrix_powers_stay_whole():
    assert not any(m.reverse for m in standard_mutants(claim(kind=Kind.EQUALITY), Form.STATED))
    for name in ("fl-ntk/X.1", "fl-ntk/X.8"):
        statement = get(name)
        assert not any(m.name.startswith(("K to", "n to", "T to")) for m in standard_mutants(statement, Form.NEW))


# --- the matrix of statements and mutants -----------------------------------------------------------------------------


def test_fates_are_told_apart():
    fate_of = fates(claim(2 * X * Y, mutants=(scaled(sp.Rational(1, 4)), scaled(sp.Rational(3, 4)))))
    assert fate_of["times 1/4"].own and fate_of["times 1/4"].fate is Fate.KILLED
    assert fate_of["times 3/4"].fate is Fate.SURVIVED
    assert fate_of["times 3/4"].why == "slack 2x, tightens at most 1.33x"
    # With this mutant the bound is 2 x / 2 = x, which is attained.
    assert not fate_of["times 1/2"].own and fate_of["times 1/2"].fate is Fate.SURVIVED
    assert fate_of["x to the power 3/2"].fate is Fate.WEAKER
    assert fate_of["x to the power 1/2"].fate is Fate.KILLED
    assert fate_of["y to the power 1/2"].why == "has the same value on the cases"
    assert fate_of["inequality reversed"].fate is Fate.KILLED


def test_the_form_that_is_violated_as_recorded_is_left_out():
    false = claim(X / 2, recorded=Outcome.VIOLATED)
    (verdict,) = verify(false, options=FEW)
    assert (verdict.outcome, verdict.error, verdict.mutants_total) == (Outcome.VIOLATED, None, 0)
    assert true_forms([false]) == [] and mutation_matrix([false], FEW) == ([], [])


def test_real_statements_kill_their_own_mutants():
    statements = [get("fl-ntk/A.1"), get("fl-ntk/A.2"), get("fl-ntk/X.7")]
    mutants, verdicts = mutation_matrix(statements, FEW)
    own = [mutant for mutant in mutants if mutant.own]
    assert [m.name for m in own] == [m.name for s in statements for m in s.mutants]
    assert score(own) == f"{len(own)}/{len(own)}"
    assert not any(verdict.counts.violated for verdict in verdicts)
    standard = [mutant for mutant in mutants if not mutant.own]
    assert sum(m.fate is Fate.KILLED for m in standard) > 0.7 * sum(m.fate is not Fate.WEAKER for m in standard)
    assert all(m.why for m in standard if m.fate is Fate.SURVIVED)


# --- false alarms ----------------------------------------------------------------------------------------------------


def test_runs_are_fresh_and_a_case_that_comes_again_is_no_run():
    repeating = claim(families=(Numbers(period=7),))
    alarms = false_alarms([repeating], FEW, runs=20)
    (form,) = alarms.forms
    assert form.runs == 7 and form.uncounted == 25 * len(alarms.first_seeds) - 7
    alarms = false_alarms([claim()], FEW, runs=60)
    assert alarms.first_seeds == (FRESH, 2 * FRESH, 3 * FRESH)
    assert (alarms.total("runs"), alarms.total("violated")) == (75, 0)
    # This number is the Clopper-Pearson limit of a probability if no event occurred in 75 runs.
    assert alarms.at_most == pytest.approx(1 - 0.025 ** (1 / 75))


def test_a_claim_that_may_fail_gives_one_run_a_batch():
    may_fail = claim(Claim(2 * X, failure=sp.Rational(1, 10)))
    assert false_alarms([may_fail], FEW, runs=3).total("runs") == 3


# --- broken checkers and false records are exposed -------------------------------------------------------------------


def nothing_found(statement, form, case, **_):
    return Comparison(Outcome.HOLDS, Estimate.exact(0.0), Estimate.exact(1.0), 0.0, float("inf"))


def test_a_checker_that_always_says_holds_is_exposed_by_its_mutants(monkeypatch):
    monkeypatch.setattr(check, "judge", nothing_found)
    mutants, _ = mutation_matrix([get("fl-ntk/A.2"), claim()], FEW)
    assert not any(mutant.fate is Fate.KILLED for mutant in mutants)
    alarms = false_alarms([claim()], FEW, runs=1)
    said = exposed(mutants, alarms)
    assert len(said) == sum(mutant.own for mutant in mutants) and "survived" in said[0]
    assert matrix_totals(mutants).startswith("mutants killed: 0/")


def test_a_false_statement_recorded_as_true_is_a_false_alarm():
    false = claim(sp.Integer(FRESH + 20))  # The claim holds for the first twenty of the fresh cases.
    alarms = false_alarms([false, claim(id="test/true")], FEW, runs=1)
    assert [(form.id, form.violated) for form in alarms.forms] == [("test/M", 5), ("test/true", 0)]
    assert alarms_totals(alarms).startswith("5 false VIOLATED in 50 runs")
    (said,) = exposed([], alarms)
    assert said == "test/M (stated): 5 of 25 runs called violated"
    assert alarms.forms[0].where[0].startswith(f"ntkfl verify test/M --form stated --seed {FRESH}")


def test_a_checker_that_cries_wolf_is_counted(monkeypatch):
    def wolf(*arguments, **named):
        return replace(nothing_found(*arguments, **named), outcome=Outcome.VIOLATED)

    monkeypatch.setattr(check, "judge", wolf)
    alarms = false_alarms([claim()], FEW, runs=1)
    assert alarms.total("violated") == alarms.total("runs") == 25


def test_what_is_found_is_strict_json():
    mutants, _ = mutation_matrix([claim()], FEW)
    content = strict_json(meta_json(mutants, false_alarms([claim()], FEW, runs=1)))
    again = json.loads(json.dumps(content, allow_nan=False))
    assert {mutant["fate"] for mutant in again["mutants"]} <= {fate.value for fate in Fate}
    assert again["false_alarms"]["runs"] == 25 and again["false_alarms"]["violated"] == 0


def test_the_command_prints_both_tables_and_keeps_them(tmp_path):
    file = tmp_path / "meta.json"
    arguments = ["verify", "--meta", "fl-ntk/A.2", "--trials", "25", "--json", str(file)]
    result = command(*arguments)
    assert result.exit_code == 0, result.output
    assert "kind of mutant" in result.output and "standard" in result.output
    assert "0 false VIOLATED in 50 runs of true statements (probability at most 0.071" in result.output
    kept = json.loads(file.read_text())
    assert {mutant["id"] for mutant in kept["mutants"]} == {"fl-ntk/A.2"}
    refused = command("verify", "--meta", "--markdown", tmp_path / "m.md")
    assert refused.exit_code == 2 and "--json keeps what it finds" in refused.output


# --- an exception ends one check, not all ----------------------------------------------------------------------------


POSITIVE = Hypothesis("positive", "x > 0", lambda case: case.value)


def broken(*_):
    raise TypeError("wrong argument")


BROKEN = {
    "the left side": {"measure": broken},
    "the constants": {"constants": broken},
    "the families": {"families": broken},
    "a mutant": {"mutants": (Mutant("broken", broken),)},
    "a necessity case": {"hypotheses": (POSITIVE,), "necessity": {"positive": broken}},
}


@pytest.mark.parametrize("changes", BROKEN.values(), ids=BROKEN)
def test_an_exception_in_one_statement_leaves_the_others(changes):
    bad, good = verify_all([claim(id="test/bad", **changes), claim(id="test/good")], FEW)
    assert (good.outcome, good.trials, good.error) == (Outcome.HOLDS, 25, None)
    assert bad.outcome is Outcome.UNRESOLVED and not bad.as_recorded
    assert replace(bad, data=Data.OWN).contradicts_record  # The exit status thus reports the error on any data.
    assert str(bad.notes[0]) == bad.error and bad.error.startswith("failed with TypeError: ")
    assert Verdict.from_json(json.loads(json.dumps(bad.to_json(), allow_nan=False))) == bad


def test_a_case_that_cannot_be_built_ends_the_checks_that_need_it_and_no_other():
    class Unbuildable(Numbers):
        def case(self, seed):
            if seed == 3:
                raise IndexError("no such sample")
            return super().case(seed)

    bad, good = verify_all([claim(id="test/bad", families=(Unbuildable(),)), claim(id="test/good")], FEW)
    assert bad.error == "failed with IndexError: no such sample, on numbers, seed 3"
    assert good.outcome is Outcome.HOLDS


def test_the_ratio_of_the_stored_case_that_decides_is_shown():
    corner = claim(sp.Integer(31), recorded=Outcome.VIOLATED, witness=lambda: Number(62.0))
    (verdict,) = verify(corner)
    assert verdict.tightness["stored case"] == 2.0
    assert verdict.tightness["sharpest"] == pytest.approx(30 / 31)
    assert markdown_table([verdict])[-1].endswith(" as recorded, stored case, left/right 2 |")
