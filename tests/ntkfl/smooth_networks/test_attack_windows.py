"""The adversary of windows: it finds nothing against a certificate, and does where one claims too much."""

from dataclasses import replace

import numpy as np
import pytest
from attack_windows import Run, sharpness, small
from small_networks import network

from ntkfl import Problem
from ntkfl.smooth_networks import window
from ntkfl.smooth_networks.certificate import certify_layers
from ntkfl.smooth_networks.passes import passed


def worst(layers, problem, certificate, windows=100, **broken_rule):
    run = Run(layers, problem, certificate, np.random.default_rng(0), **broken_rule)
    run.windows(windows)
    assert run.worst.windows >= windows
    return run.worst


@pytest.mark.parametrize("seed", [1, 4])
def test_claims_that_are_too_large_are_broken(seed):
    layers, problem, certificate = small(seed)
    window = certificate.window
    honest = worst(layers, problem, certificate)
    assert 0 < max(honest.fall, honest.factor, honest.distance, honest.reach, honest.outputs) < 1
    for too_much, claim in (
        ({"distance": window.distance / 2}, "distance"),
        ({"reach": window.reach * honest.reach / 2}, "reach"),
        ({"gain": 10 * window.gain}, "factor"),
        ({"reach": window.reach * honest.outputs / 3}, "outputs"),
    ):
        broken = worst(layers, problem, replace(certificate, window=replace(window, **too_much)))
        assert getattr(broken, claim) > 1, claim


def test_bounds_of_second_derivatives_are_at_least_the_largest_that_are_met():
    layers, problem, certificate = small(4)
    assert 1 <= sharpness(layers, problem.x, certificate, 2) < 3
    curvature = certificate.start.curvature
    rows = {name: [size / 10 for size in getattr(curvature.alone, name)] for name in ("before", "after")}
    bent = replace(curvature, alone=replace(curvature.alone, **rows))
    with pytest.raises(AssertionError):
        sharpness(layers, problem.x, replace(certificate, start=replace(certificate.start, curvature=bent)), 2)


def claimed(certificate, residual=1.0, **start):
    """The certificate that comes out with so many times the residual, and with these numbers at the checkpoint."""
    known = replace(certificate.start, **start)
    judged = window.largest_step(known, residual * float(certificate.residual.hi), 1.0, 20)
    assert isinstance(judged, window.Window), judged
    return replace(certificate, certified=True, window=judged)


def twins(_):
    """Two samples are nearly the same, and their labels differ by more: the smallest singular value is not known."""
    x = np.eye(3, 4)
    x[1] = x[0] + 0.02 * x[1]
    layers = network(5, [4, 30, 1], ["tanh"])
    f = passed(layers, x).outputs.value[:, 0]
    problem = Problem(x, f + 1e-5 * np.array([1, -1, 0]))
    certificate = certify_layers(layers, problem)
    values = np.linalg.eigvalsh(kernel_of(layers, x))
    return layers, problem, claimed(certificate, least_root=np.sqrt(values[1]))


def kernel_of(layers, x):
    done = passed(layers, x)
    return done.kernel([done.input_products(k) for k in range(len(layers))]).value


def far(_):
    """A residual 30 times as large as the certificate takes it to be."""
    layers, problem, _ = small(4)
    f = passed(layers, problem.x).outputs.value[:, 0]
    problem = Problem(problem.x, f + 30 * (problem.y - f))
    return layers, problem, claimed(certify_layers(layers, problem), residual=1 / 30)


def kinked(monkeypatch):
    """ReLU, all but two neurons hardly active, and nobody asks whether they reach their kinks."""
    monkeypatch.setattr(window, "at_a_kink", lambda curvature, radius: None)
    hidden, readout = network(3, [4, 12, 1], ["relu"])
    x = np.eye(2, 4)
    z = np.full(12, 1e-9)
    z[:2] = 0.3
    layers = (
        replace(hidden, bias=(z - hidden.scale * hidden.weight @ x[0]) / hidden.bias_scale),
        replace(readout, weight=np.abs(readout.weight)),
    )
    problem = Problem(x, passed(layers, x).outputs.value[:, 0] - 1e-4 * np.array([1, 0]))
    return layers, problem, certify_layers(layers, problem)


def unstable():
    """How much longer than the certificate's a step on all samples is that no kernel as large as this one allows."""
    _, _, certificate = small(4)
    return 3 / (certificate.step_limit * certificate.start.largest)


MISSING = {
    "singular value": (twins, {}),
    "residual": (far, {}),
    "kinks": (kinked, {}),
    "steps": (lambda _: small(4), {"longer": unstable()}),
    "server": (lambda _: small(4), {"server": 2 * unstable()}),
    "visits": (lambda _: small(4), {"left_out": 1}),
}


@pytest.mark.parametrize("hypothesis", MISSING)
def test_a_claim_is_broken_where_a_hypothesis_is_missing(hypothesis, monkeypatch):
    made, broken_rule = MISSING[hypothesis]
    shares = worst(*made(monkeypatch), **broken_rule)
    assert max(shares.fall, shares.factor, shares.distance, shares.reach, shares.outputs) > 1, shares
