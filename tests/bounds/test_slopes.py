"""Tests of fitted exponents: exact powers are found exactly.

The interval allows for bias, and the slope does not depend on units or on the order of the points.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from bounds import Kind, Outcome
from bounds.ladders.slopes import NoSlope, _admitted, _exponent, slope
from ntkfl.estimate import Estimate
from verification.compare import compare

SIZES = 2.0 ** np.arange(8, 15)


@settings(deadline=None, max_examples=60)
@given(exponent=st.floats(-3, 3), scale=st.floats(1e-100, 1e100))
def test_an_exact_power_is_found_with_hardly_any_error(exponent, scale):
    fit = slope(SIZES, scale * SIZES**exponent)
    assert fit.lo <= exponent <= fit.hi  # The interval covers the rounding.
    assert fit.error < 1e-9


def test_a_constant_has_slope_zero():
    fit = slope(SIZES, np.full(7, 3.0))
    assert fit.value == 0
    assert fit.error < 1e-14


@settings(deadline=None, max_examples=40)
@given(data=st.data(), unit=st.floats(1e-6, 1e6))
def test_units_order_and_inversion(data, unit):
    values = np.array(data.draw(st.lists(st.floats(0.1, 10), min_size=7, max_size=7)))
    order = np.array(data.draw(st.permutations(range(7))))
    here = slope(SIZES, values)
    for there, sign in (
        (slope(unit * SIZES, values), 1),
        (slope(SIZES, unit * values), 1),
        (slope(SIZES[order], values[order]), 1),
        (slope(SIZES, 1 / values), -1),
    ):
        assert abs(there.value - sign * here.value) < 1e-9
        assert abs(there.error - here.error) < 1e-9


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(4, 9))
def test_least_squares_against_scipy(seed, count):
    rng = np.random.default_rng(seed)
    sizes, values = np.sort(rng.uniform(1, 1e4, count)), np.exp(rng.standard_normal(count))
    fit = stats.linregress(np.log(sizes), np.log(values))
    tail = stats.linregress(np.log(sizes[2:]), np.log(values[2:]))
    exponent = slope(sizes, values)
    logs = np.log(sizes)
    design = np.column_stack([np.ones(count), logs, np.sqrt(sizes[0] / sizes)])
    next_order = (np.linalg.pinv(design) @ np.log(values))[1] if count >= 6 else fit.slope
    shift = max(abs(fit.slope - tail.slope), abs(fit.slope - next_order))
    half = stats.t.ppf(0.995, count - 2) * fit.stderr + shift
    assert abs(exponent.value - fit.slope) < 1e-9 * (1 + abs(fit.slope))
    assert abs(exponent.error - half) < 1e-6 * (1 + half)


@settings(deadline=None, max_examples=40)
@given(bias=st.floats(-0.5, 1), exponent=st.floats(-1, 1))
def test_a_correction_that_decays_like_the_root_of_the_size_is_admitted(bias, exponent):
    """For value = size^e (1 + b sqrt(smallest / size)), smooth but biased, the interval must contain e."""
    sizes = 2.0 ** np.arange(8, 14)
    fit = slope(sizes, sizes**exponent * (1 + bias * np.sqrt(sizes[0] / sizes)))
    assert fit.lo <= exponent <= fit.hi


@settings(deadline=None, max_examples=40)
@given(bias=st.floats(-0.8, 1), exponent=st.floats(-1, 1))
def test_a_leading_power_with_a_correction_lies_inside(bias, exponent):
    """For value = size^e (1 + b smallest / size), the interval contains e, the exponent of the limit."""
    fit = slope(SIZES, SIZES**exponent * (1 + bias * SIZES[0] / SIZES))
    assert fit.lo <= exponent <= fit.hi


def test_noise_is_covered_about_as_often_as_claimed():
    rng = np.random.default_rng(0)
    covered = [
        float(fit.lo) <= -0.5 <= float(fit.hi)
        for fit in (slope(SIZES, SIZES**-0.5 * np.exp(0.2 * rng.standard_normal(7))) for _ in range(400))
    ]
    assert np.mean(covered) > 0.98


SECOND_TERMS = [(0, 0.5), (-0.5, 0.5), (0.5, 0.5), (1, 0.25), (1, 0.5), (1, 1)]


@pytest.mark.parametrize("widths", [6, 9])
def test_a_second_term_and_noise_get_a_true_power_refuted_at_most_once_in_a_thousand(widths):
    """A true power with a second term and noise is refuted at most once in a thousand.

    The 99% interval without a second term would exclude the true power far more often on the same data.
    """
    sizes, rng = 2.0 ** np.arange(6, 6 + widths), np.random.default_rng(widths)
    refuted, outside = [], []
    for size, order in SECOND_TERMS:
        law = sizes**-0.5 * (1 + size * (sizes[0] / sizes) ** order)
        for noise in (rng.standard_normal((20, widths, 8)), rng.lognormal(sigma=0.1, size=(20, widths, 24))):
            fits = [slope(sizes, list(law[:, None] * seen), biased=False) for seen in noise]
            refuted += [fit.refutes(-0.5) for fit in fits]
            outside += [abs(fit.value + 0.5) > fit.error for fit in fits]
    assert sum(refuted) <= 1e-3 * len(refuted) and np.mean(outside) > 0.2


def test_noise_that_grows_with_the_size_refutes_a_true_power_at_most_once_in_a_thousand():
    """Noise that grows with the size refutes a true power at most once in a thousand.

    Each size has four samples, that is, three degrees of freedom. The sizes with much noise decide how well the slope
    is known. So the interval must not use the sum of the degrees of freedom over all sizes.
    """
    sizes, rng, sigma = 2.0 ** np.arange(6, 11), np.random.default_rng(2), np.geomspace(0.02, 0.3, 5)[:, None]
    law = (sizes**-0.5 * (1 + sizes[0] / sizes))[:, None] / np.sqrt(1 + sigma**2)
    seen = np.abs(1 + sigma * rng.standard_normal((1500, 5, 4)))
    assert sum(slope(sizes, list(law * values), biased=False).refutes(-0.5) for values in seen) <= 1


@pytest.mark.parametrize("off", [0.25, -0.25, 0.5, -0.5])
def test_a_wrong_power_is_refuted_on_a_long_ladder(off):
    sizes, rng = 2.0 ** np.arange(6, 16), np.random.default_rng(0)
    for seen in rng.lognormal(sigma=0.1, size=(20, 10, 24)):
        law = sizes ** (off - 0.5) * (1 + 0.3 * np.sqrt(sizes[0] / sizes))
        assert slope(sizes, list(law[:, None] * seen), biased=False).refutes(-0.5)


def test_a_violation_that_a_second_term_explains_does_not_stand():
    sizes = 2.0 ** np.arange(6, 12)
    bent = slope(sizes, sizes**-0.5 * (1 + np.sqrt(sizes[0] / sizes)), biased=False)
    for power, refuted in ((-0.5, False), (0.0, True)):
        seen = compare(Kind.RATE, bent, Estimate.exact(power))
        assert seen.outcome is (Outcome.VIOLATED if refuted else Outcome.UNRESOLVED)
        assert seen.explained is not refuted


def test_a_systematic_error_widens_both_intervals_and_the_claims_own_error_counts():
    sizes = 2.0 ** np.arange(6, 12)
    fitted = slope(sizes, sizes**-0.5 * (1 + 0.02 * (-1) ** np.arange(6)), biased=False)
    wider = fitted.widened(0.02, "for a finite step")
    assert wider.error - fitted.error == pytest.approx(0.02) == wider.refuted_beyond - fitted.refuted_beyond
    power = float(fitted.value) - fitted.refuted_beyond - 0.1
    assert fitted.refutes(power) and compare(Kind.RATE, fitted, Estimate.exact(power)).outcome is Outcome.VIOLATED
    sure, own = slope(SIZES, SIZES**-0.5, biased=False).widened(0.01, "for a finite step"), 0.05
    sure = replace(sure, refuted_beyond=0.03)
    for sign in (-1, 1):
        for nearest, outcome in ((0.02, Outcome.UNRESOLVED), (0.04, Outcome.VIOLATED)):
            theory = Estimate(-0.5 + sign * (nearest + own), own)
            assert compare(Kind.RATE, sure, theory).outcome is outcome


def moved_within(sizes, errors):
    """Returns the errors with many choices of signs, and the error of each size alone.

    Among the choices are the signs that change a slope most, alternating signs and random signs.

    The slopes are the slope of the line, of the line without the two smallest sizes and of the biased fit.
    """
    logs, unit = np.log(sizes), np.eye(len(sizes))
    line, biased = (_exponent(logs, unit, next_order) for next_order in (False, True))
    tail = np.concatenate([np.zeros(2), _exponent(logs[2:], unit[2:, 2:], False)])
    shapes = [line, tail, biased, 2 * line - tail, 2 * line - biased, (-1.0) ** np.arange(len(sizes)), *unit]
    shapes += list(np.random.default_rng(1).standard_normal((20, len(sizes))))
    return [sign * errors * np.sign(shape) for shape in shapes for sign in (-1, 1)]


def inside(moved, wider, many):
    """Says whether both intervals of a fit lie in the intervals of a wider fit.

    One interval is the interval of the slope. The other interval has the powers that are not refuted.

    Every size has `many` samples.
    """
    relative, counts = moved.spread / moved.values, np.full(len(moved.sizes), many)
    ends = _admitted(np.log(moved.sizes), np.log(moved.values), relative, counts, np.zeros(len(counts)))
    interval = max(wider.lo - moved.lo, moved.hi - wider.hi) <= 1e-9
    return interval and np.abs(wider.value - ends).max() <= wider.refuted_beyond + 1e-9


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("many", [1, 2])
@pytest.mark.parametrize("count", [4, 5, 6, 12])
def test_errors_of_the_values_widen_both_intervals_by_what_they_can_change(count, many, biased):
    """Both intervals of a fit with errors contain the intervals of the fits to values within the errors."""
    sizes, rng = 2.0 ** np.arange(6, 6 + count), np.random.default_rng(count)
    for bend, noise, error in ((0, 0, 1e-3), (0.5, 1e-3, 1e-3), (0.5, 1e-5, 1e-2), (0.5, 1e-2, 1e-4)):
        bent = sizes**-0.5 * (1 + bend * (sizes[0] / sizes) ** 0.5)
        values = bent[:, None] * np.exp(noise * rng.standard_normal((count, many)))
        for errors in (error * rng.uniform(0.1, 1, count), *(error * np.eye(count))):
            wider = slope(sizes, list(values), biased=biased, errors=errors)
            assert wider.value == slope(sizes, list(values), biased=biased).value
            for shift in moved_within(sizes, errors):
                assert inside(slope(sizes, list(values * np.exp(shift)[:, None]), biased=biased), wider, many)


def test_samples_of_a_size_may_have_errors_of_their_own():
    """The errors make samples of one size differ, and this increases the noise over samples."""
    sizes = 2.0 ** np.arange(10)
    for size in range(10):
        errors = 1e-3 * np.eye(10)[size]
        wider = slope(sizes, list((sizes**-0.5)[:, None] * np.ones(2)), errors=errors)
        moved = slope(sizes, list((sizes**-0.5)[:, None] * np.exp(errors[:, None] * [1, -1])))
        assert max(wider.lo - moved.lo, moved.hi - wider.hi) <= 1e-9


def test_errors_widen_the_intervals_by_little_more_than_they_can_change():
    """For exact powers, the interval grows by little more than the errors can move it.

    For noisy values the noise may grow too.
    """
    sizes, errors = 2.0 ** np.arange(6, 12), np.full(6, 1e-3)
    wider = slope(sizes, sizes**-0.5, errors=errors)
    moved = [slope(sizes, sizes**-0.5 * np.exp(shift)) for shift in moved_within(sizes, errors)]
    assert wider.error < 1.5 * max(np.abs(fit.value + 0.5) + fit.error for fit in moved)
    assert wider.refuted_beyond < 2 * max(np.abs(fit.value + 0.5) + fit.refuted_beyond for fit in moved)


def test_errors_belong_to_their_sizes_in_any_order():
    sizes, errors = 2.0 ** np.arange(6, 12), np.array([0.3, 0.1, 0, 0, 0, 0])
    order = [3, 0, 5, 1, 4, 2]
    here, there = slope(sizes, sizes, errors=errors), slope(sizes[order], sizes[order], errors=errors[order])
    assert here.error == pytest.approx(there.error) and here.refuted_beyond == pytest.approx(there.refuted_beyond)
    assert slope(sizes, sizes, errors=errors[::-1]).error != pytest.approx(here.error)
    exact = slope(sizes, sizes)
    assert slope(sizes, sizes, errors=np.zeros(6)).method == exact.method
    assert slope(sizes, sizes, errors=np.zeros(6)).refuted_beyond == exact.refuted_beyond


@pytest.mark.parametrize(
    ("errors", "why"),
    [
        (np.zeros(5), r"errors have shape \(5,\); a slope needs one error for each of 6 sizes"),
        (np.array([0, 0, -1.0, 0, 0, 0]), "a slope needs finite errors of at least 0; size 256 has -1"),
        (np.array([0, np.nan, 0, 0, 0, 0]), "a slope needs finite errors of at least 0; size 128 has nan"),
        (np.array([np.inf, 0, 0, 0, 0, 0]), "a slope needs finite errors of at least 0; size 64 has inf"),
    ],
)
def test_errors_that_are_none_are_refused(errors, why):
    with pytest.raises(ValueError, match=why):
        slope(2.0 ** np.arange(6, 12), np.ones(6), errors=errors)


def test_over_seeds_the_root_mean_square_is_fitted():
    rng = np.random.default_rng(1)
    values = np.abs(rng.standard_normal((7, 5)))
    together = slope(SIZES, values)
    assert together.value == slope(SIZES, np.sqrt((values**2).mean(axis=1))).value


def test_sizes_may_have_different_numbers_of_samples():
    rng = np.random.default_rng(2)
    counts = [48, 32, 24, 16, 8, 4, 3]
    samples = [size**-0.5 * rng.standard_normal(count) for size, count in zip(SIZES, counts, strict=True)]
    fit = slope(SIZES, samples)
    # The slope is fitted to the root mean square of the samples at each size.
    assert fit.value == slope(SIZES, [np.sqrt((v**2).mean()) for v in samples]).value
    back = slope(SIZES[::-1], samples[::-1])
    assert abs(back.value - fit.value) < 1e-12
    assert abs(back.error - fit.error) < 1e-12


def test_many_samples_leave_less_noise_than_few():
    rng = np.random.default_rng(3)
    few, many = ([np.abs(rng.standard_normal(count)) for _ in SIZES] for count in (4, 400))
    assert slope(SIZES, many, biased=False).error < slope(SIZES, few, biased=False).error / 3


def test_what_has_no_logarithm_is_also_an_arithmetic_error():
    with pytest.raises(ArithmeticError, match="a slope needs positive finite values; size 512 has 0"):
        slope(SIZES, [np.zeros(3) if size == 512 else np.ones(3) for size in SIZES])
    assert issubclass(NoSlope, ValueError)


@pytest.mark.parametrize(
    ("sizes", "values", "message"),
    [
        ([1, 2, 4], [1, 1, 1], "a slope needs at least 4 different sizes, got 3"),
        ([1, 2, 4, 4], [1, 1, 1, 1], "a slope needs at least 4 different sizes, got 3"),
        ([1, 2, 4, 8], [1, 0, 1, 1], "a slope needs positive finite values; size 2 has 0"),
        ([1, 2, 4, 8], [1, np.inf, 1, 1], "a slope needs positive finite values; size 2 has inf"),
        ([1, 2, 4, 8], [1, 1, -3, 1], "a slope needs positive finite values; size 4 has -3"),
    ],
)
def test_bad_ladders_are_refused(sizes, values, message):
    with pytest.raises(ValueError, match=message):
        slope(np.array(sizes), np.array(values))
