"""Tests of the study of deep networks of growing widths.

One cell (one measurement of the study) is compared with a plain loop. From invented cells with known powers these
powers are recovered, and a claim of another power is violated. The study takes networks of any shape.
"""

from functools import cache
from unittest.mock import Mock

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from experiments.studies.grid import chosen_grid
from experiments.studies.questions import deep_width_scaling
from experiments.studies.questions.deep_width_scaling import (
    NETWORKS,
    QUANTITIES,
    ROUNDS,
    STEPS,
    STUDY,
    limit,
    measure,
    problem,
)
from ntkfl.training import engine_trajectory
from ntkfl.training.models.wide_networks import WideNetwork

WIDTH, SEED = 16, 3


def kernel_of_depth_3(x, z):
    """Returns ReLU's limit kernel at depth 3, with the arc-cosine kernels written out layer by layer."""
    norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(z, axis=1)

    def averages(inner):
        angle = np.arccos(np.clip(inner / norms, -1, 1))
        return norms * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi), (np.pi - angle) / (2 * np.pi)

    first, slope = averages(x @ z.T)
    second, steeper = averages(2 * first)
    return second + steeper * (2 * first + 2 * slope * (x @ z.T))


def forward(params, x):
    """Returns the outputs of a network with two hidden layers of ReLU, and each output's gradient in all parameters,
    (n, P).
    """
    one, two, out = params
    h = x @ one.T
    g = np.sqrt(2 / WIDTH) * np.maximum(h, 0) @ two.T
    back = (g > 0) * out / np.sqrt(WIDTH)
    deeper = np.sqrt(2 / WIDTH) * (back @ two) * (h > 0)
    parts = (
        deeper[:, :, None] * x[:, None],
        np.sqrt(2 / WIDTH) * back[:, :, None] * np.maximum(h, 0)[:, None],
        np.maximum(g, 0) / np.sqrt(WIDTH),
    )
    return np.maximum(g, 0) @ out / np.sqrt(WIDTH), np.concatenate([part.reshape(len(x), -1) for part in parts], axis=1)


def unflat(theta, like):
    parts = np.split(theta, np.cumsum([layer.size for layer in like])[:-1])
    return [part.reshape(layer.shape) for part, layer in zip(parts, like, strict=True)]


def function_space(h, r0, eta):
    """Returns the outputs of each round, from round 0 on; all clients' steps change coefficients of the samples."""
    c, rows = np.zeros(len(r0)), []
    for _ in range(ROUNDS + 1):
        rows.append(h @ c)
        turn = np.zeros_like(c)
        for own in problem().members:
            mine = np.zeros(len(own))
            for _ in range(STEPS):
                mine = mine + eta * (r0[own] - h[own] @ c - h[np.ix_(own, own)] @ mine)
            turn[own] = mine / problem().n_clients
        c = c + turn
    return np.array(rows), c - turn


def test_a_cell_is_what_a_plain_loop_finds():
    """At depth 3 a cell agrees with a plain loop.

    The loop computes gradients by hand and takes the clients' steps. The loop trains both kernel regimes in function
    space.
    """
    measured = measure({"network": "fc:3:relu", "width": WIDTH, "seed": SEED})
    entropy = np.random.SeedSequence((SEED, WIDTH, *b"fc:3:relu")).generate_state(1, np.uint64)[0] >> 1
    drawn = WideNetwork("fc", 3, "relu").model((problem().d,), WIDTH).initial(int(entropy))
    params = [drawn[name].numpy() for name in ("layer1.weight", "layer2.weight", "readout.weight")]
    x, z, r0 = problem().x, problem().x_test, problem().y
    h = kernel_of_depth_3(x, x)
    blocks = [np.linalg.eigvalsh(h[np.ix_(own, own)])[-1] for own in problem().members]
    eta = deep_width_scaling.SHARE * 2 / max(blocks)
    start, jacobian = forward(params, x)
    theta, before = np.concatenate([layer.ravel() for layer in params]), forward(params, z)[0]
    moved, kernel = [], jacobian @ jacobian.T
    for t in range(ROUNDS + 1):
        moved.append(forward(unflat(theta, params), x)[0] - start)
        if t == ROUNDS:
            break
        steps = np.zeros_like(theta)
        for own in problem().members:
            local = theta.copy()
            for _ in range(STEPS):
                outputs, gradient = forward(unflat(local, params), x[own])
                local = local + eta * (start[own] + r0[own] - outputs) @ gradient
            steps += (local - theta) / problem().n_clients
        theta = theta + steps
    _, jacobian = forward(unflat(theta, params), x)
    in_limit, coefficients = function_space(h, r0, eta)
    size, scale = np.linalg.norm(r0), np.linalg.norm(h)

    def furthest(regime):
        return max(np.linalg.norm(outputs - other) for outputs, other in zip(moved, regime, strict=True)) / size

    off = forward(unflat(theta, params), z)[0] - before - kernel_of_depth_3(z, x) @ coefficients
    expected = {
        "kernel": np.linalg.norm(kernel - h) / scale,
        "limit": furthest(in_limit),
        "prediction": np.sqrt((off**2).mean()),
        "own": furthest(function_space(kernel, r0, eta)[0]),
        "drift": np.linalg.norm(jacobian @ jacobian.T - kernel) / scale,
        "residual": [np.linalg.norm(r0 - change) / size for change in moved],
    }
    assert set(measured) == set(expected)
    for name, value in expected.items():
        assert measured[name] == pytest.approx(value, rel=1e-8), name


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("network", ["fc:2:relu", "fc:4:relu", "fc:4:erf"])
def test_the_limit_is_that_of_the_networks(network):
    """The mean kernel of drawn networks agrees with the limit.

    The mean kernel differs from the limit by no more than chance and a bias of order 1/m explain. The test compares the
    norm of the difference, which bounds the difference in each direction.
    """
    from ntkfl import gram

    model = WideNetwork.named(network)[0].model((problem().d,), 256)
    drawn = np.array([gram.empirical(problem().x, model, model.initial(seed)) for seed in range(40)])
    spread = np.sqrt(((drawn - drawn.mean(axis=0)) ** 2).sum(axis=(1, 2)).mean() / (len(drawn) - 1))
    assert np.linalg.norm(drawn.mean(axis=0) - limit(network).gram) < 3 * spread
    assert 3 * spread < 0.2 * np.linalg.norm(limit(network).gram)


def test_the_steps_are_stable_and_the_residual_falls():
    for network in NETWORKS:
        assert limit(network).step_warning is None and limit(network).rate < 1, network
        falls = np.linalg.norm(limit(network).residual(np.arange(ROUNDS + 1)), axis=1)
        assert np.all(np.diff(falls) < 0) and falls[-1] < 0.5 * falls[0], network


def test_no_two_cells_share_random_numbers(monkeypatch):
    seeds = []

    class Watched:
        def initial(self, seed):
            seeds.append(seed)
            raise InterruptedError

    for network in NETWORKS:
        # To compute a limit, networks are drawn too. So all limits are computed before draws are recorded.
        limit(network)
    monkeypatch.setattr(WideNetwork, "model", lambda *_: Watched())
    points = [(name, width, seed) for name in NETWORKS for width in STUDY.axes[1].values for seed in range(20)]
    for network, width, seed in points:
        with pytest.raises(InterruptedError):
            measure({"network": network, "width": width, "seed": seed})
    assert len({seed % 2**32 for seed in seeds}) == len(points)  # torch's generator uses 32 bits of a seed.


def test_a_run_that_overflows_is_infinitely_far_and_leaves_the_power_open(monkeypatch):
    monkeypatch.setattr(engine_trajectory, "network_trajectory", Mock(side_effect=FloatingPointError))
    point = {"network": "fc:2:erf", "width": WIDTH, "seed": 0}
    measured = measure(point)
    assert np.isfinite(measured.pop("kernel")) and all(np.isinf(value).all() for value in measured.values())
    cells = planted(STUDY, lambda p: cell(p) | measured if p["width"] == 64 and p["seed"] == 0 else cell(p))
    outcomes = {answer.claim: answer.outcome for answer in STUDY.answers(cells)}
    assert {outcome for claim, outcome in outcomes.items() if "hidden" in claim or "H_inf|_F / |H" in claim} == {
        Outcome.HOLDS
    }
    assert {outcome for claim, outcome in outcomes.items() if claim.startswith("max")} == {Outcome.UNRESOLVED}
    assert tuple(STUDY.charts(cells))


def cell(point, powers=None):
    """Returns an invented cell: its distances have the powers of theory, grow with the square root of the number of
    hidden layers, and have noise.
    """
    rng = np.random.default_rng([2, point["width"], point["seed"], *point["network"].encode()])
    layers = int(point["network"].split(":")[1]) - 1
    theory = deep_width_scaling.POWER | (powers or {})
    measured = {
        name: 0.6 * (layers / point["width"] * rng.lognormal(sigma=0.2)) ** 0.5
        * point["width"] ** (theory[name] + 0.5)
        for name in QUANTITIES
    }  # fmt: skip
    return measured | {"residual": list(0.9 ** np.arange(ROUNDS + 1.0))}


@cache
def as_planted():
    return STUDY.answers(planted(STUDY, cell))


def test_planted_powers_hold_and_wrong_ones_are_violated():
    answers = as_planted()
    assert len(answers) == 5 * (2 + len(NETWORKS)) + 2
    assert {answer.outcome for answer in answers} == {Outcome.HOLDS}
    wrong = STUDY.answers(planted(STUDY, lambda point: cell(point, {"limit": 0.0, "own": 0.0, "drift": -0.3})))
    violated = {answer.claim for answer in wrong if answer.outcome is Outcome.VIOLATED}
    claims = [answer.claim for answer in wrong]
    expected = {claim for claim in claims if "y_inf" in claim or "y_own" in claim}
    assert violated == expected | {claim for claim in claims if "H_m(T)" in claim and "m^(-1)" in claim}


def test_what_bends_is_said_with_its_widest_rungs():
    answers = [answer for answer in as_planted() if "or faster" in answer.claim]
    assert len(answers) == 2 * 6 and all("relu" in answer.claim and answer.theory is None for answer in answers)
    assert all("over the widest 4; no single power" in answer.note for answer in answers)


def test_networks_together_have_the_power_of_each_whatever_their_size():
    """All networks together give the power that each network has.

    This holds even if all distances of one network are a thousand times larger.
    """

    def far(point):
        factor = 1000 if point["network"] == "fc:6:erf" else 1
        return {name: factor * np.asarray(value) for name, value in cell(point).items()}

    plain, scaled = (
        {answer.claim: answer.measured for answer in answers if "(hid" not in answer.claim}
        for answers in (as_planted(), STUDY.answers(planted(STUDY, far)))
    )
    for claim, measured in plain.items():
        assert scaled[claim].value == pytest.approx(measured.value, abs=1e-9), claim


def test_missing_cells_and_other_networks():
    gone = {(512, seed) for seed in range(5)} | {(768, seed) for seed in range(20)}
    networks = ("fc:3:gelu", "fc:2:gelu", "conv:3:relu")
    cells = planted(STUDY, lambda p: None if (p["width"], p["seed"]) in gone else cell(p), network=networks)
    answers = STUDY.answers(cells)
    assert len(answers) == 5 * (1 + 3) + 2
    assert [answer.outcome for answer in answers[:-2]] == [Outcome.HOLDS] * 20
    # One of the two answers has two depths, the other has one depth.
    assert {answer.outcome for answer in answers[-2:]} == {Outcome.UNTESTED}
    few = STUDY.answers(planted(STUDY, cell, width=(64, 128, 256)))
    assert {answer.outcome for answer in few[:-2]} == {Outcome.UNTESTED}


def test_charts_show_every_network_and_runs_beside_the_limit():
    widths, exponents, depths, runs = STUDY.charts(planted(STUDY, cell, seed=(0, 1)))
    assert [series.name for series in widths.panels[0].series] == [*NETWORKS[:5], "m^(-0.5)"]
    # This is the panel for ReLU of the quantity "own".
    assert [series.name for series in widths.panels[6].series][5:] == ["m^(-1)", "m^(-0.5)"]
    assert [series.name for series in widths.panels[7].series][5:] == ["m^(-1)"]
    assert exponents.panels[0].x.names == NETWORKS
    assert [panel.title for panel in depths.panels] == ["fc:L:relu", "fc:L:erf"]
    assert [series.name for series in runs.panels[0].series] == ["m = 64", "m = 256", "m = 768", "infinite width"]
    assert runs.panels[1].series[-1].y[0] == 1.0


def test_any_network_in_ntk_parametrisation_may_be_given():
    (networks, *_) = chosen_grid("deep-width-scaling", {"networks": "fc:3:gelu:bias=0.10,fc:2:relu,conv:3:relu"}).axes
    assert networks.values == ("fc:3:gelu:bias=0.1", "fc:2:relu", "conv:3:relu")
    for word, said in (
        ("fc:3:relu:512", "with the width 512; widths are given by --widths"),
        ("fc:3:relu:standard", "the same function as fc:3:relu"),
        ("fc:3:rleu", "relu"),
        ("fc:1:relu", "at least 2"),
        ("mlp:3", "it must be 'fc' or 'conv'|not understood"),
    ):
        with pytest.raises(ValueError, match=said):
            chosen_grid("deep-width-scaling", {"networks": word})
