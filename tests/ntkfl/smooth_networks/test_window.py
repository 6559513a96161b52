"""Tests of the certificate's inequalities for a window, a part of training in which every sample is used.

The inequalities are compared with formulas in mpmath, and no input of an inequality may be left out. The lemma behind
the inequalities is tested on single steps.
"""

import re
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ntkfl.smooth_networks.window import Failed, Start, Window, inequalities, largest_residual

START = Start(least_root=0.3, largest=9.0, entries=11.0, gradients=7.0, curvature=None)
GIVEN = {"separate": 7.0, "together": 3.0, "residual": 8e-4, "step": 0.1, "visits": 2.0, "radius": 0.012}
LESS = {False: GIVEN, True: GIVEN | {"residual": 4e-4}}  # Targets that are intervals need a smaller residual.


def recomputed(start, separate, together, residual, step, visits, radius):
    """Returns d, R, the radius of the ball, alpha and beta of docs/proofs/smooth_networks.md, in 60 digits.

    Returns None if a condition fails.
    """
    with mpmath.workdps(60):
        m = mpmath.mpf
        s = m(start.least_root) - m(together) * m(radius)
        eps = 2 - m(step) * (mpmath.sqrt(m(start.largest)) + m(together) * m(radius)) ** 2
        if s <= 0 or eps <= 0:
            return None
        moves = m(start.entries) + 2 * m(radius) * m(start.gradients) * m(separate) + m(radius) ** 2 * m(separate) ** 2
        kappa, d = 1 + mpmath.sqrt(visits) * m(step) * moves, m(residual) / s
        c = m(visits) * m(step) * m(separate) ** 2 / (2 * eps)
        if 4 * c * d**2 >= 1:
            return None
        square = (1 - mpmath.sqrt(1 - 4 * c * d**2)) / (2 * c)  # E^2 is the smaller root of E^2 = d^2 + c E^4.
        farthest = mpmath.sqrt(square)
        alpha, beta = eps * s**2 / (2 * kappa**2), c / m(step) * square**2 / d**2
        if alpha <= beta:
            return None
        if start.intervals:
            slack, x = (
                1 - m(together) * d / s,
                2 * mpmath.sqrt(visits * 2 * alpha / eps) * separate * d / (alpha - beta),
            )
            if slack <= 0 or x >= 1 or (1 - x) ** 2 <= 4 * c * d**2:
                return None
            # `most` is X for the smaller root X^2 of X^2 = d^2 + x X^2 + c X^4.
            most = mpmath.sqrt((1 - x - mpmath.sqrt((1 - x) ** 2 - 4 * c * d**2)) / (2 * c))
            ball = max(2 * d + most, d + most / mpmath.sqrt(slack) + farthest)
            return [float(number) for number in (d, d + most, ball, alpha, beta)]
        slack = 1 - 2 * m(together) * farthest / s
        if slack <= 0:
            return None
        turned = mpmath.sqrt(m(visits)) * m(separate) * farthest / d / slack
        drift = turned * mpmath.sqrt(2 / eps * d**2 * alpha / (alpha - beta)) * mpmath.sqrt(d**2 / (alpha - beta))
        return [float(number) for number in (d, d + drift + farthest, d + drift + 2 * farthest, alpha, beta)]


@given(
    st.floats(0.05, 1),
    st.floats(1, 20),
    st.floats(1, 2),
    st.floats(1, 10),
    st.floats(0.1, 10),
    st.floats(0.1, 5),
    st.floats(1e-6, 1e-2),
    st.floats(0.001, 0.3),
    st.floats(1, 5),
    st.floats(3, 8),
    st.booleans(),
)
def test_the_inequalities_are_those_of_the_proof(
    least, largest, more, gradients, separate, turn, r, step, visits, wider, intervals
):
    start = Start(least, largest, more * largest, gradients, None, intervals=intervals)
    radius = wider * r / least
    window = inequalities(start, separate, turn, r, step, visits, radius)
    exact = recomputed(start, separate, turn, r, step, visits, radius)
    if isinstance(window, Failed):
        assert exact is None or not exact[2] < radius * (1 - 1e-12)
        if window.larger:
            assert window.larger == pytest.approx(exact[2], rel=1e-12)
        return
    assert exact is not None and exact[2] < radius
    np.testing.assert_allclose(
        (window.distance, window.reach, window.alpha, window.beta), exact[:2] + exact[3:], rtol=1e-12
    )
    assert window.distance >= exact[0] and window.reach >= exact[1] and window.beta >= exact[4] * (1 - 1e-15)


@pytest.mark.parametrize("intervals", [False, True])
def test_an_example_holds(intervals):
    start = replace(START, intervals=intervals)
    window, exact = inequalities(start, **LESS[intervals]), recomputed(start, **LESS[intervals])
    np.testing.assert_allclose(
        (window.distance, window.reach, window.alpha, window.beta), exact[:2] + exact[3:], rtol=1e-13
    )


@pytest.mark.parametrize("intervals", [False, True])
def test_each_number_that_grows_makes_the_claim_weaker(intervals):
    """Every input matters: if the formula lacked an input, the claim would not change with that input."""
    given = replace(START, intervals=intervals)
    window = inequalities(given, **LESS[intervals])
    assert isinstance(window, Window)
    for name in ("separate", "together", "residual", "visits"):
        worse = inequalities(given, **(LESS[intervals] | {name: LESS[intervals][name] * 1.01}))
        assert worse.reach > window.reach and worse.alpha - worse.beta < window.alpha - window.beta, name
    for name, factor in (("least_root", 0.99), ("largest", 1.01), ("entries", 1.01), ("gradients", 1.01)):
        worse = inequalities(replace(given, **{name: getattr(START, name) * factor}), **LESS[intervals])
        assert worse.reach > window.reach and worse.alpha < window.alpha, name


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"together": 30.0}, "gradients may turn by 0.36 in the ball of radius 0.012, and the smallest singular"),
        ({"step": 0.3}, "the step 0.3 is too long: it must be below 0.222"),
        ({"separate": 1000.0}, "models may be .* from a fit, too far for such second derivatives"),
        ({"separate": 60.0}, "a window may raise the squared distance to the fits by .* and is sure to lower it by"),
        ({"residual": 2e-3}, "models may move farther than 0.012"),
        ({"residual": np.inf}, "the bounds overflow"),
    ],
)
def test_what_fails_is_said(changed, why):
    failure = inequalities(START, **(GIVEN | changed))
    assert isinstance(failure, Failed)
    assert re.match(why, failure.why), failure.why


def curved(bend):
    """Returns the function f = t_0 + bend t_1^2 / 2 - bend t_0^2 / 2 of two parameters, and its gradient.

    The norm of its Hessian is `bend` everywhere. The curve of fits goes through (0, 0).
    """

    def f(t):
        return t[0] + bend * (t[1] ** 2 - t[0] ** 2) / 2

    def gradient(t):
        return np.array([1 - bend * t[0], bend * t[1]])

    return f, gradient


@given(st.floats(0.1, 3), st.floats(1e-3, 0.2), st.floats(0.05, 1.9), st.floats(0, 2 * np.pi), st.booleans())
def test_one_step_keeps_to_the_lemma(bend, size, step, angle, late):
    """One step satisfies the lemma for y = 0 and the fit (0, 0).

    The lemma says that |e+|^2 <= |e|^2 - (eps/2) eta r^2 + eta L^2 |e|^4 / (2 eps).
    """
    f, gradient = curved(bend)
    t = size * np.array([np.cos(angle), np.sin(angle)])
    g = gradient(t)
    eps = 2 - step * (g @ g)
    if eps <= 0:
        return
    r = -f(t)
    after = t + step * r * g
    bound = t @ t - eps / 2 * step * r**2 + step * bend**2 * (t @ t) ** 2 / (2 * eps)
    assert after @ after <= bound * (1 + 1e-12)


def test_the_lemma_needs_its_last_term():
    """Near the curve of fits a step may increase the distance to a fit, and the residual does not make up for it."""
    f, gradient = curved(1.0)
    t = np.array([-0.05, 0.3])  # Here r > 0, and the gradient points away from (0, 0).
    after = t - 0.5 * f(t) * gradient(t)
    assert after @ after > t @ t


@given(st.floats(1e-9, 1), st.floats(1e-9, 1))
def test_the_largest_residual_from_a_known_one_on_is_that_of_the_whole_search(limit, least):
    asked = []

    def fine(residual):
        asked.append(residual)
        return residual <= limit

    whole = largest_residual(fine, 1.0)
    assert limit / 1.011 <= whole <= limit
    asked.clear()
    # The search goes on from the residual `known`, the largest that another condition allows.
    known = largest_residual(lambda residual: residual <= least, 1.0)
    further = largest_residual(fine, 1.0, known)
    assert further == (whole if known <= limit else 0.0)
    assert all(residual >= known for residual in asked)
