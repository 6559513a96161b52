"""Tests of the statements on deep networks: what they measure is compared with plain loops.

The loops keep all parameters of a network in one long vector.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from bounds import Options, get
from bounds.deep import widths
from bounds.deep.cases.deep_ladder import (
    ERF,
    NETWORKS,
    RELU,
    DeepLadder,
    Measured,
    deep_ladder,
    deep_ladders,
    deep_run_families,
    equal_points,
    pooled,
    rungs,
)
from bounds.deep.centralised import StepLadder
from bounds.deep.widths import KINK_LADDERS, KinkLadder
from ntkfl import gram
from ntkfl.finite_width.boundary_layer import pattern_change
from ntkfl.problem import Problem, Setup
from ntkfl.training.models.wide_networks import WideNetwork

PHI = {"relu": torch.relu, "erf": torch.erf}
SETUP = Setup(eta_local=0.2, local_steps=2, rounds=3)


class Plain:
    """A fully connected network in NTK parametrisation, whose parameters are one vector drawn from a seed."""

    def __init__(self, spec: str, width: int, x: np.ndarray) -> None:
        _, depth, activation = spec.split(":")
        self.depth, self.width, self.phi, self.x = int(depth), width, PHI[activation], torch.tensor(np.array(x))
        self.between = math.sqrt((2 if activation == "relu" else 1) / width)

    def start(self, seed: int) -> torch.Tensor:
        generator, d, m = torch.Generator().manual_seed(seed), self.x.shape[1], self.width
        sizes = [(m, d), *[(m, m)] * (self.depth - 2), (m,)]
        drawn = [torch.randn(*size, generator=generator, dtype=torch.float64) for size in sizes]
        return torch.cat([part.flatten() for part in drawn])

    def outputs(self, theta: torch.Tensor, rows=slice(None)) -> torch.Tensor:
        d, m, h = self.x.shape[1], self.width, self.x[rows]
        first, *rest = theta.split([m * d, *[m * m] * (self.depth - 2), m])
        h = self.phi(h @ first.reshape(m, d).T)
        for weight in rest[:-1]:
            h = self.phi(self.between * h @ weight.reshape(m, m).T)
        return h @ rest[-1] / math.sqrt(m)

    def step(self, theta: torch.Tensor, y: torch.Tensor, rows, eta: float) -> torch.Tensor:
        theta = theta.clone().requires_grad_()
        loss = ((self.outputs(theta, rows) - y[rows]) ** 2).sum() / 2
        return (theta - eta * torch.autograd.grad(loss, theta)[0]).detach()

    def federated(self, theta: torch.Tensor, y: torch.Tensor, owner: np.ndarray, setup: Setup):
        """Returns the models of all rounds, and the clients' last models in the last round."""
        models, ends = [theta], []
        for _ in range(setup.rounds):
            ends = []
            for c in np.unique(owner):
                local, rows = models[-1], np.flatnonzero(owner == c)
                for _ in range(setup.local_steps):
                    local = self.step(local, y, rows, setup.eta_local)
                ends.append(local)
            models.append(models[-1] + setup.eta_global * (sum(ends) / len(ends) - models[-1]))
        return models, ends

    def central(self, theta: torch.Tensor, y: torch.Tensor, steps: int, eta: float) -> list[torch.Tensor]:
        """Returns the models of gradient descent on the pooled data."""
        models = [theta]
        for _ in range(steps):
            models.append(self.step(models[-1], y, slice(None), eta))
        return models

    def kernel(self, theta: torch.Tensor) -> np.ndarray:
        rows = torch.autograd.functional.jacobian(self.outputs, theta).numpy()
        return rows @ rows.T


def by_hand(matrix: np.ndarray, y: np.ndarray, first: np.ndarray, owner: np.ndarray, setup: Setup):
    """Trains in the kernel regime with plain loops.

    Returns the outputs of all rounds, (T+1, n), and each client's coefficients of J^T in the last round.
    """
    outputs, moved = [first], []
    for _ in range(setup.rounds):
        moved = []
        for c in np.unique(owner):
            rows, coefficients, now = owner == c, np.zeros(len(y)), outputs[-1].copy()
            for _ in range(setup.local_steps):
                change = np.where(rows, setup.eta_local * (y - now), 0)
                coefficients, now = coefficients + change, now + matrix @ change
            moved.append(coefficients)
        outputs.append(outputs[-1] + setup.eta_global * matrix @ np.mean(moved, axis=0))
    return np.array(outputs), moved


def farthest(one, other, size: float) -> float:
    return float(max(np.linalg.norm(np.asarray(a) - np.asarray(b)) for a, b in zip(one, other, strict=True)) / size)


@pytest.mark.parametrize("network", [RELU, ERF])
def test_every_field_of_a_network_of_the_ladder_is_the_plain_loop_s(network):
    problem, width, seed = equal_points(3), 12, 5
    ladder = DeepLadder(problem, SETUP, network, seed - 2, (width,), (4,))
    measured = ladder.measured[0][2]
    plain, owner, size = Plain(network, width, problem.x), problem.owner, np.linalg.norm(problem.y)
    theta = plain.start(seed)
    first = plain.outputs(theta).numpy()
    labels = first + problem.y
    models, ends = plain.federated(theta, torch.tensor(labels), owner, SETUP)
    trained = [plain.outputs(model).numpy() for model in models]
    steps = SETUP.local_steps * SETUP.rounds
    central = plain.central(theta, torch.tensor(labels), steps, SETUP.eta_local / 2)[:: SETUP.local_steps]
    infinite, start = gram.deep(problem.x, depth=plain.depth, activation=ladder.wide.activation), plain.kernel(theta)
    runs = [by_hand(matrix, labels, first, owner, SETUP)[0] for matrix in (infinite, start)]
    between = float(np.mean([(end - models[-1]).norm() for end in ends]))
    norm = np.linalg.norm(infinite)
    expected = Measured(
        kernel=float(np.linalg.norm(start - infinite) / norm),
        limit=farthest(trained, runs[0], size),
        own=farthest(trained, runs[1], size),
        drift=float(np.linalg.norm(plain.kernel(models[-1]) - start) / norm),
        neuron=between / math.sqrt(width),
        divergence=between / float((models[-1] - models[-2]).norm()),
        pooled=farthest(trained, [plain.outputs(model).numpy() for model in central], size),
    )
    for name, value in expected._asdict().items():
        assert getattr(measured, name) == pytest.approx(value, rel=1e-9), name


@pytest.mark.parametrize("network", [RELU, ERF])
def test_limits_are_those_of_kernel_regimes_written_out(network):
    problem, setup = equal_points(1), replace(SETUP, rounds=4, local_steps=3)
    ladder = DeepLadder(problem, setup, network, 0, (8,), (1,))
    h, r = ladder.wide.kernel(problem.x), problem.y
    outputs, moved = by_hand(h, r, np.zeros(len(r)), problem.owner, setup)
    mean = np.mean(moved, axis=0)

    def length(coefficients):
        return math.sqrt(coefficients @ h @ coefficients)

    assert ladder.limit_divergence == pytest.approx(np.mean([length(c - mean) for c in moved]) / length(mean))
    now, central = np.zeros(len(r)), [np.zeros(len(r))]
    for k in range(setup.local_steps * setup.rounds):
        now = now + setup.eta_local / 2 * h @ (r - now)
        central += [now] * ((k + 1) % setup.local_steps == 0)
    assert ladder.limit_pooled == pytest.approx(farthest(outputs, central, np.linalg.norm(r)), rel=1e-9)
    assert ladder.limit_pooled > 1e-3
    # Each setting breaks one hypothesis: it has one local step, or one client. The distance is then 0.
    for steps, clients in ((1, problem.owner), (3, np.zeros(problem.n, int))):
        same = replace(ladder, setup=replace(setup, local_steps=steps), problem=replace(problem, owner=clients))
        assert same.limit_pooled < 1e-14
        hypotheses = get("deep/centralised").hypotheses
        assert [hypothesis.name for hypothesis in hypotheses if not hypothesis.met(same)] == [
            "several-local-steps" if steps == 1 else "several-clients"
        ]


def test_pooled_data_take_the_step_on_the_mean_over_clients():
    """One step on the pooled data equals the mean of one step of each client, whatever the clients' sizes."""
    problem = replace(equal_points(2), owner=np.array([0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2]))
    plain, (alone, setup) = Plain(ERF, 6, problem.x), pooled(problem, SETUP)
    theta, y = plain.start(1), torch.tensor(np.array(problem.y))
    one = replace(SETUP, local_steps=1)
    # One step of each client, then the mean over clients.
    by_mean = plain.federated(theta, y, problem.owner, one)[0][1]
    torch.testing.assert_close(plain.step(theta, y, slice(None), setup.eta_local), by_mean, rtol=0, atol=1e-14)
    assert alone.n_clients == 1 and (setup.local_steps, setup.rounds) == (SETUP.local_steps, SETUP.rounds)


def test_differences_of_a_ladder_of_steps_are_the_plain_loop_s(monkeypatch):
    monkeypatch.setattr("bounds.deep.centralised.RUNGS", 3)
    problem = equal_points(4)
    ladder = StepLadder(problem, ERF, 6, 9)
    plain, expected = Plain(ERF, 6, problem.x), []
    for halvings in (2, 1, 0):
        eta, rounds, apart = ladder.largest / 2**halvings, ladder.setup.rounds * 2**halvings, []
        for seed in (9, 10):
            theta = plain.start(seed)
            y = plain.outputs(theta) + torch.tensor(np.array(problem.y))
            setup = replace(ladder.setup, eta_local=eta, rounds=rounds)
            federated, _ = plain.federated(theta, y, problem.owner, setup)
            central = plain.central(theta, y, setup.local_steps * rounds, eta / 2)[:: setup.local_steps]
            seen = [[plain.outputs(model).numpy() for model in models] for models in (federated, central)]
            apart.append(farthest(*seen, np.linalg.norm(problem.y)))
        expected.append(math.sqrt(np.mean(np.square(apart))))
    np.testing.assert_allclose(ladder.differences, expected, rtol=1e-8)
    np.testing.assert_allclose(ladder.sizes, ladder.largest / np.array([4, 2, 1]))


def test_changes_along_the_boundary_layer_are_the_plain_loop_s(monkeypatch):
    monkeypatch.setattr("bounds.deep.widths.DRAWS", 2)
    problem, width = equal_points(0), 16
    ladder = KinkLadder(problem, SETUP, 3, (width, 2 * width, 4 * width), (2, 2, 2))
    mean, plain = ladder.layers.mean(axis=0), Plain(RELU, width, problem.x)
    assert ladder.layers.shape == (2, 12, 12) and not np.array_equal(*ladder.layers)
    for drift, seed in zip(ladder.along[0], (3, 4), strict=True):
        theta = plain.start(seed)
        y = plain.outputs(theta) + torch.tensor(np.array(problem.y))
        models, _ = plain.federated(theta, y, problem.owner, SETUP)
        change = plain.kernel(models[-1]) - plain.kernel(theta)
        assert drift == pytest.approx((change * mean).sum() / (mean**2).sum(), rel=1e-8)


def test_a_network_of_quantiles_has_the_drift_of_the_cube_of_its_readouts():
    """The drift is E|a|^3 times the drift of a network whose readouts are signs.

    The network has one sample, and the weights of both its layers are quantiles.
    """
    problem, setup, m = Problem(np.array([[1.0]]), np.array([0.9])), Setup(eta_local=0.2, local_steps=2, rounds=4), 1e6
    levels = stats.halfnorm.ppf((np.arange(24) + 0.5) / 24)
    a = np.concatenate([levels, -levels])[:, None] * np.ones(40_000)
    w = stats.norm.ppf((np.arange(40_000) + 0.5) / 40_000) * np.ones_like(a)

    def output():
        return math.sqrt(m) * (a * np.maximum(w, 0)).mean()

    def kernel():
        return ((a**2 + w**2) * (w >= 0)).mean()

    before, moment, label = kernel(), (np.abs(a) ** 3).mean(), output() + problem.y[0]
    for _ in range(setup.local_steps * setup.rounds):  # With one client, all steps are the client's.
        pull = setup.eta_local * (label - output()) / math.sqrt(m) * (w >= 0)
        w, a = w + pull * a, a + pull * w
    change = pattern_change(problem, setup, gram=gram.deep(problem.x, depth=2), starts=256)
    assert math.sqrt(m) * (kernel() - before) == pytest.approx(moment * change.drift.value[-1, 0, 0], rel=0.02)
    third, _ = integrate.quad(lambda z: 2 * z**3 * stats.norm.pdf(z), 0, np.inf)
    assert float(widths.THIRD) == pytest.approx(third)


def test_the_boundary_layer_takes_the_limit_kernel_where_none_is_named():
    problem = equal_points(5)
    one, other = (
        pattern_change(problem, SETUP, gram=matrix, draws=32, starts=4) for matrix in (None, gram.infinite(problem.x))
    )
    for default, named in zip(one, other, strict=True):
        np.testing.assert_allclose(default.value, named.value, rtol=0, atol=1e-12)
    both = pattern_change(problem, SETUP, gram=gram.deep(problem.x, depth=2), draws=32, starts=4)
    assert np.abs(both.drift.value - one.drift.value).max() > 1e-3


@pytest.mark.parametrize("network", NETWORKS)
def test_the_orders_of_a_run_are_one_run_summed_up_in_two_ways(network):
    draw = next(draw for draw in deep_run_families(Options()) if draw.name.endswith(network))
    run = draw.case(2)
    (one, first, matrix), (other, _, turned) = run.orders
    for seen in (run.residuals, run.start, run.movement, run.kernel):
        assert np.max(seen.error) < 1e-10
    assert np.abs(one.outputs - other.outputs).max() <= np.max(run.residuals.error)
    assert np.abs(matrix - turned).max() <= np.max(run.kernel.error)
    assert not (np.array_equal(one.outputs, other.outputs) and np.array_equal(matrix, turned))
    assert np.abs(one.outputs[0] - first).max() <= np.max(run.start.error)
    assert np.abs(one.outputs[-1] - one.outputs[0]).max() > 0.1


def test_no_two_networks_of_a_ladder_or_of_its_second_opinion_share_numbers():
    for ladder in (deep_ladder(RELU, 3), deep_ladder(ERF, 0), KINK_LADDERS.case(3)):
        seeds = [
            seed for either in (ladder, ladder.fresh()) for i in range(len(either.widths)) for seed in either.seeds(i)
        ]
        fresh = ladder.fresh()
        assert len(set(seeds)) == len(seeds) == ladder.n_runs + fresh.n_runs
        assert fresh.problem is ladder.problem
        # A second `DeepLadder`, whose networks have other seeds, leaves out the two largest widths.
        kept = len(ladder.widths) - 2 * isinstance(ladder, DeepLadder)
        assert (fresh.widths, fresh.counts) == (ladder.widths[:kept], ladder.counts[:kept])
    small = DeepLadder(equal_points(0), SETUP, ERF, 0, (8, 16, 32), (2, 2, 2))
    drawn = [
        small.wide.model((8,), width).initial(seed)["layer1.weight"]
        for either in (small, small.fresh())
        for i, width in enumerate(either.widths)
        for seed in either.seeds(i)
    ]
    numbers = np.concatenate([weights.numpy().ravel() for weights in drawn])
    assert len(np.unique(numbers)) == numbers.size
    same = [WideNetwork.named(ERF)[0].model((8,), width).initial(1)["layer1.weight"] for width in (16, 32)]
    # A wider network begins with the numbers of a narrow network of the same seed, so no seed may be used twice.
    assert torch.equal(same[0], same[1][:16])
    steps = StepLadder(equal_points(0), ERF, 8, 0)
    assert steps.fresh().seed - steps.seed >= steps.n_runs


def test_ladders_reach_as_far_as_their_families_say():
    for network in (RELU, ERF):
        (draw,) = deep_ladders(network)
        ladder = draw.case(1)
        assert ladder.n_runs == sum(rungs(network).values()) >= draw.required
        assert draw.name.endswith(f"widths {ladder.widths[0]} to {ladder.widths[-1]}")
        assert ladder.setup.eta_global == 1 and np.ptp(np.bincount(ladder.problem.owner)) == 0
