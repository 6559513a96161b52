"""Tests of the search for counterexamples: it finds them for false statements, and for true statements it finds none.

A file that the search writes replays exactly.
"""

import json
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from unittest.mock import Mock

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st
from hypothesis.internal.conjecture import providers
from number_cases import Number
from typer.testing import CliRunner

from bounds import Case, Claim, Form, Hypothesis, Kind, Options, Outcome, get
from bounds.cases.bounded_sum import BoundedSum
from bounds.cases.kernel_case import kernel_cases
from bounds.federated_run import FederatedFamily, FederatedRun, federated_run, federated_runs
from bounds.fl_ntk.cases.generalisation_case import Loss, SphereDistribution, TrainedOnSample, samples
from bounds.initial_network import initial_networks
from bounds.ladders.width_ladder import WidthLadder, width_ladders
from bounds.strategies import log_uniform
from experiments.command_line import app
from experiments.commands.theorems.attack import NIGHTLY
from ntkfl.algorithm1.reference import DOUBLE
from ntkfl.algorithm1.simulation import simulate
from ntkfl.estimate import Estimate
from ntkfl.problem import Problem, Setup
from verification.compare import Comparison
from verification.engine import verify
from verification.facts import Fact
from verification.judging.confirm import Confirmation
from verification.search import attack, hunt, read, rejudge, written
from verification.search.ascent import climb, coordinates, neighbours, shrunk, simpler
from verification.search.case_codec import decode, encode
from verification.search.hunt import FAR_ROUND, CaseResult, _far_score, judged_case, stands
from verification.search.replay_file import Replay, _digest
from verification.sentences import What
from verification.verdict import Standing

FALSE = ("fl-ntk/A.1", "fl-ntk/B.9-14")
TRUE = ("fl-ntk/Eq11", "fl-ntk/B.9-15")
TRUE_LONG = (
    *TRUE,
    *(f"fl-ntk/{name}" for name in ("B.10", "B.5", "B.6", "B.7", "B.11", "Eq16", "C.6", "X.2", "X.3")),
)

PATIENT = float("inf")  # The budget counts cases, so that the machine's speed does not matter.

LEVEL = Comparison(Outcome.VIOLATED, Estimate.exact(2.0), Estimate.exact(1.0), 2.0, np.inf)


TAME = st.integers(0, 9).map(Number)


@dataclass(frozen=True)
class Family:
    """A family of a hundred numbers, one for each seed.

    A search first judges numbers that it draws from the strategy `drawn`, and later the hundred numbers of the seeds.
    """

    of_seed: Callable[[int], int]
    name: str = "a family"
    trials: int = 100
    required: int = 20
    drawn: st.SearchStrategy = TAME

    def case(self, seed):
        return Number(self.of_seed(seed))

    def strategy(self):
        return self.drawn


def planted_in(of_seed, *hypotheses):
    """Returns replacements that make a statement claim that the number of every seed is at most 10."""
    return {
        **dict.fromkeys(Form),
        "stated": Claim(sp.Integer(10)),
        "constants": lambda case: {},
        "measure": lambda case: Estimate.exact(case.value),
        "families": lambda options: (Family(of_seed),),
        "kind": Kind.UPPER,
        "hypotheses": hypotheses,
        "mutants": (),
        "necessity": {},
    }


def without_witness(identifier):
    """Returns the statement without its stored cases."""
    statement = get(identifier)
    claims = {form: replace(claim, witness=None) for form, claim in statement.forms.items()}
    return replace(statement.with_forms(claims), necessity={})


@cache
def found_in(identifier, examples=400, seed=0, shrinking=0.1):
    budget = {"examples": examples, "seconds": PATIENT, "shrinking": shrinking}
    done = attack(without_witness(identifier), Form.STATED, seed=seed, **budget)
    assert done.counterexample is not None, (done.tried, done.admitted, done.best)
    assert not done.contradicts_record
    assert not done.missed
    return done.counterexample


@pytest.mark.parametrize("identifier", FALSE)
def test_it_finds_what_is_false_and_the_file_replays_it_bit_for_bit(identifier):
    counterexample, statement = found_in(identifier), get(identifier)
    assert counterexample.comparison.outcome is Outcome.VIOLATED
    assert "ball" in str(counterexample.confirmation.how)
    text = written(statement, Form.STATED, counterexample)
    replay = read(text)
    assert encode(replay.case) == encode(counterexample.case)
    again = rejudge(replay)
    assert again.confirmed
    assert again.same_sides


def test_what_it_finds_is_small():
    sum_of_one = found_in("fl-ntk/A.1", shrinking=PATIENT).case
    assert sum_of_one == BoundedSum(1, Fraction(1, 2), Fraction(1), Fraction(1))


def test_a_run_shrinks_to_the_least_that_keeps_what_matters():
    rng = np.random.default_rng(0)
    problem = Problem(rng.normal(size=(3, 2)), rng.normal(size=3), np.array([0, 1, 0])).unit()
    run = federated_run(problem, Setup(width=8, eta_local=0.1234, eta_global=0.77, local_steps=3, rounds=5, seed=1))
    small = shrunk(run, lambda case: case.setup.width >= 3 and case.problem.y.max() > 0, lambda: True)
    setup = small.setup
    assert (small.problem.n, small.problem.d, small.problem.n_clients) == (1, 1, 1)
    assert (setup.width, setup.rounds, setup.local_steps, setup.eta_local, setup.eta_global) == (3, 1, 1, 1.0, 1.0)
    assert set(np.abs(small.weights.hidden.ravel())) == {1.0}


@pytest.mark.slow
def test_it_finds_the_square_root_in_b_12():
    case = found_in("fl-ntk/B.12", examples=100, seed=2).case
    # An overshoot at most doubles the movement, so the stated bound fails only if 8 sqrt(lambda) < 2.
    assert case.smallest_eigenvalue.hi < 1 / 16


@pytest.mark.slow
def test_it_finds_that_more_local_steps_leave_a_remainder_of_order_one():
    counterexample = found_in("fl-ntk/Eq18")
    assert counterexample.case.setup.local_steps >= 2
    assert "other networks agree" in str(counterexample.confirmation.how)


@pytest.mark.slow
def test_it_finds_that_the_error_term_does_not_vanish_so_early():
    counterexample = found_in("fl-ntk/C.7-error", examples=40)  # 400 examples from seed 2 would take 1600 cases.
    assert counterexample.case.setup.rounds > 20
    assert "one of them: computed again in balls" in str(counterexample.confirmation.how)


@pytest.mark.slow
def test_it_finds_that_a_loss_need_not_vanish_at_the_label():
    loss = found_in("fl-ntk/C.11", examples=60).case.loss
    assert loss.at_label > 0.5


@pytest.mark.parametrize("examples", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_it_finds_nothing_against_the_repaired_rate(examples):
    done = attack(get("fl-ntk/Eq18"), Form.REPAIRED, examples=examples, seconds=PATIENT, seed=1)
    assert done.counterexample is None
    assert done.admitted >= 1


@pytest.mark.parametrize("identifier", TRUE)
def test_it_finds_nothing_against_what_is_true(identifier):
    for form in get(identifier).forms:
        if form is Form.NEW and identifier == "fl-ntk/Eq11":
            continue  # This form draws many networks, so only the long test searches it.
        done = attack(get(identifier), form, examples=3, seconds=PATIENT, seed=1)
        assert done.counterexample is None
        assert done.admitted > 5
        assert done.best.outcome is not Outcome.VIOLATED


@pytest.fixture(scope="module")
def case_of_a_family():
    """Returns `FederatedFamily.case` with a cache, since most of these statements are about the same runs."""
    return cache(FederatedFamily.case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "identifier",
    [*TRUE_LONG, "fl-ntk/X.1"],
)
def test_it_finds_nothing_against_what_is_true_in_a_larger_budget(identifier, case_of_a_family, monkeypatch):
    monkeypatch.setattr(FederatedFamily, "case", case_of_a_family)
    options = Options(width=1024)  # `verify` draws the families' own cases at width 4096.
    for form in get(identifier).forms:
        done = attack(get(identifier), form, examples=100, seconds=PATIENT, seed=2, options=options)
        assert done.counterexample is None
        assert done.admitted > 5


def test_it_finds_what_is_false_in_two_percent_of_the_familys_own_cases_as_verify_does():
    planted = replace(get("fl-ntk/A.1"), **planted_in(lambda seed: 12 if seed % 50 == 17 else 5))
    (verdict,) = verify(planted)
    assert (verdict.outcome, verdict.counts.violated, verdict.trials) == (Outcome.VIOLATED, 2, 100)
    done = attack(planted, Form.STATED, examples=100, seconds=PATIENT, shrinking=0.1)
    assert done.counterexample is not None and done.contradicts_record
    assert (done.counterexample.first, done.counterexample.found_by) == (Number(12), "a family, seed 17")
    assert rejudge(Replay(planted, Form.STATED, done.counterexample.first, (12.0, 10.0))).confirmed
    seen = {
        attack(planted, Form.STATED, examples=100, seconds=PATIENT, shrinking=0.1, seed=7).counterexample.found_by
        for _ in range(2)
    }
    # A search from another seed finds another case, and a second search from that seed finds the same case again.
    assert len(seen) == 1 and seen != {done.counterexample.found_by}


def test_a_replay_whose_sides_are_no_longer_those_of_the_file_says_so():
    planted = replace(get("fl-ntk/A.1"), **planted_in(lambda seed: 12))
    for sides in ((12.0, 10.0), (12.5, 10.0), (12.0, 10.5)):
        again = rejudge(Replay(planted, Form.STATED, Number(12), sides))
        assert again.confirmed and again.same_sides is (sides == (12.0, 10.0))


def test_a_search_in_which_no_case_is_admitted_is_untested(tmp_path, monkeypatch):
    free = Hypothesis("free", "never met", lambda case: -1.0)
    rare = Hypothesis("rare", "met by half of the strategy's cases", lambda case: 4 - case.value)
    planted = replace(get("fl-ntk/A.1"), **planted_in(lambda seed: 5, rare, free))
    done = attack(planted, Form.STATED, examples=20, seconds=PATIENT)
    assert (done.admitted, done.counterexample) == (0, None) and done.tried > 20
    counts = done.rejected
    assert counts["rare"] + counts["free"] == done.tried
    most = max(counts, key=lambda name: counts[name])
    assert str(done.untested) == f"none of {done.tried} cases was admitted; hypothesis {most!r} rejected {counts[most]}"
    monkeypatch.setattr("bounds.listing.find", lambda *_: [planted])
    result = CliRunner().invoke(app, ["attack", planted.id, "--examples", "20", "--folder", str(tmp_path)])
    assert result.exit_code == 4, result.output
    assert f"{planted.id} stated: untested: none of " in result.output and "nothing found" not in result.output
    none = attack(replace(planted, hypotheses=()), Form.STATED, examples=20, seconds=PATIENT)
    assert none.untested is None and none.admitted == none.tried


def test_a_violation_that_does_not_stand_is_said_and_not_counted(monkeypatch):
    monkeypatch.setattr(
        "verification.search.hunt.stands",
        lambda *_: Confirmation(Standing.FALLEN, Fact(What.TEXT, {"text": "balls say otherwise"})),
    )
    done = attack(get("fl-ntk/A.1"), Form.STATED, examples=10, seconds=PATIENT)
    assert done.counterexample is None
    assert done.missed
    assert [str(how) for how in done.unconfirmed] == ["balls say otherwise"]


def test_a_search_that_is_interrupted_keeps_the_violation_that_it_has(tmp_path, monkeypatch):
    monkeypatch.setattr("verification.search.hunt.shrunk", Mock(side_effect=KeyboardInterrupt))
    words = ["attack", "fl-ntk/A.1", "fl-ntk/B.12", "--form", "stated", "--folder", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 130 and "COUNTEREXAMPLE" in result.stdout and "fl-ntk/B.12" not in result.stdout
    assert result.stderr.splitlines()[-2] == "stopped by Ctrl-C"
    assert result.stderr.splitlines()[-1].startswith("0 of 2 forms were searched to the end")
    (file,) = tmp_path.glob("*.json")
    monkeypatch.undo()
    assert CliRunner().invoke(app, ["attack", "--replay", str(file)]).exit_code == 0


def test_a_search_that_is_interrupted_says_so(monkeypatch):
    monkeypatch.setattr("verification.search.hunt.judged_case", Mock(side_effect=KeyboardInterrupt))
    result = CliRunner().invoke(app, ["attack", "fl-ntk/A.1", "--form", "stated"])
    assert result.exit_code == 130 and "nothing found until it was interrupted" in result.stdout


def test_the_same_seed_looks_at_the_same_cases():
    first, second = (attack(get("fl-ntk/B.10"), Form.STATED, examples=3, seconds=PATIENT, seed=3) for _ in range(2))
    assert (first.tried, first.admitted, first.best.tightness) == (second.tried, second.admitted, second.best.tightness)


def test_another_seed_draws_other_cases():
    def drawn(seed):
        looked_at = []

        def measure(case):
            looked_at.append(case.value)
            return Estimate.exact(case.value)

        planted = replace(get("fl-ntk/A.1"), **planted_in(lambda seed: 5) | {"measure": measure})
        attack(planted, Form.STATED, examples=30, seconds=PATIENT, seed=seed)
        return looked_at

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_bad_request_is_refused():
    with pytest.raises(ValueError, match=r"fl-ntk/A.1 has no form 'proved'; it has: stated, repaired"):
        attack(get("fl-ntk/A.1"), Form.PROVED)
    with pytest.raises(ValueError, match="the budget is 0 cases in 60 seconds; both must be positive"):
        attack(get("fl-ntk/A.1"), Form.STATED, examples=0)
    without = replace(get("fl-ntk/A.1"), families=lambda options: ())
    with pytest.raises(ValueError, match=r"fl-ntk/A.1 draws no families of cases for its stated form"):
        attack(without, Form.STATED)
    with pytest.raises(ValueError, match=r"the range is \(2, 1\); it must be"):
        log_uniform(2, 1)


@pytest.mark.parametrize(
    "strategy",
    [federated_runs(), kernel_cases(), initial_networks(), width_ladders(Setup()), samples()],
    ids=["run", "kernel", "net", "ladder", "sample"],
)
def test_every_case_survives_json_and_shrinks_to_valid_cases(strategy):
    @settings(max_examples=8, deadline=None, database=None)
    @given(strategy)
    def check(case):
        content = json.loads(json.dumps(encode(case), allow_nan=False))
        assert encode(decode(content)) == encode(case)
        for smaller in list(simpler(case))[:20]:
            assert encode(smaller) != encode(case)
            assert smaller.describe()
        size, rebuild = coordinates(case)
        assert encode(rebuild(np.zeros(size))) == encode(case)

    check()


@settings(max_examples=20, deadline=None, database=None)
@given(width_ladders(Setup()))
def test_ladders_see_their_points_apart(ladder):
    cosines = np.abs(ladder.problem.x @ ladder.problem.x.T) - np.eye(ladder.problem.n)
    # The lines from 0 through the points are pairwise so far apart that even at the smallest width some neurons
    # distinguish any two points.
    assert np.arccos(cosines.max()) > np.pi / 5
    _, rebuild = coordinates(ladder)
    moved = rebuild(np.full(2, 0.1))
    np.testing.assert_array_equal(moved.problem.x, ladder.problem.x)
    assert moved.setup.eta_local == pytest.approx(ladder.setup.eta_local * np.exp(0.1))


def test_a_ladder_in_plain_arithmetic_measures_what_the_simulated_one_does():
    problem = Problem(np.eye(2), np.array([1.0, -0.5]), np.array([0, 1]))
    setup = Setup(eta_local=0.4, local_steps=2, rounds=2)
    simulated = WidthLadder(problem, setup, (4, 8), (2, 2), seed=0)
    for fast, plain in zip(simulated.runs, simulated.with_arithmetic(DOUBLE).runs, strict=True):
        for case, other in zip(fast, plain, strict=True):
            np.testing.assert_allclose(case.trajectory.outputs, other.trajectory.outputs, rtol=0, atol=1e-12)


def test_coordinates_reach_into_a_loss():
    case = TrainedOnSample(SphereDistribution(3, 0.5, 0.25), 4, Loss(0.5, 1.0, 0.25, -0.5), 0, delta=0.125)
    size, rebuild = coordinates(case)
    moved = rebuild(np.full(size, np.log(2)))
    assert moved.loss == Loss(1.0, 2.0, 0.5, -0.5)
    assert moved.source == SphereDistribution(3, 1.0, 0.5, 2.0)
    assert (moved.delta, moved.n) == (pytest.approx(0.25), 4)


def test_a_trend_is_carried_on_to_the_last_round():
    rounds = np.arange(1, 11)
    left, right = (Estimate(base**rounds, 0.0, "exact") for base in (0.75, 0.5))
    assert _far_score((left,), (right,)) == pytest.approx(FAR_ROUND * np.log(1.5))
    assert _far_score((left[:1],), (right[:1],)) is None
    assert _far_score((left,), (Estimate(np.zeros(10), 0.0, "exact"),)) is None


def test_few_cases_in_a_hundred_networks_do_not_confirm_a_claim_that_may_fail(monkeypatch):
    counts = iter([(5, 50, 0.1), (30, 250, 0.1), (60, 700, 0.1)])
    monkeypatch.setattr(hunt, "_count", lambda *_: (*next(counts), [], None, None, None))
    statement = get("fl-ntk/C.11")
    confirmation = stands(statement, Form.STATED, object(), CaseResult(1.0, comparison=LEVEL, frequency=(2, 4, 0.1)))
    assert not confirmation.stands
    assert str(confirmation.how) == "5 of 50 fresh networks fail; allowed probability 0.1; exact binomial interval"


@dataclass(frozen=True)
class Drawn(Case):
    """A case in which only the seed is random."""

    seed: int = 0

    def redrawn(self, seed):
        return Drawn(seed)


def test_networks_that_showed_a_violation_do_not_confirm_it():
    """Networks that showed a violation do not confirm it.

    All networks with seeds below 1000 fail, and no other network fails. A search tries these small seeds first.
    """
    planted = planted_in(None) | {"measure": lambda case: Estimate.exact(20.0 if case.seed < 1000 else 5.0)}
    planted |= {"stated": Claim(sp.Integer(10), failure=sp.Rational(1, 10))}
    may_fail = replace(get("fl-ntk/A.1"), **planted)
    result = judged_case(may_fail, Form.STATED, Drawn())
    assert result.violated
    confirmation = stands(may_fail, Form.STATED, Drawn(), result)
    assert confirmation.standing is Standing.FALLEN
    assert str(confirmation.how).startswith("0 of 50 fresh networks fail")


@settings(max_examples=3, deadline=None, database=None)
@given(federated_runs(n=(2, 2), d=(2, 2), clients=(1, 1), rounds=(2, 2), local_steps=(2, 2), width=(4, 4)))
def test_the_plain_trajectory_is_the_simulated_one(run):
    plain = run.with_arithmetic(DOUBLE).trajectory
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ntkfl.algorithm1.simulation.warn_if_unstable", lambda *_: None)
        fast = simulate(run.problem, run.setup, run.weights, keep=(1, 2))
    scale = 1 + np.abs(fast.outputs).max()
    np.testing.assert_allclose(plain.outputs, fast.outputs, rtol=0, atol=1e-9 * scale)
    for t in (1, 2):
        np.testing.assert_allclose(plain.weights[t], fast.weights[t], rtol=0, atol=1e-9 * scale)


@settings(max_examples=5, deadline=None, database=None)
@given(federated_runs())
def test_neighbours_keep_the_residual(run):
    def residual(case):
        hidden, signs = case.weights
        return case.problem.y - np.maximum(case.problem.x @ hidden.T, 0) @ signs / np.sqrt(len(signs))

    for other in neighbours(run):
        assert len(other.weights.signs) == other.setup.width
        np.testing.assert_allclose(
            residual(other), residual(run), rtol=0, atol=1e-9 * (1 + np.abs(run.problem.y).max())
        )


def test_the_ascent_climbs():
    seen = []

    def score(case):
        assert isinstance(case, FederatedRun)
        seen.append(case.setup.eta_local)
        return -abs(np.log(case.setup.eta_local / 0.37))

    climb(federated_run(Problem(np.eye(1), np.ones(1)), Setup(width=2)), score, 60)
    assert min(abs(np.log(np.array(seen) / 0.37))) < 0.05


def doctored(change, honest=False):
    """Returns a replay file after a change; if `honest`, the digest is that of the changed file."""
    counterexample = found_in("fl-ntk/A.1")
    content = json.loads(written(get("fl-ntk/A.1"), Form.STATED, counterexample))
    change(content)
    if honest:
        content["digest"] = _digest({k: v for k, v in content.items() if k not in ("digest", "provenance")})
    return json.dumps(content)


def test_a_doctored_file_is_refused():
    with pytest.raises(ValueError, match="was changed after it was written: its digest is"):
        read(doctored(lambda c: c["case"]["fields"]["t"].update(fraction="2")))
    with pytest.raises(ValueError, match="no JSON at line 1"):
        read("{")
    with pytest.raises(ValueError, match="its format is None"):
        read("{}")
    with pytest.raises(ValueError, match="has no case: it is incomplete"):
        read(doctored(lambda c: c.pop("case")))
    with pytest.raises(ValueError, match=r"os:system is no class of this project"):
        read(doctored(lambda c: c["case"].update(value="os:system"), honest=True))
    with pytest.raises(ValueError, match="the file differs in count, total"):
        read(doctored(lambda c: c["case"]["fields"].update(total=c["case"]["fields"].pop("count")), honest=True))
    for other in ("1e999999999", "1e-999999999", "0.5", "1_0", "٣", "1/-2"):  # The first two numbers would take hours.
        with pytest.raises(ValueError, match=f"the fraction '{other}' is not written with whole numbers, like 3/4"):
            read(doctored(lambda c, other=other: c["case"]["fields"]["t"].update(fraction=other), honest=True))
    with pytest.raises(ValueError, match=r"'0\.5' is not written in hexadecimal"):
        read(doctored(lambda c: c["case"]["fields"].update(t={"float": "0.5"}), honest=True))
    with pytest.raises(ValueError, match="has no form 'proved'; it has: stated, repaired"):
        read(doctored(lambda c: c.update(form="proved"), honest=True))


def test_a_file_starts_no_program(tmp_path, monkeypatch):
    """A file starts no program.

    An earlier version called any class of the project with the file's values, even one that starts a process.
    """
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **options: started.append(arguments))
    case = {"named": "ntkfl.conformance.kit:_Process", "parts": [{"tuple": ["touch", str(tmp_path / "there")]}]}
    with pytest.raises(ValueError, match="_Process is not a class of named tuples"):
        read(doctored(lambda content: content.update(case=case), honest=True))
    assert not started


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"statement": None}, "the replay file's statement is None; it must be a text"),
        ({"statement": ["fl-ntk/A.1"]}, "the replay file's statement is"),
        ({"form": {}}, r"the replay file's form is \{\}; it must be a text"),
        ({"statement": "mine/x", "statement of": "file.py"}, "mine/x"),
        ({"left": "0x1p9999"}, "the replay file's case is refused: hexadecimal value too large"),
        ({"case": {"float": "0x1p9999"}}, "the replay file's case is refused: hexadecimal value too large"),
    ],
)
def test_a_file_of_other_kinds_of_values_is_refused(change, said):
    with pytest.raises((ValueError, KeyError), match=said):
        read(doctored(lambda content: content.update(change), honest=True))
    with pytest.raises(ValueError, match="its lists are too deep"):
        read("[" * 100_000 + "]" * 100_000)


def test_a_case_of_another_kind_is_named_by_the_command(tmp_path):
    file = tmp_path / "other.json"
    setup = {"value": "ntkfl.problem:Setup", "fields": {}}
    file.write_text(doctored(lambda content: content.update(case=setup), honest=True))
    refused = CliRunner().invoke(app, ["attack", "--replay", str(file)])
    assert refused.exit_code == 2 and "the case in the file is none of" in refused.stderr, refused.output


def test_a_file_that_claims_a_violation_of_what_holds_is_found_out():
    again = rejudge(read(doctored(lambda c: c.update(form="repaired"), honest=True)))
    assert not again.confirmed
    assert again.how == "it holds"


def test_a_file_outlives_the_move_of_a_class_to_another_module():
    read(doctored(lambda c: c["case"].update(value="bounds.no_such_module:BoundedSum"), honest=True))
    with pytest.raises(ValueError, match=r"there is no bounds.no_such_module:NoSuchClass"):
        read(doctored(lambda c: c["case"].update(value="bounds.no_such_module:NoSuchClass"), honest=True))


def test_only_plain_data_goes_into_a_file():
    with pytest.raises(TypeError, match="a function cannot be kept in a file"):
        encode(doctored)


def test_the_command_searches_writes_and_replays(tmp_path):
    runner = CliRunner()
    result = runner.invoke(app, ["attack", "fl-ntk/A.1", "--examples", "30", "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "fl-ntk/A.1 stated: COUNTEREXAMPLE (recorded: violated)" in result.output
    assert "fl-ntk/A.1 repaired: nothing found (recorded: holds)" in result.output
    assert "  claim      Pr(Σ_i X_i ≤ t) ≤ exp(-t^2/(2·(V + M·t/3)))" in result.stdout.splitlines()
    assert "2 forms, " in result.stdout
    assert " s: none violated against the record" in result.stdout  # The stated form is recorded as violated.
    assert "fl-ntk/A.1 repaired: " in result.stderr
    assert ": drawing cases" not in result.stdout
    (file,) = tmp_path.iterdir()
    assert file.name == "counterexample_fl_ntk_a_1_stated.json"
    replayed = runner.invoke(app, ["attack", "--replay", str(file)])
    assert replayed.exit_code == 0, replayed.output
    assert "VIOLATED, as the file says" in replayed.output
    assert "bit for bit" in replayed.output
    file.write_text(doctored(lambda c: c.update(form="repaired"), honest=True))
    refuted = runner.invoke(app, ["attack", "--replay", str(file)])
    assert refuted.exit_code == 1
    assert "the violation does not stand" in refuted.output
    file.write_text(file.read_text().replace("1/2", "1/3"))
    refused = runner.invoke(app, ["attack", "--replay", str(file)])
    assert refused.exit_code == 2
    assert "was changed after it was written" in refused.output


def test_a_violated_true_form_is_a_finding(tmp_path, monkeypatch):
    statement = get("fl-ntk/A.1")
    claims = {form: replace(claim, recorded=Outcome.HOLDS, witness=None) for form, claim in statement.forms.items()}
    claimed = statement.with_forms(claims)
    monkeypatch.setattr("bounds.listing.find", lambda *_: (claimed,))
    command = ["attack", "fl-ntk/A.1", "--form", "stated", "--examples", "20", "--folder", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "COUNTEREXAMPLE, a finding (recorded: holds)" in result.output


def test_each_stage_of_a_search_is_said_as_it_begins():
    stages = []
    drawn = {"ten": TAME, "five": st.integers(0, 4).map(Number)}
    families = tuple(Family(lambda seed: 5, name, drawn=strategy) for name, strategy in drawn.items())
    planted = replace(get("fl-ntk/A.1"), **planted_in(None) | {"families": lambda options: families})
    done = attack(planted, Form.STATED, examples=10, seconds=PATIENT, progress=stages.append)
    assert done.families == tuple(drawn)
    assert [stage.split(": ")[0] for stage in stages] == [name for name in done.families for _ in range(3)]
    assert all(": drawing cases" in stage for stage in stages[::3])
    assert all(": climbing from " in stage for stage in stages[1::3])
    assert all(": cases as `verify` draws them" in stage for stage in stages[2::3])
    stages.clear()
    attack(
        without_witness("fl-ntk/A.1"), Form.STATED, examples=30, seconds=PATIENT, shrinking=0, progress=stages.append
    )
    assert "a violation stands after" in stages[-1]


def test_the_nightly_search_shares_its_time_among_forms_that_are_recorded_to_hold(tmp_path, monkeypatch):
    claims = [claim for name in NIGHTLY for claim in get(name).forms.values()]
    assert all(claim.recorded is not Outcome.VIOLATED for claim in claims)
    monkeypatch.setattr("experiments.commands.theorems.attack.NIGHTLY", ("fl-ntk/X.2", "fl-ntk/Eq16"))
    asked = []

    def of_few_cases(statement, form, **given):
        asked.append((given["seconds"], given["examples"]))
        return attack(statement, form, **given | {"seconds": PATIENT, "examples": 2})

    monkeypatch.setattr("verification.search.attack", of_few_cases)
    result = CliRunner().invoke(app, ["attack", "--nightly", "--seed", "5", "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for name in ("X.2 new", "Eq16 stated", "Eq16 new"):
        assert f"fl-ntk/{name}: nothing found (recorded: holds)" in result.stdout
    assert "3 forms, " in result.stdout
    assert asked == 3 * [(1200, 10**6)]  # Each form gets a third of an hour; the limit on examples ends no search.
    assert not list(tmp_path.iterdir())


def test_the_command_refuses_bad_input():
    runner = CliRunner()
    for arguments, said in (
        ([], "no statement is named"),
        (["fl-ntk/A.1", "--nightly"], "--nightly has statements and a budget of its own; leave out ids"),
        (["--nightly", "--budget", "9"], "--nightly has statements and a budget of its own; leave out ids"),
        (["fl-ntk/A.1", "--examples", "0"], "examples is 0; it must be positive"),
        (["fl-ntk/A.1", "--form", "proved"], "has no form 'proved'"),
        (["fl-ntk/Z.9"], "no statement 'fl-ntk/Z.9'"),
    ):
        result = runner.invoke(app, ["attack", *arguments])
        assert result.exit_code == 2, result.output
        assert said in result.output


def test_what_a_seed_draws_does_not_depend_on_what_else_is_imported(monkeypatch):
    """What a seed draws does not depend on what else is imported.

    Hypothesis draws constants of the loaded modules, and another process may have loaded others.
    """
    statement = get("fl-ntk/A.1")

    def drawn():
        cases = []
        monkeypatch.setattr(hunt, "judged_case", lambda *given: cases.append(given[-1]) or CaseResult(0.0, None))
        searched = hunt.Hunt(statement, Form.REPAIRED, float("inf"), 0.0, lambda said: None)
        searched.family("numbers", st.floats(-1e3, 1e3), 300, seed=3)
        return cases

    first = drawn()
    monkeypatch.setattr(providers, "_get_local_constants", lambda: providers.GLOBAL_CONSTANTS)
    monkeypatch.setattr(providers, "CONSTANTS_CACHE", type(providers.CONSTANTS_CACHE)(1024))
    assert len(first) > 100 and drawn() == first
    monkeypatch.setattr(hunt, "constants_of_statements", nullcontext)
    assert drawn() != first  # Without this context other modules do change the draws, so that this test can fail.
