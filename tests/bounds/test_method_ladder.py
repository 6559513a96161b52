"""Tests of networks of growing widths under every method.

The engine must train them as plain loops do. Each network must be compared with the limit of its own method.
"""

from dataclasses import replace

import numpy as np
import pytest

from bounds import Options
from bounds.fl_ntk import w
from bounds.fl_ntk.cases.method_ladder import COVERED, METHODS, PULL, SERVER_MOMENTUM, method_families, variants
from bounds.formula import evaluate
from ntkfl import kernel_regime
from ntkfl.exact_dynamics import MovingWindow
from ntkfl.training.methods import catalogue

(DRAW,) = method_families(Options())


@pytest.fixture(scope="module")
def ladder():
    return replace(DRAW.case(3), widths=(64, 128), counts=(2, 1))


def plain(run, update):
    """Returns the residuals y - y_m(t) of rounds that are written out.

    `update` takes (weights, clients' gradients, memory), and returns the next weights and memory.
    """
    x, y, signs = run.problem.x, run.problem.y, run.weights.signs / np.sqrt(run.setup.width)

    def gradient(own, w):
        z = x[own] @ w.T
        return ((z >= 0) * (np.maximum(z, 0) @ signs - y[own])[:, None] * signs).T @ x[own]

    w, memory, residuals = run.weights.hidden, None, []
    for _ in range(run.setup.rounds + 1):
        residuals.append(y - np.maximum(x @ w.T, 0) @ signs)
        w, memory = update(w, [lambda v, own=own: gradient(own, v) for own in run.problem.members], memory)
    return np.array(residuals)


def test_heavy_ball_and_feddyn_are_their_plain_loops(ladder):
    run = ladder.runs[0][1]
    steps, eta, rate = run.setup.local_steps, run.setup.eta_local, run.setup.eta_global
    sizes = np.bincount(run.problem.owner) / run.problem.n

    def heavy_ball(w, clients, velocity):
        mean = 0
        for share, gradient in zip(sizes, clients, strict=True):
            v = w
            for _ in range(steps):
                v = v - eta * gradient(v)
            mean = mean + share * (v - w)
        velocity = mean + SERVER_MOMENTUM * (0 if velocity is None else velocity)
        return w + rate * velocity, velocity

    def feddyn(w, clients, memory):
        duals, mean_dual = memory or ([0.0] * len(clients), 0.0)
        ends, after = [], []
        for gradient, dual in zip(clients, duals, strict=True):
            v = w
            for _ in range(steps):
                v = v - eta * (gradient(v) - dual + PULL * (v - w))
            ends.append(v)
            after.append(dual - PULL * (v - w))
        mean = np.mean(ends, axis=0)
        mean_dual = mean_dual - PULL * (mean - w)
        return mean - mean_dual / PULL, (after, mean_dual)

    for name, update in (("fedavgm", heavy_ball), ("feddyn", feddyn)):
        assert np.abs(ladder.residuals[name][0][1] - plain(run, update)).max() <= 1e-12, name


def test_samples_are_distances_from_the_regime_of_the_same_method(ladder):
    rounds = np.arange(ladder.setup.rounds + 1)
    for name, variant in ((name, variants(ladder.setup.eta_global)[name]) for name in METHODS):
        for row, samples, runs in zip(ladder.residuals[name], ladder.samples(name), ladder.runs, strict=True):
            for residual, sample, run in zip(row, samples, runs, strict=True):
                outputs = run.problem.y - residual
                steps = replace(run.setup, eta_global=1.0)
                regime = kernel_regime(
                    run.problem,
                    steps,
                    None,
                    variant.method,
                    variant.options,
                    variant.momentum,
                    client_steps=variant.client_steps or None,
                    step_factors=variant.step_factors,
                    ima=variant.window and MovingWindow(variant.window),
                )
                off = np.linalg.norm(outputs - regime.outputs(rounds, outputs[0]), axis=1).max()
                assert sample == pytest.approx(off / np.linalg.norm(residual[0]), rel=1e-9)


def test_the_formulas_are_the_library_s_limits(ladder):
    constants = w._constants(ladder)
    for name, formula in w.RESIDUAL.items():
        evaluated = evaluate(formula, constants)
        assert np.abs(evaluated.value + ladder.limits[name][-1]).max() <= 1e-13 + evaluated.error.max(), name


def test_every_method_with_a_linear_limit_is_there_and_each_is_another():
    linear = {name for name, module in catalogue().items() if not hasattr(module, "NOT_LINEAR")}
    assert {variant.method for variant in variants().values()} == linear
    assert {*METHODS, *COVERED} == set(variants())
    ladder = DRAW.case(0)
    ends = np.array([limit[-1] for limit in ladder.limits.values()])
    for k, end in enumerate(ends):
        assert np.abs(np.delete(ends, k, axis=0) - end).max(axis=1).min() > 1e-4


def test_rounding_is_bounded(ladder):
    """With its neurons in reverse order a network's residuals differ by at most the stated rounding error."""
    from ntkfl.problem import Weights

    run, steps = ladder.runs[1][0], replace(ladder.setup, eta_global=1.0, width=128)
    weights = Weights(run.weights.hidden[::-1], run.weights.signs[::-1])
    other = variants(ladder.setup.eta_global)["scaffold"].residuals(run.problem, steps, weights)
    off = np.abs(other - ladder.residuals["scaffold"][1][0]).max()
    assert off <= ladder.rounding < 1e-9


def test_a_second_opinion_has_other_networks_and_a_drawn_ladder_trains():
    small = replace(DRAW.case(0), widths=(64,), counts=(1,))
    fresh = small.fresh()
    assert not np.isclose(small.runs[0][0].weights.hidden, fresh.runs[0][0].weights.hidden).any()
    assert [len(row) for row in fresh.residuals["fedprox"]] == [1]


def test_the_limits_are_further_apart_than_the_statement_reaches():
    """The limits of two methods differ by more than the statement tolerates, so another method's limit is refuted."""
    ladder = DRAW.case(0)
    reach = 2 * np.linalg.norm(ladder.problem.y) / np.sqrt(ladder.widths[-1])
    ends = np.array([ladder.limits[name][-1] for name in w.RESIDUAL])
    apart = np.abs(ends[:, None] - ends).max(axis=2) + np.diag([np.inf] * len(ends))
    assert apart.min() > 1.2 * reach


@pytest.mark.parametrize("name", ["fedavg-ima", "scaffold", "feddyn", "cyclic", "fedavgm-nesterov", "fedgucci"])
def test_networks_side_by_side_are_trained_as_each_alone(ladder, name):
    runs, setup = ladder.runs[0], replace(ladder.setup, eta_global=1.0)
    training = variants(ladder.setup.eta_global, ladder.problem.n_clients)[name]
    together = training.residuals_together(runs, setup)
    for residuals, run in zip(together, runs, strict=True):
        alone = training.residuals(run.problem, setup, run.weights)
        np.testing.assert_allclose(residuals, alone, rtol=0, atol=1e-13)
        assert np.abs(alone[-1] - alone[0]).max() > 1e-3
