"""Wide networks trained by the engine approach the kernel regime: FedAvg its own, FedGuCci the rescaled regime."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from ntkfl import kernel_regime
from ntkfl.connectivity.ensembles import averaging_gap
from ntkfl.connectivity.kernel_regime_fedgucci import equivalent_setup
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup
from ntkfl.training.engine_trajectory import engine_trajectory
from ntkfl.training.methods import fed_gucci
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.wide_training import networks, wide_federation

pytestmark = pytest.mark.method("fl-ntk")

SEEDS = 8  # networks for each width; widths share no network, so that all runs are independent


def problem(clients):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((8, 5))
    owner = np.concatenate([np.arange(clients), rng.integers(0, clients, 8 - clients)])
    return Problem(x, rng.uniform(-1, 1, 8), owner).unit()


def starts(data, setup, widths):
    """For each width the setups and weights of its networks."""
    rows = []
    for place, width in enumerate(widths):
        setups = [replace(setup, width=int(width), seed=SEEDS * place + number) for number in range(SEEDS)]
        rows.append([(s, draw(s.width, data.d, s.seed)) for s in setups])
    return rows


def runs(data, setup, widths, method=None):
    """For each width the runs of its networks."""
    return [[engine_trajectory(data, *start, method=method) for start in row] for row in starts(data, setup, widths)]


def exponent(widths, runs, measured):
    """The slope of log(measured) against log(width) over all runs, and the slope's 99.7% half-width."""
    logs = np.repeat(np.log(widths), SEEDS)
    fit = stats.linregress(logs, np.log([measured(run) for row in runs for run in row]))
    return fit.slope, stats.t.ppf(0.9985, len(logs) - 2) * fit.stderr


def assert_exponent(interval, expected):
    slope, half = interval
    assert half < 0.24, f"the exponent is known to {half:.2f} only"
    assert abs(slope - expected) <= half, f"exponent {slope:.3f} ± {half:.3f}; theory says {expected}"


def distance_to(data, setup):
    """The largest distance of a run from the infinite-width dynamics of these steps from the run's first outputs."""
    regime, rounds = kernel_regime(data, setup), np.arange(setup.rounds + 1)
    return lambda run: np.linalg.norm(run.outputs - regime.outputs(rounds, run.outputs[0]), axis=1).max()


def check(clients, local_steps, widths, rounds=12, beta=1.5):
    data = problem(clients)
    setup = Setup(eta_local=0.3, local_steps=local_steps, rounds=rounds)
    plain = runs(data, setup, widths)
    assert_exponent(exponent(widths, plain, distance_to(data, setup)), -1 / 2)
    assert_exponent(exponent(widths, plain, lambda run: run.movement[-1]), -1 / 2)
    method = fed_gucci.method(HalfSquares("sum"), beta=beta, alpha="gauss2")
    connected = runs(data, setup, widths, replace(method, weighting="uniform"))
    assert_exponent(exponent(widths, connected, distance_to(data, equivalent_setup(setup, beta))), -1 / 2)
    assert_exponent(exponent(widths, connected, lambda run: run.movement[-1]), -1 / 2)
    slope, half = exponent(widths, connected, distance_to(data, setup))
    assert slope - half > -1 / 2, "without the rescaling FedGuCci must not approach FedAvg's kernel regime"


def test_the_distance_to_the_kernel_regime_falls_as_the_root_of_the_width():
    check(3, 3, 4 ** np.arange(3, 7), rounds=5)


def test_averaging_weights_or_outputs_of_wide_clients_differs_by_the_three_quarter_power():
    """The gap comes from the neurons with a kink between the clients: m^(1/2) of them, each of the size 1/m.

    At a held-out input their signs are independent: m^(-3/4) (X3). At a training input they are not, since a neuron
    follows a sample only while it is active there, so that it turns off where its value falls: m^(-1/2).
    """
    data, widths = problem(3), 4 ** np.arange(4, 8)
    held_out = np.random.default_rng(5).standard_normal((40, data.d))
    held_out /= np.linalg.norm(held_out, axis=1, keepdims=True)

    def trained(setup, weights):
        federation = wide_federation(data, setup, weights)
        return networks(weights, federation.round(federation.start(), keep_ends=True).ends)

    runs = [[trained(*start) for start in row] for row in starts(data, Setup(eta_local=0.6, local_steps=4), widths)]
    for x, expected in ((held_out, -3 / 4), (data.x, -1 / 2)):
        gap = partial(lambda x, clients: np.sqrt(np.mean(averaging_gap(clients, x) ** 2)), x)
        assert_exponent(exponent(widths, runs, gap), expected)


@pytest.mark.slow
@pytest.mark.parametrize(("clients", "local_steps"), [(1, 1), (1, 4), (3, 2), (4, 5)])
def test_so_it_does_to_width_2_14(clients, local_steps):
    check(clients, local_steps, 4 ** np.arange(4, 8))
