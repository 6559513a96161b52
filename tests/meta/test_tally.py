"""Tests of how the outcomes of trials are combined into one outcome.

The tests concern binomial rules and their limits, too few cases, and unresolved trials.
"""

import math
from collections import Counter
from fractions import Fraction
from itertools import accumulate, product

import pytest
from hypothesis import given, settings, strategies as st

from bounds import Kind, Outcome
from ntkfl.estimate import Estimate
from verification.compare import Comparison
from verification.intervals import LOWER, lower_limit, percent, upper_limit
from verification.judging.tally import Tally
from verification.sentences import What

H, T, U, V = Outcome.HOLDS, Outcome.TOUCHES, Outcome.UNRESOLVED, Outcome.VIOLATED


def said(notes):
    return tuple(map(str, notes))


def tally(counts, failure=None, rejected=None, weight=1):
    counted = Tally()
    for outcome, count in counts.items():
        for i in range(count):
            side = Estimate.exact(1.0)
            counted.add(Comparison(outcome, side, side, 0.5 + i / 1000, 1.0), {"i": i}, weight, failure)
    counted.rejected.update(rejected or {})
    return counted


@pytest.mark.parametrize(
    ("counts", "outcome"),
    [
        ({H: 30}, H),
        ({H: 29, T: 1}, T),
        ({H: 95, U: 5}, H),
        ({H: 94, U: 6}, U),
        ({U: 30}, U),
        ({H: 199, V: 1}, V),  # One violated trial decides.
        ({U: 29, V: 1}, V),
        ({V: 1}, V),  # This is so even if there is a single trial.
        ({H: 1, V: 1}, V),
        ({H: 19}, Outcome.UNTESTED),
        ({}, Outcome.UNTESTED),
    ],
)
def test_deterministic_claims(counts, outcome):
    assert tally(counts).settle(Kind.UPPER, 20)[0] is outcome


def test_unresolved_trials_are_spoken_of():
    assert said(tally({H: 95, U: 5}).settle(Kind.UPPER, 20)[1]) == ("5 of 100 trials unresolved",)
    assert "errors are too large" in said(tally({H: 9, U: 91}).settle(Kind.UPPER, 20)[1])[0]


def test_untested_names_the_hypothesis_that_rejected_most():
    outcome, notes = tally({H: 3}, rejected={"unit-rows": 5, "small-step": 12}).settle(Kind.UPPER, 20)
    assert outcome is Outcome.UNTESTED
    assert said(notes) == ("3 admitted cases of 20 required; hypothesis 'small-step' rejected 12",)
    assert said(tally({H: 3}).settle(Kind.UPPER, 20)[1]) == ("3 admitted cases of 20 required",)
    assert said(tally({H: 1}).settle(Kind.UPPER, 20)[1]) == ("1 admitted case of 20 required",)


@pytest.mark.parametrize("rejected", [{}, {"unit-rows": 3}])
def test_nothing_holds_that_was_tried_on_nothing(rejected):
    outcome, notes = tally({}, rejected=rejected).settle(Kind.UPPER, 0)
    assert outcome is Outcome.UNTESTED
    assert said(notes)[0].startswith("0 admitted cases of 1 required")


def test_a_ladder_counts_all_its_runs():
    assert tally({H: 1}, weight=56).settle(Kind.ORDER, 20)[0] is H
    assert tally({H: 1}, weight=19).settle(Kind.ORDER, 20)[0] is Outcome.UNTESTED


@pytest.mark.parametrize(
    ("counts", "failure", "outcome"),
    [
        ({H: 200}, 0.1, H),
        ({H: 190, V: 10}, 0.1, H),  # A few failures are allowed.
        ({H: 190, U: 10}, 0.1, H),
        ({H: 180, V: 20}, 0.1, U),  # If exactly the allowed share of trials fails, the outcome is undecided.
        ({H: 180, U: 20}, 0.1, U),  # Unresolved trials count against the claim ...
        ({U: 200}, 0.1, U),  # ... but never as violations.
        ({H: 100, V: 100}, 0.1, V),
        ({V: 200}, 0.1, V),
        ({H: 200}, 1e-9, H),  # No failure occurred.
        ({H: 199, V: 1}, 1e-9, V),
        ({H: 199, V: 1}, 1e-6, U),
        ({H: 199, U: 1}, 1e-9, U),
        ({V: 6}, 0.05, V),
        ({H: 6}, 0.05, Outcome.UNTESTED),
    ],
)
def test_claims_that_may_fail(counts, failure, outcome):
    assert tally(counts, failure).settle(Kind.UPPER, 20)[0] is outcome


def test_of_several_allowed_probabilities_the_worse_one_for_the_verdict_counts():
    # The trials that hold may fail with probability .5, and the trials that fail with probability .01. In the first
    # round of the loop half of the trials fail, and in the second round a twentieth. Both shares are far above .01; the
    # first equals .5, and the second is far below .5.
    for failures in (100, 10):
        counted = tally({H: 200 - failures}, 0.5)
        for _ in range(failures):
            counted.add(Comparison(V, Estimate.exact(2.0), Estimate.exact(1.0), 2.0, 1.0), {}, 1, 0.01)
        assert counted.settle(Kind.PROBABILITY, 20)[0] is U


@pytest.mark.parametrize("allowed", [0.01, 0.1, 0.3])
def test_what_is_refuted_whatever_follows_stays_refuted(allowed):
    planned = 120
    fewest = next(k for k in range(planned) if tally({V: k}, allowed).refuted(planned))
    assert tally({H: planned - fewest, V: fewest}, allowed).settle(Kind.PROBABILITY, 20)[0] is V
    earlier = tally({V: fewest - 1}, allowed)
    # The trials so far refute the claim, yet later trials may reverse the refutation.
    assert earlier.refuted(earlier.trials)
    assert tally({H: planned - fewest + 1, V: fewest - 1}, allowed).settle(Kind.PROBABILITY, 20)[0] is not V
    assert tally({V: 1}).refuted(planned) and not tally({H: 9}).refuted(planned)


def test_a_tiny_probability_is_said_to_be_not_refuted():
    outcome, notes = tally({H: 150}, 1e-30).settle(Kind.PROBABILITY, 20)
    expected = "not refuted in 150 trials (allowed probability 1e-30): they would have excluded 2.5% or more"
    assert (outcome, said(notes)) == (H, (expected,))
    assert said(tally({H: 150}, 0.1).settle(Kind.PROBABILITY, 20)[1]) == (
        "0 failures in 150 trials; allowed probability 0.1",
    )


@pytest.mark.parametrize("trials", [20, 60, 150])
@pytest.mark.parametrize("allowed", [1e-88, 0.01, 0.05, 0.1])
def test_what_the_trials_would_have_excluded_is_what_they_test(trials, allowed):
    limit = tally({H: trials}, allowed).would_exclude
    # With the failure probability `at`, all trials hold with probability 2.5%. So `at` is the upper end of the
    # two-sided 95% interval after no failure.
    at = 1 - 0.025 ** (1 / trials)
    assert limit is None if at <= allowed else limit == pytest.approx(at, rel=1e-9)
    assert tally({H: trials}).would_exclude is None  # This claim has no failure probability.
    assert float(percent(at).rstrip("%")) / 100 >= at


def test_the_worst_case_is_the_most_severe_then_the_tightest():
    counted, side = Tally(), Estimate.exact(1.0)
    seen = [(H, 0.9, True), (H, 0.5, False), (U, 0.2, True), (H, 7.0, False), (V, 1.1, True), (U, 9.0, False)]
    for i, (outcome, tightness, worse) in enumerate(seen):
        assert counted.add(Comparison(outcome, side, side, tightness, 1.0), {"i": i}, 1, None) is worse
    assert counted.worst_case == {"i": 4}
    assert counted.trials == 6
    assert counted.tightness == [tightness for _, tightness, _ in seen]


def test_an_outcome_left_open_by_a_second_term_says_so():
    side = Estimate.exact(1.0)
    for explained in (True, False):
        counted = Tally()
        counted.add(Comparison(Outcome.UNRESOLVED, side, side, 1.0, 1.0, explained), {}, 1, None)
        outcome, facts = counted.settle(Kind.RATE, 1)
        assert outcome is Outcome.UNRESOLVED and (What.SECOND_TERM in [fact.what for fact in facts]) is explained


def binomial_tail(failures, trials, p, upper):
    """Returns Pr[X >= failures] (upper) or Pr[X <= failures] for X ~ Bin(trials, p), as a fraction."""
    p = Fraction(p)
    terms = range(failures, trials + 1) if upper else range(failures + 1)
    return sum((math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in terms), Fraction(0))


@settings(deadline=None, max_examples=80)
@given(data=st.data(), trials=st.integers(1, 40), level=st.sampled_from([0.975, 1 - 5e-7, 0.6]))
def test_limits_are_those_of_clopper_and_pearson(data, trials, level):
    failures = data.draw(st.integers(0, trials))
    low, high = lower_limit(failures, trials, level), upper_limit(failures, trials, level)
    assert 0 <= low <= failures / trials <= high <= 1
    for p, upper in ((low, True), (high, False)):
        if 0 < p < 1:
            assert abs(float(binomial_tail(failures, trials, p, upper)) - (1 - level)) < 1e-6 * (1 - level)
    assert (low == 0) == (failures == 0)
    assert (high == 1) == (failures == trials)


@pytest.mark.parametrize("trials", [5, 20, 60])
@pytest.mark.parametrize("p", [Fraction(1, 1000), Fraction(1, 20), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("level", [0.975, 0.9])
def test_limits_cover_the_truth_as_often_as_they_claim(trials, p, level):
    chance = [math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]
    below = sum(c for k, c in enumerate(chance) if lower_limit(k, trials, level) <= p)
    above = sum(c for k, c in enumerate(chance) if p <= upper_limit(k, trials, level))
    assert below >= level
    assert above >= level


def test_a_true_probability_is_called_violated_less_than_once_in_a_million():
    for trials in (20, 200):
        for delta in (Fraction(1, 10), Fraction(1, 100), Fraction(2, 5)):
            wrong = [k for k in range(trials + 1) if lower_limit(k, trials) > delta]
            chance = sum(math.comb(trials, k) * delta**k * (1 - delta) ** (trials - k) for k in wrong)
            assert wrong
            assert chance < Fraction(1, 10**6)


def test_three_looks_refute_a_true_probability_no_more_often_than_one():
    """Three looks refute a true probability no more often than one look.

    A look is a judgement of the trials so far. The probability that any look refutes is computed exactly over all
    paths, and compared with the bound `LOWER`. This bound covers every rule that says which look is the last.
    """
    parts, delta = (20, 10, 30), Fraction(1, 10)  # `parts` has the numbers of seeds that each look adds.

    def refutes(failures, trials):
        counts = Counter({Outcome.VIOLATED: failures, Outcome.HOLDS: trials - failures})
        return Tally(counts, failures_allowed=[float(delta)], looks=3).refuted(trials)

    def chance(failures, trials):
        return math.comb(trials, failures) * delta**failures * (1 - delta) ** (trials - failures)

    ever = sum(
        math.prod(map(chance, failures, parts))
        for failures in product(*(range(part + 1) for part in parts))
        if any(map(refutes, accumulate(failures), accumulate(parts)))
    )
    assert 0 < ever <= Fraction(LOWER)
