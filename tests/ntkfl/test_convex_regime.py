"""Tests of Algorithm 1 on a convex loss, which is compared with the training engine on a linearised network.

The bound on the mean loss is tested too. This bound holds. The bound is a known factor times the minimum of an
objective. It agrees with the same factor times the minimum that a general minimiser finds.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from linear_methods import ragged
from scipy.optimize import minimize
from scipy.special import expit

from ntkfl import Setup, data, gram, kernel_regime
from ntkfl.exact_dynamics import ConvexLoss, UnstableSteps
from ntkfl.initialisation import draw
from ntkfl.limit.convex_loss import LOSSES
from ntkfl.training.method import Batch
from ntkfl.training.methods import fl_ntk
from ntkfl.training.objectives import LogisticLoss
from ntkfl.training.wide_training import wide_federation

BEYOND = pytest.mark.filterwarnings("ignore::ntkfl.exact_dynamics.UnstableSteps")
sizes = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def two_classes(sizes, **given):
    problem = ragged(sizes, **given)
    return replace(problem, y=np.where(problem.y < 0, -1.0, 1.0))


@settings(deadline=None, max_examples=12)
@given(
    sizes=sizes,
    eta=st.floats(0.02, 9),
    server=st.floats(0.1, 1.5),
    steps=st.integers(1, 5),
    repeated=st.booleans(),
    seed=st.integers(0, 2**16),
)
@BEYOND
def test_the_engine_trains_a_linearised_network_so(sizes, eta, server, steps, repeated, seed):
    problem = two_classes(sizes, seed=seed, repeated=repeated)
    setup = Setup(width=60, eta_local=eta, eta_global=server, local_steps=steps, rounds=8, seed=seed)
    weights, z = draw(60, problem.d, seed), ragged((5,), seed=3).x
    run = wide_federation(
        problem, setup, weights, method=fl_ntk.method(LogisticLoss(), server_rate=server), linearised=True
    )
    state, seen, predicted = run.start(), [], []
    for _ in range(9):
        seen.append(run.model.outputs(state.model, run.data.x).numpy())
        predicted.append(run.model.outputs(state.model, run.data.x.new_tensor(z)).numpy())
        state = run.round(state).state
    regime = kernel_regime(problem, setup, gram.finite(problem.x, weights.hidden), loss="logistic")
    start = {"initial_outputs": weights.outputs(problem.x)}
    scale = max(1, np.abs(seen).max())
    assert np.abs(regime.outputs(np.arange(9), **start) - seen).max() <= 1e-12 * scale
    cross = gram.finite(z, weights.hidden, z=problem.x)
    of_regime = regime.predict(None, np.arange(9), initial_prediction=weights.outputs(z), cross_gram=cross, **start)
    assert np.abs(of_regime - predicted).max() <= 1e-12 * scale
    losses = np.log1p(np.exp(-problem.y * seen)).sum(axis=1)
    assert regime.total_loss([3, 8], **start) == pytest.approx(losses[[3, 8]], rel=1e-10)


@settings(deadline=None, max_examples=60)
@given(output=st.floats(-80, 80), label=st.sampled_from([-1.0, 1.0]))
def test_the_logistic_slope_is_exact_far_from_the_label(output, label):
    outputs = torch.tensor([output], dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, dtype=torch.float64)
    model = SimpleNamespace(outputs=lambda params, x: params)
    LogisticLoss()(model, outputs, Batch(one, label * one, one), None).backward()
    assert outputs.grad.item() == pytest.approx(-label * expit(-label * output), rel=1e-14, abs=0)


@BEYOND
def test_squares_are_the_kernel_regime():
    problem = ragged((3, 1, 4))
    for eta in (0.3, 2.5):
        setup = Setup(eta_local=eta, local_steps=3, eta_global=0.7)
        known, regime = kernel_regime(problem, setup), kernel_regime(problem, setup, loss="squares")
        assert np.abs(known.outputs([0, 1, 9]) - regime.outputs([0, 1, 9])).max() <= 1e-12
        local = (problem.y - np.stack([known.local_outputs(t)[:-1] for t in range(6)])) ** 2 / 2
        assert regime.mean_loss(6) == pytest.approx(local.sum() / (6 * 3), rel=1e-11)


@settings(deadline=None, max_examples=25)
@given(
    sizes=sizes,
    share=st.floats(1e-4, 0.98),
    server=st.floats(0.05, 1),
    steps=st.integers(1, 6),
    rounds=st.integers(1, 60),
    loss=st.sampled_from(sorted(LOSSES)),
    repeated=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_the_bound_holds_and_is_the_least_of_its_kind(sizes, share, server, steps, rounds, loss, repeated, seed):
    problem = two_classes(sizes, seed=seed, repeated=repeated)
    setup = Setup(eta_local=1.0, eta_global=server, local_steps=steps)
    limit = kernel_regime(problem, replace(setup, eta_local=1e-3), loss=loss).eta_limit
    setup = replace(setup, eta_local=share * limit)
    regime = kernel_regime(problem, setup, loss=loss)
    start = np.random.default_rng(seed).standard_normal(problem.n)
    bound = regime.bound(rounds, start)
    assert regime.mean_loss(rounds, start) <= bound * (1 + 1e-12)
    h, ridge = gram.infinite(problem.x), problem.n_clients / (setup.eta_local * server * steps * rounds)

    def objective(alpha):
        outputs = start + h @ alpha
        return ridge / 2 * alpha @ h @ alpha + LOSSES[loss].value(outputs, problem.y).sum()

    other = minimize(objective, np.zeros(problem.n), tol=1e-12).fun / (1 - share)
    assert bound <= other * (1 + 1e-9)
    assert bound >= other * (1 - 1e-4)
    # For squares the bound is 1 / (1 - share) times the least value of kernel ridge regression, in closed form.
    if loss == "squares":
        r = problem.y - start
        exact = ridge / 2 * r @ np.linalg.solve(h + ridge * np.eye(problem.n), r) / (1 - share)
        assert bound == pytest.approx(exact, rel=1e-9)


def test_the_bound_is_met_by_the_first_short_step():
    problem = two_classes((3, 2))
    regime = kernel_regime(problem, Setup(eta_local=1e-7, local_steps=1), loss="logistic")
    assert regime.mean_loss(1) == pytest.approx(5 * np.log(2), rel=1e-14)
    assert regime.bound(1) == pytest.approx(regime.mean_loss(1), rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=lambda loss: loss.name)
@given(f=st.floats(-30, 30), y=st.sampled_from([-1.0, 1.0]))
def test_losses_are_what_the_bound_asks_for(loss, f, y):
    here, step = np.array([f]), 1e-5
    value, slope, curvature = (part(here, y)[0] for part in (loss.value, loss.slope, loss.curvature))
    assert value >= 0 and slope**2 <= 2 * loss.smoothness * value * (1 + 1e-12)
    assert 0 <= curvature <= loss.smoothness * (1 + 1e-12)
    rise = (loss.value(here + step, y) - loss.value(here - step, y))[0] / (2 * step)
    assert rise == pytest.approx(slope, abs=1e-7)
    assert (loss.slope(here + step, y) - loss.slope(here - step, y))[0] / (2 * step) == pytest.approx(
        curvature, abs=1e-6
    )


def test_a_loss_of_ones_own_and_several_outputs():
    huber = ConvexLoss(
        "huber",
        lambda f, y: np.where(np.abs(f - y) < 1, (f - y) ** 2 / 2, np.abs(f - y) - 0.5),
        lambda f, y: np.clip(f - y, -1, 1),
        lambda f, y: (np.abs(f - y) < 1).astype(float),
        1.0,
    )
    problem = data.digits(n=20)
    both = replace(problem, y=np.stack([3 * problem.y, problem.y], axis=1))
    setup = Setup(eta_local=0.1, local_steps=2)
    together = kernel_regime(both, setup, loss=huber)
    alone = [kernel_regime(replace(problem, y=both.y[:, k]), setup, loss=huber) for k in range(2)]
    assert np.abs(together.outputs(9) - np.stack([single.outputs(9) for single in alone], axis=1)).max() <= 1e-13
    assert together.bound(9) == pytest.approx(sum(single.bound(9) for single in alone), rel=1e-10)
    assert sum(single.mean_loss(9) for single in alone) == pytest.approx(together.mean_loss(9), rel=1e-12)
    assert together.mean_loss(9) <= together.bound(9)


def test_bad_requests_are_refused():
    problem, setup = two_classes((2, 2)), Setup(eta_local=0.1)
    with pytest.raises(ValueError, match="there is no loss 'hinge'; the losses are logistic, squares, or a ConvexLoss"):
        kernel_regime(problem, setup, loss="hinge")
    with pytest.raises(ValueError, match="the labels run from 0 to 1; the logistic loss takes -1 and \\+1"):
        kernel_regime(replace(problem, y=(problem.y + 1) / 2), setup, loss="logistic")
    with pytest.raises(ValueError, match="rounds is 0; the bound is of the first rounds, at least 1"):
        kernel_regime(problem, setup, loss="logistic").bound(0)
    for another in ({"method": "scaffold"}, {"momentum": 0.5}, {"client_steps": [1] * problem.n_clients}):
        with pytest.raises(ValueError, match="'logistic'; only Algorithm 1 without changes takes a loss"):
            kernel_regime(problem, setup, loss="logistic", **another)
    for steps in (replace(setup, eta_local=99.0), replace(setup, eta_global=1.5)):
        with pytest.warns(
            UnstableSteps, match=r"too large for the bound of the logistic losses, which holds for eta_local < [\d.]+"
        ):
            beyond = kernel_regime(problem, steps, loss="logistic")
        with pytest.raises(ValueError, match="eta_global <= 1"):
            beyond.bound(3)


def test_where_the_gram_matrix_is_zero_nothing_moves():
    problem = two_classes((2, 2))
    regime = kernel_regime(problem, Setup(), np.zeros((4, 4)), loss="logistic")
    assert not regime.outputs(5).any() and regime.eta_limit == np.inf
    assert regime.mean_loss(5) == regime.bound(5) == pytest.approx(4 * np.log(2))
