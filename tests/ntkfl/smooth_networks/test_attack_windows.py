"""Tests of the adversary that trains certified networks in windows, in which every sample is used.

The adversary breaks no certificate, and it breaks every claim that is too strong.
"""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from attack_windows import attacked as attacked_again, kept, quoted, sharpness, small
from small_networks import convolutional, jacobian, network, outputs

from ntkfl import Estimate, Problem
from ntkfl.smooth_networks import window
from ntkfl.smooth_networks.adversary import Windows, attack_network
from ntkfl.smooth_networks.certificate import NetworkCertificate, certify_layers
from ntkfl.smooth_networks.float_network import FloatNetwork
from ntkfl.smooth_networks.layers import Image
from ntkfl.smooth_networks.passes import passed


def attacked(certificate, windows=100, **broken_rule):
    attack = attack_network(certificate, trials=windows, **broken_rule)
    assert attack.broken or attack.windows >= windows
    return attack


class Narrow(NetworkCertificate):
    """A certificate that claims only a share of the proved widths of its output intervals."""

    share = 1.0

    def enclosure(self, x):
        whole = super().enclosure(x)
        return Estimate(whole.value, self.share * whole.error, whole.method)


GUIDE = Path(__file__).parents[3] / "docs" / "pages" / "deep_network_safe.py"


def test_no_stored_network_was_broken_and_the_guide_quotes_their_rows():
    rows = kept()
    assert [row["seed"] for row in rows] == list(range(len(rows))) and len(rows) == 200
    for row in rows:
        assert row["certified"] and row["broken"] is None and row["windows"] >= 2000 and row["sharpness"] >= 1
        assert all(0 <= row[claim] <= 1 for claim in ("fall", "factor", "distance", "reach", "outputs"))
    guide = " ".join(GUIDE.read_text(encoding="utf-8").replace("\n#", " ").split())
    for sentence in quoted(rows):
        assert sentence in guide, sentence


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 58, 131, 199])
def test_a_stored_network_is_attacked_again_with_the_same_outcome(seed):
    row, again = kept()[seed], attacked_again(seed)
    assert again.pop("broken") is row.pop("broken") is None
    assert again == pytest.approx(row, rel=1e-3)


def test_no_claim_is_broken_by_rounding_where_weights_are_tiny():
    layers = tuple(
        replace(layer, weight=np.ldexp(layer.weight, -520), bias=np.ldexp(layer.bias, -1074))
        for layer in network(0, [4, 6, 4], ["softplus"])
    )
    x = np.eye(1, 4)
    problem = Problem(x, passed(layers, x).outputs.value + 1e-4 * np.array([[1, -1, 0.5, 2]]))
    certificate = certify_layers(layers, problem)
    assert certificate.certified
    attack = attack_network(certificate, trials=40)
    assert attack.broken is None and attack.windows > 0


@pytest.mark.parametrize("seed", [1, 4])
def test_claims_that_are_too_large_are_broken(seed, monkeypatch):
    _, _, certificate = small(seed)
    window = certificate.window
    attack = attacked(certificate)
    honest = attack.worst
    assert attack.broken is None and attack.to_dict()["windows"] == attack.windows
    assert 0 < max(honest.fall, honest.factor, honest.distance, honest.reach, honest.outputs) < 1
    for too_much, claim in (
        ({"distance": window.distance / 2}, "distance"),
        ({"reach": window.reach * honest.reach / 2}, "reach"),
        ({"alpha": 10 * window.alpha}, "factor"),
    ):
        attack = attacked(replace(certificate, window=replace(window, **too_much)))
        assert attack.broken and getattr(attack.worst, claim) > 1, claim
    known = {name: getattr(certificate, name) for name in (of.name for of in fields(certificate))}
    assert attacked(Narrow(**known)).broken is None
    monkeypatch.setattr(Narrow, "share", honest.outputs / 2)
    assert attacked(Narrow(**known)).broken == "outputs"


def test_bounds_of_second_derivatives_are_at_least_the_largest_that_are_met():
    layers, problem, certificate = small(4)
    assert 1 <= sharpness(layers, problem.x, certificate, 2) < 3
    curvature = certificate.start.curvature
    rows = {name: [size / 10 for size in getattr(curvature.alone, name)] for name in ("before", "after")}
    bent = replace(curvature, alone=curvature.alone._replace(**rows))
    with pytest.raises(AssertionError):
        sharpness(layers, problem.x, replace(certificate, start=replace(certificate.start, curvature=bent)), 2)


def claimed(certificate, residual=1.0, **start):
    """Returns a certificate for `residual` times the true residual.

    `start` replaces numbers that the certificate uses about the checkpoint.
    """
    known = replace(certificate.start, **start)
    judged = window.largest_step(known, residual * float(certificate.residual.hi), 1.0, 20)
    assert isinstance(judged, window.Window), judged
    return replace(certificate, certified=True, window=judged)


def twins(_):
    """Returns a false certificate: in place of the smallest singular value it uses a larger one, the second smallest.

    Two samples are nearly equal and have different labels.
    """
    x = np.eye(3, 4)
    x[1] = x[0] + 0.02 * x[1]
    layers = network(5, [4, 30, 1], ["tanh"])
    f = passed(layers, x).outputs.value[:, 0]
    problem = Problem(x, f + 1e-5 * np.array([1, -1, 0]))
    certificate = certify_layers(layers, problem)
    values = np.linalg.eigvalsh(kernel_of(layers, x))
    return claimed(certificate, least_root=np.sqrt(values[1]))


def kernel_of(layers, x):
    done = passed(layers, x)
    return done.kernel([done.input_products(k) for k in range(len(layers))]).value


def far(_):
    """Returns a false certificate, which uses a thirtieth of the true residual."""
    layers, problem, _ = small(4)
    f = passed(layers, problem.x).outputs.value[:, 0]
    problem = Problem(problem.x, f + 30 * (problem.y - f))
    return claimed(certify_layers(layers, problem), residual=1 / 30)


def kinked(monkeypatch):
    """Returns a false certificate of a ReLU network, which does not check the kinks.

    Two neurons are active, and the others are nearly at their kinks.
    """
    monkeypatch.setattr(window, "at_a_kink", lambda *given: None)
    hidden, readout = network(3, [4, 12, 1], ["relu"])
    x = np.eye(2, 4)
    z = np.full(12, 1e-9)
    z[:2] = 0.3
    layers = (
        replace(hidden, bias=(z - hidden.scale * hidden.weight @ x[0]) / hidden.bias_scale),
        replace(readout, weight=np.abs(readout.weight)),
    )
    problem = Problem(x, passed(layers, x).outputs.value[:, 0] - 1e-4 * np.array([1, 0]))
    return certify_layers(layers, problem)


def often(_):
    """Returns a certificate for steps far below the limit.

    If only the second sample is trained on, the weights move away from all fits.
    """
    layers, x = network(5009, [2, 2, 1], ["identity"], biases=False), np.array([[1, 0], [0.43, 1.55]])
    f, step = passed(layers, x).outputs.value[:, 0], 2e-5
    off = np.array([0.029, 0.0])
    for _ in range(5):
        certificate = certify_layers(layers, Problem(x, f + off), step=step)
        trial = Windows(certificate, np.random.default_rng(0))
        gradients = trial.network.jacobian(trial.start, x)[1]
        off[1] -= gradients[1] @ (trial.to_fit(trial.start)[1] - trial.start)
    assert certificate.certified and attack_network(certificate, trials=10).broken is None
    return certificate


def unstable():
    """Returns the ratio of an unstable step on all samples to the certificate's step limit."""
    _, _, certificate = small(4)
    return 3 / (certificate.step_limit * certificate.start.largest)


MISSING = {
    "singular value": (twins, {}),
    "residual": (far, {}),
    "kinks": (kinked, {}),
    "steps": (lambda _: small(4)[2], {"longer": unstable()}),
    "server": (lambda _: small(4)[2], {"server": 2 * unstable()}),
    "a sample that is left out": (lambda _: small(4)[2], {"left_out": 1}),
    "a sample that comes too often": (often, {"visits": 4e4}),
}


@pytest.mark.parametrize(
    "hypothesis",
    [pytest.param(name, marks=pytest.mark.slow if name.startswith("a sample that comes") else ()) for name in MISSING],
)
def test_a_claim_is_broken_where_a_hypothesis_is_missing(hypothesis, monkeypatch):
    made, broken_rule = MISSING[hypothesis]
    attack = attacked(made(monkeypatch), **broken_rule)
    assert attack.broken and "an adversary broke the claim of " in str(attack), attack


GENERAL = {
    "two outputs, frozen layer": network(1, [4, 9, 7, 2], ["gelu", "tanh"], frozen=(1,)),
    "residual blocks": network(2, [4, 6, 6, 6, 1], ["erf", "sin", "silu"], blocks=((1, 2), (1, 1))),
    "no biases, relu": network(3, [4, 8, 8, 3], ["relu", "softplus"], biases=False),
    "convolutions, pooled": convolutional(4, Image(3, 4, 3), (2, 3, 3), ["tanh", "gelu"], blocks=((1, 1),)),
    "convolutions, strided": convolutional(5, Image(5, 4, 3, 2), (1, 2, 3), ["erf", "relu"], pools=False),
}


@pytest.mark.parametrize("name", GENERAL)
def test_its_networks_are_those_that_are_certified(name):
    """The adversary's networks have torch's outputs and torch's gradients, for single samples and for sums of
    samples.
    """
    layers, rng = GENERAL[name], np.random.default_rng(0)
    x, mine = rng.standard_normal((3, layers[0].n_inputs)), FloatNetwork(layers)
    theta = mine.start() + 0.1 * rng.standard_normal(len(mine.start()))
    f, j = mine.jacobian(theta, x)
    np.testing.assert_allclose(f, outputs(layers, torch.tensor(theta), x).numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(j, jacobian(layers, torch.tensor(theta), x).numpy(), rtol=1e-9, atol=1e-11)
    pulls = rng.standard_normal((3, len(f) // 3))
    _, kept = mine.forward(theta, x)
    np.testing.assert_allclose(mine.backward(kept, pulls, together=True), pulls.reshape(-1) @ j, rtol=1e-9, atol=1e-11)


def test_what_is_no_attack_is_refused():
    certificate = small(1)[2]
    with pytest.raises(ValueError, match="nothing is claimed that could be broken, as the network is not certified: "):
        attack_network(replace(certificate, certified=False, why="far"))
    for options, why in (
        ({"trials": 0}, "trials is 0"),
        ({"longer": -1}, "longer is -1; it must be positive"),
        ({"server": "far"}, "server is 'far'; it must be a number"),
        ({"visits": 0.5}, "visits is 0.5; it must be 1 or more"),
        ({"left_out": certificate.problem.n}, "one must be visited"),
    ):
        with pytest.raises(ValueError, match=why):
            attack_network(certificate, **options)
