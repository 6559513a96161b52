"""Tests of the engine that runs the cases of statements and gives verdicts.

Statements share cases, trials are counted exactly, mutants (statements made wrong) are caught, interrupts lose nothing,
and a verdict names the command that repeats it. A ladder is a case of many networks of several widths. Cases are
drawn in steps, called looks. A look takes a part of the seeds, or a part of a ladder's networks. The next look takes
more seeds or networks, and follows only if the cases so far do not decide the verdict.
"""

import json
import shlex
from collections import Counter
from dataclasses import dataclass, field, replace

import flint
import number_cases
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st
from number_cases import Number

from bounds import Case, Change, Claim, Family, Form, Hypothesis, Kind, Options, Outcome, Source, Statement
from bounds.case import needed, prepared
from bounds.ladders.slopes import slope
from bounds.mutants import scaled
from bounds.statement import Mutant
from ntkfl.balls import PRECISION
from ntkfl.estimate import Estimate
from verification.compare import judge
from verification.engine import verify, verify_all
from verification.facts import Confirmation, Fact, Needed, Standing, Vacuous, Witness
from verification.judging import check
from verification.judging.check import replay_command
from verification.judging.tally import Tally
from verification.search import Replay, rejudge
from verification.sentences import What
from verification.verdict import Verdict
from verification.verdict_list import markdown_table
from verification.verdict_page import witness_text

X = sp.Symbol("x", positive=True)
built: Counter = Counter()


@dataclass(frozen=True)
class Numbers(number_cases.Numbers):
    """A family whose cases are numbers.

    The family counts how often each case is constructed. `stop` raises an interrupt while one of them is constructed.
    """

    stop: int | None = field(default=None, compare=False)

    def case(self, seed):
        if seed == self.stop:
            raise KeyboardInterrupt
        built[self.name, seed] += 1
        return super().case(seed)


def claim(identifier="test/E", formula=X, recorded=Outcome.HOLDS, witness=None, families=(Numbers(),), **changes):
    """Returns the statement x <= formula about a case x; every form has the same recorded outcome."""
    standard = Statement(
        id=identifier,
        title="a number against a formula",
        kind=Kind.UPPER,
        source=Source("tests", "E"),
        stated=Claim(formula, recorded=recorded, witness=witness),
        constants=lambda case: {X: case.value},
        measure=lambda case: Estimate.exact(case.value),
        families=lambda options: tuple(replace(d, trials=options.trials or d.trials) for d in families),
        says_left="the number",
    )
    return replace(standard, **changes)


SMALL = Hypothesis("small", "x <= 25", lambda case: 25 - case.value)


@pytest.fixture(autouse=True)
def nothing_built():
    built.clear()


def test_draws_that_are_equal_share_their_cases():
    both_forms = claim(
        "test/two",
        stated=Claim(X),
        repaired=Claim(2 * X),
    )
    statements = [claim("test/one"), both_forms, claim("test/more", families=(Numbers(), Numbers("others", 20)))]
    seen = []
    verdicts = verify_all(statements, Options(), progress=lambda *step: seen.append(step))
    assert built == Counter([("numbers", s) for s in range(30)] + [("others", s) for s in range(20)])
    assert [v.trials for v in verdicts] == [30, 30, 30, 50]
    assert seen[-1] == ("others", 50, 50)
    assert [done for _, done, _ in seen] == list(range(1, 51))


def test_a_first_look_decides_where_every_mutant_is_caught_on_it():
    """A statement is decided by the first look on which all its mutants are caught.

    Only numbers above 100 catch the mutant `late`, so that its statement needs all numbers. The other statement is not
    tried on more numbers than those of its first look. No case is built twice.
    """
    late = Mutant("late", lambda formula: sp.Min(2 * formula, 100), Change.OTHER)
    many = (Numbers(trials=200),)
    early, hard = (
        claim("test/early", 2 * X, mutants=(scaled(sp.Rational(1, 4)),), families=many),
        claim("test/hard", 2 * X, mutants=(late,), families=many),
    )
    thorough = verify_all([early, hard], Options())
    assert [v.trials for v in thorough] == [200, 200]
    built.clear()
    seen = []
    decided = verify_all([hard, early], Options(until_decided=True), progress=lambda *step: seen.append(step))
    assert [(v.id, v.trials, v.mutants_killed) for v in decided] == [("test/hard", 200, 1), ("test/early", 20, 1)]
    assert set(built.values()) == {1}
    assert {(v.id, v.outcome) for v in decided} == {(v.id, v.outcome) for v in thorough}
    assert [done for _, done, _ in seen] == list(range(1, 201))
    assert [done for _, done, total in seen if done == total] == [200]  # The total is announced once, at the end.
    (alone,) = verify(early, Options(until_decided=True))
    assert replace(alone, provenance={}) == replace(decided[1], provenance={})
    assert alone.replay == "ntkfl verify test/early --form stated --seed 0 --until-decided"
    assert verify(early, Options(until_decided=True, trials=30))[0].trials == 30


def test_too_few_admitted_cases_of_a_first_look_are_not_the_last_word():
    large = Hypothesis("large", "x >= 100", lambda case: case.value - 100)
    (verdict,) = verify(claim(families=(Numbers(trials=200),), hypotheses=(large,)), Options(until_decided=True))
    assert (verdict.outcome, verdict.trials, verdict.counts.rejected) == (Outcome.HOLDS, 101, {"large": 99})


def interrupts_at(stop):
    """Returns a progress function that raises an interrupt at its call number `stop`."""
    told = []

    def progress(*step):
        told.append(step)
        if len(told) == stop:
            raise KeyboardInterrupt

    return progress


@dataclass(frozen=True)
class Everyday(Numbers):
    """A family of numbers; `required` is how many of them a verdict needs by default, given the number of seeds."""

    trials: int = 60
    required: int = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "required", needed(self.trials))


def test_a_first_look_needs_as_many_admitted_cases_as_all_seeds_do():
    even = Hypothesis("even", "x is even", lambda case: -(case.value % 2))
    statement = claim(families=(Everyday(),), hypotheses=(even,))
    (thorough,), (decided,) = (verify(statement, Options(until_decided=until)) for until in (False, True))
    # The first look has 20 cases, of which only 10 are admitted; these are not enough.
    assert (thorough.trials, decided.trials) == (30, 30)
    assert (thorough.outcome, decided.outcome) == (Outcome.HOLDS, Outcome.HOLDS)
    assert len(built) == 60


@pytest.mark.parametrize(("few", "trials"), [(0, 20), (5, 40), (40, 120)])
def test_families_of_a_first_look_give_the_admitted_cases_together_and_those_of_the_second_each(few, trials):
    """In a first look the admitted cases of all families are counted together; in the second, those of each family.

    Each family's first `few` cases are rejected. In the three rows `few` is 0, half of a family's cases in the first
    look, and more than a family's cases in the second look.
    """
    late = Hypothesis("late", "x > few", lambda case: case.value - few - 1)
    statement = claim(hypotheses=(late,), families=(Numbers("one", 60), Numbers("two", 60)))
    (verdict,) = verify(statement, Options(until_decided=True))
    assert verdict.trials + verdict.counts.rejected.get("late", 0) == trials == sum(built.values())
    assert verdict.outcome is Outcome.HOLDS and set(built.values()) == {1}


@pytest.mark.parametrize(("failure", "trials"), [(sp.Rational(1, 10), 50), (sp.Rational(1, 1000), 20)])
def test_a_probability_goes_on_to_a_look_that_confirms_it(failure, trials):
    """For a statement that may fail, looks continue until one confirms the probability.

    Of looks at 20, 50 and 200 numbers, the second excludes a failure rate of 1/10, and none excludes 1/1000.
    """
    may_fail = Claim(2 * X, failure=failure)
    statement = claim(stated=may_fail, mutants=(scaled(sp.Rational(1, 4)),), families=(Numbers(trials=200),))
    (verdict,) = verify(statement, Options(until_decided=True))
    assert (verdict.trials, verdict.outcome, verdict.mutants_killed) == (trials, Outcome.HOLDS, 1)
    assert (verdict.would_exclude is None) is (trials == 50)


def test_cases_that_are_all_drawn_at_first_are_not_drawn_again():
    survives = Mutant("survives", lambda formula: 2 * formula, Change.OTHER)
    (verdict,) = verify(claim(mutants=(survives,), families=(Numbers(trials=20),)), Options(until_decided=True))
    assert (verdict.trials, verdict.mutants_killed, verdict.complete) == (20, 0, True)
    assert set(built.values()) == {1}


@pytest.mark.parametrize("stop", [10, 20, 21, 49, 75])
def test_an_interruption_keeps_what_is_counted_in_every_look(stop):
    late = Mutant("late", lambda formula: sp.Min(2 * formula, 100), Change.OTHER)
    statement = claim(formula=2 * X, mutants=(late,), families=(Numbers(trials=200),))
    (verdict,) = verify_all([statement], Options(until_decided=True), progress=interrupts_at(stop))
    assert (verdict.trials, verdict.complete) == (stop, False)
    assert str(verdict.notes[0]) == "interrupted: the cases of numbers were not all run"


@dataclass(frozen=True)
class Doubtful(Case):
    """A ladder whose value 7 violates x <= 1.

    Other networks, which `fresh` gives, confirm the violation only if the look takes at least the share `least` of the
    ladder's networks.
    """

    least: float
    value: float = 7.0
    share: float = 1.0

    def first_look(self, share):
        return replace(self, share=share)

    def fresh(self):
        return self if self.share >= self.least else replace(self, value=0.5)

    def describe(self):
        return {"share": self.share}


@pytest.mark.parametrize(("least", "share"), [(1 / 4, 1 / 4), (1 / 2, 1 / 2), (1.0, 1.0), (2.0, 1.0)])
def test_a_violation_that_falls_is_looked_at_again(least, share):
    family = Family("doubtful", lambda seed: Doubtful(least), st.nothing(), trials=1, needs=1, fixed=True)
    statement = claim(formula=sp.Integer(1), families=(family,), mutants=())
    (verdict,) = verify(statement, Options(until_decided=True))
    assert verdict.worst.case["share"] == share
    assert verdict.outcome is (Outcome.VIOLATED if share >= least else Outcome.UNRESOLVED)
    assert ("other networks agree" in str(verdict.confirmation.how)) is (share >= least)


@dataclass(frozen=True)
class Known(Case):
    """A ladder of networks with invented values and errors: for a quarter, for half and for all of its networks."""

    name: str
    values: tuple[tuple[float, float], ...]
    share: float = 1.0

    @property
    def value(self):
        built[self.name, self.share] += 1
        return Estimate(*map(np.float64, self.values[(1 / 4, 1 / 2, 1.0).index(self.share)]), "known")

    def first_look(self, share):
        return replace(self, share=share)

    def describe(self):
        return {"share": self.share}


def known(name, *values):
    return Family(name, lambda seed: Known(name, values), st.nothing(), trials=1, needs=1, fixed=True)


# In the ladder "late" a quarter and half of the networks give .9 with the error .2, and all networks give .3 without
# error. So x <= 1 is settled only when all networks of this ladder are measured.
LATE = (0.9, 0.2), (0.9, 0.2), (0.3, 0.0)


@pytest.mark.parametrize(
    ("early", "tenths", "shares"),
    [
        (((0.5, 0.2), (0.5, 0.2), (0.5, 0.0)), 2, {1 / 4}),
        # A quarter or half of the late ladder catches the mutant, because .9 - .2 is above .4. All of the late ladder
        # does not, because .3 is below .4. The early ladder catches the mutant if all its networks are measured,
        # because .5 is above .4. A quarter of them does not catch the mutant, because .5 - .2 is below .4.
        (((0.5, 0.2), (0.5, 0.2), (0.5, 0.0)), 4, {1 / 4, 1.0}),
        # Half of the early ladder catches the mutant, so the early ladder is not extended to all of its networks.
        (((0.5, 0.2), (0.9, 0.0), (0.5, 0.0)), 8, {1 / 4, 1 / 2}),
    ],
)
def test_a_ladder_that_is_settled_stays_as_it_is_while_another_is_enlarged(early, tenths, shares):
    statement = claim(
        formula=sp.Integer(1),
        families=(known("early", *early), known("late", *LATE)),
        mutants=(Mutant("limit", lambda formula: sp.Rational(tenths, 10), Change.OTHER),),
        measure=lambda case: case.value,
    )
    (verdict,) = verify(statement, Options(until_decided=True))
    assert {share for name, share in built if name == "early"} == shares
    assert {share for name, share in built if name == "late"} == {1 / 4, 1 / 2, 1.0}
    assert (verdict.outcome, verdict.trials, verdict.mutants_killed) == (Outcome.HOLDS, 2, 1)
    assert verdict.complete
    (thorough,) = verify(statement, Options())
    assert (thorough.outcome, thorough.trials) == (Outcome.HOLDS, 2)


def test_a_violation_on_the_first_look_outlives_an_interruption_of_the_second():
    right = Mutant("right", lambda formula: 1000 * formula, Change.OTHER)
    statement = claim(
        formula=sp.Integer(20), mutants=(right,), families=(Numbers("first", 200), Numbers("second", 200))
    )
    (verdict,) = verify_all([statement], Options(until_decided=True), progress=interrupts_at(60))
    assert (verdict.outcome, verdict.complete) == (Outcome.VIOLATED, False)


def test_forms_can_be_chosen_and_seeds_start_where_they_are_told():
    two = claim(
        stated=Claim(X),
        repaired=Claim(2 * X),
    )
    (verdict,) = verify(two, Options(seed=100, trials=20), Form.REPAIRED)
    for options, form, said in (
        (Form.REPAIRED, None, "^the options are <Form.REPAIRED: 'repaired'>; options come before forms"),
        (None, Options(), r"^the form is Options\(.*; it must be one of <Form.STATED"),
        (None, "repiared", "^the form is 'repiared'; it must be one of <Form.STATED"),
    ):
        with pytest.raises(TypeError, match=said):
            verify(two, options, form)
    with pytest.raises(TypeError, match=r"^the options are .*; options come before forms"):
        verify_all([two], [Form.REPAIRED])
    assert verdict.form is Form.REPAIRED
    assert set(built) == {("numbers", seed) for seed in range(100, 120)}
    assert verdict.worst.case == {"cases": "numbers", "case_seed": 100, "value": 101.0}
    assert verdict.provenance["seeds"] == {"first_seed": 100}


def test_every_case_is_counted_once():
    (verdict,) = verify(claim(formula=sp.Integer(10), recorded=Outcome.VIOLATED, hypotheses=(SMALL,)))
    assert (verdict.trials, verdict.counts.holds, verdict.counts.violated) == (25, 10, 15)
    assert verdict.counts.rejected == {"small": 5}
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.as_recorded
    assert (verdict.lhs.value, verdict.rhs.value, verdict.tightness["sharpest"]) == (25.0, 10.0, 2.5)
    assert verdict.worst.case["case_seed"] == 24


def test_too_few_admitted_cases_are_untested_and_say_why():
    (verdict,) = verify(claim(hypotheses=(Hypothesis("tiny", "x <= 7", lambda case: 7 - case.value),)))
    assert verdict.outcome is Outcome.UNTESTED
    assert not verdict.as_recorded
    assert str(verdict.notes[0]) == "7 admitted cases of 20 required; hypothesis 'tiny' rejected 23"


def test_of_several_families_the_one_that_needs_fewest_says_how_many_cases_do():
    dear = Numbers("dear", trials=4, required=3)
    (verdict,) = verify(claim(families=(Numbers(trials=5), dear)))
    assert (verdict.trials, verdict.outcome) == (9, Outcome.HOLDS)
    (alone,) = verify(claim(families=(Numbers(trials=9),)))
    assert (alone.trials, alone.outcome) == (9, Outcome.UNTESTED)


@pytest.mark.parametrize(
    "families", [(), (Numbers(trials=0, required=0),), (Numbers(required=0),)], ids=["none", "no seeds", "all rejected"]
)
def test_a_statement_of_no_case_is_untested(families):
    never = Hypothesis("never", "x < 0", lambda case: -case.value)
    (verdict,) = verify(claim(families=families, hypotheses=(never,)))
    assert (verdict.outcome, verdict.trials) == (Outcome.UNTESTED, 0)
    assert str(verdict.notes[0]).startswith("0 admitted cases of 1 required")


def test_both_sides_are_taken_at_one_precision():
    """Both sides are evaluated at the same precision of ball arithmetic.

    Otherwise the ends of an interval would depend on the precision that is set in the threads that prepare cases.
    """
    seen = []

    def measure(case):
        seen.append(flint.ctx.prec)
        return Estimate.exact(case.value)

    def constants(case):
        seen.append(flint.ctx.prec)
        return {X: case.value}

    statement = claim(measure=measure, constants=constants)
    verify(statement)
    judge(statement, Form.STATED, Number(1.0))
    assert set(seen) == {PRECISION}


def test_mutants_are_judged_on_the_same_cases():
    (verdict,) = verify(claim(formula=2 * X, mutants=(scaled(sp.Rational(1, 4)), scaled(sp.Rational(3, 4)))))
    assert verdict.mutants == {"times 1/4": "violated", "times 3/4": "holds"}
    assert (verdict.mutants_killed, verdict.mutants_total) == (1, 2)
    assert max(built.values()) == 1
    violated = claim(formula=X / 2, recorded=Outcome.VIOLATED, mutants=(scaled(2),))
    assert verify(violated)[0].mutants_total == 0  # A form that does not hold has no mutants.


def test_a_mutant_is_judged_until_no_more_cases_can_clear_it(monkeypatch):
    judged = Counter()

    def counting(*given, **how):
        judged["mutant" if "formula" in how else "form"] += 1
        return judge(*given, **how)

    monkeypatch.setattr(check, "judge", counting)
    may_fail = Claim(2 * X, failure=sp.Rational(1, 10))
    (verdict,) = verify(claim(stated=may_fail, mutants=(scaled(sp.Rational(1, 4)),)), options=Options(trials=200))
    assert verdict.mutants == {"times 1/4": "violated"} and judged["form"] == verdict.trials == 200
    few = judged["mutant"]
    assert 20 < few < 100
    enough = Tally(Counter({Outcome.VIOLATED: few}), failures_allowed=[0.1])
    short = Tally(Counter({Outcome.VIOLATED: few - 1}), failures_allowed=[0.1])
    assert enough.refuted(200) and not short.refuted(200)


def test_necessity_needs_a_case_that_breaks_the_claim_and_this_hypothesis_alone():
    other = Hypothesis("odd", "x is odd", lambda case: 0.0 if case.value % 2 else -1.0)

    def said(case, **changes):
        needs = claim(formula=sp.Integer(25), hypotheses=(SMALL, other), necessity={"small": lambda: case}, **changes)
        (verdict,) = verify(needs, options=Options(trials=60))
        assert verdict.necessity["odd"] is Needed.NO_CASE
        return verdict.necessity["small"]

    assert said(Number(27.0)) is Needed.YES
    assert said(Number(28.0)) is Needed.NOT_SHOWN  # The number is even, so two hypotheses fail.
    assert said(Number(3.0)) is Needed.NOT_SHOWN  # The number violates neither the hypothesis nor the claim.


def test_a_power_that_a_second_term_explains_violates_no_form_and_kills_mutants():
    """If a second term explains why a measured power differs from a formula, the form is not violated.

    The power still tells the formula from a mutant. Such a power leaves the form open, and does not show that a
    hypothesis is needed.
    """
    sizes = 2.0 ** np.arange(6, 12)
    bent = slope(sizes, sizes**-0.5 * (1 + np.sqrt(sizes[0] / sizes)), biased=False)
    odd = Hypothesis("odd", "x is odd", lambda case: 0.0 if case.value % 2 else -1.0)
    standard = claim(
        kind=Kind.RATE,
        formula=-sp.Rational(13, 20),
        families=(Numbers(trials=60),),
        measure=lambda case: bent,
        hypotheses=(odd,),
        mutants=(Mutant("power", lambda formula: -sp.Rational(1, 2), Change.POWER),),
    )
    (verdict,) = verify(standard)
    assert (verdict.outcome, verdict.mutants_killed) == (Outcome.HOLDS, 1)
    half = Claim(-sp.Rational(1, 2), recorded=Outcome.HOLDS, witness=lambda: Number(27.0))
    (verdict,) = verify(replace(standard, stated=half, mutants=(), necessity={"odd": lambda: Number(28.0)}))
    assert verdict.outcome is Outcome.UNRESOLVED and verdict.confirmation is None
    assert [fact.what for fact in verdict.notes] == [What.UNRESOLVED, What.SECOND_TERM]
    assert not verdict.witness.shows and verdict.necessity["odd"] is Needed.NOT_SHOWN
    assert rejudge(Replay(replace(standard, stated=half), Form.STATED, Number(27.0), (0.0, 0.0))).how == str(
        Fact(What.SECOND_TERM)
    )
    # A verdict that an earlier version wrote to a file may have the fact SECOND_TERM as its confirmation. This version
    # puts the fact into the verdict's notes.
    before = replace(verdict, confirmation=Confirmation(Standing.FALLEN, Fact(What.SECOND_TERM)))
    assert Verdict.from_json(json.loads(json.dumps(before.to_json()))) == before


def test_a_witness_decides_where_the_everyday_cases_do_not():
    corner = claim(formula=sp.Integer(31), recorded=Outcome.VIOLATED, witness=lambda: Number(62.0))
    (verdict,) = verify(corner)
    assert (verdict.counts.violated, verdict.counts.holds, verdict.outcome) == (0, 30, Outcome.VIOLATED)
    assert verdict.witness == Witness(2.0, Outcome.VIOLATED)
    assert (verdict.lhs.value, verdict.rhs.value) == (62.0, 31.0)
    weak = claim(formula=sp.Integer(31), recorded=Outcome.VIOLATED, witness=lambda: Number(5.0))
    assert verify(weak)[0].outcome is Outcome.HOLDS
    assert witness_text(verify(weak)[0].witness).startswith("the stored case does not violate it (holds")
    barred = replace(corner, hypotheses=(SMALL,))
    assert verify(barred)[0].witness.unmet == ("small",)


def overflowing(limit):
    """Returns a left side that overflows above a limit."""

    def measure(case):
        if case.value > limit:
            raise FloatingPointError(f"round {case.value:.0f}: not finite")
        return Estimate.exact(case.value)

    return measure


def test_one_case_that_cannot_be_computed_leaves_the_claim_unresolved_and_is_named():
    verdicts = verify_all([claim("test/wild", measure=overflowing(192)), claim("test/calm")], Options(trials=200))
    wild, calm = verdicts
    assert (wild.outcome, wild.trials, wild.counts.holds, wild.counts.unresolved) == (Outcome.UNRESOLVED, 200, 192, 8)
    assert wild.counts.not_computed == {
        f"numbers, seed {s}": f"failed with FloatingPointError: round {s + 1}: not finite" for s in range(192, 200)
    }
    first = "numbers, seed 192 failed with FloatingPointError: round 193: not finite"
    assert str(wild.notes[0]) == f"8 of 200 trials could not be computed: {first}"
    assert wild.error is None and wild.contradicts_record and first in " ".join(str(wild).split())
    assert "8 not computed: FloatingPointError" in markdown_table(verdicts)[2]
    assert Verdict.from_json(json.loads(json.dumps(wild.to_json()))) == wild
    assert (calm.outcome, calm.counts.not_computed) == (Outcome.HOLDS, {})


def test_a_violation_decides_though_another_case_cannot_be_computed():
    (verdict,) = verify(claim(formula=sp.Integer(20), measure=overflowing(29)))
    assert (verdict.outcome, verdict.counts.violated, len(verdict.counts.not_computed)) == (Outcome.VIOLATED, 9, 1)
    assert any("1 of 30 trials could not be computed" in str(note) for note in verdict.notes)


def test_where_a_claim_may_fail_a_case_that_cannot_be_computed_counts_as_a_failure():
    def found(limit):
        may_fail = Claim(2 * X, failure=sp.Rational(1, 10))
        return verify(claim(stated=may_fail, measure=overflowing(limit)), options=Options(trials=200))[0]

    few, many = found(192), found(180)
    assert (few.outcome, len(few.counts.not_computed), many.outcome) == (Outcome.HOLDS, 8, Outcome.UNRESOLVED)
    assert "8 could not be computed, which count as failures" in str(few).splitlines()[0]


@pytest.mark.parametrize(
    "side", [np.nan, np.linalg.LinAlgError("singular"), np.inf], ids=["NaN", "no inverse", "both infinite"]
)
def test_a_side_without_a_value_is_a_case_that_cannot_be_computed(side):
    def measure(case):
        if case.value != 7:
            return Estimate.exact(case.value)
        if isinstance(side, Exception):
            raise side
        return Estimate(side, 0.0)

    def constants(case):
        return {X: np.inf if case.value == 7 and side == np.inf else case.value}

    (verdict,) = verify(claim(measure=measure, constants=constants))
    assert (verdict.outcome, list(verdict.counts.not_computed)) == (Outcome.UNRESOLVED, ["numbers, seed 6"])


def test_a_case_that_cannot_be_drawn_is_named_and_one_with_a_fault_ends_the_check():
    @dataclass(frozen=True)
    class Drawn(Numbers):
        error: type = ZeroDivisionError

        def case(self, seed):
            if seed == 4:
                raise self.error("no such number")
            return super().case(seed)

    drawn, faulty = verify_all(
        [claim("test/drawn", families=(Drawn(),)), claim("test/fault", families=(Drawn(error=KeyError),))], Options()
    )
    assert drawn.counts.not_computed == {"numbers, seed 4": "failed with ZeroDivisionError: no such number"}
    assert (drawn.outcome, drawn.trials, drawn.error) == (Outcome.UNRESOLVED, 30, None)
    assert faulty.error == "failed with KeyError: 'no such number', on numbers, seed 4"
    assert (faulty.outcome, faulty.trials, faulty.counts.not_computed) == (Outcome.UNRESOLVED, 5, {})


def test_a_case_that_cannot_be_prepared_is_left_to_those_that_look_at_it():
    ran = Counter()

    @dataclass(frozen=True)
    class Run(Case):
        value: float

        @prepared
        def run(self):
            ran[self.value] += 1
            if self.value > 25:
                raise FloatingPointError("the run overflowed")
            return self.value

        def describe(self):
            return {"value": self.value}

    @dataclass(frozen=True)
    class Runs(Numbers):
        def case(self, seed):
            return Run(1.0 + seed)

    looks = {"families": (Runs(),), "measure": lambda case: Estimate.exact(case.run)}
    # The hypothesis has to be computed, so the case is prepared before the hypothesis is evaluated.
    outside = Hypothesis("small", "x <= 25", lambda case: 25 - case.value)
    statements = [
        claim("test/run", **looks),
        claim("test/again", **looks),
        claim("test/start", families=(Runs(),)),
        claim("test/stable", hypotheses=(outside,), **looks),
    ]
    run, again, start, stable = verify_all(statements, Options())
    assert run.outcome is again.outcome is Outcome.UNRESOLVED
    assert len(run.counts.not_computed) == len(again.counts.not_computed) == 5
    assert (start.outcome, start.counts.not_computed) == (Outcome.HOLDS, {})
    assert (stable.outcome, stable.counts.rejected, stable.counts.not_computed) == (Outcome.HOLDS, {"small": 5}, {})
    assert set(ran.values()) == {1}  # A case that overflows is run once for all statements.


def test_a_violation_whose_second_opinion_cannot_be_computed_is_not_confirmed():
    @dataclass(frozen=True)
    class Sharpened(Case):
        value: float

        def sharper(self):
            raise FloatingPointError("the run overflowed")

        def describe(self):
            return {}

    @dataclass(frozen=True)
    class Many(Numbers):
        def case(self, seed):
            return Sharpened(1.0 + seed)

    (verdict,) = verify(claim(formula=X / 2, families=(Many(),)))
    assert (verdict.outcome, verdict.counts.violated, verdict.error) == (Outcome.UNRESOLVED, 30, None)
    failed = "the second computation failed with FloatingPointError: the run overflowed"
    said = f"a violation was seen and not confirmed: {failed}"
    assert said in map(str, verdict.notes)


def test_an_interruption_reports_what_was_counted():
    statements = [
        claim("test/done", families=(Numbers("first", 22),)),
        claim("test/half", families=(Numbers("second", 30, stop=21),)),
        claim("test/both", families=(Numbers("first", 22), Numbers("second", 30, stop=21))),
        claim("test/never", families=(Numbers("third", 30),)),
    ]
    verdicts = {v.id: v for v in verify_all(statements, Options())}
    assert verdicts["test/done"].outcome is Outcome.HOLDS
    assert not any("interrupted" in str(note) for note in verdicts["test/done"].notes)
    note = "interrupted: the cases of second were not all run"
    assert (verdicts["test/half"].trials, str(verdicts["test/half"].notes[0])) == (21, note)
    assert (verdicts["test/both"].trials, str(verdicts["test/both"].notes[0])) == (43, note)
    assert "test/never" not in verdicts
    assert not any(name == "third" for name, _ in built)


def test_an_unfinished_check_differs_from_the_record_only_by_a_violation():
    def stored():
        raise AssertionError("no stored case is run for a check that was interrupted")

    stopped = {"families": (Numbers("first", 30, stop=21),)}
    corner = claim("test/corner", sp.Integer(31), Outcome.VIOLATED, **stopped, witness=stored)
    false = claim("test/false", X / 2, **stopped)
    for statement, differs in ((corner, False), (claim("test/true", **stopped), False), (false, True)):
        (verdict,) = verify(statement)
        assert (verdict.complete, verdict.contradicts_record) == (False, differs)
        assert Verdict.from_json(verdict.to_json()) == verdict
    (whole,) = verify(claim("test/true"))
    assert whole.complete and Verdict.from_json({k: v for k, v in whole.to_json().items() if k != "complete"}) == whole


def test_an_interruption_while_verdicts_are_settled_keeps_the_settled_ones():
    def interrupted():
        raise KeyboardInterrupt

    statements = [claim("test/kept"), claim("test/lost", hypotheses=(SMALL,), necessity={"small": interrupted})]
    assert [v.id for v in verify_all(statements, Options())] == ["test/kept"]


def test_a_premise_out_of_reach_is_vacuous_and_gives_its_number():
    width, step = sp.symbols("m eta_l", positive=True)
    premise = {width: 10**12 * X, step: X / 10**9}
    (verdict,) = verify(claim(stated=Claim(X, premise=premise)))
    assert verdict.vacuous == Vacuous({"m": 1e12}, {"eta_l": 1e-9})
    assert verify(claim(stated=Claim(X, premise={width: X})))[0].vacuous is None


def test_a_bound_that_may_fail_is_counted_like_a_probability():
    mostly = claim(stated=Claim(sp.Integer(190), failure=sp.Rational(1, 10)))
    (verdict,) = verify(mostly, options=Options(trials=200))
    assert (verdict.counts.violated, verdict.outcome) == (10, Outcome.HOLDS)
    rarely = claim(stated=Claim(sp.Integer(100), failure=sp.Rational(1, 10)))
    assert verify(rarely, options=Options(trials=200))[0].outcome is Outcome.VIOLATED


def test_a_verdict_survives_json():
    # The ratio left/right has no meaning if the right side is negative.
    infinite = claim(formula=X - 40, recorded=Outcome.VIOLATED)
    (verdict,) = verify(infinite)
    assert verdict.tightness["sharpest"] == np.inf
    again = Verdict.from_json(json.loads(json.dumps(verdict.to_json(), allow_nan=False)))
    assert again == verdict


FLAGS = {
    "clients": int, "n": int, "width": int, "local_steps": int, "rounds": int, "trials": int, "seed": int,
    "eta_local": float, "eta_global": float, "sigma": float, "data": str, "partition": str,
}  # fmt: skip
NUMBERS = {name: kind for name, kind in FLAGS.items() if kind is not str}


@st.composite
def options(draw):
    chosen = {}
    for name, kind in NUMBERS.items():
        values = st.integers(1, 10**9) if kind is int else st.floats(1e-9, 1e9)
        if name == "seed" or draw(st.booleans()):
            chosen[name] = draw(values)
    if draw(st.booleans()):
        chosen["data"] = draw(st.sampled_from(["digits", "sphere", "my file.npz", "a'b;c.csv", "../x y/$HOME.csv"]))
        chosen["unit"] = draw(st.booleans())
    if draw(st.booleans()):
        chosen["partition"] = draw(st.sampled_from(["iid", "dirichlet:0.3", "shards:2"]))
    return Options(**chosen)


@settings(deadline=None, max_examples=100)
@given(chosen=options(), form=st.sampled_from(list(Form)))
def test_the_replay_command_parses_back_to_the_same_options(chosen, form):
    # The families of `about_data` change with every option.
    about_data = replace(claim(), families=lambda options: (options,))
    words = shlex.split(replay_command(about_data, form, chosen))
    assert words[:5] == ["ntkfl", "verify", "test/E", "--form", form.value]
    parsed, rest = {}, words[5:]
    while rest:
        name = rest.pop(0).removeprefix("--").replace("-", "_")
        parsed[name] = True if name == "unit" else FLAGS[name](rest.pop(0))
    assert Options(**parsed) == chosen


def test_data_that_a_statement_does_not_use_are_said_to_be_unused_and_not_replayed():
    (verdict,) = verify(claim(), options=Options(data="digits", unit=True, trials=5))
    assert Fact(What.NOT_ABOUT_DATA) in verdict.notes
    assert "digits" not in verdict.replay and "--unit" not in verdict.replay and "--trials 5" in verdict.replay
    (plain,) = verify(claim(), options=Options(trials=5))
    assert Fact(What.NOT_ABOUT_DATA) not in plain.notes


def test_a_margin_is_found_once_a_case_for_all_statements_and_forms():
    asked: Counter = Counter()

    def margin(case):
        asked[case.value] += 1
        return case.value - 3.0

    large = Hypothesis("large", "x >= 3", margin)
    verdicts = verify_all([claim("test/E", hypotheses=(large,)), claim("test/F", hypotheses=(large,))], Options())
    assert asked == {1.0 + seed: 1 for seed in range(30)}
    assert [(verdict.trials, verdict.counts.rejected) for verdict in verdicts] == [(28, {"large": 2})] * len(verdicts)
