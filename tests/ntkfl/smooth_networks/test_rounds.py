"""Tests of `certify_rounds`: rounds stay within its claims, its inequalities are those of the proof, bad input is
refused.

The notation is that of docs/proofs/smooth_networks.md.
"""

import re
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from small_networks import hessians, jacobian, module, near, outputs, trained
from torch import nn

from ntkfl import Estimate, Problem, Setup
from ntkfl.smooth_networks import certify_rounds
from ntkfl.smooth_networks.reading import layers_of
from ntkfl.smooth_networks.rounds import GROWN, Client, RoundStart, _work, inequalities
from ntkfl.smooth_networks.window import Failed, Rounds

OWNER = np.array([0, 0, 0, 1, 2])
SHARES = (0.5, 0.4, 0.2)


def problem_near(net, residual, seed=0):
    return replace(near(net, len(OWNER), residual, seed), owner=OWNER)


def longest_step(net, problem):
    layers = layers_of(net, None)
    j = jacobian(layers, trained(layers), problem.x)
    blocks = [j[np.flatnonzero(problem.owner == c)] for c in range(3)]
    return float(1 / max(torch.linalg.eigvalsh(block @ block.T)[-1] for block in blocks))


def one_round(layers, theta, problem, setup, shares):
    """Returns the server's model after a round, and all models within the round."""
    y, ends, seen = torch.tensor(problem.y), [], []
    for c, share in enumerate(shares):
        at, mine = theta, np.flatnonzero(problem.owner == c)
        for _ in range(setup.local_steps):
            j, f = jacobian(layers, at, problem.x[mine]), outputs(layers, at, problem.x[mine])
            at = at + setup.eta_local * j.T @ (y[mine] - f)
            seen.append(at)
        ends.append(share * (at - theta))
    return theta + setup.eta_global * sum(ends), seen


def size(layers, theta, problem, setup, shares):
    """Returns the size phi of the residual r, which is (r' D r)^(1/2)."""
    j, r = jacobian(layers, theta, problem.x), torch.tensor(problem.y) - outputs(layers, theta, problem.x)
    total = 0.0
    for c, share in enumerate(shares):
        mine = np.flatnonzero(problem.owner == c)
        z = torch.eye(len(mine), dtype=torch.float64) - setup.eta_local * j[mine] @ j[mine].T
        q = setup.eta_local * sum(torch.linalg.matrix_power(z, k) for k in range(setup.local_steps))
        total = total + share * r[mine] @ q @ r[mine]
    return float(total) ** 0.5


@pytest.mark.parametrize(("steps", "part", "server"), [(1, 1.5, 1.0), (2, 0.8, 1.2), (6, 0.3, 1.0)])
@pytest.mark.parametrize("activation", [nn.Tanh, nn.Softplus])
def test_rounds_keep_to_the_certificate(activation, steps, part, server):
    net = module(1, activation=activation)
    far = problem_near(net, 0.1)
    setup = Setup(eta_local=part * longest_step(net, far), local_steps=steps, eta_global=server)
    needed = certify_rounds(net, None, far, setup, shares=SHARES).needed_residual
    problem = problem_near(net, 0.98 * needed)
    proved = certify_rounds(net, None, problem, setup, shares=SHARES)
    assert proved.certified, proved.why
    layers = layers_of(net, None)
    start = theta = trained(layers)
    probes = np.random.default_rng(1).standard_normal((5, problem.d))
    claimed, before = proved.enclosure(probes), size(layers, theta, problem, setup, SHARES)
    for _ in range(4):
        theta, seen = one_round(layers, theta, problem, setup, SHARES)
        after = size(layers, theta, problem, setup, SHARES)
        assert after <= proved.rate * before
        assert max(float((at - start).norm()) for at in (theta, *seen)) <= proved.reach
        now = outputs(layers, theta, probes).numpy()
        assert (claimed.lo <= now).all() and (now <= claimed.hi).all()
        before = after
    assert proved.last_rate <= proved.rate < 1
    for outcome in (str(proved), str(certify_rounds(net, None, far, setup, shares=SHARES))):
        assert all(len(sentence.split()) <= 25 for sentence in outcome.splitlines()[:2])


def test_the_rate_is_that_of_the_linear_model_close_to_a_fit():
    """Close to a fit the certified rate is nearly the rate of the linear model.

    The rate of the linear model is the spectral radius of its round map. The residual is along the slowest direction
    and 1000 times smaller than needed. A round attains the rate.
    """
    net = module(1)
    far = problem_near(net, 0.1)
    setup = Setup(eta_local=0.5 * longest_step(net, far), local_steps=3)
    needed, layers = certify_rounds(net, None, far, setup).needed_residual, layers_of(net, None)
    theta = trained(layers)
    j = jacobian(layers, theta, far.x)
    z = np.zeros((5, 5))
    for c in range(3):
        mine = np.flatnonzero(OWNER == c)
        k = (j[mine] @ j[mine].T).numpy()
        z[np.ix_(mine, mine)] = _work(Estimate.exact(k), setup.eta_local, 3).value / 3
    map_ = np.eye(5) - (j @ j.T).numpy() @ z
    values, vectors = np.linalg.eig(map_)
    slowest = np.real(vectors[:, np.argmax(np.abs(values))])
    f = outputs(layers, theta, far.x).numpy()
    problem = replace(far, y=f + 1e-3 * needed * slowest)
    proved = certify_rounds(net, None, problem, setup)
    radius = float(np.abs(values).max())
    assert radius <= proved.last_rate <= proved.rate < radius + 0.01 * (1 - radius)
    shares = (1 / 3,) * 3
    later, _ = one_round(layers, theta, problem, setup, shares)
    ratio = size(layers, later, problem, setup, shares) / size(layers, theta, problem, setup, shares)
    assert ratio == pytest.approx(radius, abs=0.01 * (1 - radius))


START = RoundStart(0.4, 5e-4, 0.03, 0.6, (Client(0.5, 1.5), Client(0.3, 2.0)), 0.15, 3, 1.1)


@pytest.mark.parametrize(("step", "shares"), [(1e-200, SHARES), (0.1, (1.0, 1e-300, 1.0))])
def test_steps_and_shares_too_small_for_float64_certify_nothing(step, shares):
    problem = problem_near(module(1), 1e-4)
    proved = certify_rounds(module(1), None, problem, Setup(eta_local=step, local_steps=2), shares=shares)
    assert not proved.certified and proved.why


def recomputed(start, turn, radius):
    """Returns the rate, nu and the left side of the last hypothesis of docs/proofs/smooth_networks.md, in 60 digits."""
    with mpmath.workdps(60):
        m = mpmath.mpf
        tau, eta, k, phi, gamma, zeta = (
            m(turn) * radius,
            m(start.step),
            start.steps,
            m(start.size),
            m(start.server),
            m(GROWN),
        )
        if tau >= start.least_root:
            return None
        roots = [(m(c.share), m(c.root) + tau) for c in start.clients]
        if any(eta * g**2 > 1 if k > 1 else eta * g**2 >= 2 for _, g in roots):
            return None
        h = eta * (k - 1)
        w = [zeta**2 * m(turn) * mpmath.sqrt(h) * (2 + mpmath.sqrt(h) * g) for _, g in roots]
        if k > 1 and any(
            max(wc, 2 * zeta**2 * h * g * turn) * phi / mpmath.sqrt(p) > zeta - 1
            for wc, (p, g) in zip(w, roots, strict=True)
        ):
            return None
        beta, t = max(2 * h * g * tau for _, g in roots), 1 - tau / start.least_root
        low = t**2 * mpmath.exp(-beta) * start.lowest
        high = (2 - t) ** 2 * mpmath.exp(beta) * start.highest
        omega, eps = max(w), 2 - gamma * high
        big = gamma * (mpmath.sqrt(high) + omega * phi)
        y = gamma * mpmath.sqrt(high) * omega + m(turn) * big**2 * mpmath.sqrt(max(p * eta * k for p, _ in roots)) / 2
        x = (mpmath.exp(max(h * g * turn * big * phi for _, g in roots)) - 1) / phi
        nu = max(1 - gamma * low, gamma * high - 1)
        g = eps / 2 - (x + (1 + x * phi) * y) * phi / (gamma * low)
        if eps <= 0 or g <= 0:
            return None
        own = max((zeta if k > 1 else mpmath.sqrt(eta) * root) / mpmath.sqrt(p) for p, root in roots) * phi
        side = (1 + omega * phi / mpmath.sqrt(low)) * phi / (mpmath.sqrt(low) * g) + own
        return [float(v) for v in (min((1 + x * phi) * (nu + y * phi), 1 - gamma * low * g), nu, side)]


@settings(max_examples=100)
@given(
    st.floats(0.1, 1),
    st.floats(1e-6, 3e-2),
    st.floats(0.01, 0.2),
    st.floats(1, 10),
    st.lists(st.tuples(st.floats(0.1, 1), st.floats(0.5, 2.5)), min_size=1, max_size=3),
    st.floats(0.02, 0.4),
    st.integers(1, 6),
    st.floats(0.5, 1.5),
    st.floats(0.1, 10),
    st.floats(0.5, 8),
)
def test_the_inequalities_are_those_of_the_proof(least, phi, low, ratio, clients, step, steps, server, turn, wider):
    start = RoundStart(least, phi, low, low * ratio, tuple(Client(*c) for c in clients), step, steps, server)
    radius = wider * phi / np.sqrt(low)
    proved, exact = inequalities(start, turn, radius), recomputed(start, turn, radius)
    if isinstance(proved, Failed):
        assert exact is None or exact[2] >= radius * (1 - 1e-12)
        if proved.larger:
            assert proved.larger == pytest.approx(exact[2], rel=1e-12)
        return
    assert exact is not None and exact[2] < radius
    np.testing.assert_allclose((proved.rate, proved.last_rate, proved.reach), exact, rtol=1e-12)
    assert proved.reach >= exact[2]


def test_an_example_holds_and_each_number_counts():
    proved = inequalities(START, 3.0, 0.015)
    assert isinstance(proved, Rounds) and recomputed(START, 3.0, 0.015) is not None
    worse = [
        replace(START, **{name: getattr(START, name) * factor})
        for name, factor in (("least_root", 0.99), ("size", 1.01), ("lowest", 0.99), ("highest", 1.01), ("step", 1.01))
    ]
    worse += [replace(START, clients=(START.clients[0], Client(0.3, 2.02)))]
    for start in worse:
        assert (
            inequalities(start, 3.0, 0.015).rate > proved.rate or inequalities(start, 3.0, 0.015).reach > proved.reach
        )
    assert inequalities(START, 3.1, 0.015).rate > proved.rate


@pytest.mark.parametrize(
    ("changed", "turn", "why"),
    [
        ({}, 40.0, "gradients may turn by 0.6 in the ball of radius 0.015"),
        ({"step": 0.3}, 3.0, "the step 0.3 is too long: with so many local steps it must be below 0.2"),
        ({"step": 0.6, "steps": 1}, 3.0, "the step 0.6 is too long: with so many local steps it must be below 0.4"),
        ({"size": 0.02}, 3.0, "second derivatives may move a client farther within a round than its kernel says"),
        ({"server": 3.5}, 3.0, "the server's step 3.5 is too long: below 3.33 would do"),
        ({"lowest": 0.001}, 3.0, "effects between rounds may outweigh a round's gain"),
        ({"size": 1e-3}, 3.0, "models may move farther than 0.015"),
        ({"size": np.inf}, 3.0, "the bounds overflow"),
    ],
)
def test_what_fails_is_said(changed, turn, why):
    proved = inequalities(replace(START, **changed), turn, 0.015)
    assert isinstance(proved, Failed) and re.match(why, proved.why), proved


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 7), st.floats(0.05, 1.0))
def test_what_steps_of_a_client_do_is_enclosed(seed, steps, part):
    a = np.random.default_rng(seed).standard_normal((3, 4))
    kernel = a @ a.T
    step = part / np.linalg.eigvalsh(kernel)[-1]
    proved = _work(Estimate.exact(kernel), step, steps)
    exact = step * sum(np.linalg.matrix_power(np.eye(3) - step * kernel, k) for k in range(steps))
    assert (np.abs(proved.value - exact) <= proved.error + 1e-15).all() and proved.error.max() < 1e-12


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 6), st.floats(0.05, 1.0))
def test_a_clients_steps_keep_to_the_lemma(seed, steps, part):
    """A client's steps satisfy the lemma, |theta^K - theta - J' Q r| <= w v^2 and |theta^k - theta| <= zeta v.

    L_J is taken from sampled Hessians.
    """
    net = module(seed % 7, activation=nn.Tanh, width=6)
    problem = near(net, 3, 10.0 ** -(1 + seed % 3), seed)
    layers = layers_of(net, None)
    theta, y = trained(layers), torch.tensor(problem.y)
    j, r = jacobian(layers, theta, problem.x), y - outputs(layers, theta, problem.x)
    step = part / (1.2 * float(torch.linalg.matrix_norm(j, 2))) ** 2
    q = step * sum(torch.linalg.matrix_power(torch.eye(3) - step * j @ j.T, k) for k in range(steps))
    v = float((r @ q @ r) ** 0.5)
    at, way, turn, root = theta, [0.0], 0.0, 0.0
    for _ in range(steps):
        here = jacobian(layers, at, problem.x)
        root = max(root, float(torch.linalg.matrix_norm(here, 2)))
        turn = max(turn, float(torch.linalg.matrix_norm(hessians(layers, at, problem.x), 2).square().sum().sqrt()))
        at = at + step * here.T @ (y - outputs(layers, at, problem.x))
        way.append(float((at - theta).norm()))
    h, turn = step * (steps - 1), 1.2 * turn
    w = GROWN**2 * turn * h**0.5 * (2 + h**0.5 * root)
    if step * root**2 > 1 or max(w, 2 * GROWN**2 * h * root * turn) * v > GROWN - 1:
        return
    assert max(way) <= GROWN * v
    assert float((at - theta - j.T @ q @ r).norm()) <= w * v**2 * (1 + 1e-9) + 1e-13


def test_bad_shares_and_dependent_samples():
    net = module(1)
    problem = problem_near(net, 1e-4)
    for shares, said in (
        ((0.5, 0.5), "3 positive numbers"),
        ((1, 1, 0), "3 positive numbers"),
        ((1, np.nan, 1), "nan"),
    ):
        with pytest.raises(ValueError, match=said):
            certify_rounds(net, None, problem, Setup(), shares=shares)
    twice = Problem(np.ones((2, 4)), np.zeros(2), np.array([0, 1]))
    proved = certify_rounds(net, None, twice, Setup())
    assert not proved.certified and "samples 0 and 1" in proved.why and proved.needed_residual is None
    assert proved.rate == 1 and np.isinf(proved.reach) and proved.to_dict()["reach"] is None
    assert str(proved).startswith("NOT CERTIFIED for rounds of federated averaging: ")
    assert (proved.final(np.ones((2, 4))) == "open").all()
