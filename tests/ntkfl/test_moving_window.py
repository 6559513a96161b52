"""IMA in the kernel regime: the engine's windows, the map of a full window, and the largest stable steps."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_methods import quietly, ragged

from ntkfl import gram, kernel_regime
from ntkfl.exact_dynamics import MovingWindow
from ntkfl.initialisation import draw
from ntkfl.problem import Setup
from ntkfl.training.engine.ima import averaged
from ntkfl.training.methods import build
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.wide_training import wide_federation

KINDS = pytest.mark.parametrize(
    ("method", "options", "momentum"),
    [
        ("fedavg", {"server_rate": 1.2}, 0.0),
        ("fl-ntk", {}, 0.5),
        ("fedavgm", {"momentum": 0.4}, 0.0),
        ("scaffold", {"server_rate": 0.9}, 0.0),
        ("feddyn", {"alpha": 2.0}, 0.3),
    ],
)


def models(problem, setup, weights, method, momentum):
    """Outputs of the engine's rounds on the network linearised at these weights."""
    optimizer = SGD(momentum)
    run = wide_federation(problem, setup, weights, method=method, linearised=True, optimizer=optimizer)
    state, outputs = run.start(), []
    for _ in range(setup.rounds + 1):
        outputs.append(run.model.outputs(state.model, run.data.x).numpy())
        state = run.round(state).state
    return np.array(outputs)


@KINDS
@quietly
@settings(deadline=None, max_examples=4)
@given(size=st.integers(1, 4), start=st.integers(0, 6), seed=st.integers(0, 100))
def test_it_is_what_the_engine_does(method, options, momentum, size, start, seed):
    problem, setup = ragged((3, 1, 2), seed=seed), Setup(width=40, eta_local=0.2, local_steps=2, rounds=12)
    weights = draw(setup.width, problem.d, setup.seed)
    h, own = gram.finite(problem.x, weights.hidden), build(method, HalfSquares("sum"), **options)
    t, first = np.arange(13), weights.outputs(problem.x)
    regime = kernel_regime(problem, setup, h, method, options, momentum, ima=MovingWindow(size, start))
    expected = models(problem, setup, weights, averaged(own, size, start), momentum)
    assert np.abs(regime.outputs(t, first) - expected).max() <= 1e-10 * max(1, np.abs(expected).max())

    plain = models(problem, setup, weights, own, momentum)
    means = [
        plain[max(1, now - size + 1) : now + 1].mean(0) if now >= max(start, 1) else plain[now] for now in range(13)
    ]
    shown = kernel_regime(problem, setup, h, method, options, momentum, ima=MovingWindow(size, start, False))
    assert np.abs(shown.outputs(t, first) - means).max() <= 1e-10 * max(1, np.abs(plain).max())
    assert shown.rate == kernel_regime(problem, setup, h, method, options, momentum).rate


@KINDS
@quietly
def test_the_map_of_a_full_window_is_that_of_late_rounds(method, options, momentum):
    problem, setup = ragged((3, 1, 2), seed=3), Setup(eta_local=0.2, local_steps=2)
    regime = kernel_regime(problem, setup, None, method, options, momentum, ima=MovingWindow(3))
    eigenvalues = np.linalg.eigvals(regime.round_map)
    assert regime.rate == pytest.approx(np.abs(eigenvalues).max(), rel=1e-9)
    assert len(regime.spectrum) == len(eigenvalues)
    r = np.linalg.norm(regime.residual(np.arange(0, 1200, 100)), axis=1)
    late = r[6:] > 1e-200
    assert late.all() and regime.rate**100 == pytest.approx((r[-1] / r[-4]) ** (1 / 3), rel=0.3)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("share", [0.999, 1.001])
@quietly
def test_fed_back_a_window_of_q_models_lets_steps_be_longer(size, share):
    problem, setup = ragged((3, 1, 2), seed=5), Setup(eta_local=0.2, local_steps=3)
    once = kernel_regime(problem, setup, None, "fedavg", {"server_rate": 1.0}, ima=MovingWindow(size))
    limit = once.step_limits.eta_global
    assert limit == pytest.approx((1 + size) / 2 * kernel_regime(problem, setup, None, "fedavg").step_limits.eta_global)
    there = kernel_regime(problem, setup, None, "fedavg", {"server_rate": share * limit}, ima=MovingWindow(size))
    assert there.stable == (share < 1) == (np.abs(np.linalg.eigvals(there.round_map)).max() < 1)


def test_rounds_are_counted_of_what_is_reported():
    problem, setup = ragged((3, 1, 2), seed=5), Setup(eta_local=0.2, local_steps=3)
    for fed_back in (True, False):
        regime = kernel_regime(problem, setup, ima=MovingWindow(3, fed_back=fed_back))
        t = regime.rounds_to(1e-4)
        before, at = np.linalg.norm(regime.residual([t - 1, t]), axis=1) / np.linalg.norm(problem.y)
        assert at <= 1e-4 < before
    alone = kernel_regime(problem, setup).rounds_to(1e-4)
    assert alone < t <= alone + 2  # with IMA's mean of the last three models
    fed_back = kernel_regime(problem, setup, ima=MovingWindow(3)).rounds_to(1e-4)
    assert fed_back == pytest.approx(2 * alone, rel=0.02)  # for many rounds (Q + 1)/2 times as many, with Q = 3


@pytest.mark.parametrize(
    ("values", "message"), [((0,), "the window of models is 0"), ((2, -1), "rounds before averaging is -1")]
)
def test_a_window_that_is_none_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        MovingWindow(*values)


def test_clients_in_turn_have_no_model_of_each_round_to_average():
    with pytest.raises(ValueError, match="cyclic makes a model for every client in turn"):
        kernel_regime(ragged((2, 2)), Setup(eta_local=0.1), None, "cyclic", ima=MovingWindow(2))
    with pytest.raises(ValueError, match="cyclic makes a model for every client in turn"):
        averaged(build("cyclic", HalfSquares("sum")), 2, 0)
