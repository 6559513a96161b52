"""Tests of verdicts on a user's data: the outcome is about these data only.

The verdict also names failures on other cases, and options with which the hypotheses would be met.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from typed import command as run

from bounds import Family, Form, Hypothesis, Limit, Options, Outcome, get
from experiments.commands.theorems.verification_run import _plan_lines
from experiments.report.site import headline
from verification.engine import verify
from verification.facts import Data, Fact, Unmet, Where
from verification.judging.families import families
from verification.judging.way_out import passing_step, way_out
from verification.planning import plans_on_data, verify_planned
from verification.sentences import What
from verification.verdict import Verdict
from verification.verdict_list import markdown_table, totals
from verification.verdict_page import headline as answered

FEW = Options(unit=True, trials=5, width=256, rounds=20)
MOVEMENT = get("fl-ntk/B.12")  # A stored case violates the stated form; ordinary data do not.


@pytest.fixture
def data(tmp_path):
    """Writes forty rows of various norms; with the default two local steps eta_l n K is 80 eta_l."""
    draws = np.random.default_rng(0)
    x = draws.normal(size=(40, 6))
    rows = np.column_stack([x, np.sign(x[:, 0]), np.arange(40) % 4])
    path = tmp_path / "mine.csv"
    np.savetxt(path, rows, delimiter=",", header="a,b,c,d,e,f,y,owner", comments="")
    return str(path)


def test_the_outcome_is_of_the_data_and_the_stored_case_is_told_beside_it(data):
    (verdict,) = verify(MOVEMENT, replace(FEW, data=data), Form.STATED)
    assert (verdict.outcome, verdict.recorded, verdict.own_data) == (Outcome.HOLDS, Outcome.VIOLATED, True)
    assert verdict.elsewhere.where is Where.STORED and verdict.tightness["sharpest"] < 1
    assert verdict.tightness.keys() == {"sharpest", "median"} and verdict.confirmation is None
    assert answered(verdict).endswith("trials; fails elsewhere: stored case, left/right 1.11")
    assert totals([verdict]).endswith("; 1 fails elsewhere")
    assert markdown_table([verdict])[-1].partition("weights | ")[2].startswith("fails elsewhere")
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict
    (ours,) = verify(MOVEMENT, replace(FEW, unit=False), Form.STATED)
    assert (ours.outcome, ours.own_data, ours.elsewhere) == (Outcome.VIOLATED, False, None)


def test_families_that_are_there_without_the_data_are_left_out(data):
    mixed = replace(MOVEMENT, families=lambda options: MOVEMENT.families(Options()) + MOVEMENT.families(options))
    drawn, own = families(mixed, Form.STATED, Options(data=data))
    assert own and drawn == MOVEMENT.families(Options(data=data))
    ours = replace(MOVEMENT, families=lambda options: MOVEMENT.families(Options()))
    assert families(ours, Form.STATED, Options(data=data)) == (MOVEMENT.families(Options()), False)


def test_what_rejects_says_the_value_the_limit_and_a_step_that_passes(data):
    options = replace(FEW, data=data, eta_local=0.5)
    (verdict,) = verify(MOVEMENT, options, Form.PROVED)
    assert verdict.outcome is Outcome.UNTESTED and verdict.counts.rejected == {"small-local-steps": 5}
    said = "eta_l n K = 40, at most 1.2564: --eta-local 0.0157 passes"
    assert verdict.counts.unmet == {
        "small-local-steps": Unmet("eta_l n K = 40, at most 1.2564", "--eta-local 0.0157", True)
    } and said in " ".join(str(verdict).split())
    (passing,) = verify(MOVEMENT, replace(options, eta_local=0.0157), Form.PROVED)
    (failing,) = verify(MOVEMENT, replace(options, eta_local=0.0158), Form.PROVED)
    assert (passing.trials, failing.trials) == (5, 0)


def test_several_options_are_found_together(data):
    options = Options(data=data, eta_local=0.5)
    other = way_out(MOVEMENT, Form.PROVED, options, ["unit-rows"], 0, 0)
    assert (other.unit, other.eta_local) == (True, 0.0157)


def test_the_automatic_step_is_the_largest_that_passes(data):
    options = Options(data=data, unit=True)
    assert passing_step([MOVEMENT], list(Form), options) == (0.0157, "small-local-steps")
    with pytest.raises(ValueError, match="no hypothesis of these statements limits the step"):
        passing_step([get("fl-ntk/X.2")], list(Form), options)


def test_the_automatic_step_says_what_is_wrong_with_the_data(tmp_path):
    path = tmp_path / "broken.csv"
    path.write_text("a,y\n1,2\n3,cat\n")
    with pytest.raises(ValueError, match="line 3, column 'y': 'cat' is not a finite number"):
        passing_step([MOVEMENT], list(Form), Options(data=str(path)))


@pytest.mark.parametrize("limits", [(0.25, 0.125), (0.125, 0.25)])
def test_the_automatic_step_passes_every_hypothesis_of_every_statement(limits):
    def limited(limit):
        step = Limit("eta_l", lambda case: case, at_most=limit)
        asked = Hypothesis(f"at most {limit}", "eta_l is small", step, free=True, eased_by=("eta_local",))
        return replace(MOVEMENT, hypotheses=(asked,), necessity={}, families=steps)

    def steps(options):
        return (Family("a step", lambda step, seed: step, st.nothing(), (options.eta_local,)),)

    passing = passing_step(map(limited, limits), [MOVEMENT.mutated_form], Options())
    assert passing == (0.125, "at most 0.125")


def test_a_plan_gives_each_form_its_step_and_does_not_run_what_its_first_case_rejects(data):
    options = Options(data=data, unit=True, trials=5, width=64, rounds=3, eta_local=0.5)
    plans, others = plans_on_data([MOVEMENT, get("fl-ntk/A.2")], [Form.PROVED, Form.NEW], options, auto_step=True)
    assert [plan.options.eta_local for plan in plans] == [0.0157] and others == 1  # Statement A.2 is not about data.
    said = "forms checked on your data: 1, 1 with a smaller eta_local of their own, from 0.0157 to 0.0157; 1 are not"
    assert _plan_lines(plans, options.eta_local, others)[0].startswith(said)
    (planned,) = verify_planned(plans)
    (alone,) = verify(MOVEMENT, replace(options, eta_local=0.0157), Form.PROVED)
    assert replace(planned, provenance={}) == replace(alone, provenance={})
    plans, _ = plans_on_data([MOVEMENT], [Form.PROVED], options, auto_step=False)
    (untested,) = verify_planned(plans)
    (all_cases,) = verify(MOVEMENT, options, Form.PROVED)
    assert (untested.outcome, untested.counts.rejected) == (Outcome.UNTESTED, {"small-local-steps": 1})
    assert untested.counts.unmet == all_cases.counts.unmet and untested.complete
    assert Fact(What.ONE_CASE) in untested.notes


def test_a_whole_paper_on_data_says_first_what_is_not_run(data, monkeypatch):
    monkeypatch.setattr("bounds.listing.named", lambda word, known: (MOVEMENT, get("fl-ntk/A.2")))
    few = ("verify", "fl-ntk", "--data", data, "--form", "proved", "--trials", 5, "--width", 64, "--rounds", 3)
    norms = run(*few)
    assert "not run, the first case misses unit-rows: fl-ntk/B.12 (proved)" in norms.stderr, norms.output
    assert norms.exit_code == 1 and "A.2" not in norms.stdout
    passing = run(*few, "--unit")
    assert passing.exit_code == 0 and "1 hold" in passing.stdout
    assert "forms checked on your data: 1; 0 are not about data" in passing.stderr
    assert run(*few, "--unit", "--processes", 1).stdout == passing.stdout
    refused = run(*few, "--processes", 2)
    assert refused.exit_code == 2 and "processes is 2; whole papers on your data take one" in refused.stderr


def test_exit_statuses_and_last_lines(data):
    few = ("verify", "fl-ntk/B.12", "--data", data, "--trials", 5, "--width", 256, "--rounds", 20)
    untested = run(*few)
    assert untested.exit_code == 1 and untested.stdout.splitlines()[-1].endswith("--unit passes")
    tested = run(*few, "--unit", "--eta-local", "auto")
    assert tested.exit_code == 0 and "3 hold" in tested.stdout, tested.output
    assert "WEAKLY" not in tested.stdout and "weakly" not in tested.stdout
    assert run(*few, "--unit", "--strict").exit_code == 0
    strict = run(*few, "--unit", "--strict", "--eta-local", 0.5)
    assert strict.exit_code == 1 and "--strict: 3 of 3 forms were not tested, or not found to hold" in strict.stdout
    assert run("rate", "--eta-local", "auto").exit_code == 2
    assert "eta_local is 'fast'" in run("verify", "fl-ntk/B.12", "--eta-local", "fast").stderr


def test_the_headline_of_a_report_counts_what_the_run_was_about(data):
    (mine,) = verify(MOVEMENT, replace(FEW, data=data), Form.STATED)
    assert headline([mine]) == "On your data, of 1 form, 1 holds; 1 fails elsewhere"
    ours = replace(mine, data=Data.BUILT_IN, outcome=Outcome.VIOLATED, elsewhere=None)
    brought = replace(ours, outcome=Outcome.HOLDS, provenance={"statement": {"file": "my_theorem.py"}})
    # A form that was read in a scan of the paper, not in print, does not count as a printed claim.
    assert headline([ours]) == "Of 0 printed claims, 0 hold as they stand"
    counted = replace(ours, id="averaging/I10")
    assert headline([counted]) == "Of 1 printed claim, 0 hold as they stand"
    holding = replace(counted, outcome=Outcome.HOLDS)
    assert headline([holding, counted]) == "Of 2 printed claims, 1 holds as it stands"
    assert headline([counted, brought]).endswith("; of 1 form of your own, 1 holds")
    assert headline([brought]) == "Of 1 form of your own, 1 holds"


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_a_limit_is_met_where_its_words_say_so(value, limit):
    for name, met in (("at_most", value <= limit), ("at_least", value >= limit)):
        asked = Hypothesis("toy", "as its name says", Limit("q", lambda case: case, **{name: limit}))
        assert asked.met(value) is met
        assert asked.value_and_limit(value, 0.0) == f"q = {value:.5g}, {name.replace('_', ' ')} {limit:.5g}"


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("fl-ntk/H-inf", Outcome.HOLDS),
        ("fl-ntk/block-conditioning", Outcome.TOUCHES),  # Two clients attain the bound.
        ("fl-ntk/block-conditioning-jacobi", Outcome.HOLDS),
    ],
)
def test_what_depends_on_the_rows_alone_is_one_case_of_a_file(name, outcome, tmp_path):
    x = np.random.default_rng(0).normal(size=(6, 4))
    np.savez(tmp_path / "mine.npz", x=x, y=np.ones(6), owner=np.arange(6) % 2)
    options = Options(data=str(tmp_path / "mine.npz"))
    statement = get(name)
    form = list(statement.forms)[-1]
    (family,), _ = families(statement, form, options)
    sides = [statement.measured(form, family.case(seed)) for seed in (0, 1)]
    for side, other in zip(sides[0][0], sides[1][0], strict=True):
        np.testing.assert_allclose(
            side.value, other.value, rtol=1e-6 if name.endswith("-conditioning") else 0
        )  # A numerical search finds this left side, so it is not the same to the bit.
    rights = [statement.forms[form].evaluate(constants) for _, constants in sides]
    assert all(np.array_equal(side.value, other.value) for side, other in zip(*rights, strict=True))
    (verdict,) = verify(statement, options, form)
    assert (verdict.outcome, verdict.trials, verdict.counts.rejected) == (outcome, 1, {})
