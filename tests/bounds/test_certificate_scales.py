"""Certificates of a network whose data, weights, labels and steps are rescaled by powers of two."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from bounds.fl_ntk.certificates.certificate import a_priori_certificate
from bounds.fl_ntk.certificates.stable_step_certificate import expected, norm, stable_step_certificate
from ntkfl.balls import ball_matrix, precision
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights
from verification.certification import searched

SETUP = Setup(width=400, eta_local=0.4, local_steps=3)
CERTIFICATES = [(stable_step_certificate, 0.4), (a_priori_certificate, 0.01)]


def network():
    """A network with labels so near to its outputs that both theorems certify."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights = Weights(rng.standard_normal((SETUP.width, 6)), rng.choice([-1.0, 1.0], SETUP.width))
    y = np.maximum(x @ weights.hidden.T, 0) @ weights.signs / 20 + 1e-4 * np.array([1.0, -1.0, 1.0, 1.0]) / 2
    return Problem(x, y, np.array([0, 0, 1, 1])), weights


def rescaled(rows, sigma, eta_local):
    problem, weights = network()
    x, y = np.ldexp(problem.x, rows), np.ldexp(problem.y, rows + sigma)
    setup = replace(SETUP, eta_local=float(np.ldexp(eta_local, -2 * rows)))
    return Problem(x, y, problem.owner), setup, Weights(np.ldexp(weights.hidden, sigma), weights.signs)


@settings(deadline=None, max_examples=12)
@given(st.sampled_from(CERTIFICATES), st.integers(-325, 325), st.integers(-425, 325))
@example(CERTIFICATES[0], 0, -60)  # sigma 1e-18
@example(CERTIFICATES[0], 300, 0)  # rows of 2e90
@example(CERTIFICATES[0], -325, -425)
def test_a_certificate_scales_with_the_rows_and_with_the_weights(certificate, rows, sigma):
    theorem, eta_local = certificate
    plain, scaled = theorem(*rescaled(0, 0, eta_local)), theorem(*rescaled(rows, sigma, eta_local))
    assert plain.certified and scaled.certified
    assert scaled.rate == pytest.approx(plain.rate, rel=1e-12)
    for name, power in (("radius", sigma), ("need", sigma), ("r0", rows + sigma), ("lam", 2 * rows), ("mu", 2 * rows)):
        assert np.ldexp(getattr(scaled, name), -power) == pytest.approx(getattr(plain, name), rel=1e-11), name


@settings(deadline=None, max_examples=8)
@given(st.integers(-325, 325), st.integers(-425, 325))
@example(0, -60)
def test_the_quick_look_scales_too(rows, sigma):
    plain, scaled = expected(*rescaled(0, 0, 0.4)), expected(*rescaled(rows, sigma, 0.4))
    assert plain.promising and scaled.promising
    assert np.ldexp(scaled.need, -sigma) == pytest.approx(plain.need, rel=1e-11)


@pytest.mark.parametrize(
    ("rows", "sigma", "message"),
    [
        (340, 0, r"the row norms of x range from 2\.24e\+102 to .* rescale the data"),
        (-340, 0, r"the row norms of x range from 4\.46e-103 to .* rescale the data"),
        (0, -440, r"the largest hidden weight is .*e-132, below 1e-130: .* multiply the weights and the labels"),
        (0, 340, r"1e\+100"),
    ],
)
@pytest.mark.parametrize("theorem", [theorem for theorem, _ in CERTIFICATES])
def test_sizes_beyond_the_usable_range_are_refused_with_the_size(theorem, rows, sigma, message):
    with pytest.raises(ValueError, match=message):
        theorem(*rescaled(rows, sigma, 0.4))


@pytest.mark.parametrize("exponent", [-1000, -600, 0, 600, 1000])
def test_norms_of_matrices_whose_squares_vanish_or_overflow(exponent):
    matrix = np.ldexp(np.array([[3.0, 0.0], [4.0, 5.0]]), exponent)  # singular values sqrt 45 and sqrt 5
    with precision():
        bound = np.ldexp(float(norm(ball_matrix(matrix))), -exponent)
    assert np.sqrt(45) * (1 - 1e-15) <= bound <= np.sqrt(45) * (1 + 1e-12)


@pytest.mark.parametrize("rows", [-20, 20])
def test_the_largest_certified_step_goes_with_the_squares_of_the_rows(rows):
    plain, scaled = (searched(problem, setup, steps=True) for problem, setup, _ in (steps_of(0), steps_of(rows)))
    assert plain.certified.certificate.certified and scaled.certified.certificate.certified
    assert np.ldexp(scaled.setup.eta_local, 2 * rows) == pytest.approx(plain.setup.eta_local)


def steps_of(rows):
    """A network at initialisation, with its labels: any stable step certifies."""
    x = np.ldexp(np.array([[0.6, 0.8], [0.8, -0.6]]), rows)
    setup = Setup(width=64, eta_local=float(np.ldexp(0.3, -2 * rows)), local_steps=1)
    weights = draw(setup.width, 2, setup.seed, setup.sigma)
    y = np.maximum(x @ weights.hidden.T, 0) @ weights.signs / 8
    return Problem(x, y, np.array([0, 1])), setup, weights
