"""Tests of neurons that gather at kinks while both layers of a ReLU network are trained.

The statements are those of docs/proofs/smooth_networks.md. A held pair is a neuron and a sample such that the neuron
stays at the sample's kink.
"""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ntkfl import data
from ntkfl.networks import wide
from ntkfl.smooth_networks import certify_network

NETWORKS = [(n, m, seed) for n, m in ((5, 32), (5, 256)) for seed in (0, 1)]
NETWORKS += [(n, m, seed) for n in (10, 20) for m in (64, 256, 1024) for seed in (0, 1)]
CERTIFIES = (5, 32, 1)  # No neuron of this network stays at a kink.
QUICK = [CERTIFIES, (5, 256, 0), (10, 64, 1)]
SLOW = [pytest.param(of, marks=pytest.mark.slow) for of in NETWORKS if of not in QUICK]


class TwoLayer(NamedTuple):
    """A network with the outputs c a . max(W x, 0) on the rows of x."""

    a: np.ndarray
    w: np.ndarray
    x: np.ndarray
    c: float

    def z(self):
        return self.x @ self.w.T

    def outputs(self):
        return self.c * np.maximum(self.z(), 0) @ self.a

    def jacobian(self, on=None):
        """Returns every sample's derivatives in a, then in W; `on` is the derivative of max for every pair."""
        on = self.z() > 0 if on is None else on
        hidden = (on * self.a)[:, :, None] * self.x[:, None, :]
        return self.c * np.concatenate([np.maximum(self.z(), 0), hidden.reshape(len(self.x), -1)], axis=1)

    def moved(self, by):
        m = len(self.a)
        return self._replace(a=self.a + by[:m], w=self.w + by[m:].reshape(self.w.shape))

    def to(self, other):
        return np.concatenate([other.a - self.a, (other.w - self.w).ravel()])

    def curvature(self):
        """Returns the constants L_i of the samples."""
        return self.c * np.linalg.norm(self.x, axis=1)


def without_held(network, held):
    """Returns J P, in which each neuron's derivatives are projected.

    The projected derivatives are orthogonal to the samples at whose kinks the neuron is held.
    """
    m, n = len(network.a), len(network.x)
    j = network.jacobian((network.z() > 0) & ~held)
    hidden = j[:, m:].reshape(n, m, -1).copy()
    for r in np.flatnonzero(held.any(axis=0)):
        along = np.linalg.qr(network.x[held[:, r]].T)[0]
        hidden[:, r] -= hidden[:, r] @ along @ along.T
    return np.concatenate([j[:, :m], hidden.reshape(n, -1)], axis=1)


def ball(network, residual):
    """Returns rho, the pairs whose kinks the ball may reach, and s_A, or None if the theorem on flows does not
    apply.
    """
    lengths, turn = np.linalg.norm(network.x, axis=1)[:, None], np.linalg.norm(network.curvature())
    rho, known = 0.0, -1
    for _ in range(400):
        held = np.abs(network.z()) <= rho * lengths
        if held.sum() != known:
            known, least = held.sum(), np.linalg.svd(without_held(network, held), compute_uv=False)[-1]
        slowest = least - turn * rho
        if slowest <= 0:
            return None
        if residual < slowest * rho:
            return rho, held, slowest
        rho = 1.02 * max(rho, residual / slowest)
    return None


def descended(n, width, seed, levels):
    """Trains both layers by full gradient descent.

    Yields the problem, the network and |r| as |r| falls to each of these levels.
    """
    problem, form = data.digits(n=n, seed=seed), wide("fc:2:relu")
    start = {name: value.numpy() for name, value in form.model((problem.d,), width).initial(seed).items()}
    network = TwoLayer(start["readout.weight"], start["layer1.weight"], problem.x, width**-0.5)
    step = 0.3 / np.linalg.norm(network.jacobian(), 2) ** 2
    for level in levels:
        while (size := np.linalg.norm(r := problem.y - network.outputs())) > level:
            pull = (r[:, None] * (network.z() > 0)).T @ problem.x * network.a[:, None]
            hidden = network.c * np.maximum(network.z(), 0).T @ r
            network = network._replace(a=network.a + step * hidden, w=network.w + step * network.c * pull)
        yield problem, network, size


@pytest.mark.parametrize("of", QUICK + SLOW)
def test_neurons_that_gather_end_the_certificate_of_frozen_patterns_and_not_that_of_flows(of):
    judged = []
    for problem, network, size in descended(*of, [1e-2, 1e-4, 1e-6, 1e-8]):
        params = {"layer1.weight": network.w, "readout.weight": network.a}
        certificate = certify_network(wide("fc:2:relu"), params, problem)
        assert float(certificate.residual.value) == pytest.approx(size, rel=1e-6)
        judged.append(certificate.certified)
        if of != CERTIFIES:
            assert "may reach its kink" in certificate.why
            assert (certificate.needed_residual or 0.0) < 0.003 * size
        proved = ball(network, size)
        assert proved is not None and (of == CERTIFIES or proved[1].any())
    assert judged == ([False, False, True, True] if of == CERTIFIES else [False] * 4)


def test_the_flow_stays_and_falls_as_is_proved():
    """With steps so short that training is nearly the flow, the proved bounds hold, while pairs cross kinks all the
    time.
    """
    problem, network, size = next(descended(5, 256, 0, [1e-2]))
    rho, held, slowest = ball(network, size)
    at, time, crossings = network, 0.0, 0
    step = 0.02 / np.linalg.norm(network.jacobian(), 2) ** 2
    for _ in range(4000):
        r = problem.y - at.outputs()
        assert np.linalg.norm(r) <= size * np.exp(-(slowest**2) * time) * (1 + 1e-3)
        assert np.linalg.norm(network.to(at)) <= size / slowest < rho
        after = at.moved(step * at.jacobian().T @ r)
        crossed = (after.z() > 0) != (at.z() > 0)
        assert not (crossed & ~held).any()
        at, time, crossings = after, time + step, crossings + crossed.sum()
    assert crossings > 1000 and np.linalg.norm(problem.y - at.outputs()) < 1e-3 * size


def near_a_held_fit(seed, held=True):
    """Returns a fit with some pairs on or near kinks, and a network near it.

    The other pairs have the same patterns in both. The pairs and the random generator are returned too.
    """
    rng = np.random.default_rng(seed)
    x, w, a = rng.standard_normal((3, 5)), rng.standard_normal((4, 5)), rng.standard_normal(4)
    pairs = np.zeros((3, 4), bool)
    for r in range(3):
        i = int(rng.integers(3))
        pairs[i, r] = True
        w[r] += ((0 if held else 0.02) - w[r] @ x[i]) * x[i] / (x[i] @ x[i])
    fit = TwoLayer(a, w, x, 0.5)
    clear = np.abs(fit.z())[~pairs].min() / np.linalg.norm(x, axis=1).max()
    away = rng.standard_normal(24)
    network = fit.moved(min(0.9 * clear, rng.uniform(0, 0.5)) * away / np.linalg.norm(away))
    assert ((network.z() > 0) == (fit.z() > 0))[~pairs].all()
    return fit, network, pairs, rng


@given(st.integers(0, 10**6), st.floats(0.01, 1.9))
def test_one_step_keeps_to_the_lemma_with_pairs_held(seed, length):
    """One step satisfies the lemma, whatever derivative is chosen at a kink.

    The lemma says that |e+|^2 <= |e|^2 - (eps/2) sum eta r^2 + sum eta L^2 |e|^4 / (2 eps).
    """
    fit, network, pairs, rng = near_a_held_fit(seed)
    # About half of these pairs are on their kinks in `network` too.
    for i, r in np.argwhere(pairs & (rng.random(pairs.shape) < 0.5)):
        network.w[r] -= network.w[r] @ network.x[i] / (network.x[i] @ network.x[i]) * network.x[i]
    at_kink = np.abs(network.z()) < 1e-12
    on = np.where(at_kink, rng.random(pairs.shape), network.z() > 0)
    r, e, j = fit.outputs() - network.outputs(), fit.to(network), network.jacobian(on)
    eta = length / np.linalg.norm(j, 2) ** 2 * rng.random(3) * (rng.random(3) < 0.7)
    eps = 2 - np.linalg.norm(np.sqrt(eta)[:, None] * j, 2) ** 2
    after = e + j.T @ (eta * r)
    bound = e @ e - eps / 2 * eta @ r**2 + eta @ network.curvature() ** 2 * (e @ e) ** 2 / (2 * eps)
    assert after @ after <= bound * (1 + 1e-12) + 1e-11
    assert (np.abs(r + j @ e) <= network.curvature() * (e @ e) / 2 * (1 + 1e-9) + 1e-11).all()


def test_the_lemma_needs_the_fit_to_have_the_pairs_on_their_kinks():
    beyond = 0
    for seed in range(200):
        fit, network, _, _ = near_a_held_fit(seed, held=False)
        r, e = fit.outputs() - network.outputs(), fit.to(network)
        beyond += (np.abs(r + network.jacobian() @ e) > network.curvature() * (e @ e) / 2 * 1.01).any()
    assert beyond > 10
