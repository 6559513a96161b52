"""Tests of leading coefficients: known coefficients are recovered from samples that are made with them.

The intervals must contain the known coefficients as often as their level says, and must be narrow enough to be useful.
"""

import numpy as np
import pytest

from bounds.fl_ntk.terms.leading_coefficient import leading_coefficient

SIZES = 2.0 ** np.arange(8, 17)


def _samples(rng, counts, power):
    """Returns samples with the mean c size^power (1 + size^(-1/2)) for c = (2, -1, 0).

    The noise falls like size^(-1/4) relative to the leading power.
    """
    leading = np.array([2.0, -1.0, 0.0])
    means = leading * (SIZES**power * (1 + SIZES**-0.5))[:, None]
    noise = SIZES ** (power - 0.25)
    return [
        mean + size * rng.standard_normal((count, 3)) for mean, size, count in zip(means, noise, counts, strict=True)
    ]


def test_the_interval_covers_the_coefficient_and_is_short():
    rng, missed = np.random.default_rng(0), 0
    for _ in range(40):
        coefficients = leading_coefficient(SIZES, _samples(rng, [40] * 5 + [30, 20, 10, 5], -0.5), -0.5)
        missed += np.any((coefficients.lo > (2, -1, 0)) | (coefficients.hi < (2, -1, 0)))
        assert coefficients.error.max() < 0.2
    assert missed <= 1


def test_order_and_scale_of_the_sizes_do_not_matter():
    samples = _samples(np.random.default_rng(1), [10] * 9, -0.5)
    one, other = leading_coefficient(SIZES, samples, -0.5), leading_coefficient(SIZES[::-1], samples[::-1], -0.5)
    assert np.allclose(one.value, other.value, rtol=1e-9, atol=1e-12)
    assert np.allclose(one.error, other.error, rtol=1e-9)
    tripled = leading_coefficient(SIZES, [3 * sample for sample in samples], -0.5)
    assert np.allclose(tripled.value, 3 * one.value, rtol=1e-9, atol=1e-12)


def test_samples_without_spread_give_the_coefficient_itself():
    samples = [np.full((2, 1), 4 * size**-0.5 * (1 + size**-0.5)) for size in SIZES]
    assert leading_coefficient(SIZES, samples, -0.5).value == pytest.approx(4, rel=1e-9)


def test_too_few_sizes_or_seeds_are_refused():
    with pytest.raises(ValueError, match=r"there are 2 different sizes with \[2, 2\] samples; at least 3 sizes with 2"):
        leading_coefficient(SIZES[:2], [np.ones(2)] * 2, 0.0)
    with pytest.raises(ValueError, match=r"3 different sizes with \[2, 1, 2\] samples"):
        leading_coefficient(SIZES[:3], [np.ones(2), np.ones(1), np.ones(2)], 0.0)
