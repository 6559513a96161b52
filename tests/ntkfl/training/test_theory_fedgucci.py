"""Tests of the engine's FedGuCci on linearised networks: it is exactly FedAvg with other steps.

The tests are about the statement fedgucci/X4 and its variants.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ntkfl import kernel_regime, simulate
from ntkfl.connectivity.kernel_regime_fedgucci import equivalent_setup, overshoot
from ntkfl.connectivity.linear_rounds import LinearRounds, fedavg, fedgucci
from ntkfl.gram import finite
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup
from ntkfl.training.engine.local_plan import cohort
from ntkfl.training.engine_trajectory import engine_trajectory
from ntkfl.training.methods import fed_gucci
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.wide_training import wide_federation

pytestmark = pytest.mark.method("fedgucci")

SETUP = Setup(width=24, eta_local=0.2, eta_global=1.3, local_steps=3, rounds=6, seed=1)
TOLERANCE = 1e-10


def ragged(seed=0, sizes=(3, 1, 5), d=4):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((sum(sizes), d))
    owner = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return Problem(x, rng.uniform(-1, 1, len(x)), owner).unit()


def connected(beta, setup, *, anchors=1, weighting="uniform", loss="sum", **options):
    """Returns FedGuCci with the server's step of the setup."""
    options = {"alpha": "gauss2"} | options
    method = fed_gucci.method(HalfSquares(loss), beta=beta, anchors=anchors, **options)
    server = replace(method.server, server_rate=setup.eta_global)
    return replace(method, server=server, weighting=weighting)


def linear_rounds(problem, setup, weights, participants, weighting="uniform", loss="sum"):
    """Returns the linearised network as a linear model in its weights' movement."""
    active = (problem.x @ weights.hidden.T >= 0) * weights.signs / np.sqrt(setup.width)
    features = (active[:, :, None] * problem.x[:, None, :]).reshape(problem.n, -1)
    sizes = np.bincount(problem.owner)
    return LinearRounds(
        features,
        problem.y - features @ weights.hidden.ravel(),
        problem.owner,
        np.ones(len(sizes)) if loss == "sum" else 1 / sizes,
        sizes.astype(float) if weighting == "size" else np.ones(len(sizes)),
        np.zeros(features.shape[1]),
        participants,
        setup.eta_local,
        setup.eta_global,
        setup.local_steps,
    )


def path(federation, rounds):
    """Returns the movements of the global weights, (T+1, m * d)."""
    state, models = federation.start(), []
    for _ in range(rounds):
        models.append(state.model["moved"].flatten())
        state = federation.round(state).state
    return torch.stack([*models, state.model["moved"].flatten()]).numpy()


@pytest.mark.parametrize("beta", [0.1, 1.0, 6.0])
def test_on_a_linearised_network_it_is_the_simulators_fedavg_at_rescaled_steps(beta):
    problem, weights = ragged(), draw(SETUP.width, 4, 1)
    rescaled = equivalent_setup(SETUP, beta)
    trajectory = engine_trajectory(
        problem, SETUP, weights, method=connected(beta, SETUP), linearised=True, keep=range(7)
    )
    expected = simulate(problem, rescaled, weights, linearised=True, keep=range(7))
    assert np.abs(trajectory.outputs - expected.outputs).max() < TOLERANCE
    for t in range(7):
        assert np.abs(trajectory.weights[t] - expected.weights[t]).max() < TOLERANCE
    regime = kernel_regime(problem, rescaled, finite(problem.x, weights.hidden))
    assert np.abs(trajectory.outputs - regime.outputs(np.arange(7), trajectory.outputs[0])).max() < TOLERANCE
    plain = simulate(problem, SETUP, weights, linearised=True)
    # FedAvg with the steps of SETUP themselves gives other outputs.
    assert np.abs(trajectory.outputs - plain.outputs).max() > 1e-2 * min(beta, 1)


@pytest.mark.parametrize(
    ("anchors", "weighting", "loss"), [(1, "size", "mean"), (2, "size", "sum"), (4, "uniform", "sum")]
)
def test_with_partial_participation_unequal_weights_and_several_anchors(anchors, weighting, loss):
    """With partial participation, unequal weights and several anchors, FedGuCci is FedAvg with other starts of clients.

    Clients of this FedAvg start at w_t + beta/(6 + 3 beta) (mean of the anchors - w_t) in place of w_t.
    """
    beta, problem, weights = 2.0, ragged(3, (2, 1, 4, 3)), draw(SETUP.width, 4, 2)
    method = connected(beta, SETUP, anchors=anchors, weighting=weighting, loss=loss)
    federation = wide_federation(problem, SETUP, weights, method=method, linearised=True, participation=0.5)
    models = path(federation, SETUP.rounds)
    cohorts = tuple(tuple(cohort(4, 0.5, SETUP.seed, t)) for t in range(SETUP.rounds))
    assert len(set(cohorts)) > 2
    run = linear_rounds(problem, SETUP, weights, cohorts, weighting, loss)
    rescaled = equivalent_setup(SETUP, beta)
    steps = rescaled.eta_local, rescaled.eta_global
    expected = fedavg(run, *steps, pull=beta / (6 + 3 * beta), anchors=anchors)
    assert np.abs(models - expected).max() < TOLERANCE
    # `fedgucci` integrates with another quadrature.
    assert np.abs(models - fedgucci(run, beta, anchors)).max() < TOLERANCE
    if anchors > 1:
        assert np.abs(models - fedavg(run, *steps)).max() > 1e-4  # FedAvg whose clients start at w_t differs.


def test_clients_drift_by_the_servers_factor():
    """A client moves 1 + beta/(6 + 2 beta) times as far as a client of FedAvg with the rescaled local step."""
    beta, problem, weights = 1.5, ragged(5), draw(SETUP.width, 4, 3)
    rescaled = equivalent_setup(SETUP, beta)
    drift, expected = (
        federation.round(federation.start(), keep_ends=True).ends["moved"]
        for federation in (
            wide_federation(problem, SETUP, weights, method=connected(beta, SETUP), linearised=True),
            wide_federation(problem, rescaled, weights, linearised=True),
        )
    )
    assert torch.abs(drift - (1 + overshoot(beta)) * expected).max() < TOLERANCE
    assert torch.abs(expected).max() > 1e-2


def test_a_converged_client_overshoots_its_labels():
    """The residual of a converged client is -beta/(6 + 2 beta) times the global model's residual."""
    problem = Problem(np.eye(3), np.array([1.0, -0.5, 0.25]), np.array([0, 0, 1]))
    setup = Setup(width=64, eta_local=1.0, local_steps=120, rounds=1)
    for beta in (0.5, 3.0):
        trajectory = engine_trajectory(problem, setup, method=connected(beta, setup), linearised=True)
        before, after = trajectory.local_outputs[0, 0] - problem.y, trajectory.local_outputs[0, -1] - problem.y
        assert np.abs(after + overshoot(beta) * before).max() < TOLERANCE
        assert np.abs(before).min() > 1e-2


@pytest.mark.parametrize("changed", [{"alpha": "half"}, {"step": "sequential"}])
def test_the_released_variants_are_not_that_fedavg(changed):
    """The equivalence holds for the paper's objective only; alpha = 1/2 and separate steps are other algorithms."""
    beta, problem, weights = 2.0, ragged(), draw(SETUP.width, 4, 1)
    trajectory = engine_trajectory(problem, SETUP, weights, method=connected(beta, SETUP, **changed), linearised=True)
    expected = simulate(problem, equivalent_setup(SETUP, beta), weights, linearised=True)
    assert np.abs(trajectory.outputs - expected.outputs).max() > 1e-3


def test_on_the_network_itself_it_is_not_exact():
    """The equivalence is exact only for the linearised network, because patterns change along the segments."""
    problem, setup = ragged(), replace(SETUP, eta_local=0.5, rounds=10)
    trajectory = engine_trajectory(problem, setup, method=connected(2.0, setup))
    expected = simulate(problem, equivalent_setup(setup, 2.0))
    assert 1e-4 < np.abs(trajectory.outputs - expected.outputs).max() < 1
