"""Tests of other losses in training in any order: refusals, adversaries, and what the theorem needs of a loss."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.optimize import lsq_linear
from torch import nn

from bounds.fl_ntk.any_order import loss_case
from ntkfl import Problem, Setup, Weights, certify_any_order
from ntkfl.any_order import attack_any_order, export_any_order
from ntkfl.any_order.adversary import train_further
from ntkfl.any_order.targets import nearest_in_box
from ntkfl.any_order.watching import loss_checkpoints, trained_checkpoints
from ntkfl.connectivity.network import AffineTwoLayer, TwoLayer
from ntkfl.limit.convex_loss import HINGE, LOGISTIC, SQUARES, band, huber, loss_of

LOSSES = (SQUARES, HINGE, band(0.3), huber(0.2))
NUMBERS = st.floats(-1e3, 1e3)
AIMS = ("random", "distance", "residual", "probe")


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@given(f=NUMBERS, other=NUMBERS, part=st.floats(0, 1), y=st.sampled_from([-1.0, 1.0]))
def test_what_the_proof_asks_of_a_loss(loss, f, other, part, y):
    """Slopes at outputs f are 1-Lipschitz and 0 exactly at minimisers m.

    The residual r = -slope satisfies r (m - f) >= r^2 for all minimisers m.
    """
    f, other, y = np.longdouble(f), np.longdouble(other), np.longdouble(y)
    low, high = (np.clip(np.longdouble(end), -1e3, 1e3) for end in loss.minimisers(y))
    inside = low + part * (high - low)
    slope = loss.slope(f, y)
    # Slopes at nearby outputs are nearly equal, so their difference loses digits.
    rounding = 8 * np.finfo(np.longdouble).eps * (1 + abs(f) + abs(other) + abs(y))
    assert abs(slope - loss.slope(other, y)) <= abs(f - other) + rounding
    assert loss.slope(inside, y) == 0 == loss.value(inside, y)
    assert -slope * (inside - f) >= slope**2 * (1 - 1e-15)
    assert (slope == 0) == (low <= f <= high) or abs(np.clip(f, low, high) - f) < 1e-15
    assert slope**2 <= 2 * loss.value(f, y) * (1 + 1e-12)
    assert loss.value(other, y) >= loss.value(f, y) + slope * (other - f) - 1e-9


@given(seed=st.integers(0, 2**31), p=st.integers(1, 12))
def test_targets_are_nearest(seed, p):
    """The targets are nearest: scipy's bounded least squares finds no nearer ones."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((p, p + 3))
    kernel, middle = features @ features.T, rng.standard_normal(p)
    low = np.where(rng.random(p) < 0.3, -np.inf, middle - rng.random(p))
    high = np.where(rng.random(p) < 0.3, np.inf, middle + rng.random(p))
    root = np.linalg.inv(np.linalg.cholesky(kernel))
    best = nearest_in_box(kernel, low, high)
    reference = lsq_linear(root, np.zeros(p), (low, high), method="bvls", tol=1e-14).x
    assert ((low <= best) & (best <= high)).all()
    assert np.linalg.norm(root @ best) <= np.linalg.norm(root @ reference) * (1 + 1e-6) + 1e-12


def test_targets_of_rows_that_nearly_depend_come_without_a_warning():
    kernel = np.array([[1, 1, 0], [1, 1 + 2.3e-16, 0], [0, 0, 1.0]])  # Cholesky's factorisation just succeeds.
    best = nearest_in_box(kernel, np.ones(3), np.full(3, 2.0))
    assert ((best >= 1) & (best <= 2)).all()


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 24))])
def test_no_order_leaves_a_certified_ball(seed):
    """No order leads away from the fit of a certified network.

    In long training with four adversarial aims, and in a search, distances never grow and outputs stay in their
    enclosures.
    """
    loss = (HINGE, band(0.2), huber(1e-3))[seed % 3]
    case = loss_case(seed, loss, 10.0 ** -(1.5 + seed % 2), 48, AIMS[seed % 4])
    certificate, problem = case.certificate, case.problem
    assert certificate.certified, certificate.why
    low, high = (end[certificate.kept] for end in loss.minimisers(problem.y))
    assert ((low <= certificate.problem.y) & (certificate.problem.y <= high)).all()
    point = certificate.fitted_weights()
    seen = np.vstack([problem.x, np.random.default_rng(seed).standard_normal((9, problem.d))])
    outputs, off = certificate.enclosure(seen), case.rounding
    run = train_further(
        problem, case.weights, point, steps=60, aim=case.aim, eps=1e-3, probes=seen, tries=3, seed=seed, loss=loss
    )
    distance = run.distance.astype(float)
    assert distance[0] <= certificate.distance.hi + off and (np.diff(distance) <= off).all()
    assert ((outputs.lo - 1e-13 <= run.outputs[..., 0]) & (run.outputs[..., 0] <= outputs.hi + 1e-13)).all()
    rest = np.setdiff1d(np.arange(problem.n), certificate.kept)
    assert not loss.slope(run.outputs[:, rest, 0], problem.y[rest]).any()
    assert run.residual[0] <= np.sqrt(problem.n) * max(loss.smoothness, certificate.residual.hi)
    assert attack_any_order(certificate, trials=60, seed=seed).broken is None


def test_training_comes_to_its_minimum():
    """With single samples in cyclic order at nearly the step limit, every slope tends to 0."""
    case = loss_case(0, HINGE, 0.1, 64, "random")
    certificate, w = case.certificate, case.weights.hidden
    assert certificate.certified
    readout, x, y = case.weights.signs / np.sqrt(64), case.problem.x, case.problem.y
    step = 0.9 * certificate.step_limit_for(1)
    slopes = []
    for t in range(3000):
        i = t % len(x)
        z = w @ x[i]
        slopes.append(abs(HINGE.slope(np.maximum(z, 0) @ readout, y[i])))
        w = w - step * HINGE.slope(np.maximum(z, 0) @ readout, y[i]) * np.outer(readout * (z >= 0), x[i])
    assert max(slopes[-len(x) :]) < 1e-6 < max(slopes[: len(x)])


def test_a_sample_left_out_wrongly_breaks_the_claim():
    """The certificate must keep every sample whose loss is not at its minimum.

    If one of them is left out, models move away from W*.
    """
    left = 0
    for seed in range(5):
        case = loss_case(seed, HINGE, 0.3, 24, "distance")
        kept = case.certificate.kept
        if len(kept) < 2:
            continue
        part = replace(case.problem, x=case.problem.x[kept[:1]], y=case.problem.y[kept[:1]], owner=None)
        alone = certify_any_order(part, case.weights, loss=HINGE)
        if alone.certified:
            point = alone.fitted_weights()
            run = train_further(case.problem, case.weights, point, steps=8, aim="distance", seed=seed, loss=HINGE)
            left += run.distance.max() > 1.001 * run.distance[0]
    assert left


def test_huber_is_certified_as_squares_are_and_a_band_is_no_farther():
    case = loss_case(3, huber(1e-3), 1e-2, 64, "random")
    squares, cut = (certify_any_order(case.problem, case.weights, loss=loss) for loss in (SQUARES, huber(1e-3)))
    assert cut.certified == squares.certified and cut.distance.value == squares.distance.value
    wide = certify_any_order(case.problem, case.weights, loss=band(1e-3))
    assert wide.distance.value <= squares.distance.value
    assert float(squares.residual.value) == pytest.approx(float(cut.residual.value))


def test_several_outputs_biases_and_twins():
    """Several outputs (one class against all others), output biases, and multiples of samples are certified.

    A sample, its copy and its half are kept as one sample.
    """
    rng = np.random.default_rng(4)
    x = rng.standard_normal((4, 5))
    hidden, readout = rng.standard_normal((90, 5)), rng.standard_normal((3, 90)) / 9
    outputs = TwoLayer(hidden, readout).outputs(x)
    scale = np.abs(outputs).min() * 0.999
    network = TwoLayer(hidden / scale, readout)
    y = np.sign(outputs)
    certificate = certify_any_order(Problem(x, y), network, loss="hinge")
    assert certificate.certified and len(certificate.kept) == 1, certificate.why
    assert (certificate.final(x) == np.where((y > 0).sum(1) == 1, y.argmax(1), certificate.final(x))).all()
    bias = np.array([0.1, -0.2, 0.3])
    shifted = certify_any_order(Problem(x, y), AffineTwoLayer(network.hidden, readout, None, bias), loss="band:0.5")
    plain = certify_any_order(Problem(x, y - bias), network, loss="band:0.5")
    assert shifted.distance.value == pytest.approx(float(plain.distance.value), rel=1e-6)

    case = loss_case(4, HINGE, 1e-2, 64, "random")
    alone = case.certificate
    i = int(alone.kept[0])
    twins = Problem(
        np.vstack([case.problem.x, case.problem.x[i], 0.5 * case.problem.x[i]]),
        np.append(case.problem.y, [case.problem.y[i]] * 2),
    )
    both = certify_any_order(twins, case.weights, loss=HINGE)
    assert both.distance.lo > 1.5 * alone.distance.hi  # Half of the input needs twice the weights for the same margin.
    y0 = case.problem.y
    opposite = replace(twins, y=np.append(y0, -y0[[i, i]]))
    refused = certify_any_order(opposite, case.weights, loss=HINGE)
    why = f"samples {i}, {len(y0)}, {len(y0) + 1} have the same input, up to a factor, and no output"
    assert not refused.certified and refused.why.startswith(why)


@pytest.mark.parametrize("loss", [SQUARES, HINGE, huber(0.3)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("biases", [False, True])
def test_training_on_is_gradient_descent_as_torch_has_it(loss, biases):
    """Further training is gradient descent as torch computes it.

    There are three outputs, two clients and three local steps. The readout and the biases of the outputs stay
    unchanged.
    """
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5, 4)), rng.choice([-1.0, 1.0], (5, 3))
    problem, setup = Problem(x, y, np.array([0, 1, 0, 1, 1])), Setup(eta_local=0.05, local_steps=3, eta_global=0.8)
    more = {"bias": rng.standard_normal(20), "output_bias": rng.standard_normal(3)} if biases else {}
    start = AffineTwoLayer(rng.standard_normal((20, 4)), rng.standard_normal((3, 20)) / 4, **more)
    *_, (reached, last) = loss_checkpoints(problem, setup, loss, 4, 3, start)
    losses = {"squares": lambda f, y: (f - y) ** 2 / 2, "hinge": lambda f, y: torch.relu(1 - f * y) ** 2 / 2}
    of = losses.get(loss.name, lambda f, y: nn.functional.huber_loss(f, y, reduction="none", delta=0.3))
    server = [torch.tensor(start.hidden), torch.tensor(more.get("bias", np.zeros(20)))]
    shift = torch.tensor(more.get("output_bias", np.zeros(3)))
    for _ in range(4):
        moves = [torch.zeros_like(part) for part in server]
        for members in problem.members:
            own = [part.clone().requires_grad_() for part in server]
            for _ in range(3):
                f = torch.relu(torch.tensor(x[members]) @ own[0].T + own[1]) @ torch.tensor(start.readout).T + shift
                gradients = torch.autograd.grad(of(f, torch.tensor(y[members])).sum(), own)
                steps = [0.05 * g for g in gradients] if biases else [0.05 * gradients[0], torch.zeros(20)]
                own = [(part - step).detach().requires_grad_() for part, step in zip(own, steps, strict=True)]
            moves = [move + (part - was) / 2 for move, part, was in zip(moves, own, server, strict=True)]
        server = [(part + 0.8 * move).detach() for part, move in zip(server, moves, strict=True)]
    assert reached == 4 and last.readout is start.readout and np.abs(last.hidden - start.hidden).max() > 0.01
    np.testing.assert_allclose(last.hidden, server[0].numpy(), rtol=1e-11, atol=1e-12)
    if biases:
        np.testing.assert_allclose(last.bias, server[1].numpy(), rtol=1e-11, atol=1e-12)
    with pytest.raises(ValueError, match="the network has 3 outputs; data has 1 label a sample"):
        loss_checkpoints(Problem(x, y[:, 0]), setup, loss, 4, 3, start)
    with pytest.raises(ValueError, match="momentum is tuned for networks that are drawn"):
        trained_checkpoints(problem, setup, 4, 3, momentum=True, start=start)


def test_a_fitted_network_is_certified_and_keeps_one_sample():
    """A network beyond all margins is certified, and the network does not move.

    The certificate keeps (that is, uses) one sample only.
    """
    case = loss_case(1, HINGE, 0.1, 64, "random")
    far = Weights(4 * case.weights.hidden, case.weights.signs)
    certificate = certify_any_order(case.problem, far, loss=HINGE)
    assert certificate.certified and len(certificate.kept) == 1 and certificate.distance.hi < 1e-12
    assert certificate.residual.hi < 1e-12


def test_what_is_refused(tmp_path):
    case = loss_case(0, HINGE, 0.1, 64, "random")
    for loss, message in (
        ("logistic", "the logistic loss has no minimiser"),
        (LOGISTIC, "has no minimiser"),
        (replace(HINGE, smoothness=4.0), "has the Lipschitz constant 4; divide the loss by it"),
        ("hinges", "it must be squares, hinge, huber:DELTA or band:WIDTH"),
        ("band", "band needs a positive number"),
        ("huber:-1", "huber needs a positive number"),
        ("band:nan", "band needs a positive number"),
    ):
        with pytest.raises(ValueError, match=message):
            certify_any_order(case.problem, case.weights, loss=loss)
    with pytest.raises(ValueError, match=r"a label is 0; the hinge loss takes -1 and \+1, .* 2 y - 1"):
        certify_any_order(replace(case.problem, y=0 * case.problem.y), case.weights, loss="hinge")
    with pytest.raises(ValueError, match=r"takes .* GB before any pair"):
        certify_any_order(case.problem, case.weights, loss="hinge", memory=1e6)
    with pytest.raises(ValueError, match="an exported certificate is for squares"):
        export_any_order(case.certificate, tmp_path / "proof")
    assert loss_of("band:0.5").name == "band:0.5" and loss_of("hinge") is HINGE
