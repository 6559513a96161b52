"""Tests of certificates of smooth networks under hinge, band and Huber's loss.

The tests concern the lemmas of the proof, the samples that a certificate keeps, training, and refusals. A pull is the
negative slope of the loss in an output.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from small_networks import network

from bounds.deep.cases.ordered_windows import loss_case
from ntkfl import Problem, Setup
from ntkfl.limit.convex_loss import HINGE, LOGISTIC, SQUARES, ConvexLoss, band, huber
from ntkfl.networks import simulate_network, wide
from ntkfl.smooth_networks.adversary import attack_network
from ntkfl.smooth_networks.certificate import certify_layers
from ntkfl.smooth_networks.float_network import FloatNetwork
from ntkfl.smooth_networks.watching import network_checkpoints

BAND = 0.2


def case(seed, outputs=1, width=12, depth=3, samples=3, often=0.3):
    """Returns layers, inputs, outputs, and a function that gives labels.

    The outputs lie just outside or well inside the bands around their labels.
    """
    rng = np.random.default_rng([seed, 9])
    layers = network(seed, (4, *[width] * (depth - 1), outputs), ["tanh", "gelu", "tanh"][: depth - 1])
    x = rng.standard_normal((samples, 4))
    f = FloatNetwork(layers).forward(FloatNetwork(layers).start(), x)[0]
    side = rng.choice([-1.0, 1.0], f.shape)
    inside = rng.random(f.shape) < often
    inside[-1] = False

    def labels(size):
        return np.where(inside, f + 0.3 * BAND * side, f + (BAND + size * rng.uniform(0.2, 1, f.shape)) * side)

    return layers, x, f, labels


def certified(seed, loss=None, share=0.9, visits=1.0, **sizes):
    """Returns a certificate near the largest residual with which the network is certified."""
    layers, x, _, labels = case(seed, **sizes)
    size = 1e-3
    for _ in range(30):
        problem = Problem(x, np.squeeze(labels(size), 1) if labels(size).shape[1] == 1 else labels(size))
        certificate = certify_layers(layers, problem, visits, loss=loss or band(BAND))
        if certificate.certified:
            return certificate
        size *= (
            share
            * (certificate.needed_residual or float(certificate.residual.hi) / 10)
            / float(certificate.residual.hi)
        )
    raise AssertionError(certificate.why)


def slow_fit(net, theta, x, low, high):
    """Returns the nearest point whose outputs are in the intervals.

    SLSQP finds it, independently of the adversary's Newton steps.
    """
    nearest = minimize(
        lambda t: ((t - theta) ** 2).sum() / 2,
        theta,
        jac=lambda t: t - theta,
        constraints=[
            {
                "type": "ineq",
                "fun": lambda t: np.concatenate([net.jacobian(t, x)[0] - low, high - net.jacobian(t, x)[0]]),
                "jac": lambda t: np.concatenate([net.jacobian(t, x)[1], -net.jacobian(t, x)[1]]),
            }
        ],
        method="SLSQP",
        options={"ftol": 1e-18, "maxiter": 200},
    )
    return nearest.x


@pytest.mark.parametrize("seed", range(4))
def test_the_lemmas_of_the_proof_hold_at_points_of_the_ball(seed):
    certificate = certified(seed, width=6)
    start, window, x = certificate.start, certificate.window, certificate.problem.x[certificate.kept]
    net, rng = FloatNetwork(start.curvature.layers), np.random.default_rng(seed)
    low, high = (end.reshape(-1) for end in certificate.loss.minimisers(certificate.problem.y[certificate.kept]))
    single, together = start.curvature.of_both(window.ball)
    s, first = start.least_root - together * window.ball, net.start()
    z, active = slow_fit(net, first, x, low, high), 0
    assert np.linalg.norm(z - first) <= window.distance * (1 + 1e-6)
    for _ in range(6):
        _, j = net.jacobian(first, x)
        way = j.T @ rng.standard_normal(len(j)) + 0.1 * rng.standard_normal(len(first))
        theta = first + way / np.linalg.norm(way) * window.distance * rng.uniform(0.3, 2)
        f, j = net.jacobian(theta, x)
        pull = np.clip(f, low, high) - f
        fit = slow_fit(net, theta, x, low, high)
        e = theta - fit
        delta = np.linalg.norm(e)
        if delta < 1e-7 * np.linalg.norm(theta):
            continue
        _, there = net.jacobian(fit, x)
        weights = np.linalg.lstsq(there.T, e, rcond=None)[0]
        assert np.linalg.norm(there.T @ weights - e) < 1e-3 * delta
        assert (weights * pull <= 1e-3 * np.abs(weights).max() * np.abs(pull).max()).all()
        assert np.linalg.norm(pull) >= s * delta * (1 - 1e-4)
        active += 1
        between = np.linalg.norm(fit - z) ** 2 * (1 - together * delta / s)
        assert between <= np.linalg.norm(theta - z) ** 2 - delta**2 + 1e-6 * delta**2
        chosen = rng.random(len(pull)) < 0.7
        eta = certificate.step_limit * rng.uniform(0, 1, len(pull)) * chosen
        for centre in (fit, z):
            e = theta - centre
            after, before = ((e + j.T @ (eta * pull)) ** 2).sum(), (e**2).sum()
            eps = 2 - certificate.step_limit * (np.sqrt(start.largest) + together * window.ball) ** 2
            grown = (eta * np.abs(pull) * single) @ np.ones(len(pull)) * before
            assert after <= before - eps * (eta * pull**2).sum() + grown + 1e-12 * before
    assert active


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(("seed", "visits", "outputs"), [(0, 1.0, 1), (1, 2.0, 1), (2, 1.0, 2), (5, 3.0, 2)])
def test_an_adversary_finds_nothing_under_a_band_and_breaks_what_claims_too_much(seed, visits, outputs):
    certificate = certified(seed, visits=visits, outputs=outputs)
    assert certificate.start.intervals and len(certificate.kept) <= certificate.problem.n
    attack = attack_network(certificate, trials=60, seed=seed)
    assert attack.broken is None and attack.windows >= 60 and attack.worst.distance > 0.02
    # One sample has a pull; with `left_out` no step is taken on it.
    alone = certified(seed, visits=visits, outputs=outputs, often=1)
    assert attack_network(alone, trials=60, seed=seed).broken is None
    assert attack_network(alone, trials=60, left_out=1).broken == "factor"
    closer = replace(
        certificate,
        window=replace(certificate.window, reach=certificate.window.reach / 50, distance=certificate.distance / 50),
    )
    assert attack_network(closer, trials=60).broken


LEFT_OUT, LONGER, SERVER = {"left_out": 1}, {"longer": 3.0}, {"server": 6.0}


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(
    ("seed", "loss", "breaking"),
    [
        # Here long steps break nothing, because they end beyond the margin, where the hinge has no slope.
        (20, HINGE, ()),
        (21, band(0.2), (LEFT_OUT,)),
        (22, huber(0.05), (LEFT_OUT, LONGER, SERVER)),
        (23, band(1e-6), (LEFT_OUT, LONGER, SERVER)),
    ],
)
def test_an_adversary_is_long_in_vain_and_soon_succeeds_without_a_hypothesis(seed, loss, breaking):
    certificate = loss_case(seed, 0.3, "fc:3:erf", 20, "random", loss=loss).certificate
    attack = attack_network(certificate, trials=1000, seed=seed)
    assert attack.broken is None and attack.windows >= 1000 and attack.worst.factor > 0.5
    for rule in breaking:
        assert attack_network(certificate, trials=500, seed=seed, **rule).broken == "factor", rule


def test_only_samples_that_may_get_a_pull_count():
    """A sample well inside its interval changes nothing, whereas a sample that may leave its interval is kept."""
    certificate = certified(3, samples=4, outputs=1)
    problem, layers = certificate.problem, certificate.start.curvature.layers
    extra = np.ones((1, 4))
    f = float(FloatNetwork(layers).forward(FloatNetwork(layers).start(), extra)[0][0, 0])
    moved = float(certificate.enclosure(extra).error[0])
    for away, kept in ((3 * moved, False), (0.1 * moved, True)):
        y = np.append(problem.y, f + BAND - away)
        wider = certify_layers(layers, Problem(np.vstack([problem.x, extra]), y), loss=band(BAND))
        assert (4 in wider.kept) is kept
        if not kept:
            assert (wider.reach, wider.distance, wider.step_limit) == (
                certificate.reach,
                certificate.distance,
                certificate.step_limit,
            )
        assert wider.to_dict()["kept"] == len(wider.kept) and "samples it rests on" in str(wider)


def test_all_losses_minimal_is_certified_at_once():
    layers, x, f, _ = case(1)
    certificate = certify_layers(layers, Problem(x, f[:, 0]), loss=band(BAND))
    assert certificate.certified and len(certificate.kept) >= 1 and certificate.reach < 1e-8


def test_hubers_loss_is_squares_while_outputs_stay_near_their_labels():
    layers, x, f, _ = case(2)
    problem = Problem(x, f[:, 0] + 1e-5 * np.array([1, -1, 1]))
    squares, wide_enough = (certify_layers(layers, problem, loss=loss) for loss in (SQUARES, huber(0.1)))
    assert squares.certified and wide_enough.certified and wide_enough.reach == squares.reach
    later = squares.enclosure(x)
    most = float((np.abs(later.value - problem.y) + later.error).max())
    assert certify_layers(layers, problem, loss=huber(most * 1.001)).certified
    narrow = certify_layers(layers, problem, loss=huber(most * 0.999))
    assert not narrow.certified and "from their labels, where the loss is linear" in narrow.why
    assert narrow.reach == np.inf


def test_a_band_narrower_than_rounding_is_still_no_point():
    """A band narrower than rounding counts as an interval, although its ends are one float.

    There is one bound for targets that are intervals, and another for targets that are single points. The second bound
    is not proved for a band.
    """
    layers, x, f, _ = case(3)
    problem = Problem(x, 1 + f[:, 0] * 0)
    narrow, wide_enough, squares = (
        certify_layers(layers, problem, loss=loss) for loss in (band(1e-30), band(1), SQUARES)
    )
    assert narrow.start.intervals and wide_enough.start.intervals and not squares.start.intervals


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (LOGISTIC, "has no minimiser"),
        (HINGE, r"the hinge loss takes -1 and \+1"),
        ("hing", "it must be squares, hinge"),
        (ConvexLoss("smoothed", *[lambda f, y: f] * 3, 1.0, lambda y: (y, y)), "smoothed is not half a squared"),
        (replace(band(0.1), halved=1.0), "is not half a squared"),
        (3, "loss"),
    ],
)
def test_losses_that_are_not_covered_are_refused(loss, why):
    layers, x, f, _ = case(0)
    with pytest.raises(ValueError, match=why):
        certify_layers(layers, Problem(x, f[:, 0]), loss=loss)


def test_samples_are_named_as_they_were_given():
    layers, x, f, _ = case(0, samples=4)
    y = f[:, 0] + np.array([0, BAND + 1e-3, 0, BAND + 1e-3])
    twice = certify_layers(layers, Problem(x[[0, 1, 2, 1]], y[[0, 1, 2, 1]]), loss=band(BAND))
    assert twice.kept.tolist() == [1, 3] and "those of samples 1 and 3" in twice.why


def test_equal_samples_are_told_apart_by_the_ends_of_their_intervals():
    """Equal samples are distinguished by the ends of their intervals.

    The bands of three equal samples meet in pairs, all together, or nowhere. The targets that the certificate computes
    are never called labels in messages.
    """
    layers, x, f, _ = case(0, samples=2)
    equal, start = x[[0, 1, 1, 1]], np.append(f[0], f[1].repeat(3)) + np.array([BAND / 2, 9, 9, 9])
    for offsets, why in (
        ([0, 0.05, 0.1], "the gradients are dependent, most of all those of samples"),
        ([0.3, 0, 0.5], f"samples 2 and 3 are equal, and their labels are {start[2]} and {start[3] + 0.5}: no output"),
    ):
        y = start + np.array([0, *offsets])
        refused = certify_layers(layers, Problem(equal, y), loss=band(BAND))
        assert not refused.certified and why in refused.why, refused.why
    signs = np.array([1, 1, -1, 1.0])
    assert (
        "are 1.0 and -1.0: no output minimises both hinge losses"
        in certify_layers(layers, Problem(equal, signs), loss=HINGE).why
    )
    near = Problem(equal, start - np.array([0, 9, 9, 9 - 1e-6]))
    assert "none fits both" in certify_layers(layers, near).why
    assert "no output minimises both huber:0.1 losses" in certify_layers(layers, near, loss=huber(0.1)).why


@pytest.mark.parametrize("loss", [HINGE, huber(0.1), SQUARES])
def test_a_loss_is_trained_on_by_algorithm_1(loss, monkeypatch):
    """Training on the loss equals a plain loop over clients and steps.

    The squared loss is trained both as squares and as a general loss.
    """
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((4, 3)), rng.choice([-1.0, 1.0], 4), np.array([0, 0, 0, 1]))
    setup, spec = Setup(width=8, eta_local=0.05, local_steps=3, eta_global=0.7), wide("fc:3:gelu:bias=0.2")
    monkeypatch.setattr("ntkfl.smooth_networks.watching.SQUARES", None)
    rounds = list(network_checkpoints(problem, setup, spec, 3, 1, loss=loss))
    assert [reached for reached, _ in rounds] == [0, 1, 2, 3]
    from ntkfl.smooth_networks.reading import layers_of

    net = FloatNetwork(layers_of(spec, rounds[0][1], 3))
    theta = net.start()
    for _ in range(3):
        moves = np.zeros_like(theta)
        for members in problem.members:
            own = theta
            for _ in range(3):
                f, kept = net.forward(own, problem.x[members])
                slope = loss.slope(f, problem.y[members][:, None])
                own = own - 0.05 * net.backward(kept, slope, together=True)
            moves += own - theta
        theta = theta + 0.7 / 2 * moves
    np.testing.assert_allclose(FloatNetwork(layers_of(spec, rounds[3][1], 3)).start(), theta, rtol=0, atol=1e-13)
    if loss is SQUARES:
        run = simulate_network(problem, replace(setup, rounds=3), spec.model((3,), 8, None), keep=[3])
        for name, value in run.weights[3].items():
            np.testing.assert_allclose(rounds[3][1][name], value, rtol=0, atol=1e-13)
