"""Tests of certificates for methods whose servers or clients keep a memory, from a checkpoint on.

The tests concern the linear maps of rounds, the need for every hypothesis, and real training: models must stay within
the certified distance of the fit.
"""

import numpy as np
import pytest
from exact_certificate import fitted

from bounds.fl_ntk.cases.certified_method import METHODS, MethodRun as Training, named
from ntkfl import Estimate, Problem, Setup, Weights, certify_any_order, certify_method, kernel_regime
from ntkfl.any_order import method_certificate
from ntkfl.any_order.method_certificate import enclosed_norm, round_matrices
from ntkfl.connectivity.network import AffineTwoLayer, TwoLayer
from ntkfl.training.methods import build
from ntkfl.training.objectives import HalfSquares


def small(seed, distance=1e-4):
    problem, weights = fitted(seed, n=4, d=5, width=64, distance=distance)
    return Problem(problem.x, problem.y, np.array([0, 0, 0, 1])), weights


@pytest.mark.parametrize("kind", METHODS)
def test_a_round_is_the_map_of_the_kernel_regime(kind):
    """The maps of a round equal those of other code.

    The other code uses the training engine, or the eigenvectors of the blocks.
    """
    name, options = named(kind)
    rng = np.random.default_rng(3)
    features = rng.standard_normal((7, 9))
    problem = Problem(features, rng.standard_normal(7), np.array([0, 1, 1, 2, 0, 1, 2]))
    kernel, setup = features @ features.T / 9, Setup(eta_local=0.3, local_steps=3)
    method = build(name, HalfSquares("sum"), **options)
    maps = round_matrices(method, Estimate.exact(kernel), problem.owner, 0.3, 3)
    expected = kernel_regime(problem, setup, kernel, name, options).round_map
    np.testing.assert_allclose(maps.state.value, np.asarray(expected), rtol=1e-9, atol=1e-12)
    assert maps.state.error.max() < 1e-11 and (len(maps.models), len(maps.ends)) == (7, 3)


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training_stays_in_its_ball_and_keeps_its_rate(kind, seed):
    """In twenty-four problems training never gets farther from the fit than the certificate says."""
    name, options = named(kind)
    problem, weights = small(seed)
    setup = Setup(eta_local=0.3, local_steps=3)
    certificate = certify_method(problem, weights, setup, name, options)
    assert certificate.certified, certificate.why
    own = certificate.spectral_radius
    assert own <= certificate.rate < own + 2e-4 * (1 - own) + 1e-8
    assert certificate.distance.lo <= certificate.radius and certificate.within(0) <= certificate.radius * (1 + 1e-8)
    point = certify_any_order(problem, weights).fitted_weights()
    np.testing.assert_allclose((certificate.fitted_weights() - point).astype(float), 0, atol=1e-15)
    run, seen = Training(problem, weights, kind, 0.3, 3), np.random.default_rng(seed).standard_normal((20, 5))
    before, outputs = run.residual(), certificate.enclosure(seen)
    for t in range(30):
        farthest = max(float(np.linalg.norm((w - point).astype(float))) for w in run.models)
        assert farthest <= certificate.within(max(t - 1, 0)) + 1e-12
        later = np.maximum(seen @ run.at.T, 0) @ run.signs
        assert ((outputs.lo <= later) & (later <= outputs.hi)).all()
        run.round()
    assert run.frozen and run.residual() < before


@pytest.mark.parametrize("kind", ["fedavgm", "fedavgm, Nesterov", "scaffold", "scaffold, option I", "feddyn"])
def test_a_memory_from_before_is_followed(kind):
    """A certificate with a memory from earlier rounds holds.

    The memory is larger than the residual, so that it first moves models farther away than an empty memory would.
    """
    name, options = named(kind)
    problem, weights = small(1, distance=1e-5)
    setup = Setup(eta_local=0.3, local_steps=3)
    kept = np.random.default_rng(2).standard_normal(4) * 3e-4
    certificate = certify_method(problem, weights, setup, name, options, remembered=kept)
    assert certificate.certified, certificate.why
    point = certify_any_order(problem, weights).fitted_weights()
    run, start = Training(problem, weights, kind, 0.3, 3, kept), 0.0
    for t in range(40):
        farthest = max(float(np.linalg.norm((w - point).astype(float))) for w in run.models)
        start = max(start, farthest)
        assert farthest <= certificate.within(max(t - 1, 0)) + 1e-12
        run.round()
    empty = certify_method(problem, weights, setup, name, options)
    assert run.frozen and start > empty.radius
    assert any("the memory that was given" in condition for condition in certificate.conditions())
    assert any("no memory" in condition for condition in empty.conditions())
    larger = certify_method(problem, weights, setup, name, options, remembered=1e4 * kept)
    # A smaller residual does not shrink the memory, so no smaller residual would be enough.
    assert not larger.certified and larger.needed_residual is None
    with pytest.raises(ValueError, match="remembered has shape"):
        certify_method(problem, weights, setup, name, options, remembered=kept[:2])
    with pytest.raises(ValueError, match="fedavg remembers nothing"):
        certify_method(problem, weights, setup, "fedavg", remembered=kept)


def test_the_memory_is_needed():
    """The memory matters: each of two methods is certified at step sizes at which the other is not.

    Without momentum, FedAvg contracts for some steps at which heavy ball or Nesterov's momentum do not, and the other
    way round.
    """
    problem, weights = small(0)
    largest = float(np.linalg.eigvalsh(kernel_of(problem, weights))[-1])
    owner = np.zeros(4, int)
    one = Problem(problem.x, problem.y, owner)
    long = Setup(eta_local=2.4 / largest, local_steps=1)
    assert "spectral radius" in certify_method(one, weights, long, "fedavg").why
    assert certify_method(one, weights, long, "fedavgm", {"momentum": 0.5}).spectral_radius < 1
    longer = Setup(eta_local=1.7 / largest, local_steps=1)
    assert certify_method(one, weights, longer, "fedavg").certified
    nesterov = certify_method(one, weights, longer, "fedavgm", {"momentum": 0.9, "nesterov": True})
    assert not nesterov.certified and "spectral radius" in nesterov.why
    run = Training(one, weights, "fedavgm", longer.eta_local, 1)
    run.options = {"momentum": 0.9, "nesterov": True}
    start = run.residual()
    for _ in range(40):
        run.round()
    assert run.residual() > start


def kernel_of(problem, weights):
    active = (problem.x @ weights.hidden.T > 0).astype(float)
    return problem.x @ problem.x.T * (active @ active.T) / len(weights.signs)


def test_neurons_near_their_kinks_are_named_and_change_sides():
    """The margins at kinks are needed.

    Some networks with one pair near its kink change a pattern in training, and these networks are refused.
    """
    problem, weights = small(1, distance=1e-3)
    setup, options = Setup(eta_local=0.3, local_steps=3), {"momentum": 0.9}
    point = certify_any_order(problem, weights).fitted_weights()
    push = (point - weights.hidden).astype(float) @ problem.x.T
    changed = 0
    for place in np.abs(push).argsort(axis=None)[::-1][:6]:
        r, i = np.unravel_index(place, push.shape)
        for side in (1, -1):
            w, x = weights.hidden.copy(), problem.x[i]
            w[r] -= (w[r] @ x - side * 0.1 * abs(push[r, i])) / (x @ x) * x
            moved = Weights(w, weights.signs)
            outputs = moved.outputs(problem.x)
            near = Problem(problem.x, outputs + problem.y - weights.outputs(problem.x), problem.owner)
            certificate = certify_method(near, moved, setup, "fedavgm", options)
            assert (
                not certificate.certified
                and f"({r}, {i})" in certificate.why
                and certificate.needed_residual is not None
            )
            run = Training(near, moved, "fedavgm", 0.3, 3)
            run.options = options
            for _ in range(10):
                run.round()
            changed += not run.frozen
    assert changed
    assert (certificate.final(problem.x) == "open").all() and np.isinf(certificate.enclosure(problem.x).error).all()
    nearer = Problem(
        near.x, outputs + (near.y - outputs) * certificate.needed_residual / certificate.residual.hi, near.owner
    )
    assert certify_method(nearer, moved, setup, "fedavgm", options).certified


@pytest.mark.parametrize("kind", ["fedavgm", "scaffold"])
def test_numbers_of_a_norm_are_upper_bounds_for_any_matrix(kind):
    """The numbers `rate`, `met` and `reach` of a norm are upper bounds of the exact quantities at random vectors.

    The norms are those that the certificate tries, changed at random.
    """
    name, options = named(kind)
    rng = np.random.default_rng(5)
    features = rng.standard_normal((4, 6))
    kernel, residual = features @ features.T / 6, rng.standard_normal(4)
    maps = round_matrices(
        build(name, HalfSquares("sum"), **options), Estimate.exact(kernel), np.array([0, 0, 1, 1]), 0.1, 2
    )
    for candidate in method_certificate._candidates(maps, kernel, 0.999):
        s = candidate @ (np.eye(8) + 0.02 * rng.standard_normal((8, 8)))
        begin = np.append(residual, 0.1 * rng.standard_normal(4))
        norm = enclosed_norm(maps, Estimate.exact(kernel), Estimate.exact(begin), s)
        if isinstance(norm, str):
            assert np.linalg.norm(s @ maps.state.value @ np.linalg.inv(s), 2) > 1 - 1e-9
            continue
        z = rng.standard_normal((8, 2000))
        size = np.linalg.norm(s @ z, axis=0)
        assert (np.linalg.norm(s @ (maps.state.value @ z), axis=0) <= norm.rate * size).all()
        for reach, models in ((norm.gradient_reach, maps.models), (norm.reach, maps.ends)):
            for model in models:
                left = model.value @ z
                assert (np.sqrt(np.einsum("ik,ik->k", left, np.linalg.solve(kernel, left))) <= reach * size).all()
        assert norm.start == pytest.approx(np.linalg.norm(s @ begin), rel=1e-8)


def test_nothing_rests_on_inverses_of_float64(monkeypatch):
    """If float64 inverses are wrong by a factor and noise, bounds get wider, and no number gets too small."""
    rng = np.random.default_rng(6)
    features = rng.standard_normal((4, 6))
    kernel, residual = features @ features.T / 6, rng.standard_normal(4)
    maps = round_matrices(
        build("fedavgm", HalfSquares("sum"), momentum=0.3), Estimate.exact(kernel), np.array([0, 0, 1, 1]), 0.3, 2
    )
    inverse, root, shown = np.linalg.inv, np.linalg.cholesky(kernel), 0
    for s in list(method_certificate._candidates(maps, kernel, 0.95)):
        rate = np.linalg.norm(s @ maps.state.value @ inverse(s), 2)
        met, last = (
            max(np.linalg.norm(np.linalg.solve(root, model.value @ inverse(s)), 2) for model in models)
            for models in (maps.models, maps.ends)
        )
        begin = Estimate.exact(np.append(residual, np.zeros(4)))
        for factor in (0.6, 0.9):
            noise = np.eye(8) + 1e-5 * rng.standard_normal((8, 8))
            with monkeypatch.context() as patch:
                patch.setattr(np.linalg, "inv", lambda a, by=factor * noise: inverse(a) @ by[: len(a), : len(a)])
                norm = enclosed_norm(maps, Estimate.exact(kernel), begin, s)
            if not isinstance(norm, str):
                shown += 1
                assert norm.rate >= rate and norm.gradient_reach >= met and norm.reach >= max(met, last)
    assert shown == 12


def test_clients_that_overshoot_are_in_the_ball():
    """If clients overshoot while the server converges, the certificate covers the clients' models.

    Local steps of 2.2 / kernel oscillate with growing amplitude, so that only the clients' models get farther from W*
    than |W0 - W*|. The last of three local models is farthest. About this last model the certificate claims only its
    distance from W*, because patterns may change there.
    """
    problem, weights = fitted(3, n=1, d=4, width=40, clients=1, distance=1e-3)
    setup, options = Setup(eta_local=2.2 / kernel_of(problem, weights).item(), local_steps=3), {"server_rate": 0.3}
    certificate = certify_method(problem, weights, setup, "fedavg", options)
    assert certificate.certified, certificate.why
    assert certificate.radius == pytest.approx(1.2**3 * float(certificate.distance.value), rel=1e-6)
    point = certify_any_order(problem, weights).fitted_weights()
    run = Training(problem, weights, "fedavg", setup.eta_local, 3)
    run.options = options
    run.round()
    farthest = max(float(np.linalg.norm((w - point).astype(float))) for w in run.models)
    assert run.frozen and 0.999 * certificate.radius < farthest <= certificate.radius

    x, push = problem.x[0], (point - weights.hidden).astype(float) @ problem.x[0]
    r = int(push.argmin())

    def beside(far):
        """Returns a problem and a network with w*_r.x = -far push[r], and the run after one round.

        `push`[r] is the change of w_r.x from the start to W*, and is negative.
        """
        w = weights.hidden.copy()
        w[r] -= (w[r] @ x + (1 + far) * push[r]) / (x @ x) * x
        moved = Weights(w, weights.signs)
        near = Problem(problem.x, moved.outputs(problem.x) + problem.y - weights.outputs(problem.x))
        run = Training(near, moved, "fedavg", setup.eta_local, 3)
        run.options = options
        run.round()
        return near, moved, run

    # Neuron r is active at the start, at W* and at every server model, but not after one local step.
    near, moved, run = beside(1.1)
    assert certify_any_order(near, moved).certified
    refused = certify_method(near, moved, setup, "fedavg", options)
    assert not refused.certified and f"({r}, 0)" in refused.why
    assert not run.frozen and run.at[r] @ x > 0
    # Neuron r is inactive after three local steps, at a model where no gradient is taken.
    near, moved, run = beside(1.6)
    again = certify_method(near, moved, setup, "fedavg", options)
    assert again.certified and run.models[-2][r] @ x < 0 and run.frozen
    assert again.radius == pytest.approx(certificate.radius, rel=1e-6)


def test_several_outputs_and_a_torch_head():
    problem, network = fitted(2, n=3, d=5, width=80, distance=1e-4, outputs=2)
    setup = Setup(eta_local=0.2, local_steps=2)
    certificate = certify_method(problem, network, setup, "scaffold")
    assert certificate.certified, certificate.why
    head = AffineTwoLayer(network.hidden, network.readout, np.zeros(80), np.array([0.5, -1.0]))
    y = problem.y + head.output_bias
    biased = certify_method(Problem(problem.x, y, problem.owner), head, setup, "scaffold")
    assert biased.certified and biased.enclosure(problem.x).value == pytest.approx(y, abs=1e-2)
    assert certificate.to_dict()["rate"] == certificate.rate and "CERTIFIED for scaffold" in str(certificate)


def test_what_is_no_question_is_refused():
    problem, weights = small(0)
    setup = Setup(eta_local=0.3)
    for method, options, message in (
        ("fedadam", {}, "the method is fedadam; this certificate covers fl-ntk"),
        ("fedavgm", {"momentum": 1.5}, "momentum"),
        ("fedavg", {"speed": 2}, "no option 'speed'"),
    ):
        with pytest.raises(ValueError, match=message):
            certify_method(problem, weights, setup, method, options)
    with pytest.raises(ValueError, match="feddyn has no server_rate: leave it at 1"):
        certify_method(problem, weights, Setup(eta_global=2.0), "feddyn")
    with pytest.raises(ValueError, match=r"takes .* GB, and memory is"):
        certify_method(problem, weights, setup, memory=1e6)
    x, y = problem.x.copy(), problem.y.copy()
    x[3], y[3] = 2 * x[1], 2 * y[1]
    twin = certify_method(Problem(x, y, problem.owner), weights, setup)
    assert not twin.certified and twin.why.startswith("samples 1 and 3 have one direction")
    y[3] += 1
    assert "no network has both" in certify_method(Problem(x, y, problem.owner), weights, setup).why
    far = certify_method(problem, weights, Setup(eta_local=1e200, local_steps=9))
    assert not far.certified and "NOT CERTIFIED" in str(far)
    least = certify_method(problem, weights, Setup(eta_local=5e-324, local_steps=5), "scaffold")
    assert not least.certified and "could not be enclosed" in least.why
    one = TwoLayer(np.ones((1, 5)), np.ones(1))
    assert "full row rank" in certify_method(problem, one, setup).why
