"""Tests of smooth networks that take samples in a fixed order, under losses other than the squared loss.

The nearest fits and the steps are compared with independent computations.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from bounds.deep.any_order import FALL, REACH_OF_LOSSES, _constants
from bounds.deep.cases.ordered_windows import LOSSES, OFTEN, OTHER_LOSSES, loss_case, uneven_case
from ntkfl.limit.convex_loss import SQUARES, band
from ntkfl.networks import wide
from ntkfl.smooth_networks.float_network import FloatNetwork
from ntkfl.smooth_networks.reading import layers_of


def nearest_of_all_faces(case, start=None):
    """Returns the least distance from `start` to a fit.

    An output may be free or tied to an end of the interval of its fits. Newton steps in numpy find the nearest fit for
    every choice of ties.
    """
    net = FloatNetwork(layers_of(wide(case.spec), case.params, case.problem.d))
    start, x = net.start() if start is None else start, case.problem.x[case.certificate.kept]
    ends = case.loss.minimisers(case.problem.y[case.certificate.kept])
    best = np.inf
    for faces in product((None, 0, 1), repeat=len(x)):
        tied = [i for i, face in enumerate(faces) if face is not None]
        wanted, at = np.array([ends[faces[i]][i] for i in tied]), start
        if not np.isfinite(wanted).all():
            continue
        for _ in range(12):
            f, j = net.jacobian(at, x)
            at = start + j[tied].T @ np.linalg.solve(j[tied] @ j[tied].T, wanted - f[tied] + j[tied] @ (at - start))
        f = net.jacobian(at, x)[0]
        if (ends[0] - 1e-13 <= f).all() and (f <= ends[1] + 1e-13).all():
            best = min(best, np.linalg.norm(at - start))
    return best


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("seed", range(9))
def test_the_nearest_fit_is_the_nearest_of_all_faces(seed):
    case = OTHER_LOSSES.case(seed)
    assert case.run.distance[0] == pytest.approx(nearest_of_all_faces(case), rel=0, abs=case.run.rounding)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_visit_is_a_step_of_gradient_descent_on_the_loss(loss):
    case = loss_case(3, 0.3, "fc:3:gelu:bias=0.2", 12, "random", loss=loss)
    theta, rng, last = case.start.clone().requires_grad_(), np.random.default_rng(0), np.array([case.problem.n - 1])
    f, y = case.outputs(theta, last), float(case.problem.y[last][0])
    value = {
        "hinge": torch.clamp(1 - y * f, min=0) ** 2 / 2,
        "band:0.2": torch.clamp((f - y).abs() - 0.2, min=0) ** 2 / 2,
        "huber:0.05": torch.nn.functional.huber_loss(f, torch.full_like(f, y), delta=0.05, reduction="none"),
    }[loss.name]
    (slope,) = torch.autograd.grad(value.sum(), theta)
    with torch.no_grad():
        stepped, farthest = case._visited(theta, last, rng)
    assert slope.norm() > 0 and 0 < farthest == pytest.approx(float((2 * value.detach()).sqrt()), rel=1e-9)
    torch.testing.assert_close(stepped, (theta - case.step * slope).detach(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_claim_is_that_of_the_certificate(loss):
    case = loss_case(1, 0.3, "fc:3:erf", 20, "random", loss=loss)
    kept = case.certificate.kept
    f = case.outputs(case.start, np.arange(case.problem.n)).numpy()
    np.testing.assert_allclose(f, case.wanted, rtol=0, atol=1e-13)
    low, high = loss.minimisers(case.problem.y)
    assert (np.clip(f, low, high) == f)[np.setdiff1d(np.arange(len(f)), kept)].all()
    if case.certificate.start.intervals:
        assert case.proved == case.certificate.window
    values = {symbol: getattr(value, "value", value) for symbol, value in _constants(case).items()}
    reach, fall = (float(part.xreplace(values).evalf()) for part in (REACH_OF_LOSSES, FALL))
    assert reach == pytest.approx(case.proved.reach, rel=1e-6)
    assert 1 - fall == pytest.approx(case.step * (case.proved.alpha - case.proved.beta), rel=1e-6)


@pytest.mark.parametrize("loss", [SQUARES, band(0.01)], ids=lambda loss: loss.name)
def test_a_sample_that_comes_too_often_leads_away_from_the_fits(loss):
    """If one sample is used too often, the distance to the fits grows.

    The test takes the steps of a window in numpy. For each sample it adds up the step sizes. The two sums have the
    ratio `uneven` and the least value `least` of the case. If the sums are equal for all samples, the distance falls.
    """
    case = uneven_case(2, "fc:2:erf", 20, loss, 0.01 * (loss is not SQUARES))
    net, x = FloatNetwork(layers_of(wide(case.spec), case.params, 4)), case.problem.x
    theta, sums = net.start(), np.zeros(2)
    for sample in [0] * OFTEN + [1]:
        f, j = net.jacobian(theta, x)
        step = case.step if sample == 0 else case.least
        theta = theta - step * loss.slope(f, case.problem.y)[sample] * j[sample]
        sums[sample] += step
    assert sums.max() / sums.min() == pytest.approx(case.uneven) and sums.min() == pytest.approx(case.least)
    after = nearest_of_all_faces(case, theta)
    before = nearest_of_all_faces(case)
    np.testing.assert_allclose(case.run.distance[:2], [before, after], rtol=0, atol=2 * case.run.rounding)
    assert after > before + 1000 * case.run.rounding
    even = replace(case, uneven=1.0)
    assert (np.diff(even.run.distance) < 0).all()
