"""Tests of `certify_rounds` for methods with memory: rounds stay within the claims, and bad input is refused.

The inequalities are those of the proof.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from small_networks import module, near

from bounds.deep.cases.method_rounds import KINDS, MethodRun, method_case
from ntkfl import Estimate, Setup
from ntkfl.any_order.method_certificate import round_matrices
from ntkfl.balls import ball, precision
from ntkfl.gram.spectrum import largest_eigenvalue
from ntkfl.smooth_networks import certify_rounds
from ntkfl.smooth_networks.rounds import (
    ClientModels,
    LinearRounds,
    Steps,
    _balance,
    _candidates,
    _measured,
    method_inequalities,
)
from ntkfl.smooth_networks.window import Failed, Rounds
from ntkfl.training.methods import build
from ntkfl.training.objectives import HalfSquares

OWNER = np.array([0, 0, 1])


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_method_keeps_to_its_certificate(kind):
    case = method_case(3, kind, 0.97, "fc:2:gelu", 24, 3, 0.4)
    proved, known = case.certificate, case.known.linear
    assert proved.certified, proved.why
    run, x = MethodRun(case), np.random.default_rng(1).standard_normal((4, 4))
    claimed = proved.enclosure(x)
    for t in range(1, 9):
        run.round()
        assert run.sizes[t] <= proved.rate**t * known.fit_factor * known.start
        now = case.model.outputs(case._named(run.at), run.at.new_tensor(x)).numpy()
        assert (claimed.lo <= now).all() and (now <= claimed.hi).all()
    assert 0.1 * proved.reach < run.moved <= proved.reach
    assert known.rate <= proved.rate < 1
    for outcome in (str(proved), str(replace(proved, certified=False, rounds=None))):
        assert all(len(sentence.split()) <= 25 for sentence in outcome.splitlines()[:2])


def recomputed(steps, linear, turn, radius, ratio):
    """Returns q and delta + d V_0 of docs/proofs/any_method.md, computed in float64 with this lambda.

    Returns None if the step is too long.
    """
    tau, eta, mu, name = turn * radius, steps.local, steps.pull, steps.name
    if not eta * mu < 1 or any(eta * c.root**2 > 2 * (1 - eta * mu) for c in linear.clients):
        return None
    n, w, us, psis, way = len(linear.clients), ratio, [], [], 0.0
    omega = {"scaffold": 2 * (n - 1) / n * w, "feddyn": w}.get(name, 0.0)
    for c in linear.clients:
        u, psi = [0.0], []
        for k, left in enumerate(c.left):
            psi.append(tau * ((c.root + tau) * (c.moved[k] + u[k]) + left + c.root * u[k]))
            u.append((1 - eta * mu) * u[k] + eta * (omega + psi[k]))
        way = max(way, *(m + v for m, v in zip(c.moved, u, strict=True)))
        us.append(u)
        psis.append(psi)
    count, roots = len(psis[0]), [c.root for c in linear.clients]
    mean, beta, rest = sum(c.share * u[-1] for c, u in zip(linear.clients, us, strict=True)), 0.0, 0.0
    bent = steps.server * mean
    falls = [(1 - eta * mu) ** (count - 1 - k) for k in range(count)]
    if name == "fedavgm":
        rest = steps.momentum * w + mean
        bent = steps.server * (mean + steps.momentum * rest if steps.variant else rest)
    elif name == "scaffold":
        bent = steps.server / n * sum(u[-1] for u in us)
        rest = max(psi[0] if steps.variant else np.mean(psi) for psi in psis)
        if not steps.variant:
            beta = np.sqrt(sum((g / count * sum(u[:-1])) ** 2 for g, u in zip(roots, us, strict=True)))
    elif name == "feddyn":
        bent = sum(2 * u[-1] + w / mu for u in us) / n
        rest = (1 - eta * mu) ** count * w + max(mu * eta * np.dot(falls, psi) for psi in psis)
        beta = np.sqrt(sum((mu * eta * g * np.dot(falls, u[:-1])) ** 2 for g, u in zip(roots, us, strict=True)))
    move = linear.move + bent
    state = linear.rate + linear.outputs * bent + linear.residuals * tau * move + linear.memory * beta
    rate = max(state, rest / w) if name in ("fedavgm", "scaffold", "feddyn") else state
    v = linear.start
    delta = linear.fit + linear.fit_factor * v + tau * radius / (2 * linear.least_root) + bent * v / (1 - rate)
    return rate, delta + max(way, move) * v


METHODS = [
    ("fedprox", 0.3, 0.0, False),
    ("fedavgm", 0.0, 0.6, False),
    ("fedavgm", 0.0, 0.6, True),
    ("scaffold", 0.0, 0.0, False),
    ("scaffold", 0.0, 0.0, True),
    ("feddyn", 0.8, 0.0, False),
]
LINEAR = LinearRounds(
    least_root=0.7,
    start=1e-3,
    fit=1.4e-3,
    rate=0.8,
    fit_factor=1.3,
    move=0.6,
    outputs=1.5,
    residuals=1.1,
    memory=0.9,
    clients=(
        ClientModels(0.4, 1.1, (0.0, 0.3, 0.5), (1.0, 0.8)),
        ClientModels(0.6, 0.8, (0.0, 0.2, 0.4), (0.9, 0.7)),
    ),
)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25, deadline=None)
@given(st.floats(0, 2), st.floats(0.004, 0.1), st.floats(0.05, 1.4), st.floats(0.5, 1.3))
def test_the_inequalities_are_those_of_the_proof(method, turn, radius, eta, server):
    name, pull, momentum, variant = method
    steps = Steps(name, eta, pull, server, momentum, variant)
    proved = method_inequalities(steps, LINEAR, turn, radius)
    with precision():
        ratio = _balance(steps, LINEAR, ball(turn) * ball(radius))
    exact = recomputed(steps, LINEAR, turn, radius, ratio)
    if exact is None:
        assert isinstance(proved, Failed) and re.match("the local step .* is too long", proved.why)
        return
    rate, reach = exact
    if isinstance(proved, Failed):
        assert rate >= 1 - 1e-12 or reach >= radius * (1 - 1e-12)
        return
    assert (proved.rate, proved.reach) == pytest.approx(exact, rel=1e-9)
    assert proved.rate >= rate * (1 - 1e-12) and reach < radius
    for other in np.logspace(-6, 2, 30):  # No other lambda gives a better rate.
        assert recomputed(steps, LINEAR, turn, radius, other)[0] >= rate * (1 - 1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("turn", (1e80, 1e150, 1e200, 1e250))
def test_a_ball_beyond_float64_is_refused_without_a_warning(method, turn):
    name, pull, momentum, variant = method
    assert isinstance(method_inequalities(Steps(name, 0.3, pull, 1.0, momentum, variant), LINEAR, turn, 1.0), Failed)


@pytest.mark.parametrize("method", METHODS)
def test_each_number_counts(method):
    name, pull, momentum, variant = method
    steps, proved = Steps(name, 0.3, pull, 1.0, momentum, variant), []

    def looked(linear, turn=0.05):
        judged = method_inequalities(steps, linear, turn, 0.05)
        assert isinstance(judged, Rounds), judged
        return judged.rate, judged.reach

    proved = looked(LINEAR)
    numbers = [field for field in vars(LINEAR) if field not in ("clients", "memory")]
    uses_memory = name == "feddyn" or (name == "scaffold" and not variant)
    for field in numbers + ["memory"] * uses_memory:
        worse = looked(replace(LINEAR, **{field: getattr(LINEAR, field) * (0.98 if field == "least_root" else 1.02)}))
        assert max(worse[0] - proved[0], worse[1] - proved[1]) > 0 and worse[1] >= proved[1], field
    one = LINEAR.clients[0]
    for changed in (replace(one, root=1.2), replace(one, moved=(0.0, 0.3, 0.9)), replace(one, left=(1.1, 0.8))):
        assert looked(replace(LINEAR, clients=(changed, LINEAR.clients[1])))[1] > proved[1]
    assert looked(LINEAR, 0.06)[0] > proved[0]


@pytest.mark.parametrize("kind", [("fedavgm", {"momentum": 0.6}), ("scaffold", {}), ("feddyn", {"alpha": 0.8})])
def test_the_numbers_of_the_linear_model_are_enclosed_and_sharp(kind):
    name, options = kind
    a = np.random.default_rng(4).standard_normal((3, 9))
    kernel, method = Estimate.exact(a @ a.T / 9), build(name, HalfSquares("sum"), **options)
    maps = round_matrices(method, kernel, OWNER, 0.3, 2)
    start = Estimate.exact(np.random.default_rng(5).standard_normal(6))
    blocks = [np.flatnonzero(OWNER == c) for c in range(2)]
    roots = [float(np.sqrt(largest_eigenvalue(kernel[np.ix_(m, m)]).hi)) for m in blocks]
    clients = list(zip(blocks, (0.5, 0.5), roots, strict=True))
    k = kernel.value
    inverse = np.linalg.inv(k)
    spectral = np.abs(np.linalg.eigvals(maps.state.value)).max()
    for s in list(_candidates(maps, k, spectral))[-3:]:
        proved = _measured(maps, kernel, start, clients, 0.1, s, enclosed=True)
        assert isinstance(proved, LinearRounds), proved
        x = np.linalg.inv(s)

        def farthest(matrix, metric, x=x):
            """Returns the root of the largest v' metric v over v = matrix z with |S z| = 1."""
            image = matrix @ x
            return np.sqrt(np.linalg.eigvalsh(image.T @ metric @ image)[-1])

        r = np.eye(6)[:3]
        exact = {
            "rate": farthest(maps.state.value, s.T @ s),
            "fit_factor": farthest(r, inverse),
            "move": farthest(r - maps.state.value[:3], inverse),
            "outputs": np.sqrt(np.linalg.eigvalsh(a.T / 3 @ s[:, :3].T @ s[:, :3] @ a / 3)[-1]),
            "residuals": np.linalg.norm(s[:, :3], 2),
            "memory": np.linalg.norm(s[:, 3:], 2),
            "start": np.linalg.norm(s @ start.value),
            "fit": np.sqrt(start.value[:3] @ inverse @ start.value[:3]),
        }
        for field, value in exact.items():
            assert value * (1 - 1e-12) <= getattr(proved, field) <= value * (1 + 1e-7), field
        for c, client in enumerate(proved.clients):
            models = [maps.models[0].value, maps.models[1 + c].value, maps.ends[c].value]
            ways = [farthest(r - of, inverse) if k else 0.0 for k, of in enumerate(models)]
            left = [farthest(of[blocks[c]], np.eye(len(blocks[c]))) for of in models[:2]]
            np.testing.assert_allclose(client.moved, ways, rtol=1e-7)
            np.testing.assert_allclose(client.left, left, rtol=1e-7)


def test_a_memory_from_before_and_what_is_refused():
    net = module(1)
    problem = replace(near(net, 3, 1e-4, 0), owner=OWNER)
    setup = Setup(eta_local=0.05, local_steps=2)

    def certified(**asked):
        return certify_rounds(net, None, problem, setup, **asked)

    empty = certified(method="fedavgm", options={"momentum": 0.5})
    assert empty.certified and empty.needed_residual == empty.residual.hi and empty.to_dict()["method"] == "fedavgm"
    with_one = certified(method="fedavgm", options={"momentum": 0.5}, remembered=np.full(3, 1e-5))
    assert with_one.certified and with_one.reach > empty.reach
    too_much = certified(method="fedavgm", options={"momentum": 0.5}, remembered=np.full(3, 1e3))
    assert not too_much.certified and too_much.needed_residual is None
    long = certify_rounds(net, None, problem, Setup(eta_local=1e3), method="scaffold")
    assert not long.certified and "spectral radius" in long.why and str(long).startswith("NOT CERTIFIED for rounds of")
    averaged = certified(method="fl-ntk")
    assert averaged.rate == certified().rate and averaged.method == "fl-ntk"
    for asked, said in (
        ({"method": "fednova"}, "the method is fednova; this certificate covers"),
        ({"method": "scaffold", "shares": (0.5, 0.5)}, "scaffold has its own"),
        ({"options": {"mu": 1}}, "options and remembered are of a method"),
        ({"remembered": np.zeros(3)}, "options and remembered are of a method"),
        ({"method": "fedprox", "options": {"mu": 0.1}, "remembered": np.zeros(3)}, "fedprox remembers nothing"),
        ({"method": "scaffold", "remembered": np.zeros(2)}, "must be that of the labels"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            certified(**asked)
