"""Tests of how a study's numbers become answers.

If invented numbers follow a known power, the power is recovered, and claims of other powers are called violated. Too
little data count as untested.
"""

import numpy as np
import pytest
import xarray
from scipy import stats

from bounds import Outcome
from experiments.studies.answers import (
    along,
    at_most,
    equal,
    exponent,
    half_width,
    interval,
    measured_exponent,
    power_law,
    sampled,
    samples,
    upper,
)
from experiments.studies.series import mean, root_mean_square
from experiments.studies.study import counted
from ntkfl.estimate import Estimate

SIZES = 2.0 ** np.arange(6, 14)
NOISE = np.random.default_rng(0).lognormal(sigma=0.1, size=(len(SIZES), 8))
SAMPLES = [size**-0.5 * (1 + 0.3 * size**-0.5) * row for size, row in zip(SIZES, NOISE, strict=True)]


@pytest.mark.parametrize(
    ("theory", "outcome"), [(-0.5, Outcome.HOLDS), (-0.75, Outcome.VIOLATED), (0.0, Outcome.VIOLATED)]
)
def test_a_planted_power_is_recovered_and_another_one_violated(theory, outcome):
    answer = exponent("claim", "source", theory, SIZES, SAMPLES)
    assert answer.outcome is outcome
    assert answer.measured is not None and answer.measured.lo < -0.5 < answer.measured.hi


def test_a_power_that_a_second_term_explains_is_not_called_violated():
    bent = [row * (1 + np.sqrt(SIZES[0] / size)) for size, row in zip(SIZES, SAMPLES, strict=True)]
    answer = exponent("claim", "source", -0.5, SIZES, bent, biased=False)
    assert answer.outcome is Outcome.UNRESOLVED and answer.note.endswith("more sizes or seeds would tell")
    assert at_most("claim", "source", -answer.measured, 0.5).outcome is Outcome.UNRESOLVED
    assert at_most("claim", "source", -answer.measured, 0.0).outcome is Outcome.VIOLATED
    assert exponent("claim", "source", 0.0, SIZES, bent, biased=False).outcome is Outcome.VIOLATED


@pytest.mark.parametrize(
    ("theory", "outcome"), [(0.1, Outcome.HOLDS), (0.2, Outcome.UNRESOLVED), (0.3, Outcome.VIOLATED)]
)
def test_a_mean_is_violated_only_where_chance_alone_takes_it_once_in_a_million(theory, outcome):
    answer = sampled("claim", "source", theory, lambda level: Estimate(0.0, 0.05 * stats.norm.ppf((1 + level) / 2)))
    assert answer.outcome is outcome  # The half-widths of the intervals are .129 at 99% and .245 at 1 - 1e-6.
    assert ("outside the 99% interval and inside the interval at level 0.999999" in answer.note) is (
        outcome is Outcome.UNRESOLVED
    )


def test_missing_cells_do_not_count():
    holes = [row[:3] if at % 2 else row for at, row in enumerate(SAMPLES)]
    holes[2] = np.empty(0)
    assert exponent("claim", "source", -0.5, SIZES, holes).outcome is Outcome.HOLDS


@pytest.mark.parametrize("rows", [3, 0])
def test_too_few_sizes_or_cells_are_untested(rows):
    answer = exponent("claim", "source", -0.5, SIZES[:rows], SAMPLES[:rows])
    assert answer.outcome is Outcome.UNTESTED and "are needed" in answer.note
    # 16 cells are too few.
    assert exponent("c", "s", -0.5, SIZES, [row[:2] for row in SAMPLES]).outcome is Outcome.UNTESTED


def test_an_answer_says_whether_more_seeds_or_more_sizes_would_settle_it():
    along = {"axes": ("width",)}
    three = exponent("c", "s", -0.5, SIZES[:3], SAMPLES[:3], **along)
    assert three.outcome is Outcome.UNTESTED and three.settled_by == ("width",)
    many = exponent("c", "s", -0.5, SIZES[:3], [np.tile(row, 1000) for row in SAMPLES[:3]], **along)
    assert many.outcome is Outcome.UNTESTED  # More seeds are not enough, because sizes are missing.
    few = exponent("c", "s", -0.5, SIZES, [row[:2] for row in SAMPLES], **along)
    assert few.outcome is Outcome.UNTESTED and few.settled_by == ("seed",)
    assert exponent("c", "s", -0.5, SIZES, SAMPLES, **along).outcome is Outcome.HOLDS
    # Without `axes`, every cell counts as a size of its own.
    distinct = exponent("c", "s", -0.5, SIZES[:3], SAMPLES[:3])
    assert distinct.settled_by == ("seed",)
    endless = [*SAMPLES[:-1], np.append(SAMPLES[-1], np.inf)]
    answer = exponent("c", "s", -0.5, SIZES, endless, **along)
    assert answer.outcome is Outcome.UNRESOLVED and answer.settled_by == ()


def test_what_has_no_logarithm_is_unresolved():
    answer = exponent("claim", "source", -0.5, SIZES, [np.zeros(8), *SAMPLES[1:]])
    assert answer.outcome is Outcome.UNRESOLVED and "positive finite values" in answer.note


def test_an_interval_too_wide_decides_nothing():
    assert interval("c", "s", 1.0, Estimate(1.0, 0.5)).outcome is Outcome.UNRESOLVED
    assert interval("c", "s", 1.0, Estimate(1.1, 0.05)).outcome is Outcome.VIOLATED


def test_one_cell_above_its_bound_violates_and_is_reported():
    left, right = np.array([1.0, 2.0, 3.0, 3.3, np.nan, 1.0]), np.full(6, 3.2)
    answer = upper("c", "s", left, right, 0.01)
    assert answer.outcome is Outcome.VIOLATED and "1 of 5" in answer.note
    assert answer.measured is not None and answer.measured.value == pytest.approx(3.3 / 3.2)
    assert upper("c", "s", left, right, 0.5).outcome is Outcome.UNRESOLVED
    assert upper("c", "s", left, right + 1).outcome is Outcome.HOLDS
    assert upper("c", "s", left[:4], right[:4] + 1).outcome is Outcome.UNTESTED


def test_a_counterexample_decides_however_few_the_cells_are():
    assert upper("c", "s", np.full(4, 2.0), np.ones(4)).outcome is Outcome.VIOLATED
    assert equal("c", "s", np.ones(2), 0.1, 1.0).outcome is Outcome.VIOLATED
    assert equal("c", "s", np.zeros(2), 0.1, 1.0).outcome is Outcome.UNTESTED


def test_what_is_infinite_is_there_and_an_error_that_is_missing_leaves_its_cell_open():
    ones, beyond = np.ones(6), np.array([0.5] * 5 + [np.inf])
    assert upper("c", "s", beyond, ones, 1e-3 * beyond).outcome is Outcome.VIOLATED
    assert upper("c", "s", beyond, beyond + 1).outcome is Outcome.UNRESOLVED
    assert upper("c", "s", -beyond, ones).outcome is upper("c", "s", ones / 2, 2 * beyond).outcome is Outcome.HOLDS
    for sign in (1, -1):
        assert equal("c", "s", sign * np.array([0.0] * 5 + [np.inf]), 1e-9, 1.0).outcome is Outcome.VIOLATED
    known, unknown = np.array([0.5] * 5 + [9.0]), np.array([0.0] * 5 + [np.nan])
    assert upper("c", "s", known, ones, unknown).outcome is Outcome.UNRESOLVED
    assert upper("c", "s", known, 10 * ones, 0.0, unknown).outcome is Outcome.UNRESOLVED
    assert equal("c", "s", np.zeros(6), unknown, 1.0).outcome is Outcome.UNRESOLVED
    rows = [np.append(SAMPLES[0], np.inf), *SAMPLES[1:]]
    assert exponent("c", "s", -0.5, SIZES, rows).outcome is Outcome.UNRESOLVED


def test_the_worst_cell_is_a_violated_one_whatever_the_signs():
    answer = upper("c", "s", np.array([0.1, *[1.0] * 5]), np.array([-0.3, *[2.0] * 5]))
    assert answer.outcome is Outcome.VIOLATED and answer.measured is not None and answer.measured.value == np.inf
    left, right = np.array([-0.2, -0.1, 0.0, 0.0, 1.0]), np.array([-0.1, 0.0, 0.0, 1.0, 2.0])
    answer = upper("c", "s", left, right)  # The five ratios left/right count as 0, 0, 1, 0 and 1/2.
    assert answer.outcome is Outcome.HOLDS and answer.measured is not None and answer.measured.value == 1.0
    answer = upper("c", "s", np.zeros(5), np.zeros(5), 0.1, 0.1)
    assert answer.outcome is Outcome.UNRESOLVED and answer.measured is not None and answer.measured.error == np.inf


def test_an_identity_is_held_by_its_errors():
    off = np.array([0.0, 1e-9, -2e-9, 0.0, 0.0])
    assert equal("c", "s", off, 1e-8, 1.0).outcome is Outcome.HOLDS
    assert equal("c", "s", off, 1e-10, 1.0).outcome is Outcome.VIOLATED
    assert equal("c", "s", off, 1e-3, 1.0).outcome is Outcome.UNRESOLVED
    for sign in (1, -1):  # The largest difference is reported, whether it is positive or negative.
        answer = equal("c", "s", sign * off, 1e-8, 4.0)
        assert answer.measured is not None and answer.measured.value == sign * off[2] / 4
    assert equal("c", "s", np.full(5, np.nan), 0.0, 1.0).outcome is Outcome.UNTESTED


def test_cells_along_an_axis():
    import xarray

    cells = xarray.DataArray([[1.0, np.nan], [3.0, 4.0], [np.inf, 5.0]], dims=("seed", "width"))
    assert [row.tolist() for row in along(cells, "width")] == [[1.0, 3.0], [4.0, 5.0]]
    assert [row.tolist() for row in samples(cells, "width")] == [[1.0, 3.0, np.inf], [4.0, 5.0]]


def test_points_of_a_chart_lie_in_their_intervals_and_missing_ones_are_nan():
    for summary in (root_mean_square, mean):
        value, low, high = map(np.array, summary([*SAMPLES, np.empty(0)]))
        assert (low[:-1] <= value[:-1]).all() and (value[:-1] <= high[:-1]).all() and (low < high)[:-1].all()
        assert np.isnan([value[-1], low[-1], high[-1]]).all()
    assert root_mean_square([np.array([3.0, 4.0])])[0][0] == pytest.approx(np.sqrt(12.5))
    few = np.array([1.0, 2.0, 4.0])
    _, (low,), (high,) = mean([few])
    assert (low, high) == pytest.approx(stats.t.interval(0.99, 2, few.mean(), stats.sem(few)))


def test_where_it_holds_with_an_open_cell_the_ratio_is_that_of_the_worst_settled_one():
    left, unknown = np.append(np.full(39, 0.5), 0.9), np.append(np.zeros(39), np.inf)
    answer = upper("c", "s", left, np.ones(40), unknown)
    assert answer.outcome is Outcome.HOLDS and answer.note == "1 of 40 trials unresolved"
    assert answer.measured is not None and (answer.measured.value, answer.measured.error) == (0.5, 0.0)


def test_answers_are_counted_in_words():
    counts = [Outcome.HOLDS, Outcome.HOLDS, Outcome.TOUCHES, Outcome.VIOLATED]
    assert counted(counts) == "4 answers: 2 hold, 1 touches, 1 violated"
    assert counted(counts[:1]) == "1 answer: 1 holds" and counted([]) == "0 answers: none"


def test_an_exponent_known_too_little_says_how_many_seeds_would_tell():
    answer = measured_exponent("c", "s", -0.5, lambda: Estimate(-0.5, 0.5, "toy"))
    assert answer.outcome is Outcome.UNRESOLVED and answer.note.endswith(
        "about 7 times the seeds, or more sizes, would tell"
    )
    assert "would tell" not in measured_exponent("c", "s", -0.5, lambda: Estimate(-0.5, 0.1, "toy")).note


def test_the_power_of_an_axis_is_that_of_its_samples():
    values = xarray.DataArray(np.stack(SAMPLES), {"width": SIZES.astype(int), "seed": range(8)}, ("width", "seed"))
    answer = power_law("claim", "source", -0.5, values.transpose(), "width")
    wanted = exponent("claim", "source", -0.5, SIZES, SAMPLES)
    assert (answer.outcome, answer.note) == (wanted.outcome, wanted.note)
    assert (answer.measured.value, answer.measured.error) == (wanted.measured.value, wanted.measured.error)


@pytest.mark.parametrize(
    ("value", "outcome"), [(-1.0, Outcome.HOLDS), (0.05, Outcome.UNRESOLVED), (1.0, Outcome.VIOLATED)]
)
def test_a_number_that_is_only_bounded_is_held_against_its_bound(value, outcome):
    answer = at_most("claim", "source", Estimate(value, 0.1), 0.0, "note")
    assert (answer.outcome, answer.theory, answer.note) == (outcome, None, "note")


def test_the_half_width_is_students():
    low, high = stats.t.interval(0.95, 7, NOISE[0].mean(), stats.sem(NOISE[0]))
    assert half_width(NOISE[0], 0.95) == pytest.approx((high - low) / 2)


def test_no_places_have_no_samples():
    assert samples(xarray.DataArray(np.ones((0, 3)), dims=("width", "seed")), "width") == []
