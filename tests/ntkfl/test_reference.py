"""Tests of the plain run of Algorithm 1 in float64, in extended precision and in ball arithmetic.

The three are compared with `simulate`, with exact fractions, and with each other. Numbers of ball arithmetic (balls)
are intervals that contain the exact values.
"""

from fractions import Fraction

import numpy as np
import pytest

from ntkfl import simulate
from ntkfl.algorithm1.reference import BALL, DOUBLE, EXTENDED, Undecided, plain_run
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights

FIELDS = ("outputs", "local_outputs", "residual_norm", "movement", "local_movement", "step", "total_movement", "flips")
RNG = np.random.default_rng(0)
PROBLEM = Problem(RNG.standard_normal((4, 3)), RNG.uniform(-1, 1, 4), np.array([0, 1, 0, 0])).unit()
SETUP = Setup(width=12, eta_local=0.4, eta_global=1.3, local_steps=2, rounds=6)
WEIGHTS = draw(12, 3, 1)


@pytest.mark.parametrize("linearised", [False, True])
def test_every_arithmetic_agrees_with_the_simulator(linearised):
    fast = simulate(PROBLEM, SETUP, WEIGHTS, linearised=linearised)
    for arithmetic in (DOUBLE, EXTENDED, BALL):
        plain = plain_run(PROBLEM, SETUP, WEIGHTS, arithmetic, linearised=linearised)
        for name in FIELDS:
            assert getattr(plain, name).value.shape == getattr(fast, name).shape, name
            assert np.abs(getattr(plain, name).value - getattr(fast, name)).max() < 1e-13, (arithmetic.name, name)


def exact_outputs(problem, setup, hidden, signs):
    """Returns y(t) in rational arithmetic; sqrt(width) must be rational."""
    root = Fraction(int(np.sqrt(setup.width)))
    assert root**2 == setup.width
    x, u = ([[Fraction(v) for v in row] for row in rows] for rows in (problem.x.tolist(), hidden.tolist()))
    y, a = ([Fraction(v) for v in row] for row in (problem.y.tolist(), signs.tolist()))
    eta_local, eta_global = Fraction(setup.eta_local), Fraction(setup.eta_global)

    def dot(v, w):
        return sum(p * q for p, q in zip(v, w, strict=True))

    def output(weights, i):
        return sum(s * max(dot(w, x[i]), 0) for s, w in zip(a, weights, strict=True)) / root

    path = []
    for _ in range(setup.rounds + 1):
        path.append([output(u, i) for i in range(problem.n)])
        ends = []
        for members in problem.members:
            w = u
            for _ in range(setup.local_steps):
                pull = {i: y[i] - output(w, i) for i in members}
                w = [
                    [
                        entry + eta_local * s / root * sum(pull[i] * x[i][j] for i in members if dot(row, x[i]) >= 0)
                        for j, entry in enumerate(row)
                    ]
                    for s, row in zip(a, w, strict=True)
                ]
            ends.append(w)
        u = [
            [
                entry + eta_global * sum(end[r][j] - entry for end in ends) / problem.n_clients
                for j, entry in enumerate(row)
            ]
            for r, row in enumerate(u)
        ]
    return path


@pytest.mark.parametrize("bits", [40, 256])
def test_balls_contain_the_exact_rational_run(bits):
    setup = Setup(width=4, eta_local=0.375, eta_global=1.25, local_steps=2, rounds=3)
    weights = draw(4, 3, 2)
    exact = exact_outputs(PROBLEM, setup, *weights)
    balls = plain_run(PROBLEM, setup, weights, BALL, bits=bits).outputs
    for t, row in enumerate(exact):
        for i, value in enumerate(row):
            assert abs(value - Fraction(float(balls.value[t, i]))) <= Fraction(float(balls.error[t, i]))
    assert balls.error.max() < 1e-8 if bits == 40 else balls.error.max() < 1e-15
    assert np.abs(exact[3][0] - exact[0][0]) > 1e-3  # The run did move the outputs.


@pytest.mark.parametrize("linearised", [False, True])
def test_coarse_balls_contain_the_floats_and_the_fine_balls(linearised):
    coarse = plain_run(PROBLEM, SETUP, WEIGHTS, BALL, bits=38, linearised=linearised)
    fine = plain_run(PROBLEM, SETUP, WEIGHTS, BALL, bits=256, linearised=linearised)
    fast = simulate(PROBLEM, SETUP, WEIGHTS, linearised=linearised)
    for name in FIELDS:
        wide, narrow = getattr(coarse, name), getattr(fine, name)
        assert (wide.lo <= getattr(fast, name)).all() and (getattr(fast, name) <= wide.hi).all(), name
        assert (wide.lo <= narrow.lo).all() and (narrow.hi <= wide.hi).all(), name
        assert narrow.error.max() < 1e-15, name


NEARLY_ORTHOGONAL = Problem(np.ones((1, 3)), np.ones(1))


@pytest.mark.parametrize("middle", [2.0**-60, -(2.0**-60)])
def test_a_pattern_that_the_precision_cannot_decide_is_refused(middle):
    weights, setup = Weights(np.array([[1.0, middle, -1.0]]), np.ones(1)), Setup(width=1, local_steps=1, rounds=1)
    with pytest.raises(Undecided, match="its sign is not decided; use more bits"):
        plain_run(NEARLY_ORTHOGONAL, setup, weights, BALL, bits=30)
    decided = plain_run(NEARLY_ORTHOGONAL, setup, weights, BALL, bits=128)
    moved = decided.outputs.value[1, 0] - decided.outputs.value[0, 0]
    assert moved == 0 if middle < 0 else moved > 0.5


def test_an_exact_tie_is_active_in_every_arithmetic():
    weights, setup = Weights(np.array([[1.0, 0.0, -1.0]]), np.ones(1)), Setup(width=1, local_steps=1, rounds=1)
    for arithmetic in (DOUBLE, EXTENDED, BALL):
        run = plain_run(NEARLY_ORTHOGONAL, setup, weights, arithmetic)
        assert run.outputs.value[0, 0] == 0
        assert abs(run.outputs.value[1, 0] - 0.9) < 1e-15


def test_extended_precision_is_closer_to_the_truth_than_float64():
    setup = Setup(width=12, eta_local=0.4, local_steps=3, rounds=30)
    truth = plain_run(PROBLEM, setup, WEIGHTS, BALL, bits=1024).outputs.value
    double, extended = (plain_run(PROBLEM, setup, WEIGHTS, kind).outputs.value for kind in (DOUBLE, EXTENDED))
    if np.finfo(np.longdouble).eps < np.finfo(float).eps:
        assert np.abs(extended - truth).max() < np.abs(double - truth).max()
    assert np.abs(extended - truth).max() < 1e-13


def test_precision_is_restored_also_after_a_refusal():
    import flint

    before = flint.ctx.prec
    plain_run(PROBLEM, Setup(width=12, rounds=1), WEIGHTS, BALL, bits=300)
    weights = Weights(np.array([[1.0, 2.0**-60, -1.0]]), np.ones(1))
    with pytest.raises(Undecided):
        plain_run(NEARLY_ORTHOGONAL, Setup(width=1, rounds=1), weights, BALL, bits=30)
    assert flint.ctx.prec == before


def test_what_does_not_fit_is_refused_as_by_the_simulator():
    with pytest.raises(ValueError, match="weights have shapes"):
        plain_run(PROBLEM, Setup(width=5), WEIGHTS, BALL)


@pytest.mark.parametrize("linearised", [False, True])
def test_local_flips_are_counted_from_the_weights(linearised):
    """Flips in local steps are counted from the weights.

    Each client's round is repeated from its first weights, and flips are counted neuron by neuron.
    """
    run = plain_run(PROBLEM, SETUP, WEIGHTS, linearised=linearised, keep=range(SETUP.rounds))
    start, scale = PROBLEM.x @ WEIGHTS.hidden.T >= 0, 1 / np.sqrt(SETUP.width)
    for t in range(SETUP.rounds):
        for members in PROBLEM.members:
            x, w = PROBLEM.x[members], run.weights[t]
            for k in range(SETUP.local_steps + 1):
                z = x @ w.T
                on = start[members] if linearised else z >= 0
                assert np.array_equal(run.local_flips.value[t, k, members], (on != start[members]).sum(axis=1))
                residual = PROBLEM.y[members] - scale * (z * on) @ WEIGHTS.signs
                w = w + SETUP.eta_local * scale * WEIGHTS.signs[:, None] * ((on.T * residual) @ x)
    assert linearised != run.local_flips.value.any()


@pytest.mark.parametrize("arithmetic", [BALL, EXTENDED, DOUBLE])
def test_a_sample_that_activates_no_neuron_has_output_zero(arithmetic):
    problem = Problem(np.array([[1.0, 0.0], [0.0, 1.0]]), np.ones(2))
    # In the first case neither sample activates a neuron. In the others one of the two samples activates none.
    for asleep in ([-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]):
        weights = Weights(np.array([asleep, asleep]), np.array([1.0, -1.0]))
        run = plain_run(problem, Setup(width=2, eta_local=0.1, rounds=2), weights, arithmetic)
        sleeping = np.array(asleep) < 0
        assert (run.outputs.value[0] == 0).all() and (run.outputs.value[:, sleeping] == 0).all()
        assert (run.outputs.value[2, ~sleeping] > 0).all()
